"""Snapshots of models that were scored before, kept in a folder by what determines their rows.

    ~/.cache/forgetwatch/3f0c41d0...9a.parquet      the first 32 digits of the key
                         3f0c41d0...9a.lock         while a process scores this model on this probe

The key is a digest of everything that determines the rows: the model's files (or the hub's commit), the probe's
fingerprint and labels, the scorer and the grading rules with their versions, and the device. A snapshot holds its key
in its metadata, under the checksum: a model is scored again where the file is damaged or that of another model.

Processes that want the same snapshot at once wait for the first of them to score it. The system frees the lock of a
process that ends, in whatever way. Where a file system has no locks, or the folder cannot be written, each process
scores for itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import ScoringError, SnapshotError
from forgetwatch.files import LocksUnsupportedError, lock_file, unlock_file
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot

DECIDING: Final = (".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".tiktoken", ".py")
"""Suffixes of files with weights, configuration, tokenizer, templates or code: their contents determine the rows."""
_IRRELEVANT: Final = re.compile(r"(trainer_state|training_args|optimizer|scheduler|rng_state).*")
"""Files of a training run with such a suffix that change no row."""
_OTHER_FOLDERS: Final = re.compile(r"\..*|checkpoint-\d+|_?forgetwatch(_follow)?(\.held)?(-\d+)?|__pycache__")
"""Folders beside a model that are no part of it: other checkpoints of its run, records, caches."""
_KEY: Final = "cached_as"
_DIGITS: Final = 32


@dataclass(frozen=True)
class CacheEntry:
    """The place of one snapshot in the cache.

    Attributes:
        path: Its file.
        key: Digest of everything that determines its rows.
    """

    path: Path
    key: str

    @classmethod
    def of(cls, parts: Sequence[Any]) -> CacheEntry:
        """The entry of the parts that determine the rows, JSON values.

        The cache is the folder ``$FORGETWATCH_CACHE``, else ``forgetwatch`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.
        """
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = Path(os.environ.get("FORGETWATCH_CACHE") or caches / "forgetwatch")
        return cls(folder / f"{key[:_DIGITS]}.parquet", key)

    def read(self) -> Snapshot | None:
        """The snapshot; None if there is none, or one that is damaged or of another key."""
        try:
            snapshot = read_snapshot(self.path)
        except (SnapshotError, OSError):
            return None
        if snapshot.meta.get(_KEY) != self.key:
            return None
        # As it was before it was kept.
        return replace(
            snapshot, meta={name: value for name, value in snapshot.meta.items() if name not in (_KEY, "source")}
        )

    def write(self, snapshot: Snapshot) -> None:
        """Keep a snapshot with its key.

        Raises:
            OSError: If the folder cannot be written.
        """
        save_snapshot(replace(snapshot, meta={**snapshot.meta, _KEY: self.key}), self.path)

    @contextmanager
    def locked(self, *, patience: float, on_wait: Callable[[], None]) -> Iterator[bool]:
        """Context in which no other process scores this entry, as far as locks are supported; yields if it is locked.

        Args:
            patience: Seconds after which another process is no longer waited for.
            on_wait: Called once, if another process has the lock.
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


def is_deciding(relative: str) -> bool:
    """True if a file of a model, by its path in the model's folder with ``/``, can decide the rows."""
    *folders, name = relative.split("/")
    return (
        Path(name).suffix in DECIDING
        and not _IRRELEVANT.fullmatch(name)
        and not any(_OTHER_FOLDERS.fullmatch(folder) for folder in folders)
    )


def file_digests(folder: Path) -> list[str]:
    """Relative path and SHA-256 of each file of a model that can decide its rows, sorted.

    Those are the files below the folder with weights, configuration, tokenizer, templates or code, and those that an
    index of shards names, wherever they are.

    Raises:
        ScoringError: If a file cannot be read.
    """
    digests = []
    for file in sorted({*deciding_files(folder), *_indexed(folder)}):
        try:
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise ScoringError(f"{file}: cannot be read ({error.strerror})") from error
        digests.append(f"{Path(os.path.relpath(file, folder)).as_posix()} {digest}")
    return digests


def deciding_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a model's folder whose suffix says that they can decide; links to folders are followed."""
    seen: set[str] = set()
    for path, folders, names in os.walk(folder, followlinks=True):
        # A link may lead back to a folder above.
        if (real := os.path.realpath(path)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not _OTHER_FOLDERS.fullmatch(name)]
        for name in names:
            file = Path(path, name)
            if is_deciding(name) and file.is_file():
                yield file


def _indexed(folder: Path) -> Iterator[Path]:
    """Yield the shards that the folder's indices name."""
    for index in folder.glob("*.index.json"):
        try:
            named = json.loads(index.read_bytes())["weight_map"].values()
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            continue  # the loader refuses it
        for name in set(map(str, named)):
            with suppress(OSError, ValueError):  # a name too long, or with a null byte
                if (file := folder / name).is_file():
                    yield file
