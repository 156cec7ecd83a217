"""`forgetwatch plan`: how many items for which change, and what a probe can see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Literal

import typer
from rich.cells import set_cell_size
from rich.console import Console

from forgetwatch.cli.options import share
from forgetwatch.cli.output import result_console
from forgetwatch.metrics import (
    DELTA,
    alarm_level,
    detectable_change,
    detectable_known_lost,
    detectable_log_score,
    items_needed,
    log_score_sd,
    share_of_alpha,
)
from forgetwatch.pairing import brief, count, fit, percent
from forgetwatch.probes import load_probe

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

    @cached_property
    def levels(self) -> tuple[float, float]:
        """One-sided p-values at which one look alarms on a net loss, and on fading."""
        fading = sum(not math.isnan(detectable_log_score(row.scored, 1.0)) for row in self.rows)
        alpha = share_of_alpha(fading=bool(fading))
        net, faded = (alarm_level(1, groups=n, planned=self.looks, alpha=alpha) for n in (self.groups, max(1, fading)))
        return net, faded


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
    """Plan a probe: the items that a change needs, and the smallest change that each category can see.

    Of items whose options get scores also the smallest number of clearly known and lost ones, less luck, and the
    smallest change of the calibrated log score.
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
    watched = f"{plan.groups} group{'s' if plan.groups > 1 else ''}"
    power_text = f"{100 * plan.power:g} % power, two-sided 5 %"
    console.print(f"{power_text}; alarm at p {plan.levels[0]:.2g}: {looks} looks, {watched}", style="dim")
    if any(row.scored for row in plan.rows):
        console.print("luck and spread of the log score: as measured on SmolLM2-135M, 16 fine-tunings", style="dim")


def _rows(probe: str | None, number: int | None) -> list[_Row]:
    """Items of the probe, then of each of its categories; a bare number is of items with scores and four options."""
    if probe is not None and number is not None:
        raise typer.BadParameter("--probe and --items exclude each other; give one")
    if number is not None:
        if number < 1:
            raise typer.BadParameter(f"--items: needed at least one item, got {number}")
        return [_Row(name="the probe", n=number, scored=number, mirrored=number)]
    if probe is None:
        return []
    loaded = load_probe(probe)
    items = [item for item in loaded if not item.is_passage]
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

    def block(title: str, items: Literal["n", "scored", "mirrored"], seen: Callable[[int, float], str]) -> None:
        numbers: list[tuple[str, int]] = [(row.name, getattr(row, items)) for row in plan.rows]
        if any(n for _, n in numbers):
            console.print(title, style="bold")
            for name, n in numbers:
                line(f"  {fit(name, 20)} {brief(n, 9):>9}", (seen(n, psi) for psi in shares))

    def net(n: int, psi: float, alpha: float = 0.05) -> str:
        value = detectable_change(n, psi, power=plan.power, alpha=alpha)
        return "too few flips" if math.isnan(value) else percent(value)

    def known(n: int, psi: float) -> str:
        value = detectable_known_lost(n, psi, power=plan.power)
        return "too few flips" if math.isnan(value) else count(math.ceil(value))

    def log_score(n: int, psi: float, alpha: float = 0.05, delta: float = 0.0) -> str:
        value = detectable_log_score(n, log_score_sd(psi), power=plan.power, alpha=alpha, delta=delta)
        return "too few items" if math.isnan(value) else f"{value:.3f}"

    net_level, fading_level = plan.levels
    line("", (f"{100 * psi:g} % flip" for psi in shares))
    console.print(f"items for {100 * plan.change:g} points", style="bold")
    line("  one comparison sees it", (_items(items_needed(plan.change, psi, power=plan.power)) for psi in shares))
    # An alarm is one-sided, and its level is that of one look among all looks and groups.
    alarmed = (items_needed(plan.change, psi, power=plan.power, alpha=2 * net_level) for psi in shares)
    line("  one look alarms on the loss", map(_items, alarmed))
    fading = partial(log_score, alpha=2 * fading_level, delta=DELTA)
    block("smallest change that one comparison sees, points", "n", net)
    block("smallest loss that one look alarms on, points", "n", partial(net, alpha=2 * net_level))
    block("smallest net of known and lost that one comparison sees, questions", "mirrored", known)
    block("smallest change of the log score that one comparison sees, nats", "scored", log_score)
    block("smallest fading that one look alarms on, nats", "scored", fading)


def _items(value: float) -> str:
    return "impossible" if math.isnan(value) else brief(math.ceil(value), 14)
