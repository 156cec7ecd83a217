"""Paired answers to items with options: the input of every correction for guessing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Paired answers to choice items, without open answers. All arrays are [rows].

    Attributes:
        before: Right before, bool.
        after: Right after, bool.
        chosen_before: Option chosen before; -1 = no answer found.
        chosen_after: Option chosen after; -1 = no answer found.
        k: Number of options.
        golds: Number of right options; 1 for most items.
        task: Code of the task.
        cluster: Code of each row's independent observation; None if every row is one.
        samples: Rows per item.
        second_before: Before, 1 where gold was the second choice of a wrong answer, 0 where it was not, nan where the
            answer was right or options have no scores; None if no option has one.
        second_after: The same, after.
    """

    before: Bools
    after: Bools
    chosen_before: Ints
    chosen_after: Ints
    k: Ints
    golds: Ints
    task: Ints
    cluster: Ints | None = None
    samples: int = 1
    second_before: Floats | None = None
    second_after: Floats | None = None

    def take(self, rows: NDArray[Any]) -> Answers:
        """Answers of some rows."""
        taken = {name: values[rows] for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        return replace(self, **taken)

    @property
    def no_answer_before(self) -> Bools:
        """Mask of rows wrong before because no answer was found; bool [rows]."""
        return ~self.before & (self.chosen_before < 0)

    @property
    def no_answer_after(self) -> Bools:
        """Mask of rows wrong after because no answer was found; bool [rows]."""
        return ~self.after & (self.chosen_after < 0)

    @property
    def both_wrong(self) -> Bools:
        """Mask of rows with a wrong option before and after, the same or another; bool [rows]."""
        return ~(self.before | self.after | self.no_answer_before | self.no_answer_after)

    @property
    def wrong_to_other_wrong(self) -> Bools:
        """Mask of rows with a wrong option before and another wrong option after; bool [rows]."""
        changed: Bools = self.both_wrong & (self.chosen_before != self.chosen_after)
        return changed

    @property
    def correctable(self) -> Bools:
        """Mask of rows with at least two wrong options: a changed guess can land on another wrong one; bool [rows]."""
        return self.k - self.golds >= 2
