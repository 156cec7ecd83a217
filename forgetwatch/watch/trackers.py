"""What reaches the trackers of a trainer: rows of numbers, one table of flipped items, alerts.

Rows go through the trainer's own log, and so to every tracker it reports to, on its step axis. The table and the alerts
go to W&B, trackio, MLflow and TensorBoard where one of them is running.

A look as the numbers and the table that reach the trackers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from transformers import Trainer, TrainerControl

from forgetwatch.comparing.flips import flips
from forgetwatch.errors import WatchError
from forgetwatch.report.tracker_rows import PREFIX, flipped_rows, tracker_row
from forgetwatch.watch.drift import DriftWatch, drift_row
from forgetwatch.watch.watch import Watch

TABLE: Final = "forgetwatch/flipped"
"""Name of the table of flipped items."""


def log_row(trainer: Trainer, row: dict[str, float], control: TrainerControl) -> None:
    """Log one row of numbers and nothing else; the trainer's own rows are as they would have been.

    The base class's own method: TRL's overrides flush their metric buffers into the row. Logging clears should_log, and
    with it the trainer's own loss row of this step.
    """
    keep = control.should_log
    try:
        Trainer.log(trainer, row)
    finally:
        control.should_log = keep


def log_table(trainer: Trainer, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, step: int) -> None:
    """Log the flipped items to every tracker that is running and can show a table."""
    if wandb := _running("wandb", "run"):
        table = wandb.Table(columns=list(columns), data=[list(row) for row in rows])
        wandb.log({TABLE: table, "train/global_step": step})
    if trackio := _running_trackio():
        table = trackio.Table(columns=list(columns), data=[list(row) for row in rows])
        trackio.log({TABLE: table, "train/global_step": step})
    if mlflow := _running("mlflow", "active_run"):
        by_column = {name: [row[at] for row in rows] for at, name in enumerate(columns)}
        mlflow.log_table(data=by_column, artifact_file=f"{TABLE}.json")
    for callback in trainer.callback_handler.callbacks:
        if (writer := getattr(callback, "tb_writer", None)) is not None:
            lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
            lines += [" | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
            writer.add_text(TABLE, "\n".join(lines), step)


def alert(title: str, text: str) -> None:
    """Send an alert through the trackers that have such a thing."""
    if wandb := _running("wandb", "run"):
        wandb.alert(title=title, text=text, level=wandb.AlertLevel.WARN)
    trackio = _running_trackio()
    if trackio is not None and hasattr(trackio, "alert"):
        trackio.alert(title=title, text=text)


def _running(name: str, run: str) -> Any:
    """A tracker's module, if it is imported and has a run."""
    module = sys.modules.get(name)
    current = getattr(module, run, None)
    return module if (current() if callable(current) else current) is not None else None


def _running_trackio() -> Any:
    """The module trackio, if it is imported and has a run."""
    if "trackio" not in sys.modules:
        return None
    try:
        from trackio import context_vars

        return sys.modules["trackio"] if context_vars.current_run.get() is not None else None
    except (ImportError, AttributeError, LookupError):
        return None


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
        changed = flips(watch.baseline, latest, probe=watch.probe if share_text else None)
        columns, rows = flipped_rows(changed, texts=share_text)
        log_table(trainer, columns, rows, step=step)
