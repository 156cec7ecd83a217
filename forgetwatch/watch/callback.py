"""ForgetWatchCallback: a Watch inside any trainer of transformers or TRL.

    trainer = SFTTrainer(..., callbacks=[ForgetWatchCallback("probe.jsonl", every=200)])

The callback translates the trainer's events into calls of a `Session`. The metrics, listed in `report.tracker_rows`,
reach every tracker that the trainer reports to, in a row of their own. The training is left as it would have been:
weights, losses and random numbers are bitwise those of a run without the callback.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from forgetwatch.drift import RunDrift
from forgetwatch.errors import WatchError
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe, load_tasks, stratified
from forgetwatch.progress import log
from forgetwatch.report import CARD
from forgetwatch.run_folder import TaskFigure, logged_figure
from forgetwatch.scoring import check_generated, generation_obstacle, on_main_process, random_states
from forgetwatch.snapshot import Snapshot, read_snapshot
from forgetwatch.watch.budget import FEWEST_ITEMS
from forgetwatch.watch.guard import STOPS, Action, Guard
from forgetwatch.watch.lineage import LineageSetting
from forgetwatch.watch.rollback import roll_back
from forgetwatch.watch.run_output import checked_command
from forgetwatch.watch.schedule import Every, Schedule, event_steps
from forgetwatch.watch.session import Session, Settings, TrainingState
from forgetwatch.watch.trackers import TrainerLogger, composite_row, look_row
from forgetwatch.watch.trainer import (
    STATE,
    calling_trainer,
    check_choice,
    check_trainer,
    chosen_by,
    default_probe,
    epoch_steps,
    resume_checkpoint,
    rotation_warning,
    stateful,
    step_tokens,
    token_budget,
    tokenizer_of,
    training_settings,
)
from forgetwatch.watch.watch import Watch

_STOPPED: Final = 130
"""Exit status after Ctrl-C."""


class ForgetWatchCallback(TrainerCallback):
    """Evaluates a probe before and during training, and logs what was forgotten and gained.

    Args:
        probe: A probe, its name, or the path of one. By default `standard`, and `behaviour` if the tokenizer has a
            chat template and generating is cheap (a GPU) and possible (not for a sharded model or prompt learning).
        probes: In place of `probe` a probe for each task of a sequence of trainings, by the name of the task, or the
            folder of a benchmark: ``{"base": "standard", "task1": "a.csv"}``. The name becomes the category of its
            questions, but for `base`. See `probes.per_task`.
        every: Schedule of the looks; see `watch.schedule`.
        max_overhead: Share of the training's time that the looks after the baseline may take, 0 to 1, or a minute if
            that is more. Before the baseline it is decided which items are evaluated, a prefix of the probe, and which
            looks of the default schedule are taken; after ten steps looks are dropped if they take far longer. None or
            0: all looks evaluate all items.
        items: Number of items that are evaluated, the first ones of the probe; by default `max_overhead` decides.
        baseline: Reference instead of the model at the start: a snapshot, the path of one, or a model id or checkpoint
            folder, which is then scored. A resumed run needs it only if its own baseline is lost.
        lineage: The earlier training that this one continues: its output_dir or checkpoint. Losses then count against
            the base of the first training, and against the start of this one. By default it is found by the
            folder of the model; False turns it off. A model that was handed on in memory, merged, cast or quantised
            has to have it named.
        guard: Reaction to an alarm or a loss beyond the bounds: ``warn``, ``save``, ``stop``, ``rollback`` (stops, and
            loads the last saved checkpoint whose look did not fail), or a `Guard` with other bounds; the name or file
            of a policy, which then decides and names its reaction; None for no guard, and no line on alarms.
        on_look: A command that is started after each look, the first included, without a shell; training does not wait
            for it. ``{step}``, ``{checkpoint}`` and ``{folder}`` are filled in. A command that names the checkpoint is
            started only at saves, once the checkpoint is written.
        task: Questions of the new task, a probe or the name or path of one: their share of right answers at each look
            is shown beside the loss, and they are never counted as forgotten. By default the trainer's own figure is.
        composite: A metric of the trainer's evaluation, from 0 to 1 and higher for better: its harmonic mean with
            retention is ``eval_forget/all/composite``, for choosing the best checkpoint.
        log: ``counts`` for five numbers of all items and two of each category, and the one of
            `metric_for_best_model`; ``full`` for every number of every group and the drift. See `report.tracker_rows`.
        share_text: True to send questions and answers to the trackers. By default they stay in the run folder.
        model_card: True to write the result into ``README.md`` of the output_dir at the end of the run, as a section of
            the model card.
        strict: True to stop the run when a look fails. By default the failure is logged once, and training continues; a
            baseline that fails always stops the run, before its first step.
        drift: True to measure at each look how far the model is from that of the start, on short texts that the latter
            generated (`drift.run_drift`). None: with ``log="full"`` alone.

    Raises:
        ProbeError: If the probe cannot be loaded.
        SnapshotError: If a snapshot that is named cannot be read.
        WatchError: If an argument is out of range.
    """

    def __init__(
        self,
        probe: Probe | str | Path | None = None,
        *,
        probes: Mapping[str, Probe | str | Path] | str | Path | None = None,
        every: Every = None,
        max_overhead: float | None = 0.02,
        items: int | None = None,
        baseline: Snapshot | str | Path | None = None,
        lineage: LineageSetting = None,
        guard: Guard | Action | str | Path | None = "warn",
        on_look: str | None = None,
        task: Probe | str | Path | None = None,
        composite: str | None = None,
        log: Literal["counts", "full"] = "counts",
        share_text: bool = False,
        model_card: bool = False,
        strict: bool = False,
        drift: bool | None = None,
    ) -> None:
        if max_overhead is not None and not (isinstance(max_overhead, (int, float)) and 0 <= max_overhead < 1):
            raise WatchError(f"max_overhead={max_overhead!r}: needed a share of the time, from 0 to 1, or None")
        if items is not None and not (type(items) is int and items > 0):
            raise WatchError(f"items={items!r}: needed a number of items, 1 or more, or None")
        if composite is not None and not isinstance(composite, str):
            raise WatchError(f"composite={composite!r}: needed the name of a metric of the trainer's evaluation")
        if log not in ("counts", "full"):
            raise WatchError(f"log={log!r}: needed 'counts' or 'full'")
        Schedule.make(every, max_steps=1)  # a wrong value fails here, not hours later in a queue
        if probe is not None and probes is not None:
            raise WatchError("probe and probes: needed one of them; give the first as probes={'base': ...}")
        self.probe = probe if isinstance(probe, Probe) else load_probe(probe or "standard")
        self.probe = self.probe if probes is None else load_tasks(probes)
        self._chooses_probe = probe is None and probes is None
        check_generated(self.probe)
        self.every = every
        self.max_overhead = max_overhead or None
        self.items = items
        self.baseline = _read_baseline(baseline)
        if lineage and (isinstance(lineage, bool) or baseline is not None):
            needed = "a folder, None or False" if isinstance(lineage, bool) else "baseline=... or lineage=..., not both"
            raise WatchError(f"lineage={lineage!r}: needed {needed}")
        self.lineage = lineage
        self.guard = Guard.of(guard, self.probe)
        self.on_look = checked_command(on_look)
        self.task = load_probe(task) if isinstance(task, (str, Path)) else task
        self.composite = composite
        self.log = log
        self.share_text = share_text
        self.model_card = model_card
        self.strict = strict
        self.drift = log == "full" if drift is None else drift
        self._attached: Trainer | None = None
        self._trainer: Trainer | None = None
        self._session: Session | None = None

    @property
    def watch(self) -> Watch | None:
        """The measurements of the run; None before its training."""
        return None if self._session is None else self._session.watch

    def attach(self, trainer: Trainer) -> None:
        """Name the trainer whose trackers get the numbers; by default the one that the callback is passed to."""
        self._attached = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the baseline, or restore that of a resumed run."""
        # An attached trainer comes first, unless another one is training: the event names its arguments.
        is_attached = self._attached is not None and self._attached.args is args
        trainer = self._attached if is_attached else calling_trainer() or self._attached
        if trainer is None:
            raise WatchError("no trainer found; pass the callback to one, or call attach(trainer)")
        check_trainer(trainer, args, own=type(self), composite=self.composite)
        # A second train(), or another try with a smaller batch: the first baseline stays.
        earlier = self._session if trainer is self._trainer and not state.is_hyper_param_search else None
        session = self._new_session(trainer, args, state, kwargs, earlier=earlier)
        session.watch.training = training_settings(trainer)
        now = _moment(trainer, state, control, kwargs)
        checkpoint = resume_checkpoint()
        if earlier is not None and session.watch is earlier.watch:
            session.restart(now, after=earlier)
        elif state.global_step > 0:
            session.resume(now, _memory(state), checkpoint=checkpoint)
        else:
            with random_states():  # reading examples may draw random numbers
                tokens = on_main_process(lambda: step_tokens(args, trainer.train_dataset))
            with _one_line_if_stopped(session):
                session.begin(now, trainer.train_dataset, step_tokens=tokens)
        # Only now: a retry after a failure must still find the earlier session, whose looks are not yet set aside.
        self._trainer, self._session = trainer, session
        # The run may have been killed between a save and its look.
        if session.budget.schedule.has_look(
            state.global_step, at_save=state.global_step > 0 and checkpoint is not None
        ):
            self._look(state, control, kwargs)
        if state.global_step > 0:  # the run may have been killed between the save and its copies
            session.carry(state.global_step)
        # Only now: the number of right answers is known once the baseline is.
        check_choice(args, right=session.watch.retained_before())
        # Also without a look: the next checkpoint must name a baseline that was replaced just now.
        self._store_memory(state)
        session.announce()
        if self.guard is not None and self.guard.action != "warn" and args.save_strategy == "best":
            session.log(f"guard={self.guard.action!r} requests checkpoints, and save_strategy='best' overrules it")

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock of a step."""
        if self._session is not None:
            self._session.budget.clock.begin_step()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate the probe if a look is due at this step."""
        session, step = self._session, state.global_step
        if session is None or self._trainer is None:
            return
        # Before the look of this step, which then evaluates the items that were decided on.
        if session.end_step(_moment(self._trainer, state, control, kwargs)):
            # The decision must be in the next checkpoint, or a resumed run would decide again.
            with session.failures.tolerate("storing the run's state", step=step):
                self._store_memory(state)
        if session.budget.schedule.has_look(step, at_save=control.should_save):
            self._look(state, control, kwargs)
        if control.should_save and state.is_world_process_zero:
            with session.failures.tolerate("the check of the checkpoints", step=step):
                if line := rotation_warning(args, state, session.watch.comparisons):
                    session.log(line)
        self._stop_again(control)
        session.budget.clock.restart_step()  # the looks between two steps count to neither

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate the probe if looks are due at each epoch."""
        if self._session is not None and self._session.budget.schedule.has_look(state.global_step, at_epoch=True):
            self._look(state, control, kwargs)
        self._stop_again(control)

    def _stop_again(self, control: TrainerControl) -> None:
        """End a training whose run the guard has stopped before, without a checkpoint."""
        if self._session is not None and self._session.stops_again:
            control.should_training_stop = True
            # A job that is started again and again would go on by a step each time, and replace all checkpoints.
            control.should_save = False

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the numbers to the trainer's own metrics, by which it chooses the best checkpoint."""
        session, step = self._session, state.global_step
        # After the training the model may have other weights, which do not belong to this step.
        if metrics is None or session is None or session.ended or session.watch.baseline is None:
            return
        key, watch = chosen_by(args), session.watch
        # An evaluation before the first step is not chosen from, and its look is the baseline.
        if key and step > 0:
            self._look(state, control, kwargs)
        if step not in watch.comparisons and key:
            # The trainer stops if the metric that it chooses by is missing.
            step = max(watch.comparisons)
            session.log(f"no look at step {state.global_step}; the best checkpoint is chosen by the look before")
        with session.failures.tolerate("adding the look to the evaluation", step=step):
            # In place: the trainer reads the metric of the best checkpoint from this dict.
            metrics.update(look_row(watch, step=step, full=self.log == "full", chosen_by=key))
        retention = watch.headline[step].all.retention if step in watch.comparisons else math.nan
        if key and key.endswith("/composite"):
            metrics.update(composite_row(retention, metrics, self.composite))  # without it training stops
            return
        with session.failures.tolerate("the composite", step=step):
            metrics.update(composite_row(retention, metrics, self.composite))

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Evaluate the probe if a look is due at this save, and copy the history of the run into the checkpoint."""
        # A save at the end of an epoch is not announced in on_step_end, so that its look is still missing.
        if self._session is None:
            return
        if self._session.budget.schedule.has_look(state.global_step, at_save=True):
            self._look(state, control, kwargs)
        self._session.note_saved(state.global_step, kwargs["model"])
        # After the look, so that the copy contains it.
        self._session.carry(state.global_step, saved=True)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the table, after the last look if an early stop has left that out."""
        if self._session is not None and self._trainer is not None:
            with self._session.failures.tolerate("storing the figure of the new task", step=state.global_step):
                self._session.watch.report_task(self._figure(state))
            # load_best_model_at_end has put other weights in place by now: they do not belong to this step.
            self._session.end(_moment(self._trainer, state, control, kwargs), look=not args.load_best_model_at_end)
            if self.guard is not None and self.guard.action == "rollback" and self._session.stopped is not None:
                with self._session.failures.tolerate("rolling back", step=state.global_step):
                    roll_back(self._trainer, self.guard, self._session)

    def _new_session(
        self,
        trainer: Trainer,
        args: TrainingArguments,
        state: TrainerState,
        kwargs: dict[str, Any],
        *,
        earlier: Session | None,
    ) -> Session:
        """Return the session of this training, with the watch of an earlier one that has a baseline."""
        if earlier is not None and earlier.watch.baseline is not None:
            watch = earlier.watch
        else:
            watch = self._new_watch(trainer, args, state, kwargs)
        epoch = epoch_steps(args, kwargs.get("train_dataloader"))
        strategy = args.eval_strategy if chosen_by(args) else "no"
        steps_of = partial(event_steps, epoch=epoch, max_steps=state.max_steps)
        return Session(
            watch,
            Settings(
                max_overhead=self.max_overhead,
                items=self.items,
                baseline=self.baseline,
                lineage=self.lineage,
                guard=self.guard,
                on_look=self.on_look,
                full=self.log == "full",
                chosen_by=chosen_by(args),
                share_text=self.share_text,
                model_card=Path(str(args.output_dir)) / CARD if self.model_card else None,
                strict=self.strict,
            ),
            schedule=Schedule.make(
                self.every,
                max_steps=state.max_steps,
                saves=steps_of(args.save_strategy, every=state.save_steps),
                epochs=steps_of("epoch", every=None),
                evaluations=steps_of(strategy, every=state.eval_steps),
            ),
            is_main_process=bool(state.is_world_process_zero),
        )

    def _new_watch(
        self, trainer: Trainer, args: TrainingArguments, state: TrainerState, kwargs: dict[str, Any]
    ) -> Watch:
        """Watch of a run that has none in this process."""
        tokenizer = tokenizer_of(kwargs)
        memory = _memory(state) if state.global_step else None
        if self._chooses_probe:
            self.probe, why = default_probe(
                tokenizer,
                fast=args.device.type == "cuda",
                obstacle=generation_obstacle(kwargs["model"]),
                fingerprint=(memory or {}).get("fingerprint"),
            )
            if state.is_world_process_zero:
                log(f"evaluating {self.probe.name}: {why}")
        if self.max_overhead is not None or self.items is not None:  # looks may evaluate its first items alone
            ordered = tuple(stratified(self.probe.items, first=self.items or FEWEST_ITEMS))
            self.probe = self.probe if ordered == self.probe.items else self.probe.with_items(ordered)
        watch = Watch(self.probe, str(args.output_dir), task=self.task)
        watch.saved = {}
        with random_states():  # reading examples may draw random numbers
            watch.measure_with(
                # One value for all processes, since all plan the same batches from it.
                token_budget=on_main_process(lambda: token_budget(args, trainer.train_dataset)),
                drift=RunDrift(wanted=self.drift, examples=trainer.train_dataset, strict=self.strict),
            )
        return watch

    def _look(self, state: TrainerState, control: TrainerControl, kwargs: dict[str, Any]) -> None:
        """Look at this step, and let the trainer do what the guard demands."""
        session, step = self._session, state.global_step
        if session is None or self._trainer is None or step in session.watch.comparisons:
            return
        session.watch.task = self._figure(state)
        with _one_line_if_stopped(session, step=step):
            action = session.look(_moment(self._trainer, state, control, kwargs))
        with session.failures.tolerate("storing the run's state", step=step):
            self._store_memory(state)
        if action in ("save", "stop"):
            control.should_save = True
        if action in STOPS:
            control.should_training_stop = True

    def _figure(self, state: TrainerState) -> TaskFigure | None:
        """Return the trainer's own figure of the new task, as far as it was logged."""
        if self.task is not None and self._session is not None:
            return self._session.watch.task
        own = None if self._trainer is None else self._trainer.args.metric_for_best_model
        return logged_figure(state.log_history, chosen=None if own and "forget" in own else own)

    def _store_memory(self, state: TrainerState) -> None:
        """Keep the run's memory in the trainer's state, and so in every checkpoint."""
        if self._session is not None and self._session.watch.baseline is not None:
            # In the form of a callback's state: the trainer may read every entry of this dict on a resume.
            stateful(state)[STATE] = {"args": {}, "attributes": self._session.memory()}


@contextmanager
def _one_line_if_stopped(session: Session, *, step: int | None = None) -> Iterator[None]:
    """Provide the start, or the look at a step: Ctrl-C ends a script with one line in place of a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        if step is None:
            session.log("stopped before the first step")
        else:
            session.log(f"stopped in the look at step {step}; the looks before it are in {session.watch.folder.path}")
        if hasattr(sys, "ps1"):  # a notebook or a shell
            raise
        raise SystemExit(_STOPPED) from None


def _moment(trainer: Trainer, state: TrainerState, control: TrainerControl, kwargs: dict[str, Any]) -> TrainingState:
    return TrainingState(
        step=state.global_step,
        model=kwargs["model"],
        tokenizer=tokenizer_of(kwargs),
        optimizer=kwargs.get("optimizer"),
        trackers=TrainerLogger(trainer, state, control),
    )


def _memory(state: TrainerState) -> dict[str, Any] | None:
    memory: dict[str, Any] | None = stateful(state).get(STATE, {}).get("attributes")
    return memory


def _read_baseline(baseline: Snapshot | str | Path | None) -> Snapshot | str | None:
    """Return the named baseline: a file is read at once, a model is scored only when it is needed."""
    if baseline is None or isinstance(baseline, Snapshot):
        return baseline
    return read_snapshot(baseline) if Path(baseline).is_file() else str(baseline)
