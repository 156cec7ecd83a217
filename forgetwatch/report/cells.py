"""The numbers of a group as cells, for Markdown, page and notebook; each measure rounds its own.

    group_cells    one text for each quantity in `HEADINGS`, the columns of the table of all groups
    PANELS         measures that have a table of their own: `measure.cells`

Rates are in percent and differences in points, both to one decimal, changes of a log score in nats; brackets hold 95 %
intervals.
"""

from __future__ import annotations

import math
from typing import Any, Final

from forgetwatch.comparing import Group
from forgetwatch.measures import MEASURE_OF, MEASURES, NOT_THERE, GroupMeasure, Quantity
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


def flips(group: Group) -> str:
    """Forgotten and gained counts with their signs, such as ``-68 +64``."""
    return f"-{count(group.forgotten)} +{count(group.gained)}"


def ratio_text(value: float) -> str:
    """Text of a ratio, to one decimal."""
    return "n/a" if math.isnan(value) else "infinite" if math.isinf(value) else f"{value:.1f}"
