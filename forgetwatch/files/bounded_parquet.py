"""Parquet files from elsewhere, measured before they are decoded.

A text of 1 MB in 4,000 rows is 9 kB in a file, and 4 GB in memory. The footer gives the number of values and their
size before compression. Texts are measured in their dictionary, or in batches that are small enough where each text is
stored as its difference from the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
_DELTA_LENGTH, _DELTA_TEXT = 6, 7
"""Codes of the encodings of texts (their lengths; their differences) that pyarrow cannot read as dictionaries."""


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
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    rows: int,
    kept: bool = True,
    groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of rows of a Parquet file; texts are dictionary arrays where their encoding allows it.

    Args:
        path: The file.
        columns: Names of the columns, with dots into objects; None for all.
        rows: Maximum number of rows of a batch.
        kept: True if the caller keeps the rows: then the limit of `read_parquet` holds for all batches together, else
            for each.
        groups: Row groups to read; None for all.

    Raises:
        Exception: One of `DAMAGE`; see `read_parquet`.
    """
    packed = regular_size(path)
    limit, total = unpacked_limit(packed, least=_MIN_UNPACKED_TABLE), 0
    names = None if columns is None else list(columns)
    of_groups = [[chunk for chunk in chunks if _is_chosen(chunk, names)] for chunks in read_footer(path)]
    chosen_groups = list(range(len(of_groups))) if groups is None else list(groups)
    of_groups = [of_groups[number] for number in chosen_groups]
    with pq.ParquetFile(path) as file:
        metadata = file.metadata
    lengths = _fixed_lengths(metadata)
    sizes = [sum(_least_size(chunk, lengths) for chunk in chunks) for chunks in of_groups]
    if (sum(sizes) if kept else max(sizes, default=0)) > limit:
        raise _table_bomb(packed, limit)
    chosen = [chunk for chunks in of_groups for chunk in chunks]
    # No text is longer than its chunk before compression, so that a batch of texts is well below the limit.
    longest = max((chunk.uncompressed for chunk in chosen if _DELTA_TEXT in chunk.encodings), default=1)
    rows = max(1, min(rows, limit // (4 * max(1, longest))))
    deltas = {chunk.path for chunk in chosen if chunk.encodings & {_DELTA_LENGTH, _DELTA_TEXT}}
    texts = [name for name in _text_columns(metadata) if name not in deltas]
    with pq.ParquetFile(path, metadata=metadata, read_dictionary=texts) as file:
        for batch in file.iter_batches(batch_size=rows, columns=names, row_groups=chosen_groups):
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


def _is_chosen(chunk: ColumnChunk, names: Sequence[str] | None) -> bool:
    """True for a chunk of one of the columns of these names, or of a part of one."""
    return names is None or any(f"{chunk.path}.".startswith(f"{name}.") for name in names)


def _fixed_lengths(metadata: pq.FileMetaData) -> dict[str, int]:
    """Bytes of a value by the paths of the columns whose values have a fixed length."""
    columns = (metadata.schema.column(number) for number in range(metadata.num_columns))
    return {column.path: column.length for column in columns if column.physical_type == "FIXED_LEN_BYTE_ARRAY"}


def _least_size(chunk: ColumnChunk, lengths: Mapping[str, int]) -> int:
    """Bytes that the values of a chunk need at least; repeated texts are not among them."""
    return max(chunk.values * lengths.get(chunk.path, chunk.width), chunk.uncompressed)


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
