"""A Comparison as a JSON document, schema ``forgetwatch/comparison@1``; a run, ``forgetwatch/trajectory@1``.

Rates are fractions, counts whole numbers (means where items have several samples), p-values two-sided. A quantity that
is undefined is null, never 0 and never nan. Later versions add keys; none is redefined.

Comparisons as a CSV table: a line a group, a column a quantity of the JSON document, full precision.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from forgetwatch.comparing.category_means import CategoryMeans, Spread
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.quantities import QUANTITIES, group_values, json_value, value_at
from forgetwatch.comparing.ranking import ModelComparison
from forgetwatch.comparing.trajectory import Trajectory

SCHEMA: Final = "forgetwatch/comparison@1"
SCHEMA_SEVERAL: Final = "forgetwatch/comparisons@1"
SCHEMA_RUN: Final = "forgetwatch/trajectory@1"

_COURSE: Final = ("newly_forgotten", "newly_regained", "ever_forgotten", "regained")


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """One comparison as JSON values."""
    return {
        "schema": SCHEMA,
        "before": json_value(comparison.before),
        "after": json_value(comparison.after),
        "items": vars(comparison.items),
        "groups": [group_values(group) for group in comparison.groups],
        "macro": _macro(comparison.macro),
        "paper_compat": None if comparison.paper_compat is None else _macro(comparison.paper_compat),
        "samples": comparison.samples,
        "clusters": comparison.clusters,
        "notes": list(comparison.notes),
    }


def comparisons_json(comparisons: Sequence[Comparison], several: ModelComparison | None = None) -> dict[str, Any]:
    """One comparison as its document, several as a list of documents with their matrix and ranking.

    Args:
        comparisons: What is shown.
        several: What several of them say together.
    """
    documents = [comparison_json(comparison) for comparison in comparisons]
    if len(documents) == 1:
        return documents[0]
    together = {} if several is None else several_json(several)
    return {"schema": SCHEMA_SEVERAL, "comparisons": documents, **together}


def several_json(several: ModelComparison) -> dict[str, Any]:
    """The keys of several comparisons together; `number` is a model's place in `comparisons`, from 1."""
    matrix, target = several.matrix, several.target
    found = {"labels": matrix.labels, "items": matrix.items, "left_out": matrix.left_out, "lost": matrix.lost}
    named = None if target is None else {"name": target.name, "less_is_better": target.less_is_better}
    return {
        "matrix": json_value(found),
        "ranking": {"target": named, "models": [json_value(vars(one)) for one in several.ranking]},
    }


def trajectory_json(trajectory: Trajectory) -> dict[str, Any]:
    """A run as JSON values: its looks in order, and the course of the items through them.

    Counts of the course are over the items that were scored at every look; beside each stands, under the same name in
    `if_guessed`, what a model that only guesses would show.
    """
    course, guessed, n = trajectory.course, trajectory.guessed, trajectory.course.items
    verdicts = trajectory.verdicts()
    looks = []
    for at, (step, comparison) in enumerate(zip(trajectory.steps[1:], trajectory.comparisons[1:], strict=True)):
        looks.append(
            {
                "step": step,
                **{name: getattr(course, name)[at].item() for name in _COURSE},
                "if_guessed": {name: json_value(n * float(getattr(guessed, name)[at])) for name in _COURSE},
                "alarms": [
                    {
                        "level": alarm.group.level,
                        "name": alarm.group.name,
                        "raised": alarm.raised,
                        "p_value": alarm.p_value,
                        "alarm_level": alarm.alarm_level,
                        "smallest_loss": json_value(alarm.smallest_loss),
                    }
                    for alarm in verdicts
                    if alarm.step == step
                ],
                "comparison": comparison_json(comparison),
            }
        )
    events, rows = np.unique(course.events, return_counts=True)
    counts = (rows if n == len(course.events) else rows * n / len(course.events)).tolist()
    return {
        "schema": SCHEMA_RUN,
        "baseline": {"step": trajectory.steps[0], **json_value(trajectory.comparisons[0].before)},
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
        "looks": looks,
    }


def _macro(macro: CategoryMeans) -> dict[str, Any]:
    return {
        "forgetting": _spread(macro.forgetting),
        "backward_transfer": _spread(macro.backward_transfer),
        "by_category": {
            name: {"forgetting": _spread(lost), "backward_transfer": _spread(won)}
            for name, (lost, won) in macro.by_category.items()
        },
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {"mean": json_value(spread.mean), "sd": json_value(spread.sd), "se": json_value(spread.se)}


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
            document = group_values(group)
            values = [value_at(document, path) for path in QUANTITIES]
            values += [end for name in _INTERVALS for end in (document[name] or (None, None))]
            writer.writerow([*comparison.labels, group.level, group.name, *values])
    return text.getvalue()
