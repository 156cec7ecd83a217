"""Tables that forgetwatch writes: Parquet with metadata as one JSON object under the schema key ``forgetwatch``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch.errors import SnapshotError
from forgetwatch.files.bounded_parquet import read_parquet
from forgetwatch.files.reading import file_errors
from forgetwatch.files.writing import write_atomically

KEY: Final = b"forgetwatch"
"""Schema key of the metadata."""


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
        what: Its expected content, with its article, as messages name it.
        formats: Possible values of ``format`` in its metadata, the newest first.
        schema: Required columns. Their types are not checked: the caller casts.

    Returns:
        (The columns of `schema` in its order, without schema metadata; the metadata).

    Raises:
        SnapshotError: If there is no such file, if it is damaged, has another format, or lacks a column.
    """
    with file_errors(path, f"{what} in Parquet"):
        table = read_parquet(path)
        names, described = table.schema.names, (table.schema.metadata or {}).get(KEY)
        meta = None if described is None else json.loads(described)
    if described is None:
        raise SnapshotError(f"{path}: a Parquet file, but not {what} that forgetwatch wrote")
    if not isinstance(meta, dict) or meta.get("format") not in formats:
        found = meta.get("format") if isinstance(meta, dict) else meta
        raise SnapshotError(f"{path}: its format is {found!r:.80}, this version reads {formats[0]!r}")
    for name in schema.names:
        if names.count(name) != 1:
            found = "has it twice" if name in names else "has no such column"
            raise SnapshotError(f"{path}: {what} needs the column {name!r} once; the file {found}")
    return table.select(schema.names).replace_schema_metadata(None), meta
