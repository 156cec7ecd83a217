"""Where commands write: a console as wide as the tables, and files in folders that are there."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from forgetwatch.errors import SnapshotError
from forgetwatch.report.terminal import WIDTH


def result_console() -> Console:
    """Standard output, 80 columns wide unless it is a terminal that is wider."""
    console = Console(highlight=False)
    console.width = WIDTH if not console.is_terminal else min(console.width, 120)
    return console


def check_folder(path: str | None) -> None:
    """Refuse a file in a folder that is not there before the work is done; ``-`` stands for standard output.

    Raises:
        SnapshotError: If there is no such folder.
    """
    if path not in (None, "-") and not Path(str(path)).absolute().parent.is_dir():
        raise SnapshotError(f"{path}: needed a folder that is there, and {Path(str(path)).parent} is none")
