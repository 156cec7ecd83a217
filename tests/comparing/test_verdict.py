"""One decision for every output."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from rich.console import Console
from support import decided, snapshot

from forgetwatch import Snapshot, Trajectory, compare
from forgetwatch.comparing import (
    Tolerance,
    can_see,
    conclude,
    group_verdict,
    ranked_categories,
    side_of_zero,
    smallest_seen,
    worst,
)
from forgetwatch.comparing.verdict import verdict
from forgetwatch.gates import NoWorseThan
from forgetwatch.report import comparison_fragment, comparison_table
from forgetwatch.watch import Guard

LOST = {"PASS": 0, "INCONCLUSIVE": 5, "FAIL": 60}
"""Forgotten of 400 items, by the answer at the usual tolerance."""


@pytest.mark.parametrize("answer", LOST)
def test_terminal_page_notebook_gate_and_guard_take_one_decision(answer: str) -> None:
    before = snapshot([True] * 400, meta={"step": 0})
    after = snapshot([False] * LOST[answer] + [True] * (400 - LOST[answer]), meta={"step": 1})
    comparison = compare(before=before, after=after)
    found = verdict(comparison)
    assert found.answer == answer
    console = Console(file=io.StringIO(), width=80)
    console.print(comparison_table(comparison))
    assert f"\n{found.word} " in console.file.getvalue()  # type: ignore[attr-defined]
    assert found.word in comparison_fragment(comparison)
    assert NoWorseThan(tolerance=0.02).judge(comparison).verdict == answer
    findings = Guard(net_loss=0.02, looks=1).findings(Trajectory.of([before, after]))
    assert {one.what for one in findings} == ({"alarm", "net_loss"} if answer == "FAIL" else set())


def test_the_verdict_carries_its_legs_and_their_numbers() -> None:
    comparison = compare(before=snapshot([True] * 60), after=snapshot([True] * 60))
    found = verdict(comparison)
    accuracy, knowledge, category = found.legs
    assert (found.answer, found.word, found.deciding) == ("INCONCLUSIVE", "NOT CLEAR", accuracy)
    assert (accuracy.limit, accuracy.value, accuracy.answer) == (-0.02, 0.0, "INCONCLUSIVE")
    assert accuracy.interval == comparison.all.net_change_interval
    assert (knowledge.answer, knowledge.reason) == (None, "the probabilities of the options are not known")
    assert (category.answer, category.reason) == (None, "fewer than two categories")
    assert group_verdict(comparison.all, 0.5).answer == "PASS"
    assert verdict(comparison, Tolerance(known=None, category=None)).legs == (accuracy,)


def test_nothing_measured_is_inconclusive() -> None:
    found = verdict(compare(before=snapshot([None]), after=snapshot([True])))
    assert found.answer == "INCONCLUSIVE"
    assert [leg.answer for leg in found.legs] == [None] * 3
    assert found.legs[0].reason == "no item was scored on both sides"


def scored(known: int, lost: int, *, items: int = 400, steps: int = 0) -> Snapshot:
    """Look at items with four options, of which some are clearly known, and some of these lost; others are unsure."""
    scores = np.random.default_rng(1).normal(0, 0.3, (items, 4))
    scores[:known, 0] += 6.0
    scores[known : known + 40, 1] += 6.0  # confident and wrong, and so they stay
    scores[:lost, 0] -= 6.0
    scores[:lost, 2] += 6.0
    return decided(scores, meta={"step": steps})


@pytest.mark.parametrize(
    ("lost", "answers"),
    [
        (0, ("PASS", "PASS")),
        (1, ("PASS", "PASS")),
        (8, ("INCONCLUSIVE", "INCONCLUSIVE")),
        (60, ("FAIL", "FAIL")),
    ],
)
def test_the_share_of_the_known_that_is_lost_decides(lost: int, answers: tuple[str, str]) -> None:
    tolerance = Tolerance(accuracy=0.2, category=None)
    found = verdict(compare(before=scored(150, 0), after=scored(150, lost)), tolerance)
    knowledge = found.leg("knowledge")
    assert knowledge is not None
    assert (knowledge.answer, found.answer) == answers
    assert found.deciding.name == ("knowledge" if lost >= 8 else "accuracy")
    assert knowledge.interval is not None
    assert knowledge.interval[0] <= knowledge.value <= knowledge.interval[1]  # type: ignore[operator]


def test_a_share_of_fewer_than_twenty_known_items_decides_nothing() -> None:
    found = verdict(compare(before=scored(15, 0), after=scored(15, 15)))
    knowledge = found.leg("knowledge")
    assert knowledge is not None
    assert (knowledge.answer, knowledge.value) == (None, None)
    assert knowledge.reason.startswith("it clearly knew only ")


def test_known_items_that_vanished_may_be_lost() -> None:
    before, after = scored(150, 0), scored(150, 0)
    right = after.table["correct"].to_pylist()
    columns = {name: after.table[name].to_pylist() for name in ("k", "gold", "chosen", "choice_logprobs", "gold_share")}
    gone = {name: [None] * 20 + values[20:] for name, values in columns.items() if name not in ("k", "gold")}
    vanished = snapshot([None] * 20 + right[20:], meta=dict(after.meta), **{**columns, **gone})
    found = verdict(compare(before=before, after=vanished), Tolerance(accuracy=0.2, category=None))
    knowledge = found.leg("knowledge")
    assert knowledge is not None
    assert (knowledge.answer, knowledge.is_open_by_vanished) == ("INCONCLUSIVE", True)
    assert (found.answer, found.open_by_vanished) == ("INCONCLUSIVE", True)


def categories(*lost: int, of: int = 60, step: int = 1) -> Snapshot:
    """Look at categories a, b, ... of some items each, of which so many are lost."""
    right = [at >= count for count in lost for at in range(of)]
    names = [name for name, _ in zip("abcdefghi", lost, strict=False) for _ in range(of)]
    return snapshot(right, category=names, meta={"step": step})


def test_a_category_alone_fails_the_verdict_by_its_simultaneous_interval() -> None:
    before = categories(0, 0, 0, 0, 0, 0, of=120)
    found = verdict(compare(before=before, after=categories(30, 0, 0, 0, 0, 0, of=120)), Tolerance(accuracy=0.2))
    leg = found.leg("category")
    assert leg is not None
    assert (found.answer, found.deciding, leg.group, leg.answer) == ("FAIL", leg, "a", "FAIL")
    group = compare(before=before, after=categories(30, 0, 0, 0, 0, 0, of=120)).by("category")["a"]
    assert leg.interval is not None
    assert leg.interval[0] < group.net_change_interval[0] < group.net_change_interval[1] < leg.interval[1]
    # 11 of 120 lost: its own 95 % interval is below -4 points, and the simultaneous one contains the limit.
    unclear = verdict(compare(before=before, after=categories(11, 0, 0, 0, 0, 0, of=120)), Tolerance(accuracy=0.2))
    assert (unclear.answer, unclear.deciding.group, unclear.deciding.shows_loss) == ("INCONCLUSIVE", "a", True)


def test_categories_are_ranked_where_they_differ_by_more_than_chance() -> None:
    before = categories(0, 0, 0)
    ranked, p_value = ranked_categories(compare(before=before, after=categories(20, 1, 0)))
    assert [one.group.name for one in ranked] == ["a", "b", "c"]
    assert p_value < 1e-3
    assert [one.side for one in ranked] == ["below", "around", "around"]
    # Shrunk towards the change of all, which is -.117.
    assert -20 / 60 < ranked[0].change < -0.117
    nothing, p_value = ranked_categories(compare(before=before, after=categories(3, 1, 2)))
    assert nothing == ()
    assert p_value > 0.05
    one, p_value = ranked_categories(compare(before=categories(0), after=categories(20)))
    assert (one, math.isnan(p_value)) == ((), True)


def test_no_verdict_is_pass_beside_a_loss_beyond_a_limit() -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        before = categories(0, 0, 0, 0)
        after = categories(*rng.integers(0, 25, 4).tolist())
        comparison = compare(before=before, after=after)
        found = conclude(comparison)
        if found.verdict.answer == "PASS":
            assert all(one.interval[1] >= -0.05 for one in found.ranked)
            assert not any(one.side == "below" and one.interval[0] <= -0.05 for one in found.lost)


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
    assert (found.whole, [one.group.name for one in found.lost]) == ("below", ["a"])
    assert (found.categories, found.looks, found.groups, found.is_run, found.alarms) == (2, None, 0, False, ())
    balanced = conclude(compare(before=start, after=two_categories(30, gained=30)))
    assert (balanced.whole, [one.group.name for one in balanced.won]) == ("around", ["b"])
    assert not conclude(compare(before=start, after=start)).lost
    one_category = conclude(compare(before=snapshot([True] * 60), after=snapshot([False] * 20 + [True] * 40)))
    assert (one_category.ranked, one_category.categories) == ((), 0)


@pytest.mark.parametrize(
    ("looks", "alarms", "states"),
    [((0, 0), 0, set()), ((0, 30), 2, {"lasting"}), ((30, 0), 2, {"recovered"}), ((30, 4), 2, {"unclear", "lasting"})],
)
def test_a_run_says_what_became_of_its_alarms(looks: tuple[int, ...], alarms: int, states: set[str]) -> None:
    steps = [two_categories(lost, step=step) for step, lost in enumerate((0, *looks))]
    run = Trajectory.of(steps, planned=2)
    found = conclude(run.comparisons[-1], trajectory=run)
    assert (len(found.alarms), found.is_run, found.looks, found.groups) == (alarms, True, 2, 3)
    assert {one.state for one in found.alarms} <= states


def test_a_loss_can_be_seen_from_the_detectable_change_on() -> None:
    group = compare(before=two_categories(0, step=0), after=two_categories(20)).all
    assert smallest_seen(group) == group.detectable_change  # without scores
    assert can_see(group, group.detectable_change)
    assert not can_see(group, group.detectable_change - 1e-9)
    whole = compare(before=scored(150, 0), after=scored(150, 20)).all
    assert smallest_seen(whole) == whole["detectable_change_estimate"]
    assert not can_see(compare(before=snapshot([None]), after=snapshot([None])).all, 1.0)
