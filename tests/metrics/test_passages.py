"""Bits per byte: their value, their change, and the interval of the change."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forgetwatch.metrics import Passages, bits_per_byte


def passages(before: np.ndarray, after: np.ndarray, length: np.ndarray, cluster: np.ndarray | None = None) -> Passages:
    return Passages(before=before, after=after, bytes_before=length, bytes_after=length, cluster=cluster)


def world(rng: np.random.Generator, *, n: int, change: float, spread: float = 0.08) -> tuple[Passages, float]:
    """Passages of unlike length and difficulty, whose bits per byte rise by `change` with a spread of their own.

    Returns:
        The passages, and the expected change of the ratio: lengths and changes are independent.
    """
    length = rng.integers(500, 2500, n).astype(float)
    rate = rng.uniform(0.7, 1.6, n)  # bits per byte before
    moved = rng.gamma(4.0, spread / 2, n) - 2 * spread + change  # skewed: a few texts move most
    nats = -math.log(2) * length
    return passages(nats * rate, nats * (rate + moved), length), change


def test_every_number_against_one_written_out() -> None:
    rng = np.random.default_rng(1)
    length = rng.integers(100, 2000, 40).astype(float)
    before, after = -rng.uniform(0.5, 1.2, 40) * length, -rng.uniform(0.5, 1.2, 40) * length
    found = bits_per_byte(passages(before, after, length))
    bits = -before / math.log(2), -after / math.log(2)
    rates = [side.sum() / length.sum() for side in bits]
    assert (found.passages, found.before, found.after) == pytest.approx((40, *rates))
    difference = bits[1] - bits[0]
    change = difference.sum() / length.sum()
    residual = difference - change * length
    error = math.sqrt((residual**2).sum() * 40 / 39) / length.sum()
    assert found.change.mean == pytest.approx(change)
    assert found.change.error == pytest.approx(error)
    low, high = found.change.interval
    assert (low + high) / 2 == pytest.approx(change)
    assert high - low == pytest.approx(2 * 2.0226909 * error, rel=1e-6)  # Student's t with 39 degrees of freedom


def test_a_uniform_model_over_bytes_has_eight_bits_per_byte() -> None:
    length = np.array([100.0, 300.0])
    found = bits_per_byte(passages(-length * math.log(256), -length * math.log(256), length))
    assert found.before == pytest.approx(8)


def test_no_passages_have_no_bits_per_byte() -> None:
    assert bits_per_byte(passages(np.empty(0), np.empty(0), np.empty(0))) is None


def test_equal_sides_change_by_exactly_nothing() -> None:
    one, _ = world(np.random.default_rng(2), n=12, change=0)
    same = bits_per_byte(passages(one.before, one.before, one.bytes_before))
    assert (same.change.mean, same.change.interval, same.change.p_value) == (0.0, (0.0, 0.0), 1.0)


def test_one_passage_has_a_change_and_no_interval() -> None:
    found = bits_per_byte(passages(np.array([-700.0]), np.array([-710.0]), np.array([1000.0])))
    assert found.change.mean == pytest.approx(10 / math.log(2) / 1000)
    assert all(math.isnan(end) for end in found.change.interval)
    assert math.isnan(found.change.p_value)


def test_swapping_before_and_after_changes_the_sign_alone() -> None:
    one, _ = world(np.random.default_rng(3), n=30, change=0.05)
    there = bits_per_byte(one)
    back = bits_per_byte(passages(one.after, one.before, one.bytes_before))
    assert back.change.mean == pytest.approx(-there.change.mean)
    assert back.change.error == pytest.approx(there.change.error)


def test_passages_of_one_cluster_count_as_one_observation() -> None:
    one, _ = world(np.random.default_rng(4), n=20, change=0.05)
    doubled = one.take(np.repeat(np.arange(20), 2))
    cluster = np.repeat(np.arange(20), 2)
    alone = bits_per_byte(one)
    together = bits_per_byte(passages(doubled.before, doubled.after, doubled.bytes_before, cluster))
    assert together.change.observations == 20
    assert together.change.error == pytest.approx(alone.change.error)


@pytest.mark.parametrize(("n", "least"), [(60, 0.93), (10, 0.90), (3, 0.89)])
def test_the_interval_covers_the_change(n: int, least: float) -> None:
    rng = np.random.default_rng(n)
    covered, level = [], []
    for _ in range(2000):
        drawn, change = world(rng, n=n, change=0.03)
        found = bits_per_byte(drawn)
        low, high = found.change.interval
        covered.append(low <= change <= high)
        unmoved, _ = world(rng, n=n, change=0.0)
        nothing = bits_per_byte(unmoved)
        level.append(nothing.change.p_value < 0.05)
    assert least <= np.mean(covered) <= 0.97
    assert np.mean(level) <= 1 - least
