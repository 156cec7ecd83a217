"""Comparisons and runs as JSON documents, in full precision.

    forgetwatch/comparison@2     one comparison
    forgetwatch/comparisons@2    several with one base, with their matrix and ranking
    forgetwatch/trajectory@2     a run

Rates are fractions, counts are integers (means if items have several samples), p-values are
two-sided. An undefined quantity is null, never 0 or nan. Later versions add keys and redefine none.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from forgetwatch.comparing.causes import Causes
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Decision, decide, decide_run
from forgetwatch.comparing.groups import Group, Level, group_values
from forgetwatch.comparing.kept_share import KeptOf, kept, kept_of
from forgetwatch.comparing.paper_means import CategoryMeans, Spread
from forgetwatch.comparing.ranking import ModelComparison
from forgetwatch.comparing.stage_matrix import StageMatrix
from forgetwatch.comparing.trajectory import Alarm, Trajectory, guessed_history, this_stage
from forgetwatch.comparing.verdict import (
    TOLERANCE,
    Leg,
    LegName,
    Tolerance,
    estimated,
    ranked_categories,
)
from forgetwatch.measures.base import json_value
from forgetwatch.measures.base_drift import DRIFT_KEY, drift_json
from forgetwatch.measures.estimate import NET_ESTIMATE
from forgetwatch.measures.other_wordings import Again
from forgetwatch.metrics.intervals import wilson
from forgetwatch.metrics.known import DEFINITION, TAU

SCHEMA: Final = "forgetwatch/comparison@2"
SCHEMA_SEVERAL: Final = "forgetwatch/comparisons@2"
SCHEMA_RUN: Final = "forgetwatch/trajectory@2"

_ITEM_HISTORY: Final = ("newly_forgotten", "newly_regained", "ever_forgotten", "regained")


def comparison_json(
    comparison: Comparison, *, tolerance: Tolerance = TOLERANCE, of: KeptOf | None = None
) -> dict[str, Any]:
    """JSON document of a comparison.

    Args:
        comparison: The comparison.
        tolerance: Losses that its verdict tolerates.
        of: What the kept share is a share of; by default what this comparison measures.
    """
    decision = decide(comparison, tolerance)
    ranked, differ_p_value = ranked_categories(comparison)
    return {
        "schema": SCHEMA,
        "before": _metadata(comparison.before),
        "after": _metadata(comparison.after),
        "items": vars(comparison.items),
        "groups": [group_values(group) for group in comparison.groups],
        "macro": _macro(comparison.macro),
        "paper_compat": None
        if comparison.paper_compat is None
        else _macro(comparison.paper_compat),
        "samples": comparison.samples,
        "clusters": comparison.clusters,
        "definitions": {
            "known": DEFINITION,
            "tau": TAU,
            "margin": _margin_definition(comparison),
        },
        "verdict": _verdict(decision),
        "kept": json_value(vars(kept(comparison.all, of))),
        "categories": {
            "differ_p_value": json_value(differ_p_value),
            "ranked": [
                {
                    "name": category.group.name,
                    "change": category.change,
                    "interval": json_value(category.interval),
                    "shrunk": category.shrunk,
                }
                for category in ranked
            ],
        },
        "notes": list(comparison.notes),
        "drift": drift_json(comparison.drift),
        "again": None if comparison.again is None else _again_json(comparison.again),
        "wordings": None if comparison.wordings is None else json_value(vars(comparison.wordings)),
    }


_NAMES: Final[tuple[LegName, ...]] = ("accuracy", "knowledge", "category")


def _verdict(decision: Decision) -> dict[str, Any]:
    return {
        # A comparison in a run is one look.
        "question": "in this comparison alone, is a loss beyond its limit?",
        "answer": decision.answer,
        "word": decision.word,
        **{
            name: json_value(getattr(decision, name))
            for name in ("sentence", "reasons", "next", "deciding")
        },
        "legs": {name: json_value(vars(decision.leg(name) or Leg(name=name))) for name in _NAMES},
    }


def _margin_definition(comparison: Comparison) -> dict[str, float] | None:
    estimate = comparison.all[NET_ESTIMATE]
    return None if estimate is None or estimate.rule is None else estimate.rule.definition


def _metadata(meta: Mapping[str, Any]) -> Any:
    return json_value({name: value for name, value in meta.items() if name != DRIFT_KEY})


def _again_json(again: Again) -> dict[str, Any]:
    """JSON values of the lost answers in other wordings."""
    counts = again.counts
    numbers = {
        "excess": counts.excess,
        "interval": counts.interval,
        "known_lost_in_every_wording": counts.in_every_wording,
        "known_lost_in_every_wording_interval": [counts.lost * end for end in counts.interval],
    }
    return {
        "wordings": list(again.wordings),
        "by_wording": dict(again.by_wording),
        **vars(counts),
        **{name: json_value(value) for name, value in numbers.items()},
        "left_out": again.left_out,
        "items": [
            {"task": task, "item_id": wording, "status": status}
            for (task, wording), status in again.status.items()
        ],
    }


def comparisons_json(
    comparisons: Sequence[Comparison],
    several: ModelComparison | None = None,
    *,
    tolerance: Tolerance = TOLERANCE,
) -> dict[str, Any]:
    """JSON document of a comparison, or of several with a ranking."""
    documents = [comparison_json(comparison, tolerance=tolerance) for comparison in comparisons]
    if len(documents) == 1:
        return documents[0]
    together = {} if several is None else several_json(several)
    return {"schema": SCHEMA_SEVERAL, "comparisons": documents, **together}


def several_json(several: ModelComparison) -> dict[str, Any]:
    """JSON values of the matrix and the ranking."""
    matrix, target = several.matrix, several.target
    document = {
        "labels": matrix.labels,
        "items": matrix.items,
        "left_out": matrix.left_out,
        "lost": matrix.lost,
    }
    models = (
        None if target is None else {"name": target.name, "less_is_better": target.less_is_better}
    )
    return {
        "matrix": json_value(document),
        "ranking": {
            "target": models,
            "models": [
                json_value({**vars(model), "kept": vars(model.kept)}) for model in several.ranking
            ],
        },
    }


def trajectory_json(trajectory: Trajectory, *, tolerance: Tolerance = TOLERANCE) -> dict[str, Any]:
    """JSON document of a run: looks, and history of items.

    Counts of the history are over the items that were scored at every look. `if_guessed` has the
    same keys with the counts expected of a model that only guesses.
    """
    item_history, guessed, n = (
        trajectory.item_history,
        guessed_history(trajectory),
        trajectory.item_history.items,
    )
    verdicts, ending = trajectory.verdicts(), this_stage(trajectory).ending
    decision = decide_run(trajectory, tolerance)
    looks = [_look(trajectory, index, verdicts, tolerance) for index in range(len(trajectory) - 1)]
    events, rows = np.unique(item_history.events, return_counts=True)
    # With several samples an item has several rows, and counts are means over them.
    counts = (
        rows if n == len(item_history.events) else rows * n / len(item_history.events)
    ).tolist()
    return {
        "schema": SCHEMA_RUN,
        "baseline": {"step": trajectory.steps[0], **_metadata(trajectory.comparisons[0].before)},
        "planned_looks": trajectory.planned,
        "ending": None if ending is None else ending.stored,
        "decision": {
            **{name: getattr(decision, name) for name in ("word", "answer", "sentence")},
            "step": trajectory.final_step,
        },
        "stages": None if trajectory.matrix is None else stages_json(trajectory.matrix),
        "stage": trajectory.number,
        "since_stage": None
        if trajectory.stage is None
        else trajectory_json(trajectory.stage, tolerance=tolerance),
        "task": None if trajectory.task is None else trajectory.task.stored,
        "items": n,
        "forgetting_events": {
            str(number): count for number, count in zip(events, counts, strict=True)
        },
        "never_forgotten": item_history.never_forgotten,
        "temporal_forgetting": json_value(item_history.temporal_forgetting),
        "if_guessed": {
            "forgetting_events": json_value(n * guessed.events),
            "never_forgotten": json_value(n * guessed.never_forgotten),
            "temporal_forgetting": json_value(guessed.temporal_forgetting),
        },
        "alarms": [
            {
                "kind": alarm.kind,
                "by": alarm.by,
                "step": alarm.step,
                "group": alarm.group.name,
                "p": json_value(alarm.p_value),
                "level": alarm.alarm_level,
            }
            for alarm in trajectory.alarms()
        ],
        "guard": [vars(finding) for finding in trajectory.findings],
        "notes": list(trajectory.notes),
        "looks": looks,
    }


def _look(
    trajectory: Trajectory, index: int, verdicts: Sequence[Alarm], tolerance: Tolerance
) -> dict[str, Any]:
    item_history, guessed, step = (
        trajectory.item_history,
        guessed_history(trajectory),
        trajectory.steps[index + 1],
    )
    return {
        "step": step,
        "drift": drift_json(trajectory.comparisons[index + 1].drift),
        **{name: getattr(item_history, name)[index].item() for name in _ITEM_HISTORY},
        "if_guessed": {
            name: json_value(item_history.items * float(getattr(guessed, name)[index]))
            for name in _ITEM_HISTORY
        },
        "alarms": [
            {
                "kind": alarm.kind,
                "by": alarm.by,
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
        "comparison": comparison_json(
            trajectory.comparisons[index + 1],
            tolerance=tolerance,
            of=kept_of([trajectory.comparisons[0].all]),
        ),
    }


def _macro(macro: CategoryMeans) -> dict[str, Any]:
    def rates(lost: Spread, won: Spread) -> dict[str, Any]:
        return {"forgetting": json_value(vars(lost)), "backward_transfer": json_value(vars(won))}

    by_category = {name: rates(*pair_of_rates) for name, pair_of_rates in macro.by_category.items()}
    return {**rates(macro.forgetting, macro.backward_transfer), "by_category": by_category}


def causes_json(causes: Causes) -> dict[str, Any]:
    """JSON values of the reasons for lost answers."""
    return {
        "schema": "forgetwatch/why@2",
        "items": causes.items,
        "lost": causes.lost,
        "answer": str(causes),
        "columns": [
            {
                "column": cause.column,
                "parts": [part._asdict() for part in cause.parts],
                "auc": None if cause.separation is None else cause.separation.auc,
                "p_value": None if cause.separation is None else cause.p_value,
                "explained": None if cause.explained is None else cause.explained.share,
                "explained_by_chance": None
                if cause.explained is None
                else cause.explained.permuted,
                "explains": cause.explains,
            }
            for cause in causes.causes
        ],
        "categories": [
            {
                "category": name,
                "items": items,
                "lost": lost,
                "words_per_1000": uses if uses == uses else None,
            }
            for name, items, lost, uses in causes.categories
        ],
        "answers": [answer._asdict() for answer in causes.answers if answer.lost],
        "between_categories": None
        if causes.between is None
        else {"rank_correlation": causes.between[0], "p_value": causes.between[1]},
    }


_LEVELS: Final[tuple[Level, ...]] = ("all", "category", "task")


def stages_json(matrix: StageMatrix) -> dict[str, Any]:
    """JSON values of the matrix and the paths."""
    document: dict[str, Any] = json_value(
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
    return document


_CHANGES: Final = ("forgotten", "gained", "change", "low", "high")


def _cells(matrix: StageMatrix) -> Iterator[dict[str, Any]]:
    # Accuracy, and changes since the base and since the stage before.
    for row in matrix.rows:
        for level in _LEVELS:
            previous = {} if row.since_previous is None else row.since_previous.by(level)
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
    values = {
        "forgotten": group.forgotten,
        "gained": group.gained,
        "change": change,
        "low": low,
        "high": high,
    }
    return {f"{name}_since_{since}": value for name, value in values.items()}
