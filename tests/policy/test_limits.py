"""Limits of options, and items that must be right: what they measure, and what is refused."""

from typing import Any

import pytest
from pages import sure
from support import snapshot

from forgetwatch import Item, Probe, Snapshot, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.errors import GateError
from forgetwatch.policy.policy import limits_of, parse_policy
from forgetwatch.policy.ruling import PolicyResult, Ruling, Sides, apply_policy

LABELS = {"category": ["Math"] * 60 + ["Art"] * 60, "task": ["x", "y"] * 60}
BEFORE, AFTER = snapshot([True] * 120, **LABELS), snapshot([False] * 30 + [True] * 90, **LABELS)
"""Math loses 30 of 60, Art none of 60."""


def judged(
    *fail_if: str, no_worse_than: str | None = None, after: Snapshot = AFTER
) -> PolicyResult:
    return apply_policy(
        limits_of(fail_if=fail_if, no_worse_than=no_worse_than), Sides(before=BEFORE, after=after)
    )


def ruled(text: str, before: Snapshot = BEFORE, after: Snapshot = AFTER) -> Ruling:
    return apply_policy(parse_policy(text, "p"), Sides(before=before, after=after)).rulings[0]


def of_comparison(no_worse_than: str, comparison: Comparison) -> tuple[Ruling, ...]:
    sides = Sides(before=BEFORE, after=BEFORE)
    return apply_policy(
        limits_of(no_worse_than=no_worse_than), sides, comparison=comparison
    ).rulings


def test_the_worst_limit_is_the_answer_and_its_line_names_what_decides() -> None:
    assert (
        judged("newly_unscored>1").line
        == "gate PASS: all newly_unscored 0 (fails if >1): within the limit"
    )
    assert judged("newly_unscored>1", no_worse_than="27%").answer == "INCONCLUSIVE"
    failed = judged("n>1", "newly_unscored>1", no_worse_than="27%")
    assert failed.line == "gate FAIL: all n 120 (fails if >1): beyond the limit"


def test_options_add_to_a_policy_and_share_its_error() -> None:
    policy = parse_policy("policy: mine\nerror: 10%\ncritical: [{accuracy: 60%}]", "p")
    both = limits_of(fail_if=["n<1"], no_worse_than="50%", policy=policy)
    assert (both.name, both.error, len(both.rules)) == ("mine and options", 0.1, 3)
    assert apply_policy(both, Sides(before=BEFORE, after=AFTER)).level == 1 - 0.1 / 2


def test_each_leg_of_the_verdict_is_a_limit_at_its_level() -> None:
    accuracy, known, category = judged(no_worse_than="60%, known=5%,category=5%").rulings
    assert accuracy.answer == "PASS"
    assert (category.what, category.answer) == ("all category", "FAIL")
    assert category.measured.startswith("Math -50.0 points (")
    assert (known.what, known.limit, known.answer) == ("all known", "at most 5 % lost", "MISSING")
    assert known.measured.startswith("not measured: ")
    assert judged(no_worse_than="60%,known=5%,category=5%").level == pytest.approx(0.95)
    (found,) = of_comparison("known=5%", sure(4).comparison)
    assert (found.answer, found.measured.partition(" % lost (")[0]) == ("FAIL", "15.0")


@pytest.mark.parametrize(
    "text", ["", "2", "2%,3%", "know=5%", "known=", "known=0", "2%,known=150%", "known=5%,known=4%"]
)
def test_a_text_that_is_no_tolerance_is_refused(text: str) -> None:
    with pytest.raises(GateError, match="needed a share above 0 and below 1, such as 2%"):
        limits_of(no_worse_than=text)


def test_a_condition_is_measured_in_its_group_and_a_share_in_percent() -> None:
    assert ruled("critical: [category:Math.forgotten>29]").answer == "FAIL"
    assert ruled("critical: [category:Art.forgotten>29]").answer == "PASS"
    assert judged("Math.forgotten>29").rulings[0].what == "category:Math forgotten"
    share = judged("forgetting > 5%").rulings[0]
    assert share.measured.startswith("25 % (")
    assert (share.limit, judged("forgetting>.05").rulings[0].measured.partition(" ")[0]) == (
        "fails if > 5%",
        "0.25",
    )
    every = parse_policy("critical: [category:*.forgotten>29]", "p")
    found = apply_policy(every, Sides(before=BEFORE, after=AFTER)).rulings
    assert [(one.what, one.answer) for one in found] == [
        ("category:Math forgotten", "FAIL"),
        ("category:Art forgotten", "PASS"),
    ]


def test_what_has_no_number_is_an_error_and_no_pass() -> None:
    with pytest.raises(GateError, match="no such group"):
        judged("category:Physics.forgotten>1")
    gone = compare(before=snapshot([None]), after=snapshot([True]))
    with pytest.raises(GateError, match="has no number"):
        apply_policy(
            limits_of(fail_if=["forgetting>5%"]), Sides(before=BEFORE, after=AFTER), comparison=gone
        )
    (missing,) = of_comparison("2%", gone)
    assert missing.answer == "MISSING"


def test_a_subset_is_what_is_limited_and_items_that_must_be_right_may_lie_outside() -> None:
    text = "critical: [n<2, n>2]\nmust_pass: ['8']\nsubset: {categories: [Art], tasks: [x], items: ids.txt}"
    (policy,) = (parse_policy(text.replace(", items: ids.txt", ""), "p"),)
    found = apply_policy(policy, Sides(before=BEFORE, after=AFTER))
    assert (found.comparison.all.n, found.rulings[-1].word) == (30, "wrong")


MIXED = snapshot([True, False, None, True])


def must(given: str, after: Snapshot = MIXED) -> Ruling:
    policy = parse_policy(f"must_pass: {given}", "p")
    return apply_policy(policy, Sides(before=after, after=after)).rulings[-1]


@pytest.mark.parametrize(
    ("ids", "answer", "measured"),
    [
        ("[0, 3]", "PASS", "2 of 2 right"),
        ("[0, 1]", "FAIL", "1 of 2 right; wrong: 1"),
        ("[0, 2]", "INCONCLUSIVE", "1 of 2 right; unscored: 2"),
        ("[1, 2]", "FAIL", "0 of 2 right; wrong: 1; unscored: 2"),
    ],
)
def test_a_wrong_item_fails_and_an_unscored_one_is_inconclusive(
    ids: str, answer: str, measured: str
) -> None:
    assert (must(ids).answer, must(ids).measured) == (answer, measured)


def test_a_missing_item_is_an_error_and_one_of_several_tasks_needs_its_task() -> None:
    with pytest.raises(GateError, match="item '9' is not among the items"):
        must("[0, 9]")
    with pytest.raises(GateError, match="item '0' of task 'other' is not among"):
        must("{other: [0]}")
    twice = snapshot([True, False], item_id=["a", "a"], task=["x", "y"])
    with pytest.raises(GateError, match=r"'a' is in 2 tasks .*\(x, y\); name the task"):
        must("[a]", twice)
    assert (must("{x: [a]}", twice).answer, must("{y: [a]}", twice).answer) == ("PASS", "FAIL")


def test_an_item_answered_several_times_must_be_right_each_time() -> None:
    columns: dict[str, Any] = {"item_id": ["a", "a", "b", "b"], "sample": [0, 1, 0, 1]}
    assert (
        must("[a, b]", snapshot([True, False, True, True], **columns)).measured
        == "1 of 2 right; wrong: a"
    )
    assert must("[a]", snapshot([True, None, True, True], **columns)).answer == "INCONCLUSIVE"
    assert must("[a]", snapshot([False, None, True, True], **columns)).answer == "FAIL"
    many = must(str(list(range(12))), snapshot([False] * 12))
    assert many.measured == "0 of 12 right; wrong: 0, 1, 2, 3, 4 and 7 more"


def test_the_marked_items_of_a_probe_must_be_right() -> None:
    items = [
        Item(id=i, task="t", prompt="?", choices=(" a", " b"), answer=0, must_pass=i != "1")
        for i in "012"
    ]
    assert parse_policy("must_pass: true", "p", Probe(items)).must_pass == (("t", "0"), ("t", "2"))
    with pytest.raises(GateError, match="no item of the probe 'probe' is marked"):
        parse_policy("must_pass: true", "p", Probe(items[1:2]))
