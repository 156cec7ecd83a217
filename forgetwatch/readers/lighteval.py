"""lighteval's details, one Parquet file a task or a folder of them, to a Snapshot.

    details/<model>/<date>/details_<task>|<fewshot>_<date>.parquet

    from 0.11    doc {query, choices, gold_index, id, task_name, ...}  metric {acc: 1}   model_response {text, logprobs}
    up to 0.10   example, full_prompt, choices, gold_index, gold       metrics {acc: 1}  predictions

A folder contains the details of one model, and the files of its latest date are one snapshot.
`correct` is a metric that is 0 or 1 for every question; pass@k and avg@n of several samples are
shares, and no correctness.

In the older schema `predictions` contains a text, a log-likelihood for each option, or pairs of a
log-likelihood and a flag; there is no id, so a hash of the question is used as one. A task with
log-likelihood and generative metrics logs each question once for each kind, with null for the
metrics of the other: `merge_halves` makes one answer of the two.

The option chosen and the norm of the score that decides (`metrics.choices`) are not logged. The
norm of each task is inferred: of the sum, the sum per character (with or without the leading space)
and the sum minus the prior, it is the one whose best options agree with the logged correctness most
often. If none does, the choices of the task are unknown.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError, some_of
from forgetwatch.files.reading import file_errors
from forgetwatch.files.table_files import parquet_batches
from forgetwatch.readers.log import Log, Reading, refuse_lfs_pointer, task_and_date
from forgetwatch.readers.mapping import parquet_schema
from forgetwatch.readers.option_scores import LogLikelihoods, byte_length, norms_in_metadata
from forgetwatch.snapshot import Snapshot

_NEW: Final = ("doc", "metric", "model_response")
_OLD: Final = ("example", "full_prompt", "choices", "gold_index", "gold", "metrics", "predictions")

_COLUMNS: Final = (
    *(f"doc.{name}" for name in ("query", "choices", "gold_index", "id", "task_name")),
    *(
        f"model_response.{name}"
        for name in ("input", "input_tokens", "text", "logprobs", "unconditioned_logprobs")
    ),
    *("metric", *_OLD),
)
"""The columns that are read; the few-shot examples and the tokens of the answers are large and not needed."""
_BATCH: Final = 256  # rows; a row may hold the tokens of a long prompt

_NORMS: Final = ("sum", "chars_with_space", "chars", "unconditional")
"""Norms that lighteval offers, the commonest first; for a metric with "norm" in its name the sum comes last."""


def recognises(path: Path) -> bool:
    """Does a file or folder have the columns of details?

    Old or new; files in a folder may be at any depth.
    """
    if path.is_dir():
        return bool(_named(path))
    if (schema := parquet_schema(path)) is None:
        return False
    names = set(schema.names)
    return (names >= set(_NEW) and pa.types.is_struct(schema.field("doc").type)) or names >= set(
        _OLD
    )


def _named(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("details_*.parquet") if task_and_date(path)[0])


def read(path: Path, reading: Reading) -> Snapshot:
    """Read the outcomes in details, of a folder the latest.

    Progress is in files.
    """
    files, notes = _latest(path) if path.is_dir() else ([path], ())
    log, answers = Log(path, "lighteval", reading), list[Answer]()
    for number, file in enumerate(files, start=1):
        for answer in merge_halves(_answers(file)):
            _add(log, answer, task_and_date(file)[0])
            answers.append(replace(answer, question=(), text=None))  # the log has these already
        reading.report(number, len(files))
    model = _model(files[0])
    snapshot = log.snapshot(
        log.metric(reading.metric), {} if model is None else {"model": model}, notes
    )
    return _with_choices(snapshot, answers, log)


def _latest(folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    # The latest date of the folder counts; a note names the files left out.
    if not (paths := _named(folder)):
        raise SnapshotError(
            f"{folder}: needed details_<task>_<date>.parquet files of lighteval, found none"
        )
    if len(models := sorted({str(_model(path)) for path in paths})) > 1:
        raise SnapshotError(
            f"{folder}: details of {len(models)} models ({some_of(models, 3)}); name the folder "
            "of one of them"
        )
    dates = [task_and_date(path)[1] for path in paths]
    date, older = max(dates), len(set(dates)) - 1  # ISO dates sort as text
    latest = [path for path, date_of in zip(paths, dates, strict=True) if date_of == date]
    return latest, (f"the run of {date}; {older} older in this folder left out",) if older else ()


def _answers(path: Path) -> Iterator[Answer]:
    # A row that is not what lighteval writes is a SnapshotError.
    with file_errors(path, "details of lighteval in Parquet"):
        with path.open("rb") as file:
            refuse_lfs_pointer(path, file.read(64))
        row = 0
        for batch in parquet_batches(path, columns=_COLUMNS, rows=_BATCH):
            for fields in batch.to_pylist():
                row += 1
                with file_errors(f"{path}, row {row}", "what lighteval writes"):
                    answer = Answer.from_row(fields)
                yield answer


def _add(log: Log, answer: Answer, task: str) -> None:
    k, texts = answer.k, answer.option_texts if answer.logprobs else None
    log.add(
        task=answer.task or task,
        item_id=answer.item_id,
        question=answer.question,
        metrics=answer.metrics,
        k=k,
        gold=answer.golds[0] if k and answer.golds else None,
        golds=list(answer.golds) if k and len(answer.golds) > 1 else None,
        choice_logprobs=list(answer.logprobs) or None,
        choice_priors=list(answer.priors) or None,
        choice_chars=None if texts is None else list(map(len, texts)),
        choice_bytes=None if texts is None else list(map(byte_length, texts)),
        output=answer.text,
        source_prompt_hash=answer.prompt_hash,
    )


def _with_choices(snapshot: Snapshot, answers: list[Answer], log: Log) -> Snapshot:
    # Choices where log-likelihoods decided, none where text did.
    right, used, _ = log.correctness(snapshot.meta["metric"])
    metrics = [used.get(task, "") for task in log.tasks]
    generated = np.array(
        [
            metrics[code] in answers[row].generated
            for row, code in enumerate(log.task_codes.tolist())
        ]
    )
    options = LogLikelihoods()
    # The metric is known only after all rows: it tells which half of a merged answer counts.
    for row in np.flatnonzero(~generated).tolist():
        if (answer := answers[row]).logprobs:
            target = list(answer.golds)
            options.add(
                row,
                logprobs=answer.logprobs,
                priors=answer.priors,
                texts=answer.option_texts,
                target=target,
            )
    norms = _infer_norms(options, answers, right, log.task_codes, metrics)
    columns, notes = options.columns(right=right, tasks=log.task_codes, norms=norms)
    table, replaced = snapshot.table, dict[str, Any]()
    for name in ("chosen", "gold_share", "margin", "unstable") if columns else ():
        replaced[name] = columns[name]
    for name in ("k", "gold", "golds"):
        replaced[name] = pc.if_else(
            pa.array(generated), pa.scalar(None, table[name].type), table[name]
        )
    for name, values in replaced.items():
        spec = table.schema.field(name)
        table = table.set_column(table.schema.get_field_index(name), spec, values.cast(spec.type))
    # A task whose choices are unknown has no norm that is known.
    decided = set(log.task_codes[np.asarray(table["chosen"].is_valid())].tolist())
    named = norms_in_metadata(
        {task: norms[code] for task, code in log.tasks.items() if code in decided}
    )
    return replace(
        snapshot, table=table, meta={**snapshot.meta, **named}, notes=(*snapshot.notes, *notes)
    )


def _infer_norms(
    options: LogLikelihoods,
    answers: list[Answer],
    right: NDArray[np.int8],
    tasks: NDArray[np.int64],
    metrics: list[str],
) -> list[str]:
    # The norm whose scores agree with the logged correctness of most rows.
    lost = {name: options.unexplained(right=right, tasks=tasks, norm=name) for name in _NORMS}
    unspaced = {
        int(tasks[row])
        for row in options.rows
        if not all(choice[:1] == " " for choice in answers[row].choices)
    }
    norms = []
    for code, metric in enumerate(metrics):
        # A snapshot keeps lengths without the space. One more is the length with it only if every
        # option has one.
        tried = [name for name in _NORMS if name != "chars_with_space" or code not in unspaced]
        if "norm" in metric:
            tried = [*tried[1:], "sum"]
        norms.append(min(tried, key=lambda name: lost[name][code]))
    return norms


def _model(path: Path) -> str | None:
    # The model is in the names of a file's folders.
    parts = path.absolute().parts[:-2]  # without the folder of the date and the file
    if path.parent.name != task_and_date(path)[1] or not parts:
        return None
    # After the last `details`: a folder above the output may have that name too.
    below = parts[len(parts) - parts[::-1].index("details") :] if "details" in parts else parts[-1:]
    return "/".join(below) or None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a log."""

    item_id: str | None  # None if the log has none
    task: str  # as the row names it; empty if the file's name has it
    question: tuple[Any, ...]  # its text, its options and the right ones: they define it
    choices: tuple[str, ...]  # the options, or the reference texts of an open question
    golds: tuple[int, ...]  # indices of the right options
    metrics: Mapping[str, Any]  # values that are not null, by name
    is_whole: bool  # no metric was null, so that no other row is about the same question
    logprobs: tuple[float, ...]  # of each option, nats; empty for a generated answer
    priors: tuple[float, ...]  # the same without the prompt; empty if the log has none
    text: str | None  # generated
    prompt_hash: str | None  # hash of the model's input
    generated: frozenset[str] = (
        frozenset()
    )  # metrics of `text`, if the question has log-likelihoods as well

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Read a row of either schema.

        Raises:
            ValueError: Names a field that is not what lighteval writes.
        """
        return cls._new(row) if "doc" in row else cls._old(row)

    @classmethod
    def _new(cls, row: Mapping[str, Any]) -> Self:
        doc, response, metrics = (
            _field(row, name, Mapping, "an object") for name in ("doc", "model_response", "metric")
        )
        choices, golds = _texts(doc, "choices"), _indices(doc, "gold_index")
        scores = _numbers(response, "logprobs")
        if len(scores) == 2 * len(choices):  # the second half was scored without the prompt
            logprobs, priors = scores[: len(choices)], scores[len(choices) :]
        else:
            logprobs, priors = scores, _numbers(response, "unconditioned_logprobs")
        question = (_field(doc, "query", str, "text"), choices, golds)
        prompt = response.get("input") or response.get("input_tokens")
        return cls(
            item_id=str(doc.get("id") or "") or None,
            task=str(doc.get("task_name") or ""),
            question=question,
            choices=choices,
            golds=golds,
            metrics={name: value for name, value in metrics.items() if value is not None},
            is_whole=None not in metrics.values(),
            logprobs=logprobs if len(logprobs) == len(choices) else (),
            priors=priors if len(priors) == len(choices) else (),
            text=next(iter(_texts(response, "text")), None),
            prompt_hash=_hash(prompt) if prompt else None,
        )

    @classmethod
    def _old(cls, row: Mapping[str, Any]) -> Self:
        options, golds, references = (
            _texts(row, "choices"),
            _indices(row, "gold_index"),
            _texts(row, "gold"),
        )
        metrics, predictions = (
            _field(row, "metrics", Mapping, "an object"),
            row.get("predictions") or [],
        )
        if not isinstance(predictions, list):
            raise ValueError(f"predictions must be a list, got {predictions!r:.40}")
        firsts = [
            entry[0] if isinstance(entry, list) and entry else entry for entry in predictions
        ]  # [-4.7, is_greedy]
        scores = tuple(
            float(prediction) for prediction in firsts if isinstance(prediction, (int, float))
        )
        # An open question has no options, and is defined by its references instead.
        question = (_field(row, "example", str, "text"), options or references, golds)
        prompt = row.get("full_prompt")
        return cls(
            item_id=None,
            task="",
            question=question,
            choices=options,
            golds=golds,
            metrics={name: value for name, value in metrics.items() if value is not None},
            is_whole=None not in metrics.values(),
            logprobs=scores if len(scores) == len(options) else (),
            priors=(),
            text=next((prediction for prediction in firsts if isinstance(prediction, str)), None),
            prompt_hash=_hash(prompt) if isinstance(prompt, str) else None,
        )

    @property
    def k(self) -> int | None:
        """Number of options.

        Returns:
            The number, or None for an open answer.
        """
        if self.logprobs:
            return len(self.choices)
        # A generated answer has options if its references are the letters that name them.
        letters = list(ascii_uppercase[: len(self.choices)])
        return (
            len(letters)
            if len(letters) > 1 and [choice.strip() for choice in self.choices] == letters
            else None
        )

    @property
    def option_texts(self) -> list[str]:
        """The options without a leading space."""
        return [choice.removeprefix(" ") for choice in self.choices]


def merge_halves(answers: Iterable[Answer]) -> Iterator[Answer]:
    """Merge the halves of answers to the same question.

    A half with log-likelihoods and a generated half, n-th with n-th. Answers that lack a metric
    come last, because the other half may be the log's last row.

    Answers that lack a metric come last, because their other half may be the log's last row.
    """
    halves: list[Answer] = []
    position: dict[tuple[Any, ...], int] = {}
    times: Counter[tuple[Any, ...]] = Counter()
    for answer in answers:
        if answer.is_whole:
            yield answer
            continue
        key, is_scored = (answer.task, answer.item_id, answer.question), bool(answer.logprobs)
        times[key, is_scored] += 1
        other_half = position.get((key, not is_scored, times[key, is_scored]))
        # Halves of one answer have no metric in common.
        if other_half is None or halves[other_half].metrics.keys() & answer.metrics.keys():
            position[key, is_scored, times[key, is_scored]] = len(halves)
            halves.append(answer)
            continue
        scored, generated = (
            (answer, halves[other_half]) if is_scored else (halves[other_half], answer)
        )
        halves[other_half] = replace(
            scored,
            text=generated.text,
            generated=frozenset(generated.metrics),
            metrics={**halves[other_half].metrics, **answer.metrics},
        )
    yield from halves


def _field(row: Mapping[str, Any], name: str, kind: type, needed: str) -> Any:
    if not isinstance(value := row.get(name), kind):
        raise ValueError(f"{name} must be {needed}, got {value!r:.40}")
    return value


def _texts(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = row.get(name)
    listed = [] if value is None else value
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise ValueError(f"{name} must be a list of texts, got {value!r:.40}")
    return tuple(listed)


def _numbers(row: Mapping[str, Any], name: str) -> tuple[float, ...]:
    value = row.get(name)
    if not isinstance(value, list) or not all(isinstance(number, (int, float)) for number in value):
        return ()  # a generated answer's are those of its tokens, in lists
    return tuple(map(float, value))


def _indices(row: Mapping[str, Any], name: str) -> tuple[int, ...]:
    value = row.get(name)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(index, int) for index in listed):
        raise ValueError(f"{name} must be an index or a list of them, got {value!r:.40}")
    return tuple(sorted(set(listed)))


def _hash(value: Any) -> str:
    return hashlib.sha256(
        json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ).hexdigest()[:16]
