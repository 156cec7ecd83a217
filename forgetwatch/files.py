"""Files: written whole or not at all, and read within bounds, whatever they contain.

Writing. A file is written under a temporary name in its own folder, flushed to disk and renamed, so that a reader and a
crash see the old file or the new one, never a part. The temporary name holds the machine, the process and a random
part: two containers that share a folder may have equal process ids.

Reading. A file from elsewhere may be missing, cut, of another kind, or made to fill the memory. `file_errors` is the
one place that turns what is wrong with a file into an error of forgetwatch, which names the file, what was needed, and
the cause. Only regular files are read: a pipe may never end. Data that grow when they are unpacked are measured first:

    gzip       the unpacked bytes are counted         1 MB of zeros in gzip unpacks to 1 GB
    Parquet    texts are measured in their dictionary  a text of 1 MB in 4,000 rows is 9 kB in the file, 4 GB in memory

forgetwatch's own tables are Parquet files whose metadata are one JSON object under the schema key ``forgetwatch``.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import secrets
import socket
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forgetwatch.errors import ForgetwatchError, SnapshotError
from forgetwatch.parquet_footer import ColumnChunk, read_footer

KEY: Final = b"forgetwatch"
"""Schema key of the metadata."""

DAMAGE: Final = (
    OSError,  # missing, a folder, no permission, a failing disk, no gzip file
    *(EOFError, zlib.error, zipfile.BadZipFile, struct.error),  # compressed data that are cut or damaged
    *(pa.ArrowException, csv.Error),  # Parquet, Zstandard, CSV
    ValueError,  # text that is not UTF-8 or has half a surrogate pair, no JSON, no number
    ArithmeticError,  # a number that its type cannot hold
    *(LookupError, TypeError, AttributeError),  # values of another type or shape than the format has
    RuntimeError,  # nested too deeply (RecursionError), or a feature that the decoder lacks (NotImplementedError)
    MemoryError,  # a size that a damaged file claims
)
"""Exceptions that the content or the place of a file causes in the libraries that read it."""

_BLOCK: Final = 2**20
_MIN_UNPACKED: Final = 2**26
_MIN_UNPACKED_TABLE: Final = 2**29
"""Bytes that any table may unpack to: columns with one value in a million rows are a few bytes in a file."""
_MAX_RATIO: Final = 200
"""Other data may be this many times as large unpacked as in the file. Logs are packed 5 to 25 times."""
_ROWS: Final = 4096
"""Rows of a table that are measured at a time."""
_SHOWN: Final = 200
_MAX_NAME: Final = 200
"""Bytes of a file's name that its temporary name keeps: file systems allow 255."""


class UnsuitableError(ValueError):
    """A file is whole and cannot be used all the same; the message is the reason, without the file."""


@contextmanager
def file_errors(path: str | Path, needed: str, error: type[ForgetwatchError] = SnapshotError) -> Iterator[None]:
    """Raise what goes wrong with a file within the block as an error of forgetwatch.

    Args:
        path: The file.
        needed: Its expected content, with its article, as the message names it: "a gate in YAML".
        error: Class of the error.

    Raises:
        ForgetwatchError: `error` for any of `DAMAGE`, in one line. Errors of forgetwatch pass unchanged.
    """
    try:
        yield
    except UnsuitableError as problem:
        raise error(f"{path}: needed {needed}, got {problem}") from problem
    except FileNotFoundError as problem:
        raise error(f"{path}: no such file; needed {needed}") from problem
    except OSError as problem:
        raise error(f"{path}: needed {needed}, and it cannot be read: {_cause(problem)}") from problem
    except DAMAGE as problem:
        raise error(f"{path}: needed {needed}, and it cannot be read; is it cut? ({_cause(problem)})") from problem


def _cause(problem: BaseException) -> str:
    """The cause of an exception in one line."""
    if isinstance(problem, MemoryError):
        return "it does not fit into the memory"
    if isinstance(problem, RecursionError):
        return "nested too deeply"
    if isinstance(problem, UnicodeDecodeError):
        return f"not UTF-8 text, at byte {problem.start:,}"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    line = " ".join(str(problem).split("\n", maxsplit=1)[0].split())
    # These name a Python value and not what is wrong with it.
    prefix = f"{type(problem).__name__}: " if isinstance(problem, (LookupError, TypeError, AttributeError)) else ""
    return prefix + (line if len(line) <= _SHOWN else f"{line[:_SHOWN]}...") or type(problem).__name__


def read_content(
    path: Path, needed: str, error: type[ForgetwatchError] = SnapshotError, *, limit: int | None = None
) -> bytes:
    """Content of a regular file, unpacked if its name ends in ``.gz``.

    Args:
        path: The file.
        needed: See `file_errors`.
        error: See `file_errors`.
        limit: Maximum size in bytes; None for any. A packed file may be 200 times as large unpacked, or 64 MiB.

    Raises:
        ForgetwatchError: `error` if it is no regular file, cannot be read, or is larger.
    """
    with file_errors(path, needed, error):
        size = regular_size(path)
        if limit is not None and size > limit:
            raise UnsuitableError(f"{size:,} bytes, more than the {limit:,} that are read")
        with path.open("rb") as file:
            # Counted while it is read: a file may grow, and those of the kernel have no size.
            content = _bounded(file.read, unpacked_limit(size) if limit is None else limit)
        if path.suffix == ".gz":
            content = _gunzip(content, unpacked_limit(len(content)) if limit is None else limit)
        return content


def read_text(
    path: Path, needed: str, error: type[ForgetwatchError] = SnapshotError, *, limit: int | None = None
) -> str:
    r"""Content of a regular UTF-8 file as text, without byte order mark, line ends as ``\n``; see `read_content`."""
    content = read_content(path, needed, error, limit=limit)
    with file_errors(path, needed, error):
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")


def regular_size(path: Path) -> int:
    """Size of a regular file in bytes.

    Raises:
        OSError, UnsuitableError: If there is no file, or it is a pipe or a device.
    """
    state = path.stat()
    if not stat.S_ISREG(state.st_mode) and not stat.S_ISDIR(state.st_mode):  # opening a folder has its own error
        raise UnsuitableError("a pipe or device; write it to a file first")
    return state.st_size


def unpacked_limit(packed: int, *, least: int = _MIN_UNPACKED) -> int:
    """Bytes that packed data of this size may unpack to."""
    return max(least, _MAX_RATIO * packed)


def _bounded(read: Callable[[int], bytes], limit: int) -> bytes:
    blocks, size = [], 0
    while block := read(_BLOCK):
        size += len(block)
        if size > limit:
            raise UnsuitableError(f"more than {limit:,} bytes; that is not read")
        blocks.append(block)
    return b"".join(blocks)


def _gunzip(packed: bytes, limit: int) -> bytes:
    """Unpack gzip data of one or several members, within a limit in bytes."""
    blocks, size = [], 0
    while packed:
        member = zlib.decompressobj(wbits=31)  # gzip, with its checksum
        while not member.eof:
            block = member.decompress(packed, _BLOCK)
            packed = member.unconsumed_tail or member.unused_data
            if not block and not packed and not member.eof:
                raise EOFError("not a whole gzip file")
            size += len(block)
            if size > limit:
                raise UnsuitableError(f"gzip data that grow to more than {limit:,} bytes; that is not read")
            blocks.append(block)
        packed = packed.lstrip(b"\0")  # some programs pad the last member
    return b"".join(blocks)


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


def is_text(value: object) -> bool:
    """True for text that UTF-8 can hold: half of a surrogate pair, which JSON can name, cannot be written or shown."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= part <= "\udfff" for part in value))


def holds_text(value: object) -> bool:
    """True if every text in a value of JSON is text by `is_text`, names included."""
    if isinstance(value, str):
        return is_text(value)
    if isinstance(value, Mapping):
        return all(holds_text(name) and holds_text(part) for name, part in value.items())
    return not isinstance(value, (list, tuple)) or all(map(holds_text, value))


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
    partial = path.with_name(_temporary_name(path.name))
    try:
        write(partial)
        # Without the flush a crash after the rename could leave an empty file under the final name.
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _temporary_name(name: str) -> str:
    """Name of a temporary file that no other writer uses, ``.NAME.HOST-PID-RANDOM.partial``."""
    # The process id alone is not enough: containers have process ids, and some of them host names, of their own.
    host = hashlib.sha256(socket.gethostname().encode("utf-8", "replace")).hexdigest()[:6]
    kept = name.encode("utf-8", "ignore")[:_MAX_NAME].decode("utf-8", "ignore")
    # The leading dot hides the file from globs over the folder.
    return f".{kept}.{host}-{os.getpid()}-{secrets.token_hex(6)}.partial"


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
