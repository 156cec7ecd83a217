"""What several commands read in the same way: shares, and files to write to."""

from __future__ import annotations

import math
from pathlib import Path

import typer

from forgetwatch.errors import SnapshotError
from forgetwatch.gates.condition import parse_fraction


def share(text: str, option: str) -> float:
    """A share between 0 and 1, written as 2% or 0.02.

    Raises:
        typer.BadParameter: If it is neither.
    """
    try:
        value = parse_fraction(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise typer.BadParameter(f"{option}: needed a share above 0 and below 1, such as 2% or 0.02, got {text!r}")
    return value


def check_folder(path: str | None) -> None:
    """Refuse a file in a folder that is not there before the work is done; ``-`` stands for standard output.

    Raises:
        SnapshotError: If there is no such folder.
    """
    if path in (None, "-"):
        return
    if Path(str(path)).is_dir():
        raise SnapshotError(f"{path}: needed a file to write to, and this is a folder")
    if not Path(str(path)).absolute().parent.is_dir():
        raise SnapshotError(f"{path}: needed a folder that is there, and {Path(str(path)).parent} is none")
