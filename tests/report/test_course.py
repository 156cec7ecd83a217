from __future__ import annotations

import io

import numpy as np
from rich.console import Console
from support import snapshot

from forgetwatch import Trajectory
from forgetwatch.report.course import course_line, trajectory_table
from forgetwatch.report.terminal import WIDTH

RUN = ([True, True, True, False], [False, False, True, False], [True, False, True, False])


def run(*looks: list[bool], planned: int | None = None, k: int | None = 4) -> Trajectory:
    made = [snapshot(right, meta={"step": step}, k=[k] * len(right)) for step, right in enumerate(looks)]
    return Trajectory.of(made, planned=planned)


def text(trajectory: Trajectory) -> str:
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False).print(trajectory_table(trajectory))
    return out.getvalue()


def test_the_course_of_a_run_stands_beside_a_guessers() -> None:
    line = course_line(run(*RUN)).plain
    assert line == "over 2 looks: ever forgotten 2 (a guesser 1), right again 1 (a guesser 0)"
    assert course_line(run(RUN[0])).plain == "no look after the baseline"
    assert "guesser" not in course_line(run(*RUN, k=None)).plain


def test_each_look_has_a_line() -> None:
    shown = text(run(*RUN))
    lines = [line.split() for line in shown.splitlines()]
    assert lines[2][:3] == ["1", "-2", "+0"]
    assert lines[3][:3] == ["2", "-1", "+0"]
    assert "forgetting events 2 (a guesser 2): 2 items once, 0 more often" in shown
    assert (
        "never forgotten 2 (a guesser 2)\nright at some look and wrong at the last 25.0 % (a guesser 32.8 %)" in shown
    )
    assert max(map(len, shown.splitlines())) <= 80


def test_a_loss_beyond_luck_is_an_alarm_with_its_null() -> None:
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    shown = text(run(kept, kept, lost, lost, planned=5))
    assert shown.count("ALARM step 2, all: -40 +0 of 100 (p 9e-13, alarms from 0.005)") == 1
    assert shown.count("ALARM step 2, c:") == 1
    assert "2 alarms in 5 looks planned at 2 groups; the null is no net loss, not no change" in shown
    assert "could alarm on a net loss of 18.0 points or more" in shown


def test_a_run_that_lost_nothing_says_what_it_could_have_seen() -> None:
    kept = [True] * 50
    shown = text(run(kept, kept))
    assert "no alarm in 1 look at 2 groups" in shown
    assert "could alarm on no loss, too few answers flipped" in shown


def test_a_long_run_shows_every_nth_look_and_the_last() -> None:
    rng = np.random.default_rng(0)
    shown = text(run(*[(rng.random(20) < 0.5).tolist() for _ in range(104)]))
    steps = [int(line.split()[0]) for line in shown.splitlines()[2:] if line.strip()[:1].isdigit()]
    assert steps[0] == 1
    assert steps[-1] == 103
    assert len(steps) <= 41
