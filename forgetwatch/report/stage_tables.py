"""Stages of one model as text: the matrix, and the paths of the questions.

stage_lines      the first table in a terminal: a line for each stage
stage_parts      tables of the page and of Markdown: each stage, and each category by stage
stages_json      all of it for JSON
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from rich.table import Table as Lines

from forgetwatch.comparing import Group, Level, StageMatrix, estimated
from forgetwatch.measures import json_value
from forgetwatch.metrics import wilson
from forgetwatch.pairing import between, count, fit_ends, one_line, percent, points

_LEVELS: Final[tuple[Level, ...]] = ("all", "category", "task")
_NAME: Final = 20


def stage_lines(matrix: StageMatrix) -> Lines:
    """Return the table of the stages for a console: a row for the base, and one for each stage."""
    table = Lines(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage", no_wrap=True)
    for heading in ("right %", "since the base, points", "since the stage before, points"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_row(_short(matrix.base), percent(matrix.rows[0].since_first.all.accuracy_before), "", "")
    for row in matrix.rows:
        first, previous = row.since_first.all, row.since_previous.all
        table.add_row(_short(row.name), percent(first.accuracy_after), _since(first), _since(previous))
    return table


def paths_sentence(matrix: StageMatrix) -> str:
    """Return the sentence on the paths of the questions that base and all ends have."""
    paths, names = matrix.paths, [one_line(row.name) for row in matrix.rows]
    lost = [f"{count(number)} in {name}" for number, name in zip(paths.lost, names, strict=True) if number]
    text = f"of {count(paths.questions)} questions {count(paths.kept)} were right throughout"
    text += f", {count(sum(paths.lost))} lost" + (f" ({', '.join(lost)})" if lost else "")
    recovered = sum(paths.recovered)
    text += f", {count(recovered)} lost and recovered"
    if not math.isnan(paths.recovered_if_guessed):
        text += f" ({paths.recovered_if_guessed:.1f} by a model that guesses anew at each stage)"
    text += f", {count(paths.learned)} learned, {count(paths.passing)} right for a time"
    return f"{text}, {count(paths.never)} never right"


def stage_table(matrix: StageMatrix) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the table of all questions, a row for each stage."""
    headings = ["stage", "right %"]
    for since in ("base", "stage before"):
        headings += [f"{what} since the {since}" for what in ("forgotten", "gained", "points")]
    base = matrix.rows[0].since_first.all
    rows = [[one_line(matrix.base), _share(base.accuracy_before, base.n), *[""] * 6]]
    for row in matrix.rows:
        first, previous = row.since_first.all, row.since_previous.all
        rows.append([one_line(row.name), _share(first.accuracy_after, first.n), *_flips(first), *_flips(previous)])
    return headings, rows


def category_table(matrix: StageMatrix) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the matrix: categories, with the share right after each stage, and what changed."""
    headings = ["category", one_line(matrix.base), *(one_line(row.name) for row in matrix.rows)]
    rows = []
    for name, shares in matrix.accuracy("category").items():
        cells = [percent(shares[0]) if shares[0] == shares[0] else ""]
        for at, row in enumerate(matrix.rows, start=1):
            share = percent(shares[at]) if shares[at] == shares[at] else ""
            group = row.since_first.by("category").get(name)
            since = "" if group is None or not group.n else f" (-{count(group.forgotten)} +{count(group.gained)})"
            cells.append(share + since)
        rows.append([one_line(name) or "(none)", *cells])
    return headings, rows


def stages_json(matrix: StageMatrix) -> dict[str, Any]:
    """Return the JSON values of the matrix and the paths."""
    found: dict[str, Any] = json_value(
        {
            "base": matrix.base,
            "stages": [row.name for row in matrix.rows],
            "matrix": list(_cells(matrix)),
            "paths": vars(matrix.paths),
            "questions": [
                {"task": task, "item_id": item, "category": category, "path": path}
                for task, item, category, path in matrix.path_of_each()
            ],
        }
    )
    return found


_CHANGES: Final = ("forgotten", "gained", "change", "low", "high")


def _cells(matrix: StageMatrix) -> Iterator[dict[str, Any]]:
    """Yield a row for each stage and group: accuracy, and changes since the base and since the stage before."""
    for row in matrix.rows:
        for level in _LEVELS:
            previous = row.since_previous.by(level)
            for name, group in row.since_first.by(level).items():
                if not group.n:
                    continue
                low, high = wilson(group.accuracy_after * group.n, group.n)
                cells = {"stage": row.name, "level": level, "name": name, "items": group.n}
                cells |= {"right": group.accuracy_after, "right_low": low, "right_high": high}
                yield cells | _changes("base", group) | _changes("previous", previous.get(name))


def _changes(since: str, group: Group | None) -> dict[str, float | None]:
    if group is None or not group.n:
        return dict.fromkeys(f"{name}_since_{since}" for name in _CHANGES)
    change, (low, high) = estimated(group)
    values = {"forgotten": group.forgotten, "gained": group.gained, "change": change, "low": low, "high": high}
    return {f"{name}_since_{since}": value for name, value in values.items()}


def _since(group: Group) -> str:
    change, interval = estimated(group)
    return f"-{count(group.forgotten)} +{count(group.gained)}  {points(change)} ({between(interval, points)})"


def _flips(group: Group) -> list[str]:
    change, interval = estimated(group)
    return [count(group.forgotten), count(group.gained), f"{points(change)} ({between(interval, points)})"]


def _share(share: float, n: float) -> str:
    return f"{percent(share)} ({between(wilson(share * n, n), percent)})"


def _short(name: str) -> str:
    return fit_ends(one_line(name.rstrip("/").rsplit("/", maxsplit=1)[-1]), _NAME).rstrip()
