"""Comparisons as a CSV table: a line a group, a column a quantity of the JSON document, full precision."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from forgetwatch.compare import Comparison
from forgetwatch.report.as_json import QUANTITIES, group_json

_INTERVALS = ("known_lost_interval", "forgetting_interval", "backward_transfer_interval", "net_change_interval")


def comparisons_csv(comparisons: Sequence[Comparison]) -> str:
    """The groups of all comparisons; an empty cell where a quantity is undefined.

    >>> comparisons_csv([]).split(",")[:4]
    ['before', 'after', 'level', 'name']
    """
    ends = [f"{name}_{end}" for name in _INTERVALS for end in ("low", "high")]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["before", "after", "level", "name", *QUANTITIES, *ends])
    for comparison in comparisons:
        for group in comparison.groups:
            document = group_json(group)
            values = [_at(document, path) for path in QUANTITIES]
            values += [end for name in _INTERVALS for end in (document[name] or (None, None))]
            writer.writerow([*comparison.labels, group.level, group.name, *values])
    return text.getvalue()


def _at(document: dict[str, Any], path: str) -> Any:
    """The value at a path with dots; None where the way ends."""
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
