"""How a log judges its answers: by several metrics, of which some say right or wrong.

    acc 1.0   acc_norm 0   exact_match,strict-match True      right or wrong
    f1 [1, 0]   bleu_max 41.1   brier_score "[0.2 0.8]"       not: asking for one is an error that shows a value

A metric is a correctness in a task where it is 0 or 1, or false or true, in every row that has it. Behind a comma
stands the filter that took the answer out of the text.
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

from forgetwatch.errors import SnapshotError

DEFAULTS: Final = (
    *("acc", "exact_match", "em", "acc_norm", "acc_bytes", "prompt_level_strict_acc", "prompt_level_loose_acc"),
    *("pass@1", "extractive_match", "quasi_exact_match", "mc1", "loglikelihood_acc", "bleu_acc", "rouge1_acc"),
)
"""Which metric makes `correct` where none is named: the first of these that the log has, else the first that it has."""

ABSENT: Final = -1
"""Stands for "not judged" where 1 is right and 0 is wrong."""

_TRUTH: Final = {"True": 1, "true": 1, "1": 1, "1.0": 1, "False": 0, "false": 0, "0": 0, "0.0": 0}


class Judgements:
    """The metrics of a log, row by row.

    Args:
        path: What is read; named in errors.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._task = array("i")
        self._right: dict[str, array[int]] = {}
        self._unlike: dict[tuple[str, int], tuple[int, Any]] = {}

    def __len__(self) -> int:
        return len(self._task)

    def add_row(self, task: int) -> None:
        """One more row, of the task with this number."""
        self._task.append(task)

    def note(self, row: int, metrics: Mapping[str, Any]) -> None:
        """Add judgements of a row."""
        for name, value in metrics.items():
            right = self._right.get(name)
            if right is None:
                right = self._right[name] = array("b")
            if len(right) <= row:
                right.extend([ABSENT] * (row + 1 - len(right)))
            if (found := _truth(value)) is not None:
                right[row] = found
            elif not _is_nothing(value):
                self._unlike.setdefault((name, self._task[row]), (row, value))

    @property
    def tasks(self) -> NDArray[np.int64]:
        """The number of each row's task, int64 [rows]."""
        return np.array(self._task, np.int64)

    def usable(self) -> dict[str, set[int]]:
        """The metrics by preference, each with the numbers of the tasks in which it is a correctness."""
        tasks, found = self.tasks, {}
        for name in sorted(self._right, key=_place):
            with_values = np.unique(tasks[self._values(name) != ABSENT]).tolist()
            if codes := {code for code in with_values if (name, code) not in self._unlike}:
                found[name] = codes
        return found

    def choose(self, wanted: str | None) -> str:
        """The metric that was asked for, with its filter; or the first by preference.

        Raises:
            SnapshotError: If there is none, or it is no correctness; what there is stands in the message.
        """
        usable = list(self.usable())
        if wanted is None and usable:
            return usable[0]
        if wanted is None:
            there = ", ".join(map(self._shown, self._right)) or "none"
            raise SnapshotError(f"{self._path}: no metric in this log is right or wrong for each item; it has {there}")
        asked = wanted.removesuffix(",none")
        if asked in usable:
            return asked
        if found := next((name for name in usable if bare(name) == asked), None):
            return found
        listed = ", ".join(usable) or "none"
        if unlike := next((name for name, _ in self._unlike if asked in (name, bare(name))), None):
            raise SnapshotError(
                f"{self._path}: {self._shown(unlike)} is not right or wrong for each item; those that are: {listed}"
            )
        raise SnapshotError(f"{self._path}: no metric {wanted!r} in this log; those that are right or wrong: {listed}")

    def of_rows(self, metric: str) -> tuple[NDArray[np.int8], dict[int, str]]:
        """1, 0 or `ABSENT` for each row, int8 [rows]; and what judged each task: the metric, or its own first one."""
        usable, tasks = self.usable(), self.tasks
        right, used = np.full(len(self), ABSENT, np.int8), {}
        for code in np.unique(tasks).tolist():
            own = [name for name, codes in usable.items() if code in codes]
            same = [name for name in own if bare(name) == bare(metric)]
            if chosen := metric if metric in own else next(iter((*same, *own)), None):
                used[code] = chosen
                right[tasks == code] = self._values(chosen)[tasks == code]
        return right, used

    def _values(self, name: str) -> NDArray[np.int8]:
        values = np.full(len(self), ABSENT, np.int8)
        values[: len(self._right[name])] = self._right[name]
        return values

    def _shown(self, name: str) -> str:
        found = next((value for (own, _), value in self._unlike.items() if own == name), None)
        return name if found is None else f"{name} (row {found[0] + 1}: {reprlib.repr(found[1])})"


def bare(name: str) -> str:
    """A metric's name without its filter."""
    return name.split(",")[0]


def _place(name: str) -> int:
    return DEFAULTS.index(bare(name)) if bare(name) in DEFAULTS else len(DEFAULTS)


def _truth(value: Any) -> int | None:
    """1 or 0 where the value says right or wrong."""
    if isinstance(value, str):
        return _TRUTH.get(value)
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return int(value)
    return None


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
