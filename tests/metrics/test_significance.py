"""Tests of paired outcomes against scipy, published values and their definitions, and alarms over many looks.

Numbers of items and the changes that they see, against the published formula.
"""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looks import alarm_power
from scipy import stats

from forgetwatch.metrics.significance import (
    alarm_level,
    loss_p_value,
    mcnemar,
    sign_flip,
    smallest_loss,
)


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
        rejected = sum(
            stats.binom.pmf(b, flips, 0.5)
            for b in range(flips + 1)
            if mcnemar(b, flips - b) <= 0.05
        )
        size += stats.binom.pmf(flips, n, discordance) * rejected
    assert size <= 0.0505


@pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (0, 4), (9, 21), (21, 9), (300, 250)])
def test_the_one_sided_test_is_the_binomial_test(b: int, c: int) -> None:
    exact = stats.binomtest(b, b + c, alternative="greater").pvalue if b + c else 1.0
    assert loss_p_value(b, c) == pytest.approx(exact, rel=1e-9)
    half = 0.5 * stats.binom.pmf(b, b + c, 0.5)
    assert loss_p_value(b, c, mid=True) == pytest.approx(exact - half, rel=1e-7)


def test_one_sided_mid_p_without_flips_is_one_half() -> None:
    assert loss_p_value(0, 0, mid=True) == 0.5


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_clustered_test_of_single_items_is_mcnemars(b: int, c: int) -> None:
    change = np.r_[-np.ones(b, np.int64), np.ones(c, np.int64), np.zeros(5, np.int64)]
    found = sign_flip(change, np.arange(b + c + 5))
    assert found.p_value == pytest.approx(mcnemar(b, c), abs=1e-12)
    assert found.loss_p_value == pytest.approx(loss_p_value(b, c), abs=1e-12)


def test_the_clustered_test_counts_every_sign() -> None:
    sums = [3, -1, 2, 2, -4, 1]
    change = np.concatenate([np.sign(s) * np.ones(abs(s), np.int64) for s in sums])
    cluster = np.repeat(np.arange(6), np.abs(sums))
    totals = np.array([np.dot(signs, np.abs(sums)) for signs in product([1, -1], repeat=6)])
    tail = min(np.mean(totals <= sum(sums)), np.mean(totals >= sum(sums))) - 0.5 * np.mean(
        totals == sum(sums)
    )
    found = sign_flip(change, cluster)
    assert found.p_value == pytest.approx(2 * tail)
    assert found.loss_p_value == pytest.approx(np.mean(totals <= sum(sums)))


@pytest.mark.parametrize(("lost", "won"), [(125, 76), (76, 125), (100, 100), (140, 60)])
@pytest.mark.parametrize("size", [1, 3])
def test_where_exactness_costs_too_much_the_test_is_normal_and_close(
    lost: int, won: int, size: int
) -> None:
    change = np.repeat([-1, 1], [size * lost, size * won])
    cluster = np.arange(len(change)) // size
    exact, normal = sign_flip(change, cluster), sign_flip(change, cluster, exact_work=0)
    assert exact.loss_p_value == pytest.approx(loss_p_value(lost, won))
    assert normal.loss_p_value == pytest.approx(exact.loss_p_value, rel=0.15, abs=1e-6)
    assert normal.p_value == pytest.approx(exact.p_value, rel=0.15, abs=1e-6)


def test_copies_are_no_evidence() -> None:
    change, items = np.array([1, 1, -1, 1]), np.arange(4)
    assert sign_flip(np.repeat(change, 10), np.repeat(items, 10)) == sign_flip(change, items)


def test_few_clusters_cannot_reject() -> None:
    assert sign_flip(-np.ones(300, np.int64), np.repeat([0, 1, 2], 100)).p_value == pytest.approx(
        0.125
    )
    nothing = sign_flip(np.zeros(4, np.int64), np.arange(4))
    assert (nothing.p_value, nothing.loss_p_value) == (1.0, 1.0)
    assert sign_flip(np.zeros(0, np.int64), np.zeros(0, np.int64)).p_value == 1.0


def test_passages_that_flip_together_alarm_no_more_often_than_they_may() -> None:
    """Tests by item alarm in half of the unchanged runs if 10 questions share a passage that flips as a whole."""
    rng, by_item, by_cluster, runs = np.random.default_rng(11), 0, 0, 400
    cluster = np.repeat(np.arange(60), 10)
    for _ in range(runs):
        flips = rng.choice([-1, 0, 1], p=[0.1, 0.8, 0.1], size=60)[cluster]
        by_item += mcnemar(int((flips < 0).sum()), int((flips > 0).sum())) <= 0.05
        by_cluster += sign_flip(flips, cluster).p_value <= 0.05
    assert by_item / runs > 0.3
    assert by_cluster / runs < 0.08


def test_the_levels_of_a_run_add_up_to_alpha() -> None:
    assert sum(alarm_level(look, groups=3, planned=20) for look in range(1, 21)) == pytest.approx(
        0.05 / 3
    )
    assert sum(alarm_level(look, groups=1) for look in range(1, 100_000)) == pytest.approx(
        0.05, rel=1e-3
    )


@pytest.mark.parametrize(("look", "groups", "planned"), [(0, 1, 5), (6, 1, 5), (1, 0, 5)])
def test_a_look_outside_the_plan_is_an_error(look: int, groups: int, planned: int) -> None:
    with pytest.raises(ValueError, match="needed 1 <= look"):
        alarm_level(look, groups=groups, planned=planned)


@given(st.integers(0, 400), st.floats(1e-6, 0.2))
def test_the_smallest_loss_alarms_and_one_less_does_not(flips: int, level: float) -> None:
    loss = smallest_loss(flips, level)
    if math.isnan(loss):
        assert loss_p_value(flips, 0) > level
        return
    lost = round((flips + loss) / 2)
    assert 2 * lost - flips == loss
    assert loss_p_value(lost, flips - lost) <= level
    assert lost == 0 or loss_p_value(lost - 1, flips - lost + 1) > level


def test_the_smallest_loss_of_few_flips() -> None:
    """One of one flip lost has p = 1/2, two of two 1/4; any number of losses has p <= 1."""
    assert (smallest_loss(1, 0.5), smallest_loss(2, 0.25), smallest_loss(2, 0.75)) == (1, 2, 0)
    assert math.isnan(smallest_loss(1, 0.49))
    assert math.isnan(smallest_loss(2, 0.24))
    assert math.isnan(smallest_loss(0, 0.5))
    assert smallest_loss(3, 1.0) == -3


def test_the_power_is_the_documented_one() -> None:
    level = alarm_level(1, groups=1, planned=20)
    assert alarm_power(500, discordance=0.15, loss=0.05, level=level) == pytest.approx(
        0.50, abs=0.01
    )


def test_the_power_is_that_of_simulated_runs() -> None:
    n, discordance, loss, level = 300, 0.2, 0.06, 0.01
    rng = np.random.default_rng(1)
    flips = rng.binomial(n, discordance, 20_000)
    lost = rng.binomial(flips, (discordance + loss) / (2 * discordance))
    p_values = stats.binom.sf(lost - 1, flips, 0.5)
    assert alarm_power(n, discordance=discordance, loss=loss, level=level) == pytest.approx(
        np.mean(p_values <= level), abs=0.012
    )


def test_power_at_the_edges() -> None:
    assert alarm_power(100, discordance=0.1, loss=0.0, level=0.01) <= 0.01
    assert alarm_power(4, discordance=1.0, loss=1.0, level=0.1) == pytest.approx(1.0)
    assert alarm_power(3, discordance=1.0, loss=1.0, level=0.1) == 0.0


def test_twenty_looks_at_an_unchanged_model_rarely_alarm_where_naive_tests_often_do() -> None:
    """Sampling noise at every look: each answer is right with a probability that never changes."""
    rng, runs, looks, n = np.random.default_rng(3), 300, 20, 300
    alarms = naive = 0
    for _ in range(runs):
        right = rng.random((1 + looks, n)) < rng.beta(0.6, 0.4, n)
        lost, won = (right[0] & ~right[1:]).sum(1), (~right[0] & right[1:]).sum(1)
        p_values = stats.binom.sf(lost - 1, lost + won, 0.5)
        alarms += bool((p_values <= alarm_level(1, groups=1, planned=looks)).any())
        naive += bool((p_values <= 0.05).any())
    assert alarms / runs < 0.05
    assert naive / runs > 0.25
