"""The guard: what trips it, what it only reports, and that each finding is reported and stored once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from run_folders import write_run
from support import probe, snapshot

from forgetwatch import Snapshot, Trajectory
from forgetwatch.report import trajectory_json
from forgetwatch.run_folder import GuardFinding, StoredRun
from forgetwatch.watch import Guard, Tripped, stopped_line


def look(right: list[bool], step: int, **columns: object) -> Snapshot:
    return snapshot(right, meta={"step": step}, **columns)


def lost(items: int, flipped: int, *, looks: int = 2) -> Trajectory:
    """A run that loses the first items of two categories, of which the first is a tenth of all."""
    category = ["a"] * (items // 10) + ["b"] * (items - items // 10)
    later = [False] * flipped + [True] * (items - flipped)
    start = look([True] * items, 0, category=category)
    return Trajectory.of([start, *(look(later, at, category=category) for at in range(1, looks + 1))], planned=looks)


def whats(found: list[GuardFinding]) -> list[str]:
    return [one.what for one in found if one.name == "all:all"]


def test_a_net_loss_trips_where_the_items_see_the_bound() -> None:
    assert whats(Guard(net_loss=0.1).findings(lost(2000, 400))) == ["alarm", "net_loss"]


def test_a_net_loss_of_a_category_that_does_not_see_the_bound_is_reported_and_does_not_trip() -> None:
    found = Guard(net_loss=0.02).findings(lost(600, 40))
    (finding,) = [one for one in found if one.what == "too_few_items"]
    assert finding.name == "category:a"
    assert not finding.trips
    assert "at 2 looks in a row; the guard does not trip on it: its 60 items see losses from " in finding.line
    assert finding.line.endswith("points, and the bound is 2 points")
    # The whole sees no loss of 2 points either, but it is one test, and the verdict on it is the same.
    assert whats(found) == ["alarm", "net_loss"]


def test_a_single_category_is_the_whole_and_is_not_named_again() -> None:
    start, later = look([True] * 60, 0, category=["a"] * 60), look([False] * 20 + [True] * 40, 1, category=["a"] * 60)
    found = Guard(net_loss=0.02, looks=1).findings(Trajectory.of([start, later], planned=1))
    assert [one.name for one in found if one.what in ("net_loss", "too_few_items")] == ["all:all"]


def test_one_look_is_not_enough_for_two() -> None:
    assert whats(Guard(net_loss=0.1).findings(lost(2000, 400, looks=1))) == ["alarm"]


def test_fading_without_a_net_loss_trips_the_guard() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 4)) + np.array([3.0, 0, 0, 0])
    faded = scores.copy()
    faded[::2, 0] = np.maximum(scores[::2, 1:].max(axis=1) + 0.05, scores[::2, 0] - 2.5)
    rows = [
        snapshot(
            (one.argmax(axis=1) == 0).tolist(),
            meta={"step": step},
            k=[4] * 400,
            gold=[0] * 400,
            chosen=one.argmax(axis=1),
            choice_logprobs=(one - np.log(np.exp(one).sum(axis=1, keepdims=True))).tolist(),
        )
        for step, one in enumerate([scores, faded])
    ]
    found = Guard().findings(Trajectory.of(rows, planned=1))
    assert whats(found) == ["fading"]
    assert all(one.trips for one in found)
    assert found[0].line.startswith("ALARM fading all, step 1: -")


def test_each_finding_is_reported_once_also_after_a_resume() -> None:
    found = Guard().findings(lost(60, 20))
    tripped = Tripped()
    assert tripped.new(found) == found
    assert tripped.new(found) == []
    resumed = Tripped.of(json.loads(json.dumps(tripped.stored)))
    assert resumed.findings == tripped.findings
    assert resumed.new(found) == []


def test_what_still_holds_is_what_the_guard_finds_at_the_latest_look() -> None:
    guard, run = Guard(net_loss=0.1), lost(2000, 400)
    tripped = [one for one in guard.findings(run) if one.trips]
    assert guard.remaining(run, [], stopped=2, tripped=[]) == tripped
    assert [one.what for one in guard.remaining(run, ["i1"], stopped=1, tripped=[])][-1] == "must_pass"
    kept = lost(2000, 0)
    assert guard.remaining(kept, [], stopped=2, tripped=tripped) == []
    # The look of the stop is missing, or there are too few looks for the bound.
    assert guard.remaining(kept, [], stopped=3, tripped=tripped) == tripped
    assert guard.remaining(lost(2000, 0, looks=1), [], stopped=1, tripped=tripped) == tripped


def test_the_line_at_a_resume_names_what_stopped_the_run_and_what_is_left() -> None:
    items = [GuardFinding("must_pass", name, 5, f"item {name} was lost") for name in "ab"]
    groups = [GuardFinding("net_loss", name, 5, "a line") for name in ("all:all", "category:c")]
    groups.append(GuardFinding("alarm", "all:all", 5, "another"))
    assert stopped_line(5, found=[*groups, *items], left=[*items, *groups], stops_again=True) == (
        "the guard stopped this run at step 5: item a was lost, and 4 more; 2 items are still lost of those that must "
        "pass; the loss in all, c is still there: the training stops again after its first step; "
        'Guard("stop", override=True) continues it'
    )
    assert stopped_line(5, found=items[:1], left=items[:1], stops_again=False) == (
        "the guard stopped this run at step 5: item a was lost; 1 item is still lost of those that must pass; the "
        "training continues all the same"
    )


def test_findings_that_an_earlier_version_stored_are_not_repeated() -> None:
    found = Guard().findings(lost(60, 20))
    assert Tripped.of([["alarm", "all:all"], "damaged", {"what": 1}]).new(found) == found[1:]


def test_findings_are_read_from_the_run_folder_and_are_in_the_document(tmp_path: Path) -> None:
    made = lost(60, 20)
    findings = tuple(Guard().findings(made))
    write_run(tmp_path, probe(), made.baseline, {2: made.last}, findings=findings)
    assert StoredRun.read(tmp_path).findings == findings
    trajectory = Trajectory.from_run(tmp_path)
    assert trajectory.findings == findings
    assert trajectory_json(trajectory)["guard"] == [vars(one) for one in findings]
