"""The run folder ``output_dir/_forgetwatch``: all files that a run keeps of its looks, written and read.

    probe.jsonl            the items, and how they were scored
    baseline.parquet       the snapshot that every look is compared with
    null.parquet           the baseline measured twice: what flips between the two is noise
    step-000200.parquet    one snapshot per look
    completions.parquet    token ids of texts that the base generated, if the drift from it is measured
    again-000200.parquet   the look from which a run resumed, measured again after the resume
    run.json               description of the run and its looks
    report.html            the report of the run, for people

A file that cannot be read is renamed to ``*.damaged``, the folder of an earlier run to ``_forgetwatch-1``, ``-2``, ...

The leading underscore keeps the folder out of uploads of `output_dir`. Every file is written whole or not at all: to a
temporary file that is then renamed. Checkpoints carry copies of the baseline and the latest look in
``checkpoint-N/forgetwatch``.

A run writes through `RunFolder`; everything that only reads uses `StoredRun`. Neither needs torch.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Self

from forgetwatch.errors import ForgetwatchError, LostBaselineError, SnapshotError
from forgetwatch.files import write_atomically
from forgetwatch.probe import Probe, read_probe
from forgetwatch.readers import load_snapshot
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot

RUN_FOLDER: Final = "_forgetwatch"
"""Name of the run folder in the run's output_dir."""

CARRIED: Final = "forgetwatch"
"""Name of the folder in a checkpoint that carries copies."""

PROBE: Final = "probe.jsonl"
BASELINE: Final = "baseline.parquet"
NULL: Final = "null.parquet"
COMPLETIONS: Final = "completions.parquet"
DESCRIPTION: Final = "run.json"
REPORT: Final = "report.html"

FORMAT: Final = "forgetwatch/run@1"
"""Value of ``format`` in ``run.json``."""

Kind = Literal["step", "again"]
"""Kind of a look's file: taken at a step, or measured again where the run resumed."""

KINDS: Final[tuple[Kind, Kind]] = ("step", "again")


def checkpoint_folder(output_dir: str | Path, step: int) -> Path:
    """Folder in which a trainer saves the checkpoint of a step."""
    return Path(output_dir) / f"checkpoint-{step}"


class RunFolder:
    """The run folder of a run in progress.

    Args:
        output_dir: The folder of the run's checkpoints.
    """

    def __init__(self, output_dir: str | Path) -> None:
        self.output_dir = Path(output_dir)
        self.path = self.output_dir / RUN_FOLDER

    @property
    def is_started(self) -> bool:
        """True if the folder holds the baseline of a run."""
        return (self.path / BASELINE).is_file()

    def set_aside(self) -> Path | None:
        """Rename the folder of an earlier run and return its new path; None if there is no folder."""
        return self.path.rename(self._free_name()) if self.path.exists() else None

    def copy_aside(self) -> Path | None:
        """Copy the folder of a finished run and return the path of the copy; None if there is no folder."""
        return shutil.copytree(self.path, self._free_name()) if self.path.exists() else None

    def _free_name(self) -> Path:
        number = 1
        while (free := self.path.with_name(f"{RUN_FOLDER}-{number}")).exists():
            number += 1
        return free

    def start(self, probe: Probe, baseline: Snapshot, null: Snapshot | None = None) -> None:
        """Write the probe, the baseline and the second measurement of the baseline."""
        probe.save(self.path / PROBE)
        save_snapshot(baseline, self.path / BASELINE)
        if null is None:  # a file from another baseline would pass for the noise of this one
            (self.path / NULL).unlink(missing_ok=True)
        else:
            save_snapshot(null, self.path / NULL)

    def description(self) -> dict[str, Any]:
        """Content of ``run.json``; empty if it cannot be read."""
        try:
            found = json.loads((self.path / DESCRIPTION).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def owner(self) -> str | None:
        """Checksum of the baseline of the run whose looks the folder holds; None if it cannot be read."""
        try:
            return str(self.description()["baseline"]["checksum"])
        except (KeyError, TypeError):
            pass
        found = _readable(self.path / BASELINE)
        return None if found is None else found.checksum

    def baseline(
        self, *, checksum: str | None = None, carried: Sequence[Path] = ()
    ) -> tuple[Snapshot, Snapshot | None]:
        """Baseline of the run and its second measurement, from this folder or from copies in checkpoints.

        Args:
            checksum: Required checksum of the baseline; None accepts any.
            carried: Folders in which checkpoints carry copies.

        Raises:
            LostBaselineError: If there is none, or only that of another run.
        """
        folders = [self.path, *carried]
        for folder in folders:
            found = _readable(folder / BASELINE)
            if found is not None and checksum in (None, found.checksum):
                return found, _readable(folder / NULL)
        raise LostBaselineError(
            "the run resumes, and its baseline is gone: needed it in "
            + " or ".join(str(folder / BASELINE) for folder in folders)
            + "; put the folder back, name the model that the run began with (baseline=...), or start the run anew"
        )

    def looks(self, kind: Kind = "step") -> dict[int, Path]:
        """Files of the looks by step, in rising order."""
        return _look_files(self.path, kind)

    def restore(self, carried: Sequence[Path]) -> None:
        """Copy back the looks that checkpoints carry and this folder lacks."""
        for path in (path for folder in carried for path in sorted(folder.glob("*-[0-9]*.parquet"))):
            if _readable(self.path / path.name) is None:
                write_atomically(self.path / path.name, partial(shutil.copyfile, path))

    def quarantine(self, path: Path) -> Path:
        """Rename a file that cannot be read, so that the other files can be, and return its new path."""
        return path.rename(path.with_name(f"{path.name}.damaged"))

    def drop_after(self, step: int) -> None:
        """Delete the looks later than `step`: the run takes those steps again."""
        for partial_file in self.path.glob(".*.partial"):  # left by a process that was killed while it wrote
            partial_file.unlink()
        for later, path in (*self.looks().items(), *self.looks("again").items()):
            if later > step:
                path.unlink()

    def add(self, look: Snapshot, *, step: int, kind: Kind = "step") -> Path:
        """Write one look and return its path."""
        path = self.path / f"{kind}-{step:06d}.parquet"
        save_snapshot(look, path)
        return path

    def describe(self, run: dict[str, Any]) -> None:
        """Write ``run.json``."""
        text = json.dumps({"format": FORMAT, **run}, indent=1) + "\n"
        write_atomically(self.path / DESCRIPTION, lambda path: path.write_text(text, encoding="utf-8"))

    def carried(self, step: int) -> Path:
        """Path of the folder in which the checkpoint at `step` carries copies."""
        return checkpoint_folder(self.output_dir, step) / CARRIED

    def carry(self, step: int, *, completions: bool = False) -> None:
        """Copy the baseline and the latest look into the checkpoint at `step`, if there is one.

        Args:
            step: The checkpoint's step.
            completions: True to copy the base's completions too. They contain the prompts as token ids.
        """
        target = self.carried(step)
        if not target.parent.is_dir():
            return
        latest = [path for look, path in self.looks().items() if look <= step][-1:]
        texts = [self.path / COMPLETIONS] if completions else []
        for path in [self.path / BASELINE, self.path / NULL, *texts, *latest]:
            # Only the baseline has to exist: without it the copy is of no use, and the failure must be seen.
            if path.is_file() or path.name == BASELINE:
                write_atomically(target / path.name, partial(shutil.copyfile, path))


@dataclass(frozen=True)
class GuardFinding:
    """One finding of the guard of a run.

    Attributes:
        what: ``alarm`` (of a net loss), ``fading``, ``net_loss`` or ``must_pass``; or ``too_few_items``: a net loss
            beyond the bound, in a group whose items do not see one of that size. The guard does not trip on it.
        name: The group's level and name, or the item's id.
        step: Optimizer step of the look; -1 if unknown.
        line: The finding in one line, without text of any item.
    """

    what: str
    name: str
    step: int
    line: str

    @property
    def trips(self) -> bool:
        """True if the guard trips on it."""
        return self.what != "too_few_items"

    @classmethod
    def of(cls, stored: object) -> Self | None:
        """Finding from the JSON values of its attributes; None if they are not those of a finding."""
        if isinstance(stored, list) and len(stored) == 2:  # earlier versions stored these two in their checkpoints
            stored = {"what": stored[0], "name": stored[1], "step": -1, "line": ""}
        if not isinstance(stored, dict) or set(stored) != {"what", "name", "step", "line"}:
            return None
        step = stored["step"]
        return cls(str(stored["what"]), str(stored["name"]), step if type(step) is int else -1, str(stored["line"]))


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRun:
    """All snapshots in a run folder.

    Attributes:
        folder: The folder.
        baseline: The snapshot that every look is compared with.
        looks: The looks after it, by rising step.
        again: Looks measured again where the run resumed, by rising step.
        null: The second measurement of the baseline; None if there is none.
        planned: Looks planned after the baseline; None if unknown.
        findings: Findings of the guard, in the order in which they were made.
    """

    folder: Path
    baseline: Snapshot
    looks: tuple[Snapshot, ...]
    again: tuple[Snapshot, ...]
    null: Snapshot | None
    planned: int | None
    findings: tuple[GuardFinding, ...] = ()

    @classmethod
    def read(cls, given: str | Path) -> Self:
        """Read a run folder; `given` is that folder or the output_dir that holds it.

        Raises:
            SnapshotError: If it holds no baseline, or a look cannot be read.
        """
        path = find_run_folder(given)
        # A folder that was copied from its run may have any name, so it is read by path and not as a RunFolder.
        looks, again = (tuple(map(load_snapshot, _all_look_files(path, kind))) for kind in KINDS)
        return cls(
            folder=path,
            baseline=load_snapshot(path / BASELINE),
            looks=looks,
            again=again,
            null=load_snapshot(path / NULL) if (path / NULL).is_file() else None,
            planned=_planned(path / DESCRIPTION),
            findings=_findings(path / DESCRIPTION),
        )


def is_run_folder(given: str | Path) -> bool:
    """True if the path is a run folder, or the output_dir that holds one."""
    return (Path(given) / RUN_FOLDER).is_dir() or (Path(given) / BASELINE).is_file()


def find_run_folder(given: str | Path) -> Path:
    """Path of the run folder: the given folder itself, or the run folder in it.

    Raises:
        SnapshotError: If it holds no baseline.
    """
    folder = Path(given)
    if (folder / RUN_FOLDER).is_dir():
        folder /= RUN_FOLDER
    if not (folder / BASELINE).is_file():
        raise SnapshotError(
            f"{folder}: needed a run folder with {BASELINE}, found none there; give the output_dir of a run, "
            f"or the {RUN_FOLDER} in it"
        )
    return folder


def run_probe(folder: str | Path) -> Probe | None:
    """The probe of a run, for the text of its questions; None if it cannot be read."""
    try:
        return read_probe(find_run_folder(folder) / PROBE)
    except ForgetwatchError:
        return None


def _look_files(folder: Path, kind: Kind) -> dict[int, Path]:
    named = ((re.fullmatch(rf"{kind}-(\d+)", path.stem), path) for path in folder.glob(f"{kind}-*.parquet"))
    # By number: from step 1,000,000 on the names do not sort like the steps.
    return dict(sorted((int(match[1]), path) for match, path in named if match))


def _all_look_files(folder: Path, kind: Kind) -> list[Path]:
    """Files of the looks, also those that somebody has renamed, in the order of the numbers in their names."""
    numbers = {path: re.match(rf"{kind}-(\d+)", path.stem) for path in folder.glob(f"{kind}-*.parquet")}
    last = max((int(match[1]) for match in numbers.values() if match), default=0) + 1
    return sorted(numbers, key=lambda path: (int(match[1]) if (match := numbers[path]) else last, path.stem))


def _planned(path: Path) -> int | None:
    """Looks that a run planned after its baseline, from its ``run.json``; None if that holds no such number."""
    planned = _described(path, "planned_looks")
    return planned if type(planned) is int and planned > 0 else None


def _findings(path: Path) -> tuple[GuardFinding, ...]:
    """Findings of the guard, from the run's ``run.json``; empty if that holds none."""
    stored = _described(path, "guard")
    found = map(GuardFinding.of, stored if isinstance(stored, list) else ())
    return tuple(finding for finding in found if finding is not None)


def _described(path: Path, name: str) -> Any:
    """Value of a key of ``run.json``; None if it cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8")).get(name)
    except (OSError, ValueError, AttributeError):
        return None


def _readable(path: Path) -> Snapshot | None:
    try:
        return read_snapshot(path)
    except SnapshotError:
        return None
