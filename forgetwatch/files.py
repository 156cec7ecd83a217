"""Files that are complete or absent, and Parquet files with metadata.

A file is written under a temporary name in its own folder, flushed to disk and renamed, so that a reader and a crash
see the old file or the new one, never a part. forgetwatch's own tables are Parquet files whose metadata are one JSON
object under the schema key ``forgetwatch``.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch.errors import SnapshotError

KEY: Final = b"forgetwatch"
"""Schema key of the metadata."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file next to `path`, flush it, and rename it to `path`.

    An exception leaves the old file in place. Missing folders are made. A symbolic link is followed; what is no regular
    file (a device, a pipe) is written to directly.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        write(path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # The process id keeps two writers apart; the leading dot hides the file from globs over the folder.
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write(partial)
        # Without the flush a crash after the rename could leave an empty file under the final name.
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, whole or not at all; lone surrogates, which logs hold and UTF-8 does not, become ``?``."""
    data = text.encode("utf-8", "replace")
    write_atomically(path, lambda partial: partial.write_bytes(data))


def write_table(table: pa.Table, meta: Mapping[str, Any], path: str | Path) -> None:
    """Write a table and its metadata (JSON values) as one Parquet file, atomically."""
    described = table.replace_schema_metadata({KEY: json.dumps(dict(meta)).encode()})
    write_atomically(Path(path), lambda partial: pq.write_table(described, partial, compression="zstd"))


def checksum_with(rows: str, meta: Mapping[str, Any]) -> str:
    """First 32 hex digits of SHA-256 over a checksum of rows and over metadata, whatever the order of their keys.

    Args:
        rows: The checksum of the rows.
        meta: JSON values. A number that is a key counts as its text, as in a file.
    """
    # Through JSON and back: keys are sorted as the texts that they are in a file.
    text = json.dumps(json.loads(json.dumps(dict(meta))), sort_keys=True)
    return hashlib.sha256(f"{rows}\n{text}".encode()).hexdigest()[:32]


def read_table(path: Path, *, what: str, formats: Sequence[str], schema: pa.Schema) -> tuple[pa.Table, dict[str, Any]]:
    """Read a file that `write_table` wrote.

    Args:
        path: The file.
        what: Its expected content, as messages name it.
        formats: Possible values of ``format`` in its metadata, the newest first.
        schema: Required columns. Their types are not checked: the caller casts.

    Returns:
        (The columns of `schema` in its order, without schema metadata; the metadata).

    Raises:
        SnapshotError: If there is no such file, if it is damaged, has another format, or lacks a column.
    """
    try:
        # `partitioning=None`: folder names such as "step=200" must not become columns.
        table = pq.read_table(path, partitioning=None)
        meta = json.loads((table.schema.metadata or {})[KEY])
    except FileNotFoundError as error:
        raise SnapshotError(f"{path}: no such file") from error
    except KeyError as error:
        raise SnapshotError(f"{path}: a Parquet file, but not {what} that forgetwatch wrote") from error
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise SnapshotError(f"{path}: needed {what} in Parquet, and it cannot be read: is it cut? ({error})") from error
    if not isinstance(meta, dict) or meta.get("format") not in formats:
        found = meta.get("format") if isinstance(meta, dict) else meta
        raise SnapshotError(f"{path}: its format is {found!r}, this version reads {formats[0]!r}")
    if lacking := [name for name in schema.names if name not in table.column_names]:
        raise SnapshotError(f"{path}: {what} needs the column {lacking[0]!r}; the file has no such column")
    return table.select(schema.names).replace_schema_metadata(None), meta
