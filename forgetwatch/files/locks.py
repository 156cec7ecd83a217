"""Locks of files between processes. The system frees them when their process ends, in whatever way.

    with the lock      one process works, another one waits for it up to its patience
    without locks      Windows, some network disks, a folder without write access: `LocksUnsupportedError`

The locked file holds nothing that is needed. The owner deletes it before it frees the lock; a process that waited sees
that the file is gone, and takes a new one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_PAUSE: Final = 0.2
"""Seconds between two attempts."""


class LocksUnsupportedError(OSError):
    """The system or the file system has no locks, or the file cannot be made."""


def lock_file(path: Path, *, patience: float, on_wait: Callable[[], object], by_process: bool) -> int | None:
    """Lock a file, which is made with its folder, and return its descriptor.

    Args:
        path: The file.
        patience: Seconds to wait for the present owner.
        on_wait: Called once if that is necessary.
        by_process: True for a lock that belongs to the process: forked children do not keep it, and a second lock in
            the same process succeeds. False for one that belongs to the descriptor: it also excludes other threads.

    Returns:
        The descriptor; None if the owner has kept the lock longer than the patience.

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
    """True if a path leads to an open file."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except OSError:
        return False
