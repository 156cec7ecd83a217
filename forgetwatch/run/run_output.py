"""Output of a run for its user, besides the trackers.

start_line, doubt, ...  lines for the log: the cost of the looks, the budget, the guard's stop
show                         prints the table of the last look
ReportPage                   writes ``report.html`` in the run folder
Command                      a command of the user's that is started after a look (`on_look`)
"""

from __future__ import annotations

import os
import shlex
import string
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from rich.console import Console

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import at_start, too_easy
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.subset import Subset
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import FEWEST_ITEMS as FEWEST_TO_PASS
from forgetwatch.comparing.verdict import estimated, too_few
from forgetwatch.errors import WatchError
from forgetwatch.files.writing import write_text
from forgetwatch.measures.scores import PASSAGES
from forgetwatch.probe import Probe
from forgetwatch.probes.overlap import Overlap
from forgetwatch.progress import log, seconds
from forgetwatch.report.eight_lines import first_table, run_label
from forgetwatch.report.html import run_page
from forgetwatch.report.terminal import WIDTH, first_lines
from forgetwatch.run.run import Look, Run
from forgetwatch.run.schedule import FEWEST_OF_SLICE, LOOKS_SECONDS, Budget, Schedule, looks_seconds
from forgetwatch.run_folder.contents import task_figure
from forgetwatch.run_folder.description import REPORT, GuardFinding, checkpoint_folder
from forgetwatch.scoring.processes import rank
from forgetwatch.text import change_points, listed, run_name
from forgetwatch.visible_text import visible

_PAGE_SHARE: Final = 0.005
"""Share of the time that drawing pages may take, 0 to 1."""

_FIELDS: Final = frozenset({"step", "checkpoint", "folder"})
_LOCK: Final = threading.Lock()


_LONG: Final = 60.0
"""Seconds of a start for which the line names a trial."""


def start_line(
    run: Run,
    budget: Budget,
    *,
    start: float | None,
    each: float | None,
    overlap: Overlap | None = None,
) -> str:
    """Line on what a run evaluates, and what that costs.

    Before the first step.

    Args:
        run: The run, whose items are decided.
        budget: Its looks.
        start: Seconds of the baseline and what follows it; None if the run has them already, or
            nothing was timed.
        each: Seconds of a look; None if nothing was timed.
        overlap: The training rows that hold no question of the probe; None if they were not
            searched.
    """
    probe, items = run.probe, run.items or len(run.probe)
    is_read = all(item.is_passage for item in probe.items[:items])
    line = (
        f"{probe.name}: {f'the first {items:,} of ' if items < len(probe) else ''}{len(probe):,} "
    )
    line += "passages, of which only the bits per byte change" if is_read else "items"
    if overlap is not None and not overlap.exact:
        line += f", none of them in the {overlap.searched}"
    if start is not None:
        line += f"; about {seconds(start)} before the first step"
        if start > _LONG and items > FEWEST_OF_SLICE:
            line += f" ({probe.name}:100 is a trial, whose verdict is mostly NOT CLEAR)"
    step, schedule = max(run.comparisons, default=0), budget.schedule
    looks = schedule.looks_after(step)
    line += f"; {looks} look{'' if looks == 1 else 's'}"
    if each is None:
        return line
    took = looks * each
    line += f" of {seconds(each)}"
    if budget.training is not None:
        training = budget.training * (1 - step / schedule.max_steps)
        share = took / (took + training) if took else 0.0
        return f"{line}, about {100 * share:.2g} % of the run's time{_over(took, training, budget.overhead)}"
    if budget.overhead is None or budget.is_final or took <= LOOKS_SECONDS:
        return line
    return f"{line}; this training cannot be predicted, and its first steps decide which are kept"


def unwatched_line(schedule: Schedule) -> str:
    """Line on the checkpoints without a look."""
    names = listed([f"checkpoint-{step}" for step in schedule.unwatched])
    return f'no time for a look at {names}; every="save" looks at all'


def doubt(run: Run) -> str:
    """Why no look can be KEPT, or a small loss not be seen.

    Empty if neither is so.
    """
    look = None if run.baseline is None else run.comparisons.get(run.baseline.meta["step"])
    if look is None or not look.all.n:  # passages alone
        return ""
    start = look.all
    if start.n < FEWEST_TO_PASS:
        return at_start(start) or too_few(start.n)
    easy = too_easy(start)
    return at_start(start) or (easy and f'{easy}; "ladder" and "lm_eval:mmlu_pro" have harder ones')


def look_line(group: Group, *, step: int, max_steps: int | None, took: float) -> str:
    """Line of `follow` on a checkpoint that was scored."""
    parts = [f"step {step}:" if max_steps is None else f"step {step} of {max_steps}:"]
    if group.n:
        change = change_points(*estimated(group))
        parts.append(
            f"forgotten {group.forgotten:g}, gained {group.gained:g}, net change {change},"
        )
    if (read := group[PASSAGES]) is not None:
        parts.append(f"{read.after:.3f} bits per byte,")
    return " ".join([*parts, seconds(took)])


def not_generated_line(probe: Probe) -> str:
    """Line on answers that are no longer generated, with their categories."""
    lost = Subset.from_probe(probe, items=None, generates=False).missing_categories
    return (
        "generated answers would take the looks beyond max_overhead: only log-likelihood items "
        "and generated must_pass ones are evaluated"
        + (f"; no item of {', '.join(lost)} is among them" if lost else "")
        + "; max_overhead=None evaluates all"
    )


def dropped_line(budget: Budget, *, after: int, each: float) -> str:
    """Line on the looks that are left after a step."""
    later = sorted(step for step in budget.schedule.steps if step > after)
    looks, training = len(later) * each, (budget.clock.step or 0.0) * budget.schedule.max_steps
    return (
        f"looks take longer than they may: those at step{'' if len(later) == 1 else 's'} "
        f"{', '.join(map(str, later))} are left, about {100 * looks / (looks + training):.1f} % of "
        "the run's time; max_overhead=None takes all"
    )


def _over(looks: float, training: float, max_overhead: float | None) -> str:
    # Less than a tenth is within the error of timing.
    if max_overhead is None or looks <= 1.1 * looks_seconds(max_overhead, training):
        return ""
    return f"; that is more than a minute and than max_overhead={max_overhead:g}: fewer would decide next to nothing"


def stopped_line(stopped: int, *, findings: Sequence[GuardFinding], stops_again: bool) -> str:
    """Line at the resume of a run that the guard has stopped."""
    line = (
        f"the guard stopped this run at step {stopped}{f': {findings[0].line}' if findings else ''}"
    )
    line += f", and {len(findings) - 1:,} more" if len(findings) > 1 else ""
    if not stops_again:
        return f"{line}; the training continues all the same"
    return f'{line}; the training stops again after its first step; Guard("stop", override=True) continues it'


def show(run: Run, *, page: ReportPage, max_steps: int | None) -> None:
    """Print the table of the last look, and the report's path.

    A page that does not show the last look is not named: it could not be written.
    """
    if run.baseline is None:
        return
    trajectory = _with_task(run)
    folder, last_look = run.folder.path, trajectory.final
    verdict_table = first_table(
        last_look,
        trajectory=trajectory,
        run=folder,
        name=run_label(trajectory, folder, of=max_steps),
        has_advice=False,
    )
    console = Console(highlight=False)
    console.width = min(console.width, 120) if console.is_terminal else WIDTH
    console.print(first_lines(verdict_table, last_look.notes), soft_wrap=True)
    line = f"report: {folder / REPORT}" if page.is_current(run) else f"looks: {folder}"
    console.print(visible(line), soft_wrap=True, markup=False)


def _with_task(run: Run) -> Trajectory:
    # A report of the folder shows the same figure.
    return replace(run.trajectory(), task=run.state.task or task_figure(run.folder.output_dir))


class ReportPage:
    """The page ``report.html`` in the run folder, written again after looks so that it can be watched.

    Drawing takes half a second. Where looks follow so closely that this would be more than a
    two-hundredth of the time, a page is left out; the last one, at the end of the run, makes up for
    it.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self._written = 0.0
        self._shown: Comparison | None = None

    def is_current(self, run: Run) -> bool:
        """Does the page show the latest look?"""
        return run.comparisons[max(run.comparisons)] is self._shown

    def take(self, look: Look) -> None:
        """Write the page of a look's run, in the main process."""
        if rank() == 0:
            self.write(look.run)

    def write(self, run: Run, *, at_once: bool = False) -> None:
        """Write the page, unless current, too soon or without folder."""
        started = time.perf_counter()
        too_soon = self._seconds > _PAGE_SHARE * (started - self._written)
        # A step that was saved again with other weights has another look.
        if self.is_current(run) or not run.folder.is_started or (too_soon and not at_once):
            return
        path = run.folder.path
        write_text(
            path / REPORT,
            run_page(_with_task(run), probe=run.probe, title=run_name(path), folder=path),
        )
        self._shown, self._written = run.comparisons[max(run.comparisons)], time.perf_counter()
        self._seconds = self._written - started


@dataclass(frozen=True)
class Command:
    """A command line with ``{step}``, ``{checkpoint}`` and ``{folder}`` as fields."""

    template: str
    _failed: set[int] = field(init=False, repr=False, compare=False, default_factory=set)
    """Exit statuses of the failures that were logged."""

    @property
    def needs_checkpoint(self) -> bool:
        """Does the command name the checkpoint, which must be saved?"""
        # Without the closing brace, since a field may have a conversion or a format.
        return "{checkpoint" in self.template

    def start(self, *, step: int, output_dir: Path, folder: Path) -> None:
        """Start the command without a shell, in a new session.

        It outlives the run.
        """
        values = {"step": step, "checkpoint": checkpoint_folder(output_dir, step), "folder": folder}
        # Split before the fields are filled in: a path with a space stays one word.
        words = [word.format(**values) for word in shlex.split(self.template)]
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, start_new_session=True, env=_own_environment()
        )
        # Reaps it, if it ends before the run.
        threading.Thread(
            target=lambda: self._log_failure(process.wait(), step), daemon=True
        ).start()

    def _log_failure(self, status: int, step: int) -> None:
        # Once for each status.
        with _LOCK:  # commands of several steps may end at once
            is_new = status not in self._failed
            self._failed.add(status)
        if status and is_new:
            how = f"exit status {status}" if status > 0 else f"signal {-status}"
            log(
                f"on_look={self.template!r} failed at step {step} with {how}; the run "
                "continues, and later failures with it are not logged"
            )


def _own_environment() -> dict[str, str]:
    # Without the variables that would make the command a process of this distributed run.
    names = (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "ROLE_RANK",
        "ROLE_WORLD_SIZE",
    )
    prefixes = ("MASTER_", "TORCHELASTIC_", "ACCELERATE_")
    return {
        name: value
        for name, value in os.environ.items()
        if name not in names and not name.startswith(prefixes)
    }


def checked_command(template: str | None) -> Command | None:
    """Check a template of a command.

    Returns:
        The command, or None for None.

    Raises:
        WatchError: If it is no command line, or has other fields.
    """
    if template is None:
        return None
    try:
        words = shlex.split(template)
        fields = {
            name
            for word in words
            for _, name, _, _ in string.Formatter().parse(word)
            if name is not None
        }
    except ValueError as error:
        raise WatchError(f"on_look={template!r}: cannot be read as a command ({error})") from error
    if not words or fields - _FIELDS:
        raise WatchError(
            f"on_look={template!r}: needed a command whose fields are among {{step}}, "
            f"{{checkpoint}}, {{folder}}"
        )
    return Command(template)
