"""First screen of a report, and the sentences below its fold: the same in page, Markdown and notebook.

    verdict      KEPT, FORGOT or NOT CLEAR with its one sentence (`report.decision`)
    facts        accuracy, questions, clearly known items, passages, the new task, alarms, guard: one line each
    worst        the categories that fell most, or the sentence that categories differ by no more than chance
    lost         three lost questions of the worst category, with both answers

The verdict is stated once. Whatever else names a loss gives its limit beside it, so that no sentence contradicts the
verdict. Each sentence is complete without the tables below.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from forgetwatch.comparing import (
    TOLERANCE,
    Alarm,
    Comparison,
    Conclusion,
    Flip,
    Group,
    Leg,
    LegName,
    RaisedAlarm,
    RankedCategory,
    Tolerance,
    Trajectory,
    conclude,
    estimated,
    side_of_zero,
)
from forgetwatch.measures import (
    KNOWN,
    NET_ESTIMATE,
    PASSAGES,
    net_of_luck,
)
from forgetwatch.metrics import Interval
from forgetwatch.pairing import (
    between,
    count,
    items,
    listed,
    one_line,
    passages,
    percent,
    points,
)
from forgetwatch.report.decision import alarm_state, decision, luck_phrase, model_names
from forgetwatch.report.flip_list import Lost, lost_examples
from forgetwatch.report.sections import NOT_MEASURED, capital, not_measured, sections

NO_VERDICT: Final = "NO VERDICT"
WORST: Final = 5
"""Categories among the worst."""


class Worst(NamedTuple):
    """One of the categories that fell most, as text."""

    name: str
    change: str
    interval: str
    forgotten: str
    gained: str
    n: str


WORST_HEADINGS: Final = Worst("category", "net change, points", "interval", "forgotten", "gained", "of")


class LegRow(NamedTuple):
    """One leg of the verdict, as text."""

    what: str
    measured: str
    interval: str
    limit: str
    result: str


LEG_HEADINGS: Final = LegRow("what", "measured", "interval", "limit", "result")


@dataclass(frozen=True, kw_only=True)
class Summary:
    """First screen of a report, and the sections below it.

    Attributes:
        heading: (text, is a name) pieces of the line on what is compared.
        word: Word of the verdict; `NO_VERDICT` if there is none.
        sentence: Its sentence.
        facts: (name, text) of the rows of the small table.
        worst: The categories that fell most; empty where they are not ranked, or none fell.
        worst_note: Sentence on the ranking; empty for fewer than two categories.
        lost_of: Category of the lost questions; empty for all.
        lost: The lost questions.
        legs: Legs of the verdict.
        sections: (heading, text) of each section.
    """

    heading: tuple[tuple[str, bool], ...]
    word: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    worst: tuple[Worst, ...]
    worst_note: str
    lost_of: str
    lost: tuple[Lost, ...]
    legs: tuple[LegRow, ...]
    sections: tuple[tuple[str, str], ...]

    @property
    def lost_title(self) -> str:
        """Heading of the lost questions."""
        return f"Lost questions of {one_line(self.lost_of)}" if self.lost_of else "Lost questions"


def summary(
    comparison: Comparison,
    *,
    changed: Sequence[Flip] = (),
    trajectory: Trajectory | None = None,
    tolerance: Tolerance = TOLERANCE,
    name: str = "",
) -> Summary:
    """First screen of a comparison, or of a run at its last look, with examples of the items whose answer changed.

    `name` is that of the run.
    """
    heading = _heading(*model_names(comparison), name)
    last = (NOT_MEASURED, not_measured(comparison, trajectory))
    if trajectory is not None and len(trajectory) == 1:
        return Summary(
            heading=((name or model_names(comparison)[0], True), (" at its start", False)),
            word=NO_VERDICT,
            sentence="no look was taken after the start, so nothing is compared yet",
            facts=(("questions", f"{count(comparison.all.n)}; right: {percent(comparison.all.accuracy_before)} %"),),
            worst=(),
            worst_note="",
            lost_of="",
            lost=(),
            legs=(),
            sections=(last,),
        )
    found = conclude(comparison, trajectory=trajectory, tolerance=tolerance)
    fell = found.lost or tuple(one for one in found.ranked if one.change < 0)
    lost_of, lost = lost_examples(changed, fell[0].group.name if fell else "")
    return Summary(
        heading=heading,
        word=found.verdict.word if found.has_answers and found.whole is not None else NO_VERDICT,
        sentence=decision(comparison, found),
        facts=tuple(_facts(comparison, found, trajectory)),
        worst=tuple(_worst(one, found) for one in fell[:WORST]),
        worst_note=_worst_note(found, any_fell=bool(fell)),
        lost_of=lost_of,
        lost=lost,
        legs=tuple(_leg(leg) for leg in found.verdict.legs) if found.has_answers else (),
        sections=(*sections(comparison, found, trajectory), last),
    )


def _heading(before: str, after: str, name: str) -> tuple[tuple[str, bool], ...]:
    sides = [re.fullmatch(r"(.+) at step (\d+)", label, re.DOTALL) for label in (before, after)]
    if sides[0] and sides[1] and (name or sides[0][1] == sides[1][1]):
        steps = f" from step {int(sides[0][2]):,} to step {int(sides[1][2]):,}"
        return ("What changed in ", False), (name or sides[0][1], True), (steps, False)
    return ("What changed from ", False), (before, True), (" to ", False), (after, True)


# Facts


def _facts(comparison: Comparison, found: Conclusion, trajectory: Trajectory | None) -> list[tuple[str, str]]:
    whole, rows = comparison.all, list[tuple[str, str]]()
    if found.has_answers and found.whole is not None:
        sides = f"{percent(whole.accuracy_before)} → {percent(whole.accuracy_after)} %"
        rows += [("accuracy", f"{sides}; {_net(whole)}{_against(found.verdict.leg('accuracy'))}")]
        rows += [("questions", _questions(whole)), *_vanished(whole, found), *_known(whole)]
    read = whole[PASSAGES]
    if read is not None:
        before, after, change = (
            PASSAGES.cells(read)[f"bits_per_byte_{name}"] for name in ("before", "after", "change")
        )
        moved = f"{before} → {after} bits per byte; change {change}{_predicts(read.change.interval)}"
        rows.append((passages(read.passages), moved))
    if trajectory is None:
        return rows
    if trajectory.task is not None:
        rows.append(("new task", str(trajectory.task)))
    if found.is_run and found.has_answers:
        rows.append(("alarms", _alarms(found)))
    if found.trips:
        rows.append(("guard", _guard(found)))
    return rows


def _predicts(interval: Interval) -> str:
    """Clause on the side of zero of a change of bits per byte."""
    side = side_of_zero(interval)
    return {"above": ", harder to predict", "below": ", easier to predict"}.get(side or "", "")


def _net(group: Group) -> str:
    """Phrase for the net change of all items; an estimate by margins need not be the difference of the two sides."""
    value, interval = estimated(group)
    found = group[NET_ESTIMATE]
    how = "net change" if found is None or found.rule is None else "estimated net change"
    return f"{how} {points(value)} points ({between(interval, points)})"


def _questions(whole: Group) -> str:
    """Phrase for the number of flips, and of those that measuring the same weights twice makes."""
    text = f"{count(whole.forgotten)} of {count(whole.n)} forgotten, {count(whole.gained)} gained"
    if whole.null_lost is None or whole.null_gained is None:
        return text
    again = whole.null_lost + whole.null_gained
    return f"{text}; measuring alone changes {count(again) if again else 'none'}"


def _vanished(whole: Group, found: Conclusion) -> list[tuple[str, str]]:
    """Row on the outcomes that vanished, and the change that is possible if they are lost; none if there are none."""
    if not whole.vanished:
        return []
    leg = found.verdict.leg("accuracy")
    text = f"{count(whole.vanished)} of {items(whole.n + whole.vanished)} have an answer on one side alone"
    at_worst = "" if leg is None or leg.worst is None else f"; net change at worst {points(leg.worst)} points"
    return [("vanished", text + at_worst)]


def _known(whole: Group) -> list[tuple[str, str]]:
    """Row on the clearly known items; none if none is known."""
    known = whole[KNOWN]
    if known is None or not known.known:
        return []
    text = f"{count(known.known_lost)} of {count(known.known)} now wrong"
    if net_of_luck(known) is None:
        return [("clearly known", f"{text}; how many of them were lucky guesses is not measured")]
    text += luck_phrase(whole)
    if known.newly_known_net is not None:
        text += f"; {count(max(round(known.newly_known_net), 0))} newly known"
    return [("clearly known", text)]


def _against(leg: Leg | None) -> str:
    """Clause on the limit of a leg; empty if it has none."""
    if leg is None or leg.limit is None:
        return ""
    is_small_loss = leg.answer == "PASS" and leg.value is not None and leg.value < 0
    return f", {'within the limit of' if is_small_loss else 'limit'} {_limit(leg)}"


def _limit(leg: Leg) -> str:
    """Limit of a leg with its unit; of a change with its sign."""
    return f"{100 * (leg.limit or 0.0):g} {'%' if leg.name == 'knowledge' else 'points'}"


def _alarms(found: Conclusion) -> str:
    """First alarm of each group under its state at the last look, or what was tested."""
    looks, categories = found.looks or 0, found.groups - 1
    if not found.alarms:
        over = f"{count(looks)} look{'' if looks == 1 else 's'} of all questions"
        return f"none, over {over}" + (f" and of {count(categories)} categories" if categories > 0 else "")
    by_state: dict[str, list[str]] = {}
    for one in sorted(found.alarms, key=lambda one: one.alarm.group.level != "all"):
        by_state.setdefault(_state(one, found), []).append(f"{_of(one.alarm)} (step {one.alarm.step:,})")
    return "; ".join(f"{listed(names)}: {text}" for text, names in by_state.items())


def _of(alarm: Alarm) -> str:
    return "all questions" if alarm.group.level == "all" else one_line(alarm.group.name)


def _state(one: RaisedAlarm, found: Conclusion) -> str:
    return alarm_state(one, found) or "still below the start"


def _worst_end(group: Group) -> float:
    """Lower end of the interval if the outcomes that vanished were all lost; 1 if none vanished."""
    return group.net_change_interval_worst[0] if group.vanished else 1.0


def alarm_sentences(trajectory: Trajectory, found: Conclusion) -> list[tuple[str, bool]]:
    """(sentence, is an alarm) of each alarm, and a last sentence on how rare and how sensitive they are."""
    tests = trajectory.verdicts()
    if not tests:
        return []
    sentences = []
    for one in found.alarms:
        text = f"{capital(_of(one.alarm))}, step {one.alarm.step:,}: {_numbers(one.alarm)}"
        if one.now is not one.alarm:
            text += f"; at the last look {_numbers(one.now)}"
        sentences.append((f"{text}: {_state(one, found)}.", True))
    whole = next(one for one in tests[::-1] if one.group.level == "all")
    text = "" if sentences else f"{capital(_alarms(found))}. "
    text += "A model that does not change raises an alarm, at any look and in any group, in at most 5 of 100 runs."
    if not math.isnan(whole.smallest_loss):
        text += f" At the last look a fall of {percent(whole.smallest_loss)} points over all questions raises one."
    return [*sentences, (text, False)]


def _numbers(alarm: Alarm) -> str:
    """Net change of the group at a look, with its counts."""
    group = alarm.group
    counts = f"{count(group.forgotten)} forgotten, {count(group.gained)} gained, of {count(group.n)}"
    return f"{points(estimated(group)[0])} points ({counts})"


def _guard(found: Conclusion) -> str:
    """Phrase for the trips of the guard; those on alarms, which are named already, are counted."""
    on_alarms = sum(trip.what == "alarm" for trip in found.trips)
    named = [f"{count(on_alarms)} alarm{'s' if on_alarms > 1 else ''}"] if on_alarms else []
    for trip in found.trips:
        level, _, name = trip.name.partition(":")
        at = f" at step {trip.step:,}" if trip.step >= 0 else ""
        if trip.what == "vanished":
            named.append(f"answers that vanished{at}")
        elif trip.what == "must_pass":
            named.append(f"item {one_line(trip.name)}, which must pass{at}")
        elif trip.what != "alarm":
            named.append(f"a net loss of {'all questions' if level == 'all' else one_line(name)}{at}")
    times = "once" if len(found.trips) == 1 else f"{count(len(found.trips))} times"
    return f"tripped {times}, on {listed(named)}"


# Worst categories


def _worst(one: RankedCategory, found: Conclusion) -> Worst:
    """Row of a category; the change of its own is named where its interval misses the shrunk one."""
    group, (low, high) = one.group, one.interval
    change = points(one.change)
    if not low <= one.change <= high:
        change += f" (by itself {points(estimated(group)[0])})"
    leg = found.verdict.leg("category")
    interval = between(one.interval, points)
    if one.side == "below" and leg is not None and leg.limit is not None and min(low, _worst_end(group)) > leg.limit:
        interval += ", within the limit"
    return Worst(one_line(group.name), change, interval, *map(count, (group.forgotten, group.gained, group.n)))


def _worst_note(found: Conclusion, *, any_fell: bool) -> str:
    """Sentence on the ranking of the categories; empty if there are fewer than two."""
    if not found.categories or not found.has_answers:
        return ""
    among = f"{count(found.categories)} categories"
    if not found.ranked:
        return f"The {among} are not ranked: their changes differ by no more than chance."
    if not any_fell:
        return f"None of the {among} fell."
    leg = found.verdict.leg("category")
    limit = "" if leg is None or leg.limit is None else f"; the limit of each is {_limit(leg)}"
    return (
        f"Changes are shrunk towards that of all questions, because the worst of {among} looks worse than it is. "
        f"Intervals hold for all of them together{limit}."
    )


# Legs


_LEGS: Final[dict[LegName, str]] = {
    "accuracy": "net change of all questions",
    "knowledge": "share of the clearly known that is lost",
    "category": "net change of a category",
}


def _leg(leg: Leg) -> LegRow:
    """Row of a leg; of the categories, that of the one that decides."""
    what = f"net change of {one_line(leg.group)}" if leg.group else _LEGS[leg.name]
    limit = "" if leg.limit is None else _limit(leg)
    if leg.value is None or leg.interval is None or leg.answer is None:
        return LegRow(what, "not measured", "", limit, leg.reason)
    show = percent if leg.name == "knowledge" else points
    unit = "%" if leg.name == "knowledge" else "points"
    return LegRow(what, f"{show(leg.value)} {unit}", between(leg.interval, show), limit, _result(leg))


def _result(leg: Leg) -> str:
    if leg.answer == "FAIL":
        return "beyond the limit"
    if leg.answer == "PASS":
        return "a loss within the limit" if leg.shows_loss else "within the limit"
    if leg.is_open_by_vanished:
        return "not clear, because answers vanished"
    if leg.shows_loss:
        return "a loss, not clearly beyond the limit"
    return "not clear" if leg.name == "accuracy" else "no loss shown"
