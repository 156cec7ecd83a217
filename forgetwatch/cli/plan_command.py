"""`forgetwatch plan`: how many items for which change, and what a probe can see."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.cells import set_cell_size
from rich.console import Console

from forgetwatch.cli.options import share
from forgetwatch.cli.output import result_console
from forgetwatch.metrics.alarm import alarm_level
from forgetwatch.metrics.planning import detectable_change, items_needed
from forgetwatch.probes import load_probe
from forgetwatch.report.formatting import brief, fit, percent

_FLIPS = (0.05, 0.10, 0.20)
_COLUMNS = 3
"""Shares of flips in one table; more go into another below it."""


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Checked options of one call.

    Attributes:
        rows: Name and number of items of the probe, then of each category; empty without a probe or a number.
        change: Net change that matters, 0 to 1.
        shares: Shares of answers that flip either way, 0 to 1.
        power: Probability of seeing a change that is there.
        looks: Looks planned in the run.
    """

    rows: list[tuple[str, int]]
    change: float
    shares: tuple[float, ...]
    power: float
    looks: int

    @property
    def groups(self) -> int:
        """Number of groups that the alarm watches."""
        return max(1, len(self.rows))

    @property
    def level(self) -> float:
        """One-sided p-value at which one look alarms."""
        return alarm_level(1, groups=self.groups, planned=self.looks)


def run(
    probe: Annotated[str | None, typer.Option(help="Probe to judge: a name or a file.")] = None,
    number: Annotated[int | None, typer.Option("--items", help="Number of items, in place of a probe.")] = None,
    change: Annotated[str, typer.Option(help="Net change that matters, such as 2% or 0.02.")] = "2%",
    flips: Annotated[
        list[str] | None,
        typer.Option(help="Share of answers that flip either way, such as 10%; may be repeated. Default 5, 10, 20 %."),
    ] = None,
    power: Annotated[str, typer.Option(help="Probability of seeing a change that is there.")] = "80%",
    looks: Annotated[int, typer.Option(help="Looks planned in the run, for the alarm.")] = 20,
) -> None:
    """Plan a probe: the items that a change needs, and the smallest change that each category can see."""
    plan = _Plan(
        rows=_rows(probe, number),
        change=share(change, "--change"),
        shares=tuple(share(text, "--flips") for text in flips) if flips else _FLIPS,
        power=share(power, "--power"),
        looks=looks,
    )
    if plan.power < 0.5:
        raise typer.BadParameter(f"--power: needed at least 50%, got {power}")
    if looks < 1:
        raise typer.BadParameter(f"--looks: needed at least one look, got {looks}")
    console = result_console()
    for start in range(0, len(plan.shares), _COLUMNS):
        _print_table(console, plan, plan.shares[start : start + _COLUMNS])
    watched = f"{plan.groups} group{'s' if plan.groups > 1 else ''}"
    console.print(
        f"{100 * plan.power:g} % power, two-sided 5 %; alarm at p {plan.level:.2g}: {looks} looks, {watched}",
        style="dim",
    )


def _rows(probe: str | None, number: int | None) -> list[tuple[str, int]]:
    """Name and number of items of the probe, then of each of its categories.

    Raises:
        typer.BadParameter: If a probe and a number are given, or the number is below one.
        ProbeError: If the probe cannot be loaded.
    """
    if probe is not None and number is not None:
        raise typer.BadParameter("--probe and --items exclude each other; give one")
    if number is not None:
        if number < 1:
            raise typer.BadParameter(f"--items: needed at least one item, got {number}")
        return [("the probe", number)]
    if probe is None:
        return []
    loaded = load_probe(probe)
    return [(loaded.name, len(loaded)), *Counter(item.category for item in loaded if item.category).items()]


def _print_table(console: Console, plan: _Plan, shares: Sequence[float]) -> None:
    """Print the table of some shares of flips, one column each."""

    def line(label: str, cells: Iterable[str]) -> None:
        # Room for a name of 20 and a number of 9, and for three cells of 15 in 80 columns.
        console.print(f"{set_cell_size(label, 33)} {''.join(f'{cell:>15}' for cell in cells)}", markup=False)

    def block(title: str, alpha: float) -> None:
        console.print(title, style="bold")
        for name, n in plan.rows:
            seen = (detectable_change(n, psi, power=plan.power, alpha=alpha) for psi in shares)
            line(f"  {fit(name, 20)} {brief(n, 9):>9}", map(_points, seen))

    line("", (f"{100 * psi:g} % flip" for psi in shares))
    console.print(f"items for {100 * plan.change:g} points", style="bold")
    line("  one comparison sees it", (_items(items_needed(plan.change, psi, power=plan.power)) for psi in shares))
    # An alarm is one-sided, and its level is that of one look among all looks and groups.
    alarmed = (items_needed(plan.change, psi, power=plan.power, alpha=2 * plan.level) for psi in shares)
    line("  one look alarms on the loss", map(_items, alarmed))
    if plan.rows:
        block("smallest change that one comparison sees, points", 0.05)
        block("smallest loss that one look alarms on, points", 2 * plan.level)


def _items(value: float) -> str:
    return "impossible" if math.isnan(value) else brief(math.ceil(value), 14)


def _points(value: float) -> str:
    return "too few flips" if math.isnan(value) else percent(value)
