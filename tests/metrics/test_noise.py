"""Soft changes, sampled decoding and measuring twice, on worked numbers and simulated samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch.metrics import noise_floor, null, soft


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40))
def test_soft_loss_minus_soft_gain_is_the_change_of_the_mean(shares: list[tuple[float, float]]) -> None:
    before, after = (np.array(column) for column in zip(*shares, strict=True))
    result = soft(before, after)
    assert result.forgetting - result.backward_transfer == pytest.approx(before.mean() - after.mean(), abs=1e-12)


def test_soft_is_undefined_where_nothing_was_measured() -> None:
    assert soft(np.array([np.nan, 0.5]), np.array([0.5, np.nan])) is None


def samples(rng: np.random.Generator, shares: np.ndarray, number: int) -> np.ndarray:
    """Right answers, bool [items * number], samples of an item side by side."""
    return (rng.random((len(shares), number)) < shares[:, None]).ravel()


def test_an_unchanged_model_is_at_its_noise_floor() -> None:
    rng = np.random.default_rng(1)
    shares, number = rng.beta(0.5, 0.5, 4000), 4
    item = np.repeat(np.arange(4000), number)
    found = noise_floor(samples(rng, shares, number), samples(rng, shares, number), item, samples=number)
    assert found.floor == pytest.approx(np.mean(shares * (1 - shares)), abs=0.004)
    assert abs(found.forgetting_above) < 3 * found.forgetting_above_se
    assert abs(found.backward_transfer_above) < 3 * found.backward_transfer_above_se


def test_flips_above_the_floor_are_the_losses_where_answers_are_certain() -> None:
    rng, number = np.random.default_rng(2), 3
    before, after = np.repeat([1.0, 0.0], [800, 200]), np.repeat([1.0, 0.0], [700, 300])
    item = np.repeat(np.arange(1000), number)
    found = noise_floor(samples(rng, before, number), samples(rng, after, number), item, samples=number)
    assert (found.floor, found.forgetting_above) == pytest.approx((0.0, 0.1))


def test_the_estimate_above_the_floor_is_the_formulas_also_where_it_is_negative() -> None:
    rng, number, n = np.random.default_rng(3), 4, 6000
    before, after = np.full(n, 0.4), np.full(n, 0.6)
    item = np.repeat(np.arange(n), number)
    found = noise_floor(samples(rng, before, number), samples(rng, after, number), item, samples=number)
    expected = ((0.4 - 0.6) ** 2 + (0.4 - 0.6)) / 2
    assert found.forgetting_above == pytest.approx(expected, abs=3.5 * found.forgetting_above_se)
    assert found.forgetting_above < 0


def test_pairs_of_the_same_sample_are_not_counted() -> None:
    """Two samples that were drawn with common numbers agree sample by sample; that says nothing about the noise."""
    right = np.array([True, False, True, False])
    found = noise_floor(right, right, np.array([0, 0, 1, 1]), samples=2)
    assert found.forgetting == 0.5  # sample 0 against sample 1, and the reverse
    assert found.floor == 0.5
    assert found.forgetting_above == 0.0


def test_the_floor_needs_two_samples() -> None:
    assert noise_floor(np.array([True]), np.array([True]), np.array([0]), samples=1) is None
    assert noise_floor(np.zeros(0, bool), np.zeros(0, bool), np.zeros(0, int), samples=2) is None


def test_rows_of_an_item_may_come_in_any_order() -> None:
    rng = np.random.default_rng(4)
    before, after, item = rng.random(30) < 0.5, rng.random(30) < 0.5, np.repeat(np.arange(10), 3)
    order = rng.permutation(30)
    assert noise_floor(before, after, item, samples=3) == noise_floor(
        before[order], after[order], 7 * item[order], samples=3
    )


def test_measuring_twice_counts_the_flips() -> None:
    before, again = np.array([True, True, False, False]), np.array([1.0, 0.0, 1.0, np.nan])
    found = null(before, again)
    assert (found.measured, found.null_lost, found.null_gained) == (3, 1, 1)
    assert null(before, np.full(4, np.nan)) is None
    halves = null(before, again, samples=2)
    assert halves.null_lost == 0.5
