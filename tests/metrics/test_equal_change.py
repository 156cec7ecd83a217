"""Did several sets of items change alike?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from forgetwatch.metrics import equal_change_p_value


def test_complete_blocks_give_hotellings_test() -> None:
    values = np.random.default_rng(0).normal([0.0, 0.2, 0.5], size=(40, 3))
    apart = values[:, 1:] - values[:, :1]
    t2 = 40 * apart.mean(0) @ np.linalg.inv(np.cov(apart.T)) @ apart.mean(0)
    expected = stats.f.sf(t2 * 38 / (39 * 2), 2, 38)
    items, sets = np.repeat(np.arange(40), 3), np.tile(np.arange(3), 40)
    assert equal_change_p_value(values.ravel(), sets, items) == pytest.approx(expected, rel=1e-9)


def test_two_sets_without_a_common_observation_give_welchs_statistic() -> None:
    rng = np.random.default_rng(1)
    one, other = rng.normal(size=300), rng.normal(0.2, 2.0, size=500)
    found = equal_change_p_value(np.concatenate([one, other]), np.repeat([0, 1], [300, 500]))
    assert found == pytest.approx(stats.ttest_ind(one, other, equal_var=False).pvalue, rel=0.02)


@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_its_size_is_its_level(shared: float) -> None:
    rng, worlds = np.random.default_rng(2), 2000
    rejected = 0
    for _ in range(worlds):
        common = rng.normal(size=(60, 1)) * math.sqrt(shared)
        values = common + rng.normal(size=(60, 3)) * math.sqrt(1 - shared)
        values[rng.random(values.shape) < 0.5] = 0.0  # most items do not change
        there = rng.random(values.shape) < 0.8
        rows, sets = np.nonzero(there)
        rejected += equal_change_p_value(values[there], sets, rows) <= 0.05
    assert rejected / worlds == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / worlds))


def test_nothing_to_test_has_no_p_value_and_no_change_is_equal() -> None:
    assert math.isnan(equal_change_p_value(np.zeros(0), np.zeros(0, int)))
    assert math.isnan(equal_change_p_value(np.ones(9), np.zeros(9, int)))
    assert math.isnan(equal_change_p_value(np.ones(2), np.array([0, 1])))
    assert equal_change_p_value(np.zeros(9), np.arange(9) % 3) == 1
    assert equal_change_p_value(np.repeat([0.0, -1.0], 10), np.repeat([0, 1], 10)) < 1e-6
