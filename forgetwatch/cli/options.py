"""Options that several commands share: the panels of `--help`, device maps, and shares such as 2%."""

from __future__ import annotations

import math
from typing import Any, Final

import typer

from forgetwatch.errors import ScoringError, did_you_mean
from forgetwatch.gates import parse_fraction
from forgetwatch.progress import launched_count

ITEMS: Final = "Items"
CHANCE: Final = "Chance (the tables show it with --detail)"
GATES: Final = "Gates"
OUTPUT: Final = "Output"
"""Headings under which `--help` lists the options of a command with many."""


DEVICE_MAPS: Final = ("auto",)


def device_map_option(panel: str | None = None) -> Any:
    """Option of typer for `--device-map`, under one of the headings."""
    return typer.Option(
        help="Spread a scored model that is larger than one GPU over all GPUs, then the CPU and the disk: auto.",
        rich_help_panel=panel,
    )


def check_device_map(given: str | None) -> None:
    """Refuse another value than those of `--device-map`, and several processes, each of which would take all GPUs.

    Raises:
        ScoringError: If it is refused.
    """
    if given is None:
        return
    if given not in DEVICE_MAPS:
        near = did_you_mean(given, DEVICE_MAPS)
        raise ScoringError(f"--device-map {given}: needed {' or '.join(DEVICE_MAPS)}{near}")
    # The launcher's variable: no process group exists yet.
    if (count := launched_count()) > 1:
        raise ScoringError(f"--device-map spreads one model over all GPUs; needed one process, got {count}")


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
