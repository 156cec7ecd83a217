"""Session: one training under watch, from its first look to its report.

    callback  --TrainingState-->  Session  -->  Watch                       measures, compares, stores
    (events of a trainer)           |           TrainerLogger, Guard        log rows; act on losses
                                    |           ReportPage, Command, table

    begin | resume | restart      decides items and looks and takes the baseline, or restores those of the run
    look                          evaluates the probe, at most once per step
    end_step                      drops looks after the timed steps, if they take too long
    end                           takes the last look, writes the report, shows the table

The baseline of a run that resumes is that of the run folder, if it is of the run that the trainer's state names, else
the copy in the checkpoint, else the one that the user names (`baseline`). The trainer's state follows every checkpoint
to any machine, and names the run and its decision.

A failure after the baseline is logged and counted, and the training continues, unless the session is strict. In a
training of several processes each has a session and all make the same calls; only the main process writes and logs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forgetwatch.drift import adapter_start, adapters_off
from forgetwatch.errors import ForgetwatchError, LostBaselineError, WatchError
from forgetwatch.files import write_problem
from forgetwatch.progress import Failures, log, shown
from forgetwatch.report import write_card
from forgetwatch.run_folder import CARRIED, GuardFinding
from forgetwatch.scoring import model_fingerprint, on_main_process, random_states, score_checkpoint, world_size
from forgetwatch.snapshot import Snapshot
from forgetwatch.watch import run_output
from forgetwatch.watch.budget import FEWEST_ITEMS, Budget, Decision, generated_items, stored_decision
from forgetwatch.watch.guard import STOPS, Action, Guard, Tripped
from forgetwatch.watch.lineage import BY_FOLDER, LineageSetting, join_lineage
from forgetwatch.watch.schedule import Schedule
from forgetwatch.watch.trackers import TrainerLogger
from forgetwatch.watch.trainer import evaluation_weights, held_out, overlap_line
from forgetwatch.watch.watch import Watch


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a session; see `ForgetWatchCallback` for their meaning."""

    max_overhead: float | None
    items: int | None
    baseline: Snapshot | str | None
    lineage: LineageSetting
    guard: Guard | None
    on_look: run_output.Command | None
    full: bool
    chosen_by: str | None
    share_text: bool
    model_card: Path | None
    strict: bool


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """State of the training at one event, after so many optimizer steps."""

    step: int
    model: Any
    tokenizer: Any
    optimizer: Any  # None if the event has none
    trackers: TrainerLogger


class Session:
    """One training under watch.

    Attributes:
        watch: Measures and stores.
        budget: The items and looks of the training, and the clock of its first steps.
        failures: Logs what fails after the baseline, unless the session is strict.
        ended: True once the training is over.
        saved_weights: Fingerprint of the weights that were saved at a step, for a guard that rolls back.
        tripped: What the guard has found so far.
        stopped: Step at which the guard stopped the run; None if it did not.
        stops_again: True if the guard ends the training after its first step, as it ended the one that resumes here.
    """

    def __init__(self, watch: Watch, settings: Settings, *, schedule: Schedule, is_main_process: bool) -> None:
        self.watch = watch
        self.budget = Budget(schedule, overhead=settings.max_overhead, items=settings.items)
        self.ended = False
        self.saved_weights: dict[int, str] = {}
        self.stops_again = False
        self._settings = settings
        self._max_steps = schedule.max_steps
        self._is_main = is_main_process
        self.failures = Failures(strict=settings.strict, is_main_process=is_main_process)
        self.tripped = Tripped()
        self.stopped: int | None = None
        self._page = run_output.ReportPage()
        self._latest_attempt = -1

    def begin(self, now: TrainingState, examples: Any, *, step_tokens: float | None = None) -> None:
        """Decide items and looks, take the first look, and make the measurements that are made only once.

        `step_tokens` is the number of tokens of a training step in one process; None if it is not known.
        """
        watch = self.watch
        named = self._named_baseline()
        is_off = adapter_start(now.model).is_off
        with adapters_off(now.model) if is_off else nullcontext():
            line = join_lineage(watch, now.model, now.tokenizer, setting=self._settings.lineage, counts=named is None)
            if line:
                self.log(line)
            if named is not None:
                watch.adopt(named)
            self._decide_start(now, step_tokens, again=2 if is_off else 1)
        watch.look(now.model, now.tokenizer, step=0)
        if watch.lineage is not None and watch.lineage.how == BY_FOLDER and watch.leave_unlike_lineage():
            self.log(
                "its answers are not those of that training's end: it is not counted as a stage of that model; "
                "lineage=... names it if it is one, such as after quantising"
            )
        with self.failures.tolerate("the search for the probe in the training examples", step=0):
            found = on_main_process(lambda: held_out(watch.probe, examples, now.tokenizer))
            if found is not None:
                self.log(overlap_line(found))
        self._set_out(now)
        self._start_command(now.step, needs_checkpoint=False)

    def resume(self, now: TrainingState, memory: Mapping[str, Any] | None, *, checkpoint: Path | None) -> None:
        """Restore the baseline and the looks of the run.

        `memory` is what the trainer's state keeps of the run; None if it keeps nothing. A WatchError if no source has
        the baseline.
        """
        watch, known = self.watch, memory or {}
        self.tripped = Tripped.of(known.get("tripped", ()))
        self._restore(memory, step=now.step, checkpoint=checkpoint)
        for note in watch.notes:
            self.log(note)
        with self.failures.tolerate("storing the findings of the guard", step=now.step):
            watch.report_findings(self.tripped.findings)
        self._resume_guard(known.get("stopped"), now)
        # A run that was resumed keeps its decision; of one that was begun otherwise there is none.
        self.budget.is_final = watch.decision is not None
        if not self.budget.is_final:
            self._decide_start(now, None)
        self._set_out(now)

    def restart(self, now: TrainingState, *, after: Session) -> None:
        """Train the same run again: after its end, or with a smaller batch. The baseline and the decision stay."""
        self.watch.claim()
        # Before its looks are dropped: a finished training is a result of its own.
        if after.ended and (aside := on_main_process(self.watch.folder.copy_aside)):
            self.log(f"the looks of the earlier training are now in {aside}")
        self.watch.forget_after(now.step)
        self.budget.is_final = after.budget.is_final
        # What the guard reported before this step is not reported again, and stays in the folder.
        self.tripped = Tripped([finding for finding in after.tripped.findings if finding.step <= now.step])
        self._resume_guard(after.stopped, now)
        self._set_out(now)

    def announce(self) -> None:
        """Log the cost of the baseline and of the planned looks, unless no item is left for them."""
        if self._is_main and self.watch.evaluates:
            left = self.budget.schedule.looks_after(max(self.watch.comparisons))
            self.log(run_output.cost_line(self.watch, left=left, extra=self._extra))

    def end_step(self, now: TrainingState) -> bool:
        """Stop the clock of a step; after the last timed one drop looks that take too long, and return True."""
        watch, budget, step = self.watch, self.budget, now.step
        budget.clock.end_step()
        if not budget.is_to_check(step):
            return False
        before, made = watch.decision or Decision(), None
        each, spent = watch.measurer.seconds + self._extra, sum(took for at, took in watch.seconds.items() if at > 0)
        with self.failures.tolerate("the decision on the budget", step=step):
            made = budget.check(before, step=step, each=each, spent=spent)
        if made is not None and made != before:
            with self.failures.tolerate("storing the decision on the budget", step=step):
                watch.decide(made)
            self._plan()
            later = sorted(look for look in budget.schedule.steps if look > step)
            self.log(run_output.dropped_line(later, each=each, step_seconds=budget.clock.step, steps=self._max_steps))
        return True

    def _decide_start(self, now: TrainingState, step_tokens: float | None, *, again: int = 1) -> None:
        """Decide items and looks before anything is measured, and log what they cost.

        The first items are measured `again` so many times after the baseline.
        """
        watch, budget = self.watch, self.budget
        trial = None
        if budget.overhead is not None and (len(watch.probe) > FEWEST_ITEMS or generated_items(watch.probe)):
            trial = watch.measurer.trial(
                now.model, now.tokenizer, watch.probe, items=self._settings.items, weights=watch.started_with
            )
        watch.decide(budget.decide(watch.probe, trial, step_tokens, after=now.step))
        line = run_output.start_line(
            watch.probe,
            watch.decision or Decision(),
            budget.schedule,
            trial,
            step_tokens=step_tokens,
            max_overhead=budget.overhead,
            again=again,
        )
        self.log(line)
        if not watch.generates:
            self.log(run_output.not_generated_line(watch.probe))
        watch.measurer.is_announced = True
        if budget.schedule.is_default and budget.schedule.unwatched:
            self.log(run_output.unwatched_line(budget.schedule))

    def look(self, now: TrainingState) -> Action | None:
        """Look at this step, unless it was tried already, log the numbers, and return what the guard demands."""
        watch, step = self.watch, now.step
        # A look that failed is not repeated by another event of the same step.
        if step in watch.comparisons or step == self._latest_attempt or self._is_over(step):
            return None
        self._latest_attempt = step
        started = time.perf_counter()
        self._measure(now)
        # A look that could not be written is logged all the same; without a measurement there is nothing to log.
        if step not in watch.comparisons:
            return None
        self._log_row(now, step=step)
        took, whole = time.perf_counter() - started, watch.comparisons[step].all
        self.log(run_output.look_line(whole, step=step, max_steps=self._max_steps, took=took))
        guard = self._settings.guard
        new = self.tripped.at_look(guard, watch, step=step, failures=self.failures)
        with self.failures.tolerate("the guard's alert", step=step):
            self._announce(now, new, step=step)
        self._start_command(step, needs_checkpoint=False)
        # At the last step and not in `end`, by which time the trackers may have closed.
        if self._is_main and step == self._max_steps:
            with self.failures.tolerate("logging the table of flipped items", step=step):
                now.trackers.log_flipped(watch, share_text=self._settings.share_text)
        if self._is_main:
            with self.failures.tolerate("writing the report", step=step):
                self._page.write(watch)
        self.budget.clock.add_look(time.perf_counter() - started, evaluation=watch.measurer.seconds)
        action = guard.action if guard is not None and any(finding.trips for finding in new) else None
        self.stopped = step if action in STOPS else self.stopped
        return action

    def note_saved(self, step: int, model: Any) -> None:
        """Note what was just saved at a step: its files, and where a guard may load it again, all its weights."""
        with self.failures.tolerate("noting what was saved", step=step):
            self.watch.note_saved(step)
            if self._settings.guard is not None and self._settings.guard.action == "rollback":
                self.saved_weights[step] = model_fingerprint(model)

    def carry(self, step: int, *, saved: bool = False) -> None:
        """Copy the history of the run into the checkpoint at `step`, if there is one.

        Right after a save, a command that names the checkpoint is started.
        """
        if not self._is_main:
            return
        with self.failures.tolerate("storing the history in the checkpoint", step=step):
            self.watch.folder.carry(step, completions=self._settings.share_text)
        if saved and step in self.watch.comparisons:
            self._start_command(step, needs_checkpoint=True)

    def end(self, now: TrainingState, *, look: bool) -> None:
        """Write the report and show the table.

        A look that an early stop has left out is stored but not logged, because trackers may have closed.
        """
        self.ended = True
        step = now.step
        if look and not (step in self.watch.comparisons or step == self._latest_attempt or self._is_over(step)):
            self._measure(now)
        with suppress(OSError, ForgetwatchError):  # it was reported, and what is left is named below
            self.watch.store_pending()
        if self._is_main:
            with self.failures.tolerate("writing the report", step=step):
                self._page.write(self.watch, at_once=True)
            if self._settings.model_card is not None and len(self.watch.comparisons) > 1:
                with self.failures.tolerate("writing the model card", step=step):
                    write_card(self._settings.model_card, self.watch.trajectory())
            # The model is not saved yet: nothing may fail here.
            with self.failures.tolerate("showing the table", step=step):
                run_output.show(self.watch, page=self._page, max_steps=self._max_steps)
            self.failures.log_counts()
            if pending := self.watch.pending:
                self.log(f"looks that are not stored, and lost with this process: steps {', '.join(map(str, pending))}")
        with self.failures.tolerate("releasing the output_dir", step=step):
            self.watch.release()

    def memory(self) -> dict[str, Any]:
        """Return the state of the run that its checkpoints keep in the trainer's state, as JSON values.

        It has a baseline.
        """
        watch = self.watch
        if watch.baseline is None:
            raise WatchError("a run's memory needs its baseline, and there is none yet; call look() first")
        return {
            "run": watch.folder.run,
            "fingerprint": watch.probe.fingerprint,
            **stored_decision(watch.decision),
            "tripped": self.tripped.stored,
            "stopped": self.stopped,
            "completions": watch.drift.checksum,
            "made": {name: watch.baseline.meta.get(name) for name in ("probe", "batch")},
        }

    def log(self, line: str) -> None:
        """Log one line, in the main process."""
        if self._is_main:
            log(line)

    def _named_baseline(self) -> Snapshot | None:
        named, probe = self._settings.baseline, self.watch.probe
        if named is None or isinstance(named, Snapshot):
            return named
        if world_size() > 1:  # a second model beside one that the processes share
            raise WatchError(
                f"baseline={named!r}: in a training of several processes needed a snapshot, got a model; make one with "
                f"`forgetwatch score {named} --probe ... -o base.parquet`"
            )
        opening = f"baseline: {named}, to be scored on {probe.name}, {len(probe):,} items"
        # Loading a model may draw random numbers.
        with random_states(), shown("baseline", opening=opening, is_main_process=self._is_main) as progress:
            return score_checkpoint(named, probe, progress=progress)

    def _is_over(self, step: int) -> bool:
        """Return True if there are no more looks: no item is left for them, or the run has taken all its steps before.

        A trainer that resumes after the end takes one more step.
        """
        return step > self._max_steps or not self.watch.evaluates

    def _measure(self, now: TrainingState) -> None:
        """Evaluate the weights of this step, those of the optimizer's evaluation mode if it has one."""
        watch, step = self.watch, now.step
        watch.last_step = step if self.ended else self._max_steps
        with self.failures.tolerate("the look", step=step), evaluation_weights(now.optimizer):
            try:
                watch.look(now.model, now.tokenizer, step=step)
            except Exception as error:  # an OSError, and in the other processes what the main one sends of it
                if self._settings.strict or step not in watch.pending:
                    raise
                why = write_problem(error, watch.folder.path) if isinstance(error, OSError) else error
                line = f"the look at step {step} is scored, and not stored, training continues: {why}"
                self.failures.count("storing the look", f"{line}; it is stored when there is room")

    def _set_out(self, now: TrainingState) -> None:
        """Take the looks of the decision, and log the row of the start."""
        self.budget.set_out(now.step)
        self.budget.follow(self.watch.decision or Decision(), evaluates=self.watch.evaluates)
        self._plan()
        self._log_row(now, step=0)

    def _restore(self, memory: Mapping[str, Any] | None, *, step: int, checkpoint: Path | None) -> None:
        """Restore the baseline of the run and its looks until a step."""
        watch, known = self.watch, memory or {}
        # The folder of the trainer may be on another path than that of the checkpoint.
        folders = [watch.folder.carried(step), *([checkpoint / CARRIED] if checkpoint is not None else [])]
        # Before any file is touched: restoring may move the folder of another run aside.
        watch.keep_norm(known.get("made", {"probe": {"fingerprint": None}}))
        run: dict[str, Any] = {
            "run": known.get("run"),
            "step": step,
            "carried": list(dict.fromkeys(folders)),
            "decision": Decision.of(known),
            "completions": known.get("completions"),
        }
        try:
            if memory is None:
                raise LostBaselineError("the checkpoint names no baseline")
            watch.resume(**run)
        except LostBaselineError:
            named = self._named_baseline()
            if named is None and memory is None:
                raise WatchError(
                    f"the run resumes at step {step}, and its checkpoint names no baseline: it was begun without "
                    "forgetwatch; name the model that it began with (baseline=...), start it anew, or resume without "
                    "the callback"
                ) from None
            if named is None:
                raise
            named = watch.in_order(watch.in_norm(named))
            self.log("the run's own baseline is gone; it is replaced by the one that was named")
            # A step that no look of this run has.
            watch.resume(baseline=replace(named, meta={**named.meta, "step": -1}), **run)

    def _plan(self) -> None:
        """Set the number of looks after the baseline, taken or still to come, by which alarms are corrected."""
        taken = self.watch.comparisons
        with self.failures.tolerate("storing the number of planned looks", step=max(taken)):
            self.watch.plan(len(taken) - 1 + self.budget.schedule.looks_after(max(taken)))

    @property
    def _extra(self) -> float:
        """Seconds of a look outside evaluating the items; before the first look those of the drift."""
        return self.budget.clock.extra or self.watch.drift.seconds

    def _resume_guard(self, stopped: Any, now: TrainingState) -> None:
        """Log that the guard has stopped the run before, and stop it again unless that is overridden."""
        if type(stopped) is not int or stopped > now.step:
            return
        guard = self._settings.guard
        self.stops_again = guard is not None and guard.action in STOPS and not guard.override
        self.stopped = stopped if self.stops_again else None
        found = [finding for finding in self.tripped.findings if finding.trips and finding.step == stopped]
        self.log(run_output.stopped_line(stopped, found=found, stops_again=self.stops_again))

    def _announce(self, now: TrainingState, findings: list[GuardFinding], *, step: int) -> None:
        guard, trips = self._settings.guard, any(finding.trips for finding in findings)
        lines = self.tripped.lines(findings, stops=step if trips and guard and guard.action in STOPS else None)
        for line in lines:
            self.log(line)
        if trips and self._is_main:
            now.trackers.alert("\n".join(lines), step=step)

    def _log_row(self, now: TrainingState, *, step: int) -> None:
        settings = self._settings
        with self.failures.tolerate("logging the look", step=step):
            now.trackers.log_look(self.watch, step=step, full=settings.full, chosen_by=settings.chosen_by)

    def _start_command(self, step: int, *, needs_checkpoint: bool) -> None:
        command = self._settings.on_look
        if command is not None and command.needs_checkpoint == needs_checkpoint and self._is_main:
            with self.failures.tolerate("starting the command", step=step):
                command.start(step=step, output_dir=self.watch.folder.output_dir, folder=self.watch.folder.path)
