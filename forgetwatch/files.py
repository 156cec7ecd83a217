"""Files that are whole or not there: written beside their place, flushed to disk, then renamed.

One Parquet file with its metadata as JSON: how forgetwatch keeps tables of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch.errors import SnapshotError


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file beside `path`, flush it, and rename it to `path`.

    A reader sees the old file or the new one, never a part; an exception leaves the old one in place. A link is
    followed, and what is no regular file (a device, a pipe) is written to as it is.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        write(path)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write(partial)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


KEY: Final = b"forgetwatch"
"""The schema key under which the metadata stand."""


def write_table(table: pa.Table, meta: Mapping[str, Any], path: str | Path) -> None:
    """Write a table and its metadata as one file; a reader sees all of it or none."""
    described = table.replace_schema_metadata({KEY: json.dumps(dict(meta)).encode()})
    write_atomically(Path(path), lambda partial: pq.write_table(described, partial, compression="zstd"))


def read_table(path: Path, *, what: str, made: str, schema: pa.Schema) -> tuple[pa.Table, dict[str, Any]]:
    """The columns of a schema and the metadata in a file that `write_table` wrote.

    Args:
        path: The file.
        what: What it should hold, for messages.
        made: The format that its metadata must name.
        schema: Columns that must be there; they come without metadata, in this order, as they are.

    Raises:
        SnapshotError: If the file is none of these, of another format, cut, or lacks a column.
    """
    try:
        table = pq.read_table(path, partitioning=None)
        meta = json.loads((table.schema.metadata or {})[KEY])
    except FileNotFoundError as error:
        raise SnapshotError(f"{path}: no such file") from error
    except KeyError as error:
        raise SnapshotError(f"{path}: a Parquet file, but not {what} that forgetwatch wrote") from error
    except (pa.ArrowException, OSError, ValueError, RecursionError) as error:
        raise SnapshotError(f"{path}: needed {what} in Parquet, and it cannot be read: is it cut? ({error})") from error
    if not isinstance(meta, dict) or meta.get("format") != made:
        found = meta.get("format") if isinstance(meta, dict) else meta
        raise SnapshotError(f"{path}: its format is {found!r}, this version reads {made!r}")
    if lacking := [name for name in schema.names if name not in table.column_names]:
        raise SnapshotError(f"{path}: {what} needs the column {lacking[0]!r}, and it is not there")
    return table.select(schema.names).replace_schema_metadata(None), meta
