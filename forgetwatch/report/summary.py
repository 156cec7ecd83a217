"""First page of a report: decisions, gains, losses, luck, and what was not measured, in sentences without symbols.

It is written for readers who stop there, so each sentence must be right without the numbers below it. "Luck" covers
sampling error (intervals, tests), noise of the measurement, and guessing. Every decision is one of `comparing.verdict`,
and its sentence names its question: this look alone, or all looks and groups of a run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from forgetwatch.comparing import (
    TOLERANCE,
    Comparison,
    Conclusion,
    Flip,
    Group,
    State,
    Subset,
    Trajectory,
    conclude,
    sort_flips,
)
from forgetwatch.measures import (
    DRIFT,
    HISTORY,
    KNOWN,
    LOG_SCORE,
    MASS,
    MEASURES,
    SET_NAMES,
    GroupMeasure,
    net_of_luck,
    said,
)
from forgetwatch.metrics import Interval
from forgetwatch.pairing import by_points, count, is_or_are, listed, passages, questions, shorten, tolerance_points

EXAMPLES = 2
"""Lost questions that are quoted."""


class Decided(NamedTuple):
    """One decision in words.

    The word is PASS, FAIL, INCONCLUSIVE, LOSS, ALARM, NO ALARM or GUARD, and empty for an explanation. The sentence
    names the question.
    """

    word: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Summary:
    """First page of a report.

    Attributes:
        heading: (text, is a name) pieces of the heading.
        decisions: The decisions, each with its word; the first is the verdict.
        sections: (heading, text) of each section.
        examples: Lost questions, each with its two answers.
    """

    heading: tuple[tuple[str, bool], ...]
    decisions: tuple[Decided, ...]
    sections: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]


def summary(
    comparison: Comparison,
    *,
    changed: Sequence[Flip] = (),
    trajectory: Trajectory | None = None,
    tolerance: float = TOLERANCE,
) -> Summary:
    """First page of a comparison, or of a run at its last look, with examples of the items whose answer changed.

    `tolerance` is the net loss of accuracy that is tolerated, 0 to 1.
    """
    found = conclude(comparison, trajectory=trajectory, tolerance=tolerance)
    sections = []
    if found.has_answers:
        sections = [
            ("What it gained", _flipped(comparison.all.gained, "wrong", "right")),
            ("What it lost", _lost(comparison, found)),
        ]
        sections += _sentences(comparison.all, (MASS,))
        sections += _sentences(comparison.all, (LOG_SCORE,), start=f"{_here(found)}: ")
        sections.append(("Is that more than luck?", _luck(comparison, found)))
    others = [measure for measure in MEASURES if measure not in (MASS, LOG_SCORE)]
    sections += _sentences(comparison.all, others, start=f"{_here(found)}: ")
    drifts = (comparison[DRIFT] or {}).items()
    moved = [f"After the {SET_NAMES.get(name, name)}, {text}" for name, one in drifts if (text := said(DRIFT, one))]
    sections += [(DRIFT.question, " ".join(moved))] if moved else []
    if trajectory is not None and (text := said(HISTORY, trajectory[HISTORY])):
        sections.append((HISTORY.question, text[0].upper() + text[1:]))
    sections.append(("What was not measured", _not_measured(comparison, trajectory)))
    return Summary(
        heading=_heading(*comparison.labels),
        decisions=decisions(found),
        sections=tuple(sections),
        examples=tuple(_examples(changed)),
    )


def decisions(found: Conclusion) -> tuple[Decided, ...]:
    """All decisions in words, without a symbol: the verdict, the categories, the alarms, and the guard."""
    made = [Decided(found.verdict.word if found.has_answers else "", f"{_here(found)}: {_verdict(found)}")]
    if found.below_zero:
        named = [f"{group.name} by {by_points(group.net_change)}" for group in found.below_zero]
        made.append(Decided("LOSS", f"{_here(found)}: below zero on {_own(named)}, {listed(named)}."))
    if found.is_run and found.has_answers:
        made.append(Decided("ALARM" if found.alarms else "NO ALARM", f"{_over(found)}: {_alarms(found)}."))
    if found.trips:
        made.append(Decided("GUARD", _guard(found)))
    if found.differs:
        fades = any(one.alarm.kind == "fading" for one in found.alarms)
        made.append(Decided("", _TWO_QUESTIONS + (_FADING if fades else "")))
    return tuple(made)


_TWO_QUESTIONS: Final = (
    "These are two questions: the last look alone, judged at 95 in 100, and all looks and groups together, judged at a "
    "stricter level. Among many looks and groups some fall by chance, and a group can fall at an earlier look and "
    "recover."
)

_FADING: Final = " Fading is a fall of the log score, which comes before accuracy falls."


def _here(found: Conclusion) -> str:
    return "In this comparison alone" if found.looks is None else "At this look alone"


def _own(named: Sequence[str]) -> str:
    return "its own" if len(named) == 1 else "their own"


def _over(found: Conclusion) -> str:
    looks, groups = found.looks or 0, found.groups
    return f"Over all {looks} looks and {groups} groups" if looks > 1 else f"Over this look and {groups} groups"


_STATES: Final[dict[State, str]] = {"lasting": "", "unclear": ", unclear now", "recovered": ", recovered since"}


def _alarms(found: Conclusion) -> str:
    """Phrase for the alarms of a run, or for what was tested."""
    raised = []
    for one in found.alarms:
        of = "over all questions" if one.alarm.group.level == "all" else f"of {one.alarm.group.name}"
        what = "a net loss" if one.alarm.kind == "net" else "fading"
        raised.append(f"{what} {of} at step {one.alarm.step:,}{_STATES[one.state]}")
    if raised:
        return listed(raised)
    if "fading" not in found.kinds:
        return "no net loss raised an alarm"
    fewer = found.fading_groups
    if fewer == found.groups:
        return "no net loss and no fading raised an alarm"
    groups = f"{fewer} group{'s' if fewer > 1 else ''} with enough scored questions"
    return f"no net loss raised an alarm, and no fading in the {groups}"


def _guard(found: Conclusion) -> str:
    """Sentence on the trips of the guard; those on alarms, which are named already, are counted."""
    on_alarms = sum(trip.what in ("alarm", "fading") for trip in found.trips)
    named = [] if not on_alarms else [f"on {on_alarms} alarm{'s' if on_alarms > 1 else ''}"]
    for trip in found.trips:
        if trip.what in ("net_loss", "must_pass"):
            level, _, name = trip.name.partition(":")
            loss = "on a net loss over all questions" if level == "all" else f"on a net loss of {name}"
            what = loss if trip.what == "net_loss" else f"on item {trip.name}, which must pass"
            named.append(f"{what} at step {trip.step:,}" if trip.step >= 0 else what)
    times = "once" if len(found.trips) == 1 else f"{count(len(found.trips))} times"
    return f"During the run its guard tripped {times}: {listed(named)}."


def _verdict(found: Conclusion) -> str:
    """Sentence of the verdict on the whole, without a symbol and without its beginning."""
    verdict, bound = found.verdict, tolerance_points(found.verdict.tolerance)
    if not found.has_answers:
        return "there is no verdict on correctness, because passages have no right answer."
    if found.whole is None:
        return f"nothing was measured that could decide whether accuracy fell by more than {bound}."
    if verdict.word == "PASS":
        end = ". It fell by less than that" if found.whole == "below" else ", and there are enough questions to say so"
        return f"accuracy did not fall by more than {bound}{end}."
    if verdict.word == "FAIL":
        return f"accuracy fell by more than {bound}."
    if verdict.open_by_vanished:
        gone = f"{questions(verdict.vanished)} {'was' if verdict.vanished == 1 else 'were'} scored on one side alone"
        return (
            f"it is not decided whether accuracy fell by more than {bound}, because {gone}. If the right answers among "
            f"them are lost, {_range(verdict.interval_worst)} would fit."
        )
    undecided = "these questions cannot decide whether"
    text = f"accuracy fell, and {undecided}" if found.whole == "below" else f"{undecided} accuracy fell"
    needed = verdict.items_needed
    return f"{text} by more than {bound}." + (
        "" if needed is None else f" About {count(needed)} questions would decide."
    )


def _heading(before: str, after: str) -> tuple[tuple[str, bool], ...]:
    sides = [re.fullmatch(r"(.+) at step (\d+)", label, re.DOTALL) for label in (before, after)]
    if sides[0] and sides[1] and sides[0][1] == sides[1][1]:
        steps = f" from step {int(sides[0][2]):,} to step {int(sides[1][2]):,}"
        return ("What changed in ", False), (sides[0][1], True), (steps, False)
    return ("What changed from ", False), (before, True), (" to ", False), (after, True)


def _flipped(flips: float, before: str, after: str) -> str:
    return f"{questions(flips)} that it answered {before} before {is_or_are(flips)} now {after}."


def _lost(comparison: Comparison, found: Conclusion) -> str:
    whole = comparison.all
    text = _flipped(whole.forgotten, "right", "wrong") + _form(whole) + _known(whole, found)
    categories = comparison.by("category").values()
    groups = [group for group in categories if group.forgotten]
    if sum(group.n > 0 for group in categories) < 2 or not groups:
        return text
    # If no group fell by count, all have 0 here, and the larger share of losses decides.
    worst = min(groups, key=lambda group: (min(group.gained - group.forgotten, 0.0), -group.forgetting))
    counts = f"{count(worst.forgotten)} lost and {count(worst.gained)} gained of its {questions(worst.n)}."
    if worst.net_change < 0:
        return f"{text} {worst.name} lost most on balance: {counts}"
    return f"{text} No category fell. The largest share went in {worst.name}: {counts}"


def _form(whole: Group) -> str:
    """Sentences that divide the losses into those of knowledge and of form; empty if no form was lost."""
    if not whole.format_lost or whole.knowledge_lost is None:
        return ""
    # Losses of form can be of answers that still count as right: the rest of those that are wrong lost their form.
    only_form = whole.forgotten - whole.knowledge_lost
    still_right = whole.format_lost - only_form
    text = " Another answer took the place of each." if whole.forgotten else ""
    if only_form:
        have = "has" if whole.knowledge_lost == 1 else "have"
        text = f" Of these, {count(whole.knowledge_lost)} {have} another answer and"
        text += f" {count(only_form)} lost only the required form."
    if still_right > 0:
        text += (
            f" {questions(still_right)} more still {'counts' if still_right == 1 else 'count'} as right among the "
            "options, but a freely written answer would now begin with other words."
        )
    return text


def _known(whole: Group, found: Conclusion) -> str:
    """Sentences on the clearly known questions, and on what luck makes of them; empty if none is known."""
    if not whole.known or whole.known_lost is None:
        return ""
    if not whole.known_lost:
        return f" Of the {questions(whole.known)} that it clearly knew, it now gets none wrong."
    text = f" Of the {questions(whole.known)} that it clearly knew, it now gets {count(whole.known_lost)} wrong."
    if (net := net_of_luck(whole[KNOWN])) is None or whole.known_lost_net_interval is None:
        return f"{text} It is not measured how many of them luck alone would make."
    text += f" Luck alone would make about {net.by_luck} such losses"
    low, high = whole.known_lost_net_interval
    if high <= 0:
        return f"{text}, which is more than that."
    fits = f"between {net.low if low > 0 else 'none'} and {net.high} would fit"
    if found.known_lost == "above":
        return f"{text}, which leaves {net.net}: {fits}."
    return f"{text}, so that luck may explain them all: {fits}."


def _sentences(whole: Group, measures: Sequence[GroupMeasure[Any]], *, start: str = "") -> list[tuple[str, str]]:
    """(question, answer) of each measure that has a sentence on the whole."""
    found = ((measure.question, said(measure, whole[measure])) for measure in measures)
    return [(question, f"{start}{text}") for question, text in found if text]


_NO_MIRROR: Final = (
    "No question has two wrong options, so confident answers cannot be distinguished from lucky guesses."
)
_NO_SHARES: Final = (
    "The probabilities of the options are not known, so clear knowledge cannot be distinguished from a lucky guess."
)


def _not_measured(comparison: Comparison, trajectory: Trajectory | None) -> str:
    counted, parts = comparison.items, list[str]()
    if trajectory is not None and len(trajectory) == 1:
        parts.append("No look was taken after the start: the start is compared with itself.")
    if counted.unscored:
        parts.append(
            f"{questions(counted.unscored)} could not be scored and {is_or_are(counted.unscored)} in no count."
        )
    if gone := comparison.all.newly_unscored:
        known = comparison.all.known_vanished
        which = f", {count(known)} of them clearly known before" if known else ""
        parts.append(f"{questions(gone)} {'was' if gone == 1 else 'were'} scored before and not after{which}.")
    if counted.only_before or counted.only_after:
        parts.append(
            f"{questions(counted.only_before)} of the first side and {questions(counted.only_after).lower()} of the "
            "second have no counterpart on the other and are left out."
        )
    subset = Subset.of_metadata(comparison.after)
    if subset.items is not None and subset.total is not None:
        parts.append(
            f"The looks evaluate the first {count(subset.items)} of {count(subset.total)} questions, to save time."
        )
    if subset.missing_categories:
        parts.append(f"No question of {listed(subset.missing_categories)} is among those that the looks evaluate.")
    texts = comparison.all.passages
    if comparison.all.known is None and (counted.compared or not texts):
        # If the shares of the right options are there, it is for want of wrong options.
        parts.append(_NO_SHARES if comparison.all.soft is None else _NO_MIRROR)
    these = ["this question" if counted.compared == 1 else f"these {count(counted.compared)} questions"]
    if texts:
        these = [*these, passages(texts)] if counted.compared else [f"these {passages(texts)}"]
    parts.append(f"Nothing beyond {' and '.join(these)} was measured.")
    return " ".join(parts)


def _examples(changed: Sequence[Flip]) -> list[str]:
    """Sentences on the losses of the largest margin, of different tasks if possible."""
    lost = [flip for flip in sort_flips(changed) if flip.what == "forgotten" and flip.question is not None]
    lost.sort(key=lambda flip: not flip.known)  # stable: the clearly known first, each part by margin
    chosen: list[Flip] = []
    # The second pass fills up with further losses of the same task.
    for flip in (*lost, *lost):
        if len(chosen) < EXAMPLES and flip not in chosen:
            if flip.task in {one.task for one in chosen} and len({one.task for one in lost}) > len(chosen):
                continue
            chosen.append(flip)
    texts = []
    for flip in chosen:
        before, now = (
            f"“{shorten(answer)}”" if (answer := flip.answer(side)) else "nothing" for side in (flip.before, flip.after)
        )
        texts.append(f"“{shorten(flip.question or '')}” It answered {before}, and now {now}.")
    return texts


def _luck(comparison: Comparison, found: Conclusion) -> str:
    """Sentences on sampling error, measurement noise and guessing, each with its question."""
    whole = comparison.all
    if found.whole is None:
        return "Nothing was measured on both sides, so nothing can be said."
    fits = _range(whole.net_change_interval)
    if not whole.forgotten and not whole.gained:
        return f"No answer changed sides: with these questions, {fits} would fit as well." + _over_all_looks(found)
    text = f"{_here(found)}, gains and losses together {_moved(whole.net_change)}. "
    if found.whole == "around":
        text += f"That may be luck: with these questions, {fits} would fit as well."
    else:
        text += f"That is {found.whole} zero: with these questions, {fits} would fit."
    if whole.null_lost is not None and whole.null_gained is not None:
        text += _against_noise(whole, whole.null_lost, whole.null_gained)
    text += _guessing(whole)
    if found.categories:
        among, names = f"its {count(found.categories)} categories", [group.name for group in found.below_zero]
        below = f" Among {among}, {listed(names)} {is_or_are(len(names))} below zero on {_own(names)}." if names else ""
        text += below or f" None of {among} is below zero on its own."
    return text + _over_all_looks(found)


def _over_all_looks(found: Conclusion) -> str:
    """Sentence on the alarms, which the decisions name; empty if there is no look."""
    if not found.alarms:
        return f" {_over(found)}: {_alarms(found)}." if found.is_run else ""
    raised = "1 alarm was raised, which is" if len(found.alarms) == 1 else f"{len(found.alarms)} alarms were raised,"
    return f" {_over(found)}: {raised} named above."


def _guessing(whole: Group) -> str:
    """Sentence on the number of losses that guessing makes, by the calibrated correction if available."""
    guessed = whole.chance.guess_corrected_calibrated or whole.chance.guess_corrected
    if guessed is None or not whole.forgotten or math.isnan(guessed.forgetting) or whole.known_lost_net is not None:
        return ""  # the known and lost less luck say it with fewer assumptions
    low, high = guessed.forgetting_band

    def made(truly: float) -> str:
        """Number of losses that guessing made, if this share was truly forgotten."""
        # A corrected rate may lie below 0, or above all losses that were seen.
        left = 0.0 if math.isnan(truly) else min(max(truly, 0.0) * guessed.n, whole.forgotten)
        return count(round(whole.forgotten - left))

    # The more was truly forgotten, the fewer losses guessing made: the ends change places.
    lost = f"all {count(whole.forgotten)} losses" if whole.forgotten > 1 else "this loss"
    text = f" Guessing alone would make about {made(guessed.forgetting)} of {lost}"
    return f"{text}." if math.isnan(low) else f"{text}; between {made(high)} and {made(low)} would fit."


def _against_noise(whole: Group, lost: float, gained: float) -> str:
    """Sentence that compares the flips with those of the unchanged model, measured again."""
    again = lost + gained
    text = f" Measured a second time, the unchanged model answered {questions(again).lower()} differently"
    if whole.forgotten + whole.gained <= 5 * max(again, 1):
        return f"{text}: that part of the gains and losses is noise."
    flips = f"{count(whole.forgotten)} lost and {count(whole.gained)} gained"
    return f"{text}, so the {flips} are not measurement noise."


def _moved(change: float) -> str:
    # By the number as the sentence shows it: 0.04 points would read "by 0.0 points".
    tenths = abs(round(100 * change, 1))
    if not tenths:
        return "leave accuracy where it was"
    return f"{'raise' if change > 0 else 'lower'} accuracy by {by_points(change)}"


def _range(interval: Interval) -> str:
    # The signs of the ends as the sentence shows them.
    low, high = (round(100 * end, 1) for end in interval)
    if low < 0 < high:
        return f"anything between {-low:.1f} points down and {high:.1f} up"
    if high <= 0:
        return f"between {-high:.1f} and {-low:.1f} points down"
    return f"between {low:.1f} and {high:.1f} points up"
