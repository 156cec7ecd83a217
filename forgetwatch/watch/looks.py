"""The looks of a run in progress, compared with the baseline, in memory.

All comparisons of a run are over one `Subset` of its probe, which is decided before the baseline. Only the rows of the
baseline and of the latest look stay in memory.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing import (
    Comparison,
    Subset,
    Trajectory,
    against_first_base,
    compare,
    right_answers,
)
from forgetwatch.errors import WatchError
from forgetwatch.pairing import rows_of_baseline
from forgetwatch.probe import Probe
from forgetwatch.progress import log
from forgetwatch.run_folder import LAST_STEP, GuardFinding, Lineage, TaskFigure
from forgetwatch.scoring import rank, versions
from forgetwatch.snapshot import Snapshot
from forgetwatch.watch.budget import Decision, evaluated, stored_decision
from forgetwatch.watch.measurer import Evaluated

STAGE: Final = "stage"
"""Name in keys of the comparison with the start of this stage, in a run of a later stage."""


class LookHistory:
    """Comparisons of the looks so far; no model, no files. A `Watch` adds to them.

    Attributes:
        probe: The items.
        baseline: The snapshot that everything is compared with; None before the first look.
        null: The baseline's weights measured again, in other batches; None if they were not.
        subset: Items that all looks of the run evaluate.
        decision: Decision on the items that looks evaluate; None before it is made.
        comparisons: Baseline against each look so far, by step.
        planned: Looks planned after the baseline; None if unknown. Alarms are corrected for it.
        lineage: The watched trainings before this run; None for a first one.
        saved: Digest of the files of each checkpoint that the trainer saved, by step; None without a trainer.
        model_facts: Architecture, tokenizer and template of the model; empty if unknown.
        training: Settings of the training: its trainer, rate, adapter and `RetentionLoss`; empty if unknown.
        task: Figure of the new task in the trainer's log so far; None if it has none.
        started_with: Fingerprint of the model at the start of the run; None if unknown.
        firsts: Base of the first of them against each look so far, by step; empty without one.
    """

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.baseline: Snapshot | None = None
        self.null: Snapshot | None = None
        self.subset = Subset()
        self.decision: Decision | None = None
        self.comparisons: dict[int, Comparison] = {}
        self.planned: int | None = None
        self.lineage: Lineage | None = None
        self.model_facts: Mapping[str, Any] = {}
        self.training: Mapping[str, Any] = {}
        self.task: TaskFigure | None = None
        self.started_with: str | None = None
        self.firsts: dict[int, Comparison] = {}
        self.findings: tuple[GuardFinding, ...] = ()
        self.saved: dict[int, str] | None = None
        self._first: Snapshot | None = None
        self._snapshots: dict[int, Snapshot] = {}  # rows of the latest look
        self._described: dict[int, dict[str, Any]] = {}
        self._right: dict[int, NDArray[np.float64]] = {}

    @property
    def evaluated(self) -> Evaluated:
        """What a look evaluates now."""
        return Evaluated(probe=self.probe, subset=self.subset, baseline=self.baseline)

    @property
    def items(self) -> int | None:
        """Number of items that the looks evaluate, a prefix of the probe; None for all."""
        return self.subset.items

    @property
    def generates(self) -> bool:
        """False if the looks leave out items whose answers are generated, other than `must_pass` ones."""
        return self.decision is None or self.decision.generates

    def _add(self, snapshot: Snapshot, *, step: int) -> Comparison:
        """Add a look: compare it with the baseline, and with the first base if there is one."""
        if self.baseline is None:
            raise WatchError("a look needs a baseline to be compared with; the first look of a run is its baseline")
        subset = self.subset
        baseline = subset.apply(self.baseline)
        look = baseline if snapshot is self.baseline else subset.apply(snapshot)
        comparison = compare(before=baseline, after=look, null=None if self.null is None else subset.apply(self.null))
        if self._first is not None and self.lineage is not None:
            of_baseline = rows_of_baseline(self._first, baseline)
            if len(of_baseline):
                self.firsts[step] = against_first_base(of_baseline, look, own=comparison)
            else:
                if rank() == 0:
                    log("the first base was measured on none of these questions: counting against this stage alone")
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
        """Count against the start of this stage alone from here on; the earlier trainings stay noted."""
        self._first, self.firsts = None, {}
        self.lineage = None if self.lineage is None else replace(self.lineage, first=None, checksum=None)

    def _drop_after(self, step: int) -> None:
        """Drop the looks later than `step`."""
        self.findings = tuple(finding for finding in self.findings if finding.step <= step)
        kept: tuple[dict[int, Any], ...] = (
            self.comparisons,
            self.firsts,
            self._described,
            self._right,
        )
        for looks in (*kept, self._snapshots, self.saved or {}):
            for later in [look for look in looks if look > step]:
                del looks[later]

    @property
    def evaluates(self) -> bool:
        """False if no item is left that the looks could evaluate: all are left out."""
        return bool(evaluated(self.probe, self.decision or Decision()))

    def latest(self) -> Snapshot | None:
        """Return the latest look over the items that all looks evaluate; None before the first."""
        found = self._snapshots.get(max(self._snapshots, default=0))
        return None if found is None else self.subset.apply(found)

    @property
    def headline(self) -> dict[int, Comparison]:
        """Comparisons that trackers and tables show first: with the first base, else with the start of the run."""
        return self.firsts or self.comparisons

    def trajectory(self) -> Trajectory:
        """Return all looks so far, in order, against the first base; a WatchError if there is none yet."""
        own = self.stage_trajectory()
        if self._first is None or self.lineage is None:
            return own
        first = rows_of_baseline(self._first, own.baseline)
        comparisons = [self.firsts[step] for step in own.steps]
        return own.after_earlier_stages(first, comparisons, number=self.lineage.stage)

    def stage_trajectory(self) -> Trajectory:
        """Return all looks so far, in order, against the start of this run; a WatchError if there is none yet."""
        if self.baseline is None:
            raise WatchError("there is no look yet; call look() first")
        steps = tuple(sorted(self.comparisons))
        right = np.stack([self._right[step] for step in steps])
        comparisons = tuple(self.comparisons[step] for step in steps)
        baseline, latest = self.subset.apply(self.baseline), self.latest()
        last = baseline if latest is None else latest
        return Trajectory(steps, comparisons, right, baseline, last, self.planned, findings=self.findings)

    def retained_before(self) -> int:
        """Return the number of right answers of the baseline."""
        return int((self._right[min(self._right)] == 1.0).sum()) if self._right else 0

    def lost_must_pass(self, step: SupportsIndex) -> list[str]:
        """Return the ids of the `must_pass` items that were right at the baseline and are wrong at `step`."""
        if self.baseline is None:
            return []
        look = checked_step(step, lowest=-1)  # that of a baseline from elsewhere
        must = {(item.task, item.id) for item in self.probe if item.must_pass}
        baseline = self.subset.apply(self.baseline)
        names = zip(baseline.texts("task"), baseline.texts("item_id"), strict=True)
        before, after = (self._right[one] for one in (min(self._right), look))
        lost = (
            name
            for (task, name), was, now in zip(names, before, after, strict=False)
            if was == 1.0 and now == 0.0 and (task, name) in must
        )
        # An item with several samples is named once.
        return list(dict.fromkeys(lost))

    def _description(self, *, without: Collection[int] = ()) -> dict[str, Any]:
        """Return the description of the run, for ``run.json``.

        Empty before the baseline. Looks that have no file are left out.
        """
        if self.baseline is None:
            return {}
        return {
            "probe": self.baseline.meta["probe"],
            **stored_decision(self.decision),
            "null": self.null is not None,
            "looks": [self._described[step] for step in sorted(self._described) if step not in without],
            "planned_looks": self.planned,
            "lineage": None if self.lineage is None else self.lineage.values,
            "model": dict(self.model_facts),
            "training": dict(self.training),
            "task": None if self.task is None else self.task.stored,
            "started_with": self.started_with,
            **({} if self.saved is None else {"saved": {str(step): one for step, one in sorted(self.saved.items())}}),
            "guard": [vars(finding) for finding in self.findings],
            "versions": versions(),
        }

    def _use(self, decision: Decision | None) -> None:
        """Set the items that looks evaluate; all before there is a decision."""
        made = decision or Decision()
        self.subset = Subset.from_probe(self.probe, items=made.items, generates=made.generates, regraded=made.regraded)
        self.decision = decision


def checked_step(step: SupportsIndex, *, lowest: int = 0) -> int:
    """Return a step as a plain integer, also of a numpy integer; a WatchError for any other value."""
    try:
        number = None if isinstance(step, bool) else operator.index(step)
    except TypeError:
        number = None
    if number is None or not lowest <= number <= LAST_STEP:
        raise WatchError(f"step={step!r}: needed a whole number of optimizer steps from {lowest} to {LAST_STEP}")
    return number
