"""ForgetWatchCallback: a Watch inside any trainer of transformers or TRL.

    trainer = SFTTrainer(..., callbacks=[ForgetWatchCallback("probe.jsonl", every=200)])

Metrics recorded: see `report.trackers`. They reach every tracker that the trainer reports to, in a row of their own.
The run is left as it would have been: weights, losses and random numbers are bitwise those of a run without it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

from rich.console import Console
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from forgetwatch.errors import WatchError
from forgetwatch.metrics.alarm import alarm_level
from forgetwatch.metrics.planning import detectable_change
from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.report.course import alarm_line, alarm_lines, course_line
from forgetwatch.report.terminal import WIDTH, comparison_table
from forgetwatch.report.trackers import tracker_row
from forgetwatch.scoring.engine import CPU_TOKENS, CUDA_TOKENS
from forgetwatch.scoring.isolation import random_states
from forgetwatch.watch.say import say
from forgetwatch.watch.schedule import Every, Schedule
from forgetwatch.watch.watch import Watch

_STATE = "forgetwatch"
_TIMED_STEPS = 10
_USUAL_FLIPS = 0.10
_EXAMPLES = 64
_FEWEST_TOKENS = 512
"""Tokens of a batch that are less than any training step needs memory for."""


class ForgetWatchCallback(TrainerCallback):
    """Asks a probe before and during training, and logs what was forgotten and gained.

    Args:
        probe: A probe, or the path of one.
        every: When to look; see `watch.schedule`.
        max_overhead: None: every look asks every item. No other value is supported yet.
        log: ``counts``, or ``full`` for every number of every group; see `report.trackers`.
        strict: Whether a look that fails stops the run. By default it is told once, and training goes on; a baseline
            that fails always stops the run, before its first step.

    Raises:
        ProbeError: If the probe cannot be loaded.
        WatchError: If an argument is out of range.
    """

    def __init__(
        self,
        probe: Probe | str | Path,
        *,
        every: Every = None,
        max_overhead: float | None = None,
        log: Literal["counts", "full"] = "counts",
        strict: bool = False,
    ) -> None:
        if max_overhead is not None:
            raise WatchError(f"max_overhead={max_overhead!r}: only None is supported, every look asks every item")
        if log not in ("counts", "full"):
            raise WatchError(f"log={log!r}: needed 'counts' or 'full'")
        Schedule.make(every, max_steps=1)  # a schedule that cannot be read fails here, not after the queue
        self.probe = probe if isinstance(probe, Probe) else load_probe(probe)
        self.every = every
        self.log = log
        self.strict = strict
        self.watch: Watch | None = None
        self._trainer: Trainer | None = None
        self._schedule: Schedule | None = None
        self._watched: Trainer | None = None
        self._failures: dict[str, int] = {}
        self._alarmed: set[tuple[str, str]] = set()  # groups whose first alarm was told
        self._tried = -1  # the step of the latest look, also of one that failed
        self._step_started = 0.0
        self._step_seconds: list[float] = []
        self._planned = 0

    def attach(self, trainer: Trainer) -> None:
        """Name the trainer whose reporters get the numbers; found by itself where the callback is passed to one."""
        self._trainer = trainer

    def on_init_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Find the trainer that this callback belongs to."""
        self._trainer = _calling_trainer() or self._trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take the baseline, or pick up that of the run that goes on."""
        self._trainer = _calling_trainer() or self._trainer
        if self._trainer is None:
            raise WatchError("no trainer found; pass the callback to one, or call attach(trainer)")
        others = [c for c in self._trainer.callback_handler.callbacks if isinstance(c, ForgetWatchCallback)]
        if len(others) > 1:
            raise WatchError(
                f"the trainer has {len(others)} ForgetWatchCallbacks, and a run has one; put all items into one probe"
            )
        self._schedule = Schedule.make(self.every, max_steps=state.max_steps)
        self._planned = self._schedule.count(
            save_steps=int(state.save_steps) if args.save_strategy == "steps" else None,
            save_epochs=args.save_strategy == "epoch",
            epochs=max(1, round(state.num_train_epochs)),
            max_steps=state.max_steps,
        )
        same_run = self._watched is self._trainer and not state.is_hyper_param_search
        self._watched = self._trainer
        self._failures, self._step_seconds, self._tried = {}, [], -1
        self._alarmed = set()
        if self.watch is not None and self.watch.baseline is not None and same_run:
            # A second train(), or another try with a smaller batch: the first snapshot wins.
            self.watch.forget_after(state.global_step)
        else:
            self.watch = Watch(self.probe, str(args.output_dir), writes=state.is_world_process_zero)
            self.watch.planned = max(1, self._planned - 1)
            with random_states():  # a dataset may draw random numbers
                self.watch.token_budget = _token_budget(args, self._trainer.train_dataset)
            if state.global_step > 0:
                self._resume(self.watch, state)
            else:
                self.watch.look(kwargs["model"], _tokenizer(kwargs), step=0)
                self._log(self.watch, state, control)
        if self._due(state.global_step):
            self._look(state, control, kwargs)
        self._remember(self.watch, state)
        self._say_cost(self.watch, state)

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the clock of the first steps."""
        self._step_started = time.perf_counter()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Look, if the schedule says so."""
        if len(self._step_seconds) < _TIMED_STEPS:
            self._step_seconds.append(time.perf_counter() - self._step_started)
            if len(self._step_seconds) == _TIMED_STEPS:
                self._say_share(state)
        saves = self._schedule is not None and self._schedule.at_save and control.should_save
        if saves or self._due(state.global_step):
            self._look(state, control, kwargs)

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Look, if the schedule says every epoch."""
        if self._schedule is not None and self._schedule.at_epoch:
            self._look(state, control, kwargs)

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Look, if the schedule says every save; let the checkpoint carry its own history."""
        if self._schedule is not None and self._schedule.at_save:
            self._look(state, control, kwargs)
        if self.watch is not None and state.is_world_process_zero:
            with self._telling(state, "keeping the history in the checkpoint"):
                self.watch.folder.carry(state.global_step)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """After an early stop take the last look, to files only; show the table."""
        if self.watch is None:
            return
        # load_best_model_at_end has put back other weights by now: they do not belong to this step.
        looked = state.global_step in self.watch.comparisons or state.global_step == self._tried
        if not looked and not args.load_best_model_at_end:
            with self._telling(state, "the look"):
                self.watch.look(kwargs["model"], _tokenizer(kwargs), step=state.global_step)
        if state.is_world_process_zero:
            self._show(self.watch, state)

    def _resume(self, watch: Watch, state: TrainerState) -> None:
        saved = _stateful(state).get(_STATE)
        if saved is None:
            raise WatchError(
                f"the run goes on at step {state.global_step}, and its checkpoint knows no baseline: it was started "
                "without forgetwatch; start it anew, or go on without the callback"
            )
        watch.resume(step=state.global_step, checksum=saved["attributes"]["baseline"])
        for path in watch.damaged:
            self._say(state, f"{path} cannot be read, and its look is left out of the table")

    def _remember(self, watch: Watch, state: TrainerState) -> None:
        """Leave in the trainer's state, and so in every checkpoint, which baseline the run has."""
        if watch.baseline is not None:
            attributes = {"baseline": watch.baseline.checksum, "fingerprint": self.probe.fingerprint}
            _stateful(state)[_STATE] = {"args": {}, "attributes": attributes}

    def _due(self, step: int) -> bool:
        return self._schedule is not None and step in self._schedule.steps

    def _look(self, state: TrainerState, control: TrainerControl, kwargs: dict[str, Any]) -> None:
        """Look once at this step, and log the numbers; a failure is told, not raised, unless it must be."""
        step = state.global_step
        if self.watch is None or step in self.watch.comparisons:
            return
        self._tried = step
        with self._telling(state, "the look"):
            self.watch.look(kwargs["model"], _tokenizer(kwargs), step=step)
            self._warn(self.watch, state)
        self._log(self.watch, state, control)

    def _warn(self, watch: Watch, state: TrainerState) -> None:
        """Tell the first alarm of each group."""
        for alarm in watch.trajectory().verdicts():
            group = (alarm.group.level, alarm.group.name)
            if alarm.step == state.global_step and alarm.raised and group not in self._alarmed:
                self._alarmed.add(group)
                self._say(state, alarm_line(alarm).plain)

    def _log(self, watch: Watch, state: TrainerState, control: TrainerControl) -> None:
        """Log the look at this step, if there is one, in a row of its own."""
        step = state.global_step
        if step not in watch.comparisons or self._trainer is None:
            return
        full = self.log == "full"
        row = tracker_row(
            watch.comparisons[step],
            seconds=watch.seconds[step],
            full=full,
            trajectory=watch.trajectory() if full else None,
        )
        # The base class's own method: TRL's overrides flush their metric buffers into the row. Logging clears
        # should_log, and with it the trainer's own loss row of this step.
        keep = control.should_log
        with self._telling(state, "logging the look"):
            Trainer.log(self._trainer, row)
        control.should_log = keep

    @contextmanager
    def _telling(self, state: TrainerState, what: str) -> Iterator[None]:
        """A failure inside does not stop the run, unless it must: it is told the first time, and counted."""
        try:
            yield
        except Exception as error:  # whatever it is, hours of training are worth more
            if self.strict:
                raise
            self._failures[what] = self._failures.get(what, 0) + 1
            if self._failures[what] == 1:
                self._say(state, f"{what} at step {state.global_step} failed, training goes on: {error}")

    def _say_cost(self, watch: Watch, state: TrainerState) -> None:
        """Before the first step: what the looks will cost, and what they can see."""
        each = float(watch.baseline.meta["seconds"]) if watch.baseline else 0.0
        groups = 1 + len({item.category for item in self.probe if item.category})
        level = alarm_level(1, groups=groups, planned=watch.planned or 1)
        sees, alarms = (detectable_change(len(self.probe), _USUAL_FLIPS, alpha=alpha) for alpha in (0.05, 2 * level))
        what = f"sees net changes from {100 * sees:.1f} points" if sees == sees else "is too small to see a net change"
        what += f", and alarms on losses from {100 * alarms:.1f}" if alarms == alarms else ""
        self._say(
            state,
            f"{len(self.probe):,} items, {each:.1f} s a look, {self._planned} looks planned, "
            f"about {each * self._planned:.0f} s in all; this probe {what} (if 1 answer in 10 flips)",
        )

    def _say_share(self, state: TrainerState) -> None:
        """After the first steps: which share of the run the looks take."""
        if self.watch is None or self.watch.baseline is None:
            return
        looks = float(self.watch.baseline.meta["seconds"]) * self._planned
        training = sum(self._step_seconds) / len(self._step_seconds) * state.max_steps
        self._say(state, f"looks take about {100 * looks / (looks + training):.1f} % of the run's time")

    def _say(self, state: TrainerState, line: str) -> None:
        if state.is_world_process_zero:
            say(line)

    def _show(self, watch: Watch, state: TrainerState) -> None:
        for what, count in self._failures.items():
            self._say(state, f"{what} failed {count} times in this run")
        if watch.baseline is None:
            return
        trajectory = watch.trajectory()
        console = Console(highlight=False)
        console.width = min(console.width, 120) if console.is_terminal else WIDTH
        title = f"step {trajectory.steps[-1]} of {state.max_steps}, against the start"
        console.print(comparison_table(trajectory.comparisons[-1], title=title))
        console.print(course_line(trajectory))
        for line in alarm_lines(trajectory):
            console.print(line)
        console.print(f"every look: {watch.folder.path}", soft_wrap=True, markup=False)


def _token_budget(args: TrainingArguments, examples: Any) -> int | None:
    """Tokens of a micro-batch, so that a look needs no more memory than a training step; None where nothing says.

    Args:
        args: Their `max_length` (SFT, DPO and others of TRL) or `max_completion_length` (RL) says how long texts get.
        examples: The training examples: where the arguments say nothing, the longest of the first few.
    """
    named = (getattr(args, name, None) for name in ("max_length", "max_completion_length"))
    length = next((value for value in named if isinstance(value, int) and value > 0), 0) or _longest(examples)
    if not length:
        return None
    device_tokens = CPU_TOKENS if args.device.type == "cpu" else CUDA_TOKENS
    return min(device_tokens, max(_FEWEST_TOKENS, args.per_device_train_batch_size * length))


def _longest(examples: Any) -> int:
    """Tokens of the longest of the first examples; 0 where they cannot be looked at without going through them."""
    try:
        count = min(len(examples), _EXAMPLES)
        return max((len(examples[at]["input_ids"]) for at in range(count)), default=0)
    except (LookupError, TypeError, NotImplementedError):  # no length, or examples of another kind
        return 0


def _stateful(state: TrainerState) -> dict[str, Any]:
    """What callbacks leave in the trainer's state: a dict once the state is made, whatever its annotation says."""
    return cast(dict[str, Any], state.stateful_callbacks)


def _tokenizer(kwargs: dict[str, Any]) -> Any:
    """The tokenizer among an event's arguments; that of a processor where it is one."""
    processing_class = kwargs.get("processing_class")
    if processing_class is None:
        raise WatchError("the trainer has no tokenizer; pass processing_class=tokenizer to it")
    return getattr(processing_class, "tokenizer", processing_class)


def _calling_trainer() -> Trainer | None:
    """The trainer whose event is being handled: the first `self` up the stack that is one."""
    frame = sys._getframe(1)
    while frame is not None:
        if isinstance(owner := frame.f_locals.get("self"), Trainer):
            return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None
