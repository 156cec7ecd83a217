"""A Comparison as a JSON document, schema ``forgetwatch/comparison@1``; a run, ``forgetwatch/trajectory@1``.

Rates are fractions, counts whole numbers (means where items have several samples), p-values two-sided. A quantity that
is undefined is null, never 0 and never nan. Later versions add keys; none is redefined.

Comparisons as a CSV table: a line a group, a column a quantity of the JSON document, full precision.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from forgetwatch.comparing.category_means import Macro, Spread
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Chance, Group
from forgetwatch.comparing.ranking import Several
from forgetwatch.comparing.trajectory import Trajectory

SCHEMA: Final = "forgetwatch/comparison@1"
SCHEMA_SEVERAL: Final = "forgetwatch/comparisons@1"
SCHEMA_RUN: Final = "forgetwatch/trajectory@1"

_GROUP: Final = (
    *("level", "name", "n", "retained", "forgotten", "gained", "missed", "known", "known_lost", "newly_known"),
    *("accuracy_before", "accuracy_after", "forgetting", "backward_transfer", "net_change", "forgetting_relative"),
    *("retention", "format_lost", "knowledge_lost", "null_n", "null_lost", "null_gained", "known_lost_interval"),
    "forgetting_interval",
    *("backward_transfer_interval", "net_change_interval", "p_value", "loss_p_value", "q_value", "effective_n"),
    "detectable_change",
)
_RATES: Final = ("forgetting", "backward_transfer")
_ERRORS: Final = ("forgetting_se", "backward_transfer_se")
_PAPER: Final = (
    *("expected", *_RATES, "forgetting_unclipped", "backward_transfer_unclipped"),
    *("forgetting_max", "backward_transfer_max", *_ERRORS, "forgetting_interval", "backward_transfer_interval"),
)
_CORRECTED: Final = ("n", *_RATES, *_ERRORS, "forgetting_band", "backward_transfer_band")
_CALIBRATED: Final = (*_CORRECTED, "second_choice")
_BOUND: Final = (*_RATES, "forgetting_interval", "backward_transfer_interval")
_SOFT: Final = (*_RATES, *_ERRORS)
_NOISE_FLOOR: Final = (
    *("floor", *_RATES, "forgetting_above", "backward_transfer_above"),
    *("forgetting_above_se", "backward_transfer_above_se"),
)
_PERSISTENCE: Final = ("same_wrong", "same_wrong_se", "same_wrong_if_fresh", "tipping_ratio")

QUANTITIES: Final = tuple(
    name
    for name in (
        *(name for name in _GROUP if name not in ("level", "name")),
        *(f"soft.{name}" for name in _SOFT),
        *(f"noise_floor.{name}" for name in _NOISE_FLOOR),
        "chance.n",
        *(f"chance.paper.{name}" for name in _PAPER),
        *(f"chance.guess_corrected.{name}" for name in _CORRECTED),
        *(f"chance.guess_corrected_calibrated.{name}" for name in _CALIBRATED),
        *(f"chance.{name}" for name in _PERSISTENCE),
    )
    if not name.endswith(("interval", "band"))
)
"""Every quantity of a group that is one number, by its path in the document."""


_COURSE: Final = ("newly_forgotten", "newly_regained", "ever_forgotten", "regained")


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """One comparison as JSON values."""
    return {
        "schema": SCHEMA,
        "before": _value(comparison.before),
        "after": _value(comparison.after),
        "items": vars(comparison.items),
        "groups": [group_json(group) for group in comparison.groups],
        "macro": _macro(comparison.macro),
        "paper_compat": None if comparison.paper_compat is None else _macro(comparison.paper_compat),
        "samples": comparison.samples,
        "clusters": comparison.clusters,
        "notes": list(comparison.notes),
    }


def comparisons_json(comparisons: Sequence[Comparison], several: Several | None = None) -> dict[str, Any]:
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


def several_json(several: Several) -> dict[str, Any]:
    """The keys of several comparisons together; `number` is a model's place in `comparisons`, from 1."""
    matrix, target = several.matrix, several.target
    found = {"labels": matrix.labels, "items": matrix.items, "left_out": matrix.left_out, "lost": matrix.lost}
    named = None if target is None else {"name": target.name, "less_is_better": target.less_is_better}
    return {
        "matrix": _value(found),
        "ranking": {"target": named, "models": [_value(vars(one)) for one in several.ranking]},
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
                "if_guessed": {name: _value(n * float(getattr(guessed, name)[at])) for name in _COURSE},
                "alarms": [
                    {
                        "level": alarm.group.level,
                        "name": alarm.group.name,
                        "raised": alarm.raised,
                        "p_value": alarm.p_value,
                        "alarm_level": alarm.alarm_level,
                        "smallest_loss": _value(alarm.smallest_loss),
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
        "baseline": {"step": trajectory.steps[0], **_value(trajectory.comparisons[0].before)},
        "planned_looks": trajectory.planned,
        "items": n,
        "forgetting_events": {str(number): count for number, count in zip(events, counts, strict=True)},
        "never_forgotten": course.never_forgotten,
        "temporal_forgetting": _value(course.temporal_forgetting),
        "if_guessed": {
            "forgetting_events": _value(n * guessed.events),
            "never_forgotten": _value(n * guessed.never_forgotten),
            "temporal_forgetting": _value(guessed.temporal_forgetting),
        },
        "looks": looks,
    }


def group_json(group: Group) -> dict[str, Any]:
    """One group as JSON values."""
    return {
        **{name: _value(getattr(group, name)) for name in _GROUP},
        "chance": _chance(group.chance),
        "soft": _pick(group.soft, _SOFT),
        "noise_floor": _pick(group.noise_floor, _NOISE_FLOOR),
    }


def _chance(chance: Chance) -> dict[str, Any]:
    return {
        "n": chance.n,
        "paper": _pick(chance.paper, _PAPER),
        "guess_corrected": _pick(chance.guess_corrected, _CORRECTED),
        "guess_corrected_calibrated": _pick(chance.guess_corrected_calibrated, _CALIBRATED),
        "bound": _pick(chance.bound, _BOUND),
        **{name: _value(getattr(chance.persistence, name, None)) for name in _PERSISTENCE},
        "tipping_ratio_interval": _value(chance.tipping_interval),
    }


def _macro(macro: Macro) -> dict[str, Any]:
    return {
        "forgetting": _spread(macro.forgetting),
        "backward_transfer": _spread(macro.backward_transfer),
        "by_category": {
            name: {"forgetting": _spread(lost), "backward_transfer": _spread(won)}
            for name, (lost, won) in macro.by_category.items()
        },
    }


def _spread(spread: Spread) -> dict[str, Any]:
    return {"mean": _value(spread.mean), "sd": _value(spread.sd), "se": _value(spread.se)}


def _pick(source: object, names: Sequence[str]) -> dict[str, Any] | None:
    return None if source is None else {name: _value(getattr(source, name)) for name in names}


def _value(value: Any) -> Any:
    """The value in JSON's own types; a number that is not finite is null."""
    if isinstance(value, Mapping):
        return {str(name): _value(part) for name, part in value.items()}
    if isinstance(value, (tuple, list)):
        return [_value(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
