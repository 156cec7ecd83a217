"""Rows of another tool's log, gathered one by one, to a Snapshot.

    log = Log(path, "lm-evaluation-harness")
    row = log.add(task="arc_easy", item_id="17", question=[doc, target], metrics={"acc": 1.0, "acc_norm": 0.0})
    log.note(row, {"exact_match": 0.0})          the same answer, judged in another way
    log.snapshot(log.metric(None), meta)         `correct` by the metric asked for, or by the first of DEFAULTS

A log judges an answer in several ways. A metric is a correctness where it is 0 or 1 (or false or true) in every row
that has it; a share, a score or a list is not, and asking for one is an error that shows a value. A row without the
metric is unscored.
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from forgetwatch.errors import SnapshotError
from forgetwatch.snapshot import SCHEMA, Snapshot

DEFAULTS: Final = (
    *("acc", "exact_match", "em", "acc_norm", "acc_bytes", "prompt_level_strict_acc", "prompt_level_loose_acc"),
    *("pass@1", "extractive_match", "quasi_exact_match", "mc1", "loglikelihood_acc", "bleu_acc", "rouge1_acc"),
)
"""Which metric makes `correct` where none is named: the first of these that the log has, else the first that it has."""

_ABSENT: Final = -1
_OWN: Final = frozenset({"item_id", "task", "content_hash", "correct", "outcome", "sample"})


class Log:
    """Rows of one or several files of one run, as columns.

    Args:
        path: What is read; named in errors.
        tool: What wrote it.
    """

    def __init__(self, path: Path, tool: str) -> None:
        self.path = path
        self.tool = tool
        self._columns: dict[str, list[Any]] = {name: [] for name in ("item_id", "task", "content_hash", "unscored")}
        self._sample = array("i")
        self._extra: dict[str, list[Any]] = {}
        self._right: dict[str, array[int]] = {}
        self._unlike: dict[str, tuple[int, Any]] = {}

    def __len__(self) -> int:
        return len(self._sample)

    def add(
        self,
        *,
        task: str,
        item_id: str,
        question: object,
        metrics: Mapping[str, Any],
        sample: int = 0,
        unscored: str | None = None,
        **columns: Any,
    ) -> int:
        """Add one answer; its row.

        Args:
            task: The benchmark.
            item_id: The item's name in the log; one that repeats gets a number.
            question: JSON values that define the question, whatever its place; hashed.
            metrics: Everything that judges the answer, by name.
            sample: 0 for single answers.
            unscored: Why the answer cannot be judged, if so.
            columns: Other columns of a snapshot.

        Raises:
            SnapshotError: If a column is unknown, or the question is no JSON.
        """
        row = len(self)
        if unknown := set(columns) - (set(SCHEMA.names) - _OWN):
            raise SnapshotError(f"{self.path}: a reader gave the unknown column {min(unknown)!r}")
        own = {"item_id": item_id, "task": task, "content_hash": self._hash(question), "unscored": unscored}
        for name, value in own.items():
            self._columns[name].append(value)
        self._sample.append(sample)
        for name in columns.keys() - self._extra.keys():
            self._extra[name] = [None] * row
        for name, values in self._extra.items():
            values.append(columns.get(name))
        self.note(row, metrics)
        return row

    def note(self, row: int, metrics: Mapping[str, Any]) -> None:
        """Add judgements of an answer that is there already."""
        for name, value in metrics.items():
            right = self._right.setdefault(name, array("b"))
            if len(right) <= row:
                right.extend([_ABSENT] * (row + 1 - len(right)))
            if (found := _truth(value)) is not None:
                right[row] = found
            elif not _is_nothing(value):
                self._unlike.setdefault(name, (row, value))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that are a correctness, in the order of `DEFAULTS`, then as they came."""
        there = [name for name, right in self._right.items() if name not in self._unlike and max(right) >= 0]
        return tuple(sorted(there, key=lambda name: _place(name)))

    def metric(self, wanted: str | None) -> str:
        """The metric that makes `correct`: the one that was asked for, or the stated default.

        A name with a filter behind a comma (``exact_match,strict-match``) may be asked for without it.

        Raises:
            SnapshotError: If there is none, or it is no correctness; what there is stands in the message.
        """
        usable = self.metrics
        listed = ", ".join(usable) or "none"
        if wanted is None:
            if usable:
                return usable[0]
            raise SnapshotError(
                f"{self.path}: no metric in this log is right or wrong for each item; it has "
                f"{', '.join(map(self._shown, self._right)) or 'none'}"
            )
        if found := next((name for name in usable if wanted in (name, name.split(",")[0])), None):
            return found
        if unlike := next((name for name in self._unlike if wanted in (name, name.split(",")[0])), None):
            raise SnapshotError(
                f"{self.path}: {self._shown(unlike)} is not right or wrong for each item; those that are: {listed}"
            )
        raise SnapshotError(f"{self.path}: no metric {wanted!r} in this log; those that are right or wrong: {listed}")

    def snapshot(self, metric: str, meta: Mapping[str, Any], notes: tuple[str, ...] = ()) -> Snapshot:
        """The rows as a snapshot whose `correct` is that metric.

        Raises:
            SnapshotError: If there are no rows, or a value is outside its range.
        """
        if not len(self):
            raise SnapshotError(f"{self.path}: the log has no answers")
        right = self._right[metric]
        right.extend([_ABSENT] * (len(self) - len(right)))
        reasons = self._columns["unscored"]
        correct = [None if reasons[row] or value == _ABSENT else bool(value) for row, value in enumerate(right)]
        outcome = [
            "ok" if is_right is not None else f"unscored: {reason or f'no {metric} in the log'}"
            for is_right, reason in zip(correct, reasons, strict=True)
        ]
        columns = {name: self._columns[name] for name in ("task", "content_hash")} | {
            "item_id": self._unique_ids(),
            "sample": pa.array(self._sample, pa.int32()),
            "correct": correct,
            "outcome": outcome,
            **self._extra,
        }
        if others := [name for name in self.metrics if name != metric]:
            notes = (f"right or wrong is {metric}; also there: {', '.join(others)} (--metric)", *notes)
        try:
            return Snapshot.from_columns(
                columns, {"source": str(self.path), "tool": self.tool, "metric": metric, **meta}, notes
            )
        except SnapshotError as error:
            raise SnapshotError(f"{self.path}: {error}") from error

    def _hash(self, question: object) -> str:
        try:
            text = json.dumps(question, sort_keys=True, ensure_ascii=False)
            return hashlib.sha256(text.encode()).hexdigest()[:16]
        except (TypeError, ValueError, RecursionError) as error:
            raise SnapshotError(f"{self.path}: a question of the log cannot be read ({error})") from error

    def _unique_ids(self) -> list[str]:
        """The ids, with a number behind those that repeat within a task and sample."""
        seen: Counter[tuple[str, str, int]] = Counter()
        ids = []
        for item_id, task, sample in zip(self._columns["item_id"], self._columns["task"], self._sample, strict=True):
            seen[item_id, task, sample] += 1
            times = seen[item_id, task, sample]
            ids.append(item_id if times == 1 else f"{item_id}#{times}")
        return ids

    def _shown(self, name: str) -> str:
        if name not in self._unlike:
            return name
        row, value = self._unlike[name]
        text = repr(value)
        return f"{name} (row {row + 1}: {text if len(text) <= 40 else text[:40] + '...'})"


def _place(name: str) -> int:
    bare = name.split(",")[0]
    return DEFAULTS.index(bare) if bare in DEFAULTS else len(DEFAULTS)


def _truth(value: Any) -> int | None:
    """1 or 0 where the value says right or wrong."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, (int, float)) and value in (0, 1):
        return int(value)
    return None


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
