"""Parquet files: those from elsewhere, measured before they are decoded, and those that forgetwatch writes.

A text of 1 MB in 4,000 rows is 9 kB in a file, and 4 GB in memory. The footer gives the number of
values and their size before compression. Texts are measured in their dictionary, or in batches that
are small enough where each text is stored as its difference from the one before.

forgetwatch's own tables have metadata as one JSON object under the schema key ``forgetwatch``.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forgetwatch.errors import SnapshotError
from forgetwatch.files.reading import UnsuitableError, file_errors, regular_size, unpacked_limit
from forgetwatch.files.writing import write_atomically

KEY: Final = b"forgetwatch"
"""Schema key of the metadata."""

_MIN_UNPACKED_TABLE: Final = 2**29
"""Bytes that any table may unpack to: columns with one value in a million rows are a few bytes in a file."""
_MIN_ROWS: Final = 2**22
"""Rows that any table may have; a larger file may have two for each byte. Equal rows take next to no bytes."""
_ROWS: Final = 2**16
"""Rows of a table that are measured at a time."""
_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4}
"""Bytes of a value by its type, of a text those of its index; 8 for other types."""


def read_parquet(path: Path) -> pa.Table:
    """Read a Parquet file whole.

    A file of more than four million rows has at most two for each of its bytes.

    Raises:
        DAMAGE: If that fails, or the file needs over 200 times its size and 512 MiB.
    """
    for _ in parquet_batches(path, rows=_ROWS):
        pass  # measured before the texts are written out
    with pq.ParquetFile(path) as file:
        table = file.read()
    table.validate(full=True)  # pyarrow itself does not check that texts are UTF-8
    return table


def parquet_batches(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    rows: int,
    kept: bool = True,
    groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of rows of a Parquet file.

    Texts are dictionary arrays where the encoding allows.

    Args:
        path: The file.
        columns: Names of the columns, with dots into objects; None for all.
        rows: Maximum number of rows of a batch.
        kept: True if the caller keeps the rows: then the limit of `read_parquet` holds for all
            batches together, else for each.
        groups: Row groups to read; None for all.
    """
    packed = regular_size(path)
    limit, total = unpacked_limit(packed, least=_MIN_UNPACKED_TABLE), 0
    too_large = UnsuitableError(
        f"one that grows from {packed:,} to more than {limit:,} bytes; that is not read"
    )
    names = None if columns is None else list(columns)
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
        numbers = list(range(metadata.num_row_groups) if groups is None else groups)
        of_groups = [_chunks(check_row_group(file, number), names) for number in numbers]
    if kept and metadata.num_rows > max(_MIN_ROWS, 2 * packed):
        raise UnsuitableError(
            f"one of {metadata.num_rows:,} rows in {packed:,} bytes, more than such a file can hold"
        )
    leaves = {leaf.path: leaf for leaf in map(metadata.schema.column, range(metadata.num_columns))}
    sizes = [
        sum(_least_size(chunk, leaves[chunk.path_in_schema]) for chunk in chunks)
        for chunks in of_groups
    ]
    if (sum(sizes) if kept else max(sizes, default=0)) > limit:
        raise too_large
    chosen = [chunk for chunks in of_groups for chunk in chunks]
    # No text is longer than its chunk before compression, so that a batch of texts is well below
    # the limit.
    different = [
        chunk.total_uncompressed_size for chunk in chosen if "DELTA_BYTE_ARRAY" in chunk.encodings
    ]
    rows = max(1, min(rows, limit // (4 * max([1, *different]))))
    # pyarrow cannot read these as dictionaries.
    deltas = {
        chunk.path_in_schema for chunk in chosen if any("DELTA" in name for name in chunk.encodings)
    }
    texts = [name for name, leaf in leaves.items() if name not in deltas and _is_text(leaf)]
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
        for (
            number
        ) in numbers:  # one by one: pyarrow cannot read texts in objects across two of them
            for batch in file.iter_batches(batch_size=rows, columns=names, row_groups=[number]):
                size = sum(map(_decoded_size, batch.columns))
                total = total + size if kept else size
                if total > limit:
                    raise too_large
                yield batch


def check_row_group(file: pq.ParquetFile, number: int) -> pq.RowGroupMetaData:
    """Check that a row group is whole.

    Returns:
        Its metadata.

    Raises:
        DAMAGE: If the group is not whole.
    """
    # To ask a damaged footer for a column ends the process. A reader parses the same bytes and
    # raises; no row is read. Without columns pyarrow divides by the batch size, and there is
    # nothing to parse.
    if file.metadata.num_columns:
        list(file.reader.iter_batches(0, row_groups=[number]))
    return file.metadata.row_group(number)


def _chunks(
    group: pq.RowGroupMetaData, names: Sequence[str] | None
) -> list[pq.ColumnChunkMetaData]:
    chunks = list(map(group.column, range(group.num_columns)))
    if names is None:
        return chunks
    return [
        chunk
        for chunk in chunks
        if any(f"{chunk.path_in_schema}.".startswith(f"{name}.") for name in names)
    ]


def _least_size(chunk: pq.ColumnChunkMetaData, leaf: pq.ColumnSchema) -> int:
    """Repeated texts are not counted."""
    values, uncompressed = chunk.num_values, chunk.total_uncompressed_size
    if min(values, uncompressed) < 0:
        raise ValueError(
            f"needed sizes of at least 0 in its footer, got {min(values, uncompressed)}"
        )
    width = (
        leaf.length
        if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY"
        else _WIDTHS.get(leaf.physical_type, 8)
    )
    return int(max(values * width, uncompressed))


def _is_text(leaf: pq.ColumnSchema) -> bool:
    return leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type in (
        "STRING",
        "NONE",
        "JSON",
        "ENUM",
    )


def _decoded_size(array: pa.Array) -> int:
    kind = array.type
    if pa.types.is_dictionary(kind):
        if not (pa.types.is_string(kind.value_type) or pa.types.is_binary(kind.value_type)):
            return int(array.nbytes)
        lengths = np.asarray(pc.fill_null(pc.binary_length(array.dictionary), 0), np.int64)
        used = np.asarray(array.indices.drop_null(), np.int64)
        if used.size and used.max() >= len(lengths):
            raise ValueError("dictionary index out of range")
        return int(lengths[used].sum()) + int(array.indices.nbytes)
    if pa.types.is_struct(kind):
        return sum(map(_decoded_size, array.flatten()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return 8 * len(array) + _decoded_size(array.flatten())
    if pa.types.is_map(kind):
        return 8 * len(array) + _decoded_size(array.keys) + _decoded_size(array.items)
    return int(array.nbytes)


def write_table(table: pa.Table, meta: Mapping[str, Any], path: str | Path) -> None:
    """Write a table and JSON metadata as a Parquet file, atomically."""
    described = table.replace_schema_metadata({KEY: json.dumps(dict(meta)).encode()})
    write_atomically(
        Path(path), lambda partial: pq.write_table(described, partial, compression="zstd")
    )


def checksum_with(rows: str, meta: Mapping[str, Any]) -> str:
    """Hash a checksum of rows with metadata, in any order of keys.

    Returns:
        32 hex digits of SHA-256.
    """
    # Through JSON and back: keys are sorted as the texts that they are in a file.
    canonical = json.dumps(json.loads(json.dumps(dict(meta))), sort_keys=True)
    return hashlib.sha256(f"{rows}\n{canonical}".encode()).hexdigest()[:32]


def read_table(
    path: Path,
    *,
    what: str,
    format: str,
    schema: pa.Schema,
    optional: Sequence[str] = (),
) -> tuple[pa.Table, dict[str, Any]]:
    """Read a file that `write_table` wrote.

    Args:
        path: The file.
        what: Its expected content, with its article, as messages name it.
        format: Value of ``format`` in its metadata.
        schema: The columns. Their types are not checked: the caller casts.
        optional: Those that are null where the file lacks them; all others are required.

    Returns:
        The columns of `schema` in that order, without metadata; the metadata.

    Raises:
        SnapshotError: If there is no such file, if it is damaged, has another format, or lacks a
            column.
    """
    with file_errors(path, f"{what} in Parquet"):
        table = read_parquet(path)
        names, described = table.schema.names, (table.schema.metadata or {}).get(KEY)
        meta = None if described is None else json.loads(described)
    if described is None:
        raise SnapshotError(f"{path}: a Parquet file, but not {what} that forgetwatch wrote")
    if not isinstance(meta, dict) or meta.get("format") != format:
        format_found = meta.get("format") if isinstance(meta, dict) else meta
        raise SnapshotError(
            f"{path}: its format is {format_found!r:.80}, this version reads {format!r}; "
            "another version of forgetwatch wrote it, or it is damaged: measure the model again"
        )
    for name in schema.names:
        if name in optional and name not in names:
            table = table.append_column(name, pa.nulls(len(table), schema.field(name).type))
        elif names.count(name) != 1:
            format_found = "has it twice" if name in names else "has no such column"
            raise SnapshotError(
                f"{path}: {what} needs the column {name!r} once; the file {format_found}"
            )
    return table.select(schema.names).replace_schema_metadata(None), meta
