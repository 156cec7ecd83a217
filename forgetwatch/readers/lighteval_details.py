"""lighteval's details, one Parquet file a task or a folder of them, to a Snapshot.

    details/<model>/<date>/details_<task>|<fewshot>_<date>.parquet

A folder is one model's: the files of its latest date are one snapshot. `correct` is a metric that is 0 or 1 for every
question; pass@k and avg@n of several samples are shares, and no correctness. Which option was chosen is not logged. It
is worked out from the log-likelihoods of the options, with the normalisation that gives the logged correctness back:
none, per character (with or without the leading space), or minus what the option gets without the prompt. Where none
does, the choice stays unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import softmax

from forgetwatch.errors import SnapshotError
from forgetwatch.readers.json_pieces import Progress
from forgetwatch.readers.lighteval_rows import NEW, OLD, READ, Answer, joined
from forgetwatch.readers.log import Log
from forgetwatch.readers.question_text import Kept
from forgetwatch.snapshot import Snapshot

_NAME: Final = re.compile(r"details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT\d\d[-:]\d\d[-:]\d\d(?:\.\d+)?)\.parquet")
_LFS_POINTER: Final = b"version https://git-lfs"
_BATCH: Final = 256
_TIES: Final = 0.005
"""Share of a task's questions that may be chosen otherwise: log-likelihoods are logged rounded, and ties break."""


def recognises(schema: pa.Schema) -> bool:
    """Whether a Parquet schema is that of lighteval's details, old or new."""
    names = set(schema.names)
    return (names >= set(NEW) and pa.types.is_struct(schema.field("doc").type)) or names >= set(OLD)


def holds_details(folder: Path) -> bool:
    """Whether a folder has details files in it, at any depth."""
    return any(_NAME.fullmatch(path.name) for path in folder.rglob("details_*.parquet"))


def read(path: Path, *, metric: str | None, progress: Progress | None = None, kept: Kept | None = None) -> Snapshot:
    """The outcomes in a details file, or in the latest details of a folder.

    Args:
        path: The file or the folder.
        metric: What makes `correct`; None for the default of `readers.log`.
        progress: Called with the files that are read and the files in all.
        kept: Keeps some of the questions.

    Raises:
        SnapshotError: If a file cannot be read, several models are in the folder, or the metric is no correctness.
    """
    files, notes = _latest(path) if path.is_dir() else ([path], ())
    log, answers = Log(path, "lighteval", kept), list[Answer]()
    for number, file in enumerate(files, start=1):
        for answer in joined(_answers(file)):
            _add(log, answer, _task(file))
            answers.append(replace(answer, question=(), text=None))
        if progress is not None:
            progress(number, len(files))
    model = _model(files[0])
    snapshot = log.snapshot(log.metric(metric), {} if model is None else {"model": model}, notes)
    return _with_choices(snapshot, answers)


def _latest(folder: Path) -> tuple[list[Path], tuple[str, ...]]:
    """The files of the folder's latest date, and what was left out, in words."""
    found = sorted(path for path in folder.rglob("details_*.parquet") if _NAME.fullmatch(path.name))
    if not found:
        raise SnapshotError(f"{folder}: needed details_<task>_<date>.parquet files of lighteval, found none")
    if len(models := sorted({str(_model(path)) for path in found})) > 1:
        raise SnapshotError(
            f"{folder}: details of {len(models)} models ({', '.join(models[:3])}); name the folder of one of them"
        )
    date = max(_date(path) for path in found)
    latest = [path for path in found if _date(path) == date]
    older = {_date(path) for path in found} - {date}
    return latest, (f"the run of {date}; {len(older)} older in this folder left out",) if older else ()


def _answers(path: Path) -> Iterator[Answer]:
    try:
        with path.open("rb") as file:
            if file.read(len(_LFS_POINTER)) == _LFS_POINTER:
                raise SnapshotError(f"{path}: a Git LFS pointer, not the data; fetch it with `git lfs pull`")
        with pq.ParquetFile(path) as parquet:
            row = 0
            for batch in parquet.iter_batches(batch_size=_BATCH, columns=list(READ)):
                for fields in batch.to_pylist():
                    row += 1
                    try:
                        yield Answer.from_row(fields)
                    except ValueError as error:
                        raise SnapshotError(f"{path}, row {row}: {error}; not details of lighteval") from error
    except (pa.ArrowException, OSError, ValueError) as error:
        said = str(error).split("\n", maxsplit=1)[0]
        raise SnapshotError(f"{path}: a Parquet file that cannot be read; is it cut? ({said})") from error


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
        choice_bytes=[_bytes(text.removeprefix(" ")) for text in answer.choices] if answer.logprobs else None,
        output=answer.text,
        source_prompt_hash=answer.prompt_hash,
    )


def _with_choices(snapshot: Snapshot, answers: list[Answer]) -> Snapshot:
    """The snapshot with `chosen`, `gold_share` and `margin` where log-likelihoods decided; no k where text did."""
    rows = len(snapshot)
    chosen, written = np.full(rows, np.nan), np.zeros(rows, bool)
    share, margin = np.full(rows, np.nan), np.full(rows, np.nan)
    by_task: dict[str, list[int]] = {}
    for row, task in enumerate(snapshot.texts("task")):
        by_task.setdefault(task, []).append(row)
    correct, lost = snapshot.floats("correct"), 0
    used: Mapping[str, str] = snapshot.meta.get("metrics", {})
    for task, members in by_task.items():
        metric = used.get(task, snapshot.meta["metric"])
        written[members] = [metric in answers[row].written for row in members]
        scored = [row for row in members if answers[row].logprobs and not (np.isnan(correct[row]) or written[row])]
        scores, unlike = _deciding(answers, scored, correct, metric)
        lost += len(unlike)
        for row, of_row in scores.items():
            if row not in unlike:
                ordered = np.sort(of_row)
                chosen[row] = np.argmax(of_row)
                share[row] = min(1.0, float(softmax(of_row)[list(answers[row].golds)].sum()))
                margin[row] = ordered[-1] - ordered[-2] if len(ordered) > 1 else np.nan
    table = snapshot.table
    for name, values in (("chosen", chosen), ("gold_share", share), ("margin", margin)):
        table = _replaced(table, name, pa.array(values, table.schema.field(name).type, from_pandas=True))
    for name in ("k", "gold", "golds"):
        table = _replaced(
            table, name, pc.if_else(pa.array(written), pa.scalar(None, table.schema.field(name).type), table[name])
        )
    note = f"{lost:,} answers whose log-likelihoods do not say which option was chosen"
    return replace(snapshot, table=table, notes=(*snapshot.notes, note) if lost else snapshot.notes)


def _replaced(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), values)


def _deciding(
    answers: list[Answer], rows: list[int], correct: NDArray[np.float64], metric: str
) -> tuple[dict[int, NDArray[np.float64]], set[int]]:
    """The scores of the options at `rows` whose best gives `correct` back, and the rows where it does not."""
    kinds = list(_SCORES) if "norm" not in metric else [*list(_SCORES)[1:], "sum"]
    for kind in kinds:
        try:
            scores = {row: _SCORES[kind](answers[row]) for row in rows}
        except (ZeroDivisionError, ValueError):
            continue  # an empty option, or no priors
        unlike = {
            row
            for row, of_row in scores.items()
            if not np.isfinite(of_row.max()) or (np.argmax(of_row) in answers[row].golds) != correct[row]
        }
        if len(unlike) <= _TIES * len(rows):
            return scores, unlike
    return {}, set(rows)


def _per_unit(answer: Answer, units: list[int]) -> NDArray[np.float64]:
    if 0 in units:
        raise ZeroDivisionError
    unit = np.array(units, np.float64)
    return np.asarray(np.array(answer.logprobs) / unit * unit.mean())


def _without_prior(answer: Answer) -> NDArray[np.float64]:
    if not answer.priors:
        raise ValueError("no priors")
    with np.errstate(invalid="ignore"):  # both may be minus infinity
        return np.subtract(answer.logprobs, answer.priors)


_SCORES: Final[Mapping[str, Callable[[Answer], NDArray[np.float64]]]] = {
    "sum": lambda answer: np.array(answer.logprobs),
    "chars": lambda answer: _per_unit(answer, [len(text) for text in answer.choices]),
    "letters": lambda answer: _per_unit(answer, [len(text.removeprefix(" ")) for text in answer.choices]),
    "unconditional": _without_prior,
}


def _task(path: Path) -> str:
    """The task that a file's name has; empty where it was renamed, so that two such files still pair."""
    named = _NAME.fullmatch(path.name)
    return named["task"] if named else ""


def _date(path: Path) -> str:
    named = _NAME.fullmatch(path.name)
    return named["date"] if named else ""


def _model(path: Path) -> str | None:
    """The model that the folders name; None where there are no such folders."""
    parts = path.absolute().parts[:-2]  # without the folder of the date and the file
    if path.parent.name != _date(path) or not parts:
        return None
    below = parts[len(parts) - parts[::-1].index("details") :] if "details" in parts else parts[-1:]
    return "/".join(below) or None


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
