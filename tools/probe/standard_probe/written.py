"""Questions that people wrote, read from the tables in ``facts/``, one row each.

    topic   difficulty  uses       prompt                    right   wrong                  source
    tools   1           sense:saw  What do people use to ..? a saw   a hammer|a brush|...   everyday experience

A table holds facts that cannot be computed; questions that share a name in ``uses`` are never in one probe together.
A prompt that ends in ``___`` is the beginning of a sentence, and its options continue it.
"""

from __future__ import annotations

import csv
from importlib.resources import files
from typing import cast

from standard_probe.question import Category, Level, Question

BETWEEN = "|"
"""Separator of the entries of one cell."""

GAP = "___"
"""End of a prompt that its options continue."""


def read_rows(name: str) -> list[dict[str, str]]:
    """The rows of ``NAME.csv`` in this folder, in its order.

    Args:
        name: The table without its ending, such as ``facts/culture``.
    """
    text = files("standard_probe").joinpath(f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def difficulty(row: dict[str, str]) -> Level:
    """The row's difficulty."""
    return cast(Level, int(row["difficulty"]))


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
            prompt=row["prompt"].removesuffix(GAP).rstrip(),
            right=row["right"],
            wrong=entries(row["wrong"]),
            category=category,
            topic=row["topic"],
            difficulty=difficulty(row),
            uses=frozenset(entries(row["uses"])),
            source=row["source"],
            form="continuation" if row["prompt"].endswith(GAP) else "question",
        )
        for row in read_rows(f"facts/{name}")
    ]
