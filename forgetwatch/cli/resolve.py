"""One side of a comparison, as the command line names it: a file of outcomes, a folder of logs, or a model to score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa

from forgetwatch.cli.output import bytes_bar, items_bar
from forgetwatch.comparing.flips import Flip, What, sort_flips
from forgetwatch.errors import SnapshotError
from forgetwatch.probe import Probe
from forgetwatch.readers import load_snapshot
from forgetwatch.readers.question_text import QuestionStore, QuestionText
from forgetwatch.snapshot import Snapshot

_QUESTIONS = 2000
"""Items of each kind whose questions are read: as many as any report lists, and more."""

_FILE_SUFFIXES = (".parquet", ".csv", ".jsonl", ".json", ".eval")


def outcomes(path: Path, metric: str | None = None) -> Snapshot:
    """What a file or a folder of outcomes holds; a long one shows how far it is read.

    Raises:
        SnapshotError: See `readers.load_snapshot`.
    """
    with bytes_bar(f"reading {path}") as progress:
        return load_snapshot(path, metric=metric, progress=progress)


def side(given: str, probe: Probe | None, metric: str | None = None) -> Snapshot:
    """A file or folder of outcomes, or a model that is scored, once.

    Raises:
        SnapshotError: If it is neither, or a model and no probe is named.
    """
    path = Path(given)
    is_model = path.is_dir() and any((path / name).is_file() for name in ("config.json", "adapter_config.json"))
    if path.exists() and not is_model:
        return outcomes(path, metric)
    if not is_model and (path.is_symlink() or path.suffix in _FILE_SUFFIXES or given.startswith((".", "/"))):
        raise SnapshotError(f"{given}: no such file or folder")
    if probe is None and is_model:
        raise SnapshotError(f"{given}: a model folder; a model needs --probe to be scored on")
    if probe is None:
        raise SnapshotError(f"{given}: no such file or folder; a model id needs --probe to be scored on")
    from forgetwatch.scoring.checkpoints import score_checkpoint, silence_loading

    silence_loading()
    with items_bar(f"scoring {given}") as progress:
        return score_checkpoint(given, probe, progress=progress)


def with_questions(changed: list[Flip], given: str, snapshot: Snapshot, metric: str | None) -> list[Flip]:
    """The flips with their questions in words, which a second pass takes from another tool's log.

    Args:
        changed: The items whose answer changed.
        given: What the command line named as the side before.
        snapshot: What was read there.
        metric: As it was read.
    """
    if "tool" not in snapshot.meta or not Path(given).exists() or all(flip.item for flip in changed):
        return changed
    surest = {what: [flip for flip in sort_flips(changed) if flip.what == what][:_QUESTIONS] for what in get_args(What)}
    store = QuestionStore(flip.content_hash for some in surest.values() for flip in some if flip.content_hash)
    with bytes_bar(f"reading questions in {given}") as progress:
        load_snapshot(given, metric=metric, progress=progress, kept=store)
    return [replace(flip, item=flip.item or _question_text(flip, store)) for flip in changed]


def _question_text(flip: Flip, store: QuestionStore) -> QuestionText | None:
    text = store.texts.get(flip.content_hash or "")
    # Documents list options that were not offered: an open answer has none.
    return replace(text, choices=()) if text is not None and flip.k is None else text


def only(
    snapshot: Snapshot, *, tasks: Sequence[str] = (), categories: Sequence[str] = (), items: Sequence[str] = ()
) -> Snapshot:
    """The rows of some tasks, categories and item ids; all of them where none is named.

    Raises:
        SnapshotError: If there is no such task, category or item, or no row is in all of them.
    """
    kept = np.ones(len(snapshot), bool)
    for name, wanted in (("task", tasks), ("category", categories), ("item_id", items)):
        if not wanted:
            continue
        there = snapshot.texts(name)
        known = set(there)
        if unknown := [one for one in wanted if one not in known]:
            named = ", ".join(sorted(filter(None, known))[:20]) or "none"
            raise SnapshotError(f"{snapshot.label}: no {name} {unknown[0]!r}; there are {named}")
        kept &= np.isin(there, list(wanted))
    if not kept.any():
        raise SnapshotError(f"{snapshot.label}: no item is in all that was named: task, category, id")
    return snapshot if kept.all() else replace(snapshot, table=snapshot.table.filter(pa.array(kept)))
