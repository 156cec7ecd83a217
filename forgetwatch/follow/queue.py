"""Checkpoints of a training in the order in which a follower scores them, and the end of it.

    the folder is listed every few seconds
        complete, not scored      the next one
        not complete              left for a later listing, and named if nothing is added to it
        in parts, one a process   named once
        gone before it was read   named once
        saved again               named once; its look stays
        cannot be read            named once, and read again at each listing

Only the main process lists the folder.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Literal

from forgetwatch.errors import (
    WatchError,
)
from forgetwatch.follow.folders import (
    CheckpointStore,
    SavedCheckpoint,
)
from forgetwatch.progress import log

End = Literal["last checkpoint", "idle", "stopped", "once", "guard"]
"""Reason for which a follower ends."""


NAMES: Final = "checkpoint-N or global_step_N"
"""Names of the folders that are recognised, for messages."""


_ROUND: Final = 20.0
"""Seconds after which processes that wait for the main one hear from it; their backend gives up after minutes."""


_REVISIT: Final = 60.0
"""Seconds after which a finished remote checkpoint is read again: each reading is a request."""


class CheckpointQueue:
    """The checkpoints that are to be scored.

    Attributes:
        latest: The checkpoint of the last step that was seen; None before the first.

    Args:
        store: The folder of the checkpoints.
        looks: Function of the looks taken so far: the signature of the files of each, empty if
            unknown, by step.
        stop: Set to end.
        poll: Seconds between two listings.
        idle: Seconds without a new checkpoint after which it ends; None for no limit.
        once: True to end when all checkpoints that are there were taken.
    """

    def __init__(
        self,
        store: CheckpointStore,
        *,
        looks: Callable[[], Mapping[int, str]],
        stop: threading.Event,
        poll: float,
        idle: float | None,
        once: bool,
    ) -> None:
        self.latest: SavedCheckpoint | None = None
        self._store, self._looks, self._stop = store, looks, stop
        self._poll, self._idle, self._once = poll, idle, once
        self._looks_again = once  # a folder that is still being written is looked at once more
        self._is_new = store.path is not None and not store.path.is_dir()
        self._done: dict[int, str] = {}  # signature of each checkpoint that is scored or left out
        self._pending: dict[int, str] = {}  # signature at the latest listing
        self._seen: dict[int, str] = {}  # names of the folders that were ever there, one a step
        self._failed: dict[int, str] = {}  # names
        self._read: dict[int, float] = {}  # times of the latest reading
        self._has_listed = False
        self._told: set[str] = set()
        self._active = time.monotonic()

    @property
    def failed(self) -> list[str]:
        """Names of the checkpoints without a score, by rising step.

        They could not be scored, or were deleted before.
        """
        return [name for _, name in sorted(self._failed.items())]

    @property
    def unscored(self) -> list[int]:
        """Steps of the checkpoints that have no look, rising."""
        return sorted(self._seen.keys() - self._looks().keys())

    @property
    def last_step(self) -> int:
        """Step of the last checkpoint ever seen; 0 without one."""
        return max(self._seen, default=0)

    @property
    def is_over(self) -> bool:
        """Has the last checkpoint the number of the training's last step?"""
        return self.latest is not None and self.latest.is_last

    @property
    def waiting(self) -> list[str]:
        """Names of the checkpoints not taken before the end.

        Or not complete; by rising step.
        """
        return [
            self._seen[step]
            for step in sorted(self._seen.keys() - self._done.keys() - self._looks().keys())
        ]

    def next(self, *, brief: bool = False) -> SavedCheckpoint | End | None:
        """Next checkpoint to score, or a reason to end.

        A WatchError if the folder has no checkpoints, and none is waited for, or it cannot be
        listed at all.

        Returns:
            None after a while, or, if `brief`, after one listing.
        """
        until = time.monotonic() + (0.0 if brief else _ROUND)
        while True:
            if self._stop.is_set():
                return "stopped"
            if (checkpoint := self._scan_safely()) is not None:
                self._looks_again = self._once  # what was being written meanwhile may be complete
                return checkpoint
            if (end := self._end(again=self._looks_again)) is not None:
                return end
            self._looks_again = False
            self._stop.wait(self._poll)
            if time.monotonic() >= until:
                return None

    def deal_with(self, checkpoint: SavedCheckpoint) -> None:
        """Take a checkpoint from the queue, unless its files change."""
        self._done[checkpoint.step] = checkpoint.signature
        self._failed.pop(checkpoint.step, None)  # it may have failed with other files

    def fail(self, checkpoint: SavedCheckpoint) -> None:
        """Take a checkpoint from the queue that could not be scored."""
        self.deal_with(checkpoint)
        self._failed[checkpoint.step] = checkpoint.name

    def restart_clock(self) -> None:
        """Restart the time without a new checkpoint."""
        self._active = time.monotonic()

    def log_once(self, line: str) -> None:
        """Log a line that is not logged twice."""
        if line not in self._told:
            self._told.add(line)
            log(line)

    def _scan_safely(self) -> SavedCheckpoint | None:
        # None where a folder that was listed before cannot be read for now.
        try:
            return self._scan()
        except Exception as error:  # of any kind, as file systems raise
            if self._once or not self._has_listed:
                raise WatchError(f"{self._store.given}: cannot be listed ({error})") from error
            self.log_once(f"{self._store.given} cannot be read now, and is read again: {error}")
            return None

    def _scan(self) -> SavedCheckpoint | None:
        # What is left out is logged once.
        looks, complete = self._looks(), None
        for step, name in self._list(looks).items():
            if (checkpoint := self._read_safely(step, name)) is None:
                continue
            self._read[step] = time.monotonic()
            before, self._pending[step] = self._pending.get(step), checkpoint.signature
            if before != checkpoint.signature:
                self.restart_clock()  # it is being written
            if self.latest is None or step >= self.latest.step:
                self.latest = checkpoint
            if step in looks:
                if looks[step] not in ("", checkpoint.signature):
                    self.log_once(
                        f"{name} was saved again after it was scored; its look stays (--run "
                        "scores anew)"
                    )
                self.deal_with(checkpoint)
            if (
                complete is None
                and self._done.get(step) != checkpoint.signature
                and step not in looks
            ):
                complete = self._judged(checkpoint, is_unchanged=before == checkpoint.signature)
        return complete

    def _read_safely(self, step: int, name: str) -> SavedCheckpoint | None:
        # None if the checkpoint is gone, cannot be read, or is remote and was read just now.
        is_done = step in self._done and self._store.path is None
        if is_done and time.monotonic() - self._read.get(step, 0.0) < _REVISIT:
            return None
        try:
            return self._store.read(step, name)
        except Exception as error:  # of any kind, as file systems raise
            self.log_once(f"{name} cannot be read now, and is read again: {error}")
            return None

    def _judged(self, checkpoint: SavedCheckpoint, *, is_unchanged: bool) -> SavedCheckpoint | None:
        # What is missing is logged once.
        if checkpoint.problem:
            if is_unchanged:  # nothing was added since the listing before
                self.log_once(f"{checkpoint.name} is not complete yet: {checkpoint.problem}")
            return None
        if not (checkpoint.settled or is_unchanged):
            return None
        if not checkpoint.in_parts:
            return checkpoint
        self.log_once(
            f"{checkpoint.name} has its weights in parts, as the processes had them; merge them "
            "into one model"
        )
        self.fail(checkpoint)
        return None

    def _list(self, looks: Mapping[int, str]) -> dict[int, str]:
        # Checkpoints deleted before they were scored are logged.
        names = self._store.names()
        self._has_listed = True
        if names.keys() - self._seen.keys():
            self._active = time.monotonic()
        for step in sorted(self._seen.keys() - names.keys() - self._done.keys() - looks.keys()):
            log(f"{self._seen[step]} was deleted before it could be scored")
            self._failed[step] = self._seen[step]
            self._done[step] = ""
        self._seen |= names
        if not names and not self._once:
            hint = ", nor that folder" if self._is_new else ""
            self.log_once(f"no checkpoint yet{hint}; waiting for {NAMES}{self._hint()}")
        return names

    def _hint(self) -> str:
        # The folder may look like a checkpoint.
        if self._store.is_checkpoint():
            return "; it is itself a checkpoint, give the folder above"
        folders = self._store.others()
        return (
            f"; there are {', '.join(folders)}; --name 'step_{{N}}' gives the form of their names"
            if folders
            else ""
        )

    def _end(self, *, again: bool) -> End | None:
        # None to wait on, also for a folder that is to be seen once `again`.
        if self._once:
            if again and (self._seen.keys() - self._done.keys()):
                return None
            if not self._seen:
                needed = f"checkpoints ({self._store.name or NAMES})"
                raise WatchError(f"{self._store.given}: needed {needed}, found none{self._hint()}")
            return "once"
        last_seen = self.latest
        is_done = last_seen is not None and self._done.get(last_seen.step) == last_seen.signature
        if (
            last_seen is not None
            and last_seen.is_last
            and is_done
            and last_seen.step == max(self._seen)
        ):
            return "last checkpoint"
        if self._idle is not None and time.monotonic() - self._active > self._idle:
            return "idle"
        return None
