"""Rows of another tool's log, collected one by one, to a Snapshot.

    log = Log(path, "lm-evaluation-harness")
    row = log.add(task="arc_easy", item_id="17", question=[doc, target], metrics={"acc": 1.0})
    log.add_metrics(row, {"exact_match": 0.0})   the same answer under another metric
    log.snapshot(log.metric(None), meta)         `correct` by the requested metric, or the first

A log may have several metrics, and not each of them is a correctness:

    acc 1.0   acc_norm 0   exact_match,strict-match True      right or wrong
    f1 0.71   partial credit, P       0 to 1: a score, if it is asked for or named as one (`SCORES`)
    f1 [1, 0]   bleu_max 41.1   brier_score "[0.2 0.8]"       neither: asking for one is an error

A metric is a correctness in a task if it is 0 or 1, or false or true, in every row of the task that
has it, and a score if it is from 0 to 1, or on the scale that the `OutcomeRule` names. The part of
a name after a comma is the filter that extracted the answer from the text. A task that lacks the
requested metric uses it with another filter, or else its own first metric, and a note says so. A
row without a value is unscored. Categories are those of `PaperTasks`; where it has none, those that
the log gives.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import reprlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError, did_you_mean, some_of
from forgetwatch.files.json_pieces import Progress
from forgetwatch.grading.outcome_rule import UPPER_HALF, OutcomeRule, number_of
from forgetwatch.loading import LFS
from forgetwatch.metrics.transitions import Bools, Floats
from forgetwatch.probes.categories import PaperTasks
from forgetwatch.probes.harness import CORRECTNESS
from forgetwatch.readers.outcome_columns import is_binary
from forgetwatch.readers.table import clean_scores
from forgetwatch.snapshot import SCHEMA, Snapshot, as_array

ABSENT: Final = -1
"""Value of a missing outcome, next to 1 for right and 0 for wrong."""

SCORES: Final = frozenset(
    (
        "score",
        "f1",
        "em",
        "exact_match",
        "acc",
        "accuracy",
        "mc2",
        "reward",
        "pass_rate",
        "rouge1",
        "rouge2",
        "rougeL",
        "rougeLsum",
        "correctness",
        "success",
        "pass@1",
    )
)
"""Metrics from 0 to 1 of which a higher value is better, whatever the tool."""
# The columns that `Log.add` takes by name; it makes the others itself.
_EXTRA: Final = frozenset(SCHEMA.names) - {
    "item_id",
    "task",
    "content_hash",
    "correct",
    "outcome",
    "sample",
}
# Sorted names, because their order in a document depends on the library that read the data.
_CANONICAL: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode
_TEXTS: Final = ("output", "question")
"""Columns of long texts."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options of one reading, passed from `load_snapshot` to the reader of the format; None for the default of each.

    Attributes:
        metric: The metric that makes `correct`.
        progress: Called with the amount read and the total, in bytes, samples or files.
        questions: Receives the questions of the rows that it names.
        texts: True to keep the text of every question in the snapshot.
        rule: How outcomes between wrong and right are read.
    """

    metric: str | None = None
    progress: Progress | None = None
    questions: QuestionStore | None = None
    texts: bool = False
    rule: OutcomeRule = UPPER_HALF

    def report(self, done: int, total: int) -> None:
        """Report progress, if a callback was given."""
        if self.progress is not None:
            self.progress(done, total)


def refuse_lfs_pointer(path: Path, head: bytes) -> None:
    """Refuse a file whose first bytes are a Git LFS pointer.

    Raises:
        SnapshotError: If they are.
    """
    if head.startswith(LFS):
        raise SnapshotError(
            f"{path}: a Git LFS pointer, not the data; fetch it with `git lfs pull`"
        )


def question_hash(question: object) -> str:
    """Hash JSON values, whatever the order of names.

    First 16 hex digits of SHA-256.

    Raises:
        TypeError, ValueError, RecursionError: If the values are no JSON.
    """
    return hashlib.sha256(_CANONICAL(question).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Log:
    """Rows of one or several files of one run, as columns.

    Attributes:
        tasks: Code of each task, by its name.

    Args:
        path: File or folder of the log; named in errors.
        tool: The tool that wrote it.
        reading: Its `questions` and `texts` say which questions are kept.
    """

    def __init__(self, path: Path, tool: str, reading: Reading = Reading()) -> None:
        self.path = path
        self.tool = tool
        self.tasks: dict[str, int] = {}
        self._reading = reading
        self._task, self._sample = array("i"), array("i")
        self._ids: list[str] = []
        self._hashes: list[str] = []
        self._unnamed: set[int] = set()  # rows of items that the log does not name
        self._unscored: dict[int, str] = {}
        self._extra: dict[str, list[Any]] = {}
        self._metrics: dict[str, array[float]] = {}  # nan where there is none, by metric
        # The first row and value that is no number, by metric and task.
        self._other: dict[tuple[str, int], tuple[int, Any]] = {}

    def __len__(self) -> int:
        return len(self._sample)

    def add(
        self,
        *,
        task: str,
        item_id: str | None,
        question: object,
        metrics: Mapping[str, Any],
        sample: int = 0,
        unscored: str | None = None,
        **columns: Any,
    ) -> int:
        """Add an answer.

        Args:
            task: The benchmark.
            item_id: The item's name in the log; None if it has none, and the hash of its question
                is taken. A name that repeats with another question gets a number; with the same
                question it is the same answer again.
            question: JSON values that define the question, wherever it is in the log; hashed.
            metrics: Metric values of the answer, by name.
            sample: Index of the sample; 0 for single answers.
            unscored: The reason if the answer has no score.
            columns: Values of other columns of a snapshot.

        Returns:
            Its row.

        Raises:
            SnapshotError: If a column is unknown, or the question is no JSON.
        """
        row = len(self)
        try:
            content_hash = question_hash(question)
        except (TypeError, ValueError, RecursionError) as error:
            raise SnapshotError(
                f"{self.path}: the question of item {item_id!r} cannot be read ({error})"
            ) from error
        if self._reading.texts:
            columns["question"] = question_text(question).to_json()
        # A column begins with the first row that has it; the rows before it are null.
        for name in columns:
            if name not in self._extra:
                if name not in _EXTRA:
                    raise SnapshotError(f"{self.path}: a reader gave the unknown column {name!r}")
                self._extra[name] = [None] * row
        if self._reading.questions is not None:
            self._reading.questions.add(content_hash, question)
        self._hashes.append(content_hash)
        self._ids.append(content_hash if item_id is None else item_id)
        if item_id is None:
            self._unnamed.add(row)
        self._task.append(self.tasks.setdefault(task, len(self.tasks)))
        self._sample.append(sample)
        if unscored is not None:
            self._unscored[row] = unscored
        for name, values in self._extra.items():
            value = columns.get(name)
            # Long texts as UTF-8: as Python keeps them, one emoji makes a text four times as large.
            values.append(
                value.encode("utf-8", "replace") if name in _TEXTS and value is not None else value
            )
        self.add_metrics(row, metrics)
        return row

    def add_metrics(self, row: int, metrics: Mapping[str, Any]) -> None:
        """Add metric values of an answer in the log."""
        for name, value in metrics.items():
            values = self._metrics.setdefault(name, array("d"))
            if len(values) <= row:
                values.extend([math.nan] * (row + 1 - len(values)))
            try:
                number = number_of(value)
            except (TypeError, ValueError, OverflowError):
                number = math.inf
            if math.isinf(number):
                self._other.setdefault((name, self._task[row]), (row, value))
            else:
                values[row] = number

    def keys(self, start: int) -> list[tuple[int, tuple[str, str]]]:
        """Keys of each first sample of an item, from row `start` on.

        Returns:
            (row, (item id, content hash)) of each.
        """
        rows = [row for row in range(start, len(self)) if self._sample[row] == 0]
        return [(row, (self._ids[row], self._hashes[row])) for row in rows]

    def samples(self, row: int) -> int:
        """Number of samples of the item with this first sample."""
        # Samples of one item are added one after the other, numbered 0, 1, 2, ...
        end = row + 1
        while end < len(self) and self._sample[end] == end - row:
            end += 1
        return end - row

    @property
    def task_codes(self) -> NDArray[np.int64]:
        """Code of each row's task, int64 [rows]."""
        return np.array(self._task, np.int64)

    def items(self) -> dict[str, int]:
        """Number of items of each task, by name."""
        counts = np.bincount(
            self.task_codes[np.asarray(self._sample) == 0], minlength=len(self.tasks)
        )
        return dict(zip(self.tasks, counts.tolist(), strict=True))

    @property
    def metrics(self) -> dict[str, set[int]]:
        """Codes of the tasks in which each metric is a correctness.

        Metrics of `CORRECTNESS` come first.
        """
        if self._reading.rule.scale != UPPER_HALF.scale:
            return {}
        return self._codes(lambda values: np.isin(values, (0.0, 1.0)))

    @property
    def scores(self) -> dict[str, set[int]]:
        """Codes of the tasks in which each metric is a score on its scale, right or wrong too."""
        low, high = self._reading.rule.scale
        return self._codes(lambda values: (values >= low) & (values <= high))

    def _codes(self, is_outcome: Callable[[Floats], Bools]) -> dict[str, set[int]]:
        tasks, codes_of = self.task_codes, {}
        rank = {name: number for number, name in enumerate(CORRECTNESS)}
        for name in sorted(
            self._metrics, key=lambda name: rank.get(_without_filter(name), len(rank))
        ):
            values = self._values(name)
            is_there = np.isfinite(values)
            others = {code for other, code in self._other if other == name}
            others |= set(tasks[is_there & ~is_outcome(values)].tolist())
            if codes := set(tasks[is_there].tolist()) - others:
                codes_of[name] = codes
        return codes_of

    def _is_score(self, name: str) -> bool:
        # A higher value of it is better, as of whatever a scorer of Inspect gives.
        return self.tool == "inspect" or _without_filter(name) in SCORES

    def metric(self, wanted: str | None) -> str:
        """Full name of the metric that makes `correct`.

        The filter after a comma (``exact_match,strict-match``) may be left out. A metric without a
        filter may be named with ``none``, as the harness's totals name it.

        Raises:
            SnapshotError: If the log has no such metric, or it is no correctness; the message lists
                those that are.
        """
        usable, scores = list(self.metrics), list(self.scores)
        default = next(iter((*usable, *filter(self._is_score, scores))), None)
        if wanted is None and default is not None:
            return default
        if wanted is None:
            names = ", ".join(map(self._shown, self._metrics)) or "none"
            named = f"; --metric takes {', '.join(scores)} as a score" if scores else ""
            ranges = {name: self._values(name) for name in self._metrics}
            ranges = {name: values[np.isfinite(values)] for name, values in ranges.items()}
            name = next((name for name, values in ranges.items() if values.size), "")
            if name and not named:
                low, high = float(ranges[name].min()), float(ranges[name].max())
                named = f"; --scale {low:g},{high:g} if that is the range of {name}"
            raise SnapshotError(
                f"{self.path}: no metric in this log is right or wrong for each item; it has "
                f"{names}{named}"
            )
        usable += [score for score in scores if score not in usable]
        name = wanted.removesuffix(",none")
        if name in usable:
            return name
        if full := next((full for full in usable if _without_filter(full) == name), None):
            return full
        listed = ", ".join(usable) or "none"
        if similar := next(
            (full for full in self._metrics if name in (full, _without_filter(full))), None
        ):
            raise SnapshotError(
                f"{self.path}: {self._shown(similar)} is not right or wrong for each item, nor from "
                f"0 to 1 (--scale); those that are: {listed}"
            )
        hint = did_you_mean(name, usable)
        raise SnapshotError(
            f"{self.path}: no metric {wanted!r} in this log; those that are right or wrong: "
            f"{listed}{hint}"
        )

    def correctness(self, metric: str) -> tuple[NDArray[np.int8], dict[str, str], Floats]:
        """Correctness of each row, the metric used by task, and the score.

        Returns:
            (1 or 0, `ABSENT` if unscored, int8 [rows]; metrics by name of the task; scores from 0 to
            1, nan if unscored, float64 [rows]).
        """
        usable, scores, tasks = self.metrics, self.scores, self.task_codes
        values, used = np.full(len(self), np.nan), {}
        for task, code in self.tasks.items():
            metrics = [name for name, codes in usable.items() if code in codes]
            metrics += [
                name
                for name, codes in scores.items()
                if code in codes
                and name not in metrics
                and (name == metric or self._is_score(name))
            ]
            same = [name for name in metrics if _without_filter(name) == _without_filter(metric)]
            if chosen := metric if metric in metrics else next(iter((*same, *metrics)), None):
                used[task] = chosen
                values[tasks == code] = self._values(chosen)[tasks == code]
        # A stated reason counts, whatever metric values the row has.
        values[list(self._unscored)] = np.nan
        rule = self._reading.rule
        made = rule.scores(values, metric)
        right = np.nan_to_num(rule.is_right(made), nan=ABSENT).astype(np.int8)
        return right, used, made

    def _values(self, metric: str) -> Floats:
        values = np.full(len(self), np.nan)
        of_metric = self._metrics[metric]
        values[: len(of_metric)] = of_metric  # rows after the last value have none
        return values

    def _shown(self, metric: str) -> str:
        # The first value that is neither right nor wrong is shown.
        other = next((value for (name, _), value in self._other.items() if name == metric), None)
        values = self._values(metric)
        if (
            other is None
            and (rows := np.flatnonzero(~np.isin(values, (0, 1)) & ~np.isnan(values))).size
        ):
            other = int(rows[0]), float(values[rows[0]])
        return (
            metric if other is None else f"{metric} (row {other[0] + 1}: {reprlib.repr(other[1])})"
        )

    def snapshot(
        self,
        metric: str,
        meta: Mapping[str, Any],
        notes: tuple[str, ...] = (),
        columns: Mapping[str, Any] | None = None,
    ) -> Snapshot:
        """Build the snapshot whose `correct` is a metric.

        Args:
            metric: Full name of the metric, as `metric` returns it.
            meta: Metadata of the run.
            notes: Notes for the reader of a comparison.
            columns: Whole columns that were not given row by row.

        Raises:
            SnapshotError: If there are no rows, an item has two answers that nothing tells apart,
                or a value is outside its range.
        """
        if not len(self):
            raise SnapshotError(f"{self.path}: the log has no answers")
        right, used, scores = self.correctness(metric)
        task, rule, graded_meta = self.task_codes, self._reading.rule, dict[str, Any]()
        try:
            columns_given: dict[str, Any] = {
                "task": pa.array(list(self.tasks), pa.string()).take(pa.array(task)),
                "content_hash": self._hashes,
                "item_id": self._unique_ids(),
                "sample": pa.array(np.asarray(self._sample)),
                "correct": pa.array(right == 1, mask=right == ABSENT),
                "score": None,
                "outcome": self._outcomes(right, used),
                **self._extra,
                **{
                    name: pa.array(self._extra[name], pa.binary())
                    for name in _TEXTS
                    if name in self._extra
                },
                "category": self._categories(),
                **(columns or {}),
            }
            if not is_binary(scores):
                graded_meta = rule.meta
                columns_given["score"] = pa.array(scores, mask=np.isnan(scores))
            notes = (*self._note_metrics(metric, used), *clean_scores(columns_given), *notes)
            if repeats := self._repeats():
                once = np.full(len(self), True)
                once[repeats] = False
                columns_given = {
                    name: as_array(values, SCHEMA.field(name).type).filter(pa.array(once))
                    for name, values in columns_given.items()
                    if values is not None
                }
                notes = (
                    *notes,
                    f"answers that stand in the log twice and count once: {len(repeats):,}",
                )
            # Named by task only if a task uses another metric: most logs have one metric for all.
            by_task = {} if set(used.values()) <= {metric} else {"metrics": used}
            described = {
                "source": str(self.path),
                "tool": self.tool,
                "metric": metric,
                **by_task,
                **graded_meta,
                **meta,
            }
            return Snapshot.from_columns(columns_given, described, notes)
        except (SnapshotError, UnicodeEncodeError) as error:
            raise SnapshotError(f"{self.path}: {error}") from error

    def _repeats(self) -> list[int]:
        # A repeated row has the item, question, sample and answer of an earlier row.
        if len(set(self._ids)) == len(self._ids):
            return []
        keys = zip(self._task, self._ids, self._sample, self._hashes, strict=True)
        first_rows: dict[tuple[int, str, int, str], int] = {}
        pairs = [
            (earlier, row)
            for row, key in enumerate(keys)
            if row not in self._unnamed and (earlier := first_rows.setdefault(key, row)) != row
        ]
        if unlike := [
            (earlier, row) for earlier, row in pairs if self._answer(earlier) != self._answer(row)
        ]:
            one, row = unlike[0]
            raise SnapshotError(
                f"item {self._ids[row]!r} has two answers, in rows {one + 1:,} and {row + 1:,} "
                "of the log, and "
                f"nothing tells them apart; remove one of them (such items: {len(unlike):,})"
            )
        return [row for _, row in pairs]

    def _answer(self, row: int) -> tuple[object, ...]:
        values = (
            str(of_metric[row]) if row < len(of_metric) else ""
            for of_metric in self._metrics.values()
        )
        return (
            *values,
            self._unscored.get(row),
            self._extra["output"][row] if "output" in self._extra else None,
        )

    def _outcomes(self, right: NDArray[np.int8], used: Mapping[str, str]) -> pa.Array:
        outcome, tasks = np.full(len(self), "ok", object), self.task_codes
        for name, code in self.tasks.items():
            lacking = (
                f"no {used[name]} in the log"
                if name in used
                else "no metric of the task is right or wrong"
            )
            outcome[(tasks == code) & (right == ABSENT)] = f"unscored: {lacking}"
        for row, reason in self._unscored.items():
            outcome[row] = f"unscored: {reason}"
        return pa.array(outcome, pa.string())

    def _note_metrics(self, metric: str, used: Mapping[str, str]) -> tuple[str, ...]:
        notes = []
        if unused := [name for name in self.metrics if name not in used.values()]:
            notes.append(f"right or wrong is {metric}; also there: {', '.join(unused)} (--metric)")
        for name in dict.fromkeys(used.values()):
            if name != metric:
                tasks = [task for task, used_name in used.items() if used_name == name]
                notes.append(
                    f"right or wrong is {name} where there is no {metric}: {some_of(tasks, 3)}"
                )
        return tuple(notes)

    def _categories(self) -> list[str]:
        paper_tasks = PaperTasks.released()
        by_code = [paper_tasks.category(name) for name in self.tasks]
        categories = self._extra.get("category") or [None] * len(self)
        return [
            by_code[code] or category or ""
            for code, category in zip(self.task_codes.tolist(), categories, strict=True)
        ]

    def _unique_ids(self) -> list[str]:
        # An id that repeats within a task and sample gets a number: "7", "7#2".
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
            # The log may use "7#2" as an id of its own.
            while number > 1 and ((name := f"{item_id}#{number}"), task, sample) in taken:
                number += 1
            times[item_id, task, sample] = number
            taken.add((name, task, sample))
            ids.append(name)
        return ids


def _without_filter(metric: str) -> str:
    return metric.split(",")[0]


_PARTS: Final = frozenset(("prompt", "choices", "answers"))


@dataclass(frozen=True, kw_only=True)
class QuestionText:
    """One question as text."""

    prompt: str
    choices: tuple[str, ...] = ()  # empty for an open answer
    answers: tuple[str, ...] = ()  # right answers of an open answer, as far as they are known

    def to_json(self) -> str:
        """The text as in a snapshot's column `question`."""
        return json.dumps(
            {name: value for name, value in vars(self).items() if value}, ensure_ascii=False
        )

    @classmethod
    def from_column(cls, text: str) -> QuestionText:
        """Read a question from a snapshot's column.

        As `to_json` writes; any other text is the prompt.
        """
        try:
            document = json.loads(text)
        except ValueError:
            document = None
        if (
            not isinstance(document, dict)
            or not isinstance(document.get("prompt"), str)
            or not set(document) <= _PARTS
        ):
            return cls(prompt=text)
        choices, answers = (
            tuple(map(str, document.get(name) or ())) for name in ("choices", "answers")
        )
        return cls(prompt=document["prompt"], choices=choices, answers=answers)


class QuestionStore:
    """The questions of the rows with these content hashes, filled while the log is read."""

    def __init__(self, hashes: Iterable[str]) -> None:
        self.texts: dict[str, QuestionText] = {}  # those found so far, by content hash
        self._hashes = frozenset(hashes)

    def add(self, content_hash: str, question: Any) -> None:
        """Keep a logged question if the hash is wanted.

        The first question of a hash counts.
        """
        if content_hash in self._hashes and content_hash not in self.texts:
            self.texts[content_hash] = question_text(question)


_DATED: Final = re.compile(
    r"(?:samples|details)_(.+)_(\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?)\.(?:jsonl?|parquet)"
)
"""Names of the files of a task: lm-evaluation-harness has samples, lighteval details."""


def task_and_date(path: Path) -> tuple[str, str]:
    """Task and date in the name of a task's file.

    Returns:
        Both empty for another name, so that renamed files pair.
    """
    match = _DATED.fullmatch(path.name)
    return (match[1], match[2]) if match else ("", "")


# Shown in this order: a document may have both a question and a longer field that is no question.
_PROMPTS: Final = (
    "passage",
    "context",
    "question",
    "query",
    "prompt",
    "input",
    "ctx",
    "problem",
    "sentence",
    "goal",
    "text",
    "instruction",
)
_CHOICE_FIELDS: Final = ("choices", "options", "endings", "answers", "mc1_targets")


def question_text(question: Any) -> QuestionText:
    """Text of a logged question.

    The question is a text or document; or a list of question, right answers, and any options.

    >>> question_text([{"id": 7, "question": "Capital of Chile?", "choices": {"text": ["Lima", "Santiago"]}}, "1"])
    QuestionText(prompt='Capital of Chile?', choices=('Lima', 'Santiago'), answers=('1',))
    """
    parts = list(question) if isinstance(question, (list, tuple)) else [question]
    document, rest = (parts[0], parts[1:]) if parts else ("", [])
    answers = tuple(map(str, _as_list(rest[0]))) if rest else ()
    choices = (
        tuple(map(str, _as_list(rest[1]))) if len(rest) > 1 and rest[1] else _choices(document)
    )
    return QuestionText(prompt=_prompt(document), choices=choices, answers=answers)


def _prompt(document: Any) -> str:
    if isinstance(document, str):
        return document
    if isinstance(document, Mapping):
        texts = {
            name: text for name, text in document.items() if isinstance(text, str) and text.strip()
        }
        parts = [texts[name] for name in _PROMPTS if name in texts]
        if not parts and texts:
            parts = [
                max(texts.values(), key=len)
            ]  # no known field: the longest text is the likeliest question
        return "\n\n".join(parts) or json.dumps(document, ensure_ascii=False, indent=1, default=str)
    if (
        isinstance(document, list)
        and document
        and all(isinstance(message, Mapping) and "content" in message for message in document)
    ):
        return "\n\n".join(
            f"{message.get('role', '')}: {_prompt(message['content'])}" for message in document
        )
    return json.dumps(document, ensure_ascii=False, default=str)


def _choices(document: Any) -> tuple[str, ...]:
    if not isinstance(document, Mapping):
        return ()
    for name in _CHOICE_FIELDS:
        value = document.get(name)
        if isinstance(value, Mapping):  # ARC and TruthfulQA keep texts and labels side by side
            value = value.get("text") or value.get("choices")
        if isinstance(value, list) and value and all(isinstance(text, str) for text in value):
            return tuple(value)
    return ()


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]
