"""Numbers of a group as cells, for Markdown, page and notebook; each measure rounds its own.

    group_cells     one text for each quantity in `HEADINGS`, the columns of the table of all groups
    PANELS          measures that have a table of their own, with `measure_rows`
    measure_tables  such tables of several comparisons, with a row for each
    drift_rows      the table of the drift, and `drift_looks` those of the looks of a run

Rates are in percent and differences in points, both to one decimal, changes of a log score in nats;
brackets hold 95 % intervals.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import estimated, leg_interval
from forgetwatch.measures.base import MISSING_CELL, GroupMeasure, Quantity
from forgetwatch.measures.base_drift import DRIFT, SET_NAMES, LookDrift
from forgetwatch.measures.quantities import MEASURE_OF, MEASURES
from forgetwatch.text import between, count, points

_COLUMNS: Final = (
    "n",
    "accuracy_before",
    "accuracy_after",
    "forgotten",
    "gained",
    "known_net",
    "known_lost_net",
    "net_change_estimate",
)


HEADINGS: Final[dict[str, str]] = {
    name: quantity.heading
    for name in _COLUMNS
    if isinstance(quantity := MEASURE_OF[name][1], Quantity) and quantity.heading
}
"""Heading of each column of the table of all groups, by quantity."""


PANELS: Final[tuple[GroupMeasure[Any], ...]] = tuple(
    measure for measure in MEASURES if measure.title
)
"""Measures that have a table of their own."""


def group_cells(group: Group, categories: int = 1) -> dict[str, str]:
    """Cells of each quantity in `HEADINGS` for a group.

    Args:
        group: The group; dashes if none of its items was compared.
        categories: Number of categories whose intervals hold together.
    """
    if not group.n:
        return dict.fromkeys(HEADINGS, MISSING_CELL) | {"n": count(group.n)}
    measures = {measure.key: measure for measure, _ in map(MEASURE_OF.__getitem__, HEADINGS)}
    cells = {
        name: cell
        for measure in measures.values()
        for name, cell in measure.cells(group[measure]).items()
    }
    change = f"{points(estimated(group)[0])} ({between(leg_interval(group, categories), points)})"
    return {name: cells.get(name, MISSING_CELL) for name in HEADINGS} | {
        "net_change_estimate": change
    }


def measure_rows(
    measure: GroupMeasure[Any], groups: Iterable[Group]
) -> list[tuple[Group, dict[str, str]]]:
    """Group and cells of each group that has a measure."""
    return [(group, cells) for group in groups if (cells := measure.cells(group[measure]))]


def measure_tables(
    comparisons: Sequence[tuple[str, Comparison]],
) -> list[tuple[str, list[str], list[list[str]]]]:
    """Tables that measures have of their own.

    Title, headings and rows, a row for each comparison. The drift has a row for each set of
    prompts. Measures that no comparison has are left out.
    """
    tables = []
    for measure in PANELS:
        cells = [(name, measure.cells(comparison.all[measure])) for name, comparison in comparisons]
        tables.append(
            (
                measure.title,
                measure.headings,
                [[name, *cells_of.values()] for name, cells_of in cells if cells_of],
            )
        )
    rows = [
        [f"{name}, {of}", *cells.values()]
        for name, comparison in comparisons
        for of, cells in drift_rows(comparison.drift or {})
    ]
    tables.append((DRIFT.title, DRIFT.headings, rows))
    return [(title, ["", *headings.values()], rows) for title, headings, rows in tables if rows]


def drift_rows(drift: Mapping[str, LookDrift]) -> list[tuple[str, dict[str, str]]]:
    """Name and cells of each set of prompts."""
    return [(SET_NAMES.get(name, name), DRIFT.cells(look)) for name, look in drift.items()]


def drift_looks(trajectory: Trajectory, most: int) -> dict[int, Mapping[str, LookDrift]]:
    """Drift at some looks of a run, by step.

    Empty if the baseline alone has drift, which is 0.
    """
    steps = spread_looks(trajectory, most)
    return {step: drift for step, drift in trajectory.drift.items() if step in steps}


def spread_looks(trajectory: Trajectory, most: int) -> list[int]:
    """Steps of at most about `most` looks after the baseline.

    Every n-th from the first on, and the last.
    """
    steps = trajectory.steps[1:]
    stride = -(-len(steps) // most)
    return [step for at, step in enumerate(steps) if at % stride == 0 or at == len(steps) - 1]
