"""The paper's rule on its own example, on worked numbers, and against repeated samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import know_or_guess, rights

from forgetwatch.metrics import as_released, paper


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


def test_the_largest_rates_add_up_over_groups_of_equal_k() -> None:
    """Of 100 items with k = 4, 70 and then 80 are right; with k = 2 60 and 90. (k acc - 1)/(k-1) adds up by items."""
    (four, four_after), (two, two_after) = rights(70, 0, 10, 20), rights(60, 0, 30, 10)
    result = paper(np.r_[four, two], np.r_[four_after, two_after], np.repeat([4, 2], 100))
    assert result.forgetting_max_unclipped == pytest.approx((0.6 + 0.2) / 2)
    assert result.backward_transfer_max_unclipped == pytest.approx(((4 * 0.8 - 1) / 3 + 0.8) / 2)
    assert result.forgetting_max == result.forgetting_max_unclipped
    assert result.backward_transfer_max == result.backward_transfer_max_unclipped


def test_the_largest_rates_of_a_model_below_chance_are_clipped_to_zero() -> None:
    result = paper(*rights(10, 0, 5, 85), np.full(100, 4))
    assert result.forgetting_max_unclipped == pytest.approx((0.4 - 1) / 3)
    assert result.backward_transfer_max_unclipped == pytest.approx((0.6 - 1) / 3)
    assert (result.forgetting_max, result.backward_transfer_max) == (0.0, 0.0)


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


def test_half_known_and_nothing_forgotten_is_reported_as_forgetting() -> None:
    """The closed form of fresh guesses: (k-1)/k^2 of the variance of knowing, 6.25, 4.69 and 2.25 %."""
    rng = np.random.default_rng(2)
    for k, expected in ((2, 0.0625), (4, 0.0469), (10, 0.0225)):
        answers = know_or_guess(rng, n=400_000, k=k, known=0.5).answers
        assert paper(answers.before, answers.after, answers.k).forgetting == pytest.approx(expected, abs=0.002)


def test_the_standard_error_is_the_spread_over_repetitions() -> None:
    rng, rates, errors = np.random.default_rng(3), [], []
    for _ in range(500):
        k = rng.choice([2, 4, 10], 300)
        answers = know_or_guess(rng, n=300, k=k, known=0.5, lost=0.2, won=0.1, persistence=0.3).answers
        result = paper(answers.before, answers.after, answers.k)
        rates.append((result.forgetting_unclipped, result.backward_transfer_unclipped))
        errors.append((result.forgetting_se, result.backward_transfer_se))
    assert np.std(rates, axis=0) == pytest.approx(np.mean(errors, axis=0), rel=0.1)


def test_the_standard_error_is_the_delta_methods() -> None:
    """Gradient over (p11, p10, p01, p00), times the covariance of a multinomial."""
    before, after = rights(40, 12, 5, 43)
    result, n, k = paper(before, after, np.full(100, 4)), 100, 4
    shares, acc, acc_after = np.array([40, 12, 5, 43]) / n, 0.52, 0.45
    wrong, wrong_after = 1 - acc, 1 - acc_after
    gradient = np.array([0, 1 - wrong / (k - 1), -wrong_after / (k - 1), -(wrong + wrong_after) / (k - 1)])
    variance = (np.dot(shares, gradient**2) - np.dot(shares, gradient) ** 2) / (n - 1)
    assert result.forgetting_se == pytest.approx(math.sqrt(variance))
    low, high = result.forgetting_interval
    assert (low + high) / 2 == pytest.approx(result.forgetting_unclipped)


def test_clusters_widen_the_standard_error() -> None:
    before, after = rights(40, 12, 5, 43)
    k = np.full(100, 4)
    single = paper(before, after, k).forgetting_se
    copies = paper(np.repeat(before, 9), np.repeat(after, 9), np.repeat(k, 9), cluster=np.repeat(np.arange(100), 9))
    assert copies.forgetting_se == pytest.approx(single)


def test_the_released_code_uses_one_k_and_clips_at_once() -> None:
    before, after = rights(70, 10, 0, 20)
    assert as_released(before, after, k=4) == pytest.approx((0.08, 0.0, 2.2 / 3, 0.6))
    assert as_released(before, after, k=2) == pytest.approx((0.04, 0.0, 0.6, 0.4))
    nothing = np.zeros(0, bool)
    assert all(math.isnan(rate) for rate in as_released(nothing, nothing, k=4))


@given(st.integers(0, 2**32 - 1))
def test_forgetting_and_backward_transfer_change_places_with_the_models(seed: int) -> None:
    rng = np.random.default_rng(seed)
    before, after, k = rng.random(40) < 0.5, rng.random(40) < 0.6, rng.integers(1, 6, 40)
    one, other = paper(before, after, k), paper(after, before, k)
    assert one.forgetting_unclipped == pytest.approx(other.backward_transfer_unclipped, nan_ok=True)
    assert one.forgetting_se == pytest.approx(other.backward_transfer_se, nan_ok=True)
