"""A run of looks: what was forgotten so far, what came back, and how much of it a guesser would show.

    right[0]   the baseline            forgotten now         right at the baseline, wrong at this look
    right[1]   the first look          ever forgotten        right at the baseline, wrong at some look so far
    ...                                regained              ever forgotten before, right at this look
    right[T]   the last look           forgetting event      right at one look, wrong at the next

Everything that says "ever" or "some" grows with the number of looks by noise alone. Each such number has a reference
beside it: what a model that only guesses, afresh at each look, would show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Course:
    """Counts at each look against the baseline and against the look before, and the course of each item.

    Attributes:
        forgotten: Right at the baseline and wrong now, int64 [looks].
        gained: Wrong at the baseline and right now, int64 [looks].
        newly_forgotten: Right at the look before and wrong now, int64 [looks].
        newly_regained: Wrong at the look before and right now, int64 [looks].
        ever_forgotten: Right at the baseline and wrong at some look so far, int64 [looks].
        regained: Forgotten at an earlier look and right now, int64 [looks].
        events: Forgetting events of each item (Toneva et al. 2019), int64 [items].
        first_forgotten: Look at which an item that was right at the baseline was first wrong, counted from 1;
            -1 where it never was, int64 [items].
        temporal_forgetting: Share of items right at some look, the baseline included, and wrong at the last
            (Li et al. 2025, arXiv 2505.20196), 0 to 1; nan for no items.
    """

    forgotten: Ints
    gained: Ints
    newly_forgotten: Ints
    newly_regained: Ints
    ever_forgotten: Ints
    regained: Ints
    events: Ints
    first_forgotten: Ints
    temporal_forgetting: float

    @property
    def never_forgotten(self) -> int:
        """Number of items without a forgetting event."""
        return int(np.sum(self.events == 0))


def course(right: Bools) -> Course:
    """The course of a run.

    Args:
        right: Right answers, bool [1 + looks, items]; row 0 is the baseline.

    Raises:
        ValueError: If there is no baseline row.

    >>> course(np.array([[True, True, False], [False, True, True], [True, True, False]])).ever_forgotten.tolist()
    [1, 1]
    """
    if right.ndim != 2 or not len(right):
        raise ValueError(f"needed right answers as [1 + looks, items], got shape {right.shape}")
    baseline, looks, previous = right[0], right[1:], right[:-1]
    ever_wrong = np.maximum.accumulate(~looks, axis=0)
    ever_forgotten = baseline & ever_wrong
    earlier = np.zeros_like(ever_forgotten)
    earlier[1:] = ever_forgotten[:-1]
    lost_again = previous & ~looks
    at_last = ever_forgotten[-1] if len(looks) else np.zeros(right.shape[1], bool)
    first = np.argmax(ever_forgotten, axis=0) + 1 if len(looks) else np.zeros(right.shape[1], np.int64)
    once_right = right[:-1].any(axis=0) & ~right[-1]
    return Course(
        forgotten=(baseline & ~looks).sum(axis=1),
        gained=(~baseline & looks).sum(axis=1),
        newly_forgotten=lost_again.sum(axis=1),
        newly_regained=(~previous & looks).sum(axis=1),
        ever_forgotten=ever_forgotten.sum(axis=1),
        regained=(earlier & looks).sum(axis=1),
        events=lost_again.sum(axis=0),
        first_forgotten=np.where(at_last, first, -1),
        temporal_forgetting=float(once_right.mean()) if once_right.size else math.nan,
    )


def guessed_ever_forgotten(k: Ints, *, looks: int) -> float:
    """Share of items that a pure guesser would ever have forgotten after some looks; nan for no items.

    Mean of (1/k)(1 - k^-looks): it tends to 1/k. Assumes fresh uniform guesses; persistent ones show less.

    Args:
        k: Number of options of each item, int64 [items].
        looks: Looks after the baseline.
    """
    return float(np.mean((1.0 - (1.0 / k) ** looks) / k)) if k.size else math.nan


def guessed_temporal_forgetting(k: Ints, *, checkpoints: int) -> float:
    """Share of items that a pure guesser gets right at some checkpoint and wrong at the last; nan for no items.

    Mean of (1 - 1/k)(1 - (1 - 1/k)^(checkpoints - 1)). Assumes fresh uniform guesses.

    Args:
        k: Number of options of each item, int64 [items].
        checkpoints: Checkpoints in all, the baseline included.

    >>> guessed_temporal_forgetting(np.array([4]), checkpoints=2)
    0.1875
    """
    wrong = 1.0 - 1.0 / k
    return float(np.mean(wrong * (1.0 - wrong ** (checkpoints - 1)))) if k.size else math.nan
