"""Folders of points, each with a whole model: room for them, and their removal, also of those that a kill left behind.

    forgetwatch-merge-3f0c41d0           a model, in the folder for temporary files
    forgetwatch-merge-3f0c41d0.lock      locked as long as the process that writes it lives

The system frees the lock of a process that ends, in whatever way. A folder with a lock that is free is abandoned: the
next merge removes it. Where a file system has no locks, there is no lock file, and nothing is taken for abandoned.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from forgetwatch.errors import ScoringError
from forgetwatch.files import LocksUnsupportedError, lock_file, unlock_file

_TEMPORARY: Final = "forgetwatch-merge-"
_PARTIAL: Final = ".partial"
_LOCK: Final = ".lock"
MORE_ROOM: Final = "make room, or name a folder on another disk (TMPDIR, or --keep)"
"""Remedy for a disk that is full."""


def temporary_name() -> Path:
    """Path of a new folder for a point that is deleted."""
    return Path(gettempdir(), f"{_TEMPORARY}{secrets.token_hex(8)}")


def partial_name(kept: Path) -> Path:
    """Path of a new folder next to that of a point that is kept, in which the point is written."""
    return kept.with_name(f".{kept.name}.{secrets.token_hex(6)}{_PARTIAL}")


@contextmanager
def own_folder(path: Path) -> Iterator[Path]:
    """Context of a folder that belongs to this process; it is removed at the end, unless it was renamed.

    Args:
        path: The folder, which is not there yet; the one above it is made.
    """
    lock = path.with_name(path.name + _LOCK)
    try:
        file = lock_file(lock, patience=0, on_wait=lambda: None, by_process=False)
    except LocksUnsupportedError:
        file = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Folders for temporary files are often open to all: what is made of private models stays private there.
        path.mkdir(mode=0o700 if path.name.startswith(_TEMPORARY) else 0o777)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
    finally:
        if file is not None:
            unlock_file(lock, file)


def remove_abandoned(keep: Path | None) -> list[Path]:
    """Remove the folders of processes that were killed, and return those that are gone.

    Args:
        keep: Folder of points that are kept, which may hold half-written ones; None for none.
    """
    locks = [*Path(gettempdir()).glob(f"{_TEMPORARY}*{_LOCK}")]
    locks += [] if keep is None else keep.glob(f".*{_PARTIAL}{_LOCK}")
    removed = []
    for lock in locks:
        folder = lock.with_name(lock.name.removesuffix(_LOCK))
        if (file := _locked_at_once(lock)) is None:
            continue
        was_there = folder.is_dir()
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            removed += [folder] if was_there else []
            unlock_file(lock, file)
        else:  # of another user, or on a disk that does not let it go
            os.close(file)
    return removed


def _locked_at_once(lock: Path) -> int | None:
    """Descriptor of a lock file that no process holds; None if one does, or it cannot be locked."""
    try:
        return lock_file(lock, patience=0, on_wait=lambda: None, by_process=False)
    except LocksUnsupportedError:
        return None


def check_disk(folder: Path, needed: int, *, models: int) -> None:
    """Raise if merged models would not fit onto the disk of a folder.

    Args:
        folder: The folder, or one above it that is there.
        needed: Bytes of one model.
        models: Models that are there at the same time.

    Raises:
        ScoringError: If they would not.
    """
    free, whole = shutil.disk_usage(folder).free, needed * models
    if whole > free:
        named = "one merged model" if models == 1 else f"{models} merged models"
        raise ScoringError(
            f"{folder}: needed {whole / 2**30:,.2f} GiB for {named}, {free / 2**30:,.2f} GiB are free; {MORE_ROOM}"
        )
