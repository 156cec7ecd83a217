"""`forgetwatch probe plan`: how many items for which change, and what a probe can see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.cells import set_cell_size
from rich.console import Console

from forgetwatch.cli.options import share
from forgetwatch.cli.output import print_hanging, result_console
from forgetwatch.comparing import ALPHA, compare
from forgetwatch.comparing.decision import LOSS, expected_verdicts
from forgetwatch.metrics import (
    alarm_level,
    detectable_change,
    detectable_estimate,
    detectable_known_lost,
    items_needed,
)
from forgetwatch.metrics.margin_change import FEWEST_TESTED
from forgetwatch.probes import load_probe, questions_once
from forgetwatch.readers import load_snapshot
from forgetwatch.text import brief, count, fit, percent

_FLIPS = (0.05, 0.10, 0.20)
_COLUMNS = 3
"""Shares of flips in one table; more go into another below it."""


@dataclass(frozen=True, kw_only=True)
class _Row:
    """Numbers of items of the probe, or of one of its categories."""

    name: str
    n: int
    scored: int  # whose options get scores
    mirrored: int  # those of them with at least two wrong options, of which some can be clearly known


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Checked options of one call."""

    rows: list[_Row]  # the probe, then each category; empty without a probe or a number
    change: float
    shares: tuple[float, ...]
    power: float
    looks: int

    @property
    def groups(self) -> int:
        """Number of groups that the alarm watches."""
        return max(1, len(self.rows))

    def level(self, *, whole: bool) -> float:
        """Return the one-sided p-value at which one look alarms.

        Half of alpha for the whole, half shared by the categories.
        """
        # A single category is the whole.
        shares = self.groups > 2
        alpha = ALPHA / 2 if shares else ALPHA
        return alarm_level(1, groups=1 if whole or not shares else self.groups - 1, planned=self.looks, alpha=alpha)


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
    base: Annotated[
        Path | None, typer.Option(help="Outcomes of the base: how often a training will read KEPT, or FORGOT.")
    ] = None,
) -> None:
    """Plan a probe: the items that a change needs, the smallest change that it can show, and the verdicts to expect.

    Of items whose options get scores the net change is the estimate from flips and margins. Before a run its variance
    is taken as half of that of the flips.
    """
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
    levels = f"alarm at each of {looks} looks: all at p {plan.level(whole=True):.2g}"
    if plan.groups > 2:
        levels += f", {plan.groups - 1} categories at p {plan.level(whole=False):.2g}"
    console.print(f"{100 * plan.power:g} % power, two-sided 5 %", style="dim")
    console.print(levels, style="dim")
    if any(row.scored for row in plan.rows):
        console.print("scored items: half of the variance of the flips is taken, the least measured", style="dim")
    if base is not None:
        print_hanging(_verdicts(base))


def _verdicts(base: Path) -> str:
    """Return the sentence on the verdicts to expect of a training of this base."""
    outcomes = load_snapshot(base)
    found = expected_verdicts(compare(before=outcomes, after=outcomes), outcomes)
    if found is None:
        return "verdicts: most answers of the base have no scores of options, from which they are simulated"
    told = f"verdicts: of {count(len(outcomes))} questions, a harmless training will read KEPT in about "
    told += f"{100 * found.kept:.0f} %"
    if found.forgot is not None:
        told += f", one that loses {100 * LOSS:g} points FORGOT in about {100 * found.forgot:.0f} %"
    return told


def _rows(probe: str | None, number: int | None) -> list[_Row]:
    """Return the items of the probe, then of each of its categories.

    A bare number is of items with scores and four options.
    """
    if probe is not None and number is not None:
        raise typer.BadParameter("--probe and --items exclude each other; give one")
    if number is not None:
        if number < 1:
            raise typer.BadParameter(f"--items: needed at least one item, got {number}")
        return [_Row(name="the probe", n=number, scored=number, mirrored=number)]
    if probe is None:
        return []
    loaded = load_probe(probe)
    items = questions_once([item for item in loaded if not item.is_passage])
    groups = [(loaded.name, items)]
    for category in dict.fromkeys(item.category for item in items if item.category):
        groups.append((category, [item for item in items if item.category == category]))
    rows = []
    for name, of_group in groups:
        # The options of a generated answer are scored next to it.
        scored = [item for item in of_group if item.choices]
        mirrored = sum(len(item.choices) - len(item.answers) >= 2 for item in scored)
        rows.append(_Row(name=name, n=len(of_group), scored=len(scored), mirrored=mirrored))
    return rows


def _print_table(console: Console, plan: _Plan, shares: Sequence[float]) -> None:
    """Print the table of some shares of flips, one column each."""

    def line(label: str, cells: Iterable[str]) -> None:
        # Room for a name of 20 and a number of 9, and for three cells of 15 in 80 columns.
        console.print(f"{set_cell_size(label, 33)} {''.join(f'{cell:>15}' for cell in cells)}", markup=False)

    def block(title: str, rows: Sequence[_Row], shown: Callable[[_Row, float], str]) -> None:
        if rows:
            console.print(title, style="bold")
        for row in rows:
            line(f"  {fit(row.name, 20)} {brief(row.n, 9):>9}", (shown(row, psi) for psi in shares))

    def net(row: _Row, psi: float) -> str:
        return _points(_detectable(row, psi, power=plan.power))

    def alarm(row: _Row, psi: float) -> str:
        # An alarm is one-sided, and its level is that of one look among all looks and groups.
        alpha = 2 * plan.level(whole=row is plan.rows[0])
        return _points(_detectable(row, psi, power=plan.power, alpha=alpha, at_look=True))

    def known(row: _Row, psi: float) -> str:
        value = detectable_known_lost(row.mirrored, psi, power=plan.power)
        return "too few flips" if math.isnan(value) else count(math.ceil(value))

    line("", (f"{100 * psi:g} % flip" for psi in shares))
    console.print(f"items for {100 * plan.change:g} points, without and with scores", style="bold")
    needed = [items_needed(plan.change, psi, power=plan.power) for psi in shares]
    line("  one comparison shows it", map(_items, needed))
    # Half the variance takes half the items.
    line("  with scores of the options", (_items(value / 2) for value in needed))
    block("smallest change that one comparison shows, points", plan.rows, net)
    block("smallest fall that one look alarms on, points", plan.rows, alarm)
    mirrored = [row for row in plan.rows if row.mirrored]
    block("fewest clearly known and lost, without lucky guesses, that it shows", mirrored, known)


def _detectable(row: _Row, psi: float, *, power: float, alpha: float = 0.05, at_look: bool = False) -> float:
    """Return the smallest net change of the items: by the estimate where all have scores, else by flips."""
    if row.scored == row.n and (not at_look or row.n >= FEWEST_TESTED):
        return detectable_estimate(row.n, psi, power=power, alpha=alpha)
    return detectable_change(row.n, psi, power=power, alpha=alpha)


def _points(value: float) -> str:
    return "too few flips" if math.isnan(value) else percent(value)


def _items(value: float) -> str:
    return "impossible" if math.isnan(value) else brief(math.ceil(value), 14)
