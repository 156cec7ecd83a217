"""The files of a run: written by the main process, and tried again where there was no room."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from forgetwatch.files.writing import write_problem
from forgetwatch.probe import Probe
from forgetwatch.progress import log
from forgetwatch.run.run_drift import RunDrift
from forgetwatch.run_folder.folder import RunFolder
from forgetwatch.scoring.processes import on_main_process, rank
from forgetwatch.snapshot import Snapshot


class RunFiles:
    """Files of a run, and the looks that are not written yet.

    Attributes:
        folder: The run folder.
        are_started: True once the folder has the baseline.
        unwritten: Rows of the looks that have no file yet, by step.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self.are_started = False
        self.unwritten: dict[int, Snapshot] = {}
        self._is_cleared = False  # the folder of an earlier run is set aside, or there was none
        self._told_full = False

    def pending(self, baseline: Snapshot | None) -> tuple[int, ...]:
        """Steps of the looks that are not written yet, rising."""
        steps = list(self.unwritten)
        if not self.are_started and baseline is not None and baseline.meta["step"] >= 0:
            steps.append(baseline.meta["step"])
        return tuple(sorted(steps))

    def write(
        self,
        probe: Probe,
        baseline: Snapshot,
        *,
        null: Snapshot | None,
        first: Snapshot | None,
        drift: RunDrift,
        describe: Callable[[Collection[int]], Mapping[str, Any]],
    ) -> OSError | None:
        """Write what has no file yet, in the main process, and say once what cannot be written.

        Args:
            probe: The probe.
            baseline: The baseline.
            null: The baseline's weights measured again, or None.
            first: The base of earlier trainings, or None.
            drift: The completions of the base.
            describe: Makes the content of ``run.json`` without the steps that have no file.

        Returns:
            Why something cannot be written, or None.

        Raises:
            WatchError: If another training has begun in the folder.
        """

        def written() -> tuple[bool, list[int], OSError | None]:
            left, failure, are_started = list(self.unwritten), None, self.are_started
            self._make_room()
            try:
                if not (are_started and self.folder.is_started):
                    self.folder.start(probe, baseline, null, first)
                are_started = True
                drift.save(self.folder.path)
                for step, look in self.unwritten.items():
                    try:
                        self.folder.add(look, step=step)
                        left.remove(step)
                    except OSError as error:  # the others may have room
                        failure = failure or error
                # run.json comes last, and names only files that exist.
                self.folder.describe({**describe(left), "completions": drift.checksum})
            except OSError as error:
                failure = failure or error
            return are_started, left, failure and _plain(failure)

        # Sent to all: later calls between processes depend on it, and all must make the same ones.
        self.are_started, left, failure = on_main_process(written)
        self.unwritten = {step: self.unwritten[step] for step in left}
        self._tell(failure, self.pending(baseline))
        return failure

    def _make_room(self) -> None:
        if self.are_started:
            self.folder.check_own()
        elif not self._is_cleared and (aside := self.folder.set_aside()):
            log(f"the folder of an earlier run is now {aside}")
        self._is_cleared = True  # a folder that is there later is the beginning of this run's
        if self.are_started and not self.folder.is_started:
            log(f"{self.folder.path} has disappeared; it is made again, without the earlier looks")

    def _tell(self, failure: OSError | None, pending: tuple[int, ...]) -> None:
        line = ""
        if failure is not None and not self._told_full:
            at = f"step {', '.join(map(str, pending))}: scored, and " if pending else ""
            problem = write_problem(failure, self.folder.path)
            line = f"{at}not stored: {problem}; it is stored when there is room"
        elif failure is None and self._told_full:
            line = f"{self.folder.path}: what was not stored is stored now"
        if line and rank() == 0:
            log(line)
        self._told_full = failure is not None


def _plain(error: OSError) -> OSError:
    # It is sent to the other processes, and not every error can be.
    return OSError(error.errno, error.strerror or str(error), error.filename)
