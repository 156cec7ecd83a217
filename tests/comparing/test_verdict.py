"""One decision for every output.

Alarms of whole runs: simulated runs have the alarms of a trajectory, and unchanged ones are silent.
"""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from looks import CATEGORIES, damaged_run, fall_p_value, null_run, raised, run_tests, skewed
from numpy.typing import NDArray
from pages import printed
from pages import table as table_of
from scipy import stats
from scipy.special import softmax
from support import decided, snapshot

from forgetwatch import Snapshot, compare
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import _told, conclude, decide
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.comparing.verdict import (
    Tolerance,
    is_beyond,
    ranked_categories,
    side_of_zero,
    worst,
)
from forgetwatch.metrics.margin_change import FEWEST_TESTED
from forgetwatch.metrics.significance import alarm_level
from forgetwatch.policy.policy import limits_of
from forgetwatch.policy.ruling import Sides, apply_policy
from forgetwatch.report.eight_lines import first_table
from forgetwatch.run.guard import Guard

LOST = {"PASS": 0, "INCONCLUSIVE": 5, "FAIL": 60}
"""Forgotten of 400 items, by the answer at the usual tolerance."""


@pytest.mark.parametrize("answer", LOST)
def test_terminal_python_gate_and_guard_take_one_decision(answer: str) -> None:
    before = snapshot([True] * 400, meta={"step": 0})
    after = snapshot([False] * LOST[answer] + [True] * (400 - LOST[answer]), meta={"step": 1})
    comparison = compare(before=before, after=after)
    found = decide(comparison)
    assert found.answer == answer
    assert printed(table_of(comparison)).startswith(f"{found.word} ")
    assert found.word in str(comparison)
    limits = limits_of(no_worse_than="2%")
    assert (
        apply_policy(limits, Sides(before=before, after=after), comparison=comparison).answer
        == answer
    )
    findings = Guard().findings(trajectory_of([before, after]))
    assert {one.what for one in findings} == ({"alarm", "policy"} if answer == "FAIL" else set())


def test_the_verdict_carries_its_legs_and_their_numbers() -> None:
    comparison = compare(before=snapshot([True] * 60), after=snapshot([True] * 60))
    found = decide(comparison)
    accuracy, knowledge, category = found.legs
    assert (found.answer, found.word, found.deciding) == ("INCONCLUSIVE", "NOT CLEAR", "accuracy")
    assert (accuracy.limit, accuracy.value, accuracy.answer) == (-0.02, 0.0, "INCONCLUSIVE")
    assert accuracy.interval == comparison.all.net_change_interval
    assert (knowledge.answer, knowledge.reason) == (
        None,
        "no options or their probabilities are recorded",
    )
    assert (category.answer, category.reason) == (None, "fewer than two categories")
    assert (is_beyond(comparison.all, 0.5), is_beyond(comparison.all, 0.02)) == (False, None)
    assert decide(comparison, Tolerance(known=None, category=None)).legs == (accuracy,)


def test_nothing_measured_is_inconclusive() -> None:
    found = decide(compare(before=snapshot([None]), after=snapshot([True])))
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
    found = decide(compare(before=scored(150, 0), after=scored(150, lost)), tolerance)
    knowledge = found.leg("knowledge")
    assert knowledge is not None
    assert (knowledge.answer, found.answer) == answers
    assert found.deciding == ("knowledge" if lost >= 8 else "accuracy")
    assert knowledge.interval is not None
    assert knowledge.interval[0] <= knowledge.value <= knowledge.interval[1]  # type: ignore[operator]


def test_of_few_known_items_the_right_answers_are_judged_and_do_not_fail_without_a_second_measurement() -> (
    None
):
    scores = np.random.default_rng(1).normal(0, 0.3, (200, 4))
    scores[:30, 0], scores[30:60, 1] = 6.0, 6.0  # 30 known, 10 of them by luck
    scores[60:140, 0] += 1.2  # right, and not sure
    fallen = scores.copy()
    fallen[:30, 0], fallen[:30, 2] = 0.0, 6.0
    before, after = decided(scores), decided(fallen)
    found = decide(compare(before=before, after=after))
    knowledge = found.leg("knowledge")
    assert knowledge is not None
    assert (knowledge.of, knowledge.answer) == ("its right answers", "INCONCLUSIVE")
    assert knowledge.interval is not None
    assert knowledge.interval[0] > 0.05
    few = decide(compare(before=before, after=after, repeat=before)).leg("knowledge")
    assert few is not None
    assert few.answer == "INCONCLUSIVE"  # fewer than 300 were measured twice


def test_right_answers_lost_beyond_noise_fail_where_the_base_was_measured_twice() -> None:
    rng = np.random.default_rng(3)
    right = rng.random(900) < 0.5
    lost = right & (rng.random(900) < 0.3)
    won = ~right & (rng.random(900) < 0.3)
    columns = {"output": ["a"] * 900}
    before, after = (
        snapshot(right.tolist(), **columns),
        snapshot((right & ~lost | won).tolist(), **columns),
    )
    alone, twice = (
        decide(compare(before=before, after=after)),
        decide(compare(before=before, after=after, repeat=before)),
    )
    assert (alone.word, alone.next) == ("NOT CLEAR", "measure twice")
    assert "score the base twice" in alone.sentence
    assert (twice.word, twice.next) == ("FORGOT", "mend")
    assert "beyond guessing and noise" in twice.basis


def test_fewer_than_fifty_questions_never_pass() -> None:
    few, enough = scored(30, 0, items=45), scored(45, 0, items=90)
    found = decide(compare(before=few, after=few), Tolerance(known=None, category=None))
    assert (found.word, "45 questions are too few to say that it kept" in found.sentence) == (
        "NOT CLEAR",
        True,
    )
    assert (
        decide(compare(before=enough, after=enough), Tolerance(known=None, category=None)).word
        == "KEPT"
    )


@pytest.mark.parametrize(
    ("lost", "gained", "word"), [(4, 0, "NOT CLEAR"), (3, 0, "KEPT"), (4, 1, "KEPT")]
)
def test_a_category_of_any_size_that_sank_stands_in_the_way(
    lost: int, gained: int, word: str
) -> None:
    """Of 7 right answers of a category half are lost and none gained, among 3,000 that do not change."""
    size = 7 + gained
    names = ["big"] * 3000 + ["small"] * size + ["other"] * 300
    before = snapshot([True] * 3000 + [True] * 7 + [False] * gained + [True] * 300, category=names)
    after = snapshot(
        [True] * 3000 + [False] * lost + [True] * (7 - lost) + [True] * gained + [True] * 300,
        category=names,
    )
    found = decide(compare(before=before, after=after), Tolerance(known=None))
    assert found.word == word
    if word == "NOT CLEAR":
        assert "4 of 7 right answers of small are lost and none gained" in found.sentence


def test_a_category_that_sank_carries_its_own_numbers() -> None:
    """400 answers that flip both ways alike, and four questions of which all are lost."""
    names = ["big"] * 300 + ["other"] * 100 + ["Tools"] * 4
    before = snapshot(([True] * 3 + [False]) * 100 + [True] * 4, category=names)
    after = snapshot(([True] * 3 + [False]) * 100 + [False] * 4, category=names)
    leg = decide(compare(before=before, after=after), Tolerance(accuracy=0.2, known=None)).leg(
        "category"
    )
    assert leg is not None
    assert (leg.group, leg.value, leg.answer, leg.is_tolerable) == (
        "Tools",
        -1.0,
        "INCONCLUSIVE",
        False,
    )
    assert leg.interval is not None
    assert leg.interval[0] == -1.0
    assert -0.31 < leg.interval[1] < 0  # -.31 at 95 %, and wider at that of two categories
    assert leg.reason == "4 of 4 right answers of Tools are lost and none gained"


def fallen(lost: int, of: int, *, back: int = 0) -> Comparison:
    """Two models of which one lost and regained answers of Math; nine categories, the others of 400 unchanged items."""
    names = ["Math"] * of + [f"c{n % 8}" for n in range(3200)]
    others = ([True] * 3 + [False]) * 800
    math_before = [True] * (of - back) + [False] * back
    math_after = [False] * lost + [True] * (of - back - lost) + [True] * back
    return compare(
        before=snapshot(math_before + others, category=names),
        after=snapshot(math_after + others, category=names),
    )


@pytest.mark.parametrize(
    ("lost", "back", "of", "word"),
    [
        (0, 0, 60, "KEPT"),
        (7, 5, 60, "NOT CLEAR"),  # -3 points, and perhaps -21
        (0, 0, 20, "KEPT"),  # -28 at worst without a flip: too small to meet the bound, named
        (2, 2, 20, "KEPT"),
        (0, 0, 35, "KEPT"),  # -18 at worst
        (2, 1, 35, "NOT CLEAR"),
    ],
)
def test_a_category_that_may_have_lost_20_points_stands_in_the_way(
    lost: int, back: int, of: int, word: str
) -> None:
    found = decide(fallen(lost, of, back=back), Tolerance(known=None))
    assert found.word == word
    leg = found.leg("category")
    assert leg is not None
    if word == "NOT CLEAR":
        assert found.sentence.startswith(f"Math ({of} questions) may have lost ")
    elif leg.worst is not None and leg.worst < -0.2:
        where = dict(
            first_table(fallen(lost, of, back=back), tolerance=Tolerance(known=None)).rows
        )["where"]
        assert where.startswith(f"none stands out; Math ({of} questions) may have lost ")
    # Four times the limit, where that is more than 20 points.
    assert decide(fallen(lost, of, back=back), Tolerance(known=None, category=0.2)).word == "KEPT"


def test_few_right_answers_block_kept_and_never_forgot() -> None:
    """200 items of four options: all 40 of Tools right and 16 of the others; after it Tools has none."""
    names = ["Tools"] * 40 + ["Facts"] * 160
    columns = {"category": names, "k": [4] * 200, "gold": [0] * 200}
    before = snapshot([True] * 40 + ([True] + [False] * 9) * 16, **columns)
    made = compare(
        before=before, after=snapshot([False] * 40 + ([True] + [False] * 9) * 16, **columns)
    )
    found = decide(made)
    assert (found.word, found.answer) == ("FORGOT", "FAIL")
    assert dict(first_table(made).rows)["where"] == "worst: Tools, 40 of 40 lost, 0 gained"
    assert "little right before, so little to lose: Facts (16 of 160)" in found.reasons
    assert conclude(made).categories == 2
    unchanged = decide(compare(before=before, after=before))
    right = "28 % right of 200, 25 % by chance"
    assert (
        unchanged.sentence
        == f"before training it was not shown to be better than guessing ({right})"
    )
    assert (unchanged.word, unchanged.answer) == ("NOT CLEAR", "INCONCLUSIVE")
    two = {"k": [2] * 60, "gold": [0] * 60}
    lost = compare(
        before=snapshot([True] * 36 + [False] * 24, **two), after=snapshot([False] * 60, **two)
    )
    assert decide(lost).word == "FORGOT"


def test_a_weak_category_fails_by_a_sure_fall_alone() -> None:
    names = ["Math"] * 400 + ["weak"] * 40
    columns = {"category": names, "k": [4] * 440, "gold": [0] * 440}
    before = snapshot(([True] * 3 + [False]) * 100 + [True] * 12 + [False] * 28, **columns)
    lost = snapshot(([True] * 3 + [False]) * 100 + [False] * 12 + [False] * 28, **columns)
    some = snapshot(
        ([True] * 3 + [False]) * 100 + [False] * 4 + [True] * 8 + [False] * 28, **columns
    )
    assert (
        decide(compare(before=before, after=lost), Tolerance(accuracy=0.2, known=None)).word
        == "FORGOT"
    )
    found = decide(compare(before=before, after=some), Tolerance(accuracy=0.2, known=None))
    assert (found.word, found.reasons) == (
        "KEPT",
        ("little right before, so little to lose: weak (12 of 40)",),
    )


def test_kept_by_categories_alone_begins_with_them() -> None:
    found = decide(fallen(0, 60, back=0), Tolerance(accuracy=None, known=None, category=0.3))
    assert (found.word, found.sentence[:1].isalpha()) == ("KEPT", True), found.sentence


@pytest.mark.parametrize("wrong", [2, 6])
def test_right_answers_that_vanish_count_among_those_before(wrong: int) -> None:
    names = ["Tools"] * (10 + wrong) + [f"c{i % 4}" for i in range(1600)]
    columns = {"category": names, "k": [4] * len(names), "gold": [0] * len(names)}
    others = [i % 8 < 4 for i in range(1600)]
    before = snapshot([True] * 10 + [False] * wrong + others, **columns)
    found = decide(
        compare(before=before, after=snapshot([None] * 10 + [False] * wrong + others, **columns))
    )
    assert found.word == "NOT CLEAR"
    assert "10 of 10 right answers of Tools have no outcome" in found.sentence
    assert not any("guessed" in reason for reason in found.reasons)


def test_a_category_that_cannot_meet_the_bound_unchanged_does_not_block() -> None:
    """31 questions of which 30 are right, and 60 about 12 texts; no answer changes."""
    few = snapshot(
        ([True, False] * 400) + [True] * 30 + [False], category=["big"] * 800 + ["few"] * 31
    )
    assert decide(compare(before=few, after=few), Tolerance(known=None)).word == "KEPT"
    texts = [f"a{i}" for i in range(800)] + [f"b{i % 12}" for i in range(60)]
    names = ["big"] * 800 + ["texts"] * 60
    clustered = snapshot(
        ([True, False] * 400) + [True, True, False] * 20, category=names, cluster=texts
    )
    found = first_table(compare(before=clustered, after=clustered), tolerance=Tolerance(known=None))
    assert (found.decision.word, "texts (60 questions)" in dict(found.rows)["where"]) == (
        "KEPT",
        True,
    )


def test_what_must_be_known_beside_a_word_is_said() -> None:
    names = ["big"] * 400 + ["tools"] * 4 + ["law"] * 60
    before = snapshot([True] * 464, category=names)
    after = snapshot([True] * 400 + [False] * 2 + [True] * 62, category=names)
    found = decide(compare(before=before, after=after), chosen_among=20)
    assert found.reasons == (
        "it answered 100 % right: too easy to show a small loss",
        "too few to judge: tools (2 of 4 lost)",
        "chosen among 20 looks by these questions: about 1 to 2 points too good",
    )


def test_known_items_that_vanished_may_be_lost() -> None:
    before, after = scored(150, 0), scored(150, 0)
    right = after.table["correct"].to_pylist()
    columns = {
        name: after.table[name].to_pylist()
        for name in ("k", "gold", "chosen", "choice_logprobs", "gold_share")
    }
    gone = {
        name: [None] * 20 + values[20:]
        for name, values in columns.items()
        if name not in ("k", "gold")
    }
    vanished = snapshot([None] * 20 + right[20:], meta=dict(after.meta), **{**columns, **gone})
    found = decide(compare(before=before, after=vanished), Tolerance(accuracy=0.2, category=None))
    knowledge = found.leg("knowledge")
    assert knowledge is not None
    assert (knowledge.answer, knowledge.is_open_by_vanished) == ("INCONCLUSIVE", True)
    assert (found.answer, found.next) == ("INCONCLUSIVE", "vanished")


def categories(*lost: int, of: int = 60, step: int = 1) -> Snapshot:
    """Look at categories a, b, ... of some items each, of which so many are lost."""
    right = [at >= count for count in lost for at in range(of)]
    names = [name for name, _ in zip("abcdefghi", lost, strict=False) for _ in range(of)]
    return snapshot(right, category=names, meta={"step": step})


def test_a_category_alone_fails_the_verdict_by_its_simultaneous_interval() -> None:
    before = categories(0, 0, 0, 0, 0, 0, of=120)
    found = decide(
        compare(before=before, after=categories(30, 0, 0, 0, 0, 0, of=120)), Tolerance(accuracy=0.2)
    )
    leg = found.leg("category")
    assert leg is not None
    assert (found.answer, found.deciding, leg.group, leg.answer) == (
        "FAIL",
        "category",
        "a",
        "FAIL",
    )
    group = compare(before=before, after=categories(30, 0, 0, 0, 0, 0, of=120)).by("category")["a"]
    assert leg.interval is not None
    assert (
        leg.interval[0]
        < group.net_change_interval[0]
        < group.net_change_interval[1]
        < leg.interval[1]
    )
    # 11 of 120 lost: its own 95 % interval is below -4 points, and the simultaneous one contains the limit.
    unclear = decide(
        compare(before=before, after=categories(11, 0, 0, 0, 0, 0, of=120)), Tolerance(accuracy=0.2)
    )
    assert (unclear.answer, unclear.deciding, unclear.next) == (
        "INCONCLUSIVE",
        "category",
        "measure or mend",
    )


def test_categories_are_ranked_where_they_differ_by_more_than_chance() -> None:
    before = categories(0, 0, 0)
    ranked, p_value = ranked_categories(compare(before=before, after=categories(20, 1, 0)))
    assert [one.group.name for one in ranked] == ["a", "b", "c"]
    assert p_value < 1e-3
    assert [one.side for one in ranked] == ["below", "around", "around"]
    # Shrunk towards the change of all, which is -.117.
    assert pytest.approx(ranked[0].change) == -20 / 60
    assert ranked[0].change < ranked[0].shrunk < -0.117
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
        if found.decision.answer == "PASS":
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
    right = (
        [False] * lost + [True] * (100 - lost) + [True] * (50 + gained) + [False] * (50 - gained)
    )
    return snapshot(right, category=["a"] * 100 + ["b"] * 100, meta={"step": step})


def test_a_conclusion_of_one_comparison_is_about_this_look_alone() -> None:
    start = two_categories(0, step=0)
    found = conclude(compare(before=start, after=two_categories(30)))
    assert [one.group.name for one in found.lost] == ["a"]
    assert (found.categories, found.alarms) == (2, ())
    assert not conclude(compare(before=start, after=start)).lost
    one_category = conclude(
        compare(before=snapshot([True] * 60), after=snapshot([False] * 20 + [True] * 40))
    )
    assert (one_category.ranked, one_category.categories) == ((), 0)


@pytest.mark.parametrize(
    ("looks", "alarms", "states"),
    [
        ((0, 0), 0, set()),
        ((0, 30), 2, {"lasting"}),
        ((30, 0), 2, {"recovered"}),
        ((30, 4), 2, {"unclear", "lasting"}),
    ],
)
def test_a_run_says_what_became_of_its_alarms(
    looks: tuple[int, ...], alarms: int, states: set[str]
) -> None:
    steps = [two_categories(lost, step=step) for step, lost in enumerate((0, *looks))]
    run = trajectory_of(steps, planned=2)
    found = conclude(run.comparisons[-1], trajectory=run)
    assert len(found.alarms) == alarms
    assert {one.state for one in found.alarms} <= states


def as_look(scores: NDArray[np.float64], step: int) -> Snapshot:
    """Snapshot of a look with the scores of the options [items, k]; option 0 is right."""
    return decided(
        scores - scores.max(),
        category=np.repeat([f"c{i}" for i in range(len(CATEGORIES))], CATEGORIES).tolist(),
        gold_share=softmax(scores, axis=1)[:, 0].tolist(),
        meta={"step": step},
    )


@pytest.mark.parametrize("damage", [False, True])
def test_simulated_runs_have_the_alarms_of_a_trajectory(damage: bool) -> None:
    rng = np.random.default_rng(11)
    scores = (
        damaged_run(rng, noise=4.0, lost=0.3) if damage else null_run(rng, noise=1.0, factor=2.0)
    )
    chosen = [1, 10, 20]  # a trajectory of all looks would take seconds
    trajectory = trajectory_of([as_look(scores[look], look) for look in [0, *chosen]], planned=20)
    found = run_tests(scores)
    alarms = raised(found)
    names = ["all", *(f"c{i}" for i in range(len(CATEGORIES)))]
    verdicts = [one for one in trajectory.verdicts() if one.kind == "net"]
    assert len(verdicts) == len(chosen) * len(names)
    for test in verdicts:
        at = test.step - 1, names.index(test.group.name)
        assert test.by == ("margins" if test.group.n >= FEWEST_TESTED else "flips")
        if test.by == "flips":
            assert test.p_value == pytest.approx(found[at], rel=1e-9)
            assert test.raised == alarms[at]
    assert any(test.raised for test in verdicts) == damage


def test_of_margins_the_same_p_values() -> None:
    scores = damaged_run(np.random.default_rng(11), noise=2.0)
    trajectory = trajectory_of([as_look(scores[look], look) for look in (0, 20)], planned=20)
    found = run_tests(scores)[19]
    whole, *categories = (one for one in trajectory.verdicts() if one.kind == "net")
    assert whole.p_value == pytest.approx(found[0], rel=1e-6)
    assert categories[0].p_value == pytest.approx(found[1], rel=1e-6)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_unchanged_runs_of_twenty_looks_are_silent(factor: float) -> None:
    """At most 5 % of runs have an alarm: 60 runs, a bound that more than 5 % would break in time."""
    rng = np.random.default_rng(12)
    alarmed = sum(
        raised(run_tests(null_run(rng, noise=0.7, factor=factor))).any() for _ in range(60)
    )
    assert stats.binom.sf(alarmed - 1, 60, 0.05) > 1e-3


@pytest.mark.parametrize("few_rises", [True, False])
@pytest.mark.parametrize("items", [50, 250])
def test_changes_that_are_skewed_and_0_on_average_raise_no_alarm(
    few_rises: bool, items: int
) -> None:
    rng, level = np.random.default_rng(13), alarm_level(1, groups=1, planned=20, alpha=0.025)
    alarmed = sum(
        any(
            fall_p_value(look) <= level
            for look in skewed(rng, (20, items), mean=0.0, right=few_rises)
        )
        for _ in range(60)
    )
    assert stats.binom.sf(alarmed - 1, 60, 0.05) > 1e-3


def test_limits_of_categories_alone_say_what_each_may_have_lost() -> None:
    """Sixty questions each, four of a lost and as many gained: no loss shown, and none of 5 points excluded."""
    right = [True] * 30 + [False] * 30
    moved = [False] * 4 + [True] * 26 + [True] * 4 + [False] * 26
    names = ["a"] * 60 + ["b"] * 60
    before, after = snapshot(right * 2, category=names), snapshot(moved + right, category=names)
    found = decide(compare(before=before, after=after), Tolerance(accuracy=None, known=None))
    assert found.word == "NOT CLEAR"
    assert found.sentence.startswith("a (60 questions) may have lost ")
    assert "not measured" not in found.sentence


@pytest.mark.parametrize("level", [0.95, 0.996])
def test_the_sentence_has_the_level_of_its_interval(level: float) -> None:
    before, kept, lost = (
        snapshot([True] * 600),
        snapshot([True] * 600),
        snapshot([False] * 90 + [True] * 510),
    )
    for after in (kept, lost) if level != 0.95 else (kept,):
        assert (
            f"{100 * level:.4g} % sure"
            in decide(compare(before=before, after=after), level=level).sentence
        )


@pytest.mark.parametrize(
    ("word", "told"), [("KEPT", "not clear now"), ("NOT CLEAR", ""), ("FORGOT", "")]
)
def test_a_lasting_alarm_beside_kept_is_not_clear(word: str, told: str) -> None:
    """The decision has no limit for its group: what holds is the word."""
    now: Any = SimpleNamespace(kind="net", group=SimpleNamespace(level="category"))
    decided: Any = SimpleNamespace(word=word, leg=lambda name: None)
    assert _told(now, "lasting", decided) == told
