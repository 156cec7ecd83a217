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
from forgetwatch.run import Guard, Run, finding_lines, stopped_line
from forgetwatch.run_folder import GuardFinding, StoredRun


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


def test_a_limit_trips_at_any_look_and_shares_its_error_over_them() -> None:
    assert whats(Guard(no_worse_than="10%").findings(lost(2000, 400))) == ["alarm"]
    found = Guard(no_worse_than="10%").findings(lost(2000, 400, looks=1))
    assert [(one.what, one.name) for one in found if one.what == "policy"] == [("policy", "all accuracy")]
    (line,) = (one.line for one in found if one.what == "policy")
    assert re.fullmatch(r"all accuracy -20\.0 points \(.*\) \(no worse than -10 points\): beyond .* at step 1", line)
    assert not [one for one in Guard(no_worse_than="25%").findings(lost(2000, 400)) if one.what == "policy"]
    assert not [one for one in Guard(no_worse_than=None).findings(lost(2000, 400)) if one.what == "policy"]


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
        lines.append(finding_lines(new))
    return lines


def test_an_unchanged_run_raises_nothing() -> None:
    margins = np.random.default_rng(0).normal(1, 2, 360)
    assert told(of_margins(*[margins] * 7)) == [[]] * 6


def test_a_destroyed_run_logs_at_most_one_line_on_alarms_and_one_on_the_rest_at_a_look() -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(1, 2, 360)
    looks = [start + (rng.normal(-1, 2, 360) - start) * min(1.0, step / 2) for step in range(7)]
    (alarm, limit), second, *later = told(of_margins(*looks))
    assert alarm == "ALARM: all -24 points (step 1), and 5 categories; see the page"
    assert re.fullmatch(
        r"guard: all accuracy -23\.6 points \(.*\) \(no worse than -2 points\): beyond the limit at step 1", limit
    )
    assert second == ["ALARM: 78.2 % of what it clearly knew is lost (step 2); C2 -28 points (step 2); see the page"]
    assert later == [[]] * 4


def test_a_line_on_several_findings_names_the_first_and_counts_the_others() -> None:
    items = [GuardFinding("must_pass", name, 2, f"item {name}, which must pass, was lost") for name in "abcdef"]
    limits = [GuardFinding("policy", name, 2, f"{name} fell") for name in ("all accuracy", "category:b accuracy")]
    alarms = [GuardFinding("alarm", name, 2, f"ALARM: {name}") for name in ("all:all", "category:a")]
    assert finding_lines([*alarms, *limits, *items], stops=2) == [
        "ALARM: all:all, and 1 category; see the page",
        "the guard stops the run at step 2: all accuracy fell, and 1 more limit; items a, b, c, d and 2 more, which "
        "must pass, were right and are wrong at step 2",
    ]
    assert finding_lines([GuardFinding("must_pass", "g", 3, "lost")]) == ["guard: lost"]
    assert finding_lines([], stops=3) == ["the guard stops the run at step 3"]


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
