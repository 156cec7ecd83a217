"""Shrinkage of changes of groups, against its formulas and against planted groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from forgetwatch.metrics import shrunk


def test_it_follows_the_formulas() -> None:
    changes, errors, overall = np.array([-0.10, 0.02, 0.05]), np.array([0.02, 0.03, 0.04]), -0.01
    w = [1 / error**2 for error in errors]
    u = sum(weight * change for weight, change in zip(w, changes, strict=True)) / sum(w)
    q = sum(weight * (change - u) ** 2 for weight, change in zip(w, changes, strict=True))
    between = (q - 2) / (sum(w) - sum(each**2 for each in w) / sum(w))
    found = shrunk(changes, errors, overall=overall)
    assert found.p_value == pytest.approx(stats.chi2.sf(q, 2))
    assert found.spread == pytest.approx(math.sqrt(between))
    expected = [
        overall + between / (between + error**2) * (change - overall)
        for change, error in zip(changes, errors, strict=True)
    ]
    assert found.values == pytest.approx(expected)


def test_groups_that_differ_by_less_than_chance_are_all_the_change_of_all() -> None:
    found = shrunk(np.array([-0.01, 0.01, 0.0]), np.full(3, 0.05), overall=-0.002)
    assert found.spread == 0
    assert found.values == pytest.approx([-0.002] * 3)
    assert found.p_value > 0.9


def test_fewer_than_two_groups_are_left_as_they_are() -> None:
    found = shrunk(np.array([-0.1]), np.array([0.01]), overall=0.0)
    assert (found.values.tolist(), math.isnan(found.p_value), found.spread) == ([-0.1], True, 0.0)


@pytest.mark.parametrize("spread", [0.0, 0.03])
def test_the_shown_worst_is_nearer_to_the_truth_than_the_observed_worst(spread: float) -> None:
    rng, errors = np.random.default_rng(3), np.full(9, 0.03)
    observed, shown, ranked = [], [], 0
    for _ in range(400):
        truth = -0.02 + spread * rng.normal(size=9)
        seen = truth + errors * rng.normal(size=9)
        found = shrunk(seen, errors, overall=float(seen.mean()))
        at = int(seen.argmin())
        observed.append(seen[at] - truth[at])
        shown.append(found.values[at] - truth[at])
        ranked += found.p_value <= 0.05
    assert np.mean(np.square(shown)) < 0.6 * np.mean(np.square(observed))
    assert abs(np.mean(shown)) < 0.5 * abs(np.mean(observed))
    assert (ranked / 400 < 0.08) == (spread == 0)
