"""Files from elsewhere, read within bounds, whatever they contain.

A file may be missing, cut, of another kind, or made to fill the memory. `file_errors` is the one place that turns what
is wrong with a file into an error of forgetwatch, which names the file, what was needed, and the cause. Only regular
files are read: a pipe may never end. The bytes that gzip unpacks to are counted: 1 MB of it may hold 1 GB of zeros.
"""

from __future__ import annotations

import csv
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from forgetwatch.errors import ForgetwatchError, SnapshotError

DAMAGE: Final = (
    OSError,  # missing, a folder, no permission, a failing disk
    *(EOFError, zlib.error, zipfile.BadZipFile, struct.error),  # compressed data that are cut or damaged
    *(pa.ArrowException, csv.Error),  # Parquet, Zstandard, CSV
    ValueError,  # text that is not UTF-8 or has half a surrogate pair, or is not JSON or a number
    ArithmeticError,  # a number that its type cannot hold
    *(LookupError, TypeError, AttributeError),  # values of another type or shape than the format has
    RuntimeError,  # nested too deeply (RecursionError), or a feature that the decoder lacks (NotImplementedError)
    MemoryError,  # a size that a damaged file claims
)
"""Exceptions that the content or the place of a file causes in the libraries that read it."""

_BLOCK: Final = 2**20
_PACKED_BLOCK: Final = 2**14
"""Bytes that are unpacked at a time; zlib copies those that remain after each MiB and each member."""
_MIN_UNPACKED: Final = 2**26
_MAX_RATIO: Final = 200
"""Data may be this many times as large unpacked as in the file. Logs are packed 5 to 25 times."""
_SHOWN: Final = 200


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
    """Content of a regular file, unpacked if its name ends in ``.gz``; errors are those of `file_errors`.

    `limit` is its maximum size in bytes, None for any; a packed file may be 200 times as large unpacked, or 64 MiB.
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
    """Size of a regular file in bytes; OSError or UnsuitableError if there is none, or it is a pipe or a device."""
    state = path.stat()
    if not stat.S_ISREG(state.st_mode) and not stat.S_ISDIR(state.st_mode):  # opening a folder has its own error
        raise UnsuitableError("a pipe or device; write it to a file first")
    return state.st_size


def read_head(path: Path) -> bytes:
    """The first 4 KiB of a regular file; empty for a folder. Errors are those of `regular_size`."""
    regular_size(path)
    if path.is_dir():
        return b""
    with path.open("rb") as file:
        return file.read(4096)


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
    member = zlib.decompressobj(wbits=31)  # gzip, with its checksum
    for start in range(0, len(packed), _PACKED_BLOCK):
        part = packed[start : start + _PACKED_BLOCK]
        while part:
            if member.eof:
                part = part.lstrip(b"\0")  # some programs pad the last member
                if not part:
                    break
                member = zlib.decompressobj(wbits=31)
            block = member.decompress(part, _BLOCK)
            part = member.unconsumed_tail or member.unused_data
            size += len(block)
            if size > limit:
                raise UnsuitableError(f"gzip data that grow to more than {limit:,} bytes; that is not read")
            blocks.append(block)
    if packed and not member.eof:
        raise EOFError("not a whole gzip file")
    return b"".join(blocks)


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
