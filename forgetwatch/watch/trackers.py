"""What reaches the trackers of a trainer: rows of numbers, one table of flipped items, alerts.

Rows go through the trainer's own log, and so to every tracker it reports to, on its step axis. The table and the alerts
go to W&B, trackio, MLflow and TensorBoard where one of them is running.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from transformers import Trainer, TrainerControl

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


def calling_trainer() -> Trainer | None:
    """The trainer whose event is being handled: the first `self` up the stack that is one."""
    return next((owner for local in _locals() if isinstance(owner := local.get("self"), Trainer)), None)


def resumed_from() -> Path | None:
    """The checkpoint folder from which the trainer's `train` goes on; events do not tell it."""
    named = (local.get("resume_from_checkpoint") for local in _locals() if isinstance(local.get("self"), Trainer))
    return next((Path(path) for path in named if isinstance(path, (str, os.PathLike))), None)


def _locals() -> Iterator[Mapping[str, Any]]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame.f_locals
        frame = frame.f_back  # type: ignore[assignment]
