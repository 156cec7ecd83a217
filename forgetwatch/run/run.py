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
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, SupportsIndex

import numpy as np

from forgetwatch.comparing.checks import has_graded_answers, rules_of
from forgetwatch.comparing.comparison import Comparison, compare, vanished_note
from forgetwatch.comparing.kept_share import KeptOf, kept, kept_of
from forgetwatch.comparing.subset import Subset
from forgetwatch.comparing.trajectory import (
    Trajectory,
    after_earlier_stages,
    against_first_base,
)
from forgetwatch.errors import SnapshotError, WatchError
from forgetwatch.grading.grader import RULES
from forgetwatch.measures.flip_counts import VANISHED_SHARE_NOTED
from forgetwatch.measures.pairing import rows_of_baseline
from forgetwatch.probe import Probe
from forgetwatch.probes.open_rendering import as_measured
from forgetwatch.progress import log
from forgetwatch.run.compared_looks import ComparedLooks
from forgetwatch.run.run_drift import RunDrift
from forgetwatch.run.run_files import RunFiles
from forgetwatch.run.schedule import Budget
from forgetwatch.run.state import LookPlan, RunState
from forgetwatch.run_folder.description import (
    LAST_STEP,
    PROBE,
    RUN_FOLDER,
    Ending,
    GuardFinding,
    checkpoint_folder,
    files_digest,
)
from forgetwatch.run_folder.folder import Resumed, RunFolder
from forgetwatch.run_folder.lineage import Lineage
from forgetwatch.scoring.processes import on_main_process, rank
from forgetwatch.scoring.scorer import versions
from forgetwatch.snapshot import Snapshot, read_snapshot

STAGE: Final = "stage"
"""Name in keys of the comparison with the start of this stage, in a run of a later stage."""


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
    """A training under watch: its baseline and looks in memory, and its folder.

    Attributes:
        probe: The items.
        drift: Measures the drift from the base.
        baseline: The snapshot that everything is compared with; None before the first look.
        null: The baseline's weights measured again, in other batches; None if they were not.
        subset: Items that all looks of the run evaluate.
        state: What ``run.json`` holds: plan, lineage, findings, ending, and more.
        budget: The looks of a training; None where each step that is asked for has one.
        looks: The looks, compared with the baseline.
        files: Its files, and what could not be written yet.
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
        self.drift = drift or RunDrift(wanted=False)
        self.baseline: Snapshot | None = None
        self.null: Snapshot | None = None
        self.subset = Subset()
        self.state = RunState(saved={} if by_trainer else None)
        self.budget: Budget | None = None
        self.looks = ComparedLooks()
        self.files = RunFiles(RunFolder(output_dir, name=folder))
        self.notes: tuple[str, ...] = ()
        self._first: Snapshot | None = None
        self._vanished_noted = 0.0  # share of vanished answers that was logged last

    @property
    def folder(self) -> RunFolder:
        """The run folder, ``output_dir/_forgetwatch``."""
        return self.files.folder

    @property
    def comparisons(self) -> dict[int, Comparison]:
        """Baseline against each look so far, by step."""
        return self.looks.comparisons

    @property
    def pending(self) -> tuple[int, ...]:
        """Steps of the looks that could not be written yet, rising."""
        return self.files.pending(self.baseline)

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
        """Is a look due after a number of steps, and not taken?

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
        """Add a look: compare with the baseline, and store.

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
            self.files.unwritten[step] = snapshot
        self.looks.seconds[step] = seconds
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

    def note(self, findings: Iterable[GuardFinding]) -> list[GuardFinding]:
        """Add findings of the guard.

        Returns:
            The findings that were not reported before.
        """
        new = self.state.unreported(findings)
        if new:
            self.update(findings=(*self.state.findings, *new))
            self.store()
        return list(new)

    def note_failed(self, step: int, cause: str) -> None:
        """Note a look that failed.

        The looks before no longer show the model.
        """
        self.state = self.state.failed(step, cause)
        self.store()

    def note_end(self, *, last_step: int, delivered: int | None, is_stopped: bool) -> None:
        """Note how a training ended.

        Args:
            last_step: The last optimizer step.
            delivered: Step of the weights.
            is_stopped: True if the guard stopped it.
        """
        self.state = self.state.ended(
            last_step=last_step, delivered=delivered, is_stopped=is_stopped
        )
        if delivered in self.comparisons and delivered not in self.looks.rows:
            rows = self.files.unwritten.get(delivered) or on_main_process(
                lambda: self._stored_rows(delivered)
            )
            self.looks.rows = {} if rows is None else {delivered: rows}
        self.store()

    def update(self, **changes: Any) -> None:
        """Change attributes of the state, for the next `store`."""
        self.state = replace(self.state, **changes)

    def follow(self, budget: Budget) -> None:
        """Take the looks of a training."""
        self.budget = budget
        self.state = self.state.running(max_steps=budget.schedule.max_steps)
        self.plan(len(self.comparisons) - 1 + budget.schedule.looks_after(max(self.comparisons)))

    def plan(self, looks: int) -> None:
        """Set the number of looks for which alarms are corrected.

        After the baseline, taken or still to come.
        """
        self.update(planned=max(1, looks))
        self.store()

    def decide(self, plan: LookPlan) -> None:
        """Set items and looks.

        The items at the latest before the first look after the baseline.
        """
        before = self.subset
        self._use(plan)
        if self.baseline is not None and self.subset != before:
            if len(self.comparisons) > 1:
                raise WatchError(
                    "the items of a run are decided before its first look after the baseline"
                )
            start = min(self.comparisons)
            self.looks.clear()
            self._compare(self.baseline, step=start)
        self.store()

    def resume(
        self,
        *,
        run: str | None = None,
        step: SupportsIndex | None = None,
        carried: Sequence[Path] = (),
        baseline: Snapshot | None = None,
        plan: LookPlan | None = None,
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
            plan: Plan of the items that the run's looks evaluate; None for the one in the
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
        plan = plan or LookPlan.of(resumed.described.values)
        last_step = max((int(start.meta["step"]), *looks)) if until is None else until
        stored = resumed.described.findings if findings is None else tuple(findings)
        listed = resumed.described.values.get("saved") or {}
        saved = {int(at): str(digest) for at, digest in listed.items()}
        figure = resumed.described.task
        # A reader, or a kill before the next look, must find the plan and the findings.
        self.update(
            planned=resumed.described.planned,
            lineage=resumed.lineage,
            model=resumed.model,
            started_with=resumed.started_with,
            saved=None if self.state.saved is None else {**self.state.saved, **saved},
            findings=stored,
            task=None if figure is None else figure.until(last_step),
            ending=resumed.described.ending or Ending(),
        )
        self.state = self.state.until(last_step).running()
        self.files.are_started = True
        self.check_probe(start.meta)
        if plan is None and (items := Subset.common([start, *looks.values()]).items) is not None:
            plan = LookPlan(items=items)
        if has_graded_answers(start) and rules_of(start) != RULES:
            raise WatchError(
                f"the run's generated answers were graded by version {rules_of(start)} of the "
                "grading rules, and this "
                f"forgetwatch has version {RULES}: resume with the version that began the run"
            )
        self.drift.log_if_lost(completions)
        self.baseline, self.null = start, resumed.null
        self._first = None if resumed.lineage is None else resumed.lineage.first
        self._use(plan)
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
        self.probe = as_measured(self.probe, made_with.get("fingerprint"))
        if made_with.get("fingerprint", "") not in (None, self.probe.fingerprint):
            raise WatchError(
                f"the run's baseline was made with probe {made_with.get('name')!r} "
                f"(fingerprint {str(made_with.get('fingerprint'))[:12]}), and this is probe "
                f"{self.probe.name!r} ({self.probe.fingerprint[:12]}); resume with the probe in "
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

        It counts from the first look on.

        Raises:
            WatchError: If a look was taken already.
        """
        if self.baseline is not None:
            raise WatchError(
                "the run has a baseline already; name its lineage before the first look"
            )
        self.update(lineage=lineage)
        self._first = lineage.first

    def carry(self, step: int, *, completions: bool) -> None:
        """Copy the history into a checkpoint that this run saved.

        With `completions`, the base's completions are copied too.
        """
        files = (self.state.saved or {}).get(step)
        if files is not None and files == files_digest(
            checkpoint_folder(self.folder.output_dir, step)
        ):
            self.folder.carry(step, files=files, completions=completions)

    def note_saved(self, step: int) -> None:
        """Note that this run has just saved a checkpoint, by files."""
        folder = checkpoint_folder(self.folder.output_dir, step)
        saved = self.state.saved
        if saved is not None and (digest := on_main_process(lambda: files_digest(folder))):
            self.update(saved={**saved, step: digest})
            self.store()

    def store(self) -> OSError | None:
        """Write what is not stored yet; what has no room stays in memory.

        Returns:
            Why something cannot be written, or None.

        Raises:
            WatchError: If another training has begun in the folder.
        """
        if self.baseline is None:
            return None
        return self.files.write(
            self.probe,
            self.baseline,
            null=self.null,
            first=self._first,
            drift=self.drift,
            describe=self._description,
        )

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
                f"resume: needed step {start_step}, that of the baseline, or a later one, got "
                f"{until}"
            )
        self.state = self.state.until(until)
        self.looks.drop_after(until)
        unwritten = {look: rows for look, rows in self.files.unwritten.items() if look <= until}
        self.files.unwritten = unwritten
        last_step = max(self.comparisons, default=-1)
        # A report lists the flips of the look that is now the last.
        if last_step in unwritten:
            self.looks.rows[last_step] = unwritten[last_step]
        if self.files.are_started:
            self.looks.rows |= on_main_process(lambda: self._reopen(until, last_step=last_step))
            self.store()

    def _reopen(self, step: int, *, last_step: int) -> dict[int, Snapshot]:
        # The rows of the last look left, unless in memory.
        self.folder.check_own()
        self.folder.drop_after(step)
        rows = None if last_step in self.looks.rows else self._stored_rows(last_step)
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
        return self.state.plan is None or self.state.plan.generates

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
            before=baseline,
            after=look,
            repeat=None if self.null is None else subset.apply(self.null),
        )
        if self._first is not None and self.state.lineage is not None:
            of_baseline = rows_of_baseline(self._first, baseline)
            if len(of_baseline):
                self.looks.firsts[step] = against_first_base(
                    of_baseline, look, stage_comparison=comparison
                )
            else:
                _log(
                    "the first base was measured on none of these questions: counting against "
                    "this stage alone"
                )
                self.leave_first()
        self.looks.add(step, comparison, baseline, look, snapshot)
        if snapshot is not self.baseline:
            took = snapshot.meta.get("seconds")
            self.update(looks={**self.state.looks, step: took})
        return comparison

    def leave_lineage(self) -> None:
        """Count against the start of this run alone, and note no earlier training."""
        self.leave_first()
        self.update(lineage=None)
        self.store()

    def leave_first(self) -> None:
        """Count against the start of this stage alone from here on.

        The earlier trainings stay noted.
        """
        self._first, self.looks.firsts = None, {}
        lineage = self.state.lineage
        if lineage is not None:
            lineage = replace(lineage, first=None, checksum=None)
            self.update(lineage=lineage)

    def latest(self) -> Snapshot | None:
        """Rows of the look that decides, over common items.

        Returns:
            The rows, or None before the first look.
        """
        snapshot = self.looks.rows.get(max(self.looks.rows, default=0))
        return None if snapshot is None else self.subset.apply(snapshot)

    @property
    def kept_of(self) -> KeptOf:
        """What the kept share of each look is a share of.

        What the first comparison measures.
        """
        looks = self.looks.headline
        return kept_of([looks[min(looks)].all])

    def kept(self, step: int) -> float:
        """Share of what the base knew that a look keeps; nan if none."""
        return (
            kept(self.looks.headline[step].all, self.kept_of).share
            if step in self.looks.headline
            else math.nan
        )

    def trajectory(self) -> Trajectory:
        """All looks so far, in order, against the first base.

        Raises:
            WatchError: If there is none yet.
        """
        stage = self.stage_trajectory()
        lineage = self.state.lineage
        if self._first is None or lineage is None:
            return stage
        first_base = rows_of_baseline(self._first, stage.baseline)
        comparisons = [self.looks.firsts[step] for step in stage.steps]
        return after_earlier_stages(stage, first_base, comparisons, number=lineage.stage)

    def stage_trajectory(self) -> Trajectory:
        """All looks so far, in order, against the start of this run.

        Raises:
            WatchError: If there is none yet.
        """
        if self.baseline is None:
            raise WatchError("there is no look yet; call look() first")
        steps = tuple(sorted(self.comparisons))
        right = np.stack([self.looks.right[step] for step in steps])
        comparisons = tuple(self.comparisons[step] for step in steps)
        baseline, latest = self.subset.apply(self.baseline), self.latest()
        last_snapshot = baseline if latest is None else latest
        return Trajectory(
            steps,
            comparisons,
            right,
            baseline,
            last_snapshot,
            self.state.planned,
            findings=self.state.findings,
            ending=self.state.ending,
        )

    @property
    def continued(self) -> str | None:
        """Kind of the adapter that an earlier training left.

        As `adapter_start` takes the kind.
        """
        return None if self.state.lineage is None else self.state.lineage.adapter

    def lost_must_pass(self, step: SupportsIndex) -> list[str]:
        """Ids of the `must_pass` items lost at `step`."""
        if self.baseline is None:
            return []
        look = checked_step(step, lowest=-1)  # that of a baseline from elsewhere
        must = {(item.task, item.id) for item in self.probe if item.must_pass}
        baseline = self.subset.apply(self.baseline)
        before, after = (self.looks.right[look_step] for look_step in (min(self.looks.right), look))
        lost = (
            name
            for (task, name), was, now in zip(baseline.item_keys, before, after, strict=False)
            if was == 1.0 and now == 0.0 and (task, name) in must
        )
        # An item with several samples is named once.
        return list(dict.fromkeys(lost))

    def _description(self, without: Collection[int]) -> dict[str, Any]:
        meta = {} if self.baseline is None else self.baseline.meta
        values = self.state.described(
            probe=meta.get("probe") or {},
            has_null=self.null is not None,
            last_step=max(self.comparisons),
            without=without,
        )
        return {**values, "versions": versions()}

    def _use(self, plan: LookPlan | None) -> None:
        # All items before there is a plan.
        items, generates = (None, True) if plan is None else (plan.items, plan.generates)
        self.subset = Subset.from_probe(self.probe, items=items, generates=generates)
        self.update(plan=plan)


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
