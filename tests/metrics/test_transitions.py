"""The four cells, and the history of items through the looks of a run.

Did several sets of items change alike?
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forgetwatch.metrics.equal_change import equal_change_p_value
from forgetwatch.metrics.transitions import Cells, count_cells, guesser_history, item_history

PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


def sides(pairs: list[tuple[bool, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in pairs], bool), np.array([b for _, b in pairs], bool)


def test_each_pair_lands_in_its_cell() -> None:
    cells = count_cells(
        *sides([(True, True)] * 4 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)])
    )
    assert cells == Cells(retained=4, forgotten=3, gained=2, missed=1)
    assert cells.forgetting == 0.3
    assert cells.backward_transfer == 0.2
    assert cells.retention == 4 / 7
    assert cells.forgetting_relative == 3 / 7


@given(PAIRS)
def test_cells_add_up_and_net_change_is_the_change_of_accuracy(
    pairs: list[tuple[bool, bool]],
) -> None:
    before, after = sides(pairs)
    cells = count_cells(before, after)
    assert cells.n == len(pairs)
    if pairs:
        assert math.isclose(
            cells.accuracy_after - cells.accuracy_before, cells.net_change, abs_tol=1e-12
        )
        assert math.isclose(cells.accuracy_before, before.mean())


@given(PAIRS)
def test_swapping_before_and_after_swaps_forgotten_and_gained(
    pairs: list[tuple[bool, bool]],
) -> None:
    before, after = sides(pairs)
    there, back = count_cells(before, after), count_cells(after, before)
    assert (there.forgotten, there.gained) == (back.gained, back.forgotten)
    assert (there.retained, there.missed) == (back.retained, back.missed)


@given(PAIRS, st.randoms())
def test_order_does_not_matter(pairs: list[tuple[bool, bool]], rng: object) -> None:
    shuffled = list(pairs)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert count_cells(*sides(pairs)) == count_cells(*sides(shuffled))


def test_rates_of_nothing_are_nan_and_never_zero() -> None:
    cells = count_cells(*sides([]))
    rates = (
        cells.forgetting,
        cells.backward_transfer,
        cells.net_change,
        cells.accuracy_before,
        cells.retention,
    )
    assert all(math.isnan(rate) for rate in rates)
    assert math.isnan(count_cells(*sides([(False, True)])).retention)


def test_samples_make_cells_means_over_samples() -> None:
    cells = count_cells(
        *sides([(True, False), (True, True), (False, False), (False, False)]), samples=2
    )
    assert (cells.retained, cells.forgotten, cells.missed, cells.n) == (0.5, 0.5, 1.0, 2.0)


RUNS = st.tuples(st.integers(1, 6), st.integers(0, 12)).flatmap(lambda shape: arrays(bool, shape))


@given(RUNS)
def test_counts_are_those_of_a_loop_over_items_and_looks(right: np.ndarray) -> None:
    found = item_history(right)
    looks, items = len(right) - 1, right.shape[1]
    for look in range(1, looks + 1):
        was = [[bool(right[t, i]) for t in range(look + 1)] for i in range(items)]
        index = look - 1
        assert found.newly_forgotten[index] == sum(w[-2] and not w[-1] for w in was)
        assert found.newly_regained[index] == sum(any(w[:-2]) and not w[-2] and w[-1] for w in was)
        assert found.ever_forgotten[index] == sum(w[0] and not all(w) for w in was)
        assert found.regained[index] == sum(w[0] and not all(w[:-1]) and w[-1] for w in was)
    for item in range(items):
        w = right[:, item].tolist()
        assert found.events[item] == sum(a and not b for a, b in itertools.pairwise(w))
    if items:
        temporal = sum(any(w[:-1]) and not w[-1] for w in right.T.tolist()) / items
        assert found.temporal_forgetting == pytest.approx(temporal)


@given(RUNS)
def test_ever_forgotten_never_falls_and_holds_what_is_forgotten_now(right: np.ndarray) -> None:
    found = item_history(right)
    assert (np.diff(found.ever_forgotten) >= 0).all()
    forgotten = (right[0] & ~right[1:]).sum(axis=1)
    assert (found.ever_forgotten >= forgotten).all()
    assert (found.ever_forgotten - forgotten <= found.regained + forgotten).all()
    assert found.never_forgotten <= right.shape[1]


def test_nothing_gives_nan_and_a_run_without_looks_is_empty() -> None:
    assert math.isnan(item_history(np.zeros((3, 0), bool)).temporal_forgetting)
    empty = item_history(np.ones((1, 4), bool))
    assert empty.ever_forgotten.tolist() == []
    with pytest.raises(ValueError, match=r"got shape \(0, 3\)"):
        item_history(np.zeros((0, 3), bool))


def test_the_guess_references_are_those_of_simulated_guessers() -> None:
    rng = np.random.default_rng(0)
    k = np.repeat([2, 4, 5], 20_000)
    right = rng.random((10, len(k))) < 1 / k
    found = item_history(right)
    reference = guesser_history(1 / k, looks=9)
    assert found.temporal_forgetting == pytest.approx(reference.temporal_forgetting, abs=0.006)
    assert found.events.mean() == pytest.approx(reference.events, abs=0.02)
    assert found.never_forgotten / len(k) == pytest.approx(reference.never_forgotten, abs=0.006)
    for name in ("ever_forgotten", "regained", "newly_forgotten", "newly_regained"):
        assert getattr(found, name) / len(k) == pytest.approx(getattr(reference, name), abs=0.006)


def test_the_guess_references_on_worked_numbers() -> None:
    four = np.array([1 / 4])
    assert guesser_history(four, looks=1).temporal_forgetting == pytest.approx(0.1875)
    assert guesser_history(four, looks=9).temporal_forgetting == pytest.approx(0.694, abs=5e-4)
    assert guesser_history(four, looks=1).ever_forgotten.tolist() == pytest.approx([0.1875])
    assert guesser_history(four, looks=1000).ever_forgotten[-1] == pytest.approx(0.25)
    assert guesser_history(np.array([1.0]), looks=3).never_forgotten == pytest.approx(1.0)


def test_the_guess_references_of_nothing_are_nan() -> None:
    nobody = guesser_history(np.array([]), looks=3)
    assert math.isnan(nobody.temporal_forgetting)
    assert np.isnan(nobody.ever_forgotten).all()
    assert nobody.ever_forgotten.shape == (3,)
    assert guesser_history(np.array([0.25]), looks=0).ever_forgotten.shape == (0,)


def test_open_answers_are_never_guessed_and_count_among_the_items() -> None:
    rng = np.random.default_rng(1)
    chance = np.repeat([0.25, 0.0, 0.5], 20_000)  # four options, open, two right of four
    found, reference = (
        item_history(rng.random((4, len(chance))) < chance),
        guesser_history(chance, looks=3),
    )
    for name in ("ever_forgotten", "regained", "newly_regained"):
        assert getattr(found, name) / len(chance) == pytest.approx(
            getattr(reference, name), abs=0.006
        )
    assert found.never_forgotten / len(chance) == pytest.approx(
        reference.never_forgotten, abs=0.006
    )


def test_counts_of_several_samples_are_means_over_them() -> None:
    right = np.random.default_rng(2).random((4, 30)) < 0.5
    one, three = item_history(right), item_history(np.repeat(right, 3, axis=1), samples=3)
    assert three.items == one.items == 30
    for name in (
        "newly_forgotten",
        "newly_regained",
        "ever_forgotten",
        "regained",
        "never_forgotten",
    ):
        assert np.asarray(getattr(three, name)) == pytest.approx(np.asarray(getattr(one, name)))
    assert three.temporal_forgetting == pytest.approx(one.temporal_forgetting)


def p_value(
    changes: np.ndarray, sets: np.ndarray, strata: np.ndarray | None = None, seed: int = 0
) -> float:
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


@pytest.mark.full(
    "0.02-sizes1", "0.02-sizes2", "0.02-sizes3", "0.3", reason="further worlds of a simulation"
)
@pytest.mark.parametrize("sizes", [(290, 10), (95, 5), (20, 20, 20), (10, 20, 100)])
@pytest.mark.parametrize("lost", [0.02, 0.3])
def test_its_size_is_at_most_its_level_also_for_few_items_and_rare_losses(
    sizes: tuple[int, ...], lost: float
) -> None:
    rng, worlds, sets = np.random.default_rng(2), 150, np.repeat(np.arange(len(sizes)), sizes)
    changes = -1.0 * (rng.random((worlds, len(sets))) < lost)
    rejected = sum(p_value(one, sets, seed=n) <= 0.05 for n, one in enumerate(changes))
    assert rejected / worlds <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / worlds)


@pytest.mark.full(reason="further worlds of a simulation")
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
