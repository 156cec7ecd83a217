"""Runs of trackers that a follower keeps itself, since the training has others: a row of numbers per look.

The rows have the keys that the callback's have in the same tracker, on the step of the checkpoint. In W&B that step is
``train/global_step``, as in the runs of transformers: W&B's own step may not go back, and a training that resumes from
an earlier checkpoint does. Trackers are those of `accelerate`; nothing is sent to one that is not named.

A file in the run folder names the looks that each tracker has, so that a follower that was stopped sends each once. The
look of a step that was saved again with other weights is another one: a tracker gets it beside the row it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from accelerate import PartialState
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from transformers.integrations.integration_utils import rewrite_logs

from forgetwatch.errors import WatchError, did_you_mean
from forgetwatch.files import write_text
from forgetwatch.watch.trackers import log_flipped, look_row
from forgetwatch.watch.watch import Watch

SENT: Final = "trackers.json"
"""Name of the file in the run folder that names the looks that each tracker has."""

_REWRITING: Final = ("comet_ml", "swanlab", "tensorboard", "trackio", "wandb")
"""Trackers to which transformers writes ``eval_forget/...`` as ``eval/forget/...``."""

_STEP_AXIS: Final = ("trackio", "wandb")
"""Trackers to which transformers sends the step as the metric ``train/global_step``."""


class TrackerRuns:
    """One run in each of some trackers, begun at the first row.

    Args:
        names: Names of the trackers.
        title: Name of the runs.
        group: Group of the run in W&B and trackio; None for none.
        config: Settings that the runs show; no text of items.
        full: True for every number of every group.

    Raises:
        WatchError: If a tracker is unknown, or not installed.
    """

    def __init__(
        self, names: Sequence[str], *, title: str, group: str | None, config: Mapping[str, Any], full: bool
    ) -> None:
        installed = {str(getattr(one, "value", one)) for one in get_available_trackers()}
        for name in names:
            if name not in LOGGER_TYPE_TO_CLASS:
                near = did_you_mean(name, LOGGER_TYPE_TO_CLASS)
                raise WatchError(f"--report-to {name}: needed one of {', '.join(sorted(LOGGER_TYPE_TO_CLASS))}{near}")
            if name not in installed:
                raise WatchError(f"--report-to {name}: its package is not installed; install it, or leave it out")
        self._names = tuple(dict.fromkeys(names))
        self._title, self._group, self._config, self._full = title, group, dict(config), full
        self._running: dict[str, Any] = {}

    def send(self, watch: Watch) -> None:
        """Send the rows of all looks that a tracker does not have yet, by rising step.

        Raises:
            Exception: Whatever a tracker raises; the others have their rows then.
        """
        if not self._names:
            return
        path = watch.folder.path / SENT
        sent, failed = _sent(path, watch.folder.run), None
        for name in self._names:
            try:
                for step, scored in sorted(_scored(watch).items()):
                    if sent.get(name, {}).get(str(step)) != scored:
                        self._log(name, look_row(watch, step=step, full=self._full), step=max(step, 0), watch=watch)
                        sent.setdefault(name, {})[str(step)] = scored
            except Exception as error:  # of any kind: a tracker is foreign code
                failed = error
        write_text(path, json.dumps({"run": watch.folder.run, **sent}))
        if failed is not None:
            raise failed

    def finish(self, watch: Watch) -> None:
        """Log the items that flipped until the latest look, without their texts, and close the runs."""
        try:
            if self._running and len(watch.comparisons) > 1:
                board = self._running.get("tensorboard")
                writers = [] if board is None else [board.tracker]
                log_flipped(watch, step=max(watch.comparisons), writers=writers, share_text=False)
        finally:
            for run in self._running.values():
                with suppress(Exception):  # each of the others is closed all the same
                    run.finish()
            self._running = {}

    def _log(self, name: str, row: dict[str, float], *, step: int, watch: Watch) -> None:
        if name not in self._running:
            self._running[name] = self._begun(name, watch)
        values = rewrite_logs(row) if name in _REWRITING else row
        if name in _STEP_AXIS:
            self._running[name].log({**values, "train/global_step": step})
        elif name == "mlflow":
            import mlflow

            mlflow.log_metrics(values, step=step)
        else:
            self._running[name].log(values, step=step)

    def _begun(self, name: str, watch: Watch) -> Any:
        """A tracker of `accelerate` with a begun run; that of an earlier process goes on where trackers allow it."""
        PartialState()  # its loggers need one
        # The projects in which transformers puts the runs of trainings.
        project = os.environ.get(f"{name.upper()}_PROJECT", "huggingface")
        made = LOGGER_TYPE_TO_CLASS[name]
        options: dict[str, Any] = {}
        if name == "wandb":
            options = {"name": self._title, "group": self._group, "config": self._config}
            options |= {"id": f"follow-{watch.folder.run}", "resume": "allow"}
        elif name == "trackio":
            # The id tells runs of one name apart.
            options = {"name": f"{self._title} {str(watch.folder.run)[:4]}", "group": self._group}
            options |= {"config": self._config, "resume": "allow", "embed": False, "auto_log_gpu": False}
            options |= {"auto_log_cpu": False}
        elif name == "mlflow":
            project, options = "Default", {"run_name": self._title}
        if made.requires_logging_directory:
            run = made("runs", str(watch.folder.path), **options)
        else:
            run = made(project, **options)
        run.start()
        if name == "wandb":
            run.tracker.define_metric("train/global_step")
            run.tracker.define_metric("*", step_metric="train/global_step", step_sync=True)
        return run


def _scored(watch: Watch) -> dict[int, str]:
    """Digest of the weights of each look, by step; empty for the baseline, of which there is one."""
    return {step: str((look.after.get("weights") or {}).get("digest", "")) for step, look in watch.comparisons.items()}


def _sent(path: Path, run: str | None) -> dict[str, dict[str, str]]:
    """Steps that each tracker has of this run, each with the digest of its weights."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(stored, dict) or stored.pop("run", None) != run:
        return {}
    return {name: steps for name, steps in stored.items() if isinstance(steps, dict)}
