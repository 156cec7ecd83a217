"""`forgetwatch plan`: how many items for which change, and what a probe can see."""

from __future__ import annotations

import math
from collections import Counter
from typing import Annotated

import typer

from forgetwatch.cli.output import result_console
from forgetwatch.errors import ForgetwatchError
from forgetwatch.metrics.alarm import alarm_level, alarm_power
from forgetwatch.metrics.planning import detectable_change, items_needed
from forgetwatch.probes import load_probe
from forgetwatch.report.numbers import fit, items, percent

_FLIPS = (0.05, 0.10, 0.20)


def plan_command(
    probe: Annotated[str | None, typer.Option(help="The probe to judge: a JSONL file, or the name of one.")] = None,
    number: Annotated[int | None, typer.Option("--items", help="A number of items, in place of a probe.")] = None,
    change: Annotated[str, typer.Option(help="The net change that matters, such as 2% or 0.02.")] = "2%",
    flips: Annotated[
        list[str] | None,
        typer.Option(help="Share of answers that flip either way, such as 10%; by default 5, 10 and 20 %."),
    ] = None,
    power: Annotated[float, typer.Option(help="Probability of seeing a change that is there.")] = 0.8,
    looks: Annotated[int, typer.Option(help="Looks planned in the run, for the alarm.")] = 20,
) -> None:
    """Plan a probe: the items that a change needs, and the smallest change that each category can see."""
    wanted = share(change, "--change")
    shares = tuple(share(text, "--flips") for text in flips) if flips else _FLIPS
    if not 0 < power < 1:
        raise ForgetwatchError(f"--power: needed a probability between 0 and 1, got {power}")
    if number is not None and number < 1:
        raise ForgetwatchError(f"--items: needed at least one item, got {number}")
    if looks < 1:
        raise ForgetwatchError(f"--looks: needed at least one look, got {looks}")
    if probe is not None and number is not None:
        raise ForgetwatchError("give --probe or --items, not both")
    console = result_console()
    columns = "".join(f"{percent(psi) + ' % flip':>15}" for psi in shares)
    console.print(f"{'':<34}{columns}", markup=False)
    needed = "".join(f"{_items(items_needed(wanted, psi, power=power)):>15}" for psi in shares)
    label = f"items that see {percent(wanted)} points"
    console.print(f"{label:<34}{needed}", markup=False)
    if probe is not None:
        asked = load_probe(probe)
        rows = [(asked.name, len(asked)), *Counter(item.category for item in asked if item.category).items()]
    else:
        rows = [("the probe", number)] if number is not None else []
    if not rows:
        return
    console.print("smallest change seen, points", style="bold")
    groups = len(rows)
    for name, n in rows:
        seen = "".join(f"{_points(detectable_change(n, psi, power=power)):>15}" for psi in shares)
        console.print(f"  {fit(name, 22)} {n:>8,} {seen}", markup=False)
    level = alarm_level(1, groups=groups, planned=looks)
    n = rows[0][1]
    chances = "".join(f"{_percent(alarm_power(n, discordance=psi, loss=wanted, level=level)):>15}" for psi in shares)
    label = f"one look alarms at -{percent(wanted)}"
    console.print(f"{label:<34}{chances}", markup=False)
    console.print(
        f"{100 * power:.0f} % power, two-sided 5 %; the alarm's level {level:.2g} holds for {looks} looks at "
        f"{groups} group{'s' if groups > 1 else ''} together",
        style="dim",
    )


def share(text: str, option: str) -> float:
    """A share between 0 and 1, written as 2% or 0.02.

    Raises:
        ForgetwatchError: If it is neither.
    """
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise ForgetwatchError(f"{option}: needed a share such as 2% or 0.02, got {text!r}")
    return value


def _items(value: float) -> str:
    return "more than flip" if math.isnan(value) else items(math.ceil(value)).removesuffix(" items")


def _points(value: float) -> str:
    return "too few flips" if math.isnan(value) else percent(value)


def _percent(value: float) -> str:
    return "more than flip" if math.isnan(value) else f"{100 * value:.0f} %"
