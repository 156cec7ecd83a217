from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import plain, printed, watched
from pages import run as scored
from support import snapshot

from forgetwatch import Trajectory
from forgetwatch.comparing import Tolerance
from forgetwatch.report import comparison_detail
from forgetwatch.report.advice import best_look
from forgetwatch.report.terminal import run_table
from forgetwatch.run_folder import GuardFinding

RUN = ([True, True, True, False], [False, False, True, False], [True, False, True, False])


def run(*looks: list[bool], planned: int | None = None, k: int | None = 4) -> Trajectory:
    return watched(*looks, planned=planned, k=[k] * len(looks[0]))


def text(trajectory: Trajectory) -> str:
    return printed(comparison_detail(trajectory.comparisons[-1], trajectory=trajectory))


def looks(trajectory: Trajectory) -> list[list[str]]:
    """Cells of the detail's table of looks."""
    lines = [line.split() for line in text(trajectory).splitlines()]
    start = next(at for at, cells in enumerate(lines) if cells[:2] == ["step", "questions"])
    return lines[start + 1 : start + 1 + next(at for at, cells in enumerate(lines[start:]) if not cells) - 1]


def test_each_look_has_a_line_in_the_detail_and_the_alarms_a_sentence() -> None:
    assert [cells[:4] for cells in looks(run(*RUN))] == [["1", "4", "2", "0"], ["2", "4", "1", "0"]]
    assert max(map(len, text(run(*RUN)).splitlines())) <= 100
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    shown = plain(text(run(kept, kept, lost, lost, planned=5)))
    assert "All questions, step 2: -40.0 points (40 forgotten, 0 gained, of 100)" in shown
    assert "At the last look a fall of 16.0 points over all questions raises one." in shown


def test_a_long_run_shows_every_nth_look_and_the_last() -> None:
    rng = np.random.default_rng(0)
    found = looks(run(*[(rng.random(20) < 0.5).tolist() for _ in range(104)]))
    steps = [int(cells[0]) for cells in found]
    assert (steps[0], steps[-1]) == (1, 103)
    assert len(steps) == 52


def first(trajectory: Trajectory, **options: Any) -> list[str]:
    return printed(run_table(trajectory, **options)).splitlines()


def test_the_first_table_of_a_run_names_the_first_alarm_of_each_group() -> None:
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    trajectory = run(kept, kept, lost, lost, planned=5)
    lines = first(trajectory, run="out/_forgetwatch")
    assert lines[0].startswith("forgetwatch  out, step 3 against the start ")
    assert lines[1].startswith("FORGOT        true accuracy, estimated, fell by 40 points ")
    assert lines[-2:] == [
        "since         all questions: step 2; best look: the start",
        "next          forgetwatch report out; or forgetwatch flips out",
    ]
    assert max(map(len, lines)) <= 100


def test_the_best_look_is_that_of_the_highest_accuracy() -> None:
    looks = [True] * 10 + [False] * 90, [True] * 30 + [False] * 70, [True] * 20 + [False] * 80
    trajectory = run(*looks)
    assert best_look(trajectory) == (1, pytest.approx(0.2))
    assert (
        first(trajectory)[-1]
        == "looks         no fall beyond chance at 2 looks; best look: step 1, +20.0 points, 0 forgotten"
    )
    assert best_look(run(*RUN)) == (None, 0.0)


def test_trips_of_the_guard_are_counted_in_the_table_and_named_unless_an_alarm_is() -> None:
    trips = (
        GuardFinding("alarm", "all:all", 2, "ALARM"),
        GuardFinding("policy", "category:Math accuracy", 2, "Math, step 2: ..."),
        GuardFinding("must_pass", "q7", 3, "item q7 ..."),
    )
    kept, lost = [True] * 100, [False] * 40 + [True] * 60
    lines = first(replace(run(kept, kept, lost, lost, planned=5), findings=trips))
    assert lines[-1] == "guard         tripped by 1 alarm, category:Math accuracy (step 2), item q7 (step 3)"


def test_a_group_that_recovered_after_its_alarm_is_said_to_have_recovered() -> None:
    kept, lost = [True] * 300, [False] * 40 + [True] * 260
    trajectory = run(kept, lost, kept, planned=5)
    lines = first(trajectory)
    assert lines[1].startswith("KEPT ")
    assert lines[-1] == "since         all questions: step 1 (recovered); best look: the start"
    assert "at the last look +0.0 points (0 forgotten, 0 gained, of 300): recovered." in plain(text(trajectory))


def test_an_alarm_of_a_fall_within_the_limit_says_so() -> None:
    kept, lost = [True] * 900, [False] * 12 + [True] * 888
    trajectory = run(kept, lost, planned=1)
    assert first(trajectory, tolerance=Tolerance(accuracy=0.1))[-1] == (
        "since         all questions: step 1 (within the limit now); best look: the start"
    )


def test_a_run_without_alarms_or_flips_says_that_nothing_fell() -> None:
    lines = first(run([True] * 9, [True] * 9))
    assert lines[-1] == "looks         no fall beyond chance at 1 look; best look: the start"


def test_a_baseline_alone_is_one_line() -> None:
    assert first(run([True] * 9)) == ["forgetwatch  no look after the baseline"]


def test_each_look_shows_the_known_and_the_lost_of_them() -> None:
    trajectory, _ = scored(items=600)
    for cells, comparison in zip(looks(trajectory), trajectory.comparisons[1:], strict=True):
        assert [float(cell) for cell in cells[4:6]] == [
            comparison.all["known"],
            comparison.all["known_lost"],
        ]


def saved(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "config.json").write_text("{}")
    return folder


def next_line(trajectory: Trajectory, folder: Path) -> str:
    lines = [str(getattr(line, "plain", "")) for line in run_table(trajectory, run=folder).renderables]
    return next((line for line in lines if line.startswith("next ")), "")


def test_after_a_loss_the_checkpoint_of_a_clearly_better_look_is_named(tmp_path: Path) -> None:
    better, worse = [True] * 360 + [False] * 40, [True] * 240 + [False] * 160
    trajectory = run([True] * 320 + [False] * 80, better, worse, worse)
    named = next_line(trajectory, saved(tmp_path, "checkpoint-1", "checkpoint-2", "checkpoint-3"))
    rest = f"forgetwatch report {tmp_path}; or forgetwatch flips {tmp_path}"
    assert named == f"next          keep {tmp_path}/checkpoint-1; or {rest}"
    (tmp_path / "checkpoint-1").rename(tmp_path / "kept")
    assert next_line(trajectory, tmp_path) == f"next          {rest}"


def test_the_nearest_checkpoint_is_named_if_no_look_is_nearer(tmp_path: Path) -> None:
    better, worse = [True] * 360 + [False] * 40, [True] * 240 + [False] * 160
    looks = (0, [True] * 320 + [False] * 80), (10, better), (20, worse), (30, worse)
    trajectory = Trajectory.of(
        [snapshot(right, k=[4] * 400, meta={"step": step, "model": "m"}) for step, right in looks]
    )
    saved(tmp_path, "checkpoint-12")
    assert f"keep {tmp_path}/checkpoint-12 (nearest to step 10); or" in next_line(trajectory, tmp_path)
    (tmp_path / "checkpoint-12").rename(tmp_path / "checkpoint-25")
    assert "keep" not in next_line(trajectory, tmp_path)
