"""The cache of measured snapshots: each model is scored once on a probe.

    ~/.cache/forgetwatch/3f0c41d0...9a.parquet      the first 32 digits of the key
                         3f0c41d0...9a.lock         while a process scores this model on this probe

The folder is ``$FORGETWATCH_CACHE``, else ``forgetwatch`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. A
snapshot holds its key, a digest of everything that determines its rows, in its metadata, under the
checksum: what is damaged or of another key is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from forgetwatch.errors import SnapshotError
from forgetwatch.files.writing import NO_SOFT
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot

LIMIT: Final = 2 * 2**30
"""Bytes of all entries together."""

KEPT_SECONDS: Final = 5.0
"""Seconds of a measurement that is worth keeping."""

_KEY: Final = "cached_as"
_DIGITS: Final = 32
_NAME: Final = re.compile(rf"[0-9a-f]{{{_DIGITS}}}\.parquet")


def cache_folder() -> Path:
    """Locate the folder of the cache.

    Returns:
        Its path; the folder need not exist.
    """
    if folder := os.environ.get("FORGETWATCH_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forgetwatch"


def cache_files(folder: Path) -> list[Path]:
    """List the entries of a cache folder, by name."""
    return sorted(
        file for file in folder.glob("*.parquet") if _NAME.fullmatch(file.name) and file.is_file()
    )


@dataclass(frozen=True)
class CacheEntry:
    """Entry of one snapshot in the cache: its file, and the digest of everything that determines its rows."""

    path: Path
    key: str

    @classmethod
    def of(cls, parts: Sequence[Any]) -> CacheEntry:
        """Make the entry for the values that determine its rows.

        Args:
            parts: JSON values.
        """
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return cls(cache_folder() / f"{key[:_DIGITS]}.parquet", key)

    def read(self) -> Snapshot | None:
        """Read the snapshot of the entry.

        Returns:
            The snapshot, or None if there is none, or a damaged one, or one of another key.
        """
        try:
            snapshot = read_snapshot(self.path)
        except (SnapshotError, OSError):
            return None
        with suppress(OSError):  # the time of its last use
            os.utime(self.path)
        # As it was before it was kept.
        meta = {
            name: value for name, value in snapshot.meta.items() if name not in (_KEY, "source")
        }
        return replace(snapshot, meta=meta) if snapshot.meta.get(_KEY) == self.key else None

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot with its key.

        Deletes the entries used least recently beyond `LIMIT`.
        """
        save_snapshot(replace(snapshot, meta={**snapshot.meta, _KEY: self.key}), self.path)
        folder, states = self.path.parent, dict[Path, os.stat_result]()
        for file in cache_files(folder):
            with suppress(OSError):  # another process may delete it
                states[file] = file.stat()
        entries = sorted(states, key=lambda file: states[file].st_mtime, reverse=True)
        for file, total in zip(
            entries, accumulate(states[file].st_size for file in entries), strict=True
        ):
            if total > LIMIT and file != self.path:
                file.unlink(missing_ok=True)

    @contextmanager
    def locked(self, *, patience: float, on_wait: Callable[[], None]) -> Iterator[bool]:
        """Lock the entry against other processes and threads.

        Yields if it is locked. The present owner is waited for at most `patience` seconds;
        `on_wait` is called once, if there is one.
        """
        lock = FileLock(self.path.with_suffix(".lock"), **NO_SOFT)
        with suppress(OSError, NotImplementedError):  # no locks here, or the patience is over
            self.path.parent.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                on_wait()
                lock.acquire(timeout=patience)
        try:
            yield lock.is_locked
        finally:
            lock.release()
