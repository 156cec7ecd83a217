"""`forgetwatch plan`: how many items for which change, and what a probe can see."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.cells import set_cell_size

from forgetwatch.cli.options import share
from forgetwatch.cli.output import result_console
from forgetwatch.metrics.alarm import alarm_level
from forgetwatch.metrics.planning import detectable_change, items_needed
from forgetwatch.probes import load_probe
from forgetwatch.report.formatting import brief, fit, percent

_FLIPS = (0.05, 0.10, 0.20)
_COLUMNS = 3
"""Shares of flips that stand beside each other; more go below."""


def run(
    probe: Annotated[str | None, typer.Option(help="The probe to judge: a JSONL file, or the name of one.")] = None,
    number: Annotated[int | None, typer.Option("--items", help="A number of items, in place of a probe.")] = None,
    change: Annotated[str, typer.Option(help="The net change that matters, such as 2% or 0.02.")] = "2%",
    flips: Annotated[
        list[str] | None,
        typer.Option(help="Share of answers that flip either way, such as 10%; may be repeated. Default 5, 10, 20 %."),
    ] = None,
    power: Annotated[str, typer.Option(help="Probability of seeing a change that is there.")] = "80%",
    looks: Annotated[int, typer.Option(help="Looks planned in the run, for the alarm.")] = 20,
) -> None:
    """Plan a probe: the items that a change needs, and the smallest change that each category can see."""
    wanted = share(change, "--change")
    shares = tuple(share(text, "--flips") for text in flips) if flips else _FLIPS
    sure = share(power, "--power")
    if sure < 0.5:
        raise typer.BadParameter(f"--power: needed at least 50%, got {power}")
    if number is not None and number < 1:
        raise typer.BadParameter(f"--items: needed at least one item, got {number}")
    if looks < 1:
        raise typer.BadParameter(f"--looks: needed at least one look, got {looks}")
    if probe is not None and number is not None:
        raise typer.BadParameter("give --probe or --items, not both")
    rows = [("the probe", number)] if number is not None else []
    if probe is not None:
        asked = load_probe(probe)
        rows = [(asked.name, len(asked)), *Counter(item.category for item in asked if item.category).items()]
    groups = max(1, len(rows))
    level = alarm_level(1, groups=groups, planned=looks)
    console = result_console()

    def line(label: str, cells: Iterable[str]) -> None:
        console.print(f"{set_cell_size(label, 33)} {''.join(f'{cell:>15}' for cell in cells)}", markup=False)

    def block(title: str, some: Sequence[float], alpha: float) -> None:
        console.print(title, style="bold")
        for name, n in rows:
            seen = (detectable_change(n, psi, power=sure, alpha=alpha) for psi in some)
            line(f"  {fit(name, 20)} {brief(n, 9):>9}", map(_points, seen))

    for start in range(0, len(shares), _COLUMNS):
        some = shares[start : start + _COLUMNS]
        line("", (f"{100 * psi:g} % flip" for psi in some))
        console.print(f"items for {100 * wanted:g} points", style="bold")
        line("  one comparison sees it", (_items(items_needed(wanted, psi, power=sure)) for psi in some))
        alarmed = (items_needed(wanted, psi, power=sure, alpha=2 * level) for psi in some)
        line("  one look alarms on the loss", map(_items, alarmed))
        if rows:
            block("smallest change that one comparison sees, points", some, 0.05)
            block("smallest loss that one look alarms on, points", some, 2 * level)
    watched = f"{groups} group{'s' if groups > 1 else ''}"
    console.print(
        f"{100 * sure:g} % power, two-sided 5 %; alarm at p {level:.2g}: {looks} looks, {watched}", style="dim"
    )


def _items(value: float) -> str:
    return "impossible" if math.isnan(value) else brief(math.ceil(value), 14)


def _points(value: float) -> str:
    return "too few flips" if math.isnan(value) else percent(value)
