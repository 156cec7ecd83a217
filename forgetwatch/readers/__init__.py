"""Files of outcomes, ours and others', to a Snapshot. The format is recognised by content, never by the name alone.

our Parquet     snapshot.py        plain CSV, JSONL, Parquet     readers/table.py
"""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch.errors import SnapshotError
from forgetwatch.readers import table
from forgetwatch.snapshot import Snapshot, is_snapshot, read_snapshot

_PARQUET: Final = b"PAR1"
_LFS_POINTER: Final = b"version https://git-lfs"


def load_snapshot(path: str | Path) -> Snapshot:
    """The outcomes in a file, whatever wrote it.

    Raises:
        SnapshotError: If the file is missing, empty, cut, of an unknown format, or holds rows that cannot be used.
    """
    path = Path(path)
    if path.is_dir():
        raise SnapshotError(f"{path}: needed a file of outcomes, got a folder")
    if path.exists() and not path.is_file():
        raise SnapshotError(f"{path}: needed a regular file, got a pipe or device; write it to a file first")
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read ({error.strerror})") from error
    if not head:
        raise SnapshotError(f"{path}: the file is empty")
    if head.startswith(_LFS_POINTER):
        raise SnapshotError(f"{path}: a Git LFS pointer, not the data; fetch it with `git lfs pull`")
    if head.startswith(_PARQUET):
        return read_snapshot(path) if is_snapshot(_parquet_schema(path)) else table.read_parquet(path)
    if b"\x00" in head or not _is_text(head):
        raise SnapshotError(
            f"{path}: neither Parquet nor UTF-8 text; needed a snapshot, or a table in CSV, JSONL or Parquet"
        )
    first = head.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    if first == b"{":
        return table.read_jsonl(path)
    if first == b"[":
        raise SnapshotError(f"{path}: one JSON array; needed JSONL, one object per line")
    return table.read_csv(path)


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
