"""Session: one training under watch, from its first look to its report.

    callback  --Moment-->  Session  -->  Watch               measures, compares, stores
    (events of a trainer)     |          Trackers, Guard     log rows; act on losses
                              |          ReportPage, Command, DriftWatch, console

    begin | resume | restart      takes the baseline, or restores that of the run
    look                          evaluates the probe, at most once per step
    end_step                      decides the item budget, once, after the timed steps
    end                           takes the last look, writes the report, shows the table

A failure after the baseline is logged and counted, and the training continues, unless the session is strict. In a
training of several processes each has a session and all make the same calls; only the main process writes and logs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forgetwatch.progress import log, shown
from forgetwatch.scoring.checkpoints import score_checkpoint
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.snapshot import Snapshot
from forgetwatch.watch import notices
from forgetwatch.watch.budget import Clock, Cost, decide_budget, is_mixed
from forgetwatch.watch.command import Command
from forgetwatch.watch.console import Failures
from forgetwatch.watch.drift import DriftWatch
from forgetwatch.watch.guard import Action, Finding, Guard, Tripped
from forgetwatch.watch.held_out import held_out, overlap_line
from forgetwatch.watch.resume import carried_folders, memory_of, resume
from forgetwatch.watch.schedule import Every
from forgetwatch.watch.trackers import Trackers, alert, look_row
from forgetwatch.watch.trainer import evaluation_weights
from forgetwatch.watch.watch import Watch


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a session; see `ForgetWatchCallback` for their meaning."""

    every: Every
    max_overhead: float | None
    baseline: Snapshot | str | None
    guard: Guard | None
    on_look: Command | None
    full: bool
    share_text: bool
    strict: bool


@dataclass(frozen=True, kw_only=True)
class Moment:
    """State of the training at one event.

    Attributes:
        step: Optimizer steps taken.
        model: The model, as the trainer evaluates it.
        tokenizer: Its tokenizer.
        optimizer: The optimizer; None if the event has none.
        trackers: Takes the row of a look.
    """

    step: int
    model: Any
    tokenizer: Any
    optimizer: Any
    trackers: Trackers


class Session:
    """One training under watch.

    Attributes:
        watch: Measures and stores.
        drift: Drift from the base; None if it is not measured.
        ended: True once the training is over.

    Args:
        watch: Measures and stores.
        settings: The settings.
        planned: Steps of all planned looks, the first included.
        max_steps: Optimizer steps of the training.
        is_main_process: True in the process that logs and writes.
        drift: Drift that an earlier training of the same run has begun to measure.
    """

    def __init__(
        self,
        watch: Watch,
        settings: Settings,
        *,
        planned: frozenset[int],
        max_steps: int,
        is_main_process: bool,
        drift: DriftWatch | None = None,
    ) -> None:
        self.watch = watch
        self.drift = drift
        self.ended = False
        self._settings = settings
        self._planned = planned
        self._max_steps = max_steps
        self._is_main = is_main_process
        self._failures = Failures(strict=settings.strict, is_main_process=is_main_process)
        self._tripped = Tripped()
        self._clock = Clock()
        self._page = notices.ReportPage()
        self._latest_attempt = -1
        watch.plan(len(planned) - 1)  # without the baseline

    def begin(self, now: Moment, examples: Any) -> None:
        """Take the first look of a run, and make the measurements that are made only once.

        Args:
            now: The moment before the first step.
            examples: The training examples.

        Raises:
            ForgetwatchError: If no baseline can be obtained.
        """
        watch = self.watch
        if self._settings.max_overhead is not None:
            # Before the first look: a later decision needs its rows.
            watch.defer_budget()
        if (named := self._named_baseline()) is not None:
            watch.adopt(named)
            watch.plan(len(self._planned))  # the look at the start then counts like any other
        watch.look(now.model, now.tokenizer, step=0)
        with self.tolerate("the search for the probe in the training examples", step=0):
            found = on_main_process(lambda: held_out(watch.probe, examples, now.tokenizer))
            if found is not None:
                self.log(overlap_line(found))
        extra = 0.0
        if self._settings.full:
            with self.tolerate("sampling completions of the base", step=0):
                extra = self._begin_drift(now, examples)
        self._log_row(now)
        self._start_command(now.step, needs_checkpoint=False)
        self._clock = Clock(spent=sum(watch.seconds.values()), extra=extra)

    def resume(self, now: Moment, memory: Mapping[str, Any] | None, *, checkpoint: Path | None) -> None:
        """Restore the baseline and the looks of the run, and measure the noise between this machine and the last.

        Args:
            now: The moment before the next step.
            memory: The `memory` of the earlier process, from the trainer's state; None if there is none.
            checkpoint: Folder of the checkpoint; None if unknown.

        Raises:
            WatchError: If no baseline can be obtained, or it is of another probe.
        """
        watch, known = self.watch, memory or {}
        if self._settings.max_overhead is not None and not known.get("decided"):
            watch.defer_budget()
        self._tripped = Tripped.of(known.get("tripped", ()))
        folders = carried_folders(watch, now.step, checkpoint)
        # Before the looks are restored: that may move the run folder, and the completions with it.
        if self._settings.full:
            with self.tolerate("reading the base's completions", step=now.step):
                self.drift = DriftWatch.resume(
                    [watch.folder.path, *folders],
                    checksum=known.get("completions"),
                    token_budget=watch.token_budget,
                )
        lines = resume(
            watch, now.model, now.tokenizer, memory, step=now.step, carried=folders, named=self._named_baseline
        )
        for line in lines:
            self.log(line)
        left = sum(later > now.step for later in self._planned)
        # A run that resumes with another schedule may already have had more looks than that plans.
        watch.plan(max(len(self._planned) - 1, len(watch.comparisons) - 1 + left))
        # The run folder may be a new one, without the completions.
        if self.drift is not None:
            with self.tolerate("storing the base's completions", step=now.step):
                self.drift.save(watch.folder.path)
        with self.tolerate("measuring the look again", step=now.step):
            again = watch.look_again(now.model, now.tokenizer, step=now.step)
            if again is not None:
                self.log(notices.again_line(again.all, step=now.step))
        self._clock = Clock(spent=sum(watch.seconds.values()))

    def restart(self, step: int, *, after: Session) -> None:
        """Train the same run again from `step`: after its end, or with a smaller batch. The baseline stays.

        Args:
            step: Optimizer steps taken.
            after: The session of the earlier training.
        """
        # Before its looks are dropped: a finished training is a result of its own.
        if after.ended and (aside := on_main_process(self.watch.folder.copy_aside)):
            self.log(f"the looks of the earlier training are now in {aside}")
        self.watch.forget_after(step)
        self._clock = Clock(spent=sum(self.watch.seconds.values()))

    def announce(self) -> None:
        """Log the cost of the planned looks."""
        self.log(notices.cost_line(self.watch, planned=len(self._planned)))

    def begin_step(self) -> None:
        """Start the clock of a step."""
        self._clock.begin_step()

    def end_step(self, step: int) -> bool:
        """Stop the clock of a step, decide the item budget after the last timed one, and return True if it was that."""
        if not self._clock.end_step():
            return False
        self._decide_budget(step)
        return True

    def next_step(self) -> None:
        """Start the clock of the next step; the looks between two steps count to neither."""
        self._clock.restart_step()

    def look(self, now: Moment) -> Action | None:
        """Look at this step, unless it was tried already, and log the numbers.

        Returns:
            The action that the guard demands; None if it demands none.
        """
        watch, step = self.watch, now.step
        # A look that failed is not repeated by another event of the same step.
        if step in watch.comparisons or step == self._latest_attempt:
            return None
        self._latest_attempt = step
        started = time.perf_counter()
        with self.tolerate("the look", step=step), evaluation_weights(now.optimizer):
            watch.look(now.model, now.tokenizer, step=step)
        # A look that could not be written is logged all the same; without a measurement there is nothing to log.
        if step not in watch.comparisons:
            return None
        if self.drift is not None:
            drift_started = time.perf_counter()
            with self.tolerate("measuring the drift", step=step):
                self.drift.look(now.model, step=step)
            watch.add_seconds(time.perf_counter() - drift_started, step=step)
        self._log_row(now)
        new: list[Finding] = []
        with self.tolerate("the guard", step=step):
            new = self._new_findings(step)
        with self.tolerate("the guard's alert", step=step):  # apart: a tracker that fails must not disable the guard
            self._announce(new, step=step)
        self._start_command(step, needs_checkpoint=False)
        # At the last step and not in `end`, by which time the trackers may have closed.
        if self._is_main and step == self._max_steps:
            with self.tolerate("logging the table of flipped items", step=step):
                now.trackers.log_flipped(watch, share_text=self._settings.share_text)
        self._clock.add_look(time.perf_counter() - started, evaluation=watch.evaluation_seconds)
        if self._is_main:  # outside the budget: the page limits itself to a share of the time
            with self.tolerate("writing the report", step=step):
                self._page.write(watch)
        return self._settings.guard.action if self._settings.guard is not None and new else None

    def row(self, step: int) -> dict[str, float]:
        """Numbers of the look at a step by tracker key; empty if there is no look."""
        return look_row(self.watch, self.drift, step=step, full=self._settings.full)

    def carry(self, step: int, *, saved: bool = False) -> None:
        """Copy the history of the run into the checkpoint at `step`, if there is one.

        Args:
            step: The checkpoint's step.
            saved: True right after a save: a command that names the checkpoint is then started.
        """
        if not self._is_main:
            return
        with self.tolerate("storing the history in the checkpoint", step=step):
            self.watch.folder.carry(step, completions=self._settings.share_text)
        if saved and step in self.watch.comparisons:
            self._start_command(step, needs_checkpoint=True)

    def end(self, now: Moment, *, look: bool) -> None:
        """Write the report and show the table.

        Args:
            now: The moment after the last step.
            look: True to take the look that an early stop has left out; it is stored but not logged, because trackers
                may have closed.
        """
        self.ended = True
        step = now.step
        if look and step not in self.watch.comparisons and step != self._latest_attempt:
            with self.tolerate("the look", step=step):
                self.watch.look(now.model, now.tokenizer, step=step)
        if self._is_main:
            with self.tolerate("writing the report", step=step):
                self._page.write(self.watch, at_once=True)
            with self.tolerate("showing the table", step=step):  # the model is not saved yet: nothing may fail here
                notices.show(self.watch, max_steps=self._max_steps, tripped=self._tripped.lines)
            self._failures.log_counts()

    def memory(self) -> dict[str, Any]:
        """The state of the run that its checkpoints keep, as JSON values."""
        return memory_of(
            self.watch,
            tripped=self._tripped.stored,
            completions=None if self.drift is None else self.drift.completions.checksum,
        )

    def log(self, line: str) -> None:
        """Log one line, in the main process."""
        if self._is_main:
            log(line)

    def tolerate(self, what: str, *, step: int) -> AbstractContextManager[None]:
        """Context in which a failure does not stop the training, unless the session is strict."""
        return self._failures.tolerate(what, step=step)

    def _named_baseline(self) -> Snapshot | None:
        named = self._settings.baseline
        if named is None or isinstance(named, Snapshot):
            return named
        probe = self.watch.probe
        opening = f"baseline: {named}, to be scored on {probe.name}, {len(probe):,} items"
        with shown("baseline", opening=opening, is_main_process=self._is_main) as progress:
            return score_checkpoint(named, probe, progress=progress)

    def _begin_drift(self, now: Moment, examples: Any) -> float:
        """Sample the completions that later looks evaluate, and return the seconds that one evaluation takes."""
        watch, started = self.watch, time.perf_counter()
        self.drift = DriftWatch.begin(now.model, now.tokenizer, watch.probe, examples, token_budget=watch.token_budget)
        self.drift.save(watch.folder.path)
        reading_started = time.perf_counter()
        self.drift.look(now.model, step=0)
        ended = time.perf_counter()
        watch.add_seconds(ended - started, step=0)
        return ended - reading_started

    def _decide_budget(self, step: int) -> None:
        """Fix the items that the looks evaluate from here on, and log their share of the time."""
        watch, overhead = self.watch, self._settings.max_overhead
        cost, anew = self._cost(), watch.undecided
        if anew and overhead is not None:
            with self.tolerate("the decision on the item budget", step=step):
                # Clocks differ between processes, and every process must come to the same items.
                cost, items, generates = on_main_process(lambda: decide_budget(cost, overhead))
                if items < cost.items or generates != watch.generates:
                    watch.restrict(items=items if items < cost.items else None, generates=generates)
                if not generates:
                    self.log(notices.not_generated_line(watch.probe))
            # Also after a failure, or the rows of every look would stay in memory until the end.
            watch.fix_budget()
        self.log(
            notices.share_line(
                cost,
                watch.probe,
                watch.items or cost.items,
                max_overhead=overhead,
                every=self._settings.every,
                anew=anew,
            )
        )

    def _cost(self) -> Cost:
        """Cost of the looks of this run, from the steps and looks so far."""
        watch, items = self.watch, len(self.watch.probe)
        return Cost(
            items=items,
            # The latest look may have evaluated a prefix; the cost is that of the whole probe.
            look=watch.evaluation_seconds * items / (watch.items or items),
            extra=self._clock.extra,
            generation=watch.generation_seconds if is_mixed(watch.probe) else 0.0,
            step=self._clock.step,
            steps=self._max_steps,
            spent=self._clock.spent,
            left=max(0, len(self._planned) - len(watch.comparisons)),
        )

    def _new_findings(self, step: int) -> list[Finding]:
        """Findings of the guard at this look that no earlier look had."""
        guard = self._settings.guard
        if guard is None:
            return []
        return self._tripped.new(guard.findings(self.watch.trajectory(), self.watch.lost_must_pass(step)))

    def _announce(self, findings: list[Finding], *, step: int) -> None:
        for finding in findings:
            self.log(finding.line)
        if findings and self._settings.guard is not None and self._settings.guard.action == "stop":
            self.log(f"the guard stops the run at step {step}")
        if findings and self._is_main:
            alert("forgetwatch", "\n".join(finding.line for finding in findings))

    def _log_row(self, now: Moment) -> None:
        """Log the look at this step, if there is one, and only once, also if a resumed run takes it again."""
        if not now.trackers.has_row():
            with self.tolerate("logging the look", step=now.step):
                if row := self.row(now.step):
                    now.trackers.log_row(row)

    def _start_command(self, step: int, *, needs_checkpoint: bool) -> None:
        command = self._settings.on_look
        if command is not None and command.needs_checkpoint == needs_checkpoint and self._is_main:
            with self.tolerate("starting the command", step=step):
                command.start(step=step, output_dir=self.watch.folder.output_dir, folder=self.watch.folder.path)
