"""Progress of a measurement: lines in a log, a bar in a terminal, and estimates that hold."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence

import pytest

from forgetwatch import progress as module
from forgetwatch.progress import Done, seconds, shown

BATCHES = 40


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


def measure(clock: Clock, took: float, **options: object) -> None:
    """A measurement of 2,000 items in batches of equal cost; the first batches have few items."""
    with shown("baseline", **options) as report:  # type: ignore[arg-type]
        if report is None:
            return
        clock.now += 1.0  # tokenizing
        report(Done(count=0, total=2000, share=0.0))
        for batch in range(1, BATCHES + 1):
            clock.now += took / BATCHES
            share = batch / BATCHES
            report(Done(count=round(2000 * share**2), total=2000, share=share))


def lines(capsys: pytest.CaptureFixture[str]) -> Sequence[str]:
    return [line.removeprefix("forgetwatch: ") for line in capsys.readouterr().err.splitlines()]


def test_the_estimate_after_two_batches_is_what_it_then_takes(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    started = clock.now
    measure(clock, 80.0, opening="baseline: standard, 2,000 items")
    first, estimate, *_ = lines(capsys)
    assert first == "baseline: standard, 2,000 items"
    # By items it would be 400 s: the first two batches have five items of 2,000.
    assert estimate == "baseline: 5 of 2,000 items in 5.0 s; about 81 s in all"
    assert clock.now - started == 81.0


def test_batches_that_disagree_give_no_estimate(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown("baseline") as report:
        assert report is not None
        report(Done(count=0, total=100, share=0.0))
        for took, share in (
            (8.0, 0.01),
            (1.0, 0.02),
            (1.0, 0.03),
            (1.0, 0.04),
            (1.0, 0.05),
            (1.0, 0.06),
        ):
            clock.now += took
            report(Done(count=round(100 * share), total=100, share=share))
    (line,) = lines(capsys)
    assert line == "baseline: 3 of 100 items in 10 s; about 6 min in all"  # 800 s, 450, then 333


def test_the_estimate_includes_the_second_measurement(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(clock, 80.0, repeat_share=0.25)
    assert (
        lines(capsys)[0]
        == "baseline: 5 of 2,000 items in 5.0 s; about 101 s in all, second measurement included"
    )


def test_a_log_has_a_line_every_ten_seconds_and_fewer_of_what_takes_long(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(clock, 80.0)
    assert lines(capsys)[1:] == [
        "baseline: 61 of 2,000 items, 15 s, about 66 s left",
        "baseline: 180 of 2,000 items, 25 s, about 56 s left",
        "baseline: 361 of 2,000 items, 35 s, about 46 s left",
        "baseline: 605 of 2,000 items, 45 s, about 36 s left",
        "baseline: 911 of 2,000 items, 55 s, about 26 s left",
        "baseline: 1,280 of 2,000 items, 65 s, about 16 s left",
        "baseline: 1,711 of 2,000 items, 75 s, about 6.0 s left",
    ]
    measure(clock, 8000.0)
    assert 20 < len(lines(capsys)) < BATCHES


def test_a_measurement_of_seconds_has_its_first_line_alone(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(clock, 3.0, opening="first")
    assert lines(capsys) == ["first"]


def test_a_short_look_is_silent_and_a_long_one_has_a_line_each_half_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(clock, 25.0, delay=5.0)
    assert lines(capsys) == []
    measure(clock, 80.0, delay=5.0)
    assert lines(capsys) == [
        "baseline: 281 of 2,000 items, 31 s, about 50 s left",
        "baseline: 1,125 of 2,000 items, 61 s, about 20 s left",
    ]


def test_generated_answers_are_estimated_apart(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with shown("baseline") as report:
        assert report is not None
        for share in (0.0, 0.1, 0.2, 1.0):
            clock.now += 1.0 if share else 0.0
            report(Done(count=round(100 * share), total=100, share=share, next="generated answers"))
        for share in (0.0, 0.1, 0.2):
            clock.now += 40.0 if share else 0.0
            report(Done(count=round(50 * share), total=50, share=share, unit="answers"))
    first, *_, second = lines(capsys)
    assert (
        first
        == "baseline: 20 of 100 items in 2.0 s; about 10 s in all, without the generated answers"
    )
    assert second == "baseline: 10 of 50 answers in 83 s; about 7 min in all"


def test_other_processes_print_nothing(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    measure(clock, 80.0, opening="first", is_main_process=False)
    assert lines(capsys) == []


def test_times_are_readable() -> None:
    assert [seconds(value) for value in (0.42, 9.96, 34.4, 179.4, 190, 7000, 9000)] == [
        *("0.4 s", "10.0 s", "34 s", "179 s", "3 min", "117 min", "2.5 h")
    ]


PROGRAM = """
import time
from tqdm import tqdm
from forgetwatch.progress import Done, log, shown
with tqdm(total=3, desc="training") as outer:
    with shown("look", opening="a line", delay={delay}) as report:
        for n in range(5):
            report(Done(count=10 * n, total=40, share=n / 4))
            time.sleep(0.02)
            log(f"line {{n}}")
    outer.update(3)
print("end")
"""


def in_a_terminal(program: str, *, columns: int = 100, rows: int = 24) -> str:
    """Output of a program in a pseudo terminal, both streams."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=theirs, stderr=theirs, stdin=theirs
    ) as process:
        os.close(theirs)
        output = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the end of a pseudo terminal
                break
            if not part:
                break
            output += part
    os.close(ours)
    assert process.returncode == 0
    return output.decode()


def test_a_terminal_has_a_bar_below_the_trainers_that_leaves_nothing_behind() -> None:
    output = in_a_terminal(PROGRAM.format(delay=0.0))
    assert "look: 20 of 40 items" in output
    assert "50 %" in output
    for number in range(5):
        assert f"forgetwatch: line {number}\r\n" in output
    last = output[output.rindex("training: 100%") :]
    assert "look" not in last
    assert "end" in last


def test_a_terminal_of_unknown_size_has_a_bar() -> None:
    assert "look: 20 of 40 items" in in_a_terminal(PROGRAM.format(delay=0.0), columns=0, rows=0)


def test_a_look_shorter_than_its_delay_has_no_bar() -> None:
    assert "of 40 items" not in in_a_terminal(PROGRAM.format(delay=5.0))


def test_a_redirected_stream_has_lines_and_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with shown("look", opening="first") as report:
        assert report is not None
        report(Done(count=0, total=4, share=0.0))
        report(Done(count=2, total=4, share=0.5))
    assert capsys.readouterr().err == "forgetwatch: first\n"


def test_the_first_report_of_a_part_names_no_time_that_is_left(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of 128 completions took 40 s before it was reported: that is not 0 s for the other 127."""
    with shown("drift") as report:
        assert report is not None
        clock.now += 40.0
        report(Done(count=1, total=128, share=1 / 128, unit="completions"))
        clock.now += 40.0
        report(Done(count=2, total=128, share=2 / 128, unit="completions"))
        clock.now += 40.0
        report(Done(count=3, total=128, share=3 / 128, unit="completions"))
    assert lines(capsys) == [
        "drift: 1 of 128 completions, 40 s",
        "drift: 2 of 128 completions, 80 s",
        "drift: 3 of 128 completions in 120 s; about 85 min in all",
    ]
