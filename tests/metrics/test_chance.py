"""The corrections on worked numbers, and on simulated answers whose truth is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch.metrics.chance import Answers, bound, guess_corrected, paper, persistence, soft


def rights(*cells: int) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes from the counts 1->1, 1->0, 0->1, 0->0."""
    before = np.repeat([True, True, False, False], cells)
    return before, np.repeat([True, False, True, False], cells)


def answers(**columns: Any) -> Answers:
    rows = len(columns["before"])
    given_columns = {"golds": np.ones(rows, np.int64), "item": np.arange(rows), **columns}
    kinds = {"before": bool, "after": bool}
    return Answers(**{name: np.asarray(values, kinds.get(name, np.int64)) for name, values in given_columns.items()})


def world(
    rng: np.random.Generator, *, n: int, k: int, persistence: float, lost: float, won: float
) -> tuple[Answers, float, float]:
    """Know-or-guess answers with a preferred position; guesses persist with a probability. And the true rates."""
    known = rng.random(n) < 0.55
    known_after = np.where(known, rng.random(n) >= lost, rng.random(n) < won)
    preference = np.r_[0.4, np.full(k - 1, 0.6 / (k - 1))]
    gold = rng.integers(0, k, n)
    guess = rng.choice(k, n, p=preference)
    guess_after = np.where(rng.random(n) < persistence, guess, rng.choice(k, n, p=preference))
    chosen, chosen_after = np.where(known, gold, guess), np.where(known_after, gold, guess_after)
    made = answers(
        before=chosen == gold,
        after=chosen_after == gold,
        chosen_before=chosen,
        chosen_after=chosen_after,
        k=np.full(n, k),
    )
    return made, float((known & ~known_after).mean()), float((~known & known_after).mean())


def test_the_papers_own_example_gives_eight_percent_by_its_own_formula() -> None:
    before, after = rights(70, 10, 0, 20)
    result = paper(before, after, np.full(100, 4))
    assert result.expected == pytest.approx(0.2 * 0.3 / 3)
    assert result.forgetting == pytest.approx(0.0800, abs=1e-12)


def test_the_papers_forgetting_can_exceed_its_own_maximum() -> None:
    before, after = rights(0, 30, 30, 40)
    result = paper(before, after, np.full(100, 4))
    assert result.forgetting == pytest.approx(0.1367, abs=5e-5)
    assert result.forgetting_max == pytest.approx(0.0667, abs=5e-5)


def test_chance_adds_up_over_groups_of_equal_k_and_leaves_out_single_options() -> None:
    before = np.array([True, True, False, False, True, False, True])
    after = np.array([False, True, False, True, False, False, False])
    k = np.array([2, 2, 2, 5, 5, 5, 1])
    result = paper(before, after, k)
    two, five = (1 / 3) * (2 / 3) / 1, (2 / 3) * (2 / 3) / 4
    assert result.n == 6
    assert result.expected == pytest.approx((two + five) / 2)
    assert result.forgetting_unclipped == pytest.approx(2 / 6 - (two + five) / 2)


def test_the_paper_keeps_what_clipping_hides() -> None:
    before, after = rights(10, 0, 10, 80)
    result = paper(before, after, np.full(100, 2))
    assert result.forgetting == 0.0
    assert result.forgetting_unclipped == pytest.approx(-0.9 * 0.8)


def test_the_paper_is_undefined_without_options() -> None:
    result = paper(np.array([True]), np.array([False]), np.array([-1]))
    assert result.n == 0
    assert math.isnan(result.forgetting)


@pytest.mark.parametrize(("k", "persists"), [(3, 0.0), (4, 0.5), (5, 0.9)])
def test_guess_corrected_finds_the_truth_where_the_papers_rule_does_not(k: int, persists: float) -> None:
    made, lost, won = world(np.random.default_rng(7), n=60_000, k=k, persistence=persists, lost=0.06, won=0.08)
    result = guess_corrected(made)
    assert result is not None
    assert result.forgetting == pytest.approx(lost, abs=0.006)
    assert result.backward_transfer == pytest.approx(won, abs=0.006)
    assert abs(paper(made.before, made.after, made.k).forgetting - lost) > 0.008


def test_the_standard_error_is_the_spread_over_repetitions() -> None:
    rng = np.random.default_rng(3)
    results = [guess_corrected(world(rng, n=400, k=4, persistence=0.5, lost=0.1, won=0.1)[0]) for _ in range(400)]
    rates = [r.forgetting for r in results if r]
    errors = [r.forgetting_se for r in results if r]
    assert np.std(rates) == pytest.approx(np.mean(errors), rel=0.12)


def test_guess_corrected_item_by_item() -> None:
    # right->other, wrong->other wrong, right->none, wrong->none, none->right, none->wrong; k = 4, lambda = 1/2
    made = answers(
        before=[1, 0, 1, 0, 0, 0],
        after=[0, 0, 0, 0, 1, 0],
        chosen_before=[0, 1, 0, 1, -1, -1],
        chosen_after=[1, 2, -1, -1, 0, 1],
        k=[4] * 6,
    )
    result = guess_corrected(made)
    assert result is not None
    assert result.n == 6
    assert result.forgetting == pytest.approx((4 / 3 - 4 / 3 / 2 + 1 - 1 / 3) / 6)
    assert result.backward_transfer == pytest.approx((0 - 4 / 3 / 2 + 1 - 1 / 3) / 6)


def test_several_right_options_change_every_factor() -> None:
    # k = 6 with 2 right: k/g = 3, so k/(k-1) -> 3/2 and lambda -> 2/3
    made = answers(before=[1, 0], after=[0, 0], chosen_before=[0, 2], chosen_after=[3, 4], k=[6, 6], golds=[2, 2])
    result = guess_corrected(made)
    assert result is not None
    assert result.forgetting == pytest.approx((1.5 - 1.5 * 2 / 3) / 2)


def test_guess_corrected_needs_two_wrong_options() -> None:
    assert guess_corrected(answers(before=[1], after=[0], chosen_before=[0], chosen_after=[1], k=[2])) is None


def test_persistence_beside_what_fresh_guesses_would_keep() -> None:
    made = answers(
        before=[0, 0, 0, 1], after=[0, 0, 0, 0], chosen_before=[1, 1, 2, 0], chosen_after=[1, 2, 2, 3], k=[4, 4, 4, 4]
    )
    result = persistence(made)
    assert result.same_wrong == pytest.approx(2 / 3)
    assert result.same_wrong_if_fresh == pytest.approx(1 / 3)
    assert result.tipping_ratio == pytest.approx(2.0)  # one flip, one changed wrong answer, k - 2 = 2


def test_the_tipping_ratio_without_changed_wrong_answers_is_infinite_or_undefined() -> None:
    lost = answers(before=[1], after=[0], chosen_before=[0], chosen_after=[1], k=[4])
    kept = answers(before=[1], after=[1], chosen_before=[0], chosen_after=[0], k=[4])
    assert persistence(lost).tipping_ratio == math.inf
    assert math.isnan(persistence(kept).tipping_ratio)
    assert math.isnan(persistence(kept).same_wrong)


def test_the_bound_runs_from_net_loss_to_scaled_flips() -> None:
    before, after = rights(50, 20, 5, 25)
    one = np.ones(100, np.int64)
    result = bound(before, after, np.full(100, 2), one)
    assert result is not None
    assert result.forgetting == pytest.approx((0.15, 0.40))
    assert result.backward_transfer == pytest.approx((0.0, 0.10))
    assert bound(before, after, one, one) is None
    several = bound(before, after, np.full(100, 6), 2 * one)
    assert several is not None
    assert several.forgetting == pytest.approx((0.15, 0.20 * 6 / 4))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40))
def test_soft_loss_minus_soft_gain_is_the_change_of_the_mean(shares: list[tuple[float, float]]) -> None:
    before, after = (np.array(column) for column in zip(*shares, strict=True))
    result = soft(before, after)
    assert result is not None
    assert result.forgetting - result.backward_transfer == pytest.approx(before.mean() - after.mean(), abs=1e-12)


def test_soft_is_undefined_where_nothing_was_measured() -> None:
    assert soft(np.array([np.nan, 0.5]), np.array([0.5, np.nan])) is None


@given(st.integers(0, 2**32 - 1))
def test_the_same_answers_twice_lose_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    k = rng.integers(3, 6, 20)
    chosen = rng.integers(0, k)
    right = chosen == 0
    made = answers(before=right, after=right, chosen_before=chosen, chosen_after=chosen, k=k)
    result = guess_corrected(made)
    assert result is not None
    assert (result.forgetting, result.backward_transfer) == (0.0, 0.0)
