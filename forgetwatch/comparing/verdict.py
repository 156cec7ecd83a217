"""The one place that decides what a comparison, or a run at its last look, says. Outputs only put it into words.

    question                                                    rule                                     answer
    this look alone: did accuracy fall by more than t?          95 % interval against -t                 `Verdict`
    this look alone: is a category below zero on its own?       q <= .05, and its 95 % interval below 0  `below_zero`
    all looks and groups: a net loss, or fading?                an alarm, `Trajectory.alarms`            `RaisedAlarm`
    this look alone: is known and lost, or the log score, 0?    its 95 % interval against 0              `Side`
    this look alone: are bits per byte of passages the same?    its 95 % interval against 0              `Side`

    net change     -4        -2         0        +2  points, tolerance 2
    PASS                      |   [-----o-----]      the whole interval is above minus the tolerance
    FAIL           [---o---]  |                      it is below
    INCONCLUSIVE        [-----|--o-----]             it contains minus the tolerance: more items would decide

A PASS also needs the interval in the worst case of the outcomes that vanished (`measures.flips`) to be above minus
the tolerance; else it is INCONCLUSIVE. More items would not decide where a PASS fails by that alone, nor where more
than one item in a hundred vanished.

The answers can differ without a contradiction: one look is judged at 95 %, and an alarm at a level that is corrected
for the number of looks and groups. Every statement therefore names its question.

Passages decide nothing: where there is nothing else, there is no verdict on correctness (`Conclusion.has_answers`).

All outputs call this module, so that no two of them disagree about one comparison. The test of PASS and FAIL is
`metrics.significance.non_inferiority`; report/ renders the sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.trajectory import Alarm, AlarmKind, Trajectory
from forgetwatch.measures import NOTED
from forgetwatch.metrics import Interval, non_inferiority
from forgetwatch.run_folder import GuardFinding

Word = Literal["PASS", "FAIL", "INCONCLUSIVE"]
Side = Literal["below", "around", "above"]
State = Literal["lasting", "unclear", "recovered"]

TOLERANCE: Final = 0.02
"""Net loss of accuracy that is tolerated if nothing else is given: 2 points."""

FALSE_DISCOVERIES: Final = 0.05
"""Expected share of false alarms among the categories that are below zero on their own."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Decision on one group of items, with the numbers that it follows from.

    Attributes:
        word: PASS, FAIL or INCONCLUSIVE; INCONCLUSIVE if nothing was measured.
        tolerance: The net loss that is tolerated, 0 to 1.
        net_change: Accuracy after minus before, -1 to 1; nan if nothing was measured.
        interval: Its 95 % interval.
        interval_worst: The same in the worst case of the outcomes that vanished; equal to it if none did.
        vanished: Number of items that were scored on one side alone.
        items_needed: Number of items that would decide; None if the verdict is clear, nothing was measured, or the
            net change is exactly minus the tolerance.
        open_by_vanished: True if it is INCONCLUSIVE, and more items would not decide because outcomes vanished.
    """

    word: Word
    tolerance: float
    net_change: float
    interval: Interval
    interval_worst: Interval
    vanished: int
    items_needed: int | None
    open_by_vanished: bool


@dataclass(frozen=True, kw_only=True)
class RaisedAlarm:
    """The first alarm of a group and kind, and what became of it.

    Attributes:
        alarm: The alarm.
        now: The same test at the last look.
        state: ``lasting`` if the group is below zero at the last look, by its 95 % interval; ``recovered`` if it is at
            or above its start, unless vanished outcomes may hide that it is below; ``unclear`` in between.
    """

    alarm: Alarm
    now: Alarm
    state: State


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """Everything that an output states about a comparison, or about a run at its last look.

    Attributes:
        verdict: Verdict on the whole, at this look alone.
        whole: Side of zero of the net change of the whole, at this look alone; None if it has no interval.
        below_zero: Categories below zero on their own at this look, the largest fall first. Empty if there is only
            one category, which is the whole.
        categories: Number of categories among which these are; 0 if there is only one.
        known_lost: Side of zero of the known and lost items net of luck; None if luck is not measured.
        log_score: Side of zero of the change of the calibrated log score; None if there are no scores.
        bits_per_byte: Side of zero of the change of the bits per byte of passages; None if there are none.
        has_answers: False if passages alone were compared, so that there is no verdict on correctness.
        looks: Number of looks after the baseline; None if this is no run.
        groups: Number of groups that the alarms watch; 0 if this is no run.
        fading_groups: Number of groups that are tested for fading.
        kinds: Kinds of alarms that were tested for; empty if this is no run, or it has no look.
        alarms: Alarms over all looks and groups, by step.
        findings: Findings of the guard, in the order in which they were made.
    """

    verdict: Verdict
    whole: Side | None
    below_zero: tuple[Group, ...]
    categories: int
    known_lost: Side | None
    log_score: Side | None
    bits_per_byte: Side | None = None
    has_answers: bool = True
    looks: int | None = None
    groups: int = 0
    fading_groups: int = 0
    kinds: tuple[AlarmKind, ...] = ()
    alarms: tuple[RaisedAlarm, ...] = ()
    findings: tuple[GuardFinding, ...] = ()

    @property
    def is_run(self) -> bool:
        """True if there is a look after the baseline of a run."""
        return bool(self.looks)

    @property
    def lost_here(self) -> bool:
        """True if this look alone shows a loss, of the whole or of a category."""
        return self.whole == "below" or bool(self.below_zero)

    @property
    def differs(self) -> bool:
        """True if this look alone and all looks together have different outcomes, which a text must explain."""
        raised = bool(self.alarms)
        return self.is_run and (self.lost_here != raised or (raised and self.verdict.word == "PASS"))

    @property
    def trips(self) -> tuple[GuardFinding, ...]:
        """Findings on which the guard tripped."""
        return tuple(finding for finding in self.findings if finding.trips)


def verdict(comparison: Comparison, tolerance: float = TOLERANCE) -> Verdict:
    """Return the verdict on a comparison as a whole; the tolerated net loss is a share, 0 to 1."""
    return group_verdict(comparison.all, tolerance)


def group_verdict(group: Group, tolerance: float) -> Verdict:
    """Return the verdict on one group of items; see `verdict`."""
    change, interval, worst_case = group.net_change, group.net_change_interval, group.net_change_interval_worst
    tested = non_inferiority(net_change=change, interval=interval, n=group.n, tolerance=tolerance)
    # Its lower end is never above that of the interval over the other items.
    may_pass = worst_case[0] > -tolerance
    many = group.vanished > NOTED * (group.n + group.vanished)
    is_open = not may_pass and (tested.verdict == "PASS" or (tested.verdict == "INCONCLUSIVE" and many))
    needed = math.nan if is_open else tested.items_needed
    return Verdict(
        word="INCONCLUSIVE" if is_open else tested.verdict,
        tolerance=tolerance,
        net_change=change,
        interval=interval,
        interval_worst=worst_case,
        vanished=group.vanished,
        open_by_vanished=is_open,
        items_needed=math.ceil(needed) if math.isfinite(needed) else None,
    )


def worst(words: Iterable[Word]) -> Word:
    """Return the worst of some verdicts, at least one: FAIL before INCONCLUSIVE before PASS."""
    return min(words, key=("FAIL", "INCONCLUSIVE", "PASS").index)


def can_see(group: Group, loss: float) -> bool:
    """True if the items of a group see a net loss of this size, 0 to 1, with 80 % power; False for no items."""
    # nan, where too few items flip to plan with, compares as False.
    return group.detectable_change <= loss


def own_side(group: Group) -> Side | None:
    """Side of zero on which a group is on its own, by its q, corrected for the groups of its level, and its interval.

    None if its net change has no interval.
    """
    side = side_of_zero(group.net_change_interval)
    return side if side is None or group.q_value <= FALSE_DISCOVERIES else "around"


def side_of_zero(interval: Interval | None) -> Side | None:
    """Side of zero on which an interval is, or around it; None for no interval."""
    if interval is None or math.isnan(interval[0]):
        return None
    low, high = interval
    return "below" if high < 0 else "above" if low > 0 else "around"


def conclude(
    comparison: Comparison, *, trajectory: Trajectory | None = None, tolerance: float = TOLERANCE
) -> Conclusion:
    """Return everything that an output states about a comparison.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        trajectory: The run, if there is one.
        tolerance: Net loss of accuracy that is tolerated, 0 to 1.
    """
    whole, categories = comparison.all, [group for group in comparison.by("category").values() if group.n]
    if len(categories) == 1:
        categories = []
    below = [group for group in categories if own_side(group) == "below"]
    tests = () if trajectory is None else trajectory.verdicts()
    return Conclusion(
        verdict=verdict(comparison, tolerance),
        whole=side_of_zero(whole.net_change_interval),
        below_zero=tuple(sorted(below, key=lambda group: group.net_change)),
        categories=len(categories),
        known_lost=side_of_zero(whole.known_lost_net_interval),
        log_score=side_of_zero(whole.log_score_change_calibrated_interval),
        bits_per_byte=side_of_zero(whole.bits_per_byte_change_interval),
        has_answers=bool(whole.n) or not whole.passages,
        looks=None if trajectory is None else len(trajectory) - 1,
        groups=len({(test.group.level, test.group.name) for test in tests}),
        fading_groups=len({(test.group.level, test.group.name) for test in tests if test.kind == "fading"}),
        kinds=tuple(dict.fromkeys(test.kind for test in tests)),
        alarms=() if trajectory is None else raised_alarms(trajectory, tests),
        findings=() if trajectory is None else trajectory.findings,
    )


def raised_alarms(trajectory: Trajectory, tests: Sequence[Alarm]) -> tuple[RaisedAlarm, ...]:
    """Return the alarms of a run by step, each with the same test at the last look; `tests` are all of its tests."""
    last = {(one.kind, one.group.level, one.group.name): one for one in tests if one.step == trajectory.steps[-1]}
    raised = []
    for alarm in trajectory.alarms():
        # A group that has lost its scores is no longer tested for fading: the alarm is the last that is known of it.
        now = last.get((alarm.kind, alarm.group.level, alarm.group.name), alarm)
        raised.append(RaisedAlarm(alarm=alarm, now=now, state=_state(now)))
    return tuple(sorted(raised, key=lambda one: one.alarm.step))


def _state(now: Alarm) -> State:
    group = now.group
    change, interval = group.net_change, group.net_change_interval
    if now.kind == "fading":
        found, within = group.log_score_change_calibrated, group.log_score_change_calibrated_interval
        if found is None or within is None:
            return "unclear"
        change, interval = found, within
    if side_of_zero(interval) == "below":
        return "lasting"
    hidden = side_of_zero(group.net_change_interval_worst) == "below"
    return "recovered" if change >= 0 and not hidden else "unclear"
