"""Options that several commands share: the panels of `--help`, and shares such as 2%."""

from __future__ import annotations

import math
from typing import Final

import typer

from forgetwatch.gates.condition import parse_fraction

ITEMS: Final = "Items"
CHANCE: Final = "Chance (the tables show it with --detail)"
GATES: Final = "Gates"
OUTPUT: Final = "Output"
"""Headings under which `--help` lists the options of a command with many."""


def share(text: str, option: str) -> float:
    """Share between 0 and 1 that an option gives as 2% or 0.02.

    Raises:
        typer.BadParameter: If the text is not a share.
    """
    try:
        value = parse_fraction(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise typer.BadParameter(f"{option}: needed a share above 0 and below 1, such as 2% or 0.02, got {text!r}")
    return value
