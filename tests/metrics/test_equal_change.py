"""Did several sets of items change alike?"""

from __future__ import annotations

import math

import numpy as np
import pytest

from forgetwatch.metrics import equal_change_p_value


def p_value(changes: np.ndarray, sets: np.ndarray, strata: np.ndarray | None = None, seed: int = 0) -> float:
    strata = np.zeros(len(changes), int) if strata is None else strata
    return equal_change_p_value(changes, sets, strata, np.random.default_rng(seed))


def test_all_exchanges_of_a_few_items_give_fishers_p_value() -> None:
    """Four items, two of which lost: both in one set in 2 of 6 exchanges."""
    found = p_value(np.array([-1.0, -1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    assert found == pytest.approx(2 / 6, abs=0.05)


def test_blocks_show_a_difference_that_their_spread_hides() -> None:
    rng = np.random.default_rng(1)
    own = rng.normal(0, 5, 60)
    values = np.concatenate([own, own + 0.5 + rng.normal(0, 0.5, 60)])
    sets, question = np.repeat([0, 1], 60), np.tile(np.arange(60), 2)
    assert p_value(values, sets) > 0.2
    assert p_value(values, sets, question) == 0.001


@pytest.mark.parametrize("sizes", [(290, 10), (95, 5), (20, 20, 20), (10, 20, 100)])
@pytest.mark.parametrize("lost", [0.02, 0.3])
def test_its_size_is_at_most_its_level_also_for_few_items_and_rare_losses(sizes: tuple[int, ...], lost: float) -> None:
    rng, worlds, sets = np.random.default_rng(2), 150, np.repeat(np.arange(len(sizes)), sizes)
    changes = -1.0 * (rng.random((worlds, len(sets))) < lost)
    rejected = sum(p_value(one, sets, seed=n) <= 0.05 for n, one in enumerate(changes))
    assert rejected / worlds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / worlds)


def test_sets_of_unlike_sizes_and_noise_keep_the_level() -> None:
    """A set of an eighth of the items that flips five times as often: without a variance of its own it has size .23."""
    rng, worlds, sets = np.random.default_rng(4), 150, np.repeat([0, 1, 2], [400, 50, 50])
    flips = rng.random((worlds, 500)) < np.repeat([0.06, 0.3, 0.06], [400, 50, 50])
    changes = np.where(flips, rng.choice([-1.0, 1.0], (worlds, 500)), 0.0)
    rejected = sum(p_value(one, sets, seed=n) <= 0.05 for n, one in enumerate(changes))
    assert rejected / worlds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / worlds)


def test_nothing_to_test_has_no_p_value_and_no_change_is_equal() -> None:
    assert math.isnan(p_value(np.zeros(0), np.zeros(0, int)))
    assert math.isnan(p_value(np.ones(9), np.zeros(9, int)))
    assert p_value(np.zeros(9), np.arange(9) % 3) == 1
    assert p_value(np.repeat([0.0, -1.0], 20), np.repeat([0, 1], 20)) == 0.001
    # Of 300 items 12 are lost, of 8 none: as likely as not.
    assert p_value(np.repeat([-1.0, 0.0, 0.0], [12, 288, 8]), np.repeat([0, 1], [300, 8])) > 0.5
