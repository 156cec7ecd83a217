"""`forgetwatch follow FOLDER` on the answers that a training writes: each step once, as soon as it is whole."""

import json
import random
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Done, Run

from forgetwatch import Trajectory
from forgetwatch.report import html

QUESTIONS = 80


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    # Pictures take longer than reading.
    monkeypatch.setattr(html, "svg", lambda draw, *, name, label: html.Markup("<svg></svg>"))


def text(step: int, *, right: float = 0.6, shuffled: bool = True) -> str:
    draws = random.Random(step)
    rows: list[dict[str, Any]] = [
        {"input": f"q {q}", "output": "x", "gts": str(q), "score": float(draws.random() < right), "step": step}
        for q in range(QUESTIONS)
    ]  # fmt: skip
    if shuffled:
        draws.shuffle(rows)
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def write(folder: Path, *steps: int, **how: Any) -> None:
    folder.mkdir(exist_ok=True)
    for step in steps:
        (folder / f"{step}.jsonl").write_text(text(step, **how))


def steps(done: Done) -> list[int]:
    """Steps with a line of their own."""
    return [int(step) for step in re.findall(r"^step (\d+): ", done.stdout, re.MULTILINE)]


def counts(folder: Path) -> list[tuple[float, float]]:
    run = Trajectory.from_run(folder / "_forgetwatch_follow")
    return [(look.all.forgotten, look.all.gained) for look in run.comparisons]


def test_each_step_is_a_look_and_the_numbers_are_those_of_report(
    command: Run, tmp_path: Path
) -> None:
    write(tmp_path / "val", 0, 5, 10)
    done = command("follow", "val", "--once")
    assert done.status == 0, done.stderr
    assert steps(done) == [5, 10]
    assert "2 steps after the first are read" in done.last
    assert command("report", "val", "--json", "r.json").status == 0
    looks = json.loads(Path("r.json").read_text())["looks"]
    groups = [look["comparison"]["groups"][0] for look in looks]
    assert counts(tmp_path / "val")[1:] == [
        (group["forgotten"], group["gained"]) for group in groups
    ]
    flips = command("flips", "val/_forgetwatch_follow", "--limit", "2").stdout
    assert "q " in flips  # the question, not its id


def test_started_again_it_reads_no_step_twice(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0, 5)
    assert command("follow", "val", "--once").status == 0
    before = counts(tmp_path / "val")
    write(tmp_path / "val", 10)
    done = command("follow", "val", "--once")
    assert "has 1 steps of this run; they stay" in done.stderr
    assert steps(done) == [10]
    assert counts(tmp_path / "val")[:2] == before


def test_a_file_that_is_being_written_is_left_for_later(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0, 5)
    whole = text(10)

    def training() -> None:
        with (tmp_path / "val" / "10.jsonl").open("w") as file:
            for start in range(0, len(whole), 700):
                file.write(whole[start : start + 700])
                file.flush()
                time.sleep(0.02)

    thread = threading.Thread(target=training)
    thread.start()
    done = command("follow", "val", "--poll", "0.1", "--idle", "1.5")
    thread.join()
    assert done.status == 0, done.stderr
    assert steps(done) == [5, 10]
    assert "could not be read" not in done.stderr
    assert len(counts(tmp_path / "val")) == 3


def test_a_step_that_cannot_be_read_is_named_at_the_end(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0, 5)
    (tmp_path / "val" / "10.jsonl").write_text(text(10)[:-20])
    done = command("follow", "val", "--once")
    assert "step 10 could not be read: " in done.stderr
    assert "line 80" in done.stderr
    assert len(counts(tmp_path / "val")) == 2
    assert command("report", "val/_forgetwatch_follow").stdout.startswith("NOT CLEAR ")


def test_outcomes_before_are_the_base(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 5, 10)
    (tmp_path / "base.jsonl").write_text(text(0))
    done = command("follow", "val", "--base", "base.jsonl", "--once")
    assert done.status == 0, done.stderr
    assert steps(done) == [5, 10]
    assert len(counts(tmp_path / "val")) == 3


def test_the_guard_stops_it(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0, right=0.9, shuffled=False)
    write(tmp_path / "val", 5, 10, 15, right=0.2, shuffled=False)
    done = command("follow", "val", "--guard", "stop", "--poll", "0.05", "--idle", "5")
    assert done.status == 3
    assert "ALARM" in done.stderr
    assert "the guard stops it" in done.last
    assert "FORGOT" in done.stdout


def test_rows_go_to_trackers(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0, 5, 10)
    done = command("follow", "val", "--once", "--report-to", "tensorboard")
    assert done.status == 0, done.stderr
    assert list(tmp_path.rglob("events.out.tfevents.*"))


def test_a_folder_without_answers_is_refused(command: Run, tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    done = command("follow", "val", "--once")
    assert done.status == 1
    assert "needed answers of a training's steps, found none;" in done.last
    write(tmp_path / "val", 0)
    (tmp_path / "val" / "0.jsonl").write_text("{")
    assert "no step could be read: val/0.jsonl" in command("follow", "val", "--once").last


def test_several_sets_of_a_step_are_tasks(command: Run, tmp_path: Path) -> None:
    for step in (0, 5):
        for name in ("gsm8k", "math"):
            rows = [
                {"input_prompt": f"{name} {q}", "output_response": "x", "score": [0.0, float(q % 3 > step % 2)],
                 "stop_reason": "stop", "env_extras": {}}
                for q in range(QUESTIONS)
            ]  # fmt: skip
            path = tmp_path / "dumps" / f"global_step_{step}_evals" / f"{name}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    done = command("follow", "dumps", "--once")
    assert done.status == 0, done.stderr
    run = Trajectory.from_run(tmp_path / "dumps" / "_forgetwatch_follow")
    assert sorted(run.final.by("category")) == ["gsm8k", "math"]


def test_a_folder_that_was_moved_goes_on(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0, 5)
    assert command("follow", "val", "--once").status == 0
    (tmp_path / "val").rename(tmp_path / "moved")
    write(tmp_path / "moved", 10)
    done = command("follow", "moved", "--once")
    assert (done.status, steps(done)) == (0, [10]), done.stderr
