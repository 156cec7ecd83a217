"""Files that are complete or absent.

A file is written under a temporary name in its own folder, flushed to disk and renamed, so that a
reader and a crash see the old file or the new one, never a part. The temporary name holds the
machine, the process and a random part: two containers that share a folder may have equal process
ids.
"""

import errno
import hashlib
import inspect
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

_OPTIONS: Final = inspect.signature(FileLock.__init__).parameters
NO_SOFT: Final[dict[str, Any]] = (
    {"fallback_to_soft": False} if "fallback_to_soft" in _OPTIONS else {}
)
"""Options of a `FileLock`: where there are no locks there is none, and no file that outlives its owner."""

_MAX_NAME: Final = 200
"""Bytes of a file's name that its temporary name keeps: file systems allow 255."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file atomically by what `write` writes.

    An exception leaves the old file in place. A file that is replaced keeps its mode. Missing
    folders are made. A symbolic link is followed; a device or a pipe is written to directly.
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
        with suppress(OSError):  # there is none yet, or the file system has no modes
            partial.chmod(path.stat().st_mode)
        partial.replace(path)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(partial)):
            error.filename = str(path)  # that of a write names no file, others the temporary one
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_problem(error: OSError, at: Path) -> str:
    """Name the reason and the file of a failed write.

    Args:
        error: The error of the write.
        at: The folder that was written to, for an error that names no file.
    """
    is_full = error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
    )  # the disk, a quota, a limit of the process
    return f"{'disk full' if is_full else error.strerror or error} at {error.filename or at}"


def _temporary_name(name: str) -> str:
    # The process id alone is not enough: containers have process ids, and some of them host names,
    # of their own.
    host = hashlib.sha256(socket.gethostname().encode("utf-8", "replace")).hexdigest()[:6]
    kept = name.encode("utf-8", "ignore")[:_MAX_NAME].decode("utf-8", "ignore")
    # The leading dot hides the file from globs over the folder.
    return f".{kept}.{host}-{os.getpid()}-{secrets.token_hex(6)}.partial"


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, atomically.

    Lone surrogates, which logs hold and UTF-8 does not, become ``?``.
    """
    data = text.encode("utf-8", "replace")
    write_atomically(path, lambda partial: partial.write_bytes(data))
