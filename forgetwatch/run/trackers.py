"""Trackers: a row of numbers per look, its verdict as a text, one table of flipped items, alerts.

    in a training    TrainerLogger     rows go through the trainer's own log, and so to every tracker that it reports to
    `follow`         FollowerLogger    rows go to runs of its own, as the training has others; only where it is asked to

The texts, the table and the alerts go to the trackers of `TRACKERS` that have a run in this
process, whoever began it. A tracker with peculiarities has a class of its own: `row` and `begin`
for the runs of a follower, `text`, `table` and `alert` for both.

The rows of a follower have the keys that the callback's have in the same tracker, on the step of
the checkpoint. A file in its run folder names the looks that each tracker has, so that a follower
that was stopped sends each once. A step that is saved again keeps its look, and its row.
"""

import copy
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from accelerate import PartialState
from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainerControl, TrainerState
from transformers.integrations.integration_utils import rewrite_logs

from forgetwatch.comparing.decision import decide_run
from forgetwatch.comparing.flips import flips
from forgetwatch.comparing.verdict import estimated
from forgetwatch.errors import WatchError, did_you_mean
from forgetwatch.extras import install
from forgetwatch.files.writing import write_text
from forgetwatch.report.tracker_rows import PREFIX, flipped_rows
from forgetwatch.run.look_rows import figure_key, look_row
from forgetwatch.run.run import Look, Run
from forgetwatch.scoring.processes import rank
from forgetwatch.version import VERSION

Rows = Sequence[Sequence[Any]]
"""A table: the names of the columns, then the rows."""

TABLE: Final = "forgetwatch/flipped"
"""Name of the table of flipped items."""


_TEXT: Final = "forgetwatch/{}"
"""Name of a text: that of the verdict on the latest look, or of the latest alarm."""


_GAIN: Final = "loss_and_gain"


_TITLE: Final = "forgetwatch"
"""Title of an alert."""


SENT: Final = "trackers.json"
"""Name of the file in the run folder that names the looks that each tracker has."""


_STEP: Final = "train/global_step"
"""Metric by which transformers sends the step to trackers whose own step counts calls, and may not go back."""


class Tracker:
    """A tracker of `accelerate` without peculiarities; `writers` are those of TensorBoard."""

    def __init__(self, name: str, *, is_rewritten: bool = False, can_resume: bool = False) -> None:
        self.name = name  # in `accelerate` and transformers
        self.can_resume = (
            can_resume  # it can continue a run of another process, by the id of the run
        )
        self.is_rewritten = (
            is_rewritten  # transformers writes ``eval_forget/...`` as ``eval/forget/...`` to it
        )

    def begin(self, run: Run, named: Mapping[str, Any]) -> Any:
        """Begin a run of a tracker of `accelerate`.

        That of an earlier process goes on where trackers allow it.
        """
        tracker_class = LOGGER_TYPE_TO_CLASS[self.name]
        place_arguments = (
            ("runs", str(run.folder.path))
            if tracker_class.requires_logging_directory
            else (self._project(),)
        )
        begun = tracker_class(*place_arguments, **self._options(run, named))
        begun.start()
        return begun

    def row(self, run: Any, values: Mapping[str, float], *, step: int) -> None:
        """Send a row to a run that `begin` gave."""
        run.log(values, step=step)

    def table(self, rows: Rows, *, step: int, writers: Sequence[Any]) -> None:
        """Send the flipped items, if the tracker can show a table; the first row has the columns."""

    def text(self, name: str, text: str, *, step: int, writers: Sequence[Any]) -> None:
        """Send a text, if the tracker can show texts.

        A later text of that name may replace this one.
        """

    def alert(self, text: str) -> None:
        """Send an alert, if the tracker has alerts and a run."""

    def about(self, run: Run) -> None:
        """Put what the looks evaluate into the run's configuration."""

    def chart(self, run: Run) -> None:
        """Draw what was forgotten beside the figure of the new task."""

    def _project(self) -> str:
        # The projects in which transformers puts the runs of trainings.
        return os.environ.get(f"{self.name.upper()}_PROJECT", "huggingface")

    def _options(self, run: Run, named: Mapping[str, Any]) -> dict[str, Any]:
        return {}


class _WithTables(Tracker):
    """A tracker with tables, whose own step counts calls of log: the step of the training is a metric."""

    def running(self) -> Any:
        """The module with a run.

        Returns:
            The module, or None if it is not imported or has no run.
        """
        return _running(self.name, "run")

    def row(self, run: Any, values: Mapping[str, float], *, step: int) -> None:
        run.log({**values, _STEP: step})

    def table(self, rows: Rows, *, step: int, writers: Sequence[Any]) -> None:
        if module := self.running():
            table = module.Table(columns=list(rows[0]), data=[list(row) for row in rows[1:]])
            module.log({TABLE: table, _STEP: step})


class _WandB(_WithTables):
    def begin(self, run: Run, named: Mapping[str, Any]) -> Any:
        begun = super().begin(run, named)
        begun.tracker.define_metric(_STEP)
        begun.tracker.define_metric("*", step_metric=_STEP, step_sync=True)
        return begun

    def text(self, name: str, text: str, *, step: int, writers: Sequence[Any]) -> None:
        if wandb := self.running():
            wandb.run.summary[_TEXT.format(name)] = text

    def about(self, run: Run) -> None:
        if not (wandb := self.running()) or run.baseline is None:
            return
        described = run.baseline.meta["probe"]
        about = {name: described.get(name) for name in ("name", "fingerprint")}
        about |= {"items": run.items or len(run.probe), "version": VERSION}
        wandb.config.update({"forgetwatch": about}, allow_val_change=True)
        changes = [
            100 * estimated(comparison.all)[0]
            for comparison in run.looks.headline.values()
            if comparison.all.n
        ]
        if changes:
            wandb.run.summary[_TEXT.format("worst_net_change_points")] = min(changes)

    def chart(self, run: Run) -> None:
        task = run.state.task
        if task is None or not (wandb := self.running()):
            return
        figures = {step: task.at(step) for step in sorted(run.comparisons)}
        logged = {step: figure for step, figure in figures.items() if figure is not None}
        if len(logged) > 1:
            lost = [100 * run.comparisons[step].all.forgetting for step in logged]
            curves, names = [lost, list(logged.values())], ["forgotten, %", task.name]
            chart = wandb.plot.line_series(list(logged), curves, names, "loss and gain", "step")
            wandb.log({f"{_TITLE}/{_GAIN}": chart, _STEP: max(logged)})

    def alert(self, text: str) -> None:
        if wandb := self.running():
            wandb.alert(title=_TITLE, text=text, level=wandb.AlertLevel.WARN)

    def _options(self, run: Run, named: Mapping[str, Any]) -> dict[str, Any]:
        config, earlier_run = named["config"], named["run"]
        if earlier_run is not None:  # of the training, which has a name and a group of its own
            return {"config": config, "id": earlier_run, "resume": "must"}
        run_settings = {
            "name": named["name"],
            "group": named["group"],
            "id": f"follow-{run.folder.run}",
        }
        return {**run_settings, "config": config, "resume": "allow"}


class _Trackio(_WithTables):
    def alert(self, text: str) -> None:
        # Older versions have no alerts.
        if send := getattr(self.running(), "alert", None):
            send(title=_TITLE, text=text)

    def _options(self, run: Run, named: Mapping[str, Any]) -> dict[str, Any]:
        still = {
            "config": named["config"],
            "embed": False,
            "auto_log_gpu": False,
            "auto_log_cpu": False,
        }
        if named["run"] is not None:
            return {**still, "name": named["run"], "resume": "must"}
        # The id tells runs of one name apart.
        return {
            **still,
            "name": f"{named['name']} {str(run.folder.run)[:4]}",
            "group": named["group"],
            "resume": "allow",
        }

    def running(self) -> Any:
        if "trackio" not in sys.modules:
            return None
        try:
            # The current run has no public accessor, and this module may move in another version.
            from trackio import context_vars

            return sys.modules["trackio"] if context_vars.current_run.get() is not None else None
        except (ImportError, AttributeError, LookupError):
            return None


class _MLflow(Tracker):
    """MLflow; its metrics take letters of any script, and the bridges of transformers and `accelerate` do not."""

    def row(self, run: Any, values: Mapping[str, float], *, step: int) -> None:
        import mlflow

        mlflow.log_metrics(dict(values), step=step)

    def table(self, rows: Rows, *, step: int, writers: Sequence[Any]) -> None:
        if mlflow := self.running():
            data = {column[0]: list(column[1:]) for column in zip(*rows, strict=True)}
            mlflow.log_table(data=data, artifact_file=f"{TABLE}.json")

    def text(self, name: str, text: str, *, step: int, writers: Sequence[Any]) -> None:
        if mlflow := self.running():
            mlflow.set_tag(_TEXT.format(name), text)

    def running(self) -> Any:
        return _running("mlflow", "active_run")

    def _project(self) -> str:
        return "Default"

    def _options(self, run: Run, named: Mapping[str, Any]) -> dict[str, Any]:
        if named["run"] is None:
            return {"run_name": named["name"]}
        if (environment_run := os.environ.get("MLFLOW_RUN_ID")) not in (
            None,
            named["run"],
        ):  # accelerate would take that one
            raise WatchError(
                f"--resume-run {named['run']}: MLFLOW_RUN_ID is {environment_run}; unset it, or "
                "name the same run"
            )
        return {"run_id": named["run"]}


class _TensorBoard(Tracker):
    """TensorBoard, which renders text as Markdown."""

    def table(self, rows: Rows, *, step: int, writers: Sequence[Any]) -> None:
        # A bar or a line break ends a cell.
        lines = [
            " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row)
            for row in (rows[0], ["---"] * len(rows[0]), *rows[1:])
        ]
        for writer in writers:
            writer.add_text(TABLE, "\n".join(lines), step)

    def text(self, name: str, text: str, *, step: int, writers: Sequence[Any]) -> None:
        for writer in writers:
            writer.add_text(_TEXT.format(name), text, step)


_MLFLOW: Final = _MLflow("mlflow", can_resume=True)


TRACKERS: Final = (
    _WandB("wandb", is_rewritten=True, can_resume=True),
    _Trackio("trackio", is_rewritten=True, can_resume=True),
    _MLFLOW,
    _TensorBoard("tensorboard", is_rewritten=True),
    Tracker("comet_ml", is_rewritten=True),
    Tracker("swanlab", is_rewritten=True),
)
"""Trackers with peculiarities; a row suits all others as it is."""


def _running(name: str, run: str) -> Any:
    # Not imported: a tracker that the run does not use must not be loaded.
    module = sys.modules.get(name)
    current = getattr(module, run, None)
    return module if (current() if callable(current) else current) is not None else None


class _Logger:
    """What the loggers of a training and of a follower send alike."""

    @property
    def _writers(self) -> list[Any]:
        raise NotImplementedError

    def alert(self, text: str, *, step: int) -> None:
        """Send an alert through the running trackers that have alerts or texts."""
        for tracker in TRACKERS:
            tracker.alert(text)
            tracker.text("alarm", text, step=step, writers=self._writers)

    def _verdict(self, run: Run, trackers: Iterable[Tracker], *, step: int) -> None:
        # In place of the text before; none before the first look.
        if len(run.comparisons) > 1:
            verdict = run_verdict(run)
            for tracker in trackers:
                tracker.text("verdict", verdict, step=step, writers=self._writers)

    def _flipped(self, run: Run, *, step: int, share_text: bool) -> None:
        if run.baseline is None or run.latest() is None:
            return
        trajectory, probe = run.trajectory(), run.probe if share_text else None
        changed = flips(trajectory.baseline, trajectory.last, probe=probe)
        columns, rows = flipped_rows(changed, texts=share_text)
        for tracker in TRACKERS:
            tracker.table([columns, *rows], step=step, writers=self._writers)


class TrainerLogger(_Logger):
    """The trackers of a trainer, during one of its events; see `look_row`, and `share_text` of the callback."""

    def __init__(
        self,
        trainer: Trainer,
        state: TrainerState,
        control: TrainerControl,
        *,
        full: bool = False,
        chosen_by: str | None = None,
        share_text: bool = False,
    ) -> None:
        self._trainer = trainer
        self._state = state
        self._control = control
        self._full, self._chosen_by, self._share_text = full, chosen_by, share_text

    def take(self, look: Look) -> None:
        """Log a look, and at the last step the items that flipped.

        Later the trackers may have closed.
        """
        self.log_look(look.run, step=look.step)
        if self._state.is_world_process_zero and look.step == self._state.max_steps:
            self._flipped(look.run, step=look.step, share_text=self._share_text)

    def log_look(self, run: Run, *, step: int) -> None:
        """Log the row and the verdict of a look, and nothing else.

        The trainer's own rows are as they would have been.

        A look is logged once, also if a resumed run takes it again; nothing is logged for a step
        without one.
        """
        if any(
            row.get("step") == step and f"{PREFIX}/all/forgotten" in row
            for row in self._state.log_history
        ):
            return
        row = look_row(run, step=step, full=self._full, chosen_by=self._chosen_by)
        task, is_now = run.state.task, step == self._state.global_step
        if task is not None and task.values[-1][0] != step and is_now and self._control.should_log:
            # The trainer is about to log that of this step: see `log_figure`.
            row.pop(figure_key(task), None)
        if row:
            self._send(run, row, step=step)
            self.log_verdict(run, step=step)

    def log_row(self, run: Run, row: dict[str, float], *, step: int) -> None:
        """Log a row of other numbers, if there are any."""
        if row:
            self._send(run, row, step=step)

    def log_figure(self, run: Run) -> None:
        """Log the trainer's new figure, if this step has a look."""
        step, task = self._state.global_step, run.state.task
        if step in run.comparisons and task is not None and task.values[-1][0] == step:
            self._send(run, {figure_key(task): task.values[-1][1]}, step=step)

    def _send(self, run: Run, row: dict[str, float], *, step: int) -> None:
        # The trainer's bridge to MLflow writes an underscore for each letter that is not ASCII.
        # Where that makes two keys equal, the later one is logged: the one that needed no change.
        other_scripts = {key: value for key, value in row.items() if not key.isascii()}
        row = other_scripts | {key: value for key, value in row.items() if key.isascii()}
        # Logging clears should_log, and with it the trainer's own loss row of this step.
        keep = self._control.should_log
        if step != self._state.global_step:
            # The base class stamps the step of the trainer's state, and trackers read it from there
            # too: a copy of the state as it was before the first step, whose `log_history` is the
            # trainer's own.
            self._trainer.state = start = copy.copy(self._state)
            start.global_step, start.epoch, start.num_input_tokens_seen = 0, 0.0, 0
        # The console gets a short line, and not a row of numbers for trackers.
        handler, printers = self._trainer.callback_handler, (PrinterCallback, ProgressCallback)
        callbacks = handler.callbacks
        handler.callbacks = [
            callback for callback in callbacks if not isinstance(callback, printers)
        ]
        try:
            # The base class's own method: TRL's overrides flush their metric buffers into the row.
            Trainer.log(self._trainer, row)
        finally:
            handler.callbacks = callbacks
            self._trainer.state = self._state
            self._control.should_log = keep
        if other_scripts and _MLFLOW.running() is not None:
            _MLFLOW.row(None, other_scripts, step=step)  # MLflow itself takes letters of any script
        if self._state.is_world_process_zero:
            for tracker in TRACKERS:
                tracker.about(run)

    def log_verdict(self, run: Run, *, step: int) -> None:
        """Show the verdict on the run so far as a text.

        In place of the text before; none before the first look.
        """
        if self._state.is_world_process_zero:
            self._verdict(run, TRACKERS, step=step)

    def log_end(self, run: Run, *, step: int) -> None:
        """Show the verdict on the whole run, and the chart."""
        self.log_verdict(run, step=step)
        if self._state.is_world_process_zero:
            for tracker in TRACKERS:
                tracker.chart(run)

    @property
    def _writers(self) -> list[Any]:
        callbacks = self._trainer.callback_handler.callbacks
        return [
            writer
            for callback in callbacks
            if (writer := getattr(callback, "tb_writer", None)) is not None
        ]


class FollowerLogger(_Logger):
    """One run, named by its `title`, in each of some trackers, which must be installed; begun at the first row.

    `config` are settings that the runs show; no text of items. W&B and trackio have groups of runs.
    `resume_run` is the id of a run that is continued in place of a new one.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        title: str,
        group: str | None,
        resume_run: str | None,
        config: Mapping[str, Any],
        full: bool,
    ) -> None:
        installed = {
            str(getattr(tracker_type, "value", tracker_type))
            for tracker_type in get_available_trackers()
        }
        for name in names:
            if name not in LOGGER_TYPE_TO_CLASS:
                near = did_you_mean(name, LOGGER_TYPE_TO_CLASS)
                raise WatchError(
                    f"--report-to {name}: needed one of "
                    f"{', '.join(sorted(LOGGER_TYPE_TO_CLASS))}{near}"
                )
            if name not in installed:
                raise WatchError(
                    f"--report-to {name}: its package is not installed: {install(name)}"
                )
        by_name = {tracker.name: tracker for tracker in TRACKERS}
        self._trackers = [by_name.get(name, Tracker(name)) for name in dict.fromkeys(names)]
        if resume_run is not None and (
            len(self._trackers) != 1 or not self._trackers[0].can_resume
        ):
            able = sorted(tracker.name for tracker in TRACKERS if tracker.can_resume)
            got = ", ".join(tracker.name for tracker in self._trackers) or "no --report-to"
            raise WatchError(
                f"--resume-run {resume_run}: needed one of {', '.join(able)} as --report-to, "
                f"got {got}"
            )
        self._named = {"name": title, "group": group, "run": resume_run, "config": dict(config)}
        self._full = full
        self._running: dict[str, Any] = {}

    def take(self, look: Look) -> None:
        """Send the rows of a look's run that trackers lack."""
        if rank() == 0:
            self.send(look.run)

    def send(self, run: Run) -> None:
        """Send the rows of all looks that trackers lack, and the verdict.

        The rows are sent in the order of their steps.

        Whatever a tracker raises is raised when the others have their rows.
        """
        if not self._trackers:
            return
        path = run.folder.path / SENT
        sent, failed = _sent(path, run.folder.run), None
        for tracker in self._trackers:
            sent_folder = (
                tracker.name
                if self._named["run"] is None
                else f"{tracker.name} {self._named['run']}"
            )
            of_tracker = sent.setdefault(sent_folder, [])
            try:
                for step in sorted(run.comparisons):
                    if step not in of_tracker:
                        if tracker.name not in self._running:
                            PartialState()  # the loggers of `accelerate` need one
                            self._running[tracker.name] = tracker.begin(run, self._named)
                        row = look_row(run, step=step, full=self._full)
                        values = rewrite_logs(row) if tracker.is_rewritten else row
                        tracker.row(self._running[tracker.name], values, step=max(step, 0))
                        of_tracker.append(step)
                if tracker.name in self._running:
                    self._verdict(run, [tracker], step=max(run.comparisons))
            except Exception as error:  # of any kind: a tracker is foreign code
                failed = error
        write_text(path, json.dumps({"run": run.folder.run, **sent}))
        if failed is not None:
            raise failed

    def finish(self, run: Run) -> None:
        """Log the flipped items without texts, and close the runs."""
        try:
            if self._running and len(run.comparisons) > 1:
                self._flipped(run, step=max(run.comparisons), share_text=False)
                for tracker in self._trackers:
                    tracker.chart(run)
        finally:
            for begun in self._running.values():
                with suppress(Exception):  # each of the others is closed all the same
                    begun.finish()
            self._running = {}

    @property
    def _writers(self) -> list[Any]:
        board = self._running.get("tensorboard")
        return [] if board is None else [board.tracker]


def _sent(path: Path, run: str | None) -> dict[str, list[int]]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(stored, dict) or stored.pop("run", None) != run:
        return {}
    return {name: steps for name, steps in stored.items() if isinstance(steps, list)}


def run_verdict(run: Run) -> str:
    """Verdict on a run in a sentence; later stages have both bases."""
    stage_decision, run_decision = (
        decide_run(looks_of) for looks_of in (run.stage_trajectory(), run.trajectory())
    )
    sentence = f"{stage_decision.word}: {stage_decision.sentence}"
    if not run.looks.firsts:
        return sentence
    return (
        f"against the first base: {run_decision.word}: {run_decision.sentence}; "
        f"against the start of this stage: {sentence}"
    )
