"""ForgetWatchCallback: a run inside any trainer of transformers or TRL.

    trainer = SFTTrainer(..., callbacks=[ForgetWatchCallback("probe.jsonl", every=200)])

    on_train_begin     begins the run, or resumes or restarts it (`run.start`); looks at the start
    on_step_end        a look, if one is due: measured, added to the run, handed to the sinks
    on_save            the look of a save that was not announced; the history goes into the checkpoint
    on_train_end       the last look, if an early stop has left it out; the page and the table

The callback translates events into calls of a `Training` (`run.training`). The metrics, listed in
`report.tracker_rows`, reach every tracker that the trainer reports to, in a row of their own. The
training is left as it would have been: weights, losses and random numbers are bitwise those of a
run without the callback.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from forgetwatch.errors import WatchError
from forgetwatch.probe import Probe
from forgetwatch.probes.named import load_probe
from forgetwatch.report.tracker_rows import PREFIX
from forgetwatch.run import run_output
from forgetwatch.run.guard import Action, Guard
from forgetwatch.run.look_rows import composite_row, look_row
from forgetwatch.run.model_lineage import LineageSetting, known_fingerprint, remember_trained
from forgetwatch.run.schedule import Every
from forgetwatch.run.start import TrainerStart, begin, restart, resume
from forgetwatch.run.trainer import (
    calling_trainer,
    check_choice,
    check_trainer,
    chosen_by,
    resume_checkpoint,
)
from forgetwatch.run.training import Training
from forgetwatch.run.watch import Watch
from forgetwatch.run.watch_settings import Named, WatchSettings, load_named, read_reference
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.snapshot import Snapshot


class ForgetWatchCallback(TrainerCallback):
    """Evaluates a probe before and during training, and logs what was forgotten and gained.

    Args:
        probe: A probe, its name, or the path of one. A mapping has a probe for each task of a
            sequence of trainings, by the name of the task: ``{"base": "standard", "task1":
            "a.csv"}``; so has the folder of a benchmark. The name becomes the category of its
            questions, but for `base`; see `probes.task_sequence`. By default `standard`, and
            `conduct` if the tokenizer has a chat template and generating is cheap (a GPU) and
            possible (not for a sharded model or prompt learning).
        every: Schedule of the looks; see `run.schedule`.
        max_overhead: Share of the training's time that the looks after the baseline may take, 0 to
            1, or a minute if that is more. Before the baseline it is decided which items are
            evaluated, a prefix of the probe, and which looks of the default schedule are taken;
            after ten steps looks are dropped if they take far longer. None or 0: all looks evaluate
            all items.
        baseline: Reference instead of the model at the start: a snapshot, the path of one, or a
            model id or checkpoint folder, which is then scored. A resumed run needs it only if its
            own baseline is lost.
        lineage: The earlier training that this one continues: its output_dir or checkpoint. Losses
            then count against the base of the first training, and against the start of this one. By
            default it is found by the model in memory or its folder; False turns it off. A model
            that was copied, cast or quantised has to have it named.
        guard: Reaction to an alarm or a loss beyond the bounds: ``warn``, ``save``, ``stop``,
            ``rollback`` (stops, and loads the last saved checkpoint whose look did not fail), or a
            `Guard` with other bounds; the name or file of a policy, which then decides and names
            its reaction; None for no guard, and no line on alarms.
        on_look: A command that is started after each look, the first included, without a shell;
            training does not wait for it. ``{step}``, ``{checkpoint}`` and ``{folder}`` are filled
            in. A command that names the checkpoint is started only at saves, once the checkpoint is
            written.
        target_probe: Questions of the new task, a probe or the name or path of one: their share of right
            answers at each look is shown beside the loss, and they are never counted as forgotten.
            By default the trainer's own figure is.
        composite: A metric of the trainer's evaluation, from 0 to 1 and higher for better: its
            harmonic mean with what is kept is ``eval_forget/all/composite``, for choosing the best
            checkpoint.
        log: ``counts`` for five numbers of all items and two of each category, and the one of
            `metric_for_best_model`; ``full`` for every number of every group. See
            `report.tracker_rows`.
        share_text: True to send questions and answers to the trackers. By default they stay in the
            run folder.
        strict: True to stop the run when a look fails. By default the failure is logged once, and
            training continues; a baseline that fails always stops the run, before its first step.
        drift: True to measure at each look how far the model is from that of the start, on short
            texts that the latter generated (`run.drift`).

    Raises:
        ProbeError: If the probe cannot be loaded.
        SnapshotError: If a snapshot that is named cannot be read.
        WatchError: If an argument is out of range.
    """

    def __init__(
        self,
        probe: Named | Mapping[str, Named] | None = None,
        *,
        every: Every = None,
        max_overhead: float | None = 0.02,
        baseline: Snapshot | str | Path | None = None,
        lineage: LineageSetting = None,
        guard: Guard | Action | str | Path | None = "warn",
        on_look: str | None = None,
        target_probe: Named | None = None,
        composite: str | None = None,
        log: Literal["counts", "full"] = "counts",
        share_text: bool = False,
        strict: bool = False,
        drift: bool = False,
    ) -> None:
        if log not in ("counts", "full"):
            raise WatchError(f"log={log!r}: needed 'counts' or 'full'")
        named = load_named(probe)
        self.settings = WatchSettings(
            probe=named,
            every=every,
            max_overhead=max_overhead,
            baseline=read_reference(baseline),
            lineage=lineage,
            guard=Guard.of(guard, named or load_probe("standard")),
            on_look=run_output.checked_command(on_look),
            target_probe=load_named(target_probe),
            composite=composite,
            full=log == "full",
            share_text=share_text,
            strict=strict,
            drift=drift,
        )
        self._attached: Trainer | None = None
        self._training: Training | None = None

    @property
    def probe(self) -> Probe:
        """Questions of the run, or the named probe before the training."""
        if self._training is not None:
            return self._training.run.probe
        return self.settings.probe or load_probe("standard")

    @property
    def watch(self) -> Watch | None:
        """The measurements of the run.

        Returns:
            The watch, or None before its training.
        """
        return None if self._training is None else Watch.of(self._training.looks)

    def attach(self, trainer: Trainer) -> None:
        """Name the trainer whose trackers get the numbers.

        By default the trainer that has the callback.
        """
        self._attached = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the baseline, or restore the baseline of a resumed run."""
        trainer = self._trainer_of(args)
        check_trainer(trainer, args, own=type(self), composite=self.settings.composite)
        checkpoint = resume_checkpoint()
        training = self._started(trainer, state, kwargs, checkpoint)
        remember_trained(kwargs["model"], training.run)
        self._catch_up(training, state, control, kwargs, checkpoint)
        self._say_what_it_costs(training, state)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock of a step."""
        if (training := self._training) is not None:
            training.budget.clock.begin_step()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate the probe if a look is due at this step."""
        if (training := self._training) is None:
            return
        step, budget = state.global_step, training.budget
        budget.clock.end_step()
        with training.failures.tolerate("reading the training's own answers", step=step):
            training.turnover.read(training.trainer)
        if budget.is_to_check(step):
            training.check_budget(step)
            # The decision must be in the next checkpoint, or a resumed run would decide again.
            training.store_memory(state)
        if training.run.due(step, at_save=control.should_save):
            training.look(state, control, kwargs)
        training.stop_again(control)
        budget.clock.restart_step()  # the looks between two steps count to neither

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate the probe if looks are due at each epoch."""
        if (training := self._training) is None:
            return
        if training.run.due(state.global_step, at_epoch=True):
            training.look(state, control, kwargs)
        training.stop_again(control)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add the numbers to the trainer's own metrics.

        The trainer chooses the best checkpoint by these.
        """
        training, step, key = self._training, state.global_step, chosen_by(args)
        # After the training the model may have other weights, which do not belong to this step.
        if metrics is None or training is None or training.has_ended:
            return
        run = training.run
        with training.failures.tolerate("reading the answers of an evaluation", step=step):
            training.turnover.read(training.trainer, is_counted=False)
        # An evaluation before the first step is not chosen from, and its look is the baseline.
        if key and step > 0:
            training.look(state, control, kwargs)
        if step not in run.comparisons and key:
            # The trainer stops if the metric that it chooses by is missing.
            training.log(
                f"no look at step {step}; the best checkpoint is chosen by the look before"
            )
            step = max(run.comparisons)
        with training.failures.tolerate("adding the look to the evaluation", step=step):
            # In place: the trainer reads the metric of the best checkpoint from this dict.
            full = self.settings.full
            metrics.update(look_row(run, step=step, full=full, chosen_by=key))
        composite = self.settings.composite
        if key and key.endswith("/composite"):  # without it training stops
            metrics.update(composite_row(run.kept(step), metrics, composite))
            return
        with training.failures.tolerate("the composite", step=step):
            metrics.update(composite_row(run.kept(step), metrics, composite))

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Log the trainer's new figure, if this step has a look."""
        training, step = self._training, state.global_step
        # A row of the looks' own comes here too.
        if training is None or logs is None or any(key.startswith(PREFIX) for key in logs):
            return
        run = training.run
        if training.has_ended or step not in run.comparisons or self.settings.target_probe:
            return
        run.update(task=training.figure(state))
        with training.failures.tolerate("logging the figure of the new task", step=step):
            training.trackers(state, control).log_figure(run)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Evaluate if a look is due, and copy the history."""
        if (training := self._training) is None:
            return
        # A save at the end of an epoch is not announced in on_step_end, so that its look is still
        # missing.
        if training.run.due(state.global_step, at_save=True):
            training.look(state, control, kwargs)
        # After the look, so that the copy contains it.
        training.saved(state.global_step, kwargs["model"])

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Show the table, after a last look if that was left out."""
        if self._training is not None:
            self._training.finish(state, control, kwargs)

    def _trainer_of(self, args: TrainingArguments) -> Trainer:
        # An attached trainer comes first, unless another one is training: the event names its
        # arguments.
        is_attached = self._attached is not None and self._attached.args is args
        trainer = self._attached if is_attached else calling_trainer() or self._attached
        if trainer is None:
            raise WatchError("no trainer found; pass the callback to one, or call attach(trainer)")
        return trainer

    def _started(
        self,
        trainer: Trainer,
        state: TrainerState,
        event: Mapping[str, Any],
        checkpoint: Path | None,
    ) -> Training:
        # A second train(), or another try with a smaller batch: the first baseline stays.
        earlier = self._training
        if earlier is not None and (trainer is not earlier.trainer or state.is_hyper_param_search):
            earlier = None
        is_same = earlier is not None and _is_same_run(earlier, state, event)
        first = earlier.run if earlier is not None and state.global_step == 0 else None
        if first is not None and not is_same:
            on_main_process(first.folder.release)
        start = TrainerStart(
            settings=self.settings,
            trainer=trainer,
            state=state,
            event=event,
            first=None if is_same else first,
        )
        if earlier is not None and is_same:
            return restart(start, earlier)
        self._training = None  # what fails is tried again in full
        self._training = resume(start, checkpoint) if state.global_step > 0 else begin(start)
        return self._training

    def _catch_up(
        self,
        training: Training,
        state: TrainerState,
        control: TrainerControl,
        event: dict[str, Any],
        checkpoint: Path | None,
    ) -> None:
        # What a kill has left out: the look of a save, and the copies in its checkpoint.
        run, step = training.run, state.global_step
        with training.failures.tolerate("logging the look", step=0):
            training.trackers(state, control).log_look(run, step=0)
        if step == 0 and not training.is_restarted:
            training.start_command(0, is_saved=False)
        if run.due(step, at_save=step > 0 and checkpoint is not None):
            training.look(state, control, event)
        if step > 0:
            folder = run.folder.carried(step).parent
            is_own = checkpoint is not None and checkpoint.resolve() == folder.resolve()
            if is_own and step not in (run.state.saved or {}):
                run.note_saved(step)
            training.carry(step)
        # Also without a look: the next checkpoint must name a baseline that was replaced just now.
        training.store_memory(state)

    def _say_what_it_costs(self, training: Training, state: TrainerState) -> None:
        args, run, guard = training.trainer.args, training.run, self.settings.guard
        # Only now: the number of right answers is known once the baseline is.
        check_choice(args, right=run.looks.right_at_start)
        if state.global_step > 0 or training.is_restarted:
            budget, each = training.budget, training.each()
            training.log(run_output.start_line(run, budget, start=None, each=each))
        elif line := run_output.doubt(run):
            training.log(line)
        if guard is not None and guard.action != "warn" and args.save_strategy == "best":
            training.log(
                f"guard={guard.action!r} requests checkpoints, and save_strategy='best' "
                "overrules it"
            )


def _is_same_run(earlier: Training, state: TrainerState, event: Mapping[str, Any]) -> bool:
    # A second train() continues a run, or tries its start again with the same weights.
    if state.global_step > 0:
        return True
    return (
        not earlier.has_ended
        and known_fingerprint(event["model"]) == earlier.run.state.started_with
    )
