"""A run folder as everything that only reads sees it: its snapshots, and notes on what is missing or left out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from forgetwatch.errors import SnapshotError
from forgetwatch.probe import Probe
from forgetwatch.run_folder.contents import read_baseline, read_contents, read_null, read_questions
from forgetwatch.run_folder.description import Description, GuardFinding, description_notes
from forgetwatch.run_folder.names import BASELINE, FOLLOW_FOLDER, RUN_FOLDER
from forgetwatch.snapshot import Snapshot, read_snapshot


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRun:
    """All snapshots in a run folder that are those of its run.

    Attributes:
        folder: The folder.
        baseline: The snapshot that every look is compared with.
        looks: The looks after it, by rising step.
        again: Looks measured again where the run resumed, by rising step.
        null: The second measurement of the baseline; None if there is none.
        planned: Looks planned after the baseline; None if unknown.
        findings: Findings of the guard, in the order in which they were made.
        notes: Sentences on files that are missing, damaged, or of another run.
    """

    folder: Path
    baseline: Snapshot
    looks: tuple[Snapshot, ...]
    again: tuple[Snapshot, ...]
    null: Snapshot | None
    planned: int | None
    findings: tuple[GuardFinding, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, given: str | Path) -> Self:
        """Read a run folder; `given` is that folder or the output_dir that holds it.

        Raises:
            SnapshotError: If its baseline is missing, damaged or of another run, or if a newer version wrote it.
        """
        path = find_run_folder(given)
        described = Description.read(path)
        baseline = read_baseline(path, described)
        described = described.of_run(baseline.meta.get("run"))
        run = described.run or baseline.meta.get("run")
        null, on_null = read_null(path, described, run=run)
        contents = read_contents(path, described, run=run)
        return cls(
            folder=path,
            baseline=baseline,
            looks=tuple(contents.looks.values()),
            again=tuple(contents.again.values()),
            null=null,
            planned=described.planned,
            findings=described.findings,
            notes=(
                *_without_plan(described),
                *(f"since the resume from step {step}: {note}" for step, note in described.notes),
                *on_null,
                *contents.notes,
                *contents.remarks,
                *read_questions(path, described, baseline)[1],
            ),
        )


def is_run_folder(given: str | Path) -> bool:
    """True if the path is a run folder, or the output_dir that holds one."""
    inside = any((Path(given) / name).is_dir() for name in (RUN_FOLDER, FOLLOW_FOLDER))
    return inside or (Path(given) / BASELINE).is_file()


def find_run_folder(given: str | Path) -> Path:
    """Path of the run folder: the given folder itself, or the run folder in it, that of the training first.

    Raises:
        SnapshotError: If it holds no baseline.
    """
    folder = Path(given)
    for name in (RUN_FOLDER, FOLLOW_FOLDER):
        if (folder / name).is_dir():
            folder /= name
            break
    if not (folder / BASELINE).is_file():
        raise SnapshotError(
            f"{folder}: needed a run folder with {BASELINE}, found none there; give the output_dir of a run, "
            f"or the {RUN_FOLDER} in it"
        )
    return folder


def run_probe(given: str | Path) -> Probe | None:
    """The probe of a run, for the text of its questions; None if it cannot be read, or is that of another run."""
    try:
        folder = find_run_folder(given)
        return read_questions(folder, Description.read(folder), read_snapshot(folder / BASELINE))[0]
    except SnapshotError:
        return None


def _without_plan(described: Description) -> tuple[str, ...]:
    """Notes on a ``run.json`` that cannot be used, for a reader who has no other source of what it holds."""
    notes = description_notes(described)
    if described.problem is None:
        return notes
    return (f"{notes[0]}; alarms follow the rule that needs no plan, and findings of the guard are not shown",)
