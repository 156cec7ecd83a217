"""The four cells, and known and lost.

                     right after    wrong after
    right before     retained       forgotten        1->1   1->0
    wrong before     gained         missed           0->1   0->0

Rates are shares of all n items unless the name says otherwise: some of the literature divides 1->0 by the items that
were right before (here `forgetting_relative`). In continual learning "backward transfer" is a signed change of task
accuracy; here it is the share of 0->1 items (Harmon et al. 2025, arXiv 2510.17776), and the signed number is
`net_change`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

KNOWN_SHARE: Final = 0.7
"""Gold's share of the option probability from which a right answer counts as clearly known."""


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
        """Share of items that were right before and are wrong after, 0 to 1; nan for no items."""
        return ratio(self.forgotten, self.n)

    @property
    def backward_transfer(self) -> float:
        """Share of items that were wrong before and are right after, 0 to 1; nan for no items."""
        return ratio(self.gained, self.n)

    @property
    def net_change(self) -> float:
        """Accuracy after minus accuracy before, -1 to 1; nan for no items."""
        return ratio(self.gained - self.forgotten, self.n)

    @property
    def retention(self) -> float:
        """Share of the items right before that are still right, 0 to 1; nan if none was right before."""
        return ratio(self.retained, self.retained + self.forgotten)

    @property
    def forgetting_relative(self) -> float:
        """Share of the items right before that are wrong now, 0 to 1; nan if none was right before."""
        return ratio(self.forgotten, self.retained + self.forgotten)


@dataclass(frozen=True, kw_only=True)
class Known:
    """Counts of items that were clearly known before, of those lost, and of those newly known; as in `Cells`.

    A lower bound of the true loss: only clear cases are counted. It needs no model of guessing and works at k = 2.
    """

    known: float
    known_lost: float
    newly_known: float


def count_cells(before: NDArray[np.bool_], after: NDArray[np.bool_], *, samples: int = 1) -> Cells:
    """Count the four cells of paired outcomes.

    Args:
        before: Right before, bool [rows].
        after: Right after, bool [rows]; the same items in the same order.
        samples: Rows per item; counts are divided by it.

    >>> count_cells(np.array([True, True, False]), np.array([True, False, False]))
    Cells(retained=1, forgotten=1, gained=0, missed=1)
    """
    # Two bits per row number the cells: 0 missed, 1 gained, 2 forgotten, 3 retained.
    table = np.bincount(2 * before.astype(np.int64) + after, minlength=4)
    missed, gained, forgotten, retained = (_whole(int(count), samples) for count in table)
    return Cells(retained=retained, forgotten=forgotten, gained=gained, missed=missed)


def count_known(
    before: NDArray[np.bool_],
    after: NDArray[np.bool_],
    share_before: NDArray[np.float64],
    share_after: NDArray[np.float64],
    *,
    samples: int = 1,
) -> Known | None:
    """Count known and lost items; None if no item has option probabilities on both sides.

    An item is known if it is right with at least `KNOWN_SHARE` of the option probability on gold. Known before and
    wrong after is known and lost; wrong before and known after is newly known.

    Args:
        before: Right before, bool [rows].
        after: Right after, bool [rows].
        share_before: Gold's share of the option probability before, 0 to 1, nan where it was not measured [rows].
        share_after: The same, after [rows].
        samples: Rows per item; counts are divided by it.
    """
    measured = np.isfinite(share_before) & np.isfinite(share_after)
    if not measured.any():
        return None
    # Without a share after, an item could be lost but never newly known: both need both sides.
    known = measured & is_known(before, share_before)
    known_after = measured & is_known(after, share_after)
    return Known(
        known=_whole(int(known.sum()), samples),
        known_lost=_whole(int((known & ~after).sum()), samples),
        newly_known=_whole(int((known_after & ~before).sum()), samples),
    )


def is_known(right: NDArray[np.bool_], share: NDArray[np.float64]) -> NDArray[np.bool_]:
    """True where right with at least `KNOWN_SHARE` of the option probability on gold; bool [rows]. False for nan."""
    known: NDArray[np.bool_] = right & (share >= KNOWN_SHARE)
    return known


def ratio(part: float, whole: float) -> float:
    """Quotient of two counts; nan if the whole is 0."""
    return part / whole if whole else math.nan


def _whole(count: int, samples: int) -> float:
    return count if samples == 1 else count / samples
