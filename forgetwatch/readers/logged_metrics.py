"""The metrics that a log gives for each answer, and the choice of the one that makes `correct`.

    acc 1.0   acc_norm 0   exact_match,strict-match True      right or wrong
    f1 [1, 0]   bleu_max 41.1   brier_score "[0.2 0.8]"       not a correctness: asking for one is an error

A metric is a correctness in a task if it is 0 or 1, or false or true, in every row of the task that has it. The part of
a name after a comma is the filter that extracted the answer from the text.
"""

from __future__ import annotations

import math
import reprlib
from array import array
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError, did_you_mean

DEFAULTS: Final = (
    *("acc", "exact_match", "em", "acc_norm", "acc_bytes", "prompt_level_strict_acc", "prompt_level_loose_acc"),
    *("pass@1", "extractive_match", "quasi_exact_match", "mc1", "loglikelihood_acc", "bleu_acc", "rouge1_acc"),
)
"""The metric that makes `correct` if none is named: the first of these that the log has, else the first that it has."""

ABSENT: Final = -1
"""Value of a missing outcome, next to 1 for right and 0 for wrong."""

_TRUTH: Final = {"True": 1, "true": 1, "1": 1, "1.0": 1, "False": 0, "false": 0, "0": 0, "0.0": 0}


class LoggedMetrics:
    """Metric values of a log, row by row.

    Args:
        path: The log; named in errors.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._task = array("i")
        self._right: dict[str, array[int]] = {}
        self._other: dict[tuple[str, int], tuple[int, Any]] = {}  # first row and value that is neither 0 nor 1

    def __len__(self) -> int:
        return len(self._task)

    def add_row(self, task: int) -> None:
        """Add a row without values.

        Args:
            task: Code of its task.
        """
        self._task.append(task)

    def add_values(self, row: int, metrics: Mapping[str, Any]) -> None:
        """Add metric values of a row."""
        for name, value in metrics.items():
            right = self._right.get(name)
            if right is None:
                right = self._right[name] = array("b")  # a byte a row: logs have many rows and metrics
            if len(right) <= row:
                right.extend([ABSENT] * (row + 1 - len(right)))
            if (truth := _truth(value)) is not None:
                right[row] = truth
            elif not _is_missing(value):
                self._other.setdefault((name, self._task[row]), (row, value))

    @property
    def tasks(self) -> NDArray[np.int64]:
        """Code of each row's task, int64 [rows]."""
        return np.array(self._task, np.int64)

    def usable(self) -> dict[str, set[int]]:
        """Metrics in the order of preference, each with the codes of the tasks in which it is a correctness."""
        tasks, found = self.tasks, {}
        for name in sorted(self._right, key=_preference):
            with_values = np.unique(tasks[self._values(name) != ABSENT]).tolist()
            if codes := {code for code in with_values if (name, code) not in self._other}:
                found[name] = codes
        return found

    def choose(self, wanted: str | None) -> str:
        """Full name of the requested metric; the first in the order of preference if none was.

        Raises:
            SnapshotError: If the log has no such metric, or it is no correctness; the message lists those that are.
        """
        usable = list(self.usable())
        if wanted is None and usable:
            return usable[0]
        if wanted is None:
            given = ", ".join(map(self._shown, self._right)) or "none"
            raise SnapshotError(f"{self._path}: no metric in this log is right or wrong for each item; it has {given}")
        name = wanted.removesuffix(",none")  # the harness's totals name every filter, also the empty one
        if name in usable:
            return name
        if full := next((full for full in usable if without_filter(full) == name), None):
            return full
        listed = ", ".join(usable) or "none"
        if other := next((full for full, _ in self._other if name in (full, without_filter(full))), None):
            raise SnapshotError(
                f"{self._path}: {self._shown(other)} is not right or wrong for each item; those that are: {listed}"
            )
        hint = did_you_mean(name, usable)
        raise SnapshotError(
            f"{self._path}: no metric {wanted!r} in this log; those that are right or wrong: {listed}{hint}"
        )

    def correctness(self, metric: str) -> tuple[NDArray[np.int8], dict[int, str]]:
        """Return 1, 0 or `ABSENT` for each row, int8 [rows], and the metric used, by code of the task.

        A task without `metric` uses it with another filter, or else its own first metric.
        """
        usable, tasks = self.usable(), self.tasks
        right, used = np.full(len(self), ABSENT, np.int8), {}
        for code in np.unique(tasks).tolist():
            own = [name for name, codes in usable.items() if code in codes]
            same = [name for name in own if without_filter(name) == without_filter(metric)]
            if chosen := metric if metric in own else next(iter((*same, *own)), None):
                used[code] = chosen
                right[tasks == code] = self._values(chosen)[tasks == code]
        return right, used

    def _values(self, name: str) -> NDArray[np.int8]:
        values = np.full(len(self), ABSENT, np.int8)
        values[: len(self._right[name])] = self._right[name]  # rows after the last value have none
        return values

    def _shown(self, name: str) -> str:
        """The metric's name, with the first value that is neither right nor wrong."""
        other = next((value for (own, _), value in self._other.items() if own == name), None)
        return name if other is None else f"{name} (row {other[0] + 1}: {reprlib.repr(other[1])})"


def without_filter(name: str) -> str:
    """Name of a metric without its filter."""
    return name.split(",")[0]


def _preference(name: str) -> int:
    return DEFAULTS.index(without_filter(name)) if without_filter(name) in DEFAULTS else len(DEFAULTS)


def _truth(value: Any) -> int | None:
    """1 or 0 if the value is right or wrong; None if it is neither."""
    if isinstance(value, str):
        return _TRUTH.get(value)
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return int(value)
    return None


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
