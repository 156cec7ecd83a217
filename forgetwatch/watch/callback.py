"""ForgetWatchCallback: a Watch inside any trainer of transformers or TRL.

    trainer = SFTTrainer(..., callbacks=[ForgetWatchCallback("probe.jsonl", every=200)])

Metrics recorded: see `report.trackers`. They reach every tracker that the trainer reports to, in a row of their own.
The run is left as it would have been: weights, losses and random numbers are bitwise those of a run without it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from forgetwatch.errors import WatchError
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.report.tracker_rows import PREFIX
from forgetwatch.scoring.checkpoints import score_checkpoint
from forgetwatch.scoring.generation import check_generated
from forgetwatch.scoring.isolation import random_states
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.scoring.vllm import TrainerGenerator
from forgetwatch.snapshot import Snapshot, read_snapshot
from forgetwatch.watch import notices
from forgetwatch.watch.budget import Clock
from forgetwatch.watch.command import Command, checked_command
from forgetwatch.watch.console import Failures, say
from forgetwatch.watch.deciding import cost_of, settle
from forgetwatch.watch.drift import DriftWatch
from forgetwatch.watch.guard import Action, Guard, Tripped
from forgetwatch.watch.held_out import default_probe, held_out, overlap_line
from forgetwatch.watch.looks import references
from forgetwatch.watch.page import Page
from forgetwatch.watch.resume import STATE, carried_places, go_on, remembered, stateful
from forgetwatch.watch.schedule import Every, Schedule
from forgetwatch.watch.trackers import (
    alert,
    composite_row,
    log_flipped,
    log_row,
    look_row,
)
from forgetwatch.watch.trainer import (
    calling_trainer,
    check_choice,
    check_trainer,
    chooses_by_forgetting,
    evaluation_weights,
    resume_checkpoint,
    rotation_warning,
    token_budget,
    tokenizer_of,
)
from forgetwatch.watch.watch import Watch


class ForgetWatchCallback(TrainerCallback):
    """Asks a probe before and during training, and logs what was forgotten and gained.

    Args:
        probe: A probe, its name, or the path of one. By default `standard`, and `behaviour` where the tokenizer has a
            chat template and writing is cheap (a GPU, or the trainer's vLLM).
        every: When to look; see `watch.schedule`.
        max_overhead: Share of the training's time that looks may take, 0 to 1: after ten steps it is decided how many
            items of the probe's order they ask from there on. None or 0: every look asks every item.
        against: Further references by name, each a snapshot, the path of one, or ``"previous"`` for the look before:
            ``{"base": "base.parquet", "previous": "previous"}``. Logged as ``eval_forget_<name>/...``.
        baseline: What to compare with instead of the model at the start: a snapshot, the path of one, or a model id or
            checkpoint folder, which is then scored. A run that goes on needs it only where its own baseline is gone.
        guard: What happens when the run loses more than it may: ``warn``, ``save``, ``stop``, or a `Guard` with other
            bounds; None for no guard.
        on_look: A command that is started after each look, the first included, without a shell and not waited for;
            ``{step}``, ``{checkpoint}`` and ``{folder}`` are filled in. One that names the checkpoint is started once
            that is saved, and at saves only.
        composite: A metric of the trainer's evaluation, from 0 to 1 and higher for better: its harmonic mean with
            retention is ``eval_forget/all/composite``, for choosing the best checkpoint.
        log: ``counts``, or ``full`` for every number of every group, and the drift from the base on texts that it
            wrote itself; see `report.trackers` and `watch.drift`.
        share_text: Whether questions and answers may reach the trackers. By default they stay in the run folder.
        strict: Whether a look that fails stops the run. By default it is told once, and training goes on; a baseline
            that fails always stops the run, before its first step.

    Raises:
        ProbeError: If the probe cannot be loaded.
        SnapshotError: If a snapshot that is named cannot be read.
        WatchError: If an argument is out of range.
    """

    def __init__(
        self,
        probe: Probe | str | Path | None = None,
        *,
        every: Every = None,
        max_overhead: float | None = 0.02,
        against: Mapping[str, Snapshot | str | Path] | None = None,
        baseline: Snapshot | str | Path | None = None,
        guard: Guard | Action | None = "warn",
        on_look: str | None = None,
        composite: str | None = None,
        log: Literal["counts", "full"] = "counts",
        share_text: bool = False,
        strict: bool = False,
    ) -> None:
        if max_overhead is not None and not 0 <= max_overhead < 1:
            raise WatchError(f"max_overhead={max_overhead!r}: needed a share of the time, from 0 to 1, or None")
        if composite is not None and not isinstance(composite, str):
            raise WatchError(f"composite={composite!r}: needed the name of a metric of the trainer's evaluation")
        if log not in ("counts", "full"):
            raise WatchError(f"log={log!r}: needed 'counts' or 'full'")
        Schedule.make(every, max_steps=1)  # what cannot be read fails here, not after the queue
        self.probe = probe if isinstance(probe, Probe) else load_probe(probe or "standard")
        self._choose_probe = probe is None
        check_generated(self.probe)
        self.every = every
        self.max_overhead = max_overhead or None
        self.against = references(against)
        self.baseline = _named(baseline)
        self.guard = Guard(guard) if isinstance(guard, str) else guard
        self.on_look = checked_command(on_look)
        self.composite = composite
        self.log = log
        self.share_text = share_text
        self.strict = strict
        self.watch: Watch | None = None
        self._trainer: Trainer | None = None
        self._attached: Trainer | None = None
        self._schedule: Schedule | None = None
        self._watched: Trainer | None = None
        self._drift: DriftWatch | None = None
        self._page = Page()
        self._failures = Failures(strict=strict)
        self._tripped = Tripped()
        self._clock = Clock()
        self._trains = self._ended = False  # in a training, and after one
        self._tried = -1  # the step of the latest look, also of one that failed
        self._decided = False
        self._planned: frozenset[int] = frozenset()

    def attach(self, trainer: Trainer) -> None:
        """Name the trainer whose trackers get the numbers; without it, the one that the callback is passed to."""
        self._attached = trainer

    def on_init_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Find the trainer that this callback belongs to."""
        self._trainer = self._attached or calling_trainer()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the baseline, or pick up that of the run that goes on."""
        self._trainer = self._attached or calling_trainer() or self._trainer
        if self._trainer is None:
            raise WatchError("no trainer found; pass the callback to one, or call attach(trainer)")
        check_trainer(self._trainer, args, own=type(self), composite=self.composite)
        self._schedule = Schedule.make(self.every, max_steps=state.max_steps)
        self._planned = self._schedule.looks(
            save_steps=int(state.save_steps) if args.save_strategy == "steps" else None,
            save_epochs=args.save_strategy == "epoch",
            epochs=max(1, round(state.num_train_epochs)),
            max_steps=state.max_steps,
        )
        same_run = self._watched is self._trainer and not state.is_hyper_param_search
        self._watched = self._trainer
        self._failures, self._tripped, self._clock = Failures(strict=self.strict), Tripped(), Clock()
        self._failures.aloud = bool(state.is_world_process_zero)
        self._tried, self._page = -1, Page()
        self._trains, self._ended = True, self._ended and same_run
        self._drift = self._drift if same_run else None
        if self.watch is not None and self.watch.baseline is not None and same_run:
            # A second train(), or another try with a smaller batch: the first snapshot wins.
            if self._ended and (aside := on_main_process(self.watch.folder.copy_aside)):
                self._say(state, f"the looks of the training before are now in {aside}")
            self.watch.forget_after(state.global_step)
            self.watch.planned = max(1, len(self._planned) - 1)
        else:
            self.watch = self._new_watch(self._trainer, args, state, kwargs)
            if state.global_step > 0:
                self._resume(self.watch, state, kwargs)
            else:
                self._begin(self.watch, self._trainer, state, control, kwargs)
        self._clock.spent = sum(self.watch.seconds.values())
        saved_here = self._schedule.at_save and state.global_step > 0 and resume_checkpoint() is not None
        if saved_here or self._due(state.global_step):
            self._look(args, state, control, kwargs)
        if state.global_step > 0:  # the run may have been killed between the save and this
            self._carry(self.watch, state)
        check_choice(args, right=self.watch.retained_before())
        self._remember(self.watch, state)
        self._say(state, notices.cost_line(self.watch, planned=len(self._planned)))
        if self.guard is not None and self.guard.action != "warn" and args.save_strategy == "best":
            self._say(state, f"guard={self.guard.action!r} asks for checkpoints, and save_strategy='best' overrules it")

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock of the first steps."""
        self._clock.begin_step()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Look, if the schedule says so."""
        if self._clock.end_step():
            self._decide(state)
        saves = self._schedule is not None and self._schedule.at_save and control.should_save
        if saves or self._due(state.global_step):
            self._look(args, state, control, kwargs)
        if control.should_save and self.watch is not None and state.is_world_process_zero:
            with self._telling(state, "looking at the checkpoints"):
                if line := rotation_warning(args, state, self.watch.comparisons):
                    self._say(state, line)
        self._clock.go_on()

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look, if the schedule says every epoch."""
        if self._schedule is not None and self._schedule.at_epoch:
            self._look(args, state, control, kwargs)

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Put the numbers beside the trainer's own, where it chooses the best checkpoint by them."""
        if metrics is None or self.watch is None or self.watch.baseline is None or not self._trains:
            return  # after the training other weights may be in the model: they do not belong to this step
        if chooses_by_forgetting(args):
            self._look(args, state, control, kwargs)
        with self._telling(state, "putting the look beside the evaluation"):
            row = self._row(self.watch, state.global_step)
            if not row and chooses_by_forgetting(args):
                # The trainer looks its metric up and would stop without it.
                row = self._row(self.watch, max(self.watch.comparisons))
                self._say(
                    state, f"no look at step {state.global_step}; the best checkpoint is judged by the one before"
                )
            metrics.update(row)
        if (args.metric_for_best_model or "").endswith("/composite"):
            metrics.update(composite_row(metrics, metrics, self.composite))  # without it the trainer stops: say why
            return
        with self._telling(state, "making the composite"):
            metrics.update(composite_row(metrics, metrics, self.composite))

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Look, if the schedule says every save; let the checkpoint carry its own history."""
        if self._schedule is not None and self._schedule.at_save:
            self._look(args, state, control, kwargs)
        if self.watch is None or not state.is_world_process_zero:
            return
        self._carry(self.watch, state)
        if self.on_look and self.on_look.needs_checkpoint and state.global_step in self.watch.comparisons:
            self._start(self.on_look, self.watch, state)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """After an early stop take the last look, to files only; show the table."""
        self._trains, self._ended = False, True
        if self.watch is None:
            return
        # load_best_model_at_end has put back other weights by now: they do not belong to this step.
        looked = state.global_step in self.watch.comparisons or state.global_step == self._tried
        if not looked and not args.load_best_model_at_end:
            with self._telling(state, "the look"):
                self.watch.look(kwargs["model"], tokenizer_of(kwargs), step=state.global_step)
        if state.is_world_process_zero:
            with self._telling(state, "writing the report"):
                self._page.write(self.watch, soon=True)
            with self._telling(state, "showing the table"):  # the model is not saved yet
                notices.show(self.watch, max_steps=state.max_steps, tripped=self._tripped.lines)
            self._failures.sum_up()

    def _new_watch(
        self, trainer: Trainer, args: TrainingArguments, state: TrainerState, kwargs: dict[str, Any]
    ) -> Watch:
        """The watch of a run that has none yet."""
        if self._choose_probe:
            self._take_default(trainer, args, state, tokenizer_of(kwargs))
        watch = Watch(self.probe, str(args.output_dir), against=self.against)
        watch.planned = max(1, len(self._planned) - 1)
        self._decided = self.max_overhead is None
        watch.undecided = not self._decided
        if getattr(trainer, "vllm_generation", None) and any(map(self.probe.is_generated, self.probe)):
            watch.writer = TrainerGenerator(trainer, tokenizer_of(kwargs))
        with random_states():  # a dataset may draw random numbers
            watch.token_budget = on_main_process(lambda: token_budget(args, trainer.train_dataset))
        return watch

    def _begin(
        self, watch: Watch, trainer: Trainer, state: TrainerState, control: TrainerControl, kwargs: dict[str, Any]
    ) -> None:
        """Take the first look of a run, and all that is measured once."""
        if (named := self._named_baseline()) is not None:
            watch.adopt(named)
            watch.planned = len(self._planned)  # the look at the start is one among others then
        watch.look(kwargs["model"], tokenizer_of(kwargs), step=0)
        with self._telling(state, "looking for the probe in the training examples"):
            found = on_main_process(lambda: held_out(self.probe, trainer.train_dataset, tokenizer_of(kwargs)))
            if found is not None:
                self._say(state, overlap_line(found))
        if self.log == "full":
            with self._telling(state, "sampling completions of the base"):
                self._begin_drift(watch, trainer, kwargs)
        self._log(watch, state, control)
        if self.on_look and not self.on_look.needs_checkpoint and state.is_world_process_zero:
            self._start(self.on_look, watch, state)

    def _take_default(self, trainer: Trainer, args: TrainingArguments, state: TrainerState, tokenizer: Any) -> None:
        """Ask what is asked by default, on this machine or by the run that goes on."""
        fast = bool(getattr(trainer, "vllm_generation", None)) or args.device.type == "cuda"
        saved = stateful(state).get(STATE, {}).get("attributes", {}).get("fingerprint")
        self.probe, why = default_probe(tokenizer, fast=fast, saved=saved if state.global_step else None)
        self._say(state, f"asking {self.probe.name}: {why}")

    def _resume(self, watch: Watch, state: TrainerState, kwargs: dict[str, Any]) -> None:
        """Pick up the run's baseline, wherever it still is, and measure what this machine changes."""
        saved = stateful(state).get(STATE, {}).get("attributes")
        self._decided = self._decided or bool((saved or {}).get("decided"))
        self._tripped = Tripped.of((saved or {}).get("tripped", ()))
        watch.undecided = not self._decided
        watch.writes = bool((saved or {}).get("writes", True))
        model, tokenizer = kwargs["model"], tokenizer_of(kwargs)
        if self.log == "full":
            with self._telling(state, "reading the base's completions"):
                places = [watch.folder.path, *carried_places(watch, state.global_step)]
                checksum = (saved or {}).get("completions")
                self._drift = DriftWatch.go_on(places, checksum=checksum, token_budget=watch.token_budget)
        for line in go_on(watch, model, tokenizer, saved, step=state.global_step, named=self._named_baseline):
            self._say(state, line)
        watch.planned = max(len(self._planned) - 1, len(watch.comparisons) - 1 + self._left(state.global_step))
        if self._drift is not None:
            with self._telling(state, "keeping the base's completions"):
                self._drift.save(watch.folder.path)
        with self._telling(state, "measuring the look again"):
            again = watch.look_again(model, tokenizer, step=state.global_step)
            if again is not None:
                self._say(state, notices.again_line(again.all, step=state.global_step))

    def _begin_drift(self, watch: Watch, trainer: Trainer, kwargs: dict[str, Any]) -> None:
        """Let the base write what later looks read again."""
        model, started = kwargs["model"], time.perf_counter()
        self._drift = DriftWatch.begin(
            model, tokenizer_of(kwargs), self.probe, trainer.train_dataset, token_budget=watch.token_budget
        )
        self._drift.save(watch.folder.path)
        begun = time.perf_counter()
        self._drift.look(model, step=0)
        self._clock.extra = time.perf_counter() - begun
        watch.seconds[0] += time.perf_counter() - started

    def _named_baseline(self) -> Snapshot | None:
        if self.baseline is None or isinstance(self.baseline, Snapshot):
            return self.baseline
        return score_checkpoint(self.baseline, self.probe)

    def _remember(self, watch: Watch, state: TrainerState) -> None:
        """Leave in the trainer's state, and so in every checkpoint, which baseline the run has."""
        if watch.baseline is not None:
            checksum = None if self._drift is None else self._drift.completions.checksum
            attributes = remembered(watch, decided=self._decided, tripped=self._tripped.stored, completions=checksum)
            stateful(state)[STATE] = {"args": {}, "attributes": attributes}

    def _decide(self, state: TrainerState) -> None:
        """After the first steps: how many items the looks ask from here on, and what they take."""
        watch = self.watch
        if watch is None or watch.baseline is None:
            return
        cost = cost_of(watch, self._clock, steps=state.max_steps, planned=len(self._planned))
        anew = not self._decided
        if anew and self.max_overhead is not None:
            with self._telling(state, "deciding how many items to ask"):
                cost, _, writes = settle(watch, cost, self.max_overhead)
                if not writes:
                    self._say(state, notices.not_written_line(self.probe))
            self._decided, watch.undecided = True, False
            self._remember(watch, state)
        items = watch.items or cost.items
        line = notices.share_line(cost, self.probe, items, max_overhead=self.max_overhead, every=self.every, anew=anew)
        self._say(state, line)

    def _left(self, step: int) -> int:
        """Looks that are still planned beyond a step."""
        return sum(later > step for later in self._planned)

    def _due(self, step: int) -> bool:
        return self._schedule is not None and step in self._schedule.steps

    def _look(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, kwargs: dict[str, Any]
    ) -> None:
        """Look once at this step, and log the numbers; a failure is told, not raised, unless it must be."""
        step, watch = state.global_step, self.watch
        if watch is None or step in watch.comparisons or step == self._tried:
            return
        self._tried = step
        started = time.perf_counter()
        with self._telling(state, "the look"), evaluation_weights(kwargs.get("optimizer")):
            watch.look(kwargs["model"], tokenizer_of(kwargs), step=step)
        if step not in watch.comparisons:
            return
        if self._drift is not None:
            began = time.perf_counter()
            with self._telling(state, "measuring the drift"):
                self._drift.look(kwargs["model"], step=step)
            watch.seconds[step] += time.perf_counter() - began
        self._log(watch, state, control)
        with self._telling(state, "the guard"):
            self._check(watch, state, control)
        if state.is_world_process_zero:
            if self.on_look and not self.on_look.needs_checkpoint:
                self._start(self.on_look, watch, state)
            if step == state.max_steps and self._trainer is not None:
                with self._telling(state, "logging the table of flipped items"):
                    log_flipped(self._trainer, watch, step=step, share_text=self.share_text)
        self._clock.looked(time.perf_counter() - started, asking=watch.asking_seconds)
        if state.is_world_process_zero:  # not part of the budget: the page keeps to a share of its own
            with self._telling(state, "writing the report"):
                self._page.write(watch)

    def _check(self, watch: Watch, state: TrainerState, control: TrainerControl) -> None:
        """Let the guard see this look; each thing that trips it is told once."""
        if self.guard is None:
            return
        found = self.guard.findings(watch.trajectory(), watch.lost_must_pass(state.global_step))
        new = self._tripped.new(found)
        self._remember(watch, state)
        for one in new:
            self._say(state, one.line)
        if not new:
            return
        if self.guard.action in ("save", "stop"):
            control.should_save = True
        if self.guard.action == "stop":
            control.should_training_stop = True
            self._say(state, f"the guard stops the run at step {state.global_step}")
        if state.is_world_process_zero:
            alert("forgetwatch", "\n".join(one.line for one in new))

    def _row(self, watch: Watch, step: int) -> dict[str, float]:
        return look_row(watch, self._drift, step=step, full=self.log == "full")

    def _log(self, watch: Watch, state: TrainerState, control: TrainerControl) -> None:
        """Log the look at this step, if there is one, in a row of its own; once, also where its file was lost."""
        logged = any(
            row.get("step") == state.global_step and f"{PREFIX}/all/forgotten" in row for row in state.log_history
        )
        if self._trainer is not None and not logged:
            with self._telling(state, "logging the look"):
                if row := self._row(watch, state.global_step):
                    log_row(self._trainer, row, control)

    def _carry(self, watch: Watch, state: TrainerState) -> None:
        """Put the run's history into the checkpoint at this step, if it is there."""
        if state.is_world_process_zero:
            with self._telling(state, "keeping the history in the checkpoint"):
                watch.folder.carry(state.global_step, completions=self.share_text)

    def _start(self, command: Command, watch: Watch, state: TrainerState) -> None:
        with self._telling(state, "starting the command"):
            command.start(step=state.global_step, output_dir=watch.folder.output_dir, folder=watch.folder.path)

    def _telling(self, state: TrainerState, what: str) -> AbstractContextManager[None]:
        """A failure inside does not stop the run, unless it must: it is told the first time, and counted."""
        return self._failures.told(what, step=state.global_step)

    def _say(self, state: TrainerState, line: str) -> None:
        if state.is_world_process_zero:
            say(line)


def _named(baseline: Snapshot | str | Path | None) -> Snapshot | str | None:
    """A snapshot that was named is read at once; a model is scored when it is needed."""
    if baseline is None or isinstance(baseline, Snapshot):
        return baseline
    return read_snapshot(baseline) if Path(baseline).is_file() else str(baseline)
