"""The four cells, and the history of items through the looks of a run."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from forgetwatch.metrics import Cells, count_cells, guesser_history, item_history

PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


def sides(pairs: list[tuple[bool, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in pairs], bool), np.array([b for _, b in pairs], bool)


def test_each_pair_lands_in_its_cell() -> None:
    cells = count_cells(*sides([(True, True)] * 4 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)]))
    assert cells == Cells(retained=4, forgotten=3, gained=2, missed=1)
    assert cells.forgetting == 0.3
    assert cells.backward_transfer == 0.2
    assert cells.retention == 4 / 7
    assert cells.forgetting_relative == 3 / 7


@given(PAIRS)
def test_cells_add_up_and_net_change_is_the_change_of_accuracy(pairs: list[tuple[bool, bool]]) -> None:
    before, after = sides(pairs)
    cells = count_cells(before, after)
    assert cells.n == len(pairs)
    if pairs:
        assert math.isclose(cells.accuracy_after - cells.accuracy_before, cells.net_change, abs_tol=1e-12)
        assert math.isclose(cells.accuracy_before, before.mean())


@given(PAIRS)
def test_swapping_before_and_after_swaps_forgotten_and_gained(pairs: list[tuple[bool, bool]]) -> None:
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
    rates = (cells.forgetting, cells.backward_transfer, cells.net_change, cells.accuracy_before, cells.retention)
    assert all(math.isnan(rate) for rate in rates)
    assert math.isnan(count_cells(*sides([(False, True)])).retention)


def test_samples_make_cells_means_over_samples() -> None:
    cells = count_cells(*sides([(True, False), (True, True), (False, False), (False, False)]), samples=2)
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
    found, reference = item_history(rng.random((4, len(chance))) < chance), guesser_history(chance, looks=3)
    for name in ("ever_forgotten", "regained", "newly_regained"):
        assert getattr(found, name) / len(chance) == pytest.approx(getattr(reference, name), abs=0.006)
    assert found.never_forgotten / len(chance) == pytest.approx(reference.never_forgotten, abs=0.006)


def test_counts_of_several_samples_are_means_over_them() -> None:
    right = np.random.default_rng(2).random((4, 30)) < 0.5
    one, three = item_history(right), item_history(np.repeat(right, 3, axis=1), samples=3)
    assert three.items == one.items == 30
    for name in ("newly_forgotten", "newly_regained", "ever_forgotten", "regained", "never_forgotten"):
        assert np.asarray(getattr(three, name)) == pytest.approx(np.asarray(getattr(one, name)))
    assert three.temporal_forgetting == pytest.approx(one.temporal_forgetting)
