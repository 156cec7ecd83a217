"""First page of a report: gains, losses, luck, and what was not measured, in sentences without symbols.

It is written for readers who stop there, so each sentence must be right without the numbers below it. "Luck" covers
sampling error (intervals, tests), noise of the measurement, and guessing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.flips import Flip, sort_flips
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.subset import Subset
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.comparing.verdict import TOLERANCE, Verdict, verdict
from forgetwatch.metrics.intervals import Interval
from forgetwatch.report.formatting import (
    by_points,
    cases,
    count,
    is_or_are,
    listed,
    questions,
    shorten,
    tolerance_points,
)

EXAMPLES = 2
"""Lost questions that are quoted."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """First page of a report.

    Attributes:
        before: Name of the side before.
        after: Name of the side after.
        heading: (text, is a name) pieces of the heading.
        beyond_luck: Sentence on the groups that fell by more than luck; empty if none did.
        sections: (heading, text) of each section.
        examples: Lost questions, each with its two answers.
        verdict: Verdict on the whole.
    """

    before: str
    after: str
    heading: tuple[tuple[str, bool], ...]
    beyond_luck: str
    sections: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]
    verdict: Verdict


def summary(
    comparison: Comparison,
    *,
    changed: Sequence[Flip] = (),
    trajectory: Trajectory | None = None,
    tolerance: float = TOLERANCE,
) -> Summary:
    """First page of a comparison, or of a run at its last look.

    Args:
        comparison: The comparison.
        changed: Items whose answer changed, for the examples.
        trajectory: The run, if there is one; it decides what is more than luck by its alarms.
        tolerance: Net loss of accuracy that is tolerated, 0 to 1.
    """
    return Summary(
        before=comparison.labels[0],
        after=comparison.labels[1],
        heading=_heading(*comparison.labels),
        beyond_luck=beyond_luck(comparison, trajectory),
        sections=(
            ("What it gained", _gained(comparison.all)),
            ("What it lost", _lost(comparison)),
            ("Is that more than luck?", luck(comparison, trajectory)),
            ("What was not measured", _not_measured(comparison, trajectory)),
        ),
        examples=tuple(_examples(changed)),
        verdict=verdict(comparison, tolerance),
    )


def verdict_sentence(verdict: Verdict) -> str:
    """Sentence of a verdict, without a symbol."""
    bound = tolerance_points(verdict.tolerance)
    if verdict.word == "PASS":
        return f"Accuracy did not fall by more than {bound}, and there are enough questions to say so."
    if verdict.word == "FAIL":
        return f"Accuracy fell by more than {bound}, and luck does not explain it."
    more = "" if verdict.items_needed is None else f" About {count(verdict.items_needed)} questions would decide."
    return f"These questions cannot decide whether accuracy fell by more than {bound}.{more}"


def _heading(before: str, after: str) -> tuple[tuple[str, bool], ...]:
    sides = [re.fullmatch(r"(.+) at step (\d+)", label, re.DOTALL) for label in (before, after)]
    if sides[0] and sides[1] and sides[0][1] == sides[1][1]:
        steps = f" from step {int(sides[0][2]):,} to step {int(sides[1][2]):,}"
        return ("What changed in ", False), (sides[0][1], True), (steps, False)
    return ("What changed from ", False), (before, True), (" to ", False), (after, True)


def _gained(whole: Group) -> str:
    return f"{questions(whole.gained)} that it answered wrong before {is_or_are(whole.gained)} now right."


def _lost(comparison: Comparison) -> str:
    whole = comparison.all
    text = f"{questions(whole.forgotten)} that it answered right before {is_or_are(whole.forgotten)} now wrong."
    if whole.known and whole.known_lost is not None:
        text += f" Of the {questions(whole.known)} that it clearly knew, it now gets {count(whole.known_lost)} wrong."
    if whole.format_lost and whole.knowledge_lost is not None:
        text += (
            f" In {cases(whole.knowledge_lost)} it now gives another answer; in {cases(whole.format_lost)} only "
            "the required form seems to be lost, and some of these may still count as right."
        )
    groups = [group for group in comparison.by("category").values() if group.forgotten]
    if len(comparison.by("category")) > 1 and groups:
        # If no group fell by count, all have 0 here, and the larger share of losses decides.
        worst = min(groups, key=lambda group: (min(group.gained - group.forgotten, 0.0), -group.forgetting))
        text += (
            f" {worst.name} lost most: {count(worst.forgotten)} lost and {count(worst.gained)} gained of its "
            f"{questions(worst.n)}."
            if worst.net_change < 0
            else f" No category fell. The largest share went in {worst.name}: {count(worst.forgotten)} lost and "
            f"{count(worst.gained)} gained of its {questions(worst.n)}."
        )
    return text


def _not_measured(comparison: Comparison, trajectory: Trajectory | None) -> str:
    counted, parts = comparison.items, list[str]()
    if trajectory is not None and len(trajectory) == 1:
        parts.append("No look was taken after the start: the start is compared with itself.")
    if counted.unscored:
        parts.append(
            f"{questions(counted.unscored)} could not be scored and {is_or_are(counted.unscored)} in no count."
        )
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
    if comparison.all.known is None:
        parts.append(
            "The probabilities of the options are not known, so clear knowledge cannot be distinguished from a lucky "
            "guess."
        )
    these = "this question" if counted.compared == 1 else f"these {count(counted.compared)} questions"
    parts.append(f"Nothing beyond {these} was measured.")
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
    return [
        f"“{shorten(flip.question or '')}” It answered {_said(flip, flip.before)}, and now {_said(flip, flip.after)}."
        for flip in chosen
    ]


def _said(flip: Flip, side: object) -> str:
    answer = flip.answer(flip.before if side is flip.before else flip.after)
    return "nothing" if not answer else f"“{shorten(answer)}”"


_FALSE_ALARMS: Final = 0.05
"""Tolerated share of false alarms among the categories that are said to have fallen."""


def luck(comparison: Comparison, trajectory: Trajectory | None) -> str:
    """Sentences on sampling error, measurement noise and guessing; of a run, over all of its looks."""
    whole = comparison.all
    low, high = whole.net_change_interval
    if math.isnan(low):
        return "Nothing was measured on both sides, so nothing can be said."
    if not whole.forgotten and not whole.gained:
        text = f"No answer changed sides: with these questions, {_range(whole.net_change_interval)} would fit as well."
        return text + (_over_all_looks(trajectory) if trajectory is not None and len(trajectory) > 1 else "")
    text = f"Gains and losses together {_moved(whole.net_change)}. "
    if high < 0 or low > 0:
        text += f"That is more than luck: with these questions, {_range(whole.net_change_interval)} would fit."
    else:
        text += f"That may be luck: with these questions, {_range(whole.net_change_interval)} would fit as well."
    if whole.null_lost is not None and whole.null_gained is not None:
        text += _against_noise(whole, whole.null_lost, whole.null_gained)
    text += _guessing(whole)
    if trajectory is not None and len(trajectory) > 1:
        return text + _over_all_looks(trajectory)
    categories = len(comparison.by("category"))
    if categories > 1:
        names = [group.name for group in fallen_groups(comparison, None) if group.level == "category"]
        text += (
            f" Among the {count(categories)} categories the fall is beyond luck for {listed(names)}."
            if names
            else f" In none of the {count(categories)} categories is the fall clearly beyond luck."
        )
    return text


def _over_all_looks(trajectory: Trajectory) -> str:
    groups = {(alarm.group.level, alarm.group.name) for alarm in trajectory.alarms()}
    names = list(dict.fromkeys("accuracy as a whole" if level == "all" else name for level, name in sorted(groups)))
    if names:
        return f" Over all looks of the run the fall is beyond luck for {listed(names)}."
    return " Over all looks of the run no fall of accuracy is beyond luck."


def _guessing(whole: Group) -> str:
    """Sentence on the number of losses that guessing makes, by the calibrated correction if available."""
    guessed = whole.chance.guess_corrected_calibrated or whole.chance.guess_corrected
    if guessed is None or not whole.forgotten or math.isnan(guessed.forgetting):
        return ""
    low, high = guessed.forgetting_band
    # The more was truly forgotten, the fewer losses guessing made: the ends change places.
    made, least, most = (_made(whole, rate, guessed.n) for rate in (guessed.forgetting, high, low))
    text = f" Guessing alone would make about {made} of the losses"
    return f"{text}." if math.isnan(low) else f"{text}; between {least} and {most} would fit."


def _made(whole: Group, truly: float, n: float) -> str:
    """Number of losses that guessing made, if a share `truly` of n items was truly forgotten."""
    # A corrected rate may lie below 0, or above all losses that were seen.
    left = 0.0 if math.isnan(truly) else min(max(truly, 0.0) * n, whole.forgotten)
    return count(round(whole.forgotten - left))


def _against_noise(whole: Group, lost: float, gained: float) -> str:
    """Sentence that compares the flips with those of the unchanged model, measured again."""
    again = lost + gained
    text = f" Measured a second time, the unchanged model answered {questions(again).lower()} differently"
    if whole.forgotten + whole.gained > 5 * max(again, 1):
        return (
            f"{text}, so the {count(whole.forgotten)} lost and {count(whole.gained)} gained are not measurement noise."
        )
    return f"{text}: that part of the gains and losses is noise."


def fallen_groups(comparison: Comparison, trajectory: Trajectory | None) -> list[Group]:
    """Groups that fell by more than luck and are now below their start: the whole first, then by size of the fall.

    The rule is an alarm if there is a run, else a false discovery rate of 5 % in one comparison.
    """
    # The same groups as the alarms of a run watch.
    watched = [comparison.all, *comparison.by("category").values()]
    if len(watched) == 2:  # one category is the whole
        watched = watched[:1]
    down = [group for group in watched if group.net_change < 0]
    if trajectory is not None and len(trajectory) > 1:
        raised = {(alarm.group.level, alarm.group.name) for alarm in trajectory.alarms()}
        fallen = [group for group in down if (group.level, group.name) in raised]
    else:
        fallen = [group for group in down if group.q_value <= _FALSE_ALARMS]
    return sorted(fallen, key=lambda group: (group.level != "all", group.net_change))


def beyond_luck(comparison: Comparison, trajectory: Trajectory | None) -> str:
    """Sentence on the groups that fell by more than luck; empty if none did."""
    fallen = fallen_groups(comparison, trajectory)
    if not fallen:
        return ""
    named = [
        f"{'accuracy as a whole' if group.level == 'all' else group.name} by {by_points(group.net_change)}"
        for group in fallen
    ]
    return f"Luck does not explain the fall of {listed(named)}."


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
