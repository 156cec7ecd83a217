"""The legs of a verdict: three losses, each an interval against its limit. `comparing.decision` decides by them.

A verdict has three legs. Each is an interval against a limit:

    accuracy     estimated net change of all items, 95 %                               above -2 points
    knowledge    share of the clearly known items, less luck, that is lost, 95 %       below 5 %
                 of fewer than 36 known: share of the right answers that is lost beyond guessing
    category     estimated net change of each category, 1 - .05/G for G categories     above -5 points

    change         -4        -2         0        +2   points, limit -2
    PASS                      |   [-----o-----]       the whole interval is within the limit
    FAIL           [---o---]  |                       it is wholly beyond it
    INCONCLUSIVE        [-----|--o-----]              it contains the limit

    FAIL, FORGOT             a leg fails
    PASS, KEPT               accuracy is within its limit, and every other leg that is measured is within its limit, or
                             shows no loss: knowledge up to twice its limit at most, a category of
                             about 35 questions or more up to 20 points
    INCONCLUSIVE, NOT CLEAR  otherwise

The first word is for machines and the second for people. KEPT is not said out of ignorance: of
fewer than 50 questions there is no PASS; a category that lost at least half of its right answers,
three or more, and gained none stands in its way; and so does knowledge of which too little is
known. A leg that cannot be measured at all takes no part and gives its reason. A model that was not
shown to be better than guessing before can FAIL and not PASS, and so can a category. PASS takes the
end of an interval in the worst case of the outcomes that vanished (`measures.flip_counts`), FAIL
the plain one. Of the same weights measured twice at most 5 % of comparisons FAIL, all legs
together.

The same intervals are shown beside the categories. The one that looks worst among many is partly so
by chance. So the categories are ranked only where they differ by more than chance (p <= .05), in
the order of their changes shrunk towards that of all (`metrics.margin_change`). Each is shown by
its own estimate, which the simultaneous interval is about.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from scipy import special

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.kept_share import HALF, hidden_known, kept_of
from forgetwatch.measures.estimate import NET_ESTIMATE
from forgetwatch.measures.graded import GRADED
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.measures.measured_again import RIGHT_LOST
from forgetwatch.metrics.intervals import Interval, newcombe
from forgetwatch.metrics.margin_change import FEWEST
from forgetwatch.metrics.shrinkage import shrunk
from forgetwatch.metrics.transitions import Cells
from forgetwatch.snapshot import SAMPLED
from forgetwatch.text import count, one_line

Answer = Literal["PASS", "FAIL", "INCONCLUSIVE"]
LegName = Literal["accuracy", "knowledge", "category"]
Side = Literal["below", "around", "above"]

FEWEST_ITEMS: Final = 50
"""Number of questions under which there is no PASS."""

_BOUND: Final = 0.20
"""Net loss that a category must exclude to count as one that shows no loss; four times the limit if that is more."""

_SUNK: Final = 3
"""Right answers that a category must lose, half of them all, to stand in the way of PASS."""

_MOST_TIMES: Final = 50
"""Times as many questions, beyond which nobody would ask them."""

SMALL_LOSS: Final = "a loss within the limit"

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
        value: Net change, -1 to 1, or of ``knowledge`` the share that is lost; None if it is not
            measured. Of ``category`` that of the category that decides, None if all of its outcomes
            vanished.
        interval: Its interval: 95 %, or 1 - .05/G of ``category``. None if it is not measured.
        limit: The limit on the same scale, below 0 for changes, above 0 for ``knowledge``; None if
            it was left out.
        answer: PASS, FAIL or INCONCLUSIVE; None if it is not measured.
        is_tolerable: True if it shows no loss, and one of twice the limit is excluded; of
            ``category`` one of 20 points, unless it has too few questions to exclude that.
        shows_loss: True if its interval shows a loss, within the limit or not; of ``category`` that
            of any category.
        worst: End of the interval towards the limit in the worst case of the outcomes that
            vanished.
        group: Name of the category that decides; empty for the other legs.
        reason: Reason for which it is not measured, or cannot pass; empty if there is none.
        of: What ``knowledge`` is a share of.
        subject: What ``accuracy`` is the change of.
    """

    name: LegName
    limit: float | None = None
    value: float | None = None
    interval: Interval | None = None
    answer: Answer | None = None
    is_tolerable: bool = False
    shows_loss: bool = False
    worst: float | None = None
    group: str = ""
    reason: str = ""
    of: Literal["what it clearly knew", "its right answers"] = "what it clearly knew"
    subject: Literal["accuracy", "the mean score"] = "accuracy"

    @property
    def allows(self) -> bool:
        """Can a verdict be PASS with this leg?

        The leg is within the limit, shows no loss, or is not measured.
        """
        return self.answer in (None, "PASS") or self.is_tolerable

    @property
    def shows(self) -> str:
        """Result in a few words."""
        if self.answer == "FAIL":
            return "beyond the limit"
        if self.answer == "PASS":
            return (
                SMALL_LOSS
                if self.shows_loss
                else "no loss shown"
                if self.limit == 0
                else "within the limit"
            )
        if self.is_open_by_vanished:
            return "not clear, because answers vanished"
        if self.shows_loss:
            # Of right answers, an interval beyond the limit is no proof: noise may not be measured,
            # and the share of guesses is estimated.
            low = (self.interval or (0.0, 0.0))[0]
            if self.name == "knowledge" and low > (self.limit or 0.0):
                return "beyond the limit, unless by guessing or noise"
            return "a loss, not clearly beyond the limit"
        return "no loss shown" if self.is_tolerable else "not clear"

    @property
    def is_open_by_vanished(self) -> bool:
        """Do vanished outcomes alone keep the leg open?"""
        if self.limit is None or self.interval is None or self.worst is None:
            return False
        if self.value is None:
            return self.answer != "PASS"
        inside, hidden = (end > self.limit for end in (self.interval[0], self.worst))
        if self.name == "knowledge":
            inside, hidden = self.interval[1] < self.limit, self.worst < self.limit
        return inside and not hidden


@dataclass(frozen=True, kw_only=True)
class RankedCategory:
    """A category that changed, or lost what was known, by more than chance makes categories differ.

    Attributes:
        group: The category.
        interval: Simultaneous interval of its estimate, 1 - .05/G for G categories.
        shrunk: Its net change, shrunk towards that of all, by which categories are ranked; nan if
            they are not.
    """

    group: Group
    interval: Interval
    shrunk: float = math.nan

    @property
    def change(self) -> float:
        """Estimated net change, -1 to 1."""
        return estimated(self.group)[0]

    @property
    def side(self) -> Side:
        """Side of zero on which the interval is, or around it."""
        return side_of_zero(self.interval) or "around"


def legs_of(
    comparison: Comparison, tolerance: Tolerance, *, level: float = 0.95
) -> tuple[Leg, ...]:
    """Legs of a comparison at a level, without those left out."""
    group = comparison.all
    legs = [
        None
        if tolerance.accuracy is None
        else _change_leg("accuracy", [group], -tolerance.accuracy, level),
        None
        if tolerance.known is None
        else knowledge_leg(comparison, group, tolerance.known, level=level),
        None
        if tolerance.category is None
        else category_leg(comparison, -tolerance.category, level),
    ]
    return tuple(leg for leg in legs if leg is not None)


def _may_be_sampling(comparison: Comparison) -> bool:
    right = comparison.all[RIGHT_LOST]
    is_known = comparison.samples > 1 or (right is not None and right.less_noise)
    return bool(comparison.after.get(SAMPLED)) and not is_known


def _change_leg(name: LegName, groups: list[Group], limit: float, level: float = 0.95) -> Leg:
    # It fails if one group does, and passes if all do.
    level_each = 1 - (1 - level) / max(len(groups), 1)
    legs = [
        leg for group in groups if (leg := accuracy_leg(group, limit, level=level_each, name=name))
    ]
    reason = "no item was scored on both sides"
    if name == "category":
        reason = "no category was better than guessing" if legs else "fewer than two categories"
        weak = {group.name for group in groups if group.little_to_lose}
        legs = [leg for leg in legs if leg.answer == "FAIL" or leg.group not in weak]
    if not legs:
        return Leg(name=name, limit=limit, reason=reason)
    # The group that decides: of those that fail the one farthest beyond, of others the one that
    # fell most.
    failed = [leg for leg in legs if leg.answer == "FAIL"]
    blocking = [leg for leg in legs if not leg.allows] or [
        leg for leg in legs if leg.answer == "INCONCLUSIVE"
    ]

    def of_failed(leg: Leg) -> float:
        return math.inf if leg.interval is None else leg.interval[1]

    def of_others(leg: Leg) -> float:
        return -math.inf if leg.value is None else leg.value

    decides = min(failed, key=of_failed) if failed else min(blocking or legs, key=of_others)
    shows_loss = any(leg.shows_loss and leg.answer != "PASS" for leg in legs) or decides.shows_loss
    return replace(decides, shows_loss=shows_loss)


def category_leg(comparison: Comparison, limit: float, level: float = 0.95) -> Leg:
    """Leg of the categories: no category of any size may sink."""
    groups = estimated_categories(comparison)
    made = _change_leg("category", groups, limit, level)
    sunk = next((group for group in comparison.by("category").values() if _sank(group)), None)
    if sunk is None or made.answer == "FAIL":
        return made
    sunk_leg = accuracy_leg(
        sunk, limit, level=1 - (1 - level) / max(len(groups), 1), name="category"
    )
    lost, right = (
        sunk.forgotten + sunk.vanished_right,
        sunk.retained + sunk.forgotten + sunk.vanished_right,
    )
    gone = "have no outcome" if sunk.vanished_right == lost else "are lost"
    reason = f"{count(lost)} of {count(right)} right answers of {one_line(sunk.name)} {gone} and none gained"
    leg = sunk_leg or Leg(name="category", limit=limit, group=sunk.name)
    return replace(leg, answer="INCONCLUSIVE", is_tolerable=False, shows_loss=True, reason=reason)


def _unchanged(group: Group) -> list[Cells]:
    # The group has all answers right, then only those that were.
    size = group.effective_n
    right = size * group.accuracy_before if group.n else size
    return [
        Cells(retained=kept, forgotten=0, gained=0, missed=size - kept) for kept in (size, right)
    ]


def _sank(group: Group) -> bool:
    lost = group.forgotten + group.vanished_right
    sank = lost >= _SUNK and not group.gained and 2 * lost >= group.retained + lost
    return sank and not group.little_to_lose


def accuracy_leg(
    group: Group, limit: float, *, level: float, name: LegName = "accuracy"
) -> Leg | None:
    """Leg of the net change of a group.

    Args:
        group: The group.
        limit: The smallest net change that is tolerated, at most 0.
        level: Level of the interval, 0 to 1.
        name: Name of the leg.

    Returns:
        The leg, or None if nothing was measured.
    """
    estimate = group[NET_ESTIMATE]
    of_estimate, at_worst = (
        None if estimate is None else estimate.interval_at(level, worst=worst)
        for worst in (False, True)
    )
    if estimate is None or of_estimate is None or at_worst is None:
        value, items = group.net_change, max(round(group.effective_n), 2) if group.n else 2
        ends = group.net_change_interval, group.outcomes.net_change_interval_worst
        centre = 0.0 if math.isnan(value) else value  # then the worst case is all that is known
        wider = (at_level(centre, end, level, items) for end in ends)
        interval, bounded = ((max(low, -1.0), min(high, 1.0)) for low, high in wider)
    else:
        interval, bounded, value = of_estimate, at_worst, estimate.change.mean
    worst = bounded[0]
    if math.isnan(interval[0]) and (name == "accuracy" or math.isnan(worst)):
        return None
    if math.isnan(
        interval[0]
    ):  # every outcome of a category vanished: the worst case is all that is known
        interval = worst, 0.0
    low, high = interval
    measured = not math.isnan(value)
    answer: Answer = (
        "FAIL"
        if measured and high < limit
        else "PASS"
        if min(low, worst) > limit
        else "INCONCLUSIVE"
    )
    bound = -max(_BOUND, -4 * limit)
    # A category may be too small to exclude that loss even if no answer changed, were all of them
    # right or not.
    unchanged = min(newcombe(cells, level=level)[0] for cells in _unchanged(group))
    few = answer == "PASS" and group.level == "all" and group.n < FEWEST_ITEMS
    graded = group[GRADED]
    # Vanished outcomes that may hide a loss beyond the limit count as one.
    hidden = worst <= limit and (low > limit or not measured)
    return Leg(
        name=name,
        limit=limit,
        value=value if measured else None,
        interval=interval,
        answer="INCONCLUSIVE" if few else answer,
        is_tolerable=name == "category"
        and answer == "INCONCLUSIVE"
        and not hidden
        and (
            (min(high, bounded[1]) >= 0 and (min(low, worst) > bound or unchanged <= bound))
            or min(low, worst) > 2 * limit
        ),
        shows_loss=high < 0 or hidden,
        worst=worst,
        group=group.name if name == "category" else "",
        subject="accuracy" if graded is None or graded.change is None else "the mean score",
        reason=too_few(group.n) if few else "",
    )


def too_few(questions: float) -> str:
    """Say that a number of questions cannot show that a model kept what it knew."""
    return f"{count(questions)} questions are too few to say that it kept (needed {FEWEST_ITEMS})"


def would_decide(leg: Leg, group: Group) -> str:
    """Number of questions that would decide an open leg of accuracy, as a clause; empty if none."""
    # The interval narrows with the root of the number.
    value, limit = leg.value, leg.limit
    if leg.name != "accuracy" or leg.interval is None or value is None or limit in (None, value):
        return ""
    times = ((leg.interval[1] - leg.interval[0]) / 2 / (value - (limit or 0.0))) ** 2
    if leg.answer != "INCONCLUSIVE" or not 1 < times <= _MOST_TIMES:
        return ""
    needed = math.ceil(times * group.effective_n / 100) * 100
    return f"about {count(needed)} such questions would decide, if the change stays"


def knowledge_leg(
    comparison: Comparison, group: Group, limit: float, *, level: float = 0.95
) -> Leg:
    """Leg of the clearly known items lost, net of luck.

    Of fewer than `FEWEST_TO_KEEP` known items it is the share of the right answers that is lost
    beyond guessing. It is open where flips may be sampling.

    Args:
        comparison: The comparison.
        group: One of its groups.
        limit: The largest share that is tolerated.
        level: Level of the interval.
    """
    leg = _knowledge(group, limit, level)
    if not _may_be_sampling(comparison):
        return leg
    reason = "flips may be sampling: one sample a question; two, or --repeat, would tell"
    return replace(leg, answer="INCONCLUSIVE", is_tolerable=False, reason=reason)


def _knowledge(group: Group, limit: float, level: float) -> Leg:
    known_items, right = group[KNOWN], group[RIGHT_LOST]
    net = None if known_items is None else known_items.known_net
    if (
        known_items is not None
        and net is not None
        and known_items.lost_net_share is not None
        and kept_of([group]) == "known"
    ):
        interval = known_items.lost_net_share_at(level) or (math.nan, math.nan)
        # Known items that vanished are lost in the worst case.
        hidden = hidden_known(group)
        return _share_leg(
            known_items.lost_net_share,
            interval,
            limit,
            known_count=net,
            hidden=hidden,
            can_fail=True,
        )
    if right is not None and right.holds >= HALF:
        if right.share is not None and right.interval is not None and right.least is not None:
            interval = at_level(right.share, right.interval, level)
            can_fail = right.less_noise and right.least > limit
            leg = _share_leg(
                right.share,
                interval,
                limit,
                known_count=right.right,
                hidden=group.vanished_right,
                can_fail=can_fail,
            )
            return replace(leg, of="its right answers")
        reason = f"it knew only {count(max(round(right.right), 0))} answers, too few to judge what it kept"
        return Leg(name="knowledge", limit=limit, answer="INCONCLUSIVE", reason=reason)
    reason = (
        "two options show nothing"
        if net is not None
        else "no options or their probabilities are recorded"
    )
    return Leg(name="knowledge", limit=limit, reason=reason)


def _share_leg(
    share: float,
    interval: Interval,
    limit: float,
    *,
    known_count: float,
    hidden: float,
    can_fail: bool,
) -> Leg:
    # `hidden` more known items may have vanished.
    low, high = interval
    worst = (high * known_count + hidden) / (known_count + hidden)
    answer: Answer = (
        "FAIL" if can_fail and low > limit else "PASS" if worst < limit else "INCONCLUSIVE"
    )
    return Leg(
        name="knowledge",
        limit=limit,
        value=share,
        interval=interval,
        answer=answer,
        is_tolerable=answer == "INCONCLUSIVE" and low <= 0 and worst < 2 * limit,
        shows_loss=low > 0 or high < limit <= worst,
        worst=worst,
    )


def is_beyond(group: Group, loss: float) -> bool | None:
    """Does the net loss of a group surely exceed a loss?

    Returns:
        True, False, or None if the interval holds the loss.
    """
    leg = accuracy_leg(group, -loss, level=0.95)
    return None if leg is None or leg.answer == "INCONCLUSIVE" else leg.answer == "FAIL"


def lost_known(comparison: Comparison, limit: float) -> list[Group]:
    """Categories that surely lost more known items than a share.

    Surely: by intervals that hold for all categories together.
    """
    groups = estimated_categories(comparison)
    level, losses = 1 - 0.05 / max(len(groups), 1), list[tuple[float, Group]]()
    for group in groups:
        known_items = group[KNOWN]
        interval = None if known_items is None else known_items.lost_net_share_at(level)
        if known_items is not None and interval is not None and interval[0] > limit:
            losses.append((-(known_items.lost_net or 0.0), group))
    return [group for _, group in sorted(losses, key=lambda pair: pair[0])]


def at_level(
    value: float, interval: Interval, level: float, observations: int | None = None
) -> Interval:
    """Change the level of a 95 % interval, by Student's t.

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
    """Categories with an estimate of their net change.

    None of them if there is only one, which is the whole.
    """
    groups = [
        group
        for group in comparison.by("category").values()
        if group.n + group.outcomes.vanished >= FEWEST
        and not math.isnan(group.outcomes.net_change_interval_worst[0])
    ]
    return groups if len(groups) > 1 else []


def ranked_categories(comparison: Comparison) -> tuple[tuple[RankedCategory, ...], float]:
    """Rank the categories by shrunk net change, lowest first.

    The test is of "all changed alike".

    There is no ranking unless that p-value is at most `DIFFERENT`.

    Returns:
        The categories, and the p-value of "all changed alike".
    """
    overall, groups = comparison.all[NET_ESTIMATE], estimated_categories(comparison)
    level = 1 - 0.05 / max(len(groups), 1)
    estimates = [
        (group, estimate, interval)
        for group in groups
        if (estimate := group[NET_ESTIMATE]) is not None
        and (interval := estimate.interval_at(level)) is not None
    ]
    if overall is None or len(estimates) < 2:
        return (), math.nan
    changes, errors = (
        np.array([getattr(estimate[1].change, name) for estimate in estimates])
        for name in ("mean", "error")
    )
    between = shrunk(changes, errors, overall=overall.change.mean)
    if not between.p_value <= DIFFERENT:
        return (), between.p_value
    ranked = [
        RankedCategory(group=group, interval=interval, shrunk=float(change))
        for (group, _, interval), change in zip(estimates, between.values, strict=True)
    ]
    return tuple(sorted(ranked, key=lambda category: category.shrunk)), between.p_value


def worst(answers: Iterable[Answer]) -> Answer:
    """Worst of some answers: FAIL, then INCONCLUSIVE, then PASS."""
    return min(answers, key=("FAIL", "INCONCLUSIVE", "PASS").index)


def side_of_zero(interval: Interval | None) -> Side | None:
    """Side of zero on which an interval is.

    Returns:
        The side, or around; None without an interval.
    """
    if interval is None or math.isnan(interval[0]):
        return None
    low, high = interval
    return "below" if high < 0 else "above" if low > 0 else "around"


def estimated(group: Group) -> tuple[float, Interval]:
    """Net change of a group, and 95 % interval.

    From the estimate, or from the flips for too few items.
    """
    estimate = group[NET_ESTIMATE]
    if estimate is None or estimate.interval is None:
        return group.net_change, group.net_change_interval
    return estimate.change.mean, estimate.interval


def leg_interval(group: Group, categories: int) -> Interval:
    """Interval of the net change of a group, at the level of the leg.

    95 %, or 1 - .05/G of one of G categories.
    """
    many = categories if group.level == "category" else 1
    leg = accuracy_leg(group, 0.0, level=1 - 0.05 / max(many, 1), name="category")
    return group.net_change_interval if leg is None or leg.interval is None else leg.interval
