"""A command of the user's that is started after a look, and not waited for."""

from __future__ import annotations

import os
import shlex
import string
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forgetwatch.errors import WatchError

_FIELDS: Final = frozenset({"step", "checkpoint", "folder"})


@dataclass(frozen=True)
class Command:
    """A command line with places to fill in."""

    template: str

    @property
    def needs_checkpoint(self) -> bool:
        """Whether it names the checkpoint, which must be saved first."""
        return "{checkpoint" in self.template

    def start(self, *, step: int, output_dir: Path, folder: Path) -> None:
        """Start it, without a shell, in a session of its own: it outlives the run.

        Raises:
            OSError: If there is no such command.
        """
        values = {"step": step, "checkpoint": output_dir / f"checkpoint-{step}", "folder": folder}
        words = [word.format(**values) for word in shlex.split(self.template)]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True, env=_own_environment())
        threading.Thread(target=process.wait, daemon=True).start()  # where it ends before the run it leaves no zombie


def _own_environment() -> dict[str, str]:
    """The environment without what names this run's processes: a command that reads it would take itself for one."""
    named = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "ROLE_RANK", "ROLE_WORLD_SIZE")
    begun = ("MASTER_", "TORCHELASTIC_", "ACCELERATE_")
    return {name: value for name, value in os.environ.items() if name not in named and not name.startswith(begun)}


def checked_command(template: str | None) -> Command | None:
    """The command, if it can be filled in.

    Raises:
        WatchError: If it cannot.
    """
    if template is None:
        return None
    try:
        words = shlex.split(template)
        named = {name for word in words for _, name, _, _ in string.Formatter().parse(word) if name is not None}
    except ValueError as error:
        raise WatchError(f"on_look={template!r}: cannot be read as a command ({error})") from error
    if not words or named - _FIELDS:
        raise WatchError(f"on_look={template!r}: needed a command; its places are {{step}}, {{checkpoint}}, {{folder}}")
    return Command(template)
