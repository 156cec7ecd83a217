"""Files of outcomes, forgetwatch's own and other tools', to a Snapshot: `load_snapshot`.

The format is recognised by content, never by the name alone.

    forgetwatch               snapshot.py
    plain CSV, JSONL, Parquet readers/table.py
    lm-evaluation-harness     readers/lm_eval_logs.py        samples_*.jsonl, results with samples, an output folder
    lighteval                 readers/lighteval_details.py   details_*.parquet, a folder of them
    Inspect                   readers/inspect_log.py         .eval and .json

Rows of every tool go through `readers/log.py`, and scores through `readers/score_values.py`. A table with other column
names is read by `readers/mapping.py`.
"""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from forgetwatch.errors import SnapshotError
from forgetwatch.files import file_errors
from forgetwatch.readers import inspect_log, lighteval_details, lm_eval_logs, table
from forgetwatch.readers.archive import Archive
from forgetwatch.readers.inspect_log import is_inspect_log
from forgetwatch.readers.json_pieces import Document, Progress, first_object, json_lines, spans
from forgetwatch.readers.lighteval_details import holds_details, is_details
from forgetwatch.readers.lm_eval_samples import is_sample
from forgetwatch.readers.log import Log, Reading, refuse_lfs_pointer
from forgetwatch.readers.mapping import ColumnMap, read_mapped
from forgetwatch.readers.option_scores import choose_target, reconcile, target_options
from forgetwatch.readers.question_text import QuestionStore, QuestionText
from forgetwatch.readers.table import concatenate
from forgetwatch.snapshot import Snapshot, is_snapshot, read_snapshot

SUFFIXES: Final = (".parquet", ".csv", ".jsonl", ".json", ".eval")
"""Suffixes of files of outcomes: a name that has one is a path and never looked up as a model id."""
_PARQUET: Final = b"PAR1"


def load_snapshot(
    path: str | Path, *, metric: str | None = None, progress: Progress | None = None, kept: QuestionStore | None = None
) -> Snapshot:
    """The outcomes in a file or in a harness's output folder, in any format that is known.

    Args:
        path: The file or folder.
        metric: Metric that makes `correct` if a log has several, such as ``acc_norm``.
        progress: Called with the amount read and the total, for files that take a while.
        kept: Receives the questions of a log that it wants.

    Raises:
        SnapshotError: If the file is missing, empty, cut, of an unknown format, or contains rows that cannot be used.
    """
    path = Path(path)
    with file_errors(path, "a file of outcomes"):
        return _load(path, Reading(metric=metric, progress=progress, questions=kept))


def is_outcomes(given: str) -> bool:
    """True for a file or folder that is there and is no model."""
    path = Path(given)
    is_model = path.is_dir() and any((path / name).is_file() for name in ("config.json", "adapter_config.json"))
    return path.exists() and not is_model


def _load(path: Path, reading: Reading) -> Snapshot:
    if path.is_dir():
        return _load_folder(path, reading)
    if path.exists() and not path.is_file():
        raise SnapshotError(f"{path}: needed a regular file, got a pipe or device; write it to a file first")
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise SnapshotError(f"{path}: the file is empty")
    refuse_lfs_pointer(path, head)
    if head.startswith(_PARQUET):
        return _load_parquet(path, reading)
    # Before the test for text: an .eval log is a ZIP file.
    if inspect_log.is_inspect_log(path):
        return inspect_log.read(path, reading)
    if b"\x00" in head or not _is_text(head):
        raise SnapshotError(
            f"{path}: neither Parquet nor UTF-8 text; needed a snapshot, a table in CSV, JSONL or Parquet, or a log of "
            "lm-evaluation-harness, lighteval or Inspect"
        )
    if head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"["):
        return _load_json(path, reading)
    return check_metric(table.read_csv(path), reading.metric, name=path)


def _load_folder(folder: Path, reading: Reading) -> Snapshot:
    if (snapshot := lm_eval_logs.read_folder(folder, reading)) is not None:
        return snapshot
    if lighteval_details.holds_details(folder):
        return lighteval_details.read(folder, reading)
    raise SnapshotError(
        f"{folder}: a folder that contains neither a checkpoint (config.json), nor an adapter (adapter_config.json), "
        "nor a harness's log (samples_*.jsonl, details_*.parquet); give a file of outcomes, a checkpoint, or a model id"
    )


def _load_parquet(path: Path, reading: Reading) -> Snapshot:
    with file_errors(path, "a table in Parquet"):
        schema = pq.read_schema(path)
        _ = schema.names  # raises if they are not UTF-8
    if lighteval_details.is_details(schema):
        return lighteval_details.read(path, reading)
    snapshot = read_snapshot(path) if is_snapshot(schema) else table.read_parquet(path)
    return check_metric(snapshot, reading.metric, name=path)


def _load_json(path: Path, reading: Reading) -> Snapshot:
    is_array, names = first_object(path)
    if is_sample(names):
        return lm_eval_logs.read_samples(path, reading)
    if names.get("samples") == "{":
        return lm_eval_logs.read_results(path, reading)
    if {"results", "configs"} <= set(names):
        raise SnapshotError(
            f"{path}: totals of lm-evaluation-harness without its samples; write them with --log_samples, and give "
            "samples_*.jsonl or the output folder"
        )
    if is_array:
        raise SnapshotError(f"{path}: one JSON array; needed JSONL, one object per line")
    return check_metric(table.read_jsonl(path), reading.metric, name=path)


def check_metric(snapshot: Snapshot, wanted: str | None, *, name: str | Path) -> Snapshot:
    """Return the snapshot unchanged, if it may have the requested metric or none is requested.

    Args:
        snapshot: Outcomes that were read before.
        wanted: The metric; None for any.
        name: Name of the snapshot in messages.

    Raises:
        SnapshotError: If its metric is known and is another one, or if forgetwatch scored it.
    """
    if wanted is None:
        return snapshot
    if "scorer" in snapshot.meta:
        raise SnapshotError(
            f"{name}: no metric {wanted!r} to choose; forgetwatch scored it, and its probe alone says what is right; "
            "leave out the metric (--metric), which chooses among those of a harness's log"
        )
    held = snapshot.meta.get("metric")
    # The filter in a metric's name may be left out, or be given as `none`, as for a log; see `Log.metric`.
    if held is not None and wanted not in (held, str(held).split(",")[0], f"{held},none"):
        raise SnapshotError(f"{name}: no metric {wanted!r} to choose; the snapshot has only {held}")
    return snapshot


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.end == len(head) and error.start > len(head) - 4  # a character cut by the end of the head
    return True
