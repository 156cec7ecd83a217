"""A training under watch: what is done at each look, at each save, and at the end.

    measure ─▶ add to the run ─▶ trackers, line of the log, guard, command, page

A failure after the baseline is logged and counted, and the training continues, unless the run is
strict. In a training of several processes all make the same calls; only the main process writes and
logs.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from transformers import Trainer, TrainerControl, TrainerState

from forgetwatch.errors import WatchError
from forgetwatch.progress import Failures, log
from forgetwatch.run import run_output
from forgetwatch.run.guard import STOPS, finding_lines, roll_back
from forgetwatch.run.look import LookScorer
from forgetwatch.run.run import Look, Run
from forgetwatch.run.schedule import Budget
from forgetwatch.run.state import LookPlan, stored_plan
from forgetwatch.run.trackers import TrainerLogger
from forgetwatch.run.trainer import best_step, chosen_by, evaluation_weights, stateful, tokenizer_of
from forgetwatch.run.turnover import Turnover
from forgetwatch.run.watch_settings import WatchSettings
from forgetwatch.run_folder.task_figure import TaskFigure, logged_figure
from forgetwatch.scoring.processes import rank
from forgetwatch.scoring.weights_identity import model_fingerprint

STATE: Final = "forgetwatch"
"""Key of the run's memory in the trainer's state."""

_STOPPED: Final = 130
"""Exit status after Ctrl-C."""


class Training:
    """One training under watch: its run, its trainer, and what happens at each look.

    Attributes:
        settings: What the user has set.
        trainer: The trainer.
        looks: Measures the looks of the run.
        stops_again: True if the guard has stopped the run before, and stops it again.
        has_ended: True once the training has ended; the model may have other weights then.
        is_restarted: True if the same run is trained again in this process.
        failures: Logs and counts what fails.
        turnover: What became of the training's own prompts.
    """

    def __init__(self, settings: WatchSettings, trainer: Trainer, looks: LookScorer) -> None:
        self.settings, self.trainer, self.looks = settings, trainer, looks
        self.stops_again = self.has_ended = self.is_restarted = False
        self.failures = Failures(strict=settings.strict, is_main_process=rank() == 0)
        self.turnover = Turnover()
        self._page = run_output.ReportPage()
        self._saved_weights: dict[
            int, str
        ] = {}  # fingerprints by step, for a guard that rolls back
        self._tried = -1  # the step of the latest look, also of one that failed

    @property
    def run(self) -> Run:
        """The run."""
        return self.looks.run

    @property
    def budget(self) -> Budget:
        """Schedule and clock of the looks."""
        if self.run.budget is None:
            raise WatchError("the run has no schedule yet")
        return self.run.budget

    def log(self, line: str) -> None:
        """Log a line in the main process."""
        if rank() == 0:
            log(line)

    def trackers(self, state: TrainerState, control: TrainerControl) -> TrainerLogger:
        """Trackers of the trainer, for an event."""
        return TrainerLogger(
            self.trainer,
            state,
            control,
            full=self.settings.full,
            chosen_by=chosen_by(self.trainer.args),
            share_text=self.settings.share_text,
        )

    def reopen(self) -> None:
        """Count the failures and draw the page of another try of the training anew."""
        self.failures = Failures(strict=self.settings.strict, is_main_process=rank() == 0)
        self._page, self._tried = run_output.ReportPage(), -1
        self.has_ended, self.is_restarted = False, True

    def look(self, state: TrainerState, control: TrainerControl, event: dict[str, Any]) -> None:
        """Take the look of this step for the sinks.

        A look that failed is not tried by another event.
        """
        run, step, budget = self.run, state.global_step, self.budget
        # A trainer that resumes after the end takes one more step.
        if step > budget.schedule.max_steps or step in (self._tried, *run.comparisons):
            return
        started = time.perf_counter()
        look = self.measure(state, event)
        trackers = self.trackers(state, control)
        if look is None:
            with self.failures.tolerate("logging the verdict", step=step):
                trackers.log_verdict(run, step=step)
            return
        for task, sink in (
            ("logging the look", trackers.take),
            ("logging the turnover", lambda _: trackers.log_row(run, self.turnover.row, step=step)),
            ("printing the look", partial(self._print, started=started)),
            ("the guard", partial(self._judge, trackers=trackers, control=control)),
            ("starting the command", lambda look: self.start_command(look.step, is_saved=False)),
            ("writing the report", self._page.take),
        ):
            with self.failures.tolerate(task, step=step):
                sink(look)
        budget.clock.add_look(time.perf_counter() - started, evaluation=self.looks.look_seconds)
        self.store_memory(state)

    def measure(
        self, state: TrainerState, event: dict[str, Any], *, best: int | None = None
    ) -> Look | None:
        """Measure the model at this step.

        Args:
            state: The trainer's state.
            event: Arguments of the event.
            best: Step of the best checkpoint, if its weights are the model's now.

        Returns:
            The look, or None if it failed, which is noted.
        """
        step, look = best or state.global_step, None
        self._tried = step
        self.run.update(task=self.figure(state))
        is_last = self.has_ended or step == self.budget.schedule.max_steps
        with (
            self.one_line_if_stopped(step=step),
            self.failures.tolerate("the look", step=step),
            evaluation_weights(event.get("optimizer")),
        ):
            origin = None if best is None else {"model": str(state.best_model_checkpoint)}
            look = self.looks.take(
                event["model"], tokenizer_of(event), step=step, is_last=is_last, origin=origin
            )
            if look.unstored is not None and self.settings.strict:
                raise look.unstored
        if look is None:
            with self.failures.tolerate("noting a look that failed", step=step):
                self.run.note_failed(step, self.failures.cause)
        return look

    def check_budget(self, step: int) -> None:
        """Drop looks that take too long, after the last timed step."""
        run, budget = self.run, self.budget
        before = decision = run.state.plan or LookPlan()
        spent = sum(took for at, took in run.looks.seconds.items() if at > 0)
        with self.failures.tolerate("the decision on the budget", step=step):
            decision = budget.check(before, step=step, each=self.each(), spent=spent)
        if decision != before:
            with self.failures.tolerate("storing the decision on the budget", step=step):
                run.decide(decision)
                run.follow(budget)
            self.log(run_output.dropped_line(budget, after=step, each=self.each()))

    def each(self) -> float:
        """Seconds of a look.

        Before the first look, the drift counts beside evaluating.
        """
        budget = self.run.budget
        extra = 0.0 if budget is None else budget.clock.extra
        return self.looks.look_seconds + (extra or self.run.drift.seconds)

    def saved(self, step: int, model: Any) -> None:
        """Note a checkpoint that was saved, copy the history into it, start the command."""
        with self.failures.tolerate("noting what was saved", step=step):
            self.run.note_saved(step)
            if self.settings.guard is not None and self.settings.guard.action == "rollback":
                self._saved_weights[step] = model_fingerprint(model)
        self.carry(step)
        if step in self.run.comparisons:
            self.start_command(step, is_saved=True)

    def carry(self, step: int) -> None:
        """Copy the history of the run into the checkpoint at `step`."""
        if rank() == 0:
            with self.failures.tolerate("storing the history in the checkpoint", step=step):
                self.run.carry(step, completions=self.settings.share_text)

    def start_command(self, step: int, *, is_saved: bool) -> None:
        """Start the user's command after the look or the save of a step."""
        command, folder = self.settings.on_look, self.run.folder
        if command is not None and command.needs_checkpoint == is_saved and rank() == 0:
            with self.failures.tolerate("starting the command", step=step):
                command.start(step=step, output_dir=folder.output_dir, folder=folder.path)

    def figure(self, state: TrainerState) -> TaskFigure | None:
        """Figure of the new task: the trainer's own, unless the looks measure one.

        Returns:
            The figure as far as it was logged, or None if there is none.
        """
        known = self.run.state.task
        if self.settings.target_probe is not None:
            return known
        metric = self.trainer.args.metric_for_best_model
        chosen = None if metric and "forget" in metric else metric
        return logged_figure(state.log_history, chosen=chosen) or known

    def store_memory(self, state: TrainerState) -> None:
        """Keep what checkpoints know of the run in the trainer's state, as JSON values."""
        run = self.run
        with self.failures.tolerate("storing the run's state", step=state.global_step):
            if run.baseline is None:
                return
            memory = {
                "run": run.folder.run,
                "fingerprint": run.probe.fingerprint,
                **stored_plan(run.state.plan),
                "tripped": [dict(vars(finding)) for finding in run.state.findings],
                "stopped": run.state.stopped,
                "completions": run.drift.checksum,
                "made": {name: run.baseline.meta.get(name) for name in ("probe", "batch")},
            }
            # In the form of a callback's state: the trainer may read every entry of this dict on a
            # resume.
            stateful(state)[STATE] = {"args": {}, "attributes": memory}

    def resume_guard(self, stopped: Any, step: int) -> None:
        """Let a guard stop the run again that has stopped it before, unless overridden.

        Args:
            stopped: Step at which the guard stopped the run, None if it did not.
            step: The step from which the run resumes.
        """
        run, guard = self.run, self.settings.guard
        run.update(stopped=None)
        self.stops_again = False
        if type(stopped) is not int or stopped > step:
            return
        self.stops_again = guard is not None and guard.action in STOPS and not guard.override
        run.update(stopped=stopped if self.stops_again else None)
        findings = [finding for finding in run.state.findings if finding.step == stopped]
        stops_again = self.stops_again
        self.log(run_output.stopped_line(stopped, findings=findings, stops_again=stops_again))

    def stop_again(self, control: TrainerControl) -> None:
        """End a training that the guard has stopped before, without a checkpoint."""
        if self.stops_again:
            control.should_training_stop = True
            # A job that is started again and again would go on by a step each time, and replace all
            # checkpoints.
            control.should_save = False

    def finish(self, state: TrainerState, control: TrainerControl, event: dict[str, Any]) -> None:
        """Take a last look that was left out, note the end, and show the table."""
        run, step, args = self.run, state.global_step, self.trainer.args
        guard, max_steps = self.settings.guard, self.budget.schedule.max_steps
        self.has_ended = True
        # load_best_model_at_end has put other weights in place by now.
        is_best = args.load_best_model_at_end and state.best_model_checkpoint
        best = best_step(state) if is_best else None
        delivered: int | None = best or step
        if delivered not in (*run.comparisons, self._tried) and step <= max_steps:
            self.measure(state, event, best=best)  # not logged, because trackers may have closed
        if guard is not None and guard.action == "rollback" and run.state.stopped is not None:
            delivered = None
            with self.failures.tolerate("rolling back", step=step):
                delivered = roll_back(self.trainer, guard, run, self._saved_weights, log=self.log)
        run.update(task=self.figure(state))
        with self.failures.tolerate("storing the end of the run", step=step):
            run.note_end(
                last_step=step, delivered=delivered, is_stopped=run.state.stopped is not None
            )
        with self.failures.tolerate("logging the verdict", step=step):
            self.trackers(state, control).log_end(run, step=step)
        if rank() == 0:
            with self.failures.tolerate("writing the report", step=step):
                self._page.write(run, at_once=True)
            # The model is not saved yet: nothing may fail here.
            with self.failures.tolerate("showing the table", step=step):
                run_output.show(run, page=self._page, max_steps=max_steps)
            if line := self.turnover.line:
                self.log(line)
            self.failures.log_counts()
            if run.pending:
                steps = ", ".join(map(str, run.pending))
                self.log(f"looks that are not stored, and lost with this process: steps {steps}")
        with self.failures.tolerate("releasing the output_dir", step=step):
            run.close()

    @contextmanager
    def one_line_if_stopped(self, *, step: int | None = None) -> Iterator[None]:
        """End a script with one line in place of a traceback at Ctrl-C."""
        try:
            yield
        except KeyboardInterrupt:
            self.log(
                "stopped before the first step"
                if step is None
                else f"stopped in the look at step {step}; the looks before it are in "
                f"{self.run.folder.path}"
            )
            if hasattr(sys, "ps1"):  # a notebook or a shell
                raise
            raise SystemExit(_STOPPED) from None

    def _print(self, look: Look, *, started: float) -> None:
        took = time.perf_counter() - started
        max_steps = self.budget.schedule.max_steps
        self.log(
            run_output.look_line(
                look.comparison.all, step=look.step, max_steps=max_steps, took=took
            )
        )

    def _judge(self, look: Look, *, trackers: TrainerLogger, control: TrainerControl) -> None:
        # The trainer does what the guard demands.
        guard, run, step = self.settings.guard, look.run, look.step
        if guard is None:
            return
        new = run.note(guard.findings(run.stage_trajectory(), run.lost_must_pass(step)))
        stops = step if new and guard.action in STOPS else None
        if stops is not None:
            run.update(stopped=step)
            control.should_training_stop = True
        if any(finding.what == "not_finite" for finding in new):
            # Such a checkpoint could replace the last one that is finite, and a resume would take
            # it.
            control.should_save &= guard.action not in STOPS
        elif new and guard.action in ("save", "stop"):
            control.should_save = True
        lines = finding_lines(new, stops=stops)
        for line in lines:
            self.log(line)
        if new and rank() == 0:
            with self.failures.tolerate("the guard's alert", step=step):
                trackers.alert("\n".join(lines), step=step)


def memory_of(state: TrainerState) -> dict[str, Any] | None:
    """Facts of the run that a checkpoint holds.

    Returns:
        JSON values, or None for a checkpoint of a training without a watch.
    """
    memory: dict[str, Any] | None = stateful(state).get(STATE, {}).get("attributes")
    return memory
