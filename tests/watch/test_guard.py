"""The guard: what trips it, what it only reports, and that each finding is reported and stored once."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
from run_folders import write_run
from support import probe, snapshot

from forgetwatch import Snapshot, Trajectory
from forgetwatch.metrics.transitions import Floats
from forgetwatch.report import trajectory_json
from forgetwatch.run_folder import GuardFinding, StoredRun
from forgetwatch.watch import Guard, Run, finding_lines, stopped_line


def look(right: list[bool], step: int, **columns: object) -> Snapshot:
    return snapshot(right, meta={"step": step}, **columns)


def lost(items: int, flipped: int, *, looks: int = 2) -> Trajectory:
    """A run that loses the first items of two categories, of which the first is a tenth of all."""
    category = ["a"] * (items // 10) + ["b"] * (items - items // 10)
    later = [False] * flipped + [True] * (items - flipped)
    start = look([True] * items, 0, category=category)
    return Trajectory.of([start, *(look(later, at, category=category) for at in range(1, looks + 1))], planned=looks)


def test_groups_that_take_turns_at_the_two_looks_do_not_trip_it() -> None:
    category = ["a"] * 600 + ["b"] * 600
    fallen = {name: [one != name or at % 10 < 4 for at, one in enumerate(category)] for name in "ab"}
    start = look([True] * 1200, 0, category=category)

    def found(*names: str) -> set[str]:
        looks = [look(fallen[name], at, category=category) for at, name in enumerate(names, start=1)]
        run = Trajectory.of([start, *looks], planned=2)
        return {one.name for one in Guard(net_loss=0.1).findings(run) if one.what == "net_loss"}

    assert "category:b" not in found("a", "b")
    assert "category:b" in found("b", "b")


def whats(found: list[GuardFinding]) -> list[str]:
    return [one.what for one in found if one.name == "all:all"]


def test_a_net_loss_trips_where_the_items_see_the_bound() -> None:
    assert whats(Guard(net_loss=0.1).findings(lost(2000, 400))) == ["alarm", "net_loss"]


def test_a_net_loss_of_a_category_that_does_not_see_the_bound_is_reported_and_does_not_trip() -> None:
    found = Guard(net_loss=0.02).findings(lost(600, 40))
    (finding,) = [one for one in found if one.what == "too_few_items"]
    assert finding.name == "category:a"
    assert not finding.trips
    assert finding.line == (
        "a, -66.7 points (-77.3 to -52.7) at step 2: too few items (60) for the 2-point rule; the alarm covers this "
        "category"
    )
    # The whole shows no loss of 2 points either, but it is one test, and the verdict on it is the same.
    assert whats(found) == ["alarm", "net_loss"]


def test_a_single_category_is_the_whole_and_is_not_named_again() -> None:
    start, later = look([True] * 60, 0, category=["a"] * 60), look([False] * 20 + [True] * 40, 1, category=["a"] * 60)
    found = Guard(net_loss=0.02, looks=1).findings(Trajectory.of([start, later], planned=1))
    assert [one.name for one in found if one.what in ("net_loss", "too_few_items")] == ["all:all"]


def test_one_look_is_not_enough_for_two() -> None:
    assert whats(Guard(net_loss=0.1).findings(lost(2000, 400, looks=1))) == ["alarm"]


def of_margins(*margins: Floats) -> Trajectory:
    """A run whose looks have these margins, in six categories of equal size."""
    rows = len(margins[0])
    looks = [
        look(
            (one > 0).tolist(),
            step,
            k=[4] * rows,
            gold=[0] * rows,
            chosen=np.where(one > 0, 0, 1),
            choice_logprobs=[[value, 0.0, -9.0, -9.0] for value in one.tolist()],
            category=[f"C{row % 6}" for row in range(rows)],
        )
        for step, one in enumerate(margins)
    ]
    return Trajectory.of(looks, planned=len(margins) - 1)


def told(run: Trajectory) -> list[list[str]]:
    """Lines that a run with a guard logs, by look."""
    guard, watched, lines = Guard(), Run(probe(), "nowhere"), list[list[str]]()
    for last in range(2, len(run) + 1):
        so_far = replace(run, steps=run.steps[:last], comparisons=run.comparisons[:last])
        new = watched.note(guard.findings(so_far))
        lines.append(finding_lines(new, watched.findings))
    return lines


def test_an_unchanged_run_raises_nothing() -> None:
    margins = np.random.default_rng(0).normal(1, 2, 360)
    assert told(of_margins(*[margins] * 7)) == [[]] * 6


def test_a_destroyed_run_logs_at_most_one_line_on_alarms_and_one_on_the_rest_at_a_look() -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(1, 2, 360)
    looks = [start + (rng.normal(-1, 2, 360) - start) * min(1.0, step / 2) for step in range(7)]
    first, second, *later = told(of_margins(*looks))
    assert first == ["ALARM: all -24 points (step 1), and 5 categories; see the page"]
    alarm, rest = second
    assert alarm == "ALARM: 78.2 % of what it clearly knew is lost (step 2); C2 -28 points (step 2); see the page"
    assert re.fullmatch(
        r"guard: all, -31\.8 points \(.*\) at step 2: below -2 points at 2 looks in a row; C0, -41\.3 points \(.*\) at "
        r"step 2: too few items \(60\) for the 2-point rule; the alarm covers this category",
        rest,
    )
    assert later == [[]] * 4  # small categories are named once in a run


def test_a_line_on_several_findings_names_the_first_and_counts_the_others() -> None:
    items = [GuardFinding("must_pass", name, 2, f"item {name}, which must pass, was lost") for name in "abcdef"]
    losses = [GuardFinding("net_loss", name, 2, f"{name} fell") for name in ("category:a", "category:b", "category:c")]
    small = [GuardFinding("too_few_items", name, 2, f"{name}: too few") for name in ("category:d", "category:e")]
    alarms = [GuardFinding("alarm", name, 2, f"ALARM: {name}") for name in ("all:all", "category:a")]
    found = [*alarms, *losses, *small, *items]
    assert finding_lines(found, found, stops=2) == [
        "ALARM: all:all, and 1 category; see the page",
        "the guard stops the run at step 2: category:a fell, and 2 more categories; items a, b, c, d and 2 more, which "
        "must pass, were right and are wrong at step 2; category:d: too few",
    ]
    later = [GuardFinding("too_few_items", "category:f", 3, "said before"), GuardFinding("must_pass", "g", 3, "lost")]
    assert finding_lines(later, [*found, *later]) == ["guard: lost"]
    assert finding_lines([], found, stops=3) == ["the guard stops the run at step 3"]


def test_each_finding_is_reported_once_also_after_a_resume() -> None:
    found = Guard().findings(lost(60, 20))
    run = Run(probe(), "nowhere")
    assert run.note(found) == found
    assert run.note(found) == []
    assert run.findings == tuple(found)
    assert [GuardFinding.of(json.loads(json.dumps(vars(one)))) for one in found] == found


def test_the_line_at_a_resume_names_what_stopped_the_run() -> None:
    items = [GuardFinding("must_pass", name, 5, f"item {name} was lost") for name in "ab"]
    assert stopped_line(5, found=items, stops_again=True) == (
        "the guard stopped this run at step 5: item a was lost, and 1 more; the training stops again after its first "
        'step; Guard("stop", override=True) continues it'
    )
    assert stopped_line(5, found=items[:1], stops_again=False) == (
        "the guard stopped this run at step 5: item a was lost; the training continues all the same"
    )


def test_findings_are_read_from_the_run_folder_and_are_in_the_document(tmp_path: Path) -> None:
    made = lost(60, 20)
    findings = tuple(Guard().findings(made))
    write_run(tmp_path, probe(), made.baseline, {2: made.last}, findings=findings)
    assert StoredRun.read(tmp_path).findings == findings
    trajectory = Trajectory.from_run(tmp_path)
    assert trajectory.findings == findings
    assert trajectory_json(trajectory)["guard"] == [vars(one) for one in findings]
