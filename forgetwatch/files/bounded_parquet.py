"""Parquet files from elsewhere, measured before they are decoded.

A text of 1 MB in 4,000 rows is 9 kB in a file, and 4 GB in memory. So the numbers of values come from the footer, and
texts are measured in their dictionary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forgetwatch.files.parquet_footer import ColumnChunk, read_footer
from forgetwatch.files.reading import UnsuitableError, regular_size, unpacked_limit

_MIN_UNPACKED_TABLE: Final = 2**29
"""Bytes that any table may unpack to: columns with one value in a million rows are a few bytes in a file."""
_ROWS: Final = 4096
"""Rows of a table that are measured at a time."""


def read_parquet(path: Path, *, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file whole.

    Args:
        path: The file.
        columns: Names of the columns, with dots into objects; None for all.

    Raises:
        Exception: One of `DAMAGE`, if it cannot be read, or its values need more than 200 times its size and 512 MiB.
    """
    for _ in parquet_batches(path, columns=columns, rows=_ROWS):
        pass  # measured before the texts are written out
    with pq.ParquetFile(path) as file:
        table = file.read(columns=None if columns is None else list(columns))
    table.validate(full=True)  # pyarrow itself does not check that texts are UTF-8
    return table


def parquet_batches(
    path: Path, *, columns: Sequence[str] | None = None, rows: int, kept: bool = True
) -> Iterator[pa.RecordBatch]:
    """Batches of rows of a Parquet file; their texts are dictionary arrays.

    Args:
        path: The file.
        columns: Names of the columns, with dots into objects; None for all.
        rows: Maximum number of rows of a batch.
        kept: True if the caller keeps the rows: then the limit of `read_parquet` holds for all batches together, else
            for each.

    Raises:
        Exception: One of `DAMAGE`; see `read_parquet`.
    """
    packed = regular_size(path)
    limit, total = unpacked_limit(packed, least=_MIN_UNPACKED_TABLE), 0
    names = None if columns is None else list(columns)
    groups = [_declared_size(chunks, names) for chunks in read_footer(path)]
    if (sum(groups) if kept else max(groups, default=0)) > limit:
        raise _table_bomb(packed, limit)
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=_text_columns(metadata)) as file:
        for batch in file.iter_batches(batch_size=rows, columns=names):
            size = sum(map(_decoded_size, batch.columns))
            total = total + size if kept else size
            if total > limit:
                raise _table_bomb(packed, limit)
            yield batch


def _table_bomb(packed: int, limit: int) -> UnsuitableError:
    return UnsuitableError(f"one that grows from {packed:,} to more than {limit:,} bytes; that is not read")


def _text_columns(metadata: pq.FileMetaData) -> list[str]:
    """Paths of the columns of texts and bytes, also within objects and lists."""
    columns = (metadata.schema.column(number) for number in range(metadata.num_columns))
    return [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type in ("STRING", "NONE", "JSON", "ENUM")
    ]


def _declared_size(chunks: Sequence[ColumnChunk], names: Sequence[str] | None) -> int:
    """Bytes that the values of a group of rows need at least; those of texts are not among them."""
    return sum(
        chunk.values * chunk.width
        for chunk in chunks
        if names is None or any(f"{chunk.path}.".startswith(f"{name}.") for name in names)
    )


def _decoded_size(array: pa.Array) -> int:
    """Bytes of an array once its dictionaries are written out."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        if not (pa.types.is_string(kind.value_type) or pa.types.is_binary(kind.value_type)):
            return int(array.nbytes)
        lengths = np.asarray(pc.fill_null(pc.binary_length(array.dictionary), 0), np.int64)
        used = np.asarray(array.indices.drop_null(), np.int64)
        if used.size and used.max() >= len(lengths):
            raise ValueError("an index beyond its dictionary")
        return int(lengths[used].sum()) + int(array.indices.nbytes)
    if pa.types.is_struct(kind):
        return sum(map(_decoded_size, array.flatten()))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return 8 * len(array) + _decoded_size(array.flatten())
    if pa.types.is_map(kind):
        return 8 * len(array) + _decoded_size(array.keys) + _decoded_size(array.items)
    return int(array.nbytes)
