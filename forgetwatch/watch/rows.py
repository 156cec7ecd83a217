"""A look as the numbers and the table that reach the trackers."""

from __future__ import annotations

import math
from collections.abc import Mapping

from transformers import Trainer

from forgetwatch.errors import WatchError
from forgetwatch.report.flipped import flipped_rows
from forgetwatch.report.trackers import PREFIX, tracker_row
from forgetwatch.watch.drift import DriftWatch, drift_row
from forgetwatch.watch.trackers import log_table
from forgetwatch.watch.watch import Watch


def look_row(watch: Watch, drift: DriftWatch | None, *, step: int, full: bool) -> dict[str, float]:
    """The numbers of the look at a step, by tracker key; none where there is no look.

    Args:
        watch: The run so far.
        drift: How far it moved from its base, where that is measured.
        step: The step of the look.
        full: Whether every number of every group is a key.
    """
    if step not in watch.comparisons:
        return {}
    seconds = watch.seconds.get(step, 0.0)
    trajectory = watch.trajectory() if full else None
    row = tracker_row(watch.comparisons[step], seconds=seconds, full=full, trajectory=trajectory)
    if drift is not None and step in drift.looks:
        numbers = drift_row(drift.looks[step]).items()
        row |= {f"{PREFIX}/all/{name}": value for name, value in numbers if math.isfinite(value)}
    for name, looks in watch.others.items():
        if step in looks:
            own = tracker_row(looks[step], seconds=seconds)
            row |= {key.replace(PREFIX, f"{PREFIX}_{name}", 1): value for key, value in own.items()}
    return row


def composite_row(row: Mapping[str, float], metrics: Mapping[str, float], name: str | None) -> dict[str, float]:
    """The harmonic mean of retention and a metric of the trainer's evaluation, where both are there.

    Retention alone is highest for a model that did not learn anything.

    Args:
        row: The numbers of the look.
        metrics: The trainer's evaluation.
        name: The metric, from 0 to 1 and higher for better; None for no composite.

    Raises:
        WatchError: If there is no such metric, or it is no share.
    """
    kept = row.get(f"{PREFIX}/all/retention")
    if name is None or kept is None:
        return {}
    task = metrics.get(f"eval_{name.removeprefix('eval_')}")
    if not isinstance(task, (int, float)) or not 0 <= task <= 1:
        there = ", ".join(sorted(key.removeprefix("eval_") for key, value in metrics.items() if 0 <= value <= 1))
        raise WatchError(
            f"composite={name!r} is {'not in the evaluation' if task is None else task}; needed a metric from 0 to 1, "
            f"such as {there or 'none of these'}"
        )
    return {f"{PREFIX}/all/composite": 2 * task * kept / (task + kept) if task + kept > 0 else 0.0}


def log_flipped(trainer: Trainer, watch: Watch, *, step: int, share_text: bool) -> None:
    """The flipped items of the latest look, to the trackers."""
    latest = watch.latest()
    if watch.baseline is not None and latest is not None:
        columns, rows = flipped_rows(watch.baseline, latest, probe=watch.probe if share_text else None)
        log_table(trainer, columns, rows, step=step)
