"""The trackers of a trainer: a row of numbers per look, one table of flipped items, alerts.

Rows go through the trainer's own log, and so to every tracker that it reports to, on its step axis. The table and the
alerts go to W&B, trackio, MLflow and TensorBoard if one of them is running.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from transformers import Trainer, TrainerControl, TrainerState

from forgetwatch.comparing.flips import flips
from forgetwatch.errors import WatchError
from forgetwatch.measures import drift_row
from forgetwatch.report import PREFIX, flipped_rows, tracker_row
from forgetwatch.watch.watch import Watch

TABLE: Final = "forgetwatch/flipped"
"""Name of the table of flipped items."""


class Trackers:
    """The trackers of a trainer, during one of its events.

    Args:
        trainer: The trainer.
        state: Its state at the event.
        control: Its control at the event.
    """

    def __init__(self, trainer: Trainer, state: TrainerState, control: TrainerControl) -> None:
        self._trainer = trainer
        self._state = state
        self._control = control

    def has_row(self, step: int) -> bool:
        """True if the look at a step was logged already, also by the process before a resume."""
        return any(row.get("step") == step and f"{PREFIX}/all/forgotten" in row for row in self._state.log_history)

    def log_row(self, row: dict[str, float], *, step: int) -> None:
        """Log one row of numbers and nothing else; the trainer's own rows are as they would have been.

        Args:
            row: Numbers of a look by tracker key.
            step: The step of the look: the present one, or 0.
        """
        # The trainer's bridge to MLflow writes an underscore for each letter that is not ASCII. Where that makes two
        # keys equal, the later one is logged: the one that needed no change.
        other_scripts = {key: value for key, value in row.items() if not key.isascii()}
        row = other_scripts | {key: value for key, value in row.items() if key.isascii()}
        # Logging clears should_log, and with it the trainer's own loss row of this step.
        keep = self._control.should_log
        if step != self._state.global_step:
            # The base class stamps the step of the trainer's state, and trackers read it from there too.
            self._trainer.state = self._state_at_start()
        try:
            # The base class's own method: TRL's overrides flush their metric buffers into the row.
            Trainer.log(self._trainer, row)
        finally:
            self._trainer.state = self._state
            self._control.should_log = keep
        if other_scripts and (mlflow := _running("mlflow", "active_run")):
            mlflow.log_metrics(other_scripts, step=step)  # MLflow itself takes letters of any script

    def _state_at_start(self) -> TrainerState:
        """Copy of the state as it was before the first step; its `log_history` is the trainer's own."""
        state = copy.copy(self._state)
        state.global_step, state.epoch, state.num_input_tokens_seen = 0, 0.0, 0
        return state

    def log_flipped(self, watch: Watch, *, share_text: bool) -> None:
        """Log the items that flipped until the latest look, to every tracker that can show a table."""
        writers = [getattr(callback, "tb_writer", None) for callback in self._trainer.callback_handler.callbacks]
        log_flipped(watch, step=self._state.global_step, writers=writers, share_text=share_text)


def log_flipped(watch: Watch, *, step: int, writers: Iterable[Any], share_text: bool) -> None:
    """Log the items that flipped until the latest look, to every running tracker that can show a table.

    Args:
        watch: The run.
        step: The step of the latest look.
        writers: Writers of TensorBoard; None among them is left out.
        share_text: True to log questions and answers too.
    """
    latest = watch.latest()
    if watch.baseline is None or latest is None:
        return
    changed = flips(watch.baseline, latest, probe=watch.probe if share_text else None)
    columns, rows = flipped_rows(changed, texts=share_text)
    if wandb := _running("wandb", "run"):
        table = wandb.Table(columns=list(columns), data=[list(row) for row in rows])
        # The trainer's step axis: W&B's own step counts calls of log.
        wandb.log({TABLE: table, "train/global_step": step})
    if trackio := _running_trackio():
        table = trackio.Table(columns=list(columns), data=[list(row) for row in rows])
        trackio.log({TABLE: table, "train/global_step": step})
    if mlflow := _running("mlflow", "active_run"):
        by_column = {name: [row[index] for row in rows] for index, name in enumerate(columns)}
        mlflow.log_table(data=by_column, artifact_file=f"{TABLE}.json")
    for writer in writers:
        if writer is not None:
            # TensorBoard renders text as Markdown, in which a bar or a line break ends a cell.
            lines = [" | ".join(columns), " | ".join("---" for _ in columns)]
            lines += [" | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
            writer.add_text(TABLE, "\n".join(lines), step)


def alert(title: str, text: str) -> None:
    """Send an alert through the running trackers that have alerts."""
    if wandb := _running("wandb", "run"):
        wandb.alert(title=title, text=text, level=wandb.AlertLevel.WARN)
    trackio = _running_trackio()
    # Older versions have no alerts.
    if trackio is not None and hasattr(trackio, "alert"):
        trackio.alert(title=title, text=text)


def _running(name: str, run: str) -> Any:
    """Module of a tracker, if it is imported and has a run; else None."""
    # Not imported: a tracker that the run does not use must not be loaded.
    module = sys.modules.get(name)
    current = getattr(module, run, None)
    return module if (current() if callable(current) else current) is not None else None


def _running_trackio() -> Any:
    """Module trackio, if it is imported and has a run; else None."""
    if "trackio" not in sys.modules:
        return None
    try:
        # The current run has no public accessor, and this module may move in another version.
        from trackio import context_vars

        return sys.modules["trackio"] if context_vars.current_run.get() is not None else None
    except (ImportError, AttributeError, LookupError):
        return None


def look_row(watch: Watch, *, step: int, full: bool) -> dict[str, float]:
    """Numbers of the look at a step by tracker key; empty if there is no look.

    Args:
        watch: The run so far.
        step: The step of the look.
        full: True for every number of every group, and the drift from the base.
    """
    if step not in watch.comparisons:
        return {}
    seconds = watch.seconds.get(step, 0.0)
    trajectory = watch.trajectory() if full else None
    row = tracker_row(watch.comparisons[step], seconds=seconds, full=full, trajectory=trajectory)
    drift = watch.comparisons[step].drift
    if full and drift is not None:
        numbers = drift_row(drift).items()
        row |= {f"{PREFIX}/all/{name}": value for name, value in numbers if math.isfinite(value)}
    for name, looks in watch.others.items():
        if step in looks:
            own = tracker_row(looks[step], seconds=seconds)
            # Only the first: the prefix may occur in the name of a category too.
            row |= {key.replace(PREFIX, f"{PREFIX}_{name}", 1): value for key, value in own.items()}
    return row


def composite_row(row: Mapping[str, float], metrics: Mapping[str, float], name: str | None) -> dict[str, float]:
    """Harmonic mean of retention and a metric of the trainer's evaluation, as a row; empty if there is no retention.

    Retention alone is highest for a model that has not learned anything.

    Args:
        row: Numbers of the look by tracker key.
        metrics: Metrics of the trainer's evaluation.
        name: The metric, from 0 to 1 and higher for better; None for no composite.

    Raises:
        WatchError: If there is no such metric, or it is outside 0 to 1.
    """
    retention = row.get(f"{PREFIX}/all/retention")
    if name is None or retention is None:
        return {}
    task = metrics.get(f"eval_{name.removeprefix('eval_')}")
    if not isinstance(task, (int, float)) or not 0 <= task <= 1:
        known = ", ".join(sorted(key.removeprefix("eval_") for key, value in metrics.items() if 0 <= value <= 1))
        raise WatchError(
            f"composite={name!r} is {'not in the evaluation' if task is None else task}; needed a metric from 0 to 1, "
            f"such as {known or 'none of these'}"
        )
    return {f"{PREFIX}/all/composite": 2 * task * retention / (task + retention) if task + retention > 0 else 0.0}
