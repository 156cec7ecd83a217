"""Numbers of items and the changes that they see, against the published formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from forgetwatch.metrics import Confidence, count_known, detectable_change, detectable_known_lost, items_needed
from forgetwatch.metrics.significance import luck


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
    assert math.isnan(detectable_change(0, 0.1, power=0.5))
    for n in (1, 2, 3):
        assert math.isnan(detectable_change(n, 3 / n))


@given(st.floats(0.005, 0.5), st.floats(0.1, 1.0), st.floats(0.5, 0.95))
def test_items_needed_is_the_inverse_of_the_change_they_see(discordance: float, part: float, power: float) -> None:
    change = discordance * part
    n = items_needed(change, discordance, power=power)
    assert detectable_change(n, discordance, power=power) == pytest.approx(change, rel=1e-6)


def test_items_that_see_a_change_see_it_as_often_as_promised() -> None:
    change, discordance = 0.04, 0.15
    n = math.ceil(items_needed(change, discordance))
    rng = np.random.default_rng(0)
    down = (discordance + change) / (2 * discordance)
    flips = rng.binomial(n, discordance, 4000)
    lost = rng.binomial(flips, down)
    z = (2 * lost - flips) / np.sqrt(np.maximum(flips, 1))
    assert np.mean(z >= stats.norm.ppf(0.975)) == pytest.approx(0.8, abs=0.025)


def test_a_change_larger_than_the_flips_cannot_be() -> None:
    assert math.isnan(items_needed(0.2, 0.1))
    assert math.isnan(items_needed(0.0, 0.1))


def test_a_loss_needs_as_many_items_as_a_gain() -> None:
    assert items_needed(-0.02, 0.10) == items_needed(0.02, 0.10) == pytest.approx(1960, abs=1)


def test_less_power_than_false_alarms_is_undefined() -> None:
    for power in (0.001, 0.02, 0.025):
        assert math.isnan(items_needed(0.02, 0.1, power=power))
        assert math.isnan(detectable_change(1000, 0.1, power=power))
    assert items_needed(0.02, 0.1, power=0.1) < items_needed(0.02, 0.1, power=0.5)


@pytest.mark.parametrize(("n", "discordance"), [(250, 0.1), (500, 0.1), (1000, 0.05), (2000, 0.2), (4000, 0.3)])
def test_known_and_lost_items_are_seen_as_often_as_promised(n: int, discordance: float) -> None:
    """Planted losses and lucky ones among four options, counted as in a comparison; a tenth is wrong before, unsure."""
    lost = (detectable_known_lost(n, discordance) + n * luck(discordance)) / n
    moved = 2 * luck(discordance)
    rng = np.random.default_rng(0)
    seen = []
    for _ in range(500):
        draw = rng.random(n)
        gone, other = draw < lost, draw > 1 - moved
        before = ~other & ((draw < lost) | (draw > lost + 0.1))
        found = count_known(
            Confidence(
                before=before,
                after=before & ~gone,
                share_before=np.where(before, 0.99, 0.0),
                share_after=np.where(gone | other, 0.0, 0.99),
                wrong_share=np.where(other, 0.99, 0.3),
                other_wrong=other,
                k=np.full(n, 4),
                golds=np.ones(n, np.int64),
            )
        )
        seen.append(found.lost_net_interval[0] > 0)
    assert np.mean(seen) == pytest.approx(0.8, abs=0.08)


def test_known_and_lost_items_need_flips() -> None:
    assert math.isnan(detectable_known_lost(80, 0.05))  # four flips of all kinds
    assert math.isnan(detectable_known_lost(0, 0.1))
    assert math.isnan(detectable_known_lost(1000, 0.0))
    assert detectable_known_lost(2000, 0.3) > detectable_known_lost(2000, 0.1) > detectable_known_lost(1000, 0.05)
    assert detectable_known_lost(2000, 0.1, power=0.9) > detectable_known_lost(2000, 0.1)
