"""Several runs as stages of one line."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from run_folders import write_run
from support import probe, snapshot

from forgetwatch import Trajectory
from forgetwatch.comparing import read_stages
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.measures import LookDrift
from forgetwatch.report import trajectory_figure

Looks = dict[int, list[bool]]


def write(folder: Path, looks: Looks, *, planned: int | None = None) -> Path:
    rows = {step: snapshot(right, meta={"model": folder.name, "step": step}) for step, right in looks.items()}
    write_run(folder, probe(len(looks[0])), rows.pop(0), rows, planned=planned)
    return folder


BEST, MIDDLE, WORST = [True] * 8, [False] * 2 + [True] * 6, [False] * 5 + [True] * 3


def test_steps_count_on_and_compare_with_the_first_baseline(tmp_path: Path) -> None:
    sft = write(tmp_path / "sft", {0: BEST, 200: BEST, 400: MIDDLE}, planned=2)
    dpo = write(tmp_path / "dpo", {0: MIDDLE, 100: WORST}, planned=1)
    line = read_stages([sft, dpo])
    assert line.steps == (0, 200, 400, 500)
    assert [one.all.forgotten for one in line.comparisons] == [0, 0, 2, 5]
    assert line.planned == 3
    assert line.stages == (400,)
    panels = [panel for part in trajectory_figure(line).subfigs for panel in part.axes]
    assert [label.get_text() for panel in panels for label in panel.texts] == [" stage 2"] * 4
    assert line.comparisons[-1].notes == ()


def test_a_break_between_two_stages_is_noted_with_its_size(tmp_path: Path) -> None:
    sft = write(tmp_path / "sft", {0: BEST, 200: MIDDLE})
    dpo = write(tmp_path / "dpo", {0: BEST, 100: WORST})
    note = read_stages([sft, dpo]).comparisons[-1].notes[-1]
    first, second = sft / "_forgetwatch", dpo / "_forgetwatch"
    assert note == f"{second} began with a model that answers 2 of 8 questions otherwise than the end of {first}"


def test_a_later_stage_with_drift_is_noted_because_its_base_is_another(tmp_path: Path) -> None:
    sft, dpo = tmp_path / "sft", tmp_path / "dpo"
    drift = {"drift": {"probe": {"kl_sampled": 0.1}}}
    write(sft, {0: BEST, 200: MIDDLE})
    later = {100: snapshot(WORST, meta={"model": "dpo", "step": 100, **drift})}
    write_run(dpo, probe(8), snapshot(MIDDLE, meta={"model": "dpo", "step": 0}), later)
    line = read_stages([sft, dpo])
    assert line.comparisons[-1].drift is None
    assert line.comparisons[-1].notes == (
        "the drift of later stages is from the start of each, and is not shown here; `forgetwatch report` of "
        f"{dpo / '_forgetwatch'} alone shows it",
    )
    assert read_stages([sft]).comparisons[-1].notes == ()
    measured = tmp_path / "measured"  # the drift of the first stage is from the start of all
    whole = {one.name: 1 if one.name in ("completions", "tokens") else 0.1 for one in fields(LookDrift)}
    look = snapshot(MIDDLE, meta={"model": "sft", "step": 200, "drift": {"probe": {**whole, "floor": None}}})
    write_run(measured, probe(8), snapshot(BEST, meta={"model": "sft", "step": 0}), {200: look})
    assert read_stages([measured, dpo]).comparisons[-1].notes == line.comparisons[-1].notes


def test_one_stage_is_the_trajectory_of_its_run(tmp_path: Path) -> None:
    sft = write(tmp_path / "sft", {0: BEST, 200: MIDDLE}, planned=4)
    one, same = read_stages([sft]), Trajectory.from_run(sft)
    assert (one.steps, one.planned, one.comparisons[-1].all) == (same.steps, same.planned, same.comparisons[-1].all)


def test_a_plan_that_one_stage_lacks_is_none_and_a_stage_without_looks_adds_none(tmp_path: Path) -> None:
    sft = write(tmp_path / "sft", {0: BEST, 200: MIDDLE}, planned=4)
    none = write(tmp_path / "none", {0: MIDDLE})
    line = read_stages([sft, none, write(tmp_path / "grpo", {0: MIDDLE, 50: WORST})])
    assert (line.planned, line.steps) == (None, (0, 200, 250))


def test_no_run_and_other_questions_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="at least one run folder"):
        read_stages([])
    sft = write(tmp_path / "sft", {0: BEST, 200: MIDDLE})
    other = write(tmp_path / "other", {0: [True] * 3, 5: [False] * 3})
    with pytest.raises(MismatchError):
        read_stages([sft, other])
