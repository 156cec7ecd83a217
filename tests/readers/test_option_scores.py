"""Choices from scores and logged correctness, and options from targets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetwatch.readers import choose_target, reconcile, target_options
from forgetwatch.snapshot import NONE

CASES = [  # scores, right, golds, chosen, completed golds
    ([-2, -1, -3], 1, [], 1, [1]),  # a right answer names gold
    ([-2, -1], 0, [], 1, [0]),  # so does a wrong one of two
    ([-2, -1, -3], 0, [], 1, []),  # and of three it does not
    ([-2, -1, -3], 0, [0], 1, [0]),
    ([-1, -1, -3], 1, [0], 0, [0]),  # the first of equals
    ([-2, -1, -3], 0, [1], 0, [1]),  # contradicts: the best that is not right
    ([-2, -1, -3], 1, [2], 2, [2]),  # contradicts: the right one
    ([-2, -1, -3], 0, [0, 1, 2], NONE, [0, 1, 2]),  # no option can be wrong
    ([-2, -1, -3], -1, [2], 1, [2]),  # no correctness
    ([np.nan, -1, -3], 1, [], NONE, []),  # no scores
    ([-3, -1, -2], 1, [0, 1], 1, [0, 1]),  # several right
    ([-np.inf, -np.inf], 1, [0], 0, [0]),
]


@pytest.mark.parametrize(("scores", "right", "golds", "chosen", "completed"), CASES)
def test_choices_agree_with_what_was_logged(
    scores: list[float], right: int, golds: list[int], chosen: int, completed: list[int]
) -> None:
    named = np.zeros(len(scores), bool)
    named[golds] = True
    found = reconcile(np.array(scores, float), np.array([len(scores)]), named, np.array([right], np.int8))
    assert found.chosen.tolist() == [chosen]
    assert np.flatnonzero(found.golds).tolist() == completed
    assert found.first_gold.tolist() == [min(completed, default=NONE)]
    assert named.nonzero()[0].tolist() == golds  # what came in is left alone


@given(st.data())
@settings(max_examples=80, derandomize=True)
def test_a_choice_is_right_exactly_where_it_was_logged_as_right(data: st.DataObject) -> None:
    k, rows = data.draw(st.integers(2, 5)), data.draw(st.integers(1, 20))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    scores = rng.integers(-4, 0, (rows, k)).astype(float)
    golds = rng.random((rows, k)) < 0.3
    right = rng.integers(0, 2, rows).astype(np.int8)
    found = reconcile(scores.ravel(), np.full(rows, k), golds.ravel(), right)
    completed = found.golds.reshape(rows, k)
    settled = (found.chosen != NONE) & completed.any(axis=1)
    assert np.array_equal(completed[np.arange(rows), found.chosen][settled], right[settled] == 1)
    clear = settled & ~found.against
    assert np.array_equal(found.chosen[clear], np.argmax(scores, axis=1)[clear])
    assert np.array_equal(found.tied, np.isclose(np.diff(np.sort(scores, axis=1))[:, -1], 0))
    assert np.isnan(found.margin[found.against]).all()
    assert ((found.share[clear] >= 0) & (found.share[clear] <= 1)).all()


def test_digits_are_read_in_the_way_that_fits_the_outcomes() -> None:
    index, text = np.array([0, 1, 2]), np.array([1, 2, NONE])
    best = np.array([1, 2, 2])
    assert choose_target(index, text, best, np.array([1, 1, 1], np.int8)).tolist() == [1, 2, 2]
    assert choose_target(index, text, best, np.array([0, 0, 1], np.int8)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("target", "k", "texts", "found"),
    [
        (2, 3, None, ([2], NONE)),
        (-100, 3, None, ([], NONE)),
        (True, 3, None, ([], NONE)),
        ("2", 3, ["2", "3", "4"], ([2], 0)),
        ("10", 3, ["10", "3", "4"], ([], 0)),
        (" Paris ", 2, ["Rome", "Paris"], ([], 1)),
        ("C", 3, ["Rome", "Paris", "Oslo"], ([], 2)),
        ("A", 2, ["B", "A"], ([], 1)),
        ("same", 2, ["same", "same"], ([], NONE)),
        ("[0, 2]", 3, None, ([0, 2], NONE)),
        ([2, 0, 7], 3, None, ([0, 2], NONE)),
        (["a"], 3, None, ([], NONE)),
        ("²", 3, None, ([], NONE)),
        ("9" * 400, 3, None, ([], NONE)),
        (None, 3, None, ([], NONE)),
        (1.0, 3, None, ([], NONE)),
    ],
)
def test_a_target_names_options_by_index_letter_or_text(
    target: object, k: int, texts: list[str] | None, found: tuple[list[int], int]
) -> None:
    assert target_options(target, k, texts) == found
