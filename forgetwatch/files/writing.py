"""Files that are complete or absent, and locks of files between processes.

A file is written under a temporary name in its own folder, flushed to disk and renamed, so that a reader and a crash
see the old file or the new one, never a part. The temporary name holds the machine, the process and a random part: two
containers that share a folder may have equal process ids.

The system frees a lock when its process ends, in whatever way. The locked file holds nothing that is needed. The owner
deletes it before it frees the lock; a process that waited sees that the file is gone, and takes a new one. Windows and
some network disks have no locks, nor has a folder without write access: `LocksUnsupportedError`.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MAX_NAME: Final = 200
"""Bytes of a file's name that its temporary name keeps: file systems allow 255."""
_PAUSE: Final = 0.2
"""Seconds between two attempts to lock a file."""


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file next to `path`, flush it, and rename it to `path`.

    An exception leaves the old file in place. Missing folders are made. A symbolic link is followed; a device
    or a pipe is written to directly.
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
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(partial)):
            error.filename = str(path)  # that of a write names no file, others the temporary one
        raise
    finally:
        partial.unlink(missing_ok=True)


def write_problem(error: OSError, at: Path) -> str:
    """Return the reason of a failed write and its file, such as ``disk full at run/step-000020.parquet``.

    Args:
        error: The error of the write.
        at: The folder that was written to, for an error that names no file.
    """
    is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota, a limit of the process
    return f"{'disk full' if is_full else error.strerror or error} at {error.filename or at}"


def _temporary_name(name: str) -> str:
    """Return the name of a temporary file that no other writer uses, ``.NAME.HOST-PID-RANDOM.partial``."""
    # The process id alone is not enough: containers have process ids, and some of them host names, of their own.
    host = hashlib.sha256(socket.gethostname().encode("utf-8", "replace")).hexdigest()[:6]
    kept = name.encode("utf-8", "ignore")[:_MAX_NAME].decode("utf-8", "ignore")
    # The leading dot hides the file from globs over the folder.
    return f".{kept}.{host}-{os.getpid()}-{secrets.token_hex(6)}.partial"


def write_text(path: Path, text: str) -> None:
    """Write a text as UTF-8, whole or not at all; lone surrogates, which logs hold and UTF-8 does not, become ``?``."""
    data = text.encode("utf-8", "replace")
    write_atomically(path, lambda partial: partial.write_bytes(data))


class LocksUnsupportedError(OSError):
    """The system or the file system has no locks, or the file cannot be made."""


def lock_file(path: Path, *, patience: float, on_wait: Callable[[], object], by_process: bool) -> int | None:
    """Lock a file, which is made with its folder; the descriptor, or None if its owner keeps it beyond the patience.

    Args:
        path: The file.
        patience: Seconds to wait for the present owner.
        on_wait: Called once if that is necessary.
        by_process: True for a lock that belongs to the process: forked children do not keep it, and a second lock in
            the same process succeeds. False for one that belongs to the descriptor: it also excludes other threads.

    Raises:
        LocksUnsupportedError: If there are no locks.
    """
    if fcntl is None:
        raise LocksUnsupportedError("the system has no locks of files")
    lock = fcntl.lockf if by_process else fcntl.flock
    until, has_waited = time.monotonic() + patience, False
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise LocksUnsupportedError(str(error)) from error
        try:
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):  # either, by the system
            os.close(file)
        except OSError as error:
            os.close(file)
            raise LocksUnsupportedError(str(error)) from error
        else:
            if is_file_at(path, file):
                return file
            os.close(file)  # the last owner has deleted it in between
            continue
        if time.monotonic() >= until:
            return None
        if not has_waited:
            on_wait()
            has_waited = True
        time.sleep(_PAUSE)


def lock_again(file: int) -> bool:
    """Re-acquire a process lock on an open file; True on success."""
    if fcntl is None:
        return True
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def unlock_file(path: Path, file: int) -> None:
    """Delete a locked file and free its lock."""
    with suppress(OSError):
        # Before the lock is freed, and only if it is still this file.
        if is_file_at(path, file):
            path.unlink()
    with suppress(OSError):
        os.close(file)


def is_file_at(path: Path, file: int) -> bool:
    """Return True if a path leads to an open file."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False
