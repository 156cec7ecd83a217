from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch.metrics import Cells, count_cells

PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), max_size=60)


def arrays(pairs: list[tuple[bool, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([a for a, _ in pairs], bool), np.array([b for _, b in pairs], bool)


def test_each_pair_lands_in_its_cell() -> None:
    cells = count_cells(*arrays([(True, True)] * 4 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)]))
    assert cells == Cells(retained=4, forgotten=3, gained=2, missed=1)
    assert cells.forgetting == 0.3
    assert cells.backward_transfer == 0.2
    assert cells.retention == 4 / 7
    assert cells.forgetting_relative == 3 / 7


@given(PAIRS)
def test_cells_add_up_and_net_change_is_the_change_of_accuracy(pairs: list[tuple[bool, bool]]) -> None:
    before, after = arrays(pairs)
    cells = count_cells(before, after)
    assert cells.n == len(pairs)
    if pairs:
        assert math.isclose(cells.accuracy_after - cells.accuracy_before, cells.net_change, abs_tol=1e-12)
        assert math.isclose(cells.accuracy_before, before.mean())


@given(PAIRS)
def test_swapping_before_and_after_swaps_forgotten_and_gained(pairs: list[tuple[bool, bool]]) -> None:
    before, after = arrays(pairs)
    there, back = count_cells(before, after), count_cells(after, before)
    assert (there.forgotten, there.gained) == (back.gained, back.forgotten)
    assert (there.retained, there.missed) == (back.retained, back.missed)


@given(PAIRS, st.randoms())
def test_order_does_not_matter(pairs: list[tuple[bool, bool]], rng: object) -> None:
    shuffled = list(pairs)
    rng.shuffle(shuffled)  # type: ignore[attr-defined]
    assert count_cells(*arrays(pairs)) == count_cells(*arrays(shuffled))


def test_rates_of_nothing_are_nan_and_never_zero() -> None:
    cells = count_cells(*arrays([]))
    rates = (cells.forgetting, cells.backward_transfer, cells.net_change, cells.accuracy_before, cells.retention)
    assert all(math.isnan(rate) for rate in rates)
    assert math.isnan(count_cells(*arrays([(False, True)])).retention)


def test_samples_make_cells_means_over_samples() -> None:
    cells = count_cells(*arrays([(True, False), (True, True), (False, False), (False, False)]), samples=2)
    assert (cells.retained, cells.forgotten, cells.missed, cells.n) == (0.5, 0.5, 1.0, 2.0)
