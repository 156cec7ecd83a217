"""Files of outcomes, ours and others', to a Snapshot. The format is recognised by content, never by the name alone.

our Parquet               snapshot.py
plain CSV, JSONL, Parquet readers/table.py
lm-evaluation-harness     readers/lm_eval_logs.py        samples_*.jsonl, results with samples, an output folder
lighteval                 readers/lighteval_details.py   details_*.parquet, a folder of them
Inspect                   readers/inspect_log.py         .eval and .json
"""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch.errors import SnapshotError
from forgetwatch.readers import inspect_log, lighteval_details, lm_eval_logs, table
from forgetwatch.readers.json_pieces import Progress, opening
from forgetwatch.readers.lm_eval_samples import is_sample
from forgetwatch.readers.question_text import Kept
from forgetwatch.snapshot import Snapshot, is_snapshot, read_snapshot

_PARQUET: Final = b"PAR1"
_LFS_POINTER: Final = b"version https://git-lfs"


def load_snapshot(
    path: str | Path, *, metric: str | None = None, progress: Progress | None = None, kept: Kept | None = None
) -> Snapshot:
    """The outcomes in a file or in a harness's output folder, whatever wrote it.

    Args:
        path: The file or folder.
        metric: What makes `correct` where a log judges answers in several ways, such as ``acc_norm``.
        progress: Called with the bytes read and the bytes in all, for files that take a while.
        kept: Keeps some of a log's questions in words.

    Raises:
        SnapshotError: If the file is missing, empty, cut, of an unknown format, or holds rows that cannot be used.
    """
    path = Path(path)
    try:
        return _load(path, metric, progress, kept)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read ({error.strerror})") from error


def _load(path: Path, metric: str | None, progress: Progress | None, kept: Kept | None) -> Snapshot:
    if path.is_dir():
        return _load_folder(path, metric, progress, kept)
    if path.exists() and not path.is_file():
        raise SnapshotError(f"{path}: needed a regular file, got a pipe or device; write it to a file first")
    with path.open("rb") as file:
        head = file.read(4096)
    if not head:
        raise SnapshotError(f"{path}: the file is empty")
    if head.startswith(_LFS_POINTER):
        raise SnapshotError(f"{path}: a Git LFS pointer, not the data; fetch it with `git lfs pull`")
    if head.startswith(_PARQUET):
        return _load_parquet(path, metric, progress, kept)
    if inspect_log.recognises(path):
        return inspect_log.read(path, metric=metric, progress=progress, kept=kept)
    if b"\x00" in head or not _is_text(head):
        raise SnapshotError(
            f"{path}: neither Parquet nor UTF-8 text; needed a snapshot, a table in CSV, JSONL or Parquet, or a log of "
            "lm-evaluation-harness, lighteval or Inspect"
        )
    if head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"["):
        return _load_json(path, metric, progress, kept)
    return _judged_once(path, metric, table.read_csv(path))


def _load_folder(folder: Path, metric: str | None, progress: Progress | None, kept: Kept | None) -> Snapshot:
    if (found := lm_eval_logs.read_folder(folder, metric, progress, kept)) is not None:
        return found
    if lighteval_details.holds_details(folder):
        return lighteval_details.read(folder, metric=metric, progress=progress, kept=kept)
    raise SnapshotError(
        f"{folder}: a folder that holds neither a checkpoint (config.json), nor an adapter (adapter_config.json), nor "
        "a harness's log (samples_*.jsonl, details_*.parquet); give a file of outcomes, a checkpoint, or a model id"
    )


def _load_parquet(path: Path, metric: str | None, progress: Progress | None, kept: Kept | None) -> Snapshot:
    schema = _parquet_schema(path)
    if lighteval_details.recognises(schema):
        return lighteval_details.read(path, metric=metric, progress=progress, kept=kept)
    return _judged_once(path, metric, read_snapshot(path) if is_snapshot(schema) else table.read_parquet(path))


def _load_json(path: Path, metric: str | None, progress: Progress | None, kept: Kept | None) -> Snapshot:
    is_array, names = opening(path)
    if is_sample(names):
        return lm_eval_logs.read_samples(path, metric, progress, kept)
    if names.get("samples") == "{":
        return lm_eval_logs.read_results(path, metric, progress, kept)
    if {"results", "configs"} <= set(names):
        raise SnapshotError(
            f"{path}: totals of lm-evaluation-harness without its samples; write them with --log_samples, and give "
            "samples_*.jsonl or the output folder"
        )
    if is_array:
        raise SnapshotError(f"{path}: one JSON array; needed JSONL, one object per line")
    return _judged_once(path, metric, table.read_jsonl(path))


def _judged_once(path: Path, metric: str | None, snapshot: Snapshot) -> Snapshot:
    """A snapshot or table, which holds one judgement; asking for another than the one it names is an error."""
    held = snapshot.meta.get("metric")
    if None not in (metric, held) and metric not in (held, str(held).split(",")[0], f"{held},none"):
        raise SnapshotError(f"{path}: no metric {metric!r} to choose; the snapshot holds one judgement, {held}")
    return snapshot


def _parquet_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise SnapshotError(f"{path}: a Parquet file that cannot be read; is it cut? ({error})") from error


def _is_text(head: bytes) -> bool:
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.end == len(head) and error.start > len(head) - 4  # a character cut by the end of the head
    return True
