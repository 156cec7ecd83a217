"""The run folder of a run in progress: `RunFolder` writes all of it.

At most one process at a time runs a training in an output_dir, which it has by a lock (`filelock`)
on ``_forgetwatch.lock``: a second training waits a little for the first to end, and is then
refused. The lock ends with its process, however that dies. On a disk without locks nothing is
refused, and the run's id, which is checked before a write, keeps a second training out of the files
of the first.
"""

import os
import shutil
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from filelock import FileLock, Timeout

from forgetwatch.errors import LostBaselineError, SnapshotError, WatchError
from forgetwatch.files.writing import NO_SOFT, write_atomically
from forgetwatch.probe import Probe
from forgetwatch.run_folder.contents import (
    Contents,
    checksum_of,
    description_notes,
    look_files,
    read_baseline,
    read_contents,
    read_null,
)
from forgetwatch.run_folder.description import (
    BASELINE,
    CARRIED,
    COMPLETIONS,
    DESCRIPTION,
    FIRST,
    NULL,
    PROBE,
    RUN_FOLDER,
    Description,
    Look,
    checkpoint_folder,
    look_name,
    write_description,
)
from forgetwatch.run_folder.lineage import Lineage, read_first, stored_lineage
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot

_PATIENCE: Final = 30.0
"""Seconds that a second training waits: one that is being stopped needs some to end."""


@dataclass(frozen=True, kw_only=True)
class Resumed:
    """State of a run restored from its files; `notes` are on files that were missing, damaged, or of another run.

    `lineage` is None for a first training.
    """

    run: str
    baseline: Snapshot
    null: Snapshot | None
    contents: Contents
    described: Description
    lineage: Lineage | None
    model: Mapping[str, Any]
    started_with: str | None
    notes: tuple[str, ...]


class RunFolder:
    """The run folder of a run in progress.

    Attributes:
        output_dir: The folder of the run's checkpoints.
        path: The run folder.
        run: Id of the run; None before it has one.

    Args:
        output_dir: The folder of the run's checkpoints.
        name: Name of the run folder in it.
    """

    def __init__(self, output_dir: str | Path, *, name: str = RUN_FOLDER) -> None:
        self.output_dir = Path(output_dir)
        self._name = name
        self.path = self.output_dir / name
        self.run: str | None = None
        self._probe_checksum: str | None = None
        self._notes: tuple[tuple[int, str], ...] = ()
        self._claim: Callable[[], object] | None = None

    def claim(
        self, *, patience: float | None = None, on_wait: Callable[[str], object] = lambda _: None
    ) -> None:
        """Claim the output_dir for this process.

        Until `release` or the end of the process; the folder is made if missing.

        Several objects in one process may claim it; the end of an object ends its claim. Claims of
        run folders of different names do not exclude each other.

        Args:
            patience: Seconds to wait for another process; None for half a minute.
            on_wait: Called once with a sentence if another process has it.

        Raises:
            WatchError: If another process has it, and does not end.
        """
        if self._claim is not None:
            return
        folder, patience = self.output_dir.absolute(), _PATIENCE if patience is None else patience
        # One object a path in a process, which counts its claims.
        lock = FileLock(
            folder / f"{self._name}.lock", is_singleton=True, thread_local=False, **NO_SOFT
        )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                on_wait(
                    f"{folder} is in use by another process; waiting up to {patience:.0f} s for "
                    "it to end"
                )
                lock.acquire(timeout=patience)
        except Timeout as error:
            raise WatchError(
                f"{folder}: needed a folder that no other training uses, and another process "
                "trains here; give each run an output_dir of its own, or stop the other one"
            ) from error
        except (
            OSError,
            NotImplementedError,
        ):  # no locks here, or no write access, which fails at the first file
            return
        self._claim = weakref.finalize(self, lock.release)

    def release(self) -> None:
        """End the claim.

        With the last claim of the process the output_dir is free.
        """
        if self._claim is not None:
            self._claim()
            self._claim = None

    def new_run(self) -> str:
        """Give the run a new id.

        Returns:
            The id.
        """
        # Not from a random generator that the training may use: its state must not change.
        self.run = os.urandom(8).hex()
        return self.run

    def stamped(self, snapshot: Snapshot, look: Look) -> Snapshot:
        """Stamp a snapshot with the run's id and the kind of look."""
        return replace(snapshot, meta={**snapshot.meta, "run": self.run, "look": look})

    @property
    def is_started(self) -> bool:
        """Does the folder hold the baseline of a run?"""
        return (self.path / BASELINE).is_file()

    def check_own(self) -> None:
        """Refuse if another run has begun in this folder.

        Raises:
            WatchError: If another has.
        """
        if self.run is not None and owner(self.path) not in (None, self.run):
            raise WatchError(
                f"{self.path}: another training has begun here, and the looks of this one are "
                "not written into it; needed an output_dir of its own for each"
            )

    def set_aside(self) -> Path | None:
        """Rename the folder of an earlier run.

        Returns:
            The new path, or None if there is no folder.
        """
        return self.path.rename(self._free_name()) if self.path.exists() else None

    def _free_name(self) -> Path:
        number = 1
        while (free := self.output_dir / f"{self._name}-{number}").exists():
            number += 1
        return free

    def _own(self) -> Path | None:
        # The folder may have any of the names that run folders have.
        if self.run is None:
            return None
        entries = (path for path in sorted(self.output_dir.glob(f"{self._name}*")) if path.is_dir())
        folders = [path for path in entries if owner(path) == self.run]

        def newest(path: Path) -> tuple[bool, float]:
            # A copy of a finished training has the same id, and the run itself the newest
            # description.
            try:
                changed = (path / DESCRIPTION).stat().st_mtime
            except OSError:  # another training may rename the folder in between
                changed = 0.0
            return path.name == self._name, changed

        return max(folders, key=newest, default=None)

    def start(
        self,
        probe: Probe,
        baseline: Snapshot,
        null: Snapshot | None = None,
        first: Snapshot | None = None,
    ) -> None:
        """Write the probe and the baselines of a run."""
        probe.save(self._writable(PROBE))
        self._probe_checksum = checksum_of(self.path / PROBE)
        save_snapshot(baseline, self._writable(BASELINE))
        if null is not None:
            save_snapshot(null, self._writable(NULL))
        elif (
            self.path / NULL
        ).exists():  # a file from another baseline would pass for the noise of this one
            self.quarantine(self.path / NULL)
        if first is not None:
            save_snapshot(first, self._writable(FIRST))

    def resume(
        self,
        *,
        run: str | None,
        step: int | None,
        carried: Sequence[Path],
        baseline: Snapshot | None,
        probe: Probe,
        check: Callable[[Snapshot], None],
        log: Callable[[str], object],
    ) -> Resumed:
        """Restore the run from this folder and from copies.

        Args:
            run: Id of the run; None for that of the run in the folder.
            step: The step from which the run resumes; later looks are deleted. None keeps all.
            carried: Folders in which checkpoints carry copies.
            baseline: The run's baseline from elsewhere, if the folder and the copies are lost.
            probe: The probe of the run.
            check: Raises if a baseline is of another probe; called before any file is touched.
            log: Called with a sentence on each folder that is renamed.

        Raises:
            LostBaselineError: If there is no such baseline.
            SnapshotError: If another version wrote the folder.
        """
        self.run = owner(self.path) if run is None else run
        baseline_found, null, notes = (
            (baseline, None, ()) if baseline else self.baseline(carried=carried)
        )
        check(baseline_found)
        # Looks of another run in this folder would pass for those of this one.
        if self.run is None or owner(self.path) != self.run:
            aside, own_folder = self.set_aside(), self._own()
            if own_folder is not None:
                own_folder.rename(self.path)
            # Both names are settled before anything is logged, which may fail.
            if aside is not None:
                log(f"the run folder contained another run, and is now {aside}")
            if own_folder is not None:
                log(f"the folder of this run was {own_folder}, and is {self.path} again")
        existed, described = self.path.is_dir(), Description.read(self.path)
        # Of a folder that is gone, the copies in checkpoints have a description.
        copies = (Description.read(folder) for folder in (self.path, *carried))
        facts = next((copy for copy in copies if copy.is_whole and copy.run == self.run), described)
        lineage, on_lineage = self._lineage(carried)
        notes += on_lineage
        run_id = self.run or self.new_run()
        baseline_found = self.stamped(baseline_found, "baseline")
        null = None if null is None else self.stamped(null, "null")
        self.start(probe, baseline_found, null, None if lineage is None else lineage.first)
        if step is not None:
            restored = self._restore(carried, until=step)
            if not existed and run is not None:
                left = f"only that of step {restored[-1]} is left" if restored else "none is left"
                notes += (f"{self.path} was gone: of its looks {left}",)
            self.drop_after(step)
        contents = read_contents(self.path, described, run=self.run, until=step)
        for path in contents.rejected:  # so that their looks can be taken again
            self.quarantine(path)
        notes = (*(description_notes(described) if existed else ()), *notes, *contents.notes)
        # With those of earlier resumes: once written anew, run.json would show no gap.
        last_step = max((step or 0, *contents.looks))
        earlier = [note for note in described.notes if note[0] <= last_step]
        sentences = {sentence for _, sentence in earlier}
        self._notes = (*earlier, *((last_step, note) for note in notes if note not in sentences))
        return Resumed(
            run=run_id,
            baseline=baseline_found,
            null=null,
            contents=contents,
            described=described,
            lineage=lineage,
            model=facts.model,
            started_with=facts.started_with,
            notes=notes,
        )

    def _lineage(self, carried: Sequence[Path]) -> tuple[Lineage | None, tuple[str, ...]]:
        # Notes are on a first base that is lost.
        lineage, notes = None, tuple[str, ...]()
        for folder in (self.path, *carried):
            described = Description.read(folder)
            if described.run != self.run or described.lineage is None:
                continue
            first_base, notes = read_first(folder, described)
            lineage = Lineage(
                runs=stored_lineage(described),
                first=first_base,
                how=str(described.values["lineage"].get("how")),
                model=described.model,
                checksum=described.lineage["first"],
            )
            if first_base is not None:
                return lineage, ()
        return lineage, notes

    def baseline(
        self, *, carried: Sequence[Path] = ()
    ) -> tuple[Snapshot, Snapshot | None, tuple[str, ...]]:
        """Find the baseline of the run, here or in copies.

        Returns:
            (The baseline; its second measurement, None without one; notes on one that is missing or
            not used).

        Raises:
            LostBaselineError: If there is none, or only that of another run.
        """
        own_folder = self._own()
        folders = [self.path, *([] if own_folder in (None, self.path) else [own_folder]), *carried]
        for folder in folders:
            described = Description.read(folder)
            try:
                baseline = read_baseline(folder, described)
            except SnapshotError:
                continue
            run = baseline.meta.get("run")
            if self.run in (None, run):
                return baseline, *read_null(folder, described, run=run)
        raise LostBaselineError(
            "the run resumes, and its baseline is gone: needed it in "
            + " or ".join(str(folder / BASELINE) for folder in folders)
            + "; put the folder back, name the model that the run began with (baseline=...), or start the run anew"
        )

    def looks(self) -> dict[int, Path]:
        """Find the files of the looks by step, rising."""
        return look_files(self.path)

    def _restore(self, carried: Sequence[Path], *, until: int) -> list[int]:
        # Looks that this folder has already are not copied.
        restored = []
        for folder in carried:
            for step in read_contents(
                folder, Description.read(folder), run=self.run, until=until
            ).looks:
                name = look_name(step)
                if _readable(self.path / name) is None:
                    write_atomically(self._writable(name), partial(shutil.copyfile, folder / name))
                    restored.append(step)
        return restored

    def quarantine(self, path: Path) -> Path:
        """Rename a file that is no look of this run.

        Returns:
            The new path. The look can then be taken again.
        """
        target, number = path.with_name(f"{path.name}.damaged"), 1
        while target.exists():
            number += 1
            target = path.with_name(f"{path.name}.damaged-{number}")
        return path.rename(target)

    def _writable(self, name: str) -> Path:
        # A link in its place is deleted, and anything else that is no file is renamed.
        path = self.path / name
        if path.is_symlink():
            path.unlink()  # written through, it would overwrite another file
        elif path.exists() and not path.is_file():
            self.quarantine(path)  # a pipe would block for ever
        return path

    def drop_after(self, step: int) -> None:
        """Delete the looks later than `step`, which are taken again."""
        self._notes = tuple(note for note in self._notes if note[0] <= step)
        for partial_file in self.path.glob(
            ".*.partial"
        ):  # left by a process that was killed while it wrote
            partial_file.unlink(missing_ok=True)
        for later, path in self.looks().items():
            if later > step:
                self._writable(path.name).unlink(missing_ok=True)

    def add(self, look: Snapshot, *, step: int) -> Path:
        """Write a look.

        Returns:
            The path.
        """
        path = self._writable(look_name(step))
        save_snapshot(look, path)
        return path

    def describe(self, run: Mapping[str, Any]) -> None:
        """Write ``run.json``, with run id and checksum of the probe."""
        self._writable(DESCRIPTION)
        values = {
            "run": self.run,
            "probe_checksum": self._probe_checksum,
            "notes": [{"step": step, "note": note} for step, note in self._notes],
        }
        write_description(self.path, {**values, **run})

    def carried(self, step: int) -> Path:
        """Folder in which the checkpoint at `step` carries copies."""
        return checkpoint_folder(self.output_dir, step) / CARRIED

    def carry(self, step: int, *, files: str, completions: bool = False) -> None:
        """Copy baseline and latest look into the checkpoint at a step.

        Args:
            step: The step.
            files: Digest of the checkpoint's files, by which the copies are known to be of it.
            completions: True to copy the base's completions too, which contain the prompts as token
                ids.
        """
        self.check_own()
        target = self.carried(step)
        latest = {look: path for look, path in self.looks().items() if look <= step}
        latest = dict(list(latest.items())[-1:])
        texts = [self.path / COMPLETIONS] if completions else []
        for path in [
            *(self.path / name for name in (BASELINE, NULL, FIRST)),
            *texts,
            *latest.values(),
        ]:
            # Only the baseline has to exist: without it the copy is of no use, and the failure must
            # be seen.
            if path.is_file() or path.name == BASELINE:
                write_atomically(target / path.name, partial(shutil.copyfile, path))
        described = Description.read(self.path)
        if described.is_whole:
            looks = [look for look in described.values["looks"] if look["step"] in latest]
            write_description(target, {**described.values, "looks": looks, "files": files})
        for look, path in look_files(target).items():  # of an earlier copy into the same checkpoint
            if look not in latest:
                path.unlink(missing_ok=True)


def owner(folder: Path) -> str | None:
    """Id of the run of a folder.

    Returns:
        The id, or None.
    """
    try:
        run = Description.read(folder).run
    except SnapshotError:
        run = None
    if run is not None:
        return run
    snapshot = _readable(folder / BASELINE)
    return (
        None if snapshot is None or snapshot.meta.get("run") is None else str(snapshot.meta["run"])
    )


def _readable(path: Path) -> Snapshot | None:
    try:
        return read_snapshot(path)
    except SnapshotError:
        return None
