"""One decision for every output."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from support import decided, snapshot

from forgetwatch import Snapshot, Trajectory, compare
from forgetwatch.comparing import (
    FALSE_DISCOVERIES,
    TOLERANCE,
    can_see,
    conclude,
    group_verdict,
    own_side,
    side_of_zero,
    worst,
)
from forgetwatch.comparing.verdict import verdict
from forgetwatch.gates import NoWorseThan
from forgetwatch.metrics import non_inferiority
from forgetwatch.report import comparison_fragment, comparison_table
from forgetwatch.report.summary import summary
from forgetwatch.watch import Guard

LOST = {"PASS": 0, "INCONCLUSIVE": 5, "FAIL": 60}
"""Forgotten of 400 items, by the verdict at the usual tolerance."""


@pytest.mark.parametrize("word", LOST)
def test_terminal_page_notebook_gate_and_guard_take_one_decision(word: str) -> None:
    before = snapshot([True] * 400, meta={"step": 0})
    after = snapshot([False] * LOST[word] + [True] * (400 - LOST[word]), meta={"step": 1})
    comparison = compare(before=before, after=after)
    decided = verdict(comparison)
    assert decided.word == word
    assert summary(comparison).decisions[0].word == decided.word
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison_table(comparison))
    assert f"this comparison: {word}, " in console.file.getvalue()  # type: ignore[attr-defined]
    assert f"<strong>{word}</strong>" in comparison_fragment(comparison)
    assert NoWorseThan(tolerance=TOLERANCE).judge(comparison).verdict == word
    found = Guard(net_loss=TOLERANCE, looks=1).findings(Trajectory.of([before, after]))
    # 400 items of which 60 flip do not see 2 points: the guard says so, and trips on the alarm alone.
    assert {one.what for one in found} == ({"alarm", "net_loss"} if word == "FAIL" else set())


def test_the_verdict_carries_its_numbers() -> None:
    comparison = compare(before=snapshot([True] * 60), after=snapshot([True] * 60))
    found = group_verdict(comparison.all, 0.02)
    needed = non_inferiority(net_change=0.0, interval=comparison.all.net_change_interval, n=60, tolerance=0.02)
    assert (found.word, found.tolerance, found.net_change) == ("INCONCLUSIVE", 0.02, 0.0)
    assert found.interval == comparison.all.net_change_interval
    assert found.items_needed == math.ceil(needed.items_needed)
    assert group_verdict(comparison.all, 0.5).items_needed is None


def test_nothing_measured_is_inconclusive_and_names_no_number_of_items() -> None:
    found = verdict(compare(before=snapshot([None]), after=snapshot([True])))
    assert (found.word, found.items_needed) == ("INCONCLUSIVE", None)
    assert math.isnan(found.net_change)


def test_a_failure_is_worse_than_a_doubt() -> None:
    assert worst(["PASS", "INCONCLUSIVE", "FAIL"]) == "FAIL"
    assert worst(["PASS", "INCONCLUSIVE"]) == "INCONCLUSIVE"
    with pytest.raises(ValueError, match="empty"):
        worst([])


def test_the_side_of_zero_is_that_of_the_whole_interval() -> None:
    sides = {
        (-0.3, -0.1): "below",
        (-0.3, 0.0): "around",
        (-0.3, 0.5): "around",
        (0.0, 0.5): "around",
        (0.1, 0.5): "above",
    }
    assert {interval: side_of_zero(interval) for interval in sides} == sides
    assert side_of_zero(None) is side_of_zero((math.nan, math.nan)) is None


def two_categories(lost: int, *, gained: int = 0, step: int = 1) -> Snapshot:
    """Look at 100 items of a category of which some are lost, and 100 of another of which some are gained."""
    right = [False] * lost + [True] * (100 - lost) + [True] * (50 + gained) + [False] * (50 - gained)
    return snapshot(right, category=["a"] * 100 + ["b"] * 100, meta={"step": step})


def test_a_conclusion_of_one_comparison_is_about_this_look_alone() -> None:
    start = two_categories(0, step=0)
    found = conclude(compare(before=start, after=two_categories(30)))
    assert (found.whole, found.lost_here, [group.name for group in found.below_zero]) == ("below", True, ["a"])
    assert (found.categories, found.looks, found.groups, found.fading_groups, found.kinds) == (2, None, 0, 0, ())
    assert (found.is_run, found.differs, found.alarms) == (False, False, ())
    assert found.known_lost is found.log_score is None
    balanced = conclude(compare(before=start, after=two_categories(30, gained=30)))
    assert (balanced.whole, balanced.lost_here) == ("around", True)
    assert not conclude(compare(before=start, after=start)).lost_here
    one_category = conclude(compare(before=snapshot([True] * 60), after=snapshot([False] * 20 + [True] * 40)))
    assert (one_category.lost_here, one_category.below_zero, one_category.categories) == (True, (), 0)


@pytest.mark.parametrize(
    ("looks", "alarms", "lost_here", "differs"),
    [
        ((0, 0), 0, False, False),
        ((0, 30), 2, True, False),
        ((30, 0), 2, False, True),  # an alarm, and recovered
        ((0, 6), 0, True, True),  # this look alone, and not over all looks
    ],
)
def test_a_run_differs_where_this_look_and_all_looks_disagree(
    looks: tuple[int, ...], alarms: int, lost_here: bool, differs: bool
) -> None:
    steps = [two_categories(lost, step=step) for step, lost in enumerate((0, *looks))]
    run = Trajectory.of(steps, planned=2)
    found = conclude(run.comparisons[-1], trajectory=run)
    assert (len(found.alarms), found.lost_here, found.differs) == (alarms, lost_here, differs)
    assert (found.is_run, found.looks, found.groups, found.fading_groups, found.kinds) == (True, 2, 3, 0, ("net",))
    assert {one.state for one in found.alarms} <= ({"recovered"} if looks[1] == 0 else {"lasting"})


def test_the_groups_tested_for_fading_are_counted() -> None:
    scores = {"choice_logprobs": [[0.0, -3.0, -3.0]] * 120, "k": [3] * 120, "gold": [0] * 120}
    steps = [snapshot([True] * 120, category=["a"] * 80 + ["b"] * 40, meta={"step": step}, **scores) for step in (0, 1)]
    run = Trajectory.of(steps)
    found = conclude(run.comparisons[-1], trajectory=run)
    assert (found.groups, found.fading_groups, found.kinds) == (3, 2, ("net", "fading"))  # 40 items are too few


def test_a_category_is_below_zero_by_its_q_value_and_its_interval() -> None:
    group = compare(before=two_categories(0, step=0), after=two_categories(8)).by("category")["a"]
    assert group.net_change_interval[1] < 0
    assert own_side(replace(group, q_value=FALSE_DISCOVERIES)) == "below"
    assert own_side(replace(group, q_value=FALSE_DISCOVERIES + 1e-9)) == "around"
    assert own_side(replace(group, net_change_interval=(-0.1, 0.1), q_value=0.01)) == "around"
    assert own_side(replace(group, net_change_interval=(math.nan, math.nan), q_value=0.01)) is None


def test_a_loss_can_be_seen_from_the_detectable_change_on() -> None:
    group = compare(before=two_categories(0, step=0), after=two_categories(20)).all
    assert can_see(group, group.detectable_change)
    assert not can_see(group, group.detectable_change - 1e-9)
    assert not can_see(compare(before=snapshot([None]), after=snapshot([None])).all, 1.0)


@pytest.mark.parametrize(("fall", "state"), [(1.0, "lasting"), (0.005, "unclear"), (0.0, "recovered")])
def test_an_alarm_of_fading_lasts_while_the_log_score_is_below_its_start(fall: float, state: str) -> None:
    rng = np.random.default_rng(6)
    start = rng.normal(-15, 2, (200, 3)) + np.array([2.0, 0.0, 0.0])

    def look(step: int, less: float) -> Snapshot:
        scores = start.copy()
        scores[:, 0] -= less * np.linspace(0.5, 1.5, 200)  # 1 on average
        if less and less < 0.1:
            scores[:, 0] += np.tile([0.3, -0.3], 100)
        return decided(scores, meta={"step": step})

    run = Trajectory.of([look(0, 0.0), look(1, 1.0), look(2, fall)], planned=2)
    found = conclude(run.comparisons[-1], trajectory=run)
    states = {(one.alarm.kind, one.alarm.group.name): one.state for one in found.alarms}
    assert states["fading", "all"] == state
