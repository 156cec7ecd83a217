"""A command of the user's that is started after a look, and not waited for."""

from __future__ import annotations

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
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
        threading.Thread(target=process.wait, daemon=True).start()  # where it ends before the run it leaves no zombie


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
