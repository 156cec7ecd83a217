"""The one place that decides what a comparison, or a run at its last look, says. Outputs only put it into words.

A verdict has three legs. Each is an interval against a limit:

    accuracy     estimated net change of all items, 95 %                               above -2 points
    knowledge    share of the clearly known items, less luck, that is lost, 95 %       below 5 %
    category     estimated net change of each category, 1 - .05/G for G categories     above -5 points

    change         -4        -2         0        +2   points, limit -2
    PASS                      |   [-----o-----]       the whole interval is within the limit
    FAIL           [---o---]  |                       it is wholly beyond it
    INCONCLUSIVE        [-----|--o-----]              it contains the limit

    FAIL, FORGOT             a leg fails
    PASS, KEPT               accuracy is within its limit, no leg fails, and every other leg that is measured is within
                             its limit or shows no loss: its interval contains 0
    INCONCLUSIVE, NOT CLEAR  otherwise

The first word is for machines and the second for people. A leg that cannot be measured takes no part and gives its
reason. A model that answered no better than guessing before has next to nothing to lose: then no leg decides, and the
answer is INCONCLUSIVE. Each leg must also stay within its limit in the worst case of the outcomes that vanished
(`measures.flips`); else a PASS is INCONCLUSIVE. Of the same weights measured twice at most 5 % of comparisons FAIL, all
legs together.

The same intervals are shown beside the categories. The one that looks worst among many is partly so by chance. So the
categories are ranked only where they differ by more than chance (p <= .05), and the changes shown are shrunk towards
that of all (`metrics.shrinkage`).

Passages decide nothing: where there is nothing else, there is no verdict on correctness (`Conclusion.has_answers`). All
outputs call this module, so that no two of them disagree about one comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy import special

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.trajectory import Alarm, Trajectory
from forgetwatch.measures import KNOWN, NET_ESTIMATE, VANISHED
from forgetwatch.metrics import FEWEST, Interval, shrunk
from forgetwatch.run_folder import GuardFinding

Answer = Literal["PASS", "FAIL", "INCONCLUSIVE"]
Word = Literal["KEPT", "FORGOT", "NOT CLEAR"]
LegName = Literal["accuracy", "knowledge", "category"]
Side = Literal["below", "around", "above"]
State = Literal["lasting", "unclear", "recovered"]

WORDS: Final[dict[Answer, Word]] = {"PASS": "KEPT", "FAIL": "FORGOT", "INCONCLUSIVE": "NOT CLEAR"}

DIFFERENT: Final = 0.05
"""p-value at which categories differ by more than chance, so that they are ranked."""


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Losses that are tolerated, as shares; None leaves out the leg.

    Attributes:
        accuracy: Net loss of accuracy over all items.
        known: Share of the clearly known items, less luck.
        category: Net loss of accuracy in any category.
    """

    accuracy: float | None = 0.02
    known: float | None = 0.05
    category: float | None = 0.05


TOLERANCE: Final = Tolerance()
"""Losses that are tolerated if nothing else is given."""


@dataclass(frozen=True, kw_only=True)
class Leg:
    """One part of a verdict: a loss, its interval, and its limit.

    Attributes:
        name: ``accuracy``, ``knowledge`` or ``category``.
        value: Net change, -1 to 1, or of ``knowledge`` the share that is lost; None if it is not measured. Of
            ``category`` that of the category that decides, None if all of its outcomes vanished.
        interval: Its interval: 95 %, or 1 - .05/G of ``category``. None if it is not measured.
        limit: The limit on the same scale, below 0 for changes, above 0 for ``knowledge``; None if it was left out.
        answer: PASS, FAIL or INCONCLUSIVE; None if it is not measured.
        shows_loss: True if its interval shows a loss, within the limit or not; of ``category`` that of any category.
        worst: End of the interval towards the limit in the worst case of the outcomes that vanished.
        group: Name of the category that decides; empty for the other legs.
        reason: Reason for which it is not measured; empty if it is.
    """

    name: LegName
    limit: float | None = None
    value: float | None = None
    interval: Interval | None = None
    answer: Answer | None = None
    shows_loss: bool = False
    worst: float | None = None
    group: str = ""
    reason: str = ""

    @property
    def allows(self) -> bool:
        """True if a verdict can be PASS with this leg: it is within its limit, or shows no loss, or is not measured."""
        return self.answer in (None, "PASS") or (self.answer == "INCONCLUSIVE" and not self.shows_loss)

    @property
    def is_open_by_vanished(self) -> bool:
        """True if the leg would be within its limit, and outcomes that vanished leave it open."""
        if self.limit is None or self.interval is None or self.worst is None:
            return False
        if self.value is None:
            return self.answer != "PASS"
        inside, hidden = (end > self.limit for end in (self.interval[0], self.worst))
        if self.name == "knowledge":
            inside, hidden = self.interval[1] < self.limit, self.worst < self.limit
        return inside and not hidden


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Decision on a comparison, or on one of its groups, with the legs that it follows from.

    Attributes:
        answer: PASS, FAIL or INCONCLUSIVE; INCONCLUSIVE if nothing was measured.
        legs: Its legs: accuracy, knowledge, category.
        vanished: Number of items that were scored on one side alone.
        little_to_lose: True if the model before answered no better than guessing, so that no leg decides.
    """

    answer: Answer
    legs: tuple[Leg, ...]
    vanished: int
    little_to_lose: bool = False

    @property
    def word(self) -> Word:
        """The answer for people."""
        return WORDS[self.answer]

    @property
    def open_by_vanished(self) -> bool:
        """True if it would be PASS, and outcomes that vanished leave it open."""
        closed = [one for one in self.legs if not one.is_open_by_vanished]
        would_pass = all(one.allows and (one.name != "accuracy" or one.answer == "PASS") for one in closed)
        return self.answer == "INCONCLUSIVE" and would_pass and len(closed) < len(self.legs)

    @property
    def deciding(self) -> Leg:
        """The leg that decides: the first that fails, else the first that stands in the way of PASS, else accuracy."""
        order = ("knowledge", "accuracy", "category")
        legs = sorted(self.legs, key=lambda one: order.index(one.name))
        failed = [one for one in legs if one.answer == "FAIL"]
        blocking = [one for one in self.legs if not one.allows or (one.name == "accuracy" and one.answer != "PASS")]
        return (failed or blocking or list(self.legs))[0]

    def leg(self, name: LegName) -> Leg | None:
        """Return the leg of that name; None if it was left out."""
        return next((one for one in self.legs if one.name == name), None)


@dataclass(frozen=True, kw_only=True)
class RankedCategory:
    """A category among those that changed by more than chance makes them differ.

    Attributes:
        group: The category.
        change: Its net change, shrunk towards that of all, -1 to 1.
        interval: Simultaneous interval of its own estimate, 1 - .05/G for G categories. It may miss `change`.
    """

    group: Group
    change: float
    interval: Interval

    @property
    def side(self) -> Side:
        """Side of zero on which the interval is, or around it."""
        return side_of_zero(self.interval) or "around"


@dataclass(frozen=True, kw_only=True)
class RaisedAlarm:
    """The first alarm of a group, and what became of it.

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
        verdict: Verdict on this look alone.
        whole: Side of zero of the estimated net change of the whole; None if it has no interval.
        categories: Number of categories with an estimate; 0 if there is only one, which is the whole.
        ranked: The categories, the largest fall first; empty where they differ by no more than chance.
        differ_p_value: p-value of "all categories changed alike"; nan for fewer than two.
        has_answers: False if passages alone were compared, so that there is no verdict on correctness.
        looks: Number of looks after the baseline; None if this is no run.
        groups: Number of groups that the alarms watch; 0 if this is no run.
        alarms: Alarms over all looks and groups, by step.
        findings: Findings of the guard, in the order in which they were made.
    """

    verdict: Verdict
    whole: Side | None
    categories: int
    ranked: tuple[RankedCategory, ...]
    differ_p_value: float
    has_answers: bool = True
    looks: int | None = None
    groups: int = 0
    alarms: tuple[RaisedAlarm, ...] = ()
    findings: tuple[GuardFinding, ...] = ()

    @property
    def is_run(self) -> bool:
        """True if there is a look after the baseline of a run."""
        return bool(self.looks)

    @property
    def lost(self) -> tuple[RankedCategory, ...]:
        """Ranked categories whose interval is below 0, the largest fall first."""
        return tuple(one for one in self.ranked if one.side == "below")

    @property
    def won(self) -> tuple[RankedCategory, ...]:
        """Ranked categories whose interval is above 0, the largest rise first."""
        return tuple(one for one in reversed(self.ranked) if one.side == "above")

    @property
    def trips(self) -> tuple[GuardFinding, ...]:
        """Findings on which the guard tripped."""
        return tuple(finding for finding in self.findings if finding.trips)


def verdict(comparison: Comparison, tolerance: Tolerance = TOLERANCE) -> Verdict:
    """Return the verdict on a comparison as a whole."""
    whole = comparison.all
    made = {
        "accuracy": None if tolerance.accuracy is None else _change_leg("accuracy", [whole], -tolerance.accuracy),
        "knowledge": None if tolerance.known is None else knowledge_leg(whole, tolerance.known),
        "category": None
        if tolerance.category is None
        else _change_leg("category", estimated_categories(comparison), -tolerance.category),
    }
    return _decided([leg for leg in made.values() if leg is not None], whole)


def group_verdict(group: Group, tolerance: float) -> Verdict:
    """Return the verdict on the accuracy of one group of items; `tolerance` is a share, 0 to 1."""
    return _decided([_change_leg("accuracy", [group], -tolerance)], group)


def _decided(legs: list[Leg], group: Group) -> Verdict:
    answer: Answer = "INCONCLUSIVE"
    if group.level == "all" and group.little_to_lose:
        return Verdict(answer=answer, legs=tuple(legs), vanished=group.outcomes.vanished, little_to_lose=True)
    if any(leg.answer == "FAIL" for leg in legs):
        answer = "FAIL"
    # Accuracy has to be within its limit; if only other legs were asked for, one of them has to be measured.
    elif all(leg.allows for leg in legs) and any(leg.answer for leg in legs):
        accuracy = [leg for leg in legs if leg.name == "accuracy"]
        answer = "PASS" if all(leg.answer == "PASS" for leg in accuracy or legs) else "INCONCLUSIVE"
    return Verdict(answer=answer, legs=tuple(legs), vanished=group.outcomes.vanished)


def _change_leg(name: LegName, groups: list[Group], limit: float) -> Leg:
    """Return the leg of the net change of some groups: it fails if one of them does, and passes if all do."""
    found = [leg for group in groups if (leg := accuracy_leg(group, limit, level=1 - 0.05 / len(groups), name=name))]
    if not found:
        reason = "fewer than two categories" if name == "category" else "no item was scored on both sides"
        return Leg(name=name, limit=limit, reason=reason)
    # The group that decides: of those that fail the one farthest beyond, of others the one that fell most.
    failed = [leg for leg in found if leg.answer == "FAIL"]
    blocking = [leg for leg in found if not leg.allows] or [leg for leg in found if leg.answer == "INCONCLUSIVE"]

    def of_failed(leg: Leg) -> float:
        return math.inf if leg.interval is None else leg.interval[1]

    def of_others(leg: Leg) -> float:
        return -math.inf if leg.value is None else leg.value

    decides = min(failed, key=of_failed) if failed else min(blocking or found, key=of_others)
    return Leg(
        name=name,
        limit=limit,
        value=decides.value,
        interval=decides.interval,
        answer=decides.answer,
        shows_loss=any(leg.shows_loss and leg.answer != "PASS" for leg in found) or decides.shows_loss,
        worst=decides.worst,
        group=decides.group,
    )


def accuracy_leg(group: Group, limit: float, *, level: float, name: LegName = "accuracy") -> Leg | None:
    """Return the leg of the net change of one group; None if nothing in it was measured.

    Args:
        group: The group.
        limit: The smallest net change that is tolerated, at most 0.
        level: Level of the interval, 0 to 1.
        name: Name of the leg.
    """
    estimate = group[NET_ESTIMATE]
    of_estimate, at_worst = (
        None if estimate is None else estimate.interval_at(level, worst=worst) for worst in (False, True)
    )
    if estimate is None or of_estimate is None or at_worst is None:
        interval, worst, value = (
            group.net_change_interval,
            group.outcomes.net_change_interval_worst[0],
            group.net_change,
        )
    else:
        interval, worst, value = of_estimate, at_worst[0], estimate.change.mean
    if math.isnan(interval[0]) and (name == "accuracy" or math.isnan(worst)):
        return None
    if math.isnan(interval[0]):  # every outcome of a category vanished: the worst case is all that is known
        interval = worst, 0.0
    low, high = interval
    measured = not math.isnan(value)
    answer: Answer = "FAIL" if measured and high < limit else "PASS" if min(low, worst) > limit else "INCONCLUSIVE"
    of = group.name if name == "category" else ""
    # Vanished outcomes that may hide a loss beyond the limit count as one.
    loss = high < 0 or (worst <= limit and (low > limit or not measured))
    return Leg(
        name=name,
        limit=limit,
        value=value if measured else None,
        interval=interval,
        answer=answer,
        shows_loss=loss,
        worst=worst,
        group=of,
    )


def knowledge_leg(whole: Group, limit: float, *, level: float = 0.95, observations: int | None = None) -> Leg:
    """Return the leg of the share of the clearly known items, less luck, that is lost.

    Args:
        whole: The group.
        limit: The largest share that is tolerated.
        level: Level of the interval; see `at_level`.
        observations: Number of independent items; None for many.
    """
    known = whole[KNOWN]
    share, interval = (None, None) if known is None else (known.lost_net_share, known.lost_net_share_interval)
    if known is None or known.known_net is None:
        reason = "the probabilities of the options are not known" if known is None else "luck is not measured"
        return Leg(name="knowledge", limit=limit, reason=reason)
    if share is None or interval is None:
        return Leg(name="knowledge", limit=limit, reason=f"it clearly knew only {known.known_net:.0f} questions")
    interval = at_level(share, interval, level, observations)
    # Known items that vanished are lost in the worst case, less those that luck alone would make.
    gone = whole[VANISHED]
    hidden = 0.0 if gone is None else max((gone.known_vanished or 0.0) - gone.known_vanished_by_luck, 0.0)
    worst = (interval[1] * known.known_net + hidden) / (known.known_net + hidden)
    low, high = interval
    answer: Answer = "FAIL" if low > limit else "PASS" if worst < limit else "INCONCLUSIVE"
    return Leg(
        name="knowledge",
        limit=limit,
        value=share,
        interval=interval,
        answer=answer,
        shows_loss=low > 0 or high < limit <= worst,
        worst=worst,
    )


def at_level(value: float, interval: Interval, level: float, observations: int | None = None) -> Interval:
    """Return a 95 % interval at another level: each end as many times farther away as with Student's t.

    Args:
        value: The value that it is about.
        interval: Its 95 % interval.
        level: The level.
        observations: Number of independent items; None for many, as with a normal distribution.
    """
    freedom = math.inf if observations is None else max(observations - 1, 1)
    times = float(special.stdtrit(freedom, 0.5 + level / 2) / special.stdtrit(freedom, 0.975))
    return value - times * (value - interval[0]), value + times * (interval[1] - value)


def estimated_categories(comparison: Comparison) -> list[Group]:
    """Return the categories with an estimate of their net change; none if there is only one, which is the whole."""
    found = [
        group
        for group in comparison.by("category").values()
        if group.n + group.outcomes.vanished >= FEWEST and not math.isnan(group.outcomes.net_change_interval_worst[0])
    ]
    return found if len(found) > 1 else []


def ranked_categories(comparison: Comparison) -> tuple[tuple[RankedCategory, ...], float]:
    """Return the categories by their shrunk net change, lowest first, and the p-value of "all changed alike".

    There is no ranking unless that p-value is at most `DIFFERENT`.
    """
    whole, groups = comparison.all[NET_ESTIMATE], estimated_categories(comparison)
    level = 1 - 0.05 / max(len(groups), 1)
    estimates = [
        (group, found, interval)
        for group in groups
        if (found := group[NET_ESTIMATE]) is not None and (interval := found.interval_at(level)) is not None
    ]
    if whole is None or len(estimates) < 2:
        return (), math.nan
    changes, errors = (np.array([getattr(one[1].change, name) for one in estimates]) for name in ("mean", "error"))
    between = shrunk(changes, errors, overall=whole.change.mean)
    if not between.p_value <= DIFFERENT:
        return (), between.p_value
    ranked = [
        RankedCategory(group=group, change=float(change), interval=interval)
        for (group, _, interval), change in zip(estimates, between.values, strict=True)
    ]
    return tuple(sorted(ranked, key=lambda one: one.change)), between.p_value


def worst(answers: Iterable[Answer]) -> Answer:
    """Return the worst of some answers, at least one: FAIL before INCONCLUSIVE before PASS."""
    return min(answers, key=("FAIL", "INCONCLUSIVE", "PASS").index)


def can_see(group: Group, loss: float) -> bool:
    """Return True if the items of a group show a net loss of this size, 0 to 1, with 80 % power; False for no items."""
    # nan, where too few items flip to plan with, compares as False.
    return smallest_seen(group) <= loss


def smallest_seen(group: Group) -> float:
    """Return the smallest net change that the items of a group show with 80 % power, by the estimate; nan if none."""
    estimate = group[NET_ESTIMATE]
    seen = None if estimate is None else estimate.detectable
    return group.detectable_change if seen is None else seen


def side_of_zero(interval: Interval | None) -> Side | None:
    """Return the side of zero on which an interval is, or around it; None for no interval."""
    if interval is None or math.isnan(interval[0]):
        return None
    low, high = interval
    return "below" if high < 0 else "above" if low > 0 else "around"


def estimated(group: Group) -> tuple[float, Interval]:
    """Return the net change of a group and its 95 % interval: the estimate, or that of the flips for too few items."""
    found = group[NET_ESTIMATE]
    if found is None or found.interval is None:
        return group.net_change, group.net_change_interval
    return found.change.mean, found.interval


def leg_interval(group: Group, categories: int) -> Interval:
    """Return the interval of the net change of a group at the level of its leg.

    95 %, or 1 - .05/G of one of G categories.
    """
    found = group[NET_ESTIMATE]
    many = categories if group.level == "category" else 1
    interval = None if found is None else found.interval_at(1 - 0.05 / max(many, 1))
    return group.net_change_interval if interval is None else interval


def conclude(
    comparison: Comparison, *, trajectory: Trajectory | None = None, tolerance: Tolerance = TOLERANCE
) -> Conclusion:
    """Return everything that an output states about a comparison.

    Args:
        comparison: The comparison; of a run, its last look against its baseline.
        trajectory: The run, if there is one.
        tolerance: Losses that the verdict tolerates.
    """
    ranked, p_value = ranked_categories(comparison)
    tests = () if trajectory is None else trajectory.verdicts()
    return Conclusion(
        verdict=verdict(comparison, tolerance),
        whole=side_of_zero(estimated(comparison.all)[1]),
        categories=len(estimated_categories(comparison)),
        ranked=ranked,
        differ_p_value=p_value,
        has_answers=bool(comparison.all.n) or not comparison.all.passages,
        looks=None if trajectory is None else len(trajectory.own) - 1,
        groups=len({(test.group.level, test.group.name) for test in tests}),
        alarms=() if trajectory is None else raised_alarms(trajectory),
        findings=() if trajectory is None else trajectory.findings,
    )


def raised_alarms(trajectory: Trajectory) -> tuple[RaisedAlarm, ...]:
    """Return the alarms of a run by step, each with the same test at the last look."""
    tests = trajectory.verdicts()
    last = {(one.group.level, one.group.name): one for one in tests if one.step == trajectory.steps[-1]}
    raised = []
    for alarm in trajectory.alarms():
        # A group without answers at the last look has no test there: the alarm is the last that is known of it.
        now = last.get((alarm.group.level, alarm.group.name), alarm)
        raised.append(RaisedAlarm(alarm=alarm, now=now, state=_state(now.group)))
    return tuple(sorted(raised, key=lambda one: one.alarm.step))


def _state(group: Group) -> State:
    change, interval = estimated(group)
    if side_of_zero(interval) == "below":
        return "lasting"
    hidden = side_of_zero(group.outcomes.net_change_interval_worst) == "below"
    return "recovered" if change >= 0 and not hidden else "unclear"
