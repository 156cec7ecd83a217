"""Losses of form and of knowledge, item by item."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch.metrics import count_losses, lost_form

NAN = float("nan")


@pytest.mark.parametrize(
    ("before", "after", "form_before", "form_after", "forced_after", "expected"),
    [
        (1, 0, 1, 0, 1, (1, 0)),  # no form any more, and the right option still scores highest
        (1, 0, 1, 0, 0, (0, 1)),  # no form, and another option scores higher
        (1, 0, 1, 1, 1, (0, 1)),  # another answer, in its form
        (1, 0, 1, 0, NAN, (1, 0)),  # no form, and nothing else to be seen: an open answer
        (1, 1, 1, 0, 1, (1, 0)),  # the option's text instead of its letter: found, and not in the form
        (1, 1, 1, 1, 1, (0, 0)),
        (0, 0, 1, 0, 1, (0, 0)),  # what was not right cannot be lost
        (1, 0, 0, 0, 1, (0, 1)),  # it had no form before
        (0, 1, 0, 1, 1, (0, 0)),
    ],
)
def test_each_loss_is_of_form_or_of_knowledge(
    before: int, after: int, form_before: float, form_after: float, forced_after: float, expected: tuple[int, int]
) -> None:
    found = count_losses(
        np.array([before == 1]),
        np.array([after == 1]),
        np.array([float(form_before)]),
        np.array([float(form_after)]),
        np.array([forced_after]),
    )
    assert found is not None
    assert (found.format_lost, found.knowledge_lost) == expected


def test_losses_are_undefined_if_no_form_was_measured() -> None:
    right, nothing = np.array([True, False]), np.full(2, NAN)
    assert count_losses(right, ~right, nothing, nothing, nothing) is None


@given(st.lists(st.tuples(*[st.integers(0, 1)] * 5), min_size=1, max_size=30), st.integers(1, 3))
def test_every_forgotten_answer_is_lost_once(rows: list[tuple[int, ...]], samples: int) -> None:
    before, after, form_before, form_after, forced = (np.array(column) for column in zip(*rows * samples, strict=True))
    found = count_losses(
        before == 1, after == 1, *(x.astype(float) for x in (form_before, form_after, forced)), samples=samples
    )
    assert found is not None
    forgotten = ((before == 1) & (after == 0)).sum() / samples
    still_right = ((before == 1) & (after == 1) & (form_before == 1) & (form_after == 0)).sum() / samples
    assert found.format_lost + found.knowledge_lost == pytest.approx(forgotten + still_right)


def test_a_choice_that_is_right_at_constant_mass_lost_its_form_alone() -> None:
    """Under a score divided by a length another option is chosen although none became likelier than another."""
    before, after = np.array([True, True, True, False]), np.array([False, False, True, False])
    nothing, constant_mass = np.full(4, NAN), np.array([1.0, 0.0, 1.0, 1.0])
    found = lost_form(before, after, nothing, nothing, after.astype(float), constant_mass=constant_mass)
    assert found.tolist() == [True, False, False, False]
    form = np.array([0.0, 1.0, 1.0, 1.0])
    counted = count_losses(before, after, form, form, after.astype(float), constant_mass=constant_mass)
    assert counted is not None
    assert (counted.format_lost, counted.knowledge_lost) == (1, 1)
