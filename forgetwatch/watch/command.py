"""A command that the user names, started after a look and not waited for; that it failed is logged."""

from __future__ import annotations

import os
import shlex
import string
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from forgetwatch.errors import WatchError
from forgetwatch.progress import log
from forgetwatch.run_folder import checkpoint_folder

_FIELDS: Final = frozenset({"step", "checkpoint", "folder"})
_LOCK: Final = threading.Lock()


@dataclass(frozen=True)
class Command:
    """A command line with fields for the step, the checkpoint and the run folder.

    Attributes:
        template: The command line, with ``{step}``, ``{checkpoint}`` and ``{folder}`` as fields.
    """

    template: str
    _failed: set[int] = field(init=False, repr=False, compare=False, default_factory=set)
    """Exit statuses of the failures that were logged."""

    @property
    def needs_checkpoint(self) -> bool:
        """True if it names the checkpoint, which must be saved first."""
        # Without the closing brace, since a field may have a conversion or a format.
        return "{checkpoint" in self.template

    def start(self, *, step: int, output_dir: Path, folder: Path) -> None:
        """Start the command without a shell, in a session of its own: it outlives the run.

        Args:
            step: Step of the look.
            output_dir: Folder of the checkpoints.
            folder: The run folder.

        Raises:
            OSError: If there is no such command.
        """
        values = {"step": step, "checkpoint": checkpoint_folder(output_dir, step), "folder": folder}
        # Split before the fields are filled in: a path with a space stays one word.
        words = [word.format(**values) for word in shlex.split(self.template)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, env=_own_environment())
        # Reaps it, if it ends before the run.
        threading.Thread(target=lambda: self._log_failure(process.wait(), step), daemon=True).start()

    def _log_failure(self, status: int, step: int) -> None:
        """Log that the command ended with a status other than 0, once for each status."""
        with _LOCK:  # commands of several steps may end at once
            is_new = status not in self._failed
            self._failed.add(status)
        if status and is_new:
            how = f"exit status {status}" if status > 0 else f"signal {-status}"
            log(
                f"on_look={self.template!r} failed at step {step} with {how}; the run continues, and later failures "
                "with it are not logged"
            )


def _own_environment() -> dict[str, str]:
    """The environment without the variables that would make the command a process of this distributed run."""
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE")
    prefixes = ("MASTER_", "TORCHELASTIC_", "ACCELERATE_")
    return {name: value for name, value in os.environ.items() if name not in names and not name.startswith(prefixes)}


def checked_command(template: str | None) -> Command | None:
    """The command of a template; None for None.

    Raises:
        WatchError: If it is no command line, or has other fields.
    """
    if template is None:
        return None
    try:
        words = shlex.split(template)
        named = {name for word in words for _, name, _, _ in string.Formatter().parse(word) if name is not None}
    except ValueError as error:
        raise WatchError(f"on_look={template!r}: cannot be read as a command ({error})") from error
    if not words or named - _FIELDS:
        raise WatchError(
            f"on_look={template!r}: needed a command whose fields are among {{step}}, {{checkpoint}}, {{folder}}"
        )
    return Command(template)
