"""Alarms over many looks: never more false ones than promised, and they see what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from looks import alarm_power
from scipy import stats

from forgetwatch.metrics import alarm_level, loss_p_value, share_of_alpha, smallest_loss


def test_the_levels_of_a_run_add_up_to_alpha() -> None:
    assert sum(alarm_level(look, groups=3, planned=20) for look in range(1, 21)) == pytest.approx(0.05 / 3)
    assert sum(alarm_level(look, groups=1) for look in range(1, 100_000)) == pytest.approx(0.05, rel=1e-3)


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
    assert alarm_power(500, discordance=0.15, loss=0.05, level=level) == pytest.approx(0.50, abs=0.01)


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


def test_the_kinds_of_alarms_share_alpha() -> None:
    assert (share_of_alpha(fading=True), share_of_alpha(fading=False)) == (0.025, 0.05)
    assert share_of_alpha(0.1, fading=True) == 0.05
