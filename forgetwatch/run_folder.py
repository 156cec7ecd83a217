"""What a run folder holds, read back: ``output_dir/_forgetwatch``, as `watch.run_folder` writes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from forgetwatch.errors import ForgetwatchError, SnapshotError
from forgetwatch.probe import Probe, read_probe
from forgetwatch.readers import load_snapshot
from forgetwatch.snapshot import Snapshot

RUN_FOLDER: Final = "_forgetwatch"
"""Where a run keeps its looks, in its output_dir."""


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRun:
    """What a run folder holds.

    Attributes:
        folder: The folder.
        baseline: The snapshot that every look is compared with.
        looks: The looks after it.
        again: Looks measured again where the run went on.
        null: The baseline measured twice; None if it was not.
        planned: Looks planned after the baseline; None if unknown.
    """

    folder: Path
    baseline: Snapshot
    looks: tuple[Snapshot, ...]
    again: tuple[Snapshot, ...]
    null: Snapshot | None
    planned: int | None

    @classmethod
    def read(cls, given: str | Path) -> Self:
        """What the run folder holds; see `run_folder`.

        Raises:
            SnapshotError: If it holds no baseline, or a look cannot be read.
        """
        folder = run_folder(given)
        looks, again = (
            tuple(map(load_snapshot, sorted(folder.glob(f"{kind}-*.parquet")))) for kind in ("step", "again")
        )
        null = load_snapshot(folder / "null.parquet") if (folder / "null.parquet").is_file() else None
        return cls(
            folder=folder,
            baseline=load_snapshot(folder / "baseline.parquet"),
            looks=looks,
            again=again,
            null=null,
            planned=_planned(folder / "run.json"),
        )


def run_folder(given: str | Path) -> Path:
    """The folder that holds the looks of a run: the one that is given, or the one in it.

    Raises:
        SnapshotError: If it holds no baseline.
    """
    folder = Path(given)
    if (folder / RUN_FOLDER).is_dir():
        folder /= RUN_FOLDER
    if not (folder / "baseline.parquet").is_file():
        raise SnapshotError(
            f"{folder}: needed a run folder with baseline.parquet, found none there; give the output_dir of a run, "
            f"or the {RUN_FOLDER} in it"
        )
    return folder


def run_probe(folder: str | Path) -> Probe | None:
    """The probe of a run, for the text of its questions; None where it cannot be read."""
    try:
        return read_probe(run_folder(folder) / "probe.jsonl")
    except ForgetwatchError:
        return None


def _planned(path: Path) -> int | None:
    """The looks that a run planned after its baseline, from its ``run.json``; None where that says nothing."""
    try:
        planned = json.loads(path.read_text(encoding="utf-8")).get("planned_looks")
    except (OSError, ValueError, AttributeError):
        return None
    return planned if type(planned) is int and planned > 0 else None
