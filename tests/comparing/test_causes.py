"""Why answers were lost: barely known, near the new data, both or neither, on planted worlds."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, rankdata

from forgetwatch import Snapshot
from forgetwatch.comparing.causes import Causes, _by_answer, why_lost
from forgetwatch.metrics.separation import explained, separation
from forgetwatch.probes.nearness import RightAnswer

ITEMS, CATEGORIES = 400, 8


def world(rng: np.random.Generator, cause: str, *, correlation: float = 0.0) -> Causes:
    """Answers of which a fifth is lost by one cause; categories differ in all columns, and in what they lose."""
    category = rng.integers(0, CATEGORIES, ITEMS)
    of_category = rng.normal(0, 1, (2, CATEGORIES))
    first, second = rng.standard_normal((2, ITEMS))
    sure = 1.5 + 1.2 * first + 0.5 * of_category[0, category]
    near = correlation * first + math.sqrt(1 - correlation**2) * second + of_category[1, category]
    by = {
        "sure": -1.2 * sure,
        "near": 1.2 * near,
        "both": -1.2 * sure + 1.2 * near,
        "neither": 0.8 * of_category[1, category],
    }[cause]
    logits = by - np.quantile(by, 0.8)
    lost = rng.random(ITEMS) < 1 / (1 + np.exp(-logits))
    names = {
        "item_id": [str(at) for at in range(ITEMS)],
        "content_hash": [f"h{at}" for at in range(ITEMS)],
        "task": ["t"] * ITEMS,
        "category": [f"c{one}" for one in category],
    }
    share = (1 / (1 + np.exp(-sure))).tolist()
    before = Snapshot.from_columns(
        {**names, "correct": [True] * ITEMS, "gold_share": share}, {"model": "base"}
    )
    after = Snapshot.from_columns({**names, "correct": (~lost).tolist()}, {"model": "tuned"})
    return why_lost(before, after, near={("t", str(at)): float(one) for at, one in enumerate(near)})


SAYS = {
    "sure": "within categories, it lost the less sure of its right answers",
    "near": "within categories, it lost those near the new data",
    "both": "within categories, it lost the less sure of its right answers and those near the new data",
    "neither": "neither how sure it was nor the nearness to the new data explains it",
}


@pytest.mark.full("both", "neither", "sure", reason="further worlds of a simulation")
@pytest.mark.parametrize("cause", SAYS)
def test_a_planted_cause_gets_its_sentence_in_95_of_100_worlds(cause: str) -> None:
    rng = np.random.default_rng(1)
    told = [str(world(rng, cause)) for _ in range(200)]
    right = told.count(SAYS[cause]) / len(told)
    assert right >= 0.93  # two standard errors below 95 % of 200 worlds with one that has no cause
    if cause == "both":
        assert right >= 0.95


@pytest.mark.full("near", "sure-0.5", reason="further worlds of a simulation")
@pytest.mark.parametrize("correlation", [-0.5, 0.5])
@pytest.mark.parametrize("cause", ["sure", "near"])
def test_a_column_that_goes_with_the_cause_gets_no_credit(cause: str, correlation: float) -> None:
    """In at most 5 of 100 worlds; 60 with that share have 7 or fewer in 97 of 100."""
    rng = np.random.default_rng(3)
    told = [str(world(rng, cause, correlation=correlation)) for _ in range(60)]
    assert sum(one not in (SAYS[cause], SAYS["neither"]) for one in told) <= 7


def test_the_test_is_that_of_mann_and_whitney_and_a_column_between_strata_separates_nothing() -> (
    None
):
    rng = np.random.default_rng(0)
    column, lost = rng.normal(size=90).round(1), np.arange(90) < 30
    found = separation(lost, column, np.zeros(90, np.int64))
    other = mannwhitneyu(
        column[lost],
        column[~lost],
        method="asymptotic",
        use_continuity=False,
        alternative="greater",
    )
    assert found is not None
    assert (found.higher, found.auc) == pytest.approx((other.pvalue, other.statistic / (30 * 60)))
    stratum = rng.integers(0, 2, 90)
    assert separation(lost, stratum.astype(float), stratum.astype(np.int64)) is None


def test_of_two_small_strata_pairs_are_counted_within_each() -> None:
    lost = np.array([0, 0, 1, 1, 0, 1] * 3, bool)
    column = np.array([0.1, 0.4, 0.3, 0.9, 0.2, 0.1] * 3)
    found = separation(lost, column, np.array([0, 0, 0, 0, 1, 1] * 3))
    assert found is not None
    assert found.auc == pytest.approx(0.6)
    assert separation(lost[:6], column[:6], np.zeros(6, np.int64)) is None  # three lost are too few


def test_without_rows_only_sureness_is_asked_and_too_few_losses_tell_nothing() -> None:
    names = {
        "item_id": list("abcdef"),
        "content_hash": list("abcdef"),
        "task": ["t"] * 6,
        "category": ["c"] * 6,
    }
    sides = [
        Snapshot.from_columns({**names, "correct": one, "gold_share": [0.9] * 6}, {})
        for one in ([True] * 6, [True] * 5 + [False])
    ]
    found = why_lost(*sides)
    assert [one.column for one in found.causes] == ["sure"]
    assert str(found) == "too few answers were lost to tell (1 of 6)"
    assert math.isnan(found.causes[0].p_value)
    assert sum(part.items for part in found.causes[0].parts) == 6
    assert not found.is_tested


def test_what_a_column_explains_is_beyond_what_permuted_questions_do_and_nothing_between_strata() -> (
    None
):
    rng = np.random.default_rng(2)
    stratum = np.repeat(np.arange(10), 40)
    column = rng.normal(size=400) + 3 * stratum
    lost = rng.random(400) < 1 / (1 + np.exp(-(column - 3 * stratum)))
    found = explained(lost, column, stratum)
    assert found is not None
    ranks = np.concatenate([rankdata(column[stratum == one]) for one in range(10)])
    inside = [
        values - np.repeat([values[stratum == one].mean() for one in range(10)], 40)
        for values in (ranks, lost)
    ]
    assert found.share == pytest.approx(np.corrcoef(*inside)[0, 1] ** 2)
    assert found.share > 10 * found.permuted > 0
    between = explained(
        rng.random(400) < stratum / 10, 3.0 * stratum + rng.normal(size=400), stratum
    )
    assert between is not None
    assert between.share < 2 * between.permuted
    assert explained(np.ones(9, bool), np.arange(9.0), np.zeros(9, np.int64)) is None
    beyond = [
        explained(rng.random(120) < 0.3, rng.normal(size=120), np.arange(120) % 3)
        for _ in range(300)
    ]
    assert 0.02 <= np.mean([one.share > one.permuted for one in beyond if one]) <= 0.09


def answers_lost_together(rng: np.random.Generator, *, private: bool = False) -> Causes:
    """Whole answers are lost, and how near a question is follows from its answer: no cause."""
    answer = rng.integers(0, 24, ITEMS)
    lost = (rng.random(24) < 0.3)[answer]
    near = rng.normal(size=24)[answer] + 0.1 * rng.normal(size=ITEMS)
    names = {
        "item_id": [str(at) for at in range(ITEMS)],
        "content_hash": [f"h{at}" for at in range(ITEMS)],
        "task": ["t"] * ITEMS,
        "category": [f"c{at % 4}" for at in range(ITEMS)],
    }
    before = Snapshot.from_columns(
        {**names, "correct": [True] * ITEMS, "gold_share": rng.random(ITEMS).tolist()}, {}
    )
    keys = [("t", str(at)) for at in range(ITEMS)]
    return why_lost(
        before,
        Snapshot.from_columns({**names, "correct": (~lost).tolist()}, {}),
        near=dict(zip(keys, near.tolist(), strict=True)),
        answers={
            key: RightAnswer(str(one), private) for key, one in zip(keys, answer, strict=True)
        },
    )


def test_a_column_that_follows_the_right_answer_explains_nothing_where_answers_are_lost_as_a_whole() -> (
    None
):
    rng = np.random.default_rng(7)
    found = [answers_lost_together(rng) for _ in range(200)]
    assert np.mean([one.causes[1].explains for one in found]) <= 0.05
    assert (
        "whole answers are lost, which count as one observation each: " in found[0].answers_text()
    )
    assert found[0].answers[0].lost == found[0].answers[0].items
    hidden = answers_lost_together(np.random.default_rng(7), private=True)
    assert hidden.causes == found[0].causes  # private answers count together too, and are not named
    assert (hidden.answers, hidden.answers_text()) == ((), "")
    beyond = [one.causes[1].explained for one in found]
    assert np.mean([one.share > one.permuted for one in beyond if one]) <= 0.1


def test_the_uses_of_words_are_asked_between_categories() -> None:
    def told(lost_of: list[int], **options: Any) -> Causes:
        n = 20 * len(lost_of)
        names = {
            "item_id": [str(at) for at in range(n)],
            "content_hash": [str(at) for at in range(n)],
            "task": ["t"] * n,
            "category": [f"c{at // 20}" for at in range(n)],
        }
        after = [at % 20 >= lost_of[at // 20] for at in range(n)]
        before = Snapshot.from_columns(
            {**names, "correct": [True] * n, "gold_share": [0.5] * n}, {}
        )
        return why_lost(before, Snapshot.from_columns({**names, "correct": after}, {}), **options)

    words = {f"c{at}": float(at) for at in range(8)}
    found = told([*range(1, 9)], words=words)
    assert found.between is not None
    assert found.between[0] == pytest.approx(1.0)
    assert found.between[1] < 0.001
    assert found.between_text().startswith(
        "categories whose words the rows use more lose more (rank correlation +1.00"
    )
    even = told([4, 2, 6, 3, 5, 2, 4, 3], words=words)
    assert "neither more nor less" in even.between_text()
    assert told([1, 2, 3, 4], words=words).between is None
    assert told([2] * 8, words=words).between is None
    assert told([1, 2, 3, 4]).between_text() == ""


def test_an_answer_of_three_questions_is_listed_and_one_of_two_is_not() -> None:
    answers = [RightAnswer(text, False) for text in ("three", "three", "three", "two", "two")]
    (found,) = _by_answer(answers, np.array([True, False, True, True, True]))
    assert (found.text, found.items, found.lost) == ("three", 3, 2)
