"""Limits on groups, items that must be right, and the verdict of several findings."""

from __future__ import annotations

import pytest
from pages import sure
from support import snapshot

from forgetwatch import Item, Probe, compare
from forgetwatch.comparing import Comparison, Tolerance
from forgetwatch.errors import GateError
from forgetwatch.gates import Condition, FailIf, Finding, Gate, GateResult, MustPass, NoWorseThan, parse_no_worse_than

BEFORE, AFTER = snapshot([True] * 9), snapshot([True] * 8 + [None])
COMPARISON = compare(before=BEFORE, after=AFTER)
PASSES = FailIf(condition=Condition.parse("newly_unscored>1"))
FAILS = FailIf(condition=Condition.parse("n>1"))
UNCLEAR = NoWorseThan(tolerance=0.02)
UNSCORED = MustPass(items=((None, "8"),))


@pytest.mark.parametrize(
    ("gate", "verdict"),
    [
        (Gate(limits=(PASSES,)), "PASS"),
        (Gate(limits=(PASSES, UNCLEAR)), "INCONCLUSIVE"),
        (Gate(limits=(PASSES,), must_pass=UNSCORED), "INCONCLUSIVE"),
        (Gate(limits=(UNCLEAR, FAILS, PASSES)), "FAIL"),
    ],
)
def test_the_worst_finding_is_the_verdict(gate: Gate, verdict: str) -> None:
    judgement = gate.judge(COMPARISON, AFTER)
    assert judgement.verdict == verdict
    assert len(judgement.findings) == len(gate.limits) + (gate.must_pass is not None)


def test_one_line_holds_what_did_not_pass_and_nothing_else() -> None:
    line = Gate(limits=(PASSES, FAILS, UNCLEAR)).judge(COMPARISON, AFTER).line
    assert line.startswith("gate FAIL: n 8 (fails if >1); inconclusive: all.net_change_estimate +0.0 points (")
    assert "newly_unscored" not in line
    assert Gate(limits=(PASSES,)).judge(COMPARISON, AFTER).line == "gate PASS: newly_unscored 1 (fails if >1)"
    assert Gate(limits=(UNCLEAR,)).judge(COMPARISON, AFTER).line.startswith("gate INCONCLUSIVE: all.net_change")


def test_the_tolerance_over_all_is_the_strictest() -> None:
    of_a_group = NoWorseThan(tolerance=0.001, group="category:c")
    assert Gate(limits=(of_a_group, NoWorseThan(tolerance=0.05), UNCLEAR)).tolerance == Tolerance(accuracy=0.02)
    assert Gate(limits=(of_a_group, PASSES)).tolerance == Tolerance()
    known = NoWorseThan(tolerance=0.01, leg="knowledge")
    assert Gate(limits=(known, UNCLEAR)).tolerance == Tolerance(accuracy=0.02, known=0.01)


def test_a_gate_without_limits_is_empty() -> None:
    assert Gate().is_empty
    assert not Gate(must_pass=UNSCORED).is_empty


def test_a_result_is_made_of_its_findings() -> None:
    finding = Finding(what="x", measured="1", limit="fails if >0", verdict="FAIL")
    assert GateResult(comparison=COMPARISON, findings=(finding,)).line == "gate FAIL: x 1 (fails if >0)"


LABELS = {"category": ["Math"] * 60 + ["Art"] * 60, "task": ["x", "y"] * 60}


@pytest.fixture
def comparison() -> Comparison:
    """Math loses 30 of 60, Art none of 60."""
    return compare(before=snapshot([True] * 120, **LABELS), after=snapshot([False] * 30 + [True] * 90, **LABELS))


@pytest.mark.parametrize(
    ("group", "verdict"), [("all", "FAIL"), ("category:Math", "FAIL"), ("category:Art", "INCONCLUSIVE")]
)
def test_a_tolerance_is_checked_by_the_interval_of_its_group(comparison: Comparison, group: str, verdict: str) -> None:
    found = NoWorseThan(tolerance=0.02, group=group).judge(comparison)
    assert (found.what, found.verdict, found.limit) == (
        f"{group}.net_change_estimate",
        verdict,
        "no worse than -2 points",
    )


def test_an_inconclusive_finding_has_the_interval_that_contains_its_limit(comparison: Comparison) -> None:
    found = NoWorseThan(tolerance=0.02, group="category:Art").judge(comparison)
    assert (found.verdict, found.measured) == ("INCONCLUSIVE", "+0.0 points (-6.0 to +6.0)")
    assert NoWorseThan(tolerance=0.2, group="category:Art").judge(comparison).verdict == "PASS"


def test_each_leg_is_a_limit_of_its_own(comparison: Comparison) -> None:
    accuracy, known, category = parse_no_worse_than("60%, known=5%,category=5%")
    assert accuracy.judge(comparison).verdict == "PASS"
    found = category.judge(comparison)
    assert (found.what, found.verdict) == ("category", "FAIL")
    assert found.measured.startswith("Math -50.0 points (")
    found = known.judge(comparison)  # the answers have no scores
    assert (found.what, found.verdict, found.limit) == (
        "knowledge",
        "INCONCLUSIVE",
        "at most 5 % of what it clearly knew",
    )
    assert found.measured.startswith("not measured: ")
    found = known.judge(sure(4).comparison)
    assert (found.verdict, found.measured.partition(" % lost (")[0]) == ("FAIL", "15.0")


@pytest.mark.parametrize(
    "text", ["", "2", "2%,3%", "know=5%", "known=", "known=0", "2%,known=150%", "known=5%,known=4%"]
)
def test_a_text_that_is_no_tolerance_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the caller says what was needed
        parse_no_worse_than(text)


def test_a_condition_of_a_group_is_measured_there(comparison: Comparison) -> None:
    condition = Condition.parse("forgotten>29")
    assert FailIf(condition=condition, group="category:Math").judge(comparison).verdict == "FAIL"
    assert FailIf(condition=condition, group="category:Art").judge(comparison).verdict == "PASS"
    assert FailIf(condition=condition).judge(comparison).verdict == "FAIL"


def test_a_value_is_printed_in_percent_if_its_limit_is(comparison: Comparison) -> None:
    assert (
        FailIf(condition=Condition.parse("forgetting > 5%")).judge(comparison).line == "forgetting 25% (fails if > 5%)"
    )
    assert FailIf(condition=Condition.parse("forgetting>.05")).judge(comparison).measured == "0.25"


@pytest.mark.parametrize("group", ["category:Physics", "task:Math", "category:math", "category:"])
def test_a_missing_group_is_an_error(comparison: Comparison, group: str) -> None:
    for limit in (NoWorseThan(tolerance=0.5, group=group), FailIf(condition=Condition.parse("n<1"), group=group)):
        with pytest.raises(GateError, match=r"no group .* there are all, "):
            limit.judge(comparison)


def test_a_group_without_scored_items_is_an_error_and_no_pass() -> None:
    labels = {"category": ["Math", "Art"]}
    made = compare(before=snapshot([True, None], **labels), after=snapshot([True, True], **labels))
    with pytest.raises(GateError, match="net change of 'category:Art' is undefined"):
        NoWorseThan(tolerance=0.02, group="category:Art").judge(made)


def test_where_nothing_was_compared_there_is_no_verdict() -> None:
    made = compare(before=snapshot([None]), after=snapshot([True]))
    with pytest.raises(GateError, match="undefined"):
        NoWorseThan(tolerance=0.02).judge(made)
    with pytest.raises(GateError, match="has no number"):
        FailIf(condition=Condition.parse("forgetting>5%")).judge(made)


def test_a_finding_shows_the_net_change_and_its_interval_in_points(comparison: Comparison) -> None:
    low, high = comparison.by("category")["Math"].net_change_interval
    measured = NoWorseThan(tolerance=0.02, group="category:Math").judge(comparison).measured
    assert measured == f"-50.0 points ({100 * low:+.1f} to {100 * high:+.1f})"
    assert -0.65 < low < -0.5 < high < -0.35


MIXED = snapshot([True, False, None, True])


def of(*ids: str) -> MustPass:
    return MustPass(items=tuple((None, one) for one in ids))


@pytest.mark.parametrize(
    ("ids", "verdict", "measured"),
    [
        (["0", "3"], "PASS", "2 of 2 right"),
        (["0", "1"], "FAIL", "1 of 2 right; wrong: 1"),
        (["0", "2"], "INCONCLUSIVE", "1 of 2 right; unscored: 2"),
        (["1", "2"], "FAIL", "0 of 2 right; wrong: 1; unscored: 2"),
    ],
)
def test_a_wrong_item_fails_and_an_unscored_one_is_inconclusive(ids: list[str], verdict: str, measured: str) -> None:
    found = of(*ids).judge(MIXED)
    assert (found.verdict, found.measured) == (verdict, measured)


def test_a_missing_item_is_an_error() -> None:
    with pytest.raises(GateError, match="item '9' is not among the items"):
        of("0", "9").judge(MIXED)
    with pytest.raises(GateError, match="item '0' of task 'other' is not among"):
        MustPass(items=(("other", "0"),)).judge(MIXED)


def test_an_id_of_several_tasks_needs_its_task() -> None:
    twice = snapshot([True, False], item_id=["a", "a"], task=["x", "y"])
    with pytest.raises(GateError, match=r"'a' is in 2 tasks .*\(x, y\); name the task"):
        of("a").judge(twice)
    assert MustPass(items=(("x", "a"),)).judge(twice).verdict == "PASS"
    assert MustPass(items=(("y", "a"),)).judge(twice).verdict == "FAIL"


def test_an_item_answered_several_times_must_be_right_each_time() -> None:
    columns = {"item_id": ["a", "a", "b", "b"], "sample": [0, 1, 0, 1]}
    assert of("a", "b").judge(snapshot([True, False, True, True], **columns)).measured == "1 of 2 right; wrong: a"
    assert of("a").judge(snapshot([True, None, True, True], **columns)).verdict == "INCONCLUSIVE"
    assert of("a").judge(snapshot([False, None, True, True], **columns)).verdict == "FAIL"


def test_of_many_wrong_items_the_first_are_named() -> None:
    found = of(*map(str, range(12))).judge(snapshot([False] * 12))
    assert found.measured == "0 of 12 right; wrong: 0, 1, 2, 3, 4 and 7 more"


def test_the_marked_items_of_a_probe_must_be_right() -> None:
    items = [Item(id=i, task="t", prompt="?", choices=(" a", " b"), answer=0, must_pass=i != "1") for i in "012"]
    assert MustPass.tagged(Probe(items)).items == (("t", "0"), ("t", "2"))
    with pytest.raises(GateError, match="no item of the probe 'probe' is marked"):
        MustPass.tagged(Probe(items[1:2]))
