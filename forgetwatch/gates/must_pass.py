"""Items that must be right after, whatever they were before.

right in every answer        PASS
wrong in any                 FAIL
unscored, and none wrong     INCONCLUSIVE: nobody knows
not there                    an error
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from forgetwatch.errors import GateError
from forgetwatch.gates.finding import Finding, worst
from forgetwatch.probe import Probe
from forgetwatch.report.verdict import Word
from forgetwatch.snapshot import Snapshot

_NAMED: Final = 5
"""Items of a verdict that are named."""


@dataclass(frozen=True, kw_only=True)
class MustPass:
    """Items that must be right.

    Attributes:
        items: Task and id of each; no task where the id alone says which.
    """

    items: tuple[tuple[str | None, str], ...]

    @classmethod
    def tagged(cls, probe: Probe) -> MustPass:
        """The items of a probe that are marked ``must_pass``.

        Raises:
            GateError: If none is.
        """
        items = tuple((item.task, item.id) for item in probe if item.must_pass)
        if not items:
            raise GateError(f"must_pass: true, and no item of the probe {probe.name!r} is marked must_pass")
        return cls(items=items)

    def judge(self, after: Snapshot) -> Finding:
        """What became of the items, all in one finding.

        Raises:
            GateError: If an item is not there, or an id stands in several tasks and none is named.
        """
        correct = after.floats("correct")
        rows = _rows_by_id(after)
        states: dict[Word, list[str]] = {"PASS": [], "FAIL": [], "INCONCLUSIVE": []}
        for task, item_id in self.items:
            answers = correct[_rows_of(rows, after, task, item_id)]
            unscored: Word = "INCONCLUSIVE" if np.isnan(answers).any() else "PASS"
            states["FAIL" if (answers == 0).any() else unscored].append(item_id)
        measured = f"{len(states['PASS']):,} of {len(self.items):,} right"
        measured += _named("wrong", states["FAIL"]) + _named("unscored", states["INCONCLUSIVE"])
        return Finding(
            what="must_pass",
            measured=measured,
            limit="each right in every answer",
            verdict=worst(word for word, items in states.items() if items),
        )


def _rows_by_id(after: Snapshot) -> dict[str, dict[str, list[int]]]:
    """The rows of each task, by item id."""
    rows: dict[str, dict[str, list[int]]] = {}
    for row, (task, item_id) in enumerate(zip(after.texts("task"), after.texts("item_id"), strict=True)):
        rows.setdefault(item_id, {}).setdefault(task, []).append(row)
    return rows


def _rows_of(rows: dict[str, dict[str, list[int]]], after: Snapshot, task: str | None, item_id: str) -> list[int]:
    tasks = rows.get(item_id, {})
    if task is None and len(tasks) > 1:
        raise GateError(
            f"must_pass: item {item_id!r} stands in {len(tasks)} tasks of {after.label} "
            f"({', '.join(sorted(tasks)[:5])}); "
            "name the task: must_pass: {TASK: [ID, ...]}"
        )
    found = [of for name, of in tasks.items() if task in (None, name)]
    if not found:
        where = "" if task is None else f" of task {task!r}"
        raise GateError(
            f"must_pass: item {item_id!r}{where} is not among the items of {after.label}; "
            f"its ids are such as {', '.join(repr(one) for one in list(rows)[:3])}"
        )
    return found[0]


def _named(state: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    more = f" and {len(items) - _NAMED:,} more" if len(items) > _NAMED else ""
    return f"; {state}: {', '.join(items[:_NAMED])}{more}"
