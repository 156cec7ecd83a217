"""The looks of a run in memory, each compared with the baseline."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.trajectory import right_answers
from forgetwatch.snapshot import Snapshot


class ComparedLooks:
    """Looks of a run: their comparisons by step, and the rows of the latest.

    Attributes:
        comparisons: Baseline against each look so far.
        firsts: Base of earlier trainings against each look; empty without one.
        right: Right answers of each look, 1 or 0, nan if not measured; by step.
        rows: Rows of the latest look, the only ones in memory.
        seconds: Seconds of each look of this process.
    """

    def __init__(self) -> None:
        self.comparisons: dict[int, Comparison] = {}
        self.firsts: dict[int, Comparison] = {}
        self.right: dict[int, NDArray[np.float64]] = {}
        self.rows: dict[int, Snapshot] = {}
        self.seconds: dict[int, float] = {}

    def add(
        self, step: int, comparison: Comparison, baseline: Snapshot, look: Snapshot, rows: Snapshot
    ) -> None:
        """Add a look, compared over common items; `rows` are all that it has."""
        self.comparisons[step] = comparison
        if step == max(self.comparisons):
            self.rows = {step: rows}
        self.right[step] = right_answers(baseline, look)

    def drop_after(self, step: int) -> None:
        """Drop the looks later than a step."""
        looks: tuple[dict[int, Any], ...] = (self.comparisons, self.firsts, self.right)
        for by_step in (*looks, self.rows, self.seconds):
            for later in [look for look in by_step if look > step]:
                del by_step[later]

    def clear(self) -> None:
        """Drop all comparisons, before other items are compared."""
        self.comparisons.clear()
        self.firsts.clear()
        self.right.clear()

    @property
    def headline(self) -> dict[int, Comparison]:
        """Comparisons with the first base, else with the start of the run."""
        return self.firsts or self.comparisons

    @property
    def right_at_start(self) -> int:
        """Number of right answers of the baseline."""
        return int((self.right[min(self.right)] == 1.0).sum()) if self.right else 0
