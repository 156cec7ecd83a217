"""The four cells.

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

import numpy as np
from numpy.typing import NDArray


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

    def scaled(self, n: float) -> Cells:
        """Cells with the same shares among another number of items."""
        factor = n / self.n if self.n else 0.0
        cells = (self.retained, self.forgotten, self.gained, self.missed)
        retained, forgotten, gained, missed = (count * factor for count in cells)
        return Cells(retained=retained, forgotten=forgotten, gained=gained, missed=missed)


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


def ratio(part: float, whole: float) -> float:
    """Quotient of two counts; nan if the whole is 0."""
    return part / whole if whole else math.nan


def _whole(count: int, samples: int) -> float:
    return count if samples == 1 else count / samples
