"""First screen of a report, and the sentences below its fold: the same in page, Markdown and notebook.

    verdict      KEPT, FORGOT or NOT CLEAR with its one sentence (`comparing.decision`)
    facts        accuracy, questions, clearly known items, passages, the new task, alarms, guard: the rows of the first
                 table in a terminal too
    worst        the categories that fell most, or the sentence that categories differ by no more than chance
    lost         three lost questions of the worst category, with both answers

The verdict is stated once. Whatever else names a loss gives its limit beside it, so that no sentence contradicts the
verdict. Each sentence is complete without the tables below.

Below the fold are the sentences on how sure it is, and on what was not measured: none repeats the verdict or a table.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rich.cells import cell_len

from forgetwatch.comparing import (
    TOLERANCE,
    Alarm,
    Comparison,
    Conclusion,
    Flip,
    Group,
    Leg,
    LegName,
    RankedCategory,
    Subset,
    Tolerance,
    Trajectory,
    conclude,
    decide_run,
    estimated,
    less_luck,
    round_percent,
    side_of_zero,
)
from forgetwatch.measures import FORM, KNOWN, NET_ESTIMATE, NULL, PASSAGES, net_of_luck
from forgetwatch.metrics import Interval, flip_interval
from forgetwatch.report.advice import model_names
from forgetwatch.report.flip_list import Lost, lost_examples
from forgetwatch.text import between, count, fit_ends, is_or_are, listed, one_line, passages, percent, points, questions


def how_sure(comparison: Comparison, found: Conclusion | None) -> list[str]:
    """Return what intervals do not show, and what was not measured, a text each; `found` is None for no look."""
    parts = [_how_sure(comparison)] if found is not None and found.has_answers else []
    forgotten, form = comparison.all.forgotten, comparison.all[FORM]
    if form is not None and (of_form := forgotten - form.knowledge_lost) > 0:
        parts.append(f"{count(of_form)} of the {count(forgotten)} lost answers lost only their form.")
    if (wordings := comparison.wordings) is not None:
        than = "between wordings beyond chance" if wordings.differ else "between wordings no more than by chance"
        parts.append(f"The net change differs {than} ({wordings}).")
    if comparison.again is not None:
        parts.append(f"{capital(str(comparison.again))}.")
    return [*parts, _not_measured(comparison)]


def capital(text: str) -> str:
    """Return the text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def _how_sure(comparison: Comparison) -> str:
    """Return the sentences on measurement noise, guessing and vanished outcomes, which intervals do not show."""
    whole, parts = comparison.all, list[str]()
    if (again := whole[NULL]) is not None:
        changed = again.null_lost + again.null_gained
        ends = between(flip_interval(changed, again.measured), percent)
        parts.append(
            f"When {questions(again.measured).lower()} were measured again with the same weights, {count(changed)} had "
            f"another result (95 %: {ends} %)."
        )
    if (vanished := whole.outcomes.vanished) > 0:
        gone = questions(vanished)
        were = "was" if vanished == 1 else "were"
        parts.append(f"{gone} {were} scored on one side alone; a limit is kept only if all of these may be lost.")
    return " ".join([*parts, "An interval that contains 0 shows neither a loss nor a gain."])


_NO_KNOWLEDGE: Final = "Clear knowledge needs the probabilities of three or more options a question; none has them."


def _not_measured(comparison: Comparison) -> str:
    """Return the sentences on what was not measured."""
    counted, parts = comparison.items, list[str]()
    if counted.unscored:
        parts.append(
            f"{questions(counted.unscored)} could not be scored and {is_or_are(counted.unscored)} in no count."
        )
    if counted.only_before or counted.only_after:
        parts.append(
            f"{questions(counted.only_before)} of the first side and {questions(counted.only_after).lower()} of the "
            "second have no counterpart on the other and are left out."
        )
    subset = Subset.from_metadata(comparison.after)
    if subset.items is not None and subset.total is not None:
        parts.append(
            f"The looks evaluate the first {count(subset.items)} of {count(subset.total)} questions, to save time."
        )
    if subset.missing_categories:
        parts.append(f"No question of {listed(subset.missing_categories)} is among those that the looks evaluate.")
    texts = comparison.all.passages
    if comparison.all[KNOWN] is None and (counted.compared or not texts):
        parts.append(_NO_KNOWLEDGE)
    these = ["this question" if counted.compared == 1 else f"these {count(counted.compared)} questions"]
    if texts:
        these = [*these, passages(texts)] if counted.compared else [f"these {passages(texts)}"]
    parts.append(f"Nothing beyond {' and '.join(these)} was measured.")
    return " ".join(parts)


WORST: Final = 5
"""Categories among the worst."""
ROOM: Final = 86
"""Columns of the text of a fact: with its label 100, those of the first table in a terminal."""
_NAME: Final = 24
_ARROW: Final = re.compile(r"(?<=\d) -> (?=\d)")


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
    """First screen of a report, and how sure it is.

    Attributes:
        heading: (text, is a name) pieces of the line on what is compared.
        word: Word of the verdict; NO VERDICT if there is none.
        sentence: Its sentence.
        facts: (name, text) of the rows of the small table.
        worst: The categories that fell most; empty where they are not ranked, or none fell.
        worst_note: Sentence on the ranking; empty for fewer than two categories.
        lost_of: Category of the lost questions; empty for all.
        lost: The lost questions.
        legs: Legs of the verdict.
        sure: What intervals do not show, and what was not measured.
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
    sure: tuple[str, ...]

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
    """Summarise a comparison, or the last look of a run, with examples of items whose answer changed.

    `name` is that of the run.
    """
    heading = _heading(*model_names(comparison), name)
    if trajectory is not None and trajectory.stage is not None:
        to = f" to step {trajectory.final_step:,} of stage {trajectory.number}"
        heading = ("What changed from the first base", False), (to, False), *([(f", {name}", True)] if name else [])
    if trajectory is not None and len(trajectory) == 1:
        return Summary(
            heading=((name or model_names(comparison)[0], True), (" at its start", False)),
            word="NO VERDICT",
            sentence="no look was taken after the start, so nothing is compared yet",
            facts=(("questions", f"{count(comparison.all.n)}; right: {percent(comparison.all.accuracy_before)} %"),),
            worst=(),
            worst_note="",
            lost_of="",
            lost=(),
            legs=(),
            sure=tuple(how_sure(comparison, None)),
        )
    found = conclude(comparison, trajectory=trajectory, tolerance=tolerance)
    fell = found.lost or tuple(one for one in found.ranked if one.change < 0)
    lost_of, lost = lost_examples(changed, fell[0].group.name if fell else "")
    return Summary(
        heading=heading,
        word=found.decision.word,
        sentence=found.decision.sentence,
        facts=tuple((name, _ARROW.sub(" → ", text)) for name, text in fact_rows(comparison, found, trajectory)),
        worst=tuple(_worst(one, found) for one in fell[:WORST]),
        worst_note=_worst_note(found, any_fell=bool(fell)),
        lost_of=lost_of,
        lost=lost,
        legs=tuple(_leg(leg) for leg in found.decision.legs) if found.has_answers else (),
        sure=tuple(how_sure(comparison, found)),
    )


def _heading(before: str, after: str, name: str) -> tuple[tuple[str, bool], ...]:
    sides = [re.fullmatch(r"(.+) at step (\d+)", label, re.DOTALL) for label in (before, after)]
    if sides[0] and sides[1] and (name or sides[0][1] == sides[1][1]):
        steps = f" from step {int(sides[0][2]):,} to step {int(sides[1][2]):,}"
        return ("What changed in ", False), (name or sides[0][1], True), (steps, False)
    return ("What changed from ", False), (before, True), (" to ", False), (after, True)


# Facts


def fact_rows(comparison: Comparison, found: Conclusion, trajectory: Trajectory | None) -> list[tuple[str, str]]:
    """Return (label, text) of the rows of the first table of every output, as many as have something to say.

    Lists within them are cut so that a text takes at most `ROOM` columns.
    """
    whole, rows = comparison.all, list[tuple[str, str]]()
    cautions = [("caution", "; ".join(found.decision.reasons))] if found.decision.reasons else []
    if found.has_answers:
        leg, limit = found.decision.leg("accuracy"), ""
        if leg is not None and leg.limit is not None:
            limit = f", limit {100 * leg.limit:g}"
        rows = [*cautions, ("accuracy", _accuracy(whole) + limit), ("questions", _questions(whole))]
        rows += _known(whole, found)
    rows += _vanished(whole)
    if (read := whole[PASSAGES]) is not None:
        before, after, change = (
            PASSAGES.cells(read)[f"bits_per_byte_{name}"] for name in ("before", "after", "change")
        )
        moved = f"{before} -> {after} bits per byte; change {change}{_predicts(read.change.interval)}"
        rows.append((passages(read.passages), moved))
    if trajectory is None:
        return rows
    if trajectory.stage is not None:
        rows.append(("this stage", _this_stage(trajectory.stage, found.tolerance)))
    if trajectory.task is not None and len(trajectory.own) > 1:
        rows.append(("new task", str(trajectory.task)))
    return rows + _since(found) + _guard(found) + _ended(trajectory)


def _ended(trajectory: Trajectory) -> list[tuple[str, str]]:
    """Return the row on a guard that stopped the run, and on weights that are not those of its last step."""
    ending = trajectory.own.ending
    if ending is None or ending.state == "running" or (ending.state, ending.delivered) == ("ended", ending.last_step):
        return []
    text = f"{'by its guard ' if ending.state == 'stopped' else ''}at step {ending.last_step:,}"
    if ending.delivered is not None:
        text += f", with the weights of step {ending.delivered:,}"
    return [("ended", text)]


def _predicts(interval: Interval) -> str:
    """Return the clause on the side of zero of a change of bits per byte."""
    side = side_of_zero(interval)
    return {"above": ", harder to predict", "below": ", easier to predict"}.get(side or "", "")


def _accuracy(group: Group) -> str:
    """Return the accuracy on both sides, and the net change.

    An estimate by margins need not be the difference of the two.
    """
    change, interval = estimated(group)
    found = group[NET_ESTIMATE]
    how = ":" if found is None or found.rule is None else "; estimated true change"
    sides = f"{percent(group.accuracy_before)} -> {percent(group.accuracy_after)} %"
    return f"{sides}{how} {points(change)} points ({between(interval, points)})"


def _questions(group: Group) -> str:
    """Return the numbers of flips, and of those that measuring the same weights twice makes."""
    if not group.forgotten and not group.gained:
        text = f"none of {count(group.n)} changed: {count(group.retained)} right, {count(group.missed)} wrong"
    else:
        text = f"{count(group.forgotten)} of {count(group.n)} forgotten, {count(group.gained)} gained"
    if (again := group[NULL]) is None:
        return text
    made = again.null_lost + again.null_gained
    return f"{text}; {count(made)} of {count(again.measured)} change{'s' * (made == 1)} when measured twice"


def _vanished(whole: Group) -> list[tuple[str, str]]:
    """Return the row on the answers that vanished, and the change that is possible if they are lost.

    None if none did.
    """
    if not whole.outcomes.vanished:
        return []
    worst = f"at worst {points(whole.outcomes.net_change_interval_worst[0])} points"
    gone, came = whole.outcomes.newly_unscored, whole.outcomes.vanished - whole.outcomes.newly_unscored
    parts = [f"{count(gone)} answered before and not after"] if gone else []
    parts += [f"{count(came)} answered after and not before"] if came else []
    return [("vanished", f"of {count(whole.n + whole.outcomes.vanished)} questions {', '.join(parts)}; {worst}")]


def _known(group: Group, found: Conclusion) -> list[tuple[str, str]]:
    """Return the row on the clearly known items that are lost and newly known, without luck where it is measured."""
    known, leg = group[KNOWN], found.decision.leg("knowledge")
    if known is None:
        return [] if leg is None or not leg.reason else [("clearly known", f"not measured: {leg.reason}")]
    if not known.known:
        return []
    if net_of_luck(known) is None:
        text = f"{count(known.known_lost)} of the {count(known.known)} it was sure of are now wrong"
        return [("clearly known", f"{text}; lucky guesses among them are not measured")]
    newly = "" if known.newly_known_net is None else f", {count(max(round(known.newly_known_net), 0))} newly known"
    return [("clearly known", f"{less_luck(known)} lost{newly}; lucky guesses are left out")]


def _this_stage(stage: Trajectory, tolerance: Tolerance) -> str:
    """Return the losses and gains since the start of this stage, and the word of their verdict."""
    last = stage.final
    change, interval = estimated(last.all)
    flips = f"{count(last.all.forgotten)} of {count(last.all.n)} forgotten, {count(last.all.gained)} gained"
    word = decide_run(stage, tolerance).word
    return f"{flips} since its start: {points(change)} points ({between(interval, points)}); {word}"


def _since(found: Conclusion) -> list[tuple[str, str]]:
    """Return the row on the first alarm of each group and what became of it.

    None if this is no run.
    """
    if not found.looks or not found.groups or not found.is_run or not found.has_answers:
        return []
    label, parts = "since", list[str]()
    for one in found.alarms:
        state = one.told
        parts.append(f"{_of(one.alarm)}: step {one.alarm.step:,}{f' ({state})' if state else ''}")
    if not parts:
        label, parts = "looks", [f"no fall beyond chance at {found.looks:,} look{'s' if found.looks > 1 else ''}"]
    return [(label, _as_many(parts, ROOM, "group"))]


def _guard(found: Conclusion) -> list[tuple[str, str]]:
    """Return the row on the trips of the guard, those on alarms as their number; none if there is none."""
    on_alarms = sum(trip.what in ("alarm", "known") for trip in found.findings)
    names = [f"{count(on_alarms)} alarm{'s' if on_alarms > 1 else ''}"] if on_alarms else []
    for trip in found.findings:
        if trip.what not in ("alarm", "known"):
            named = {"policy": short_name(trip.name), "vanished": "answers that vanished"}
            named["not_finite"] = "outputs that are not finite"
            name = named.get(trip.what, short_name(f"item {trip.name}"))
            names.append(f"{name} (step {trip.step:,})" if trip.step >= 0 else name)
    return [("guard", "tripped by " + _as_many(names, ROOM - 11))] if names else []


def short_name(name: str) -> str:
    """Return a name in one line, without its middle if it is long."""
    return fit_ends(name, min(cell_len(one_line(name)), _NAME)).rstrip()


def _as_many(parts: Sequence[str], room: int, what: str = "") -> str:
    """Return as many of the parts as fit, at least the first, and the number of the others."""
    line = ""
    for shown in range(len(parts), 0, -1):
        hidden = len(parts) - shown
        more = f", {hidden} more {what}{'s' if what and hidden > 1 else ''}".rstrip() if hidden else ""
        line = ", ".join(parts[:shown]) + more
        if cell_len(line) <= room:
            break
    return line


def _limit(leg: Leg) -> str:
    """Return the limit of a leg with its unit; of a change with its sign."""
    return f"{100 * (leg.limit or 0.0):g} {'%' if leg.name == 'knowledge' else 'points'}"


def _of(alarm: Alarm, named: Callable[[str], str] = short_name) -> str:
    if alarm.kind == "known":
        return "what it clearly knew"
    return "all questions" if alarm.group.level == "all" else named(alarm.group.name)


def _worst_end(group: Group) -> float:
    """Return the lower end of the interval if the outcomes that vanished were all lost; 1 if none vanished."""
    return group.outcomes.net_change_interval_worst[0] if group.outcomes.vanished else 1.0


def alarm_sentences(trajectory: Trajectory, found: Conclusion) -> list[tuple[str, bool]]:
    """Return (sentence, is an alarm) of each alarm, and a last sentence on how rare and how sensitive they are."""
    tests = trajectory.verdicts()
    if not tests:
        return []
    sentences = []
    for one in found.alarms:
        text = f"{capital(_of(one.alarm, one_line))}, step {one.alarm.step:,}: {_numbers(one.alarm)}"
        if one.now is not one.alarm:
            own = trajectory.own
            at = "at the last look" if own.final_step == own.steps[-1] else f"at step {own.final_step:,}"
            text += f"; {at} {_numbers(one.now)}"
        sentences.append((f"{text}: {one.told or 'still below the start'}.", True))
    whole = next(one for one in tests[::-1] if one.group.level == "all" and one.kind == "net")
    text = "" if sentences else "None. "
    text += "A model that does not change raises an alarm, at any look and in any group, in at most 5 of 100 runs."
    if not math.isnan(whole.smallest_loss):
        text += f" At the last look a fall of {percent(whole.smallest_loss)} points over all questions raises one."
    return [*sentences, (text, False)]


def _numbers(alarm: Alarm) -> str:
    """Return the net change of the group at a look, with its counts."""
    group, known = alarm.group, alarm.group[KNOWN]
    if alarm.kind == "known" and known is not None:
        return f"{round_percent(known.lost_net_share or 0.0)} % lost ({less_luck(known)} without lucky guesses)"
    counts = f"{count(group.forgotten)} forgotten, {count(group.gained)} gained, of {count(group.n)}"
    return f"{points(estimated(group)[0])} points ({counts})"


# Worst categories


def _worst(one: RankedCategory, found: Conclusion) -> Worst:
    """Return the row of a category."""
    group, (low, _) = one.group, one.interval
    change = points(one.change)
    leg = found.decision.leg("category")
    interval = between(one.interval, points)
    if one.side == "below" and leg is not None and leg.limit is not None and min(low, _worst_end(group)) > leg.limit:
        interval += ", within the limit"
    return Worst(one_line(group.name), change, interval, *map(count, (group.forgotten, group.gained, group.n)))


def _worst_note(found: Conclusion, *, any_fell: bool) -> str:
    """Return the sentence on the ranking of the categories; empty if there are fewer than two."""
    if not found.categories or not found.has_answers:
        return ""
    among = f"{count(found.categories)} categories"
    if not found.ranked:
        return f"The {among} are not ranked: their changes differ by no more than chance."
    if not any_fell:
        return f"None of the {among} fell."
    leg = found.decision.leg("category")
    limit = "" if leg is None or leg.limit is None else f"; the limit of each is {_limit(leg)}"
    return (
        f"The worst of {among} looks worse than it is, so that the intervals are wide: they hold for all of them "
        f"together{limit}."
    )


# Legs


_LEGS: Final[dict[LegName, str]] = {
    "accuracy": "net change of all questions",
    "knowledge": "lost of {}",
    "category": "net change of a category",
}


def _leg(leg: Leg) -> LegRow:
    what = f"net change of {one_line(leg.group)}" if leg.group else _LEGS[leg.name].format(leg.of)
    limit = "" if leg.limit is None else _limit(leg)
    if leg.value is None or leg.interval is None or leg.answer is None:
        return LegRow(what, "not measured", "", limit, leg.reason)
    show = percent if leg.name == "knowledge" else points
    unit = "%" if leg.name == "knowledge" else "points"
    return LegRow(what, f"{show(leg.value)} {unit}", between(leg.interval, show), limit, leg.reason or leg.shows)
