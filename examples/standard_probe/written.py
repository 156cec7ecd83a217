"""Questions that people wrote, read from the tables in ``facts/``, one row each.

    topic   difficulty  uses       prompt                    right   wrong                  source
    tools   1           sense:saw  What do people use to ..? a saw   a hammer|a brush|...   everyday experience

A table holds facts that cannot be computed; questions that share a name in ``uses`` are never in one probe together.
"""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import Literal, cast

from standard_probe.question import Category, Question

BETWEEN = "|"
"""Separator of the entries of one cell."""


def read_rows(name: str) -> list[dict[str, str]]:
    """The rows of ``NAME.csv`` in this folder, in its order.

    Args:
        name: The table without its ending, such as ``facts/culture``.
    """
    text = files("standard_probe").joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def difficulty(row: dict[str, str]) -> Literal[1, 2, 3]:
    """The row's difficulty: 1, 2 or 3."""
    return cast(Literal[1, 2, 3], int(row["difficulty"]))


def entries(cell: str) -> tuple[str, ...]:
    """The entries of one cell; empty for an empty one."""
    return tuple(cell.split(BETWEEN)) if cell else ()


def written(name: str, *, category: Category) -> list[Question]:
    """The questions of the table ``facts/NAME.csv``, in the order of the file.

    Args:
        name: The table, without folder and ending.
        category: The category of all its questions.
    """
    return [
        Question(
            prompt=row["prompt"],
            right=row["right"],
            wrong=entries(row["wrong"]),
            category=category,
            topic=row["topic"],
            difficulty=difficulty(row),
            uses=frozenset(entries(row["uses"])),
            source=row["source"],
        )
        for row in read_rows(f"facts/{name}")
    ]
