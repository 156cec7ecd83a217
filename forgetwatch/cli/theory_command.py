"""`forgetwatch theory`: mass and drift of an old behaviour under each method, in the two-mode laboratory."""

from __future__ import annotations

from forgetwatch.cli.output import echo
from forgetwatch.theory import ends, table


def run() -> None:
    """Show when imitation, SDFT, TTT-Discover and OAPL keep an old behaviour, in a model that can be solved."""
    echo("solving 35 flows, about ten seconds", err=True)
    echo(table(ends()))
