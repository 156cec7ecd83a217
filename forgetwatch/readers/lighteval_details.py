"""lighteval's details, one Parquet file a task or a folder of them, to a Snapshot.

    details/<model>/<date>/details_<task>|<fewshot>_<date>.parquet

A folder contains the details of one model, and the files of its latest date are one snapshot. `correct` is a metric
that is 0 or 1 for every question; pass@k and avg@n of several samples are shares, and no correctness.

The option chosen and the norm of the score that decides (`metrics.choices`) are not logged. The norm of each task is
inferred: of the sum, the sum per character (with or without the leading space) and the sum minus the prior, it is the
one whose best options agree with the logged correctness most often. If none does, the choices of the task are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError
from forgetwatch.files import file_errors, parquet_batches
from forgetwatch.readers.lighteval_rows import COLUMNS, NEW, OLD, Answer, merge_halves
from forgetwatch.readers.log import Log, Reading, refuse_lfs_pointer
from forgetwatch.readers.option_scores import LogLikelihoods, byte_length, norms_in_metadata
from forgetwatch.snapshot import Snapshot

_NAME: Final = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?)\.parquet")
_BATCH: Final = 256  # rows; a row may hold the tokens of a long prompt

_NORMS: Final = ("sum", "chars_with_space", "chars", "unconditional")
"""Norms that lighteval offers, the commonest first; for a metric with "norm" in its name the sum comes last."""


def is_details(schema: pa.Schema) -> bool:
    """True if a Parquet schema is that of lighteval's details, old or new."""
    names = set(schema.names)
    return (names >= set(NEW) and pa.types.is_struct(schema.field("doc").type)) or names >= set(OLD)


def holds_details(folder: Path) -> bool:
    """True if a folder contains details files, at any depth."""
    return any(_NAME.fullmatch(path.name) for path in folder.rglob("details_*.parquet"))


def read(path: Path, reading: Reading) -> Snapshot:
    """The outcomes in a details file, or in the latest details of a folder.

    Args:
        path: The file or the folder.
        reading: Metric, progress in files, and questions to keep.

    Raises:
        SnapshotError: If a file cannot be read, the folder contains several models, or the metric is no correctness.
    """
    files, notes = _latest(path) if path.is_dir() else ([path], ())
    log, answers = Log(path, "lighteval", reading.questions), list[Answer]()
    for number, file in enumerate(files, start=1):
        for answer in merge_halves(_answers(file)):
            _add(log, answer, _task(file))
            answers.append(replace(answer, question=(), text=None))  # the log has these already
        reading.report(number, len(files))
    model = _model(files[0])
    snapshot = log.snapshot(log.metric(reading.metric), {} if model is None else {"model": model}, notes)
    return _with_choices(snapshot, answers, log)


def _latest(folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    """The files of the folder's latest date, and a note on those left out."""
    found = sorted(path for path in folder.rglob("details_*.parquet") if _NAME.fullmatch(path.name))
    if not found:
        raise SnapshotError(f"{folder}: needed details_<task>_<date>.parquet files of lighteval, found none")
    if len(models := sorted({str(_model(path)) for path in found})) > 1:
        raise SnapshotError(
            f"{folder}: details of {len(models)} models ({', '.join(models[:3])}); name the folder of one of them"
        )
    date = max(_date(path) for path in found)  # ISO dates sort as text
    latest = [path for path in found if _date(path) == date]
    older = {_date(path) for path in found} - {date}
    return latest, (f"the run of {date}; {len(older)} older in this folder left out",) if older else ()


def _answers(path: Path) -> Iterator[Answer]:
    """Answers in a file, row by row.

    Raises:
        SnapshotError: If the file is damaged, or a row is not what lighteval writes.
    """
    with file_errors(path, "details of lighteval in Parquet"):
        with path.open("rb") as file:
            refuse_lfs_pointer(path, file.read(64))
        row = 0
        for batch in parquet_batches(path, columns=COLUMNS, rows=_BATCH):
            for fields in batch.to_pylist():
                row += 1
                with file_errors(f"{path}, row {row}", "what lighteval writes"):
                    answer = Answer.from_row(fields)
                yield answer


def _add(log: Log, answer: Answer, task: str) -> None:
    k = answer.k
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
        choice_chars=[len(text.removeprefix(" ")) for text in answer.choices] if answer.logprobs else None,
        choice_bytes=[byte_length(text.removeprefix(" ")) for text in answer.choices] if answer.logprobs else None,
        output=answer.text,
        source_prompt_hash=answer.prompt_hash,
    )


def _with_choices(snapshot: Snapshot, answers: list[Answer], log: Log) -> Snapshot:
    """The snapshot with the choices where log-likelihoods decided, and without options where generated text did."""
    right, used = log.correctness(snapshot.meta["metric"])
    metrics = [used.get(task, "") for task in log.tasks]
    generated = np.array([metrics[code] in answers[row].generated for row, code in enumerate(log.task_codes.tolist())])
    options = LogLikelihoods()
    # The metric is known only after all rows: it tells which half of a merged answer counts.
    for row in np.flatnonzero(~generated).tolist():
        if (answer := answers[row]).logprobs:
            texts = [text.removeprefix(" ") for text in answer.choices]
            options.add(row, logprobs=answer.logprobs, priors=answer.priors, texts=texts, target=list(answer.golds))
    norms = _infer_norms(options, answers, right, log.task_codes, metrics)
    columns, notes = options.columns(right=right, tasks=log.task_codes, norms=norms)
    table = snapshot.table
    for name in ("chosen", "gold_share", "margin", "unstable") if columns else ():
        table = _set_column(table, name, columns[name].cast(table.schema.field(name).type))
    for name in ("k", "gold", "golds"):
        table = _set_column(
            table, name, pc.if_else(pa.array(generated), pa.scalar(None, table.schema.field(name).type), table[name])
        )
    # A task whose choices are unknown has no norm that is known.
    decided = set(log.task_codes[np.asarray(table["chosen"].is_valid())].tolist())
    named = norms_in_metadata({task: norms[code] for task, code in log.tasks.items() if code in decided})
    return replace(snapshot, table=table, meta={**snapshot.meta, **named}, notes=(*snapshot.notes, *notes))


def _infer_norms(
    options: LogLikelihoods,
    answers: list[Answer],
    right: NDArray[np.int8],
    tasks: NDArray[np.int64],
    metrics: list[str],
) -> list[str]:
    """Norm of each task, by its code: the one whose scores agree with the logged correctness of most rows."""
    lost = {name: options.unexplained(right=right, tasks=tasks, norm=name) for name in _NORMS}
    unspaced = {int(tasks[row]) for row in options.rows if not all(text[:1] == " " for text in answers[row].choices)}
    norms = []
    for code, metric in enumerate(metrics):
        # A snapshot keeps lengths without the space. One more is the length with it only if every option has one.
        tried = [name for name in _NORMS if name != "chars_with_space" or code not in unspaced]
        if "norm" in metric:
            tried = [*tried[1:], "sum"]
        norms.append(min(tried, key=lambda name: lost[name][code]))
    return norms


def _set_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)


def _task(path: Path) -> str:
    """Task in a file's name; empty if it was renamed, so that two such files still pair."""
    named = _NAME.fullmatch(path.name)
    return named["task"] if named else ""


def _date(path: Path) -> str:
    """Date in a file's name; empty if it was renamed."""
    named = _NAME.fullmatch(path.name)
    return named["date"] if named else ""


def _model(path: Path) -> str | None:
    """Model in the names of a file's folders; None if it is in no such folders."""
    parts = path.absolute().parts[:-2]  # without the folder of the date and the file
    if path.parent.name != _date(path) or not parts:
        return None
    # After the last `details`: a folder above the output may have that name too.
    below = parts[len(parts) - parts[::-1].index("details") :] if "details" in parts else parts[-1:]
    return "/".join(below) or None
