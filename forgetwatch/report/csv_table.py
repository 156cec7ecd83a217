"""Comparisons as a CSV table: a line for each group, a column for each quantity of the JSON document.

Where the drift was measured its numbers are in the line of all.
"""

import csv
import io
from collections.abc import Sequence

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import group_values
from forgetwatch.measures.base import json_value
from forgetwatch.measures.base_drift import drift_row
from forgetwatch.measures.quantities import QUANTITIES, value_at
from forgetwatch.visible_text import csv_cell


def comparisons_csv(comparisons: Sequence[Comparison]) -> str:
    """CSV table of the groups of all comparisons.

    A cell is empty if its quantity is undefined.

    A name that a spreadsheet would run as a formula has an apostrophe before it.

    >>> comparisons_csv([]).split(",")[:4]
    ['before', 'after', 'level', 'name']
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    drifts = [json_value(drift_row(comparison.drift or {})) for comparison in comparisons]
    of_drift = list(dict.fromkeys(name for row in drifts for name in row))
    writer.writerow(["before", "after", "level", "name", *QUANTITIES, *of_drift])
    for comparison, drift in zip(comparisons, drifts, strict=True):
        for group in comparison.groups:
            document = group_values(group)
            values = [value_at(document, path) for path in QUANTITIES]
            values += [drift.get(name) if group.level == "all" else None for name in of_drift]
            names = (*comparison.labels, group.level, group.name)
            writer.writerow([*map(csv_cell, names), *values])
    return table.getvalue()
