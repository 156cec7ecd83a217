"""Trajectory: looks in order, of one run or of several as its stages, each compared with the baseline; item histories.

    step 0 ──── 200 ──── 400 ──── 600
    baseline    look     look     look      comparisons[i]: baseline against the look at steps[i]

A look is one evaluation of the probe during a run. Looks are compared over the items that all of them evaluated
(`comparing.checks`), so that every point of a curve is over the same items. Alarms allow for the number of looks and
groups (`metrics.significance`).

Stages are trainings of one model, one after another, as one trajectory and as a matrix:

SFT    0 ── 200 ── 400
DPO                 0 ── 100 ── 200            counted on: steps 500, 600
GRPO                             0 ── 50       step 650

The matrix has the base and the ends of the stages, by groups, and the path of each question:

    base ── SFT ── DPO ── GRPO        row k: the end of stage k, against the base and against the stage before

Stages may have other probes: a comparison is over what both sides have, a path over what all have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.checks import Subset
from forgetwatch.comparing.comparison import Comparison, compare, frame, long_rows
from forgetwatch.comparing.groups import Group, Level
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.measures.base import Measure
from forgetwatch.measures.base_drift import DRIFT_KEY, LookDrift
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
from forgetwatch.run_folder.description import Ending, GuardFinding, StoredRun, TaskFigure
from forgetwatch.run_folder.lineage import check_one_model, read_first, stored_lineage
from forgetwatch.snapshot import Snapshot
from forgetwatch.text import one_line, run_name

if TYPE_CHECKING:
    from forgetwatch.comparing.decision import Decision


@dataclass(frozen=True, kw_only=True)
class StageRow:
    """The end of one stage.

    Attributes:
        name: Name of the stage.
        since_first: The base against it.
        since_previous: The end of the stage before against it; None if the outputs of that end are not finite.
    """

    name: str
    since_first: Comparison
    since_previous: Comparison | None


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Number of questions by their path over base and ends of stages; those that all of them have.

    Attributes:
        questions: Number of questions.
        kept: Right at the base and at every end.
        lost: Right at the base and wrong at the last end, by the stage that lost them last; one number a stage.
        recovered: Right at the base, wrong at some end and right at the last, by the stage that brought them back.
        never: Wrong everywhere.
        learned: Wrong at the base and right at the last end.
        passing: Wrong at the base and at the last end, right in between.
        recovered_if_guessed: Number of recovered questions of a model that guesses afresh at each end; nan if unknown.
    """

    questions: int
    kept: int
    lost: tuple[int, ...]
    recovered: tuple[int, ...]
    never: int
    learned: int
    passing: int
    recovered_if_guessed: float


@dataclass(frozen=True, kw_only=True, eq=False)
class StageMatrix:
    """Base and ends of the stages of one model.

    Attributes:
        base: Name of the base.
        rows: The stages, in their order.
        ends: Snapshots of the base and of the end of each stage.
    """

    base: str
    rows: tuple[StageRow, ...]
    ends: tuple[Snapshot, ...] = field(repr=False)

    def accuracy(self, level: Level = "category") -> dict[str, NDArray[np.float64]]:
        """Return the share of right answers of base and ends by group; nan where it was not measured. [1 + stages].

        The shares of a group are over the same questions: those that all ends have which have any of the group.
        """
        found = {}
        for name in sorted({name for end in self.ends for name in _names(end, level)}):
            own = [_group(end, name, level) for end in self.ends]
            having = [at for at, end in enumerate(own) if len(end)]
            shares = np.full(len(self.ends), np.nan)
            common = shared_rows([own[at] for at in having], refuses=False)
            right = _right_of_ends(common, has_base=having[0] == 0)
            scored = np.isfinite(right).all(axis=0)
            if scored.any():
                shares[having] = right[:, scored].mean(axis=1)
            found[name] = shares
        return found

    @cached_property
    def paths(self) -> Paths:
        """The questions that base and all ends have, by their path."""
        shared = shared_rows(self.ends)
        right = _right_of_ends(shared)
        scored = np.isfinite(right).all(axis=0)
        was = right[:, scored] == 1.0
        first, last = was[0], was[-1]
        stages = len(self.rows)
        turns = was[1:] != was[:-1]
        # The stage of the last turn decides who lost a question, or brought it back.
        latest = np.where(turns.any(axis=0), stages - np.argmax(turns[::-1], axis=0), 0)

        def by_stage(kind: NDArray[np.bool_]) -> tuple[int, ...]:
            return tuple(int((kind & (latest == stage)).sum()) for stage in range(1, stages + 1))

        guess = guess_chance(shared[0])[scored]
        guessed = guesser_history(guess, looks=stages)
        return Paths(
            questions=int(scored.sum()),
            kept=int(was.all(axis=0).sum()),
            lost=by_stage(first & ~last),
            recovered=by_stage(first & last),
            never=int((~was).all(axis=0).sum()),
            learned=int((~first & last).sum()),
            passing=int((~first & ~last & was.any(axis=0)).sum()),
            recovered_if_guessed=float(scored.sum() * guessed.regained[-1]),
        )

    def path_of_each(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield (task, id, category, path) of each question; a path has 1, 0 or - for unscored at base and each end."""
        shared = shared_rows(self.ends)
        marks = _right_of_ends(shared)
        names = zip(
            *(shared[0].texts(name).tolist() for name in ("task", "item_id", "category")),
            strict=True,
        )
        for (task, item, category), path in zip(names, marks.T, strict=True):
            yield task, item, category, "".join("-" if one != one else f"{one:.0f}" for one in path)


def _right_of_ends(ends: Sequence[Snapshot], *, has_base: bool = True) -> NDArray[np.float64]:
    """Return the right answers of each end, [ends, rows]; nan where the base, which comes first, was not finite."""
    right = [end.floats("correct") for end in ends]
    return np.stack([ends[0].right_as_base, *right[1:]] if has_base else right)


def _group(end: Snapshot, name: str, level: Level) -> Snapshot:
    return _cut(end, np.flatnonzero(_names(end, level) == name))


def _names(snapshot: Snapshot, level: Level) -> NDArray[np.object_]:
    return np.asarray(snapshot.texts("task" if level == "task" else "category"), dtype=object)


def shared_rows(looks: Sequence[Snapshot], *, refuses: bool = True) -> list[Snapshot]:
    """Return the rows that all looks have, in the order of the first.

    Raises:
        MismatchError: If there are none, and it `refuses` that.
    """
    common = looks[0]
    for look in looks[1:]:
        common = _cut(common, pair(common, look).before)
        if not len(common):
            if not refuses:
                return [_cut(one, np.zeros(0, np.int64)) for one in looks]
            raise MismatchError(
                f"no question of {looks[0].label} is in {look.label}; needed stages of one probe"
            )
    return [rows_of_baseline(look, common) for look in looks]


def _cut(snapshot: Snapshot, rows: NDArray[np.int64]) -> Snapshot:
    return replace(snapshot, table=snapshot.table.take(np.sort(rows)))


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
        by: ``margins`` for a fall of the net change by margins; ``flips`` for a net loss of right answers, in groups in
            which few answers have margins; ``known`` for a loss of clearly known items, which gains may hide.
        step: Optimizer step of the look.
        group: The group's counts at that look.
        p_value: One-sided p-value; nan of ``known``, which goes by an interval at two looks in a row.
        alarm_level: The p-value at and below which this look alarms; of ``known`` the error of its interval.
        raised: True if the loss is more than chance, over all looks and groups. By margins the interval of the
            estimate must also be below 0: right answers that only become less sure are no loss.
        smallest_loss: The smallest net loss (share of the items) that could raise an alarm at this look; nan if none
            could.
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

        A group with both kinds of answers is tested by both, each at half the level; the smaller p-value is doubled.
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
        """Test the last of some looks for a loss of the known, which must be there at the one before it too.

        Args:
            looks: Comparisons of this look and of the one before it, or of this alone if it is the first.
            step: Step of this look.
            number: Number of this look, from 1.
            planned: Looks planned; None if unknown.

        Returns:
            The test; None if too little was known.
        """
        error, ends = ALPHA / (planned or number * (number + 1)), list[float]()
        for one in looks:
            known = one.all[KNOWN]
            interval = None if known is None else known.lost_net_share_at(1 - error)
            if (
                known is not None
                and interval is not None
                and (known.known_net or 0.0) >= FEWEST_TO_KEEP
            ):
                ends.append(interval[0])
        if len(ends) < len(looks):
            return None
        enough = len(ends) > 1 or planned == 1
        raised = enough and all(end > KNOWN_LIMIT for end in ends)
        return cls("known", step, looks[-1].all, math.nan, alarm_level=error, raised=raised)

    @property
    def kind(self) -> Literal["net", "known"]:
        """``known`` for a loss of clearly known items; ``net`` for any net loss."""
        return "known" if self.by == "known" else "net"

    def __str__(self) -> str:
        verdict = "ALARM" if self.raised else "no alarm"
        known = self.group[KNOWN]
        if self.kind == "known" and known is not None:
            return f"{verdict} at step {self.step}, known: {known.known_lost:g} of {known.known:g} lost"
        return (
            f"{verdict} at step {self.step}, {self.group.name}: {self.group.forgotten:g} forgotten and "
            f"{self.group.gained:g} gained of {self.group.n:g}, p {self.p_value:.2g} by {self.by}, alarm at "
            f"{self.alarm_level:.2g}"
        )


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The looks of one run, in order, each compared with the baseline.

    Attributes:
        steps: Optimizer step of each look, rising; the first is the baseline's.
        comparisons: Baseline against the look at each step; the first compares the baseline with itself.
        right: Right answers at each step in the order of the baseline's rows, 1, 0, or nan for unscored;
            float64 [steps, rows].
        baseline: The baseline, over the items that all looks evaluated.
        last: The look that decides, over the same items: the delivered one, else the last.
        planned: Looks planned after the baseline; None if unknown.
        stages: Steps at which later stages of the training begin; see `read_stages`.
        findings: Findings of the guard of the run, in the order in which they were made.
        notes: Sentences on files of the run that are missing, damaged, or of another run.
        task: Figure of the new task that the trainer logged, of several stages that of the last; None if unknown.
        stage: In a run of a later stage (`run_folder.lineage`), whose baseline here is that of the first training at
            step -1: the same looks against the start of this stage. Alarms are about it. None in a first training.
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
        """Return the JSON document as a dict; `tolerance` sets other limits than the defaults."""
        from forgetwatch.comparing.document import trajectory_json  # which reads trajectories

        return trajectory_json(self, **options)

    def to_frame(self) -> Any:
        """Return every quantity of every look against the baseline in long form: step, level, name, quantity, value.

        As `Comparison.to_frame`.
        """
        looks = zip(self.steps, self.comparisons, strict=True)
        return frame(row for step, look in looks for row in long_rows(look.groups, step=step))

    @property
    def decision(self) -> Decision:
        """The verdict on the run at the look that `final` is."""
        from forgetwatch.comparing.decision import decide_run  # which reads trajectories

        return decide_run(self)

    def __str__(self) -> str:
        from forgetwatch.report.terminal import comparison_text  # only when it is printed

        return comparison_text(self.final, self)

    __repr__ = __str__

    @classmethod
    def of(
        cls,
        looks: Sequence[Snapshot],
        *,
        planned: int | None = None,
        null: Snapshot | None = None,
    ) -> Self:
        """Make a trajectory of snapshots, ordered by the steps in their metadata; the first is the baseline.

        All looks are compared over the items that every one of them evaluated; see `comparing.checks`.

        Args:
            looks: The snapshots.
            planned: Looks planned after the baseline; None if unknown.
            null: The baseline's weights measured again: what flips is noise.

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
            raise SnapshotError(
                f"two looks were taken at step {twice[0]}; a run has one look per step"
            )
        baseline = ordered[0]
        null = None if null is None else subset.apply(null)
        comparisons = [compare(before=baseline, after=look, null=null) for look in ordered]
        return cls(
            tuple(steps),
            tuple(comparisons),
            np.stack([right_answers(baseline, look) for look in ordered]),
            baseline,
            ordered[-1],
            planned,
        )

    @classmethod
    def from_run(cls, folder: str | Path) -> Self:
        """Read the looks in a run folder (``output_dir/_forgetwatch``), or in the output_dir that contains one.

        Looks that are missing, damaged or of another run are left out, and `notes` name them.

        Raises:
            SnapshotError: If the folder contains no baseline of its run.
        """
        stored = StoredRun.read(folder)
        made = cls.of([stored.baseline, *stored.looks], planned=stored.planned, null=stored.null)
        ending = stored.described.ending
        made = replace(
            made, findings=stored.findings, notes=stored.notes, task=stored.task, ending=ending
        )
        made = made._deciding(stored.end)
        first, notes = read_first(stored.folder, stored.described)
        made = replace(made, notes=(*made.notes, *notes))
        if first is None:
            return made
        first = rows_of_baseline(first, made.baseline)
        if not len(first):
            return made
        by_step = {int(look.meta["step"]): look for look in (stored.baseline, *stored.looks)}
        looks = [rows_of_baseline(by_step[step], made.baseline) for step in made.steps]
        comparisons = [
            against_first_base(first, look, own=own)
            for look, own in zip(looks, made.comparisons, strict=True)
        ]
        number = len(stored_lineage(stored.described)) + 1
        return made.after_earlier_stages(first, comparisons, number=number)

    def after_earlier_stages(
        self, first: Snapshot, comparisons: Sequence[Comparison], *, number: int
    ) -> Self:
        """Return the looks of this stage against the base of the first training, with this trajectory as `stage`.

        Args:
            first: The base, over rows of the baseline, in their order.
            comparisons: The base against each look of this trajectory.
            number: Number of the stage.
        """
        # A stage that resumed with a baseline from elsewhere begins with step -1 itself.
        before = min(_BEFORE, self.steps[0] - 1)
        first = replace(first, meta={**first.meta, "step": before})
        pairing = pair(self.baseline, first)
        right = np.full((len(self) + 1, len(first)), np.nan)
        right[0] = first.right_as_base
        right[1:, pairing.after] = self.right[:, pairing.before]
        start = compare(before=first, after=first)
        return replace(
            self,
            steps=(before, *self.steps),
            comparisons=(start, *comparisons),
            right=right,
            baseline=first,
            last=rows_of_baseline(self.last, first),
            stage=self,
            number=number,
        )

    def _deciding(self, end: Snapshot) -> Self:
        """Return the trajectory with the rows of the look that decides, if that is not the last one."""
        return (
            self
            if self.final_step == self.steps[-1]
            else replace(self, last=rows_of_baseline(end, self.baseline))
        )

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def final_step(self) -> int:
        """Step of the look that decides: that of the weights which the training left, else the last."""
        delivered = None if self.ending is None else self.ending.delivered
        return delivered if delivered in self.steps and delivered is not None else self.steps[-1]

    @property
    def final(self) -> Comparison:
        """The look that decides, against the baseline."""
        return self.comparisons[self.steps.index(self.final_step)]

    @property
    def own(self) -> Trajectory:
        """The looks against the start of this stage, which in a first training is this trajectory itself."""
        return self if self.stage is None else self.stage

    def __getitem__(self, measure: Measure[History]) -> History | None:
        """Return ``trajectory[HISTORY]``: the history of the items through all looks; None without a look."""
        return History(items=self.item_history, guessed=self.guessed) if len(self) > 1 else None

    @property
    def drift(self) -> dict[int, Mapping[str, LookDrift]]:
        """Drift from the model at the start of the run, by step and set (``probe``, ``training``).

        Looks without one have no entry. Example: ``trajectory.drift[200]["probe"].kl_sampled``.
        """
        looks = zip(self.steps, self.comparisons, strict=True)
        return {
            step: comparison.drift for step, comparison in looks if comparison.drift is not None
        }

    @cached_property
    def item_history(self) -> ItemHistory:
        """Items forgotten and regained, over the rows that were scored at every look."""
        return item_history(self.right[:, self._scored] == 1.0, samples=self.comparisons[0].samples)

    @cached_property
    def guess(self) -> NDArray[np.float64]:
        """Probability that a guess is right, float64 [rows]; 0 for open answers, nan if unknown."""
        return guess_chance(self.baseline)

    @cached_property
    def guessed(self) -> GuesserHistory:
        """History that a model that only guesses would have, over the same rows."""
        return guesser_history(self.guess[self._scored], looks=len(self) - 1)

    def alarms(self, *, alpha: float = ALPHA) -> tuple[Alarm, ...]:
        """Return the first alarm of each kind and group, in the order of the looks; see `verdicts`."""
        first: dict[tuple[str, str, str], Alarm] = {}
        for test in self.verdicts(alpha=alpha):
            if test.raised:
                first.setdefault((test.kind, test.group.level, test.group.name), test)
        return tuple(first.values())

    def verdicts(self, *, alpha: float = ALPHA) -> tuple[Alarm, ...]:
        """Return the tests of all items and of each category for a loss, look by look; raised or not.

        The known items are tested apart (`Alarm.test_known`), since gains can hide their loss.

        The whole has half of `alpha`, and the categories share the other half; over looks the rule is that of
        `alarm_level`. An unchanged model raises any alarm in at most `alpha` of runs.
        Looks beyond the planned T, and all looks without a plan, are tested by the rule that needs no plan; with them
        the bound is alpha (1 + 1 / (T + 1)). Later looks do not change the result of an earlier one.
        """
        if self.stage is not None:  # the losses of earlier stages raise no alarm in this one
            return self.stage.verdicts(alpha=alpha)
        found = []
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
                    found += [Alarm.test(group, step=step, level=level) for group in groups]
            known = Alarm.test_known(
                self.comparisons[max(look - 1, 1) : look + 1],
                step=step,
                number=look,
                planned=planned,
            )
            found += [] if known is None else [known]
        return tuple(found)

    @property
    def _scored(self) -> NDArray[np.bool_]:
        scored: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(self.right), axis=0)
        return scored


def right_answers(baseline: Snapshot, look: Snapshot) -> NDArray[np.float64]:
    """Return the right answers of a look in the order of the baseline's rows.

    1, 0, or nan where unscored; float64 [rows].
    """
    pairing = pair(baseline, look)
    right = np.full(len(baseline), np.nan)
    right[pairing.before] = look.floats("correct")[pairing.after]
    right[baseline.is_not_finite] = np.nan
    return right


def against_first_base(first: Snapshot, look: Snapshot, *, own: Comparison) -> Comparison:
    """Compare the base of the first training with a look of a later stage, over the items that both have.

    Noise and drift are those of `own`, the comparison of the look with the start of its stage.
    """
    shared = rows_of_baseline(look, first)
    found = compare(before=first, after=shared)
    noise = {(group.level, group.name): group[NULL] for group in own.groups}
    groups = tuple(
        group
        if (null := noise.get((group.level, group.name))) is None
        else group.having(NULL, null)
        for group in found.groups
    )
    notes = found.notes
    if len(shared) < len(look):
        notes = (
            f"{len(shared):,} of {len(look):,} questions were measured on the first base",
            *notes,
        )
    return replace(found, groups=groups, drift=own.drift, notes=notes)


def _watched(comparison: Comparison) -> tuple[list[Group], list[Group]]:
    """Return the groups that alarms watch: all items, and the categories; none without answers, as of passages alone.

    A single category is the whole.
    """
    # Tasks are not watched: with many of them the level of each would be too strict to raise any alarm.
    whole, categories = (
        [group for group in comparison.by(level).values() if group.n]
        for level in ("all", "category")
    )
    return whole, categories if len(categories) > 1 else []


def read_stages(folders: Sequence[str | Path]) -> Trajectory:
    """Read the looks of several runs as stages of one trajectory, against the baseline of the first.

    The baseline of a later stage has to be the end of the one before. A note gives the number of answers in which the
    two differ: the stage began with another model, or was measured on another machine.

    Args:
        folders: Run folders in the order of the training; at least one.

    Raises:
        SnapshotError: If there is none, or a folder contains no baseline of its run.
        MismatchError: If a folder is given twice, the order is wrong, the models differ, or no question is shared.
    """
    if not folders:
        raise SnapshotError("needed at least one run folder, got none")
    runs = [StoredRun.read(folder) for folder in folders]
    if len(runs) == 1:
        return Trajectory.from_run(runs[0].folder)
    missing = _check_order(runs)
    looks, offset = [runs[0].baseline], 0
    begins, findings, damages, planned = [], list[GuardFinding](), list[str](), list[int | None]()
    start = 0
    for number, run in enumerate(runs):
        begins.append(offset)
        findings += [replace(finding, step=finding.step + offset) for finding in run.findings]
        damages += [f"{run.folder}: {note}" for note in run.notes]
        later = run.looks
        if number and _starts_with_look(run):  # it is the end of the stage before
            later = run.looks[1:]
        planned.append(
            run.planned if later is run.looks or run.planned is None else run.planned - 1
        )
        looks += [_later(look, by=offset) for look in later]
        # Later stages count on from the end of this one, and not from their own step 0.
        start, offset = offset, int(looks[-1].meta["step"])
    if _have_own_probes(runs):
        looks = shared_rows(looks)
    made = Trajectory.of(
        looks,
        # If one stage has no plan, the number of looks of the whole is unknown.
        planned=None if None in planned else sum(number or 0 for number in planned),
        null=runs[0].null,
    )
    *first, last = made.comparisons
    comparisons = (*first, replace(last, notes=(*last.notes, *missing, *_stage_notes(runs))))
    ending = runs[-1].described.ending
    whole = replace(
        made,
        comparisons=comparisons,
        stages=tuple(begins[1:]),
        findings=tuple(findings),
        notes=tuple(damages),
        task=runs[-1].task,
        ending=None if ending is None else ending.later(start),
        matrix=_matrix(runs),
    )
    return whole._deciding(runs[-1].end)


def _matrix(runs: Sequence[StoredRun]) -> StageMatrix:
    # A stage without a look ended where it began.
    ends = (runs[0].baseline, *(run.end for run in runs))
    rows = tuple(
        StageRow(
            name=name,
            since_first=_compared(ends[0], after),
            since_previous=None if before.not_finite_line else _compared(before, after),
        )
        for name, (before, after) in zip(_stage_names(runs), pairwise(ends), strict=True)
    )
    base = str(ends[0].meta.get("model", "base")).rstrip("/").rsplit("/", maxsplit=1)[-1]
    return StageMatrix(base=base, rows=rows, ends=tuple(ends))


def _stage_names(runs: Sequence[StoredRun]) -> list[str]:
    """Return the names of the stages; of equal ones the later have a number."""
    names = list[str]()
    for run in runs:
        name = one_line(run_name(run.folder))
        number = sum(other.partition(" (")[0] == name for other in names)
        names.append(f"{name} ({number + 1})" if number else name)
    return names


def _compared(before: Snapshot, after: Snapshot) -> Comparison:
    before, after = shared_rows([before, after])
    return compare(before=before, after=after)


def _check_order(runs: Sequence[StoredRun]) -> list[str]:
    """Raise a MismatchError if runs are not stages of one model in this order, and note stages that are not given."""
    ids = [
        run.described.run or run.baseline.meta.get("run") or str(run.folder.resolve())
        for run in runs
    ]
    before = [[one.run for one in stored_lineage(run.described)] for run in runs]
    names = [str(run.folder) for run in runs]
    notes = []
    for later in range(1, len(runs)):
        for earlier in range(later):
            if ids[earlier] == ids[later]:
                raise MismatchError(
                    f"{names[earlier]} and {names[later]} are the same run; give each stage once"
                )
            if ids[later] in before[earlier]:
                raise MismatchError(
                    f"{names[earlier]} continues the model of {names[later]}; give the stages in the order of the "
                    "training"
                )
        earlier = later - 1
        known = stored_lineage(runs[later].described)
        if known and ids[earlier] not in before[later]:
            raise MismatchError(
                f"{names[later]} continues the model of {known[-1].name}, and not that of {names[earlier]}; give the "
                "stages of one model"
            )
        if known and known[-1].run != ids[earlier]:
            left_out = [one.name for one in known[before[later].index(ids[earlier]) + 1 :]]
            notes.append(
                f"{' and '.join(left_out)} came between {names[earlier]} and {names[later]}, and is not given"
            )
        ways = [way for run in (runs[earlier], runs[later]) if (way := _decoding(run)) is not None]
        if len(ways) == 2 and ways[0] != ways[1]:
            raise MismatchError(
                f"{names[earlier]} and {names[later]} generated their answers in unlike ways (the probe's decoding: "
                f"{ways[0]}, then {ways[1]}); give stages of one probe"
            )
        if problem := check_one_model(runs[earlier].described.model, runs[later].described.model):
            raise MismatchError(
                f"{names[earlier]} and {names[later]}: {problem}; give the stages of one model"
            )
    return notes


def _decoding(run: StoredRun) -> Any:
    return (run.baseline.meta.get("probe") or {}).get("decoding")


def _have_own_probes(runs: Sequence[StoredRun]) -> bool:
    """Return True if each run has one probe, and not all have the same."""
    own = [
        {(look.meta.get("probe") or {}).get("fingerprint") for look in (run.baseline, *run.looks)}
        - {None}
        for run in runs
    ]
    return all(len(one) <= 1 for one in own) and len(set[Any]().union(*own)) > 1


def _starts_with_look(run: StoredRun) -> bool:
    """Return True if the first look is of the start of the training, since the baseline is from elsewhere."""
    return (
        bool(run.looks)
        and int(run.baseline.meta["step"]) < 0
        and int(run.looks[0].meta["step"]) == 0
    )


def _start(run: StoredRun) -> Snapshot:
    return run.looks[0] if _starts_with_look(run) else run.baseline


def _later(look: Snapshot, *, by: int) -> Snapshot:
    return replace(look, meta={**look.meta, "step": int(look.meta["step"]) + by})


def _stage_notes(runs: Sequence[StoredRun]) -> list[str]:
    """Note stages that did not begin where the one before ended, and drift from another base."""
    notes = []
    for before, after in pairwise(runs):
        if line := before.end.not_finite_line:
            notes.append(f"{before.folder}: {line} at its end, and no stage is compared with that")
            continue
        found = compare(before=before.end, after=_start(after), on_mismatch="intersect").all
        if found.forgotten or found.gained:
            notes.append(
                f"{after.folder} began with a model that answers {found.forgotten + found.gained:g} of {found.n:g} "
                f"questions otherwise than the end of {before.folder}"
            )
    if with_drift := [
        str(run.folder) for run in runs[1:] if any(look.meta.get(DRIFT_KEY) for look in run.looks)
    ]:
        notes.append(
            "the drift of later stages is from the start of each, and is not shown here; `forgetwatch report` of "
            f"{' or '.join(with_drift)} alone shows it"
        )
    return notes
