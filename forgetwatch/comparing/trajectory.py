"""Trajectory: looks of a run in order, each compared with the baseline; item histories.

    step 0 ──── 200 ──── 400 ──── 600
    baseline    look     look     look      comparisons[i]: baseline against the look at steps[i]

A look is one evaluation of the probe during a run. Looks are compared over the items that all of
them evaluated (`comparing.checks`), so that every point of a curve is over the same items. Alarms
allow for the number of looks and groups (`metrics.significance`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.comparison import Comparison, compare
from forgetwatch.comparing.frames import frame, long_rows
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.stage_matrix import StageMatrix
from forgetwatch.comparing.subset import Subset
from forgetwatch.errors import SnapshotError
from forgetwatch.measures.base import Measure
from forgetwatch.measures.base_drift import LookDrift
from forgetwatch.measures.estimate import NET_ESTIMATE
from forgetwatch.measures.history import History
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.measures.measured_again import NULL
from forgetwatch.measures.option_columns import guess_chance
from forgetwatch.measures.pairing import pair, rows_of_baseline
from forgetwatch.metrics.significance import alarm_level
from forgetwatch.metrics.transitions import (
    GuesserHistory,
    ItemHistory,
    guesser_history,
    item_history,
)
from forgetwatch.run_folder.contents import StoredRun
from forgetwatch.run_folder.description import Ending, GuardFinding
from forgetwatch.run_folder.lineage import read_first, stored_lineage
from forgetwatch.run_folder.task_figure import TaskFigure
from forgetwatch.snapshot import Snapshot

if TYPE_CHECKING:
    from forgetwatch.comparing.decision import Decision

_BEFORE: Final = -1
"""Step of the base of the first training in a run of a later stage."""


ALPHA: Final = 0.05
"""Share of unchanged runs that may raise any alarm."""


KNOWN_LIMIT: Final = 0.05
"""Share of what was clearly known whose loss raises an alarm."""


FEWEST_TO_KEEP: Final = 36
"""`known_net` under which even no loss at all leaves a tenth of it possible."""


@dataclass(frozen=True)
class Alarm:
    """Test of one group at one look for a loss beyond chance.

    Attributes:
        by: ``margins`` for a fall of the net change by margins; ``flips`` for a net loss of right
            answers, in groups in which few answers have margins; ``known`` for a loss of clearly
            known items, which gains may hide.
        step: Optimizer step of the look.
        group: The group's counts at that look.
        p_value: One-sided p-value; nan of ``known``, which goes by an interval at two looks in a
            row.
        alarm_level: The p-value at and below which this look alarms; of ``known`` the error of its
            interval.
        raised: True if the loss is more than chance, over all looks and groups. By margins the
            interval of the estimate must also be below 0: right answers that only become less sure
            are no loss.
        smallest_loss: The smallest net loss (share of the items) that could raise an alarm at this
            look; nan if none could.
    """

    by: Literal["margins", "flips", "known"]
    step: int
    group: Group = field(repr=False)
    p_value: float
    _: KW_ONLY
    alarm_level: float
    raised: bool
    smallest_loss: float = math.nan

    @classmethod
    def test(cls, group: Group, *, step: int, level: float) -> Self:
        """Test a group at a look.

        A group with both kinds of answers is tested by both, each at half the level; the smaller
        p-value is doubled.
        """
        estimate = group[NET_ESTIMATE]
        if estimate is None or estimate.fall is None:
            p_value, loss = group.loss_p_value, group.smallest_loss(level)
            raised = p_value <= level
            return cls(
                "flips", step, group, p_value, alarm_level=level, raised=raised, smallest_loss=loss
            )
        tests = 1 if estimate.unscored_loss is None else 2
        by_flips = 1.0 if estimate.unscored_loss is None else min(1.0, 2 * estimate.unscored_loss)
        by_margins = min(1.0, tests * estimate.fall.p_value)
        fell = estimate.interval is not None and estimate.interval[1] < 0
        loss = estimate.fall.smallest_fall(level / tests)
        raised = (fell and by_margins <= level) or by_flips <= level
        p_value = min(by_margins, by_flips)
        return cls(
            "margins", step, group, p_value, alarm_level=level, raised=raised, smallest_loss=loss
        )

    @classmethod
    def test_known(
        cls, looks: Sequence[Comparison], *, step: int, number: int, planned: int | None
    ) -> Self | None:
        """Test the last look for a loss of the known.

        The loss must be there at the look before too.

        Args:
            looks: Comparisons of this look and of the one before it, or of this alone if it is the
                first.
            step: Step of this look.
            number: Number of this look, from 1.
            planned: Looks planned; None if unknown.

        Returns:
            The test; None if too little was known.
        """
        error, ends = ALPHA / (planned or number * (number + 1)), list[float]()
        for look in looks:
            known_items = look.all[KNOWN]
            interval = None if known_items is None else known_items.lost_net_share_at(1 - error)
            if (
                known_items is not None
                and interval is not None
                and (known_items.known_net or 0.0) >= FEWEST_TO_KEEP
            ):
                ends.append(interval[0])
        if len(ends) < len(looks):
            return None
        enough = len(ends) > 1 or planned == 1
        raised = enough and all(end > KNOWN_LIMIT for end in ends)
        return cls("known", step, looks[-1].all, math.nan, alarm_level=error, raised=raised)

    @property
    def kind(self) -> Literal["net", "known"]:
        """``known`` for clearly known items, ``net`` for any net loss."""
        return "known" if self.by == "known" else "net"

    def __str__(self) -> str:
        verdict = "ALARM" if self.raised else "no alarm"
        known_items = self.group[KNOWN]
        if self.kind == "known" and known_items is not None:
            return f"{verdict} at step {self.step}, known: {known_items.known_lost:g} of {known_items.known:g} lost"
        return (
            f"{verdict} at step {self.step}, {self.group.name}: {self.group.forgotten:g} forgotten "
            f"and {self.group.gained:g} gained of {self.group.n:g}, p {self.p_value:.2g} by "
            f"{self.by}, alarm at {self.alarm_level:.2g}"
        )


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The looks of one run, in order, each compared with the baseline.

    Attributes:
        steps: Optimizer step of each look, rising; the first is the baseline's.
        comparisons: Baseline against the look at each step; the first compares the baseline with
            itself.
        right: Right answers at each step in the order of the baseline's rows, 1, 0, or nan for
            unscored; float64 [steps, rows].
        baseline: The baseline, over the items that all looks evaluated.
        last: The look that decides, over the same items: the delivered one, else the last.
        planned: Looks planned after the baseline; None if unknown.
        stages: Steps at which later stages of the training begin; see `read_stages`.
        findings: Findings of the guard of the run, in the order in which they were made.
        notes: Sentences on files of the run that are missing, damaged, or of another run.
        task: Figure of the new task that the trainer logged, of several stages that of the last;
            None if unknown.
        stage: In a run of a later stage (`run_folder.lineage`), whose baseline here is that of the
            first training at step -1: the same looks against the start of this stage. Alarms are
            about it. None in a first training.
        ending: How far the training came, and which weights it left; None if unknown.
        number: Number of the stage; 1 for a first training.
        matrix: Base and ends of the stages, of several runs as stages; None for one run.
    """

    steps: tuple[int, ...]
    comparisons: tuple[Comparison, ...]
    right: NDArray[np.float64]
    baseline: Snapshot
    last: Snapshot
    planned: int | None = None
    stages: tuple[int, ...] = ()
    findings: tuple[GuardFinding, ...] = ()
    notes: tuple[str, ...] = ()
    task: TaskFigure | None = None
    stage: Trajectory | None = None
    ending: Ending | None = None
    number: int = 1
    matrix: StageMatrix | None = None

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """JSON document as a dict.

        `tolerance` sets other limits than the defaults.
        """
        from forgetwatch.comparing.document import trajectory_json  # which reads trajectories

        return trajectory_json(self, **options)

    def to_frame(self) -> Any:
        """Every quantity of every look in long form.

        As `Comparison.to_frame`.
        """
        looks = zip(self.steps, self.comparisons, strict=True)
        return frame(row for step, look in looks for row in long_rows(look.groups, step=step))

    @property
    def decision(self) -> Decision:
        """Verdict on the run, at the look `final`."""
        from forgetwatch.comparing.decision import decide_run  # which reads trajectories

        return decide_run(self)

    def __str__(self) -> str:
        from forgetwatch.report.terminal import comparison_text  # only when it is printed

        return comparison_text(self.final, self)

    __repr__ = __str__

    @classmethod
    def from_run(cls, folder: str | Path) -> Trajectory:
        """Read the looks in a run folder.

        Looks that are missing, damaged or of another run are left out, and `notes` name them.

        Raises:
            SnapshotError: If the folder contains no baseline of its run.
        """
        stored = StoredRun.read(folder)
        trajectory = trajectory_of(
            [stored.baseline, *stored.looks], planned=stored.planned, repeat=stored.null
        )
        ending = stored.described.ending
        trajectory = replace(
            trajectory,
            findings=stored.findings,
            notes=stored.notes,
            task=stored.task,
            ending=ending,
        )
        trajectory = with_end(trajectory, stored.end)
        first_base, notes = read_first(stored.folder, stored.described)
        trajectory = replace(trajectory, notes=(*trajectory.notes, *notes))
        if first_base is None:
            return trajectory
        first_base = rows_of_baseline(first_base, trajectory.baseline)
        if not len(first_base):
            return trajectory
        by_step = {int(look.meta["step"]): look for look in (stored.baseline, *stored.looks)}
        looks = [rows_of_baseline(by_step[step], trajectory.baseline) for step in trajectory.steps]
        comparisons = [
            against_first_base(first_base, look, stage_comparison=look_comparison)
            for look, look_comparison in zip(looks, trajectory.comparisons, strict=True)
        ]
        number = len(stored_lineage(stored.described)) + 1
        return after_earlier_stages(trajectory, first_base, comparisons, number=number)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def final_step(self) -> int:
        """Step of the look that decides.

        The look of the weights that the training left, else the last.
        """
        delivered = None if self.ending is None else self.ending.delivered
        return delivered if delivered in self.steps and delivered is not None else self.steps[-1]

    @property
    def final(self) -> Comparison:
        """The look that decides, against the baseline."""
        return self.comparisons[self.steps.index(self.final_step)]

    def __getitem__(self, measure: Measure[History]) -> History | None:
        """History of the items: ``trajectory[HISTORY]``.

        Returns:
            The history, or None without a look.
        """
        return (
            History(items=self.item_history, guessed=guessed_history(self))
            if len(self) > 1
            else None
        )

    @property
    def drift(self) -> dict[int, Mapping[str, LookDrift]]:
        """Drift from the start of the run, by step and set.

        Looks without one have no entry. Example: ``trajectory.drift[200]["probe"].kl_sampled``.
        """
        looks = zip(self.steps, self.comparisons, strict=True)
        return {
            step: comparison.drift for step, comparison in looks if comparison.drift is not None
        }

    @cached_property
    def item_history(self) -> ItemHistory:
        """Items forgotten and regained, scored at every look."""
        return item_history(
            self.right[:, self.is_scored] == 1.0, samples=self.comparisons[0].samples
        )

    @cached_property
    def guess(self) -> NDArray[np.float64]:
        """Probability of a right guess, float64 [rows].

        0 for open answers, nan if unknown.
        """
        return guess_chance(self.baseline)

    def alarms(self, *, alpha: float = ALPHA) -> tuple[Alarm, ...]:
        """First alarm of each kind and group.

        In the order of the looks; see `verdicts`.
        """
        first_alarms: dict[tuple[str, str, str], Alarm] = {}
        for test in self.verdicts(alpha=alpha):
            if test.raised:
                first_alarms.setdefault((test.kind, test.group.level, test.group.name), test)
        return tuple(first_alarms.values())

    def verdicts(self, *, alpha: float = ALPHA) -> tuple[Alarm, ...]:
        """Tests of all items and of each category, look by look.

        The known items are tested apart (`Alarm.test_known`), since gains can hide their loss.

        The whole has half of `alpha`, and the categories share the other half; over looks the rule
        is that of `alarm_level`. An unchanged model raises any alarm in at most `alpha` of runs.
        Looks beyond the planned T, and all looks without a plan, are tested by the rule that needs
        no plan; with them the bound is alpha (1 + 1 / (T + 1)). Later looks do not change the
        result of an earlier one.
        """
        if self.stage is not None:  # the losses of earlier stages raise no alarm in this one
            return self.stage.verdicts(alpha=alpha)
        tests = []
        for look, (step, comparison) in enumerate(
            zip(self.steps[1:], self.comparisons[1:], strict=True), start=1
        ):
            planned = self.planned if self.planned is not None and look <= self.planned else None
            whole, categories = _watched(comparison)
            for groups, share in (
                (whole, alpha / 2 if categories else alpha),
                (categories, alpha / 2),
            ):
                if groups:
                    level = alarm_level(look, groups=len(groups), planned=planned, alpha=share)
                    tests += [Alarm.test(group, step=step, level=level) for group in groups]
            known_test = Alarm.test_known(
                self.comparisons[max(look - 1, 1) : look + 1],
                step=step,
                number=look,
                planned=planned,
            )
            tests += [] if known_test is None else [known_test]
        return tuple(tests)

    @property
    def is_scored(self) -> NDArray[np.bool_]:
        """Is the row scored at every look, bool [rows]?"""
        scored: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(self.right), axis=0)
        return scored


def trajectory_of(
    looks: Sequence[Snapshot],
    *,
    planned: int | None = None,
    repeat: Snapshot | None = None,
) -> Trajectory:
    """Make a trajectory of snapshots, ordered by step.

    All looks are compared over the items that every one of them evaluated; see
    `comparing.checks`.

    Args:
        looks: The snapshots.
        planned: Looks planned after the baseline; None if unknown.
        repeat: The baseline's weights measured again: what flips is noise.

    Raises:
        SnapshotError: If there is no look, or the metadata of one name no step.
        MismatchError: If a look does not contain the baseline's questions.
    """
    if not looks:
        raise SnapshotError("the run has no looks, not even a baseline")
    for look in looks:
        if type(look.meta.get("step")) is not int:
            raise SnapshotError(
                f"{look.label}: its metadata name no step, got {look.meta.get('step')!r}"
            )
    subset = Subset.common(looks)
    ordered = sorted(map(subset.apply, looks), key=lambda look: int(look.meta["step"]))
    steps = [look.meta["step"] for look in ordered]
    if twice := [step for step, after in pairwise(steps) if step == after]:
        raise SnapshotError(f"two looks were taken at step {twice[0]}; a run has one look per step")
    baseline = ordered[0]
    repeat = None if repeat is None else subset.apply(repeat)
    comparisons = [compare(before=baseline, after=look, repeat=repeat) for look in ordered]
    return Trajectory(
        tuple(steps),
        tuple(comparisons),
        np.stack([right_answers(baseline, look) for look in ordered]),
        baseline,
        ordered[-1],
        planned,
    )


def after_earlier_stages(
    trajectory: Trajectory, first: Snapshot, comparisons: Sequence[Comparison], *, number: int
) -> Trajectory:
    """Looks of this stage against the first training's base.

    Args:
        trajectory: The looks against the start of the stage.
        first: The base, over rows of the baseline, in their order.
        comparisons: The base against each look of this trajectory.
        number: Number of the stage.
    """
    # A stage that resumed with a baseline from elsewhere begins with step -1 ittrajectory.
    before = min(_BEFORE, trajectory.steps[0] - 1)
    first = replace(first, meta={**first.meta, "step": before})
    pairing = pair(trajectory.baseline, first)
    right = np.full((len(trajectory) + 1, len(first)), np.nan)
    right[0] = first.right_as_base
    right[1:, pairing.after] = trajectory.right[:, pairing.before]
    start = compare(before=first, after=first)
    return replace(
        trajectory,
        steps=(before, *trajectory.steps),
        comparisons=(start, *comparisons),
        right=right,
        baseline=first,
        last=rows_of_baseline(trajectory.last, first),
        stage=trajectory,
        number=number,
    )


def this_stage(trajectory: Trajectory) -> Trajectory:
    """The looks of a run against the start of its stage."""
    return trajectory if trajectory.stage is None else trajectory.stage


def guessed_history(trajectory: Trajectory) -> GuesserHistory:
    """History of a model that only guesses, over the same rows."""
    scored = trajectory.guess[trajectory.is_scored]
    return guesser_history(scored, looks=len(trajectory) - 1)


def right_answers(baseline: Snapshot, look: Snapshot) -> NDArray[np.float64]:
    """Right answers of a look in the order of the baseline.

    Returns:
        1, 0, or nan where unscored; float64 [rows].
    """
    pairing = pair(baseline, look)
    right = np.full(len(baseline), np.nan)
    right[pairing.before] = look.floats("correct")[pairing.after]
    right[baseline.is_not_finite] = np.nan
    return right


def against_first_base(
    first: Snapshot, look: Snapshot, *, stage_comparison: Comparison
) -> Comparison:
    """Compare the first training's base with a later look.

    Noise and drift are those of `own`, the comparison of the look with the start of its stage.
    """
    shared = rows_of_baseline(look, first)
    comparison = compare(before=first, after=shared)
    noise = {(group.level, group.name): group[NULL] for group in stage_comparison.groups}
    groups = tuple(
        group
        if (null := noise.get((group.level, group.name))) is None
        else group.having(NULL, null)
        for group in comparison.groups
    )
    notes = comparison.notes
    if len(shared) < len(look):
        notes = (
            f"{len(shared):,} of {len(look):,} questions were measured on the first base",
            *notes,
        )
    return replace(comparison, groups=groups, drift=stage_comparison.drift, notes=notes)


def _watched(comparison: Comparison) -> tuple[list[Group], list[Group]]:
    # A single category is the whole. Passages alone have no answers to watch.
    # Tasks are not watched: with many of them the level of each would be too strict to raise any
    # alarm.
    whole, categories = (
        [group for group in comparison.by(level).values() if group.n]
        for level in ("all", "category")
    )
    return whole, categories if len(categories) > 1 else []


def with_end(trajectory: Trajectory, end: Snapshot) -> Trajectory:
    """Trajectory whose `last` is the look of the weights left."""
    if trajectory.final_step == trajectory.steps[-1]:
        return trajectory
    return replace(trajectory, last=rows_of_baseline(end, trajectory.baseline))
