"""Rows of another tool's log, gathered one by one, to a Snapshot.

    log = Log(path, "lm-evaluation-harness")
    row = log.add(task="arc_easy", item_id="17", question=[doc, target], metrics={"acc": 1.0, "acc_norm": 0.0})
    log.note(row, {"exact_match": 0.0})          the same answer, judged in another way
    log.snapshot(log.metric(None), meta)         `correct` by the metric asked for, or by the first of DEFAULTS

A log judges an answer in several ways (`judgements.py`). A task that lacks the metric is judged by its own first one,
and a note says so. A row without the metric is unscored. Categories are those of `PaperTasks`, where the tool has none.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError
from forgetwatch.probes.paper_tasks import PaperTasks
from forgetwatch.readers.judgements import ABSENT, Judgements
from forgetwatch.readers.question_text import Kept
from forgetwatch.snapshot import SCHEMA, Snapshot

_GIVEN: Final = frozenset(SCHEMA.names) - {"item_id", "task", "content_hash", "correct", "outcome", "sample"}
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def question_hash(question: object) -> str:
    """First 16 hex digits of SHA-256 over JSON values; the order of names makes no difference.

    Raises:
        TypeError, ValueError, RecursionError: If they are no JSON.
    """
    return hashlib.sha256(_CANONICAL(question).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Log:
    """Rows of one or several files of one run, as columns.

    Args:
        path: What is read; named in errors.
        tool: What wrote it.
        kept: Keeps some of the questions.
    """

    def __init__(self, path: Path, tool: str, kept: Kept | None = None) -> None:
        self.path = path
        self.tool = tool
        self.tasks: dict[str, int] = {}
        self._kept = kept
        self._sample = array("i")
        self._ids: list[str] = []
        self._hashes: list[str] = []
        self._unscored: dict[int, str] = {}
        self._extra: dict[str, list[Any]] = {}
        self._judged = Judgements(path)

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
        try:
            hashed = question_hash(question)
        except (TypeError, ValueError, RecursionError) as error:
            raise SnapshotError(f"{self.path}: the question of item {item_id!r} cannot be read ({error})") from error
        for name in columns:
            if name not in self._extra:
                if name not in _GIVEN:
                    raise SnapshotError(f"{self.path}: a reader gave the unknown column {name!r}")
                self._extra[name] = [None] * row
        if self._kept is not None:
            self._kept.see(hashed, question)
        self._hashes.append(hashed)
        self._ids.append(item_id)
        self._judged.add_row(self.tasks.setdefault(task, len(self.tasks)))
        self._sample.append(sample)
        if unscored is not None:
            self._unscored[row] = unscored
        for name, values in self._extra.items():
            value = columns.get(name)
            # Long texts as UTF-8: as Python keeps them, one emoji makes a text four times as large.
            values.append(value.encode("utf-8", "replace") if name == "output" and value is not None else value)
        self._judged.note(row, metrics)
        return row

    def note(self, row: int, metrics: Mapping[str, Any]) -> None:
        """Add judgements of an answer that is there already."""
        self._judged.note(row, metrics)

    def keys(self, start: int) -> list[tuple[int, tuple[str, str]]]:
        """Each row from `start` on that is the first sample of its item, with the item's id and content hash."""
        rows = [row for row in range(start, len(self)) if self._sample[row] == 0]
        return [(row, (self._ids[row], self._hashes[row])) for row in rows]

    def samples(self, row: int) -> int:
        """The number of samples of the item whose first sample stands in this row."""
        end = row + 1
        while end < len(self) and self._sample[end] == end - row:
            end += 1
        return end - row

    @property
    def task_codes(self) -> NDArray[np.int64]:
        """The number of each row's task among `tasks`, int64 [rows]."""
        return self._judged.tasks

    def items(self) -> dict[str, int]:
        """The number of items of each task."""
        counts = np.bincount(self.task_codes[np.asarray(self._sample) == 0], minlength=len(self.tasks))
        return dict(zip(self.tasks, counts.tolist(), strict=True))

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that are a correctness in some task, in the order of `DEFAULTS`, then as they came."""
        return tuple(self._judged.usable())

    def metric(self, wanted: str | None) -> str:
        """The metric that makes `correct`: the one that was asked for, or the stated default.

        A name with a filter behind a comma (``exact_match,strict-match``) may be asked for without it, and one without
        may be asked for with ``none``, as results name it.

        Raises:
            SnapshotError: If there is none, or it is no correctness; what there is stands in the message.
        """
        return self._judged.choose(wanted)

    def judged(self, metric: str) -> tuple[NDArray[np.int8], dict[str, str]]:
        """1 or 0 for each row, `ABSENT` where it is not judged, int8 [rows]; and what judged each task."""
        right, used = self._judged.of_rows(metric)
        right[list(self._unscored)] = ABSENT
        return right, {name: used[code] for name, code in self.tasks.items() if code in used}

    def snapshot(
        self,
        metric: str,
        meta: Mapping[str, Any],
        notes: tuple[str, ...] = (),
        columns: Mapping[str, Any] | None = None,
    ) -> Snapshot:
        """The rows as a snapshot whose `correct` is that metric.

        Args:
            metric: What `metric` gave.
            meta: What is known of the run.
            notes: What the reader of the comparison should be told.
            columns: Whole columns, where they were not given row by row.

        Raises:
            SnapshotError: If there are no rows, or a value is outside its range.
        """
        if not len(self):
            raise SnapshotError(f"{self.path}: the log has no answers")
        right, used = self.judged(metric)
        task = self.task_codes
        try:
            given = {
                "task": pa.array(list(self.tasks), pa.string()).take(pa.array(task)),
                "content_hash": self._hashes,
                "item_id": self._unique_ids(),
                "sample": pa.array(np.asarray(self._sample)),
                "correct": pa.array(right == 1, mask=right == ABSENT),
                "outcome": self._outcomes(right, used),
                **self._extra,
                **({"output": pa.array(self._extra["output"], pa.binary())} if "output" in self._extra else {}),
                "category": self._categories(),
                **(columns or {}),
            }
            notes = (*self._note_metrics(metric, used), *notes)
            by_task = {} if set(used.values()) <= {metric} else {"metrics": used}
            described = {"source": str(self.path), "tool": self.tool, "metric": metric, **by_task, **meta}
            return Snapshot.from_columns(given, described, notes)
        except (SnapshotError, UnicodeEncodeError) as error:
            raise SnapshotError(f"{self.path}: {error}") from error

    def _outcomes(self, right: NDArray[np.int8], used: Mapping[str, str]) -> pa.Array:
        outcome, tasks = np.full(len(self), "ok", object), self.task_codes
        for name, code in self.tasks.items():
            lacking = f"no {used[name]} in the log" if name in used else "no metric of the task is right or wrong"
            outcome[(tasks == code) & (right == ABSENT)] = f"unscored: {lacking}"
        for row, reason in self._unscored.items():
            outcome[row] = f"unscored: {reason}"
        return pa.array(outcome, pa.string())

    def _note_metrics(self, metric: str, used: Mapping[str, str]) -> tuple[str, ...]:
        notes = []
        if others := [name for name in self.metrics if name not in used.values()]:
            notes.append(f"right or wrong is {metric}; also there: {', '.join(others)} (--metric)")
        by_other: dict[str, list[str]] = {}
        for task, name in used.items():
            if name != metric:
                by_other.setdefault(name, []).append(task)
        for name, tasks in by_other.items():
            notes.append(f"right or wrong is {name} where there is no {metric}: {_some(tasks)}")
        return tuple(notes)

    def _categories(self) -> list[str]:
        known = PaperTasks.released()
        by_code = [known.category(name) for name in self.tasks]
        given = self._extra.get("category") or [None] * len(self)
        return [
            by_code[code] if own is None else own for code, own in zip(self.task_codes.tolist(), given, strict=True)
        ]

    def _unique_ids(self) -> list[str]:
        """The ids, with a number behind those that repeat within a task and sample."""
        if len(set(self._ids)) == len(self._ids):
            return self._ids
        keys = list(zip(self._ids, self.task_codes.tolist(), self._sample, strict=True))
        taken = set(keys)
        if len(taken) == len(keys):
            return self._ids
        times, ids = Counter[tuple[str, int, int]](), []
        for item_id, task, sample in keys:
            times[item_id, task, sample] += 1
            number, name = times[item_id, task, sample], item_id
            while number > 1 and ((name := f"{item_id}#{number}"), task, sample) in taken:
                number += 1
            times[item_id, task, sample] = number
            taken.add((name, task, sample))
            ids.append(name)
        return ids


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
