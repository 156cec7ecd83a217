"""Intervals and tests against scipy, statsmodels-free published values, and their own definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from forgetwatch.metrics.inference import (
    clustered_mean,
    clustered_p_value,
    detectable_change,
    false_discovery,
    flip_interval,
    mcnemar,
    newcombe,
    wilson,
)
from forgetwatch.metrics.transitions import Cells


@pytest.mark.parametrize(("count", "n"), [(0, 10), (1, 10), (37, 100), (10, 10), (1127, 12032)])
def test_wilson_is_scipys(count: int, n: int) -> None:
    expected = stats.binomtest(count, n).proportion_ci(method="wilson")
    assert wilson(count, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_intervals_of_nothing_are_nan() -> None:
    assert all(math.isnan(end) for end in (*wilson(0, 0), *flip_interval(0, 0)))
    nothing = newcombe(Cells(retained=0, forgotten=0, gained=0, missed=0))
    assert all(math.isnan(end) for end in nothing)


def test_no_flips_have_the_exact_one_sided_limit() -> None:
    low, high = flip_interval(0, 100)
    assert low == 0.0
    assert (1 - high) ** 100 == pytest.approx(0.05)
    assert high == pytest.approx(3 / 100, rel=0.02)
    assert flip_interval(1, 100) == wilson(1, 100)


def test_newcombe_gives_fagerlands_published_interval() -> None:
    # Fagerland, Lydersen and Laake 2014, table n11, n10, n01, n00 = 1, 1, 7, 12, as p10 - p01: -.507 to -.026
    low, high = newcombe(Cells(retained=1, forgotten=1, gained=7, missed=12))
    assert (-high, -low) == pytest.approx((-0.507, -0.026), abs=5e-4)


def test_newcombe_turns_around_with_the_direction() -> None:
    low, high = newcombe(Cells(retained=40, forgotten=12, gained=5, missed=43))
    back = newcombe(Cells(retained=40, forgotten=5, gained=12, missed=43))
    assert back == pytest.approx((-high, -low))


@given(*[st.integers(0, 400)] * 4)
def test_newcombe_holds_the_change_and_stays_in_range(a: int, b: int, c: int, d: int) -> None:
    cells = Cells(retained=a, forgotten=b, gained=c, missed=d)
    if cells.n:
        low, high = newcombe(cells)
        assert -1 <= low <= cells.net_change + 1e-12
        assert cells.net_change - 1e-12 <= high <= 1


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (9, 21), (5, 5), (300, 250), (1127, 2053)])
def test_mcnemar_is_the_binomial_test(b: int, c: int) -> None:
    flips = b + c
    exact = stats.binomtest(min(b, c), flips).pvalue if flips else 1.0
    assert mcnemar(b, c, mid=False) == pytest.approx(exact, rel=1e-9)
    point = stats.binom.pmf(min(b, c), flips, 0.5) if flips else 0.0
    expected = 1.0 if b == c else 2 * stats.binom.cdf(min(b, c), flips, 0.5) - point
    assert mcnemar(b, c) == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("n", [10, 40, 100])
@pytest.mark.parametrize("discordance", [0.05, 0.2, 0.5])
def test_mid_p_rejects_at_most_five_percent_of_unchanged_models(n: int, discordance: float) -> None:
    size = 0.0
    for flips in range(1, n + 1):
        rejected = sum(stats.binom.pmf(b, flips, 0.5) for b in range(flips + 1) if mcnemar(b, flips - b) <= 0.05)
        size += stats.binom.pmf(flips, n, discordance) * rejected
    assert size <= 0.0505


def test_clustered_test_of_single_rows_is_the_plain_normal_test() -> None:
    change = np.array([1.0] * 9 + [-1.0] * 21 + [0.0] * 50)
    z = 12 / math.sqrt(30)
    assert clustered_p_value(change, np.arange(80)) == pytest.approx(2 * stats.norm.sf(z))
    assert clustered_p_value(np.zeros(5), np.arange(5)) == 1.0


def test_clustered_test_does_not_count_copies_as_evidence() -> None:
    change, items = np.array([1.0, 1.0, -1.0, 1.0]), np.arange(4)
    copies = clustered_p_value(np.repeat(change, 10), np.repeat(items, 10))
    assert copies == pytest.approx(clustered_p_value(change, items))


def test_clustered_mean_of_single_rows_is_the_usual_standard_error() -> None:
    values = np.random.default_rng(0).normal(size=50)
    mean, error = clustered_mean(values, np.arange(50))
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(stats.sem(values))
    copied = clustered_mean(np.repeat(values, 4), np.repeat(np.arange(50), 4))
    assert copied == pytest.approx((mean, error))


def test_clustered_mean_of_little_says_so() -> None:
    assert all(math.isnan(x) for x in clustered_mean(np.array([]), np.array([], int)))
    assert math.isnan(clustered_mean(np.array([1.0]), np.array([0]))[1])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_q_values_are_scipys(p_values: list[float]) -> None:
    assert false_discovery(np.array(p_values)) == pytest.approx(stats.false_discovery_control(p_values))


def test_q_values_leave_undefined_ones_out() -> None:
    q_values = false_discovery(np.array([0.01, np.nan, 0.04]))
    assert q_values[[0, 2]] == pytest.approx([0.02, 0.04])
    assert math.isnan(q_values[1])


@pytest.mark.parametrize(
    ("n", "expected"),
    [(200, (4.4, 6.2, 8.8)), (500, (2.8, 4.0, 5.6)), (1000, (2.0, 2.8, 4.0)), (2000, (1.4, 2.0, 2.8))],
)
def test_detectable_change_table(n: int, expected: tuple[float, ...]) -> None:
    found = [round(100 * detectable_change(n, psi), 1) for psi in (0.05, 0.10, 0.20)]
    assert found == list(expected)


def test_detectable_change_solves_connors_equation() -> None:
    n, psi = 731, 0.13
    d = detectable_change(n, psi)
    z_a, z_b = stats.norm.ppf(0.975), stats.norm.ppf(0.8)
    assert (z_a * math.sqrt(psi) + z_b * math.sqrt(psi - d * d)) ** 2 / d**2 == pytest.approx(n)


def test_too_few_flips_can_see_nothing() -> None:
    assert math.isnan(detectable_change(100, 0.07))
    assert detectable_change(100, 0.08) <= 0.08
    assert math.isnan(detectable_change(0, 0.1))
    for n in (1, 2, 3):
        assert math.isnan(detectable_change(n, 3 / n))
