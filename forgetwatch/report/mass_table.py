"""Mass and conditional in reports: one sentence, the cells of a table, and the lines of a terminal.

    mass_sentence    of the forgotten answers: said less, or another option preferred
    mass_cells       one text for each quantity in `HEADINGS`: Markdown, page
    mass_lines       lines of the detail of a comparison
    mass_looks       lines of the detail of a run, one for each look

Changes are in nats a question, with 95 % intervals in brackets. See `metrics.mass`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

from rich.text import Text

from forgetwatch.comparing import Group
from forgetwatch.metrics import Interval
from forgetwatch.report.cells import NOT_THERE
from forgetwatch.report.formatting import brief, count, nats

HEADINGS: Final = {
    "log_mass_change": "mass, nats",
    "log_conditional_change": "within the options, nats",
    "forgotten_log_mass_change": "mass, forgotten alone",
    "forgotten_log_conditional_change": "within the options, forgotten alone",
    "conditional_kl": "KL within the options",
}
"""Heading of each column, by quantity."""

Mode = Literal["mass", "both", "conditional", "neither"]

_MODES: Final[dict[Mode, str]] = {
    "mass": "the larger part is that the options are said less",
    "both": "both parts fell",
    "conditional": "another option is preferred",
    "neither": "neither part fell",
}


def mass_mode(group: Group) -> Mode | None:
    """Part that the forgotten answers lost; None if it is not measured.

    ``mass`` if the interval of the mass is below 0 and it fell by more than the share of the right option, ``both`` if
    it fell by less, ``conditional`` if its interval is not below 0.
    """
    mass, interval = group.forgotten_log_mass_change, group.forgotten_log_mass_change_interval
    conditional = group.forgotten_log_conditional_change
    if mass is None or interval is None or conditional is None or math.isnan(interval[1]):
        return None
    if interval[1] >= 0:
        return "conditional" if conditional < 0 else "neither"
    return "mass" if mass < conditional else "both"


def mass_sentence(group: Group) -> str:
    """Sentence on the two parts that the forgotten answers lost; empty if none of them is measured."""
    found, mode = group.mass, mass_mode(group)
    if found is None or found.forgotten_mass is None or found.forgotten_conditional is None:
        return ""
    n = count(found.forgotten_n)
    of = "Of the forgotten answer" if found.forgotten_n == 1 else f"Of the {n} forgotten answers"
    mass, conditional = found.forgotten_mass, found.forgotten_conditional
    inside = ", which is within its error," if mass.interval[0] <= 0 <= mass.interval[1] else ""
    text = (
        f"{of}: the log probability of the options together {_moved(mass.mean)}{inside} and that of the right one "
        f"among them {_moved(conditional.mean)}"
    )
    return f"{text}." if mode is None else f"{text}: {_MODES[mode]}."


def _moved(change: float) -> str:
    """Phrase for a change in nats, without a sign."""
    if not change:
        return "changed by 0 nats"
    return f"{'rose' if change > 0 else 'fell'} by {nats(change)[0].lstrip('+-')} nats"


def mass_cells(group: Group) -> dict[str, str]:
    """Text of each quantity in `HEADINGS` for one group; empty for a group without mass."""
    if group.mass is None:
        return {}
    names = [name for name in HEADINGS if name.endswith("_change")]
    cells = {name: _with_interval(getattr(group, name), getattr(group, f"{name}_interval")) for name in names}
    return {**cells, "conditional_kl": NOT_THERE if group.conditional_kl is None else f"{group.conditional_kl:.3f}"}


def mass_lines(group: Group) -> list[Text]:
    """Lines of the two parts over all items and over the forgotten ones, and their sentence; none without mass."""
    cells = mass_cells(group)
    if not cells:
        return []
    lines = [Text(f"{'why, nats':<14}{'mass, log m':<27}within the options, log c")]
    for name, prefix in (("all", ""), ("forgotten", "forgotten_")):
        mass, conditional = cells[f"{prefix}log_mass_change"], cells[f"{prefix}log_conditional_change"]
        if mass != NOT_THERE:
            lines.append(Text(f"  {name:<12}{mass:<27}{conditional}"))
    weighted = group.weighted_conditional_kl
    letters = "" if weighted is None else f"; letters, times their mass: {weighted:.4f}"
    lines.append(Text(f"  {'KL':<39}{cells['conditional_kl']}{letters}", "dim"))
    if sentence := mass_sentence(group):
        lines.append(Text(sentence, "dim"))
    return lines


def mass_looks(looks: Sequence[tuple[int, Group]]) -> list[Text]:
    """Lines of the two parts at each look, by its step; none if no look has mass."""
    rows = [(step, cells) for step, group in looks if (cells := mass_cells(group))]
    if not rows:
        return []
    lines = [Text(f"{'step':>7}  {'mass, nats':<26} {'within the options':<26} forgotten", style="bold")]
    for step, cells in rows:
        # Of the forgotten ones without the intervals, which would take two lines.
        lost = [cells[f"forgotten_{name}"].partition(" ")[0] for name in ("log_mass_change", "log_conditional_change")]
        head = f"{brief(step, 7).replace(',', ''):>7}  {cells['log_mass_change']:<26}"
        lines.append(Text(f"{head} {cells['log_conditional_change']:<26} {' and '.join(dict.fromkeys(lost))}"))
    return lines


def _with_interval(change: float | None, interval: Interval | None) -> str:
    """Text such as ``+26.14 (+25.49 to +26.79)``; a dash for None."""
    if change is None or interval is None:
        return NOT_THERE
    shown, low, high = nats(change, *interval)
    return shown if math.isnan(interval[0]) else f"{shown} ({low} to {high})"
