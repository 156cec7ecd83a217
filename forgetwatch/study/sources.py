"""A source of a study to a snapshot. Scored models are kept in the study's folder, so that a killed study resumes.

    STUDY/snapshots/Llama-3.1-8B-3f0c41d07a6b.parquet

The digits are a digest of the model (of a folder: the names, sizes and times of its files, and of those of an adapter's
base), the probe with its settings, and the version of forgetwatch: a folder that changed is scored again. A model id of
the hub stays what it was when it was scored; delete its file to score it again. The cache of `scoring.checkpoints` lies
behind it. Files of outcomes are read each time, and nothing is imported that scoring needs.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from forgetwatch.comparing import OnMismatch
from forgetwatch.decoding import Decoding
from forgetwatch.errors import ForgetwatchError, SnapshotError, StudyError
from forgetwatch.pairing import item_codes
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.readers import SUFFIXES, concatenate, is_outcomes, read_mapped
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot
from forgetwatch.study.plan import Source

SNAPSHOTS: Final = "snapshots"
"""Folder of the scored models in the folder of a study."""
_DIGITS: Final = 12

Resolve = Callable[[str, Probe | None, str | None], Snapshot]
"""Function of a path or model id, a probe and a metric to a snapshot: it reads files and scores models."""


class Sources:
    """The sources of a study, read or scored one by one.

    Args:
        folder: Folder of the study; scored models are kept in it.
        resolve: Reads a file of outcomes, or scores a model.
        is_first: True in the process that writes files.
        is_alone: False where several processes score together.
    """

    def __init__(self, folder: Path, resolve: Resolve, *, is_first: bool = True, is_alone: bool = True) -> None:
        self._folder, self._resolve, self._is_first, self._is_alone = folder / SNAPSHOTS, resolve, is_first, is_alone
        self._probes: dict[str, Probe] = {}
        self._failed: dict[Path, str] = {}

    def load_probes(self, sources: Iterable[Source]) -> None:
        """Load the probes of all models, before any of them is scored.

        Raises:
            ProbeError: If a probe cannot be loaded.
            StudyError: If settings do not fit a probe.
        """
        for source in sources:
            if is_model(source):
                self.probe_of(source)

    def probe_of(self, source: Source) -> Probe | None:
        """Probe by which a source is scored, with its own settings; None if it has none."""
        if source.probe is None:
            return None
        key = json.dumps([source.probe, dict(source.decoding), source.rendering], sort_keys=True)
        if key not in self._probes:
            self._probes[key] = _with_settings(load_probe(source.probe), source)
        return self._probes[key]

    def sides(
        self, before: Sequence[Source], after: Sequence[Source], *, on_mismatch: OnMismatch, ignore_examples: bool
    ) -> tuple[Snapshot, Snapshot]:
        """Snapshots of both sides of a pair, with as many samples of each item; the sample of seed j is j.

        Args:
            before: One source for each seed, or one for all: with one answer to each item, or with a sample for each
                seed.
            after: The same, after.
            on_mismatch: ``intersect`` leaves out items that some file of a side lacks; by default they are an error.
            ignore_examples: Identify questions without the worked examples before them, where the side was scored here:
                two sides with unlike prompts would else share no question.

        Raises:
            ForgetwatchError: If a source cannot be read or scored, several do not make one side, or both sides have
                several samples and unlike numbers of them.
        """
        one, other = (
            self._side(sources, on_mismatch=on_mismatch, ignore_examples=ignore_examples) for sources in (before, after)
        )
        samples = _samples(one), _samples(other)
        if min(samples) > 1 and samples[0] != samples[1]:
            raise StudyError(
                f"{one.label} has {samples[0]} answers to an item and {other.label} has {samples[1]}; give as many on "
                "both sides, or one on one side, which is then compared with each of the other"
            )
        return _repeated(one, max(samples)), _repeated(other, max(samples))

    def _side(self, sources: Sequence[Source], *, on_mismatch: OnMismatch, ignore_examples: bool) -> Snapshot:
        read = [self._read(source, ignore_examples=ignore_examples) for source in sources]
        if len(read) == 1:
            return read[0]
        for snapshot in read:
            if (samples := _samples(snapshot)) > 1:
                raise StudyError(
                    f"{snapshot.label} has {samples} answers to an item, and in a list each file is one seed; give it "
                    "alone, or one file for each seed"
                )
        return _with_all_seeds(concatenate(read, as_samples=True), sources, read, on_mismatch)

    def _read(self, source: Source, *, ignore_examples: bool) -> Snapshot:
        if source.columns is not None:
            return read_mapped(source.location, source.columns)
        if not is_model(source):
            return self._resolve(source.location, None, source.metric)
        probe = self.probe_of(source)
        if probe is None or source.metric is not None:
            return self._resolve(source.location, probe, source.metric)  # which says what is wrong
        snapshot = self._scored(source, probe)
        return _without_examples(snapshot, probe) if ignore_examples else snapshot

    def _scored(self, source: Source, probe: Probe) -> Snapshot:
        """Snapshot of a model: the one that is kept, or a new one, which is kept."""
        path = self._folder / f"{_file_name(source.given)}-{_key(source, probe)}.parquet"
        # Of several processes only one may have this folder; together they have the cache of the first.
        if self._is_alone:
            with suppress(SnapshotError, OSError):  # none, or a damaged one
                kept = read_snapshot(path)
                return replace(kept, meta={name: value for name, value in kept.meta.items() if name != "source"})
        # A model of several pairs fails once: to load it, or to run out of memory, may have taken an hour.
        if path in self._failed:
            raise StudyError(self._failed[path])
        try:
            snapshot = self._resolve(source.location, probe, None)
        except ForgetwatchError as error:
            self._failed[path] = str(error)
            raise
        if self._is_first:
            save_snapshot(snapshot, path)
        return snapshot


def is_model(source: Source) -> bool:
    """True for what is scored: a folder with a model, or a name that is neither a path nor there."""
    path = Path(source.location)
    if source.columns is not None or is_outcomes(source.location):
        return False
    return path.exists() or not (path.suffix in SUFFIXES or source.location.startswith((".", "/")))


def _samples(snapshot: Snapshot) -> int:
    """Number of samples of the items of a snapshot."""
    return len(np.unique(snapshot.ints("sample")))


def _with_all_seeds(
    joined: Snapshot, sources: Sequence[Source], read: Sequence[Snapshot], on_mismatch: OnMismatch
) -> Snapshot:
    """Snapshot of several files with the items that are in all of them."""
    items = item_codes(joined)
    in_all = np.bincount(items) == len(read)
    if in_all.all():
        return joined
    if on_mismatch != "intersect" or not in_all.any():
        rows = [len(one) for one in read]
        short = sources[rows.index(min(rows))].given
        remedy = "compare those that all have with on_mismatch: intersect"
        raise StudyError(
            f"{short} is one of {len(read)} seeds, which need the same items: {int((~in_all).sum()):,} are not in all "
            f"of their files; {remedy if in_all.any() else 'they have no item in common'}"
        )
    note = f"{int((~in_all).sum()):,} items that are not in the files of all its seeds are left out"
    return replace(joined, table=joined.table.filter(pa.array(in_all[items])), notes=(*joined.notes, note))


def _repeated(snapshot: Snapshot, seeds: int) -> Snapshot:
    """Snapshot with one answer to each item as the same answer for each seed; one with several as it is."""
    return snapshot if _samples(snapshot) == seeds else concatenate([snapshot] * seeds, as_samples=True)


def _with_settings(probe: Probe, source: Source) -> Probe:
    """Probe with the settings of a source."""
    changes: dict[str, Any] = {} if source.rendering is None else {"rendering": source.rendering}
    try:
        if source.decoding:
            own = probe.decoding.to_json() if isinstance(probe.decoding, Decoding) else {}
            return replace(probe, **changes, decoding={**own, **source.decoding})
        return replace(probe, **changes)
    except ForgetwatchError as error:
        raise StudyError(f"{source.given}: the settings do not fit its probe: {error}") from error


def _key(source: Source, probe: Probe) -> str:
    """Digest of what determines the rows of a scored model, as far as it is known without reading the weights."""
    labels = [[item.task, item.id, item.category, item.cluster] for item in probe]
    parts = [
        source.location,
        _stamps(Path(source.location)),
        probe.name,
        probe.fingerprint,
        labels,
        version("forgetwatch"),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGITS]


def _stamps(folder: Path, adapters: frozenset[Path] = frozenset()) -> list[list[Any]]:
    """Name, size and time of each file of a model's folder, then of its base's if it is an adapter's; else nothing."""
    if not folder.is_dir():
        return []
    files = sorted(path for path in folder.iterdir() if path.is_file())
    found = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    if (folder / "adapter_config.json").is_file() and folder.resolve() not in adapters:
        # What is wrong with an adapter is said when it is loaded.
        with suppress(OSError, ValueError, TypeError, KeyError):
            config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
            found += _stamps(Path(config["base_model_name_or_path"]), adapters | {folder.resolve()})
    return found


def _file_name(given: str) -> str:
    """Part of a file name for a path or a model id: its last name."""
    last = given.rstrip("/").rsplit("/", maxsplit=1)[-1]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.")[:60] or "model"


def _without_examples(snapshot: Snapshot, probe: Probe) -> Snapshot:
    """Snapshot whose questions are identified without the worked examples before them."""
    if not any(item.shots for item in probe):
        return snapshot
    hashes = {(item.task, item.id): replace(item, shots="").content_hash for item in probe}
    found = [hashes[key] for key in zip(snapshot.texts("task"), snapshot.texts("item_id"), strict=True)]
    position = snapshot.table.column_names.index("content_hash")
    table = snapshot.table.set_column(position, "content_hash", pa.array(found, pa.string()))
    return replace(snapshot, table=table)
