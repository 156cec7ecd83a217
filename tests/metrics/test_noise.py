"""Sampled decoding and measuring twice, on worked numbers and simulated samples."""

from __future__ import annotations

import numpy as np
import pytest

from forgetwatch.metrics import noise_floor, null


def samples(rng: np.random.Generator, shares: np.ndarray, number: int) -> np.ndarray:
    """Right answers, bool [items * number], samples of an item side by side."""
    return (rng.random((len(shares), number)) < shares[:, None]).ravel()


def test_an_unchanged_model_is_at_its_noise_floor() -> None:
    rng = np.random.default_rng(1)
    shares, number = rng.beta(0.5, 0.5, 4000), 4
    item = np.repeat(np.arange(4000), number)
    found = noise_floor(samples(rng, shares, number), samples(rng, shares, number), item, samples=number)
    assert found == pytest.approx(np.mean(shares * (1 - shares)), abs=0.004)


def test_pairs_of_the_same_sample_are_not_counted() -> None:
    """Two samples that were drawn with common numbers agree sample by sample; that says nothing about the noise."""
    right = np.array([True, False, True, False])
    found = noise_floor(right, right, np.array([0, 0, 1, 1]), samples=2)
    assert found == 0.5


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
