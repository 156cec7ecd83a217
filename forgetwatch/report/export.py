"""JSON documents of comparisons and runs, and a CSV table of comparisons, all in full precision.

    forgetwatch/comparison@1     one comparison
    forgetwatch/comparisons@1    several with one base, with their matrix and ranking
    forgetwatch/trajectory@1     a run

Rates are fractions, counts are integers (means if items have several samples), p-values are two-sided. An undefined
quantity is null, never 0 or nan. Later versions add keys and redefine none. The CSV table has one line for each group
and one column for each quantity of the JSON document, and where the drift was measured its numbers in the line of all.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from forgetwatch.comparing import (
    TOLERANCE,
    Alarm,
    CategoryMeans,
    Comparison,
    ModelComparison,
    Spread,
    Trajectory,
    group_values,
)
from forgetwatch.comparing.verdict import verdict
from forgetwatch.measures import DRIFT_KEY, QUANTITIES, drift_json, drift_row, json_value, value_at
from forgetwatch.metrics import DEFINITION, DELTA, TAU
from forgetwatch.visible_text import csv_cell

SCHEMA: Final = "forgetwatch/comparison@1"
SCHEMA_SEVERAL: Final = "forgetwatch/comparisons@1"
SCHEMA_RUN: Final = "forgetwatch/trajectory@1"

_COURSE: Final = ("newly_forgotten", "newly_regained", "ever_forgotten", "regained")


def comparison_json(comparison: Comparison, *, tolerance: float = TOLERANCE) -> dict[str, Any]:
    """JSON document of one comparison; its verdict tolerates a net loss of accuracy of `tolerance`, 0 to 1."""
    found = verdict(comparison, tolerance)
    return {
        "schema": SCHEMA,
        "before": _metadata(comparison.before),
        "after": _metadata(comparison.after),
        "items": vars(comparison.items),
        "groups": [group_values(group) for group in comparison.groups],
        "macro": _macro(comparison.macro),
        "paper_compat": None if comparison.paper_compat is None else _macro(comparison.paper_compat),
        "samples": comparison.samples,
        "clusters": comparison.clusters,
        "definitions": {"known": DEFINITION, "tau": TAU, "delta": DELTA},
        # Its question: a comparison in a run is one look.
        "verdict": {
            "question": "in this comparison alone, did accuracy not fall by more than the limit?",
            "answer": found.word,
            "limit": found.tolerance,
            "interval": json_value(found.interval),
            "interval_worst": json_value(found.interval_worst),
        },
        "notes": list(comparison.notes),
        "drift": drift_json(comparison.drift),
    }


def _metadata(meta: Mapping[str, Any]) -> Any:
    """JSON values of the metadata of a side, without the drift, which has a key of its own."""
    return json_value({name: value for name, value in meta.items() if name != DRIFT_KEY})


def comparisons_json(
    comparisons: Sequence[Comparison], several: ModelComparison | None = None, *, tolerance: float = TOLERANCE
) -> dict[str, Any]:
    """JSON document of one comparison, or of several with their matrix and ranking; `tolerance` is 0 to 1."""
    documents = [comparison_json(comparison, tolerance=tolerance) for comparison in comparisons]
    if len(documents) == 1:
        return documents[0]
    together = {} if several is None else several_json(several)
    return {"schema": SCHEMA_SEVERAL, "comparisons": documents, **together}


def several_json(several: ModelComparison) -> dict[str, Any]:
    """Keys of the matrix and the ranking; `number` is a model's index in `comparisons`, from 1."""
    matrix, target = several.matrix, several.target
    found = {"labels": matrix.labels, "items": matrix.items, "left_out": matrix.left_out, "lost": matrix.lost}
    named = None if target is None else {"name": target.name, "less_is_better": target.less_is_better}
    return {
        "matrix": json_value(found),
        "ranking": {"target": named, "models": [json_value(vars(one)) for one in several.ranking]},
    }


def trajectory_json(trajectory: Trajectory, *, tolerance: float = TOLERANCE) -> dict[str, Any]:
    """JSON document of a run: its looks in order, and the history of its items; `tolerance` is 0 to 1.

    Counts of the history are over the items that were scored at every look. `if_guessed` has the same keys with the
    counts expected of a model that only guesses.
    """
    course, guessed, n = trajectory.course, trajectory.guessed, trajectory.course.items
    verdicts = trajectory.verdicts()
    looks = [_look(trajectory, index, verdicts, tolerance) for index in range(len(trajectory) - 1)]
    events, rows = np.unique(course.events, return_counts=True)
    # With several samples an item has several rows, and counts are means over them.
    counts = (rows if n == len(course.events) else rows * n / len(course.events)).tolist()
    return {
        "schema": SCHEMA_RUN,
        "baseline": {"step": trajectory.steps[0], **_metadata(trajectory.comparisons[0].before)},
        "planned_looks": trajectory.planned,
        "items": n,
        "forgetting_events": {str(number): count for number, count in zip(events, counts, strict=True)},
        "never_forgotten": course.never_forgotten,
        "temporal_forgetting": json_value(course.temporal_forgetting),
        "if_guessed": {
            "forgetting_events": json_value(n * guessed.events),
            "never_forgotten": json_value(n * guessed.never_forgotten),
            "temporal_forgetting": json_value(guessed.temporal_forgetting),
        },
        "alarms": [
            {"kind": one.kind, "step": one.step, "group": one.group.name, "p": one.p_value, "level": one.alarm_level}
            for one in trajectory.alarms()
        ],
        "guard": [vars(finding) for finding in trajectory.findings],
        "notes": list(trajectory.notes),
        "looks": looks,
    }


def _look(trajectory: Trajectory, index: int, verdicts: Sequence[Alarm], tolerance: float) -> dict[str, Any]:
    """JSON values of one look; index 0 is the first after the baseline."""
    course, guessed, step = trajectory.course, trajectory.guessed, trajectory.steps[index + 1]
    return {
        "step": step,
        "drift": drift_json(trajectory.comparisons[index + 1].drift),
        **{name: getattr(course, name)[index].item() for name in _COURSE},
        "if_guessed": {name: json_value(course.items * float(getattr(guessed, name)[index])) for name in _COURSE},
        "alarms": [
            {
                "kind": alarm.kind,
                "level": alarm.group.level,
                "name": alarm.group.name,
                "raised": alarm.raised,
                "p_value": json_value(alarm.p_value),
                "alarm_level": alarm.alarm_level,
                "smallest_loss": json_value(alarm.smallest_loss),
            }
            for alarm in verdicts
            if alarm.step == step
        ],
        "comparison": comparison_json(trajectory.comparisons[index + 1], tolerance=tolerance),
    }


def _macro(macro: CategoryMeans) -> dict[str, Any]:
    def rates(lost: Spread, won: Spread) -> dict[str, Any]:
        return {"forgetting": json_value(vars(lost)), "backward_transfer": json_value(vars(won))}

    by_category = {name: rates(*both) for name, both in macro.by_category.items()}
    return {**rates(macro.forgetting, macro.backward_transfer), "by_category": by_category}


def comparisons_csv(comparisons: Sequence[Comparison]) -> str:
    """CSV table of the groups of all comparisons; a cell is empty if its quantity is undefined.

    A name that a spreadsheet would run as a formula has an apostrophe before it.

    >>> comparisons_csv([]).split(",")[:4]
    ['before', 'after', 'level', 'name']
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
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
    return text.getvalue()
