"""The numbers of a group as cells, for Markdown, page and notebook; each measure rounds its own.

    group_cells     one text for each quantity in `HEADINGS`, the columns of the table of all groups
    PANELS          measures that have a table of their own, with `measure_rows`
    measure_tables  such tables of several comparisons, with a row for each
    drift_rows      the table of the drift, and `drift_looks` those of the looks of a run

Rates are in percent and differences in points, both to one decimal, changes of a log score in nats; brackets hold 95 %
intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from forgetwatch.comparing import Comparison, Group, Trajectory
from forgetwatch.measures import DRIFT, MEASURE_OF, MEASURES, MISSING_CELL, SET_NAMES, GroupMeasure, LookDrift, Quantity
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
    """Return the text of each quantity in `HEADINGS` for one group; dashes if none of its items was compared."""
    if not group.n:
        return dict.fromkeys(HEADINGS, MISSING_CELL) | {"n": count(group.n)}
    measures = {measure.key: measure for measure, _ in map(MEASURE_OF.__getitem__, HEADINGS)}
    cells = {name: text for measure in measures.values() for name, text in measure.cells(group[measure]).items()}
    return {name: cells.get(name, MISSING_CELL) for name in HEADINGS}


def measure_rows(measure: GroupMeasure[Any], groups: Iterable[Group]) -> list[tuple[Group, dict[str, str]]]:
    """Return (Group, its cells) of each group that has a measure."""
    return [(group, cells) for group in groups if (cells := measure.cells(group[measure]))]


def measure_tables(named: Sequence[tuple[str, Comparison]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return title, headings and rows of each table that a measure has of its own, a row for each comparison.

    The drift has a row for each set of prompts. Measures that no comparison has are left out.
    """
    tables = []
    for measure in PANELS:
        cells = [(name, measure.cells(one.all[measure])) for name, one in named]
        tables.append((measure.title, measure.headings, [[name, *shown.values()] for name, shown in cells if shown]))
    rows = [[f"{name}, {of}", *cells.values()] for name, one in named for of, cells in drift_rows(one.drift or {})]
    tables.append((DRIFT.title, DRIFT.headings, rows))
    return [(title, ["", *headings.values()], rows) for title, headings, rows in tables if rows]


def drift_rows(drift: Mapping[str, LookDrift]) -> list[tuple[str, dict[str, str]]]:
    """Return (Name of the set, its cells) of each set of prompts."""
    return [(SET_NAMES.get(name, name), DRIFT.cells(found)) for name, found in drift.items()]


def drift_looks(trajectory: Trajectory, most: int) -> dict[int, Mapping[str, LookDrift]]:
    """Return the drift at some looks of a run, by step; empty if the baseline alone has one, which is 0."""
    shown = spread_looks(trajectory, most)
    return {step: drift for step, drift in trajectory.drift.items() if step in shown}


def spread_looks(trajectory: Trajectory, most: int) -> list[int]:
    """Return the steps of at most about `most` looks after the baseline: every n-th from the first on, and the last."""
    steps = trajectory.steps[1:]
    stride = -(-len(steps) // most)
    return [step for at, step in enumerate(steps) if at % stride == 0 or at == len(steps) - 1]
