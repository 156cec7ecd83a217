"""The cache of measured snapshots: each model is scored once on a probe.

    ~/.cache/forgetwatch/3f0c41d0...9a.parquet      the first 32 digits of the key
                         3f0c41d0...9a.lock         while a process scores this model on this probe
                         3f0c41d0...9a-0of1.parts   what process 0 of 1 has measured of it, until it is complete

The folder is ``$FORGETWATCH_CACHE``, else ``forgetwatch`` in ``$XDG_CACHE_HOME`` or ``~/.cache``. A snapshot holds its
key, a digest of everything that determines its rows, in its metadata, under the checksum: what is damaged or of another
key is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.files import LocksUnsupportedError, lock_file, unlock_file
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot

LIMIT: Final = 2 * 2**30
"""Bytes of all entries together."""

KEPT_SECONDS: Final = 5.0
"""Seconds of a measurement that is worth keeping."""

_KEY: Final = "cached_as"
_DIGITS: Final = 32
_NAME: Final = re.compile(rf"[0-9a-f]{{{_DIGITS}}}(\.parquet|-\d+of\d+\.parts)")

_HEADER: Final = struct.Struct("<16sdI")
_CHECKSUM: Final = struct.Struct("<I")
"""Before each part: its digest, the seconds that it took and its length; then the checksum of these and of the part."""


def cache_folder() -> Path:
    """Return the folder of the cache, which need not exist."""
    if named := os.environ.get("FORGETWATCH_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forgetwatch"


def cache_files(folder: Path) -> list[Path]:
    """Return the entries in a folder and the parts of unfinished ones, by name; other files are none."""
    return sorted(file for file in folder.glob("*.p*") if _NAME.fullmatch(file.name) and file.is_file())


class MeasuredParts:
    """Parts of a measurement, each written as soon as it is measured, so that an interrupted one continues.

    The first part is measured again before any is used: if it differs in one bit, such as for other code of the model,
    all are dropped. A part that is damaged ends the file: it and what follows are measured again. The cache is
    optional, so that a folder that cannot be written is no error. Nothing is written in the first `KEPT_SECONDS`.

    Attributes:
        seconds: Seconds that the parts took which were read here.
        is_written: True if the file has a part.
    """

    def __init__(self, path: Path) -> None:
        self.seconds = 0.0
        self.is_written = False
        self._path = path
        self._parts: dict[bytes, tuple[float, bytes]] = {}
        self._is_tested = False
        self._waiting = b""  # parts of the first seconds
        self._started = self._latest = time.perf_counter()
        with suppress(OSError):
            content = path.read_bytes()
            end = self._load(content)
            if end < len(content):
                os.truncate(path, end)

    def __len__(self) -> int:
        return len(self._parts)

    def read(self, *key: object) -> bytes | None:
        """Return the part of a key, which determines it; None if it was not measured."""
        seconds, data = self._parts.get(_digest(key), (0.0, None)) if self._is_tested else (0.0, None)
        self.seconds += seconds
        return data

    def peek(self, *key: object) -> bytes | None:
        """Return the part of a key, also before one was measured again; None if it is not there."""
        return self._parts.get(_digest(key), (0.0, None))[1]

    def write(self, data: bytes, *key: object) -> None:
        """Add a part. It took the time since the one before, or since the clock was restarted."""
        digest, now = _digest(key), time.perf_counter()
        spent, self._latest = now - self._latest, now
        if (known := self._parts.get(digest)) is not None:
            if known[1] == data:
                self._is_tested = True
                return
            self.delete()
        header = _HEADER.pack(digest, spent, len(data))
        self._waiting += header + _CHECKSUM.pack(zlib.crc32(header + data)) + data
        if now - self._started >= KEPT_SECONDS:
            with suppress(OSError):
                self._append()

    def restart_clock(self) -> None:
        """Count the time of the next part from now on."""
        self._latest = time.perf_counter()

    def delete(self) -> None:
        """Drop all parts, and delete the file."""
        self._parts.clear()
        self.is_written = False
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _append(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                written = file.write(self._waiting)
            except OSError:
                written = 0
            if written < len(self._waiting):  # the disk is full: a torn part would hide those after it
                file.truncate(size)
                return
        self._waiting, self.is_written = b"", True

    def _load(self, content: bytes) -> int:
        """Read the parts, and return where the last whole one ends."""
        start = 0
        head = _HEADER.size + _CHECKSUM.size
        while start + head <= len(content):
            header = content[start : start + _HEADER.size]
            digest, seconds, length = _HEADER.unpack(header)
            (checksum,) = _CHECKSUM.unpack_from(content, start + _HEADER.size)
            end = start + head + length
            data = content[start + head : end]
            if len(data) < length or zlib.crc32(header + data) != checksum:
                break
            self._parts[digest] = seconds, data
            self.is_written = True
            start = end
        return start


def _digest(key: tuple[object, ...]) -> bytes:
    return hashlib.sha256(repr(key).encode()).digest()[:16]


@dataclass(frozen=True)
class CacheEntry:
    """Entry of one snapshot in the cache: its file, and the digest of everything that determines its rows."""

    path: Path
    key: str

    @classmethod
    def of(cls, parts: Sequence[Any]) -> CacheEntry:
        """Return the entry of the parts that determine the rows, JSON values."""
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return cls(cache_folder() / f"{key[:_DIGITS]}.parquet", key)

    def read(self) -> Snapshot | None:
        """Return the snapshot; None if there is none, or one that is damaged or of another key."""
        try:
            snapshot = read_snapshot(self.path)
        except (SnapshotError, OSError):
            return None
        with suppress(OSError):  # the time of its last use
            os.utime(self.path)
        # As it was before it was kept.
        meta = {name: value for name, value in snapshot.meta.items() if name not in (_KEY, "source")}
        return replace(snapshot, meta=meta) if snapshot.meta.get(_KEY) == self.key else None

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot with its key in place of its parts, and delete what was used least lately beyond `LIMIT`."""
        save_snapshot(replace(snapshot, meta={**snapshot.meta, _KEY: self.key}), self.path)
        folder, states = self.path.parent, dict[Path, os.stat_result]()
        for file in cache_files(folder):
            with suppress(OSError):  # another process may delete it
                if file.name.startswith(f"{self.path.stem}-"):
                    file.unlink()
                else:
                    states[file] = file.stat()
        entries = sorted(states, key=lambda file: states[file].st_mtime, reverse=True)
        for file, total in zip(entries, accumulate(states[file].st_size for file in entries), strict=True):
            if total > LIMIT and file != self.path:
                file.unlink(missing_ok=True)

    def parts(self, *, process: int, processes: int) -> MeasuredParts:
        """Return what a process has measured of this entry before it was interrupted."""
        return MeasuredParts(self.path.with_name(f"{self.path.stem}-{process}of{processes}.parts"))

    @contextmanager
    def locked(self, *, patience: float, on_wait: Callable[[], None]) -> Iterator[bool]:
        """Provide a context in which no other process scores this entry, as far as locks are supported.

        Yields if it is locked.

        Another process is waited for at most `patience` seconds; `on_wait` is called once, if one has the lock.
        """
        path = self.path.with_suffix(".lock")
        try:
            file = lock_file(path, patience=patience, on_wait=on_wait, by_process=False)
        except LocksUnsupportedError:
            file = None
        try:
            yield file is not None
        finally:
            if file is not None:
                unlock_file(path, file)
