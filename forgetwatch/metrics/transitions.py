"""The four cells of paired outcomes, and the history of each item through the looks of a run.

                     right after    wrong after
    right before     retained       forgotten        1->1   1->0
    wrong before     gained         missed           0->1   0->0

Rates are shares of all n items unless the name says otherwise: some of the literature divides 1->0
by the items that were right before (here `forgetting_relative`). In continual learning "backward
transfer" is a signed change of task accuracy; here it is the share of 0->1 items (Harmon et al.
2025, arXiv 2510.17776), and the signed number is `net_change`.

    right[0]   the baseline            forgotten             right at the baseline, wrong at this look
    right[1]   the first look          ever forgotten        right at the baseline, wrong at some look so far
    ...                                regained              ever forgotten before, right at this look
    right[T]   the last look           forgetting event      right at one look, wrong at the next

Every count of "ever" or "some" grows with the number of looks by noise alone. `guesser_history`
gives the reference for each: the same count of a model that only guesses, afresh at each look.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]


Ints = NDArray[np.int64]


Floats = NDArray[np.float64]


Counts = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Counts of the four cells: whole numbers; means over samples where items have several."""

    retained: float
    forgotten: float
    gained: float
    missed: float

    @property
    def n(self) -> float:
        """Number of items."""
        return self.retained + self.forgotten + self.gained + self.missed

    @property
    def accuracy_before(self) -> float:
        """Share of items right before; nan for no items."""
        return ratio(self.retained + self.forgotten, self.n)

    @property
    def accuracy_after(self) -> float:
        """Share of items right after; nan for no items."""
        return ratio(self.retained + self.gained, self.n)

    @property
    def forgetting(self) -> float:
        """Share of items right before and wrong after, 0 to 1.

        nan for no items.
        """
        return ratio(self.forgotten, self.n)

    @property
    def backward_transfer(self) -> float:
        """Share of items wrong before and right after, 0 to 1.

        nan for no items.
        """
        return ratio(self.gained, self.n)

    @property
    def net_change(self) -> float:
        """Accuracy after minus accuracy before, -1 to 1.

        nan for no items.
        """
        return ratio(self.gained - self.forgotten, self.n)

    @property
    def retention(self) -> float:
        """Share of the right items that stay right, 0 to 1.

        nan if none was right before.
        """
        return ratio(self.retained, self.retained + self.forgotten)

    @property
    def forgetting_relative(self) -> float:
        """Share of the right items that are wrong now, 0 to 1.

        nan if none was right before.
        """
        return ratio(self.forgotten, self.retained + self.forgotten)

    def scaled(self, n: float) -> Cells:
        """Cells with the same shares among another number of items."""
        factor = n / self.n if self.n else 0.0
        return Cells(
            retained=self.retained * factor,
            forgotten=self.forgotten * factor,
            gained=self.gained * factor,
            missed=self.missed * factor,
        )


def count_cells(before: Bools, after: Bools, *, samples: int = 1) -> Cells:
    """Count the four cells of paired outcomes.

    >>> count_cells(np.array([True, True, False]), np.array([True, False, False]))
    Cells(retained=1, forgotten=1, gained=0, missed=1)
    """
    # Two bits per row number the cells: 0 missed, 1 gained, 2 forgotten, 3 retained.
    table = np.bincount(2 * before.astype(np.int64) + after, minlength=4)
    missed, gained, forgotten, retained = (over_samples(int(count), samples) for count in table)
    return Cells(retained=retained, forgotten=forgotten, gained=gained, missed=missed)


def ratio(part: float, whole: float) -> float:
    """Quotient of two counts; nan if the whole is 0."""
    return part / whole if whole else math.nan


def over_samples(count: float, samples: int) -> float:
    """Number of items for a number of rows.

    The mean over the samples of an item; a whole number for one sample.
    """
    return count if samples == 1 else count / samples


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemHistory:
    """Counts at each look against the baseline and the look before, and events of each item.

    Attributes:
        items: Number of items.
        newly_forgotten: Right at the look before and wrong now [looks].
        newly_regained: Right at some earlier look, wrong at the look before and right now [looks].
        ever_forgotten: Right at the baseline and wrong at some look so far [looks].
        regained: Forgotten at an earlier look and right now [looks].
        events: Forgetting events of each row (Toneva et al. 2019), int64 [rows].
        never_forgotten: Number of items that were right at some look and have no forgetting event.
        temporal_forgetting: Share of items right at some look, the baseline included, and wrong at
            the last (Li et al. 2025, arXiv 2505.20196), 0 to 1; nan for no items.
    """

    items: float
    newly_forgotten: Counts
    newly_regained: Counts
    ever_forgotten: Counts
    regained: Counts
    events: Ints
    never_forgotten: float
    temporal_forgetting: float


def item_history(right: Bools, *, samples: int = 1) -> ItemHistory:
    """Count the history of the items of a run.

    Args:
        right: Right answers, bool [1 + looks, rows]; right[0] is the baseline.
        samples: Rows per item.

    Raises:
        ValueError: If there is no baseline row.

    >>> item_history(np.array([[True, True, False], [False, True, True], [True, True, False]])).ever_forgotten.tolist()
    [1, 1]
    """
    if right.ndim != 2 or not len(right):
        raise ValueError(f"needed right answers as [1 + looks, items], got shape {right.shape}")
    baseline, looks, previous = right[0], right[1:], right[:-1]  # looks[t] follows previous[t]
    ever_forgotten = baseline & np.maximum.accumulate(~looks, axis=0)
    # Regained needs an earlier look: at the look itself an item is wrong or right, not both.
    forgotten_earlier = np.zeros_like(ever_forgotten)
    forgotten_earlier[1:] = ever_forgotten[:-1]
    events = previous & ~looks
    right_earlier = np.logical_or.accumulate(previous, axis=0)
    lost_at_last = right[:-1].any(axis=0) & ~right[-1]

    def count(rows: Any) -> Any:
        """Return the number of items in rows [..., rows]."""
        # Over rows [..., rows].
        return over_samples(rows.sum(axis=-1), samples)

    return ItemHistory(
        items=over_samples(right.shape[1], samples),
        newly_forgotten=count(events),
        newly_regained=count(right_earlier & ~previous & looks),
        ever_forgotten=count(ever_forgotten),
        regained=count(forgotten_earlier & looks),
        events=events.sum(axis=0),
        never_forgotten=float(count(right.any(axis=0) & ~events.any(axis=0))),
        temporal_forgetting=float(lost_at_last.mean()) if lost_at_last.size else math.nan,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class GuesserHistory:
    """Expected history of a model that guesses uniformly and afresh at each look. Shares of the items, 0 to 1.

    All are nan if there is no item, or the chance of a guess is unknown. Open answers are never
    guessed right, and count among the items. Guesses that persist from look to look give less.

    Attributes:
        newly_forgotten: Right at the look before and wrong now, (1/k)(1-1/k), float64 [looks]. Also
            the share forgotten, and the share gained, since the baseline.
        newly_regained: Right at some earlier look, wrong at the look before and right now,
            (1 - (1-1/k)^(t-1)) (1/k)(1-1/k), float64 [looks].
        ever_forgotten: Right at the baseline and wrong at some look so far, (1/k)(1 - k^-t),
            float64 [looks]. It tends to 1/k.
        regained: Forgotten at an earlier look and right now, (1/k)(1/k)(1 - k^-(t-1)), float64
            [looks].
        events: Forgetting events per item over the whole run, T (1/k)(1-1/k).
        never_forgotten: Share of items right at some look and without a forgetting event.
        temporal_forgetting: Right at some checkpoint and wrong at the last, (1-1/k)(1 - (1-1/k)^T):
            18.75 % at k = 4 with one look after the baseline, 69.4 % with nine.
    """

    newly_forgotten: Floats
    newly_regained: Floats
    ever_forgotten: Floats
    regained: Floats
    events: float
    never_forgotten: float
    temporal_forgetting: float


def guesser_history(chance: Floats, *, looks: int) -> GuesserHistory:
    """Expected history of a model that only guesses.

    Args:
        chance: Probability that a guess is right, 1/k for most items, 0 for open answers, float64
            [items].
        looks: Looks after the baseline, T.

    >>> round(guesser_history(np.array([1 / 4]), looks=9).temporal_forgetting, 3)
    0.694
    """
    right, counts = np.unique(
        chance, return_counts=True
    )  # items with the same chance share one formula
    look = np.arange(1, looks + 1)[:, None]
    # A history without an event is wrong up to some look and right from there on: j wrong, then 1 +
    # T - j right.
    wrong_first = np.arange(looks + 1)[:, None]
    no_event = np.sum((1 - right) ** wrong_first * right ** (1 + looks - wrong_first), axis=0)

    def mean(shares: Floats) -> Floats:
        """Return the mean over the items of shares by chance [..., chances]."""
        # Shares by chance are [..., chances].
        means: Floats = (
            shares @ counts / counts.sum() if chance.size else np.full(shares.shape[:-1], math.nan)
        )
        return means

    return GuesserHistory(
        newly_forgotten=mean(np.repeat((right * (1 - right))[None], looks, axis=0)),
        newly_regained=mean((1 - (1 - right) ** (look - 1)) * right * (1 - right)),
        ever_forgotten=mean(right * (1 - right**look)),
        regained=mean(right**2 * (1 - right ** (look - 1))),
        events=float(mean(looks * right * (1 - right))),
        never_forgotten=float(mean(no_event)),
        temporal_forgetting=float(mean((1 - right) * (1 - (1 - right) ** looks))),
    )
