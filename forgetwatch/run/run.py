"""A run: its probe, baseline, looks, plan and findings, in memory and in its folder.

    open, or resume     claims the output_dir and gives the run an id; or restores it from its files
    due                 whether a step has a look that was not taken yet
    add                 compares a snapshot with the baseline, and stores both: a `Look`
    close               stores what could not be stored, and lets another training have the output_dir

No model: `Watch` measures, and a run adds. All comparisons are over one `Subset` of the probe,
which is decided before the baseline. Only the rows of the baseline and of the latest look stay in
memory. Every process of a training calls a run at the same steps, and all get the same answers; the
main process alone writes.

A look that cannot be written, such as on a full disk, stays in memory (`pending`) until the next
one, or `store`, finds room. That is said once.

**Lineage.** The lineage of the model that a training begins with, found by its folder, or by name.

    in memory         a run of this process trained the model, or the base under its adapters
    by its folder     a checkpoint has a copy of its run, or the run folder is beside or above the model's
    by name           ``lineage="runs/sft"``: for a model that was copied, cast or quantised

A lineage that is found by itself and does not fit, or whose last look has other answers, is left
out, with one line. One that is named and does not fit is an error.
"""

from __future__ import annotations

import hashlib
import math
import operator
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, SupportsIndex

import numpy as np
from numpy.typing import NDArray
from torch import nn

from forgetwatch.comparing.checks import has_graded_answers, rules_of
from forgetwatch.comparing.comparison import Comparison, compare, vanished_note
from forgetwatch.comparing.kept_share import KeptOf, kept, kept_of
from forgetwatch.comparing.subset import Subset
from forgetwatch.comparing.trajectory import (
    Trajectory,
    after_earlier_stages,
    against_first_base,
    right_answers,
)
from forgetwatch.errors import ForgetwatchError, MismatchError, SnapshotError, WatchError
from forgetwatch.files.writing import write_problem
from forgetwatch.grading.grader import RULES
from forgetwatch.measures.flip_counts import VANISHED_SHARE_NOTED
from forgetwatch.measures.pairing import rows_of_baseline
from forgetwatch.probe import Probe
from forgetwatch.progress import log
from forgetwatch.run.drift import RunDrift
from forgetwatch.run.schedule import Budget, Decision, stored_decision
from forgetwatch.run_folder.description import (
    LAST_STEP,
    PROBE,
    RUN_FOLDER,
    Ending,
    GuardFinding,
    State,
    checkpoint_folder,
    files_digest,
)
from forgetwatch.run_folder.folder import Resumed, RunFolder
from forgetwatch.run_folder.lineage import NAMED, Lineage, check_one_model, folder_of, lineage_after
from forgetwatch.run_folder.task_figure import TaskFigure
from forgetwatch.scoring.encoding import tokenizer_settings, tokenizer_state
from forgetwatch.scoring.model import base_model, without_wrappers
from forgetwatch.scoring.processes import on_main_process, rank
from forgetwatch.scoring.scorer import versions
from forgetwatch.scoring.weights_identity import model_fingerprint
from forgetwatch.snapshot import Snapshot, read_snapshot
from forgetwatch.text import one_line

STAGE: Final = "stage"
"""Name in keys of the comparison with the start of this stage, in a run of a later stage."""

_UNLIKE: Final = 0.15
"""Share of the answers that change, from which two measurements are not of one model: casting changes far fewer."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """A look of a run.

    Attributes:
        run: The run.
        step: Optimizer steps taken.
        comparison: Baseline against this look.
        seconds: Seconds of measuring it.
        unstored: The reason why it could not be written; None if it was.
    """

    run: Run
    step: int
    comparison: Comparison
    seconds: float
    unstored: OSError | None = None


class Run:
    """The state of a training under watch, and what ``run.json`` holds of it.

    Attributes:
        probe: The items.
        folder: The run folder, ``output_dir/_forgetwatch``.
        drift: Measures the drift from the base.
        baseline: The snapshot that everything is compared with; None before the first look.
        null: The baseline's weights measured again, in other batches; None if they were not.
        subset: Items that all looks of the run evaluate.
        decision: Decision on the items that looks evaluate; None before it is made.
        budget: The looks of a training; None where each step that is asked for has one.
        comparisons: Baseline against each look so far, by step.
        seconds: Seconds of each look of this process, by step.
        planned: Looks planned after the baseline; None if unknown. Alarms are corrected for it.
        lineage: The watched trainings before this run; None for a first one.
        firsts: Base of the first of them against each look so far, by step; empty without one.
        findings: What the guard has found, in the order in which it was.
        stopped: Step at which the guard stopped the run; None if it did not.
        saved: Digest of the files of each checkpoint that the trainer saved, by step; None without
            a trainer.
        model_facts: Architecture, tokenizer and template of the model; empty if unknown.
        training: Settings of the training: its trainer, rate, adapter and `RetentionLoss`; empty if
            unknown.
        task: Figure of the new task in the trainer's log so far; None if it has none.
        ending: How far the training came; running until it ends.
        started_with: Fingerprint of the model at the start of the run; None if unknown.
        notes: Sentences on files that a resume did not find or did not use.

    Args:
        probe: The probe.
        output_dir: Folder of the run's files; the run folder is made in it.
        folder: Name of the run folder in it.
        drift: Measures the drift; None for none.
        by_trainer: True if a trainer's callback keeps the list of what is saved.
    """

    def __init__(
        self,
        probe: Probe,
        output_dir: str | Path,
        *,
        folder: str = RUN_FOLDER,
        drift: RunDrift | None = None,
        by_trainer: bool = False,
    ) -> None:
        self.probe = probe
        self.folder = RunFolder(output_dir, name=folder)
        self.drift = drift or RunDrift(wanted=False)
        self.baseline: Snapshot | None = None
        self.null: Snapshot | None = None
        self.subset = Subset()
        self.decision: Decision | None = None
        self.budget: Budget | None = None
        self.comparisons: dict[int, Comparison] = {}
        self.seconds: dict[int, float] = {}
        self.planned: int | None = None
        self.lineage: Lineage | None = None
        self.firsts: dict[int, Comparison] = {}
        self.findings: tuple[GuardFinding, ...] = ()
        self.stopped: int | None = None
        self.saved: dict[int, str] | None = {} if by_trainer else None
        self.model_facts: Mapping[str, Any] = {}
        self.training: Mapping[str, Any] = {}
        self.task: TaskFigure | None = None
        self.ending = Ending()
        self.started_with: str | None = None
        self.notes: tuple[str, ...] = ()
        self._first: Snapshot | None = None
        self._snapshots: dict[int, Snapshot] = {}  # rows of the latest look
        self._described: dict[int, dict[str, Any]] = {}
        self._right: dict[int, NDArray[np.float64]] = {}
        self._started = False
        self._is_cleared = False  # the folder of an earlier run is set aside, or there was none
        self._unstored: dict[int, Snapshot] = {}
        self._told_full = False
        self._vanished_noted = 0.0  # share of vanished answers that was logged last

    def open(self) -> None:
        """Claim the output_dir and give the run an id.

        Before the first look; nothing happens if the run has an id.

        Raises:
            WatchError: If another process has it, and does not end.
        """

        def begin() -> str:
            self.folder.claim(on_wait=log)
            return self.folder.new_run()

        if self.folder.run is None:
            self.folder.run = on_main_process(begin)

    def abandon(self) -> None:
        """Release the output_dir of a run whose baseline failed."""
        self.folder.release()  # a run without a baseline has nothing to keep apart
        self.folder.run = None

    def close(self) -> None:
        """Store what is left if possible, and release the output_dir."""
        try:
            if self.pending:
                self.store()
        finally:
            on_main_process(self.folder.release)

    def due(self, step: int, *, at_save: bool = False, at_epoch: bool = False) -> bool:
        """Is a look due after so many steps, and not taken?

        Steps that are saved, or end an epoch, may have looks.

        A trainer that resumes after the end of its training takes one more step, which has no look.
        """
        plan = None if self.budget is None else self.budget.schedule
        is_planned = plan is None or (
            step <= plan.max_steps and plan.has_look(step, at_save=at_save, at_epoch=at_epoch)
        )
        return is_planned and step not in self.comparisons

    def add(
        self, snapshot: Snapshot, *, step: int, null: Snapshot | None = None, seconds: float = 0.0
    ) -> Look:
        """Add a look: compare it with the baseline, and store it.

        The first look is the baseline.

        Args:
            snapshot: Its rows, over the items that the looks evaluate.
            step: Optimizer steps taken.
            null: The baseline's weights measured again; None if they were not, or for a later look.
            seconds: Seconds of measuring it.
        """
        is_baseline = self.baseline is None
        snapshot = self.folder.stamped(snapshot, "baseline" if is_baseline else "step")
        if is_baseline:
            self.baseline, self.null = (
                snapshot,
                None if null is None else self.folder.stamped(null, "null"),
            )
        comparison = self._compare(snapshot, step=step)
        if not is_baseline:  # the baseline has a file of its own, which is written with the folder
            self._unstored[step] = snapshot
        self.seconds[step] = seconds
        if comparison.all.vanished_share > self._vanished_noted + VANISHED_SHARE_NOTED:
            self._vanished_noted = comparison.all.vanished_share
            _log(
                f"step {step}: {vanished_note(comparison.all)}; a later look says so again if "
                "there are more"
            )
        # Last: if the file cannot be written, the comparison, its rows and its cost are kept.
        failure = self.store()
        unstored = failure if step in self.pending else None
        return Look(run=self, step=step, comparison=comparison, seconds=seconds, unstored=unstored)

    @property
    def pending(self) -> tuple[int, ...]:
        """Steps of the looks that could not be written yet, rising."""
        steps = list(self._unstored)
        if (
            not self._started
            and self.baseline is not None
            and (start_step := self.baseline.meta["step"]) >= 0
        ):
            steps.append(start_step)
        return tuple(sorted(steps))

    def note(self, findings: Iterable[GuardFinding]) -> list[GuardFinding]:
        """Add findings of the guard.

        Returns:
            The findings that were not reported before.
        """
        reported = {(finding.what, finding.name) for finding in self.findings}
        new = [finding for finding in findings if (finding.what, finding.name) not in reported]
        if new:
            self.findings = (*self.findings, *new)
            self.store()
        return new

    def note_failed(self, step: int, cause: str) -> None:
        """Note a look that failed.

        The looks before no longer show the model.
        """
        failed = dict(self.ending.failed) | {step: cause}
        self.ending = replace(self.ending, failed=tuple(sorted(failed.items())))
        self.store()

    def note_end(self, *, last_step: int, delivered: int | None, is_stopped: bool) -> None:
        """Note how a training ended.

        Args:
            last_step: The last optimizer step.
            delivered: Step of the weights.
            is_stopped: True if the guard stopped it.
        """
        state: State = "stopped" if is_stopped else "ended"
        self.ending = replace(self.ending, state=state, last_step=last_step, delivered=delivered)
        if delivered in self.comparisons and delivered not in self._snapshots:
            rows = self._unstored.get(delivered) or on_main_process(
                lambda: self._stored_rows(delivered)
            )
            self._snapshots = {} if rows is None else {delivered: rows}
        self.store()

    def note_model(self, facts: Mapping[str, Any], fingerprint: str | None) -> None:
        """Note what is known of the model that the run begins with."""
        self.model_facts, self.started_with = facts, fingerprint

    def note_task(self, task: TaskFigure | None) -> None:
        """Note the figure of the new task, for the next `store`."""
        self.task = self.task if task is None else task

    def follow(self, budget: Budget) -> None:
        """Take the looks of a training."""
        self.budget = budget
        self.ending = replace(
            self.ending, state="running", delivered=None, max_steps=budget.schedule.max_steps
        )
        self.plan(len(self.comparisons) - 1 + budget.schedule.looks_after(max(self.comparisons)))

    def plan(self, looks: int) -> None:
        """Set the number of looks for which alarms are corrected.

        After the baseline, taken or still to come.
        """
        self.planned = max(1, looks)
        self.store()

    def decide(self, decision: Decision) -> None:
        """Set items and looks.

        The items at the latest before the first look after the baseline.
        """
        before = self.subset
        self._use(decision)
        if self.baseline is not None and self.subset != before:
            if len(self.comparisons) > 1:
                raise WatchError(
                    "the items of a run are decided before its first look after the baseline"
                )
            start = min(self.comparisons)
            self.comparisons.clear()
            self.firsts.clear()
            self._right.clear()
            self._compare(self.baseline, step=start)
        self.store()

    def resume(
        self,
        *,
        run: str | None = None,
        step: SupportsIndex | None = None,
        carried: Sequence[Path] = (),
        baseline: Snapshot | None = None,
        decision: Decision | None = None,
        completions: str | None = None,
        findings: Iterable[GuardFinding] | None = None,
        token_budget: int | None = None,
    ) -> None:
        """Resume the run in the run folder.

        Args:
            run: Id of the run; None for that of the run in the folder.
            step: The step from which the run resumes; later looks are deleted. None keeps all.
            carried: Folders in which checkpoints carry copies of it.
            baseline: The run's baseline from elsewhere, if the folder and the copies are lost.
            decision: Decision on the items that the run's looks evaluate; None for the one in the
                folder, or for what the stored looks have in common.
            completions: Checksum of the base's completions that the checkpoint names; None for that
                in the folder.
            findings: Those of the guard that the checkpoint names; None for those in the folder.
            token_budget: Tokens of a batch in which the completions are read.

        Raises:
            LostBaselineError: If there is no such baseline.
            WatchError: If it was made with another probe, or `step` is no whole number in its
                range.
        """
        until = None if step is None else checked_step(step)

        def restore() -> Resumed:
            self.folder.claim(on_wait=log)
            return self.folder.resume(
                run=run,
                step=until,
                carried=carried,
                baseline=baseline,
                probe=self.probe,
                check=lambda snapshot: self.check_probe(snapshot.meta),
                log=log,
            )

        # Before and after: restoring may move the run folder, and the completions with it.
        self.drift.resume(
            [self.folder.path, *carried], checksum=completions, token_budget=token_budget
        )
        resumed = on_main_process(restore)
        completions = completions or resumed.described.completions
        self.drift.resume(
            [self.folder.path, *carried], checksum=completions, token_budget=token_budget
        )
        self.folder.run = resumed.run
        self.notes = resumed.notes
        start, looks = resumed.baseline, resumed.contents.looks
        self._follow_order(start)
        # Also where the checkpoint is of before the decision: trackers have its rows already.
        decision = decision or Decision.of(resumed.described.values)
        # A reader, or a kill before the next look, must find the plan and the findings.
        self.planned = resumed.described.planned
        last_step = max((int(start.meta["step"]), *looks)) if until is None else until
        stored = resumed.described.findings if findings is None else findings
        self.findings = tuple(finding for finding in stored if finding.step <= last_step)
        self._started = True
        self.check_probe(start.meta)
        if (
            decision is None
            and (items := Subset.common([start, *looks.values()]).items) is not None
        ):
            decision = Decision(items=items)
        if has_graded_answers(start) and rules_of(start) != RULES:
            raise WatchError(
                f"the run's generated answers were graded by version {rules_of(start)} of the "
                "grading rules, and this "
                f"forgetwatch has version {RULES}: resume with the version that began the run"
            )
        self.drift.log_if_lost(completions)
        self.baseline, self.null = start, resumed.null
        self.lineage = resumed.lineage
        self._first = None if resumed.lineage is None else resumed.lineage.first
        self.model_facts, self.started_with = resumed.model, resumed.started_with
        if self.saved is not None:
            listed = resumed.described.values.get("saved") or {}
            self.saved |= {
                int(at): str(digest) for at, digest in listed.items() if int(at) <= last_step
            }
        stored_ending = resumed.described.ending or Ending()
        self.ending = replace(
            stored_ending,
            state="running",
            delivered=None,
            failed=tuple(failed for failed in stored_ending.failed if failed[0] <= last_step),
        )
        if (figure := resumed.described.task) is not None:
            self.task = replace(
                figure,
                values=tuple(value for value in figure.values if value[0] <= last_step),
                broken=None,
            )
        self._use(decision)
        self._compare(start, step=int(start.meta["step"]))
        for look, snapshot in sorted(looks.items()):
            self._compare(snapshot, step=look)
        self.store()

    def in_order(self, baseline: Snapshot) -> Snapshot:
        """Put a baseline's rows into the order of the probe.

        Looks evaluate the first items.
        """
        position = {(item.task, item.id): number for number, item in enumerate(self.probe)}
        order = np.argsort(
            [position.get(key, len(position)) for key in baseline.item_keys], kind="stable"
        )
        return replace(baseline, table=baseline.table.take(order))

    def _follow_order(self, start: Snapshot) -> None:
        # The callback may have changed the order.
        position = {key: number for number, key in enumerate(dict.fromkeys(start.item_keys))}
        items = tuple(
            sorted(self.probe, key=lambda item: position.get((item.task, item.id), len(position)))
        )
        self.probe = self.probe if items == self.probe.items else self.probe.with_items(items)

    def check_probe(self, meta: Mapping[str, Any]) -> None:
        """Refuse a baseline of another probe or norm, by metadata.

        Raises:
            WatchError: If its fingerprint is another one.
        """
        made_with = meta.get("probe") or {}
        if made_with.get("fingerprint", "") not in (None, self.probe.fingerprint):
            raise WatchError(
                f"the run's baseline was made with probe {made_with.get('name')!r} "
                f"(fingerprint {str(made_with.get('fingerprint'))[:12]}), and this is probe "
                f"{self.probe.name!r} "
                f"({self.probe.fingerprint[:12]}); resume with the probe in "
                f"{self.folder.path / PROBE}"
            )

    def adopt(self, baseline: Snapshot, null: Snapshot | None = None) -> None:
        """Compare with a snapshot from elsewhere, not the first look.

        Raises:
            WatchError: If it is of another probe, a look was taken already, or another process
                trains in the folder.
        """
        if self.baseline is not None:
            raise WatchError(
                "the run has a baseline already; adopt one from elsewhere before the first look"
            )
        self.open()
        self.check_probe(baseline.meta)

        def adopted(rows: Snapshot, kind: Literal["baseline", "null"]) -> Snapshot:
            # A step that no look of this run has.
            return self.folder.stamped(replace(rows, meta={**rows.meta, "step": -1}), kind)

        self.baseline = adopted(self.in_order(baseline), "baseline")
        self.null = null and adopted(null, "null")
        self._compare(self.baseline, step=-1)

    def descend(self, lineage: Lineage) -> None:
        """Count against the base of earlier trainings too.

        From the first look on.

        Raises:
            WatchError: If a look was taken already.
            MismatchError: If no question of the probe was measured on that base, or it was scored
                by other settings.
        """
        if self.baseline is not None:
            raise WatchError(
                "the run has a baseline already; name its lineage before the first look"
            )
        if lineage.first is not None:
            hashes = set(lineage.first.texts("content_hash"))
            if not any(item.content_hash in hashes for item in self.probe):
                raise MismatchError(
                    "the first base was measured on other questions than those of "
                    f"{self.probe.name}"
                )
            made_with = lineage.first.meta.get("probe") or {}
            for name in ("scoring", "rendering", "norm"):
                setting = getattr(self.probe, name)
                if made_with.get(name, setting) != setting:
                    raise MismatchError(
                        f"the first base was measured with {name} {made_with[name]!r}, this is "
                        f"{setting!r}"
                    )
            decoding = self.probe.settings.get("decoding")
            if decoding is not None and made_with.get("decoding", decoding) != decoding:
                raise MismatchError(
                    "the answers of the first base were generated by other settings (decoding)"
                )
        self.lineage, self._first = lineage, lineage.first

    def leave_unlike_lineage(self) -> bool:
        """Leave a lineage whose end is not this baseline.

        A model that was made anew from the configuration of a checkpoint has its name, and answers
        otherwise.

        Returns:
            True if the lineage was left.
        """
        if (
            self.lineage is None
            or self.lineage.how == NAMED
            or self.lineage.end is None
            or self.baseline is None
        ):
            return False
        end = rows_of_baseline(self.lineage.end, self.baseline)
        start = rows_of_baseline(self.baseline, end)
        right, chosen = (
            [snapshot.floats("correct") for snapshot in (end, start)],
            [snapshot.ints("chosen") for snapshot in (end, start)],
        )
        # By the option that was chosen: of weak models many answers are wrong in both.
        differs = np.where(
            (chosen[0] >= 0) & (chosen[1] >= 0), chosen[0] != chosen[1], right[0] != right[1]
        )
        both_scored = np.isfinite(right[0]) & np.isfinite(right[1])
        if not both_scored.any() or differs[both_scored].mean() <= _UNLIKE:
            return False
        self.leave_first()
        self.lineage = None
        self.store()
        return True

    def carry(self, step: int, *, completions: bool) -> None:
        """Copy the history into a checkpoint that this run saved.

        And perhaps the base's completions.
        """
        files = (self.saved or {}).get(step)
        if files is not None and files == files_digest(
            checkpoint_folder(self.folder.output_dir, step)
        ):
            self.folder.carry(step, files=files, completions=completions)

    def note_saved(self, step: int) -> None:
        """Note that this run has just saved a checkpoint, by files."""
        folder = checkpoint_folder(self.folder.output_dir, step)
        if self.saved is not None and (digest := on_main_process(lambda: files_digest(folder))):
            self.saved[step] = digest
            self.store()

    def store(self) -> OSError | None:  # noqa: C901
        """Write what is not stored yet, in the main process.

        That is said once; what is left stays in memory, and the next call tries it again.

        Returns:
            Why something cannot be written, or None.

        Raises:
            WatchError: If another training has begun in the folder.
        """

        def write() -> tuple[bool, list[int], OSError | None]:
            left, failure, started = list(self._unstored), None, self._started
            if self.baseline is None:
                return started, left, failure
            if started:
                self.folder.check_own()
            elif not self._is_cleared and (aside := self.folder.set_aside()):
                log(f"the folder of an earlier run is now {aside}")
            self._is_cleared = True  # a folder that is there later is the beginning of this run's
            try:
                if started and not self.folder.is_started:
                    log(
                        f"{self.folder.path} has disappeared; it is made again, without the "
                        "earlier looks"
                    )
                if not (started and self.folder.is_started):
                    self.folder.start(self.probe, self.baseline, self.null, self._first)
                started = True
                self.drift.save(self.folder.path)
                for step, look in self._unstored.items():
                    try:
                        self.folder.add(look, step=step)
                        left.remove(step)
                    except OSError as error:  # the others may have room
                        failure = failure or error
                # run.json comes last, and names only files that exist.
                self.folder.describe(
                    {**self._description(without=left), "completions": self.drift.checksum}
                )
            except OSError as error:
                failure = failure or error
            # A plain one: it is sent to the other processes, and not every error can be.
            return (
                started,
                left,
                failure
                and OSError(failure.errno, failure.strerror or str(failure), failure.filename),
            )

        # Sent to all: later calls between processes depend on it, and all must make the same ones.
        self._started, left, failure = on_main_process(write)
        self._unstored = {step: self._unstored[step] for step in left}
        if failure is not None and not self._told_full:
            at = f"step {', '.join(map(str, self.pending))}: scored, and " if self.pending else ""
            _log(
                f"{at}not stored: {write_problem(failure, self.folder.path)}; it is stored when "
                "there is room"
            )
        elif failure is None and self._told_full:
            _log(f"{self.folder.path}: what was not stored is stored now")
        self._told_full = failure is not None
        return failure

    def forget_after(self, step: SupportsIndex) -> None:
        """Drop the looks later than `step`, which are taken again.

        Args:
            step: A step from that of the baseline on; -1 for a baseline from elsewhere.

        Raises:
            WatchError: If the baseline is later.
        """
        until = checked_step(step, lowest=-1)
        if self.comparisons and until < (start_step := min(self.comparisons)):
            raise WatchError(
                f"forget_after: needed step {start_step}, that of the baseline, or a later one, "
                "got "
                f"{until}"
            )
        self._drop_after(until)
        self.seconds = {look: took for look, took in self.seconds.items() if look <= until}
        self._unstored = {look: rows for look, rows in self._unstored.items() if look <= until}
        last_step = max(self.comparisons, default=-1)
        # A report lists the flips of the look that is now the last.
        if last_step in self._unstored:
            self._snapshots[last_step] = self._unstored[last_step]
        if self._started:
            self._snapshots |= on_main_process(lambda: self._reopen(until, last_step=last_step))
            self.store()

    def _reopen(self, step: int, *, last_step: int) -> dict[int, Snapshot]:
        # The rows of the last look left, unless in memory.
        self.folder.check_own()
        self.folder.drop_after(step)
        rows = None if last_step in self._snapshots else self._stored_rows(last_step)
        return {} if rows is None else {last_step: rows}

    def _stored_rows(self, step: int) -> Snapshot | None:
        path = self.folder.looks().get(step)
        try:
            return None if path is None else read_snapshot(path)
        except SnapshotError:
            return None

    @property
    def items(self) -> int | None:
        """Number of items that the looks evaluate, a prefix.

        Returns:
            The number, or None for all.
        """
        return self.subset.items

    @property
    def generates(self) -> bool:
        """Do the looks evaluate generated answers besides `must_pass`?"""
        return self.decision is None or self.decision.generates

    def _compare(self, snapshot: Snapshot, *, step: int) -> Comparison:
        # A first base, if there is one, is compared too.
        if self.baseline is None:
            raise WatchError(
                "a look needs a baseline to be compared with; the first look of a run is its "
                "baseline"
            )
        subset = self.subset
        baseline = subset.apply(self.baseline)
        look = baseline if snapshot is self.baseline else subset.apply(snapshot)
        comparison = compare(
            before=baseline, after=look, null=None if self.null is None else subset.apply(self.null)
        )
        if self._first is not None and self.lineage is not None:
            of_baseline = rows_of_baseline(self._first, baseline)
            if len(of_baseline):
                self.firsts[step] = against_first_base(
                    of_baseline, look, stage_comparison=comparison
                )
            else:
                _log(
                    "the first base was measured on none of these questions: counting against "
                    "this stage alone"
                )
                self.leave_first()
        self.comparisons[step] = comparison
        # Only the rows of the latest look are needed, for the report.
        if step == max(self.comparisons):
            self._snapshots = {step: snapshot}
        self._right[step] = right_answers(baseline, look)
        if snapshot is not self.baseline:
            self._described[step] = {"step": step, "seconds": snapshot.meta.get("seconds")}
        return comparison

    def leave_first(self) -> None:
        """Count against the start of this stage alone from here on.

        The earlier trainings stay noted.
        """
        self._first, self.firsts = None, {}
        self.lineage = (
            None if self.lineage is None else replace(self.lineage, first=None, checksum=None)
        )

    def _drop_after(self, step: int) -> None:
        self.findings = tuple(finding for finding in self.findings if finding.step <= step)
        self.ending = replace(
            self.ending, failed=tuple(failed for failed in self.ending.failed if failed[0] <= step)
        )
        kept: tuple[dict[int, Any], ...] = (
            self.comparisons,
            self.firsts,
            self._described,
            self._right,
        )
        for looks in (*kept, self._snapshots, self.saved or {}):
            for later in [look for look in looks if look > step]:
                del looks[later]

    def latest(self) -> Snapshot | None:
        """Rows of the look that decides, over common items.

        Returns:
            The rows, or None before the first look.
        """
        snapshot = self._snapshots.get(max(self._snapshots, default=0))
        return None if snapshot is None else self.subset.apply(snapshot)

    @property
    def headline(self) -> dict[int, Comparison]:
        """Comparisons that trackers and tables show first.

        With the first base, else with the start of the run.
        """
        return self.firsts or self.comparisons

    @property
    def kept_of(self) -> KeptOf:
        """What the kept share of each look is a share of.

        What the first comparison measures.
        """
        looks = self.headline
        return kept_of([looks[min(looks)].all])

    def kept(self, step: int) -> float:
        """Share of what the base knew that a look keeps; nan if none."""
        return (
            kept(self.headline[step].all, self.kept_of).share if step in self.headline else math.nan
        )

    def trajectory(self) -> Trajectory:
        """All looks so far, in order, against the first base.

        Raises:
            WatchError: If there is none yet.
        """
        stage = self.stage_trajectory()
        if self._first is None or self.lineage is None:
            return stage
        first_base = rows_of_baseline(self._first, stage.baseline)
        comparisons = [self.firsts[step] for step in stage.steps]
        return after_earlier_stages(stage, first_base, comparisons, number=self.lineage.stage)

    def stage_trajectory(self) -> Trajectory:
        """All looks so far, in order, against the start of this run.

        Raises:
            WatchError: If there is none yet.
        """
        if self.baseline is None:
            raise WatchError("there is no look yet; call look() first")
        steps = tuple(sorted(self.comparisons))
        right = np.stack([self._right[step] for step in steps])
        comparisons = tuple(self.comparisons[step] for step in steps)
        baseline, latest = self.subset.apply(self.baseline), self.latest()
        last_snapshot = baseline if latest is None else latest
        findings, ending = self.findings, self.ending
        return Trajectory(
            steps,
            comparisons,
            right,
            baseline,
            last_snapshot,
            self.planned,
            findings=findings,
            ending=ending,
        )

    @property
    def continued(self) -> str | None:
        """Kind of the adapter that an earlier training left.

        As `adapter_start` takes the kind.
        """
        return None if self.lineage is None else self.lineage.adapter

    def retained_before(self) -> int:
        """Number of right answers of the baseline."""
        return int((self._right[min(self._right)] == 1.0).sum()) if self._right else 0

    def lost_must_pass(self, step: SupportsIndex) -> list[str]:
        """Ids of the `must_pass` items lost at `step`."""
        if self.baseline is None:
            return []
        look = checked_step(step, lowest=-1)  # that of a baseline from elsewhere
        must = {(item.task, item.id) for item in self.probe if item.must_pass}
        baseline = self.subset.apply(self.baseline)
        before, after = (self._right[look_step] for look_step in (min(self._right), look))
        lost = (
            name
            for (task, name), was, now in zip(baseline.item_keys, before, after, strict=False)
            if was == 1.0 and now == 0.0 and (task, name) in must
        )
        # An item with several samples is named once.
        return list(dict.fromkeys(lost))

    def _description(self, *, without: Collection[int] = ()) -> dict[str, Any]:
        # Empty before the baseline. Looks that have no file are left out.
        if self.baseline is None:
            return {}
        return {
            "probe": self.baseline.meta["probe"],
            **stored_decision(self.decision),
            "null": self.null is not None,
            "looks": [
                self._described[step] for step in sorted(self._described) if step not in without
            ],
            "planned_looks": self.planned,
            "lineage": None if self.lineage is None else self.lineage.values,
            "model": dict(self.model_facts),
            "training": dict(self.training),
            "task": None if self.task is None else self.task.stored,
            **replace(self.ending, last_step=max(self.ending.last_step, *self.comparisons)).stored,
            "started_with": self.started_with,
            **(
                {}
                if self.saved is None
                else {"saved": {str(step): digest for step, digest in sorted(self.saved.items())}}
            ),
            "guard": [vars(finding) for finding in self.findings],
            "versions": versions(),
        }

    def _use(self, decision: Decision | None) -> None:
        # All items before there is a decision.
        decided = decision or Decision()
        self.subset = Subset.from_probe(
            self.probe, items=decided.items, generates=decided.generates
        )
        self.decision = decision


def _log(line: str) -> None:
    if rank() == 0:
        log(line)


def checked_step(step: SupportsIndex, *, lowest: int = 0) -> int:
    """Check that a step is a whole number.

    Returns:
        The step as int.

    Raises:
        WatchError: For any other value.
    """
    try:
        number = None if isinstance(step, bool) else operator.index(step)
    except TypeError:
        number = None
    if number is None or not lowest <= number <= LAST_STEP:
        raise WatchError(
            f"step={step!r}: needed a whole number of optimizer steps from {lowest} to {LAST_STEP}"
        )
    return number


LineageSetting = str | Path | Literal[False] | None

_TRAINED: Final[weakref.WeakKeyDictionary[nn.Module, Path]] = weakref.WeakKeyDictionary()
"""Run folder of each model in memory that a run of this process trained, and of the base under its adapters."""


def remember_trained(model: nn.Module, run: Run) -> None:
    """Let a later run of this process find the run by model."""
    _TRAINED[base_model(model)] = _TRAINED[without_wrappers(model)] = run.folder.path


def facts_of(model: nn.Module, tokenizer: Any) -> dict[str, Any]:
    """What two stages of one model have in common.

    And whether the model was loaded from a folder or by a name.
    """
    config: Any = getattr(without_wrappers(model), "config", None)
    name_or_path = str(getattr(config, "_name_or_path", "") or "")
    is_folder = bool(name_or_path) and Path(name_or_path).is_dir()
    settings, template = tokenizer_settings(tokenizer) or (str(tokenizer_state(tokenizer)), "")
    return {
        "architecture": str(getattr(config, "model_type", type(model).__name__)),
        "layers": getattr(config, "num_hidden_layers", None),
        "width": getattr(config, "hidden_size", None),
        "vocabulary": getattr(config, "vocab_size", None),
        "tokenizer": _digest(settings),
        "template": _digest(template),
        "loaded": "folder" if is_folder else "name" if name_or_path else "memory",
        "files": files_digest(Path(name_or_path)) if is_folder else None,
    }


def join_lineage(
    run: Run, model: nn.Module, tokenizer: Any, *, setting: LineageSetting, counts: bool = True
) -> str:
    """Let a run count against the base of earlier trainings.

    Every process calls this.

    Args:
        run: The run, before its first look.
        model: The model.
        tokenizer: Its tokenizer.
        setting: The folder of the earlier training, False for none, None to search for it.
        counts: False to note the earlier trainings alone, as with a baseline from elsewhere.

    Returns:
        A line on that, empty if there is none.

    Raises:
        WatchError: If the named folder has no run, or is of another model.
        MismatchError: If the named one was measured on other questions.
    """
    fingerprint = known_fingerprint(model)
    run.note_model(facts_of(model, tokenizer), fingerprint)
    lineage = on_main_process(lambda: found_lineage(model, setting, fingerprint))
    if lineage is None:
        return ""
    if not counts:
        run.descend(replace(lineage, first=None))
        return ""
    try:
        _check(lineage, run)
        run.descend(lineage)
    except (WatchError, MismatchError) as error:
        if setting is not None:
            raise
        return f"an earlier training of this model is not counted: {error}"
    names = one_line(" and ".join(ancestor.name for ancestor in lineage.runs))
    stage_text = f"stage {lineage.stage} of this model, after {names} (by {lineage.how})"
    if lineage.first is None:
        return f"{stage_text}; the baseline of the first base is lost: counting against the start of this stage alone"
    return (
        f"{stage_text}; baseline of the first base found: counting against both. eval/forget is "
        "against the first base; "
        "eval/forget_stage, the alarms and the guard are about this stage"
    )


def known_fingerprint(model: nn.Module) -> str | None:
    """Fingerprint of a model.

    Returns:
        The fingerprint, or None if the weights cannot be read. Every process calls this.
    """
    try:
        return model_fingerprint(model)
    except Exception:  # of any kind of tensor that cannot be read here: the folder alone decides
        return None


def found_lineage(
    model: nn.Module, setting: LineageSetting, fingerprint: str | None = None
) -> Lineage | None:
    """Find the earlier trainings of a model.

    Returns:
        Those that are named, else in memory, else by folder, or None.
    """
    if setting is False:
        return None
    if setting is not None:
        return _named(Path(setting))
    network = without_wrappers(model)
    config: Any = getattr(network, "config", None)
    name_or_path = str(getattr(config, "_name_or_path", "") or "")
    how, folder = "the model in memory", _TRAINED.get(network) or _TRAINED.get(base_model(model))
    try:
        if folder is None or not folder.is_dir():
            how, folder = (
                "the folder of the model",
                folder_of(Path(name_or_path))
                if name_or_path and Path(name_or_path).is_dir()
                else None,
            )
        lineage = (
            None if folder is None else lineage_after(folder, how=how, fingerprint=fingerprint)
        )
    except (
        ForgetwatchError,
        OSError,
        ValueError,
    ):  # a name that is no path, or a damaged copy: nothing is found
        return None
    # An adapter on a base that was trained is a new one.
    return lineage if lineage is None or network in _TRAINED else replace(lineage, adapter=None)


def _named(path: Path) -> Lineage | None:
    folder = folder_of(path)
    if folder is None:
        raise WatchError(
            f"lineage={str(path)!r}: needed the output_dir of an earlier training that was "
            "watched, its run folder, or "
            "one of its checkpoints; found no baseline there"
        )
    try:
        lineage = lineage_after(folder, how=NAMED)
    except SnapshotError as error:
        raise WatchError(f"lineage={str(path)!r}: {error}") from error
    return lineage


def _check(lineage: Lineage, run: Run) -> None:
    # The model of an earlier training must be able to have become the present one.
    uses_template = run.probe.rendering == "chat" or any(
        item.rendering == "chat" for item in run.probe
    )
    if problem := check_one_model(lineage.model, run.model_facts, with_template=uses_template):
        raise WatchError(
            f"{lineage.runs[-1].name} and this training: {problem}; name the right one "
            "(lineage=...), or turn it off "
            "(lineage=False)"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
