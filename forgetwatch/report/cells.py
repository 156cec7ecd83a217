"""The numbers of a group as cells, for Markdown, page and notebook; each measure rounds its own.

    group_cells    one text for each quantity in `HEADINGS`, the columns of the table of all groups
    PANELS         measures that have a table of their own: `measure.cells`
    measure_tables such tables of several comparisons, with a row for each

Rates are in percent and differences in points, both to one decimal, changes of a log score in nats; brackets hold 95 %
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from forgetwatch.comparing import Comparison, Group
from forgetwatch.measures import DRIFT, MEASURE_OF, MEASURES, NOT_THERE, SET_NAMES, GroupMeasure, Quantity
from forgetwatch.pairing import count

_COLUMNS: Final = (
    *("n", "accuracy_before", "accuracy_after", "forgotten", "gained", "known", "known_lost", "known_lost_net"),
    *("net_change", "q_value", "log_score_change_calibrated"),
)

HEADINGS: Final[dict[str, str]] = {
    name: one.heading for name in _COLUMNS if isinstance(one := MEASURE_OF[name][1], Quantity) and one.heading
}
"""Heading of each column of the table of all groups, by quantity."""

PANELS: Final[tuple[GroupMeasure[Any], ...]] = tuple(measure for measure in MEASURES if measure.title)
"""Measures that have a table of their own."""


def group_cells(group: Group) -> dict[str, str]:
    """Text of each quantity in `HEADINGS` for one group; dashes if none of its items was compared."""
    if not group.n:
        return dict.fromkeys(HEADINGS, NOT_THERE) | {"n": count(group.n)}
    measures = {measure.key: measure for measure, _ in map(MEASURE_OF.__getitem__, HEADINGS)}
    cells = {name: text for measure in measures.values() for name, text in measure.cells(group[measure]).items()}
    return {name: cells.get(name, NOT_THERE) for name in HEADINGS}


def measure_tables(named: Sequence[tuple[str, Comparison]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Title, headings and rows of each table that a measure has of its own, with a row for each named comparison.

    The drift has a row for each set of prompts. Measures that no comparison has are left out.
    """
    tables = []
    for measure in PANELS:
        cells = [(name, measure.cells(one.all[measure])) for name, one in named]
        tables.append((measure.title, measure.headings, [[name, *shown.values()] for name, shown in cells if shown]))
    moved = [(name, of, found) for name, one in named for of, found in (one.drift or {}).items()]
    rows = [[f"{name}, {SET_NAMES.get(of, of)}", *DRIFT.cells(found).values()] for name, of, found in moved]
    tables.append((DRIFT.title, DRIFT.headings, rows))
    return [(title, ["", *headings.values()], rows) for title, headings, rows in tables if rows]


def flips(group: Group) -> str:
    """Forgotten and gained counts with their signs, such as ``-68 +64``."""
    return f"-{count(group.forgotten)} +{count(group.gained)}"


def ratio_text(value: float) -> str:
    """Text of a ratio, to one decimal."""
    return "n/a" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.1f}"
