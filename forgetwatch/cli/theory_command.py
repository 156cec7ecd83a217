"""`forgetwatch theory`: mass and drift of an old behaviour under each method, in the two-mode laboratory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forgetwatch.cli.output import echo, print_pictures
from forgetwatch.errors import SnapshotError
from forgetwatch.report import SUFFIXES, save_figure
from forgetwatch.theory import ends, figure, table


def run(
    picture: Annotated[
        Path | None, typer.Option("--picture", help="Also draw it into this file: png, svg or pdf.")
    ] = None,
) -> None:
    """Show when imitation, SDFT, TTT-Discover and OAPL keep an old behaviour, in a model that can be solved."""
    if picture is not None and picture.suffix not in SUFFIXES:
        raise SnapshotError(f"{picture}: needed a picture that ends in {', '.join(SUFFIXES)}")
    echo("solving 35 flows, about ten seconds", err=True)
    found = ends()
    echo(table(found))
    if picture is not None:
        save_figure(figure(found), picture)
        print_pictures([picture], err=False)
