"""The folder in which a run keeps what was measured: ``output_dir/_forgetwatch``.

    probe.jsonl            the items, and how they were asked
    baseline.parquet       the snapshot that every look is compared with
    null.parquet           the baseline measured twice: what flips between the two is noise
    step-000200.parquet    one snapshot a look
    completions.parquet    what the base wrote, where the drift from it is measured
    again-000200.parquet   the look from which a run went on, measured again where it went on
    run.json               what the run is, and its looks
    report.html            all of it, for people

The leading underscore keeps the folder out of uploads of `output_dir`. Every file is written whole or not at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from forgetwatch.errors import LostBaselineError, SnapshotError
from forgetwatch.files import write_atomically
from forgetwatch.probe import Probe
from forgetwatch.run_folder import RUN_FOLDER
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot

FORMAT: Final = "forgetwatch/run@1"
NAME: Final = RUN_FOLDER
_BASELINE: Final = "baseline.parquet"
_NULL: Final = "null.parquet"
COMPLETIONS: Final = "completions.parquet"


class RunFolder:
    """Reads and writes one run folder.

    Args:
        output_dir: Where the run keeps its checkpoints.
    """

    def __init__(self, output_dir: str | Path) -> None:
        self.output_dir = Path(output_dir)
        self.path = self.output_dir / NAME

    @property
    def is_started(self) -> bool:
        """Whether the folder holds the baseline of a run."""
        return (self.path / _BASELINE).is_file()

    def set_aside(self) -> Path | None:
        """Rename the folder of an earlier run, if there is one; its new path."""
        if not self.path.exists():
            return None
        number = 1
        while (aside := self.path.with_name(f"{NAME}-{number}")).exists():
            number += 1
        self.path.rename(aside)
        return aside

    def copy_aside(self) -> Path | None:
        """Copy the folder of a run that ended, if there is one; the copy's path."""
        if not self.path.exists():
            return None
        number = 1
        while (aside := self.path.with_name(f"{NAME}-{number}")).exists():
            number += 1
        shutil.copytree(self.path, aside)
        return aside

    def start(self, probe: Probe, baseline: Snapshot, null: Snapshot | None = None) -> None:
        """Write the probe, the baseline, and the baseline measured again."""
        probe.save(self.path / "probe.jsonl")
        save_snapshot(baseline, self.path / _BASELINE)
        if null is None:  # that of another baseline says nothing of this one
            (self.path / _NULL).unlink(missing_ok=True)
        else:
            save_snapshot(null, self.path / _NULL)

    def owner(self) -> str | None:
        """Checksum of the baseline of the run whose looks the folder holds; None where nothing tells."""
        try:
            return str(json.loads((self.path / "run.json").read_text(encoding="utf-8"))["baseline"]["checksum"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
        try:
            return read_snapshot(self.path / _BASELINE).checksum
        except SnapshotError:
            return None

    def baseline(
        self, *, checksum: str | None = None, carried: Sequence[Path] = ()
    ) -> tuple[Snapshot, Snapshot | None]:
        """The baseline of the run and its second measurement: from this folder, or carried in a checkpoint.

        Args:
            checksum: What the baseline must be; None accepts any.
            carried: Where checkpoints carry copies.

        Raises:
            LostBaselineError: If there is none, or only that of another run.
        """
        places = [self.path, *carried]
        for place in places:
            found = _read(place / _BASELINE)
            if found is not None and checksum in (None, found.checksum):
                return found, _read(place / _NULL)
        raise LostBaselineError(
            "the run goes on, and its baseline is gone: needed it in "
            + " or ".join(str(place / _BASELINE) for place in places)
            + "; put the folder back, name the model it began with (baseline=...), or start the run anew"
        )

    def looks(self, kind: Literal["step", "again"] = "step") -> dict[int, Path]:
        """The files of the looks by step, rising; ``again`` for those that were measured again."""
        return {
            int(path.stem.removeprefix(f"{kind}-")): path for path in sorted(self.path.glob(f"{kind}-[0-9]*.parquet"))
        }

    def take_back(self, carried: Sequence[Path]) -> None:
        """Copy back the looks that checkpoints carry and this folder lacks."""
        for path in (path for place in carried for path in sorted(place.glob("*-[0-9]*.parquet"))):
            if _read(self.path / path.name) is None:
                write_atomically(self.path / path.name, partial(shutil.copyfile, path))

    def put_by(self, path: Path) -> Path:
        """Rename a file that cannot be read, so that the run can be read without it; its new path."""
        return path.rename(path.with_name(f"{path.name}.damaged"))

    def drop_after(self, step: int) -> None:
        """Delete the looks later than `step`: they belong to steps that will be taken again."""
        for partial_file in self.path.glob(".*.partial"):  # of a process that was killed while it wrote
            partial_file.unlink()
        for later, path in (*self.looks().items(), *self.looks("again").items()):
            if later > step:
                path.unlink()

    def add(self, look: Snapshot, *, step: int, kind: Literal["step", "again"] = "step") -> Path:
        """Write one look; its path."""
        path = self.path / f"{kind}-{step:06d}.parquet"
        save_snapshot(look, path)
        return path

    def describe(self, run: dict[str, Any]) -> None:
        """Write ``run.json``."""
        text = json.dumps({"format": FORMAT, **run}, indent=1) + "\n"
        write_atomically(self.path / "run.json", lambda path: path.write_text(text, encoding="utf-8"))

    def carried(self, step: int) -> Path:
        """Where the checkpoint at `step` carries its own history."""
        return self.output_dir / f"checkpoint-{step}" / "forgetwatch"

    def carry(self, step: int, *, completions: bool = False) -> None:
        """Copy the baseline and the latest look into the checkpoint at `step`, if it is there.

        Args:
            step: The checkpoint's step.
            completions: Whether the base's completions go with them: their prompts can be read in them.
        """
        target = self.carried(step)
        if not target.parent.is_dir():
            return
        latest = [path for look, path in self.looks().items() if look <= step][-1:]
        texts = [self.path / COMPLETIONS] if completions else []
        for path in [self.path / _BASELINE, self.path / _NULL, *texts, *latest]:
            if path.is_file() or path.name == _BASELINE:
                write_atomically(target / path.name, partial(shutil.copyfile, path))


def _read(path: Path) -> Snapshot | None:
    try:
        return read_snapshot(path)
    except SnapshotError:
        return None
