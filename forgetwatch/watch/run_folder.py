"""The folder in which a run keeps what was measured: ``output_dir/_forgetwatch``.

    probe.jsonl            the items, and how they were asked
    baseline.parquet       the snapshot that every look is compared with
    step-000200.parquet    one snapshot a look
    run.json               what the run is, and its looks

The leading underscore keeps the folder out of uploads of `output_dir`. Every file is written whole or not at all.
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError, WatchError
from forgetwatch.files import write_atomically
from forgetwatch.probe import Probe
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot
from forgetwatch.trajectory import RUN_FOLDER

FORMAT: Final = "forgetwatch/run@1"
NAME: Final = RUN_FOLDER
_BASELINE: Final = "baseline.parquet"


class RunFolder:
    """Reads and writes one run folder.

    Args:
        output_dir: Where the run keeps its checkpoints.
    """

    def __init__(self, output_dir: str | Path) -> None:
        self.output_dir = Path(output_dir)
        self.path = self.output_dir / NAME

    def set_aside(self) -> Path | None:
        """Rename the folder of an earlier run, if there is one; its new path."""
        if not self.path.exists():
            return None
        number = 1
        while (aside := self.path.with_name(f"{NAME}-{number}")).exists():
            number += 1
        self.path.rename(aside)
        return aside

    def start(self, probe: Probe, baseline: Snapshot) -> None:
        """Write the probe and the baseline."""
        probe.save(self.path / "probe.jsonl")
        save_snapshot(baseline, self.path / _BASELINE)

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

    def baseline(self, *, checksum: str | None = None, step: int | None = None) -> Snapshot:
        """The baseline of the run: from this folder, or carried in the checkpoint at `step`.

        Args:
            checksum: What the baseline must be; None accepts any.
            step: The step of a checkpoint that may carry a copy.

        Raises:
            WatchError: If there is none, or only that of another run.
        """
        places = [self.path / _BASELINE]
        if step is not None:
            places.append(self.carried(step) / _BASELINE)
        for place in places:
            try:
                found = read_snapshot(place)
            except SnapshotError:
                continue
            if checksum in (None, found.checksum):
                return found
        raise WatchError(
            "the run goes on, and its baseline is gone: needed it in "
            + " or ".join(str(place) for place in places)
            + "; put the folder back, or start the run anew"
        )

    def looks(self) -> dict[int, Path]:
        """The files of the looks by step, rising."""
        return {int(path.stem.removeprefix("step-")): path for path in sorted(self.path.glob("step-*.parquet"))}

    def take_back(self, step: int) -> None:
        """Copy back the looks that the checkpoint at `step` carries and this folder lacks."""
        for path in sorted(self.carried(step).glob("step-*.parquet")):
            if not _is_readable(self.path / path.name):
                write_atomically(self.path / path.name, partial(shutil.copyfile, path))

    def put_by(self, path: Path) -> Path:
        """Rename a file that cannot be read, so that the run can be read without it; its new path."""
        return path.rename(path.with_name(f"{path.name}.damaged"))

    def drop_after(self, step: int) -> None:
        """Delete the looks later than `step`: they belong to steps that will be taken again."""
        for later, path in self.looks().items():
            if later > step:
                path.unlink()

    def add(self, look: Snapshot, *, step: int) -> Path:
        """Write one look; its path."""
        path = self.path / f"step-{step:06d}.parquet"
        save_snapshot(look, path)
        return path

    def describe(self, run: dict[str, Any]) -> None:
        """Write ``run.json``."""
        text = json.dumps({"format": FORMAT, **run}, indent=1) + "\n"
        write_atomically(self.path / "run.json", lambda path: path.write_text(text, encoding="utf-8"))

    def carried(self, step: int) -> Path:
        """Where the checkpoint at `step` carries its own history."""
        return self.output_dir / f"checkpoint-{step}" / "forgetwatch"

    def carry(self, step: int) -> None:
        """Copy the baseline and the latest look into the checkpoint at `step`, if it is there."""
        target = self.carried(step)
        if not target.parent.is_dir():
            return
        latest = [path for look, path in self.looks().items() if look <= step][-1:]
        for path in [self.path / _BASELINE, *latest]:
            write_atomically(target / path.name, partial(shutil.copyfile, path))


def _is_readable(path: Path) -> bool:
    try:
        read_snapshot(path)
    except SnapshotError:
        return False
    return True
