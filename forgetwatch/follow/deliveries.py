"""What becomes of the looks of a follower: a line, rows for trackers, the guard, the page, and the table at the end."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from forgetwatch.follow.follow_settings import FollowSettings
from forgetwatch.progress import Failures, log
from forgetwatch.run import run_output
from forgetwatch.run.guard import finding_lines
from forgetwatch.run.run import Look, Run
from forgetwatch.run.trackers import FollowerLogger
from forgetwatch.scoring.processes import rank
from forgetwatch.version import VERSION


class Deliveries:
    """Where a follower sends its looks.

    Attributes:
        runs: The trackers.
        failures: Logs and counts what fails; nothing of it ends a follower.
        has_tripped: True once the guard has found a loss beyond its bounds.

    Args:
        settings: The settings.
        title: Name of the follower's run in trackers.
        config: Settings that trackers show.
        on_look: Called in the main process with one line for each look.
    """

    def __init__(
        self,
        settings: FollowSettings,
        *,
        title: str,
        config: Mapping[str, Any],
        on_look: Callable[[str], object] = log,
    ) -> None:
        self._guard, self._on_look = settings.guard, on_look
        self.runs = FollowerLogger(
            settings.report_to,
            title=title,
            group=settings.group,
            resume_run=settings.resume_run,
            config={**config, "version": VERSION},
            full=settings.full,
        )
        self.failures = Failures(strict=False, work="following", is_main_process=rank() == 0)
        self.has_tripped = False
        self._page = run_output.ReportPage()

    @property
    def stops(self) -> bool:
        """Does the guard end the follower now?"""
        return self.has_tripped and self._guard is not None and self._guard.action == "stop"

    def deliver(self, look: Look, *, started: float, max_steps: int | None) -> None:
        """Send a look everywhere.

        Args:
            look: The look.
            started: Time of `time.perf_counter` at which it began.
            max_steps: Steps of the training; None if unknown.
        """
        line = run_output.look_line(
            look.comparison.all,
            step=look.step,
            max_steps=max_steps,
            took=time.perf_counter() - started,
        )
        for task, sink in (
            ("printing the look", lambda _: self._on_look(line) if rank() == 0 else None),
            ("sending the row", self.runs.take),
            ("the guard", self._judge),
            ("writing the report", self._page.take),
        ):
            with self.failures.tolerate(task, step=look.step):
                sink(look)

    def _judge(self, look: Look) -> None:
        # All processes store the findings together.
        run = look.run
        if self._guard is None:
            return
        new = run.note(self._guard.findings(run.stage_trajectory(), run.lost_must_pass(look.step)))
        self.has_tripped |= bool(new)
        lines = finding_lines(new)
        if rank() == 0:
            for line in lines:
                log(line)
            if new:
                self.runs.alert("\n".join(lines), step=look.step)

    def finish(self, run: Run) -> None:
        """Close the trackers, and write the page."""
        if rank() or not run.comparisons:
            return
        step = max(run.comparisons)
        with self.failures.tolerate("closing the trackers", step=step):
            self.runs.send(run)
            self.runs.finish(run)
        with self.failures.tolerate("writing the report", step=step):
            self._page.write(run, at_once=True)
        self.failures.log_counts()

    def show(self, run: Run, *, max_steps: int | None) -> None:
        """Print the table of the last look, if any, in the main process."""
        if rank() == 0 and len(run.comparisons) > 1:
            run_output.show(run, page=self._page, max_steps=max_steps)
