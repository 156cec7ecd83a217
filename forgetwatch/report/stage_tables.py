"""Stages of one model as text: the matrix, and the paths of the questions.

A terminal, the page and Markdown show:

    stage_lines      the first table in a terminal: a line for each stage
    stage_table, category_table    tables of the page and of Markdown: each stage, and each category by stage
"""

import math
from typing import Final

from rich.table import Table as Lines

from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.stage_matrix import StageMatrix
from forgetwatch.comparing.verdict import estimated
from forgetwatch.measures.base import MISSING_CELL
from forgetwatch.metrics.intervals import wilson
from forgetwatch.text import between, count, fit_ends, one_line, percent, points

_NAME: Final = 20


def stage_lines(matrix: StageMatrix) -> Lines:
    """Table of the stages for a console.

    A row for the base, and for each stage.
    """
    table = Lines(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    for heading in ("right %", "since the base, points", "since the stage before, points"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(
        _short(matrix.base), percent(matrix.rows[0].since_first.all.accuracy_before), "", ""
    )
    for row in matrix.rows:
        since_first, previous = row.since_first.all, row.since_previous
        since_previous = MISSING_CELL if previous is None else _since(previous.all)
        table.add_row(
            _short(row.name),
            percent(since_first.accuracy_after),
            _since(since_first),
            since_previous,
        )
    return table


def paths_sentence(matrix: StageMatrix) -> str:
    """Sentence on the paths of the questions that all ends have."""
    paths, names = matrix.paths, [one_line(row.name) for row in matrix.rows]
    lost = [
        f"{count(number)} in {name}"
        for number, name in zip(paths.lost, names, strict=True)
        if number
    ]
    sentence = f"of {count(paths.questions)} questions {count(paths.kept)} were right throughout"
    sentence += f", {count(sum(paths.lost))} lost" + (f" ({', '.join(lost)})" if lost else "")
    recovered = sum(paths.recovered)
    sentence += f", {count(recovered)} lost and recovered"
    if not math.isnan(paths.recovered_if_guessed):
        sentence += (
            f" ({paths.recovered_if_guessed:.1f} by a model that guesses anew at each stage)"
        )
    sentence += f", {count(paths.learned)} learned, {count(paths.passing)} right for a time"
    return f"{sentence}, {count(paths.never)} never right"


def stage_table(matrix: StageMatrix) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the table of all questions by stage."""
    headings = ["stage", "right %"]
    for since in ("base", "stage before"):
        headings += [
            f"{flip_kind} since the {since}" for flip_kind in ("forgotten", "gained", "points")
        ]
    base = matrix.rows[0].since_first.all
    rows = [[one_line(matrix.base), _share(base.accuracy_before, base.n), *[""] * 6]]
    for row in matrix.rows:
        since_first, previous = row.since_first.all, row.since_previous
        since_previous = [""] * 3 if previous is None else _flips(previous.all)
        rows.append(
            [
                one_line(row.name),
                _share(since_first.accuracy_after, since_first.n),
                *_flips(since_first),
                *since_previous,
            ]
        )
    return headings, rows


def category_table(matrix: StageMatrix) -> tuple[list[str], list[list[str]]]:
    """Headings and rows of the matrix of categories and stages.

    The share right after each stage, and what changed.
    """
    headings = ["category", one_line(matrix.base), *(one_line(row.name) for row in matrix.rows)]
    rows = []
    for name, shares in matrix.accuracy("category").items():
        cells = [percent(shares[0]) if shares[0] == shares[0] else ""]
        for at, row in enumerate(matrix.rows, start=1):
            share = percent(shares[at]) if shares[at] == shares[at] else ""
            group = row.since_first.by("category").get(name)
            since = (
                ""
                if group is None or not group.n
                else f" (-{count(group.forgotten)} +{count(group.gained)})"
            )
            cells.append(share + since)
        rows.append([one_line(name) or "(none)", *cells])
    return headings, rows


def _since(group: Group) -> str:
    change, interval = estimated(group)
    return f"-{count(group.forgotten)} +{count(group.gained)}  {points(change)} ({between(interval, points)})"


def _flips(group: Group) -> list[str]:
    change, interval = estimated(group)
    return [
        count(group.forgotten),
        count(group.gained),
        f"{points(change)} ({between(interval, points)})",
    ]


def _share(share: float, n: float) -> str:
    return f"{percent(share)} ({between(wilson(share * n, n), percent)})"


def _short(name: str) -> str:
    return fit_ends(one_line(name.rstrip("/").rsplit("/", maxsplit=1)[-1]), _NAME).rstrip()
