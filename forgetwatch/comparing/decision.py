"""The decision on a comparison, or on a run at its last look: its word, its sentence, and what is next.

    FORGOT      about 29 % of what it knew is gone (21 to 37 %)
                limit 5 %; lost 55 of about 187 clearly known, guesses left out
    KEPT        accuracy fell by at most 1.2 points (limit 2)
                at most 3.1 % of 187 clearly known are gone (limit 5 %), 95 % sure
    NOT CLEAR   accuracy may have fallen up to 4.2 points (limit 2)
                no loss of what it knew is shown; ask 1,000 questions

`decide` is the one place that knows the cases of a verdict, whose legs are those of
`comparing.verdict`. Every output prints `Decision.word`, its claim and its basis, and does what
`Decision.next` says, so that no two of them disagree. A claim follows its word: it begins in lower
case and has no full stop. Every bound is the end of an interval.

Passages decide nothing: where there is nothing else, there is no verdict.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.trajectory import Alarm, Trajectory, this_stage
from forgetwatch.comparing.verdict import (
    FEWEST_ITEMS,
    TOLERANCE,
    Answer,
    Leg,
    LegName,
    RankedCategory,
    Tolerance,
    estimated,
    estimated_categories,
    is_beyond,
    legs_of,
    lost_known,
    ranked_categories,
    side_of_zero,
    would_decide,
)
from forgetwatch.measures.estimate import NET_ESTIMATE
from forgetwatch.measures.known_items import KNOWN, KnownItems, net_of_luck
from forgetwatch.measures.measured_again import FORM, RIGHT_LOST
from forgetwatch.measures.option_mass import CONSTANT_MASS
from forgetwatch.metrics.margin_change import FEWEST
from forgetwatch.run_folder.description import GuardFinding
from forgetwatch.snapshot import MOST_NOT_FINITE
from forgetwatch.text import count, listed, one_line, short_name

Word = Literal["KEPT", "FORGOT", "NOT CLEAR", "NO VERDICT"]
Next = Literal[
    "nothing", "measure", "measure twice", "measure the end", "vanished", "measure or mend", "mend"
]
State = Literal["lasting", "unclear", "recovered"]


_GAINED: Final = "on balance it gained"

_SIZES: Final = (250, 500, 1000)
"""First items of a shipped probe that are a sample of it."""
_LEVEL: Final = 0.95
_CEILING: Final = 0.85
"""Share of right answers before, above which questions are too easy to show a small loss."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What is said about a comparison.

    Attributes:
        word: KEPT, FORGOT or NOT CLEAR; NO VERDICT where nothing was compared.
        answer: PASS, FAIL or INCONCLUSIVE, for machines.
        claim: What decides, with its interval or bound.
        basis: Its limit and what it is counted over, or what else was measured; empty for a claim
            that needs none.
        legs: The legs that it follows from: accuracy, knowledge, category.
        reasons: What else a reader must know, such as categories that are too small to judge.
        next: What to do: ``nothing``; ``measure`` more questions, the base a second time (``measure
            twice``), or the model that a training left (``measure the end``); find out why answers
            ``vanished``; ``mend`` a loss, which ``measure or mend`` does not yet show to be too
            large.
        deciding: Name of the leg that decides; None without one.
    """

    word: Word
    answer: Answer
    claim: str
    basis: str = ""
    legs: tuple[Leg, ...] = ()
    reasons: tuple[str, ...] = ()
    next: Next = "nothing"
    deciding: LegName | None = None

    @property
    def sentence(self) -> str:
        """Claim and basis in one sentence."""
        return "; ".join(filter(None, (self.claim, self.basis)))

    @property
    def bound(self) -> str:
        """What was lost at most, by the first measured leg.

        What vanished counts as lost.
        """
        knowledge, accuracy = self.leg("knowledge"), self.leg("accuracy")
        if knowledge is not None and knowledge.interval is not None and knowledge.worst is not None:
            low, high = knowledge.interval[0], max(knowledge.worst, 0.0)
            return f"{percent_range(low, high) if low > 0 else f'at most {round_percent(high)}'} % lost"
        if accuracy is not None and accuracy.worst is not None:
            fell = f"fell by at most {_points(min(accuracy.worst, 0.0))} points"
            return f"{accuracy.subject} {fell}"
        return self.word

    def leg(self, name: LegName) -> Leg | None:
        """Leg of a name.

        Returns:
            The leg, or None if it was left out.
        """
        return next((leg for leg in self.legs if leg.name == name), None)


@dataclass(frozen=True, kw_only=True)
class RaisedAlarm:
    """The first alarm of a group, and what became of it.

    Attributes:
        alarm: The alarm.
        now: The same test at the last look.
        state: ``lasting`` if the group is below zero at the last look, by its 95 % interval;
            ``recovered`` if it is at or above its start, unless vanished outcomes may hide that it
            is below; ``unclear`` in between.
        told: The state in a few words; empty for a loss that lasts beyond its limit.
    """

    alarm: Alarm
    now: Alarm
    state: State
    told: str


@dataclass(frozen=True, kw_only=True)
class Conclusion:
    """Everything that an output states about a comparison, or about a run at its last look.

    Attributes:
        decision: The decision on this look alone.
        categories: Number of categories with an estimate; 0 if there is only one, which is the
            whole.
        ranked: The categories, the largest fall first; empty where they differ by no more than
            chance.
        differ_p_value: p-value of "all categories changed alike"; nan for fewer than two.
        alarms: Alarms over all looks and groups, by step.
        findings: Findings of the guard, in the order in which they were made.
        tolerance: Losses that the decision tolerates.
    """

    decision: Decision
    categories: int
    ranked: tuple[RankedCategory, ...]
    differ_p_value: float
    alarms: tuple[RaisedAlarm, ...] = ()
    findings: tuple[GuardFinding, ...] = ()
    tolerance: Tolerance = TOLERANCE

    @property
    def has_answers(self) -> bool:
        """Does the comparison have answers, not passages alone?"""
        return self.decision.word != "NO VERDICT"

    @property
    def lost(self) -> tuple[RankedCategory, ...]:
        """Ranked categories that surely fell, the largest fall first."""
        return tuple(category for category in self.ranked if category.side == "below")


def decide(
    comparison: Comparison,
    limits: Tolerance = TOLERANCE,
    *,
    chosen_among: int = 0,
    not_finite_since: int | None = None,
    level: float = _LEVEL,
) -> Decision:
    """Decide whether a comparison shows that too much was forgotten.

    Args:
        comparison: The comparison.
        limits: Losses that are tolerated.
        chosen_among: Number of looks among which these questions chose the one that is compared; 0
            for none.
        not_finite_since: Step from which on the outputs of a run are not finite; None if unknown.
        level: Level of each leg's interval, 0 to 1.
    """
    group, legs = comparison.all, legs_of(comparison, limits, level=level)
    broken = not_finite(group, since=not_finite_since)
    if not group.n and broken:
        return Decision(
            word="NOT CLEAR", answer="INCONCLUSIVE", claim=broken, legs=legs, next="mend"
        )
    if not group.n:
        passages = bool(group.passages) and not group.outcomes.vanished
        text = "passages alone were compared, and they have no right answer"
        return Decision(
            word="NO VERDICT",
            answer="INCONCLUSIVE",
            claim=text if passages else "no item was scored on both sides",
            legs=legs,
        )
    failed = sorted(
        (leg for leg in legs if leg.answer == "FAIL"), key=lambda leg: leg.name != "knowledge"
    )
    reasons = _reasons(comparison, limits, failed)
    if chosen_among > 1:
        reasons.append(
            f"chosen among {chosen_among} looks by these questions: about 1 to 2 points too good"
        )
    sure = f"{100 * level:.4g} %"
    decision_of = partial(Decision, legs=legs, reasons=tuple(reasons))
    if failed:
        claim, basis = (broken, "") if broken else _forgot(comparison, failed[0])
        basis += "" if level == _LEVEL else f", {sure} sure"
        return decision_of(
            word="FORGOT",
            answer="FAIL",
            claim=claim,
            basis=basis,
            next="mend",
            deciding=failed[0].name,
        )
    if broken or (start := at_start(group)):
        return decision_of(word="NOT CLEAR", answer="INCONCLUSIVE", claim=broken or start)
    # If accuracy is left out, one of the others has to be measured.
    blocking = [
        leg for leg in legs if not leg.allows or (leg.name == "accuracy" and leg.answer != "PASS")
    ]
    deciding = next((leg.name for leg in (*blocking, *legs)), None)
    if deciding == "accuracy" and group.n >= FEWEST_ITEMS and (easy := too_easy(group)):
        decision_of = partial(decision_of, reasons=(easy, *reasons))
    if not blocking and any(leg.answer == "PASS" for leg in legs):
        claim, basis = _kept(comparison, legs, sure)
        return decision_of(word="KEPT", answer="PASS", claim=claim, basis=basis, deciding=deciding)
    claim, basis = _not_clear(comparison, legs, blocking)
    next_step = _next(comparison, blocking)
    return decision_of(
        word="NOT CLEAR",
        answer="INCONCLUSIVE",
        claim=claim,
        basis=basis,
        next=next_step,
        deciding=deciding,
    )


def decide_run(
    trajectory: Trajectory, limits: Tolerance = TOLERANCE, *, level: float = 0.95
) -> Decision:
    """Decide whether a training's model has forgotten too much.

    Args:
        trajectory: The run, whose delivered look decides; without a look of what it left nothing is
            KEPT.
        limits: Losses that are tolerated.
        level: Level of each leg's interval, 0 to 1.
    """
    since = None
    for step, look in zip(trajectory.steps, trajectory.comparisons, strict=True):
        if not _is_broken(look.all):
            since = None
        elif since is None:
            since = step
    decision_at_end, gap = (
        decide(trajectory.final, limits, not_finite_since=since, level=level),
        unmeasured(trajectory),
    )
    if not gap:
        return decision_at_end
    if decision_at_end.answer == "FAIL":
        return replace(decision_at_end, reasons=(gap, *decision_at_end.reasons))
    word = decision_at_end.word if decision_at_end.word == "NO VERDICT" else "NOT CLEAR"
    return replace(
        decision_at_end,
        word=word,
        answer="INCONCLUSIVE",
        claim=gap,
        basis="",
        next="measure the end",
    )


def unmeasured(trajectory: Trajectory) -> str:
    """Explain why the looks do not show the model left.

    Returns:
        The reason, or an empty text if they do.
    """
    stage = this_stage(trajectory)
    ending, last_step = stage.ending, stage.steps[-1]
    if ending is None or ending.delivered in stage.steps:
        return ""
    if failed := [cause for step, cause in ending.failed if step > last_step]:
        looks = f"{len(failed)} look{'s'[: len(failed) != 1]} failed"
        return f"not measured since step {last_step:,}: {looks} ({one_line(failed[-1])})"
    if ending.state == "running":
        return ""
    if ending.delivered is None:
        return (
            f"the weights that are left were not measured; the last look is of step {last_step:,}"
        )
    return f"the weights of step {ending.delivered:,} were not measured; the last look is of step {last_step:,}"


def _is_broken(group: Group) -> bool:
    return group.outcomes.not_finite > MOST_NOT_FINITE * _outputs(group)


def _outputs(group: Group) -> float:
    return group.n + (group.passages or 0) + group.outcomes.passages_not_finite


def not_finite(group: Group, *, since: int | None = None) -> str:
    """Sentence on outputs that are not finite.

    Returns:
        The sentence, or an empty text for at most a small share.
    """
    if not _is_broken(group):
        return ""
    from_step = "" if since is None else f" since step {since:,}"
    counts = f"{count(group.outcomes.not_finite)} of {count(_outputs(group))} {'answers' if group.n else 'passages'}"
    return f"the model's outputs are not finite{from_step} ({counts})"


def _reasons(comparison: Comparison, limits: Tolerance, failed: list[Leg]) -> list[str]:
    reasons = [*_too_few(comparison), *_no_better_than_guessing(comparison)]
    reasons += filter(None, (form_alone(comparison.all), part_of_wording(comparison)))
    if (category_losses := _where_known(comparison, limits)) and not (
        failed and failed[0].name == "knowledge"
    ):
        reasons.append(f"much of what it clearly knew is lost in {category_losses}")
    return reasons


def too_easy(group: Group) -> str:
    """Sentence on a model near the ceiling before.

    Returns:
        The sentence, or an empty text.
    """
    if not group.accuracy_before > _CEILING:
        return ""
    right = f"{100 * group.accuracy_before:.0f} % right"
    return f"it answered {right}: too easy to show a small loss"


def at_start(group: Group) -> str:
    """Sentence on a model not shown to be better than guessing.

    Returns:
        The sentence, or an empty text.
    """
    if not group.little_to_lose:
        return ""
    right, scored = group.right_before
    if not right:
        return f"before training it answered none of {count(scored)} questions right: there is nothing to forget here"
    counts = f"{100 * right / scored:.0f} % right of {count(scored)}, {100 * group.guess_accuracy:.0f} % by chance"
    return f"before training it was not shown to be better than guessing ({counts})"


def conclude(
    comparison: Comparison,
    *,
    trajectory: Trajectory | None = None,
    tolerance: Tolerance = TOLERANCE,
) -> Conclusion:
    """Collect everything that an output states about a comparison.

    Args:
        comparison: The comparison; of a run, its delivered look against its baseline.
        trajectory: The run, if there is one.
        tolerance: Losses that the decision tolerates.
    """
    decision = (
        decide(comparison, tolerance) if trajectory is None else decide_run(trajectory, tolerance)
    )
    ranked, p_value = ranked_categories(comparison)
    return Conclusion(
        decision=decision,
        categories=len(estimated_categories(comparison)),
        ranked=ranked,
        differ_p_value=p_value,
        alarms=() if trajectory is None else _raised_alarms(trajectory, decision),
        findings=() if trajectory is None else trajectory.findings,
        tolerance=tolerance,
    )


# Sentences


def _forgot(comparison: Comparison, leg: Leg) -> tuple[str, str]:
    if leg.interval is None or leg.value is None:
        return "", ""
    low, high = leg.interval
    if leg.name == "category":
        of = comparison.by("category")[leg.group]
        lost = f"{count(of.forgotten)} of {count(of.n)} lost, {count(of.gained)} gained"
        claim = f"{short_name(leg.group)} fell by about {_points(leg.value)} points ({_range(leg)})"
        return claim, f"limit {_limit(leg)} points for each category; {lost}"
    if leg.name == "accuracy":
        claim = f"{leg.subject} fell by about {_points(leg.value)} points ({_range(leg)})"
        estimate = comparison.all[NET_ESTIMATE]
        how = (
            ""
            if estimate is None or estimate.rule is None
            else "; estimated: each answer counts by how far it moved"
        )
        return claim, f"limit {_limit(leg)} points{how}"
    limit, known_items = f"limit {_limit(leg)}", comparison.all[KNOWN]
    share = f"about {round_percent(leg.value)} %"
    between = f"({percent_range(low, min(high, 1.0))} %)"
    if known_items is None or leg.of == "its right answers":
        return (
            f"{share} of its right answers are gone {between}",
            f"{limit}; beyond guessing and noise",
        )
    if leg.value >= 1:  # less luck, the lost can be more than the known
        share, between = "all", ""
    counted = f"lost {less_luck(known_items).replace(' of ', ' of about ')} clearly known, guesses left out"
    return f"{share} of what it knew is gone {between}".rstrip(), f"{limit}; {counted}"


def less_luck(known_items: KnownItems) -> str:
    """Lost and known answers without luck, as ``48 of 180``."""
    net = net_of_luck(known_items)
    lost = (
        "0"
        if (known_items.lost_net or 0.0) <= 0
        else count(known_items.known_lost)
        if net is None
        else net.net
    )
    return f"{lost} of {count(round(known_items.known_net or 0))}"


def _where_known(comparison: Comparison, limits: Tolerance) -> str:
    """Categories that surely lost more known items than the limit, net of luck."""
    if limits.known is None:
        return ""
    losses = [
        f"{short_name(group.name)} ({less_luck(known_items)})"
        for group in lost_known(comparison, limits.known)
        if (known_items := group[KNOWN]) is not None
    ]
    return listed(losses) if losses else ""


def _kept(comparison: Comparison, legs: tuple[Leg, ...], sure: str) -> tuple[str, str]:
    # The first bound on a loss, the others and how sure they are.
    knowledge = next((leg for leg in legs if leg.name == "knowledge"), None)
    bound, *further = _bounds(comparison, legs) or ["no category is beyond its limit"]
    alone = (
        [f"by accuracy alone: {knowledge.reason}"]
        if knowledge is not None and knowledge.answer is None
        else []
    )
    return bound, ", ".join([*further, f"{sure} sure", *alone])


def _bounds(comparison: Comparison, legs: Sequence[Leg]) -> list[str]:
    phrases = []
    for leg in legs:
        if leg.interval is None or leg.worst is None or leg.name == "category":
            continue
        limit = f" (limit {_limit(leg)})"
        if leg.name == "accuracy":
            rose, fell = (
                f"rose by at least {_points(leg.worst)} points",
                f"fell by at most {_points(leg.worst)} points",
            )
            phrases.append(f"{leg.subject} {rose if leg.worst > 0 else f'{fell}{limit}'}")
            continue
        known_items, of = (
            comparison.all[KNOWN],
            leg.of.replace("what it clearly knew", "what it knew"),
        )
        if known_items is not None and leg.of != "its right answers":
            of = f"{count(round(known_items.known_net or 0))} clearly known"
        if leg.answer != "PASS":  # a bound beyond the limit is no loss that is shown
            limit = ", none shown"
        phrase = f"at most {round_percent(leg.worst)} % of {of} are gone{limit}"
        if leg.answer == "PASS" and leg.interval[0] > 0 and leg.value is not None:
            phrase = f"{round_percent(leg.value)} % of {of} are gone, at most {round_percent(leg.worst)} %{limit}"
        phrases.append(phrase if leg.worst > 0 else f"none of {of} is gone beyond luck")
    return phrases


def _not_clear(
    comparison: Comparison, legs: tuple[Leg, ...], blocking: list[Leg]
) -> tuple[str, str]:
    rest = [leg for leg in legs if leg not in blocking]
    if not blocking:  # nothing that was asked for is measured
        blocking, rest = list(legs), []
    parts = [_unclear(leg, comparison) for leg in blocking]
    if any(
        leg.name == "accuracy" and leg.interval is not None and leg.interval[0] > 0 for leg in rest
    ):
        rest = [leg for leg in rest if leg.name != "accuracy"]
        parts[0] = f"{_GAINED}; {parts[0]}"
    larger = _larger(comparison) or (
        would_decide(blocking[0], comparison.all) if len(blocking) == 1 else ""
    )
    return parts[0], "; ".join(
        [*parts[1:], *_bounds(comparison, rest), *([larger] if larger else [])]
    )


def _larger(comparison: Comparison) -> str:
    probe = comparison.after.get("probe") or {}
    of, evaluated = probe.get("of"), comparison.items.compared
    if not of:
        return ""
    return f"ask {count(next((size for size in _SIZES if evaluated < size < of), of))} questions"


def _next(comparison: Comparison, blocking: list[Leg]) -> Next:
    if blocking and all(leg.is_open_by_vanished for leg in blocking):
        return "vanished"
    losing, right = [leg for leg in blocking if leg.shows_loss], comparison.all[RIGHT_LOST]
    if (
        right is not None
        and not right.less_noise
        and any(leg.of == "its right answers" for leg in losing)
    ):
        return "measure twice"
    return "measure or mend" if losing else "measure"


def _unclear(leg: Leg, comparison: Comparison) -> str:
    group = comparison.all
    if leg.reason:
        return f"{leg.name} is not measured: {leg.reason}" if leg.answer is None else leg.reason
    if leg.interval is None or leg.worst is None:
        return f"{leg.name} is not measured"
    vanished = "; answers have vanished" if leg.is_open_by_vanished else ""
    limit = f"(limit {_limit(leg)}{vanished})"
    if leg.name == "knowledge":
        low, high = max(leg.interval[0], 0.0), min(max(leg.worst, leg.interval[1]), 1.0)
        if leg.of == "its right answers" and low > (leg.limit or 0.0):
            return _unexplained(group)
        of = leg.of.replace("clearly ", "")
        if leg.shows_loss and low > 0:
            return f"lost {percent_range(low, high)} % of {of} {limit}"
        return f"may have lost up to {round_percent(high)} % of {of} {limit}"
    subject = short_name(leg.group) or leg.subject
    most, least = min(leg.worst, leg.interval[0]), leg.interval[1]
    if least < 0:
        return f"{subject} fell by {_points(least)} to {_points(most)} points {limit}"
    if leg.name == "category" and not leg.is_open_by_vanished:
        questions = count(comparison.by("category")[leg.group].n)
        return f"{subject} ({questions} questions) may have lost {_points(most)} points"
    return f"{subject} may have fallen up to {_points(most)} points {limit}"


def _unexplained(group: Group) -> str:
    right_lost = group[RIGHT_LOST]
    lost = group.forgotten / (group.retained + group.forgotten)
    phrase = f"{round_percent(lost)} % of its right answers are now wrong"
    if right_lost is not None and not math.isnan(right_lost.by_guessing):
        phrase += f", about {round_percent(right_lost.by_guessing)} % of these by guessing"
    return (
        phrase
        if right_lost is not None and right_lost.less_noise
        else f"{phrase}; score the base twice (--repeat) to see the noise"
    )


def _too_few(comparison: Comparison) -> list[str]:
    too_small = []
    for group in comparison.by("category").values():
        lost = group.forgotten + group.vanished_right
        if lost and group.n + group.outcomes.vanished < FEWEST:
            too_small.append(
                f"{short_name(group.name)} ({count(lost)} of {count(group.retained + lost)} lost)"
            )
    return [f"too few to judge: {listed(too_small)}"] if too_small else []


def _no_better_than_guessing(comparison: Comparison) -> list[str]:
    weak = [group for group in estimated_categories(comparison) if group.little_to_lose]
    rights = [" of ".join(map(count, group.right_before)) for group in weak]
    named = [
        f"{short_name(group.name)} ({right})" for group, right in zip(weak, rights, strict=True)
    ]
    return [f"little right before, so little to lose: {listed(named)}"] if named else []


def form_alone(group: Group) -> str:
    """Phrase for losses of form, at least half of all.

    Returns:
        The phrase, or an empty text.
    """
    lost = group.forgotten
    if not lost:
        return ""
    if (form := group[FORM]) is not None and form.format_lost:
        only_form = lost - form.knowledge_lost
        if 2 * only_form >= lost:
            return f"{count(only_form)} of the {count(lost)} lost answers lost only their form"
    kept = group[CONSTANT_MASS]
    if kept is not None and 2 * kept <= lost:
        return f"{count(lost - kept)} of the {count(lost)} lost answers by the length of the options alone"
    return ""


def part_of_wording(comparison: Comparison) -> str:
    """Phrase for the part of the change that is wording.

    Returns:
        The phrase, or an empty text unless wordings changed differently.
    """
    by_wording = comparison.wordings
    return (
        f"part of it is the wording ({by_wording})"
        if by_wording is not None and by_wording.differ
        else ""
    )


def _range(leg: Leg) -> str:
    # Smaller loss first, without signs where both ends are losses.
    if leg.interval is None:
        return ""
    low, high = leg.interval
    if high < 0:
        return f"{_points(high)} to {_points(low)}"
    return f"{100 * low:+.1f} to {100 * high:+.1f}"


def _limit(leg: Leg) -> str:
    if leg.limit is None:
        return ""
    return f"{round_percent(leg.limit)} %" if leg.name == "knowledge" else _points(leg.limit)


def _points(change: float) -> str:
    size = abs(100 * change)
    return f"{size:.0f}" if size >= 10 or abs(size - round(size)) < 1e-9 else f"{size:.1f}"


def percent_range(low: float, high: float) -> str:
    """Format an interval of shares in percent, as ``2 to 10``."""
    digits = int(high < 0.0995)
    return f"{100 * low:.{digits}f} to {100 * high:.{digits}f}"


def round_percent(share: float) -> str:
    """Format a share in percent, whole from 10 on."""
    size = 100 * share
    return f"{size:.0f}" if abs(size) >= 10 or abs(size - round(size)) < 1e-9 else f"{size:.1f}"


# Alarms


def _raised_alarms(trajectory: Trajectory, decision: Decision) -> tuple[RaisedAlarm, ...]:
    # Each alarm with the same test at the look that decides.
    tests, final = trajectory.verdicts(), this_stage(trajectory).final_step
    last_tests = {
        (test.kind, test.group.level, test.group.name): test for test in tests if test.step == final
    }
    raised = []
    for alarm in trajectory.alarms():
        # A group without answers at that look has no test there: the alarm is the last that is
        # known of it.
        now = last_tests.get((alarm.kind, alarm.group.level, alarm.group.name), alarm)
        state = _state(now)
        sentence = _told(now, state, decision) if alarm.step <= final else "not in these weights"
        raised.append(RaisedAlarm(alarm=alarm, now=now, state=state, told=sentence))
    return tuple(sorted(raised, key=lambda alarm_raised: alarm_raised.alarm.step))


def _state(alarm: Alarm) -> State:
    if alarm.kind == "known":
        known_items = alarm.group[KNOWN]
        share = None if known_items is None else known_items.lost_net_share_interval
        return "unclear" if share is None else "lasting" if share[0] > 0 else "recovered"
    change, interval = estimated(alarm.group)
    if side_of_zero(interval) == "below":
        return "lasting"
    hidden = side_of_zero(alarm.group.outcomes.net_change_interval_worst) == "below"
    return "recovered" if change >= 0 and not hidden else "unclear"


def _told(alarm: Alarm, state: State, decision: Decision) -> str:
    if state == "recovered":
        return "recovered"
    leg = decision.leg(
        "knowledge"
        if alarm.kind == "known"
        else "accuracy"
        if alarm.group.level == "all"
        else "category"
    )
    if leg is not None and leg.limit is not None:
        within = (
            leg.answer == "PASS"
            if alarm.kind == "known"
            else is_beyond(alarm.group, -leg.limit) is False
        )
        if within:
            return "within the limit now"
    return "not clear now" if state == "unclear" or decision.word == "KEPT" else ""
