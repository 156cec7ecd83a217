from __future__ import annotations

import pytest
from support import snapshot

from forgetwatch import compare
from forgetwatch.comparing import Comparison
from forgetwatch.errors import GateError
from forgetwatch.gates import Condition, FailIf, NoWorseThan

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
    assert (found.what, found.verdict, found.limit) == (f"{group}.net_change", verdict, "no worse than -2 points")


def test_an_inconclusive_finding_names_the_items_needed(comparison: Comparison) -> None:
    assert "items would decide" in NoWorseThan(tolerance=0.02, group="category:Art").judge(comparison).measured
    assert NoWorseThan(tolerance=0.2, group="category:Art").judge(comparison).verdict == "PASS"


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
