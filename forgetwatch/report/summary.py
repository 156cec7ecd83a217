"""The first page of a report: what was gained and lost, whether it is luck, what was not measured. Words, no symbols.

Everything below it in a report is for those who want to know more; this page must be right for those who do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from forgetwatch.compare import Comparison
from forgetwatch.flips import Flip, ordered
from forgetwatch.groups import Group
from forgetwatch.metrics.intervals import Interval
from forgetwatch.report.numbers import count
from forgetwatch.report.verdict import TOLERANCE, Verdict, verdict
from forgetwatch.trajectory import Trajectory

EXAMPLES = 2
"""Lost questions that are told in full."""

_LONGEST = 160
"""Characters of a question or an answer in an example."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The first page.

    Attributes:
        before: Name of what is compared with.
        after: Name of what is compared.
        sections: A heading and its sentences each.
        examples: Lost questions in words.
        verdict: By the tolerance.
    """

    before: str
    after: str
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
    """The first page of a comparison, or of a run at its last look.

    Args:
        comparison: What was measured.
        changed: The items whose answer changed, for the examples.
        trajectory: The run, where it is one.
        tolerance: The net loss that is tolerated, 0 to 1.
    """
    return Summary(
        before=comparison.labels[0],
        after=comparison.labels[1],
        sections=(
            ("What it gained", _gained(comparison.all)),
            ("What it lost", _lost(comparison)),
            ("Is that more than luck?", _luck(comparison, trajectory)),
            ("What was not measured", _not_measured(comparison)),
        ),
        examples=tuple(_examples(changed)),
        verdict=verdict(comparison, tolerance),
    )


def _gained(whole: Group) -> str:
    return f"{_questions(whole.gained)} that it answered wrong before {_is(whole.gained)} now right."


def _lost(comparison: Comparison) -> str:
    whole = comparison.all
    text = f"{_questions(whole.forgotten)} that it answered right before {_is(whole.forgotten)} now wrong."
    if whole.known and whole.known_lost is not None:
        text += (
            f" Of the {count(whole.known)} questions that it clearly knew, it now gets {count(whole.known_lost)} wrong."
        )
    if whole.format_lost and whole.knowledge_lost is not None:
        text += (
            f" In {count(whole.knowledge_lost)} cases the answer itself is gone; in {count(whole.format_lost)} only "
            "its form is, and the answer is still there."
        )
    groups = [group for group in comparison.by("category").values() if group.forgotten]
    if len(comparison.by("category")) > 1 and groups:
        worst = min(groups, key=lambda group: (min(group.net_change, 0.0), -group.forgetting))
        text += (
            f" {worst.name} lost most: {count(worst.forgotten)} lost and {count(worst.gained)} gained of its "
            f"{count(worst.n)} questions."
        )
    return text


def _luck(comparison: Comparison, trajectory: Trajectory | None) -> str:
    whole = comparison.all
    low, high = whole.net_change_interval
    if math.isnan(low):
        return "Nothing was measured on both sides, so nothing can be said."
    text = f"Gains and losses together {_moved(whole.net_change)}. "
    if high < 0 or low > 0:
        text += f"That is more than luck: with these questions, {_range(whole.net_change_interval)} would fit."
    else:
        text += f"That may be luck: with these questions, {_range(whole.net_change_interval)} would fit as well."
    if whole.null_lost is not None and whole.null_gained is not None:
        text += _against_noise(whole, whole.null_lost, whole.null_gained)
    guessed = whole.chance.guess_corrected_calibrated or whole.chance.guess_corrected
    if guessed is not None and whole.forgotten and not math.isnan(guessed.forgetting):
        left = min(max(guessed.forgetting, 0.0) * guessed.n, whole.forgotten)
        text += f" Guessing alone would make about {count(round(whole.forgotten - left))} of the losses."
    if trajectory is not None and len(trajectory) > 1:
        names = list(dict.fromkeys(alarm.group.name for alarm in trajectory.alarms()))
        if names:
            named = (
                "accuracy as a whole"
                if names == ["all"]
                else ", ".join("the whole" if n == "all" else n for n in names)
            )
            text += f" Over all looks of the run the fall is beyond luck for {named}."
        else:
            text += " Over all looks of the run no fall of accuracy is beyond luck."
    return text


def _against_noise(whole: Group, lost: float, gained: float) -> str:
    """What the unchanged model changed when it was measured again, beside what the changed one did."""
    again = lost + gained
    text = f" Measured a second time, the unchanged model answered {_questions(again).lower()} otherwise"
    if whole.forgotten + whole.gained > 5 * max(again, 1):
        return (
            f"{text}, so the {count(whole.forgotten)} lost and {count(whole.gained)} gained are no noise of measuring."
        )
    return f"{text}: so much of the gains and losses is noise."


def _not_measured(comparison: Comparison) -> str:
    counted, parts = comparison.items, []
    if counted.unscored:
        parts.append(f"{_questions(counted.unscored)} could not be scored and {_is(counted.unscored)} in no count.")
    if counted.only_before or counted.only_after:
        parts.append(
            f"{count(counted.only_before)} questions stand on the first side only and {count(counted.only_after)} "
            "on the second only; they are left out."
        )
    probe = comparison.after.get("probe") or {}
    if probe.get("of"):
        parts.append(
            f"The looks ask the first {count(probe['items'])} of {count(probe['of'])} questions, to save time."
        )
    if comparison.all.known is None:
        parts.append("How sure it was is not known here, so nothing tells clear knowledge from a lucky guess.")
    parts.append(f"What these {count(counted.compared)} questions do not ask is not measured.")
    return " ".join(parts)


def _examples(changed: Sequence[Flip]) -> list[str]:
    """The surest losses in words; of different tasks where there are."""
    lost = [flip for flip in ordered(changed) if flip.what == "forgotten" and flip.question is not None]
    lost.sort(key=lambda flip: not flip.known)  # stable: the surest of the clearly known first
    chosen: list[Flip] = []
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


def shorten(text: str, longest: int = _LONGEST) -> str:
    """A text in one line of so many characters; the end of what is longer, since questions stand there."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"… {line[-longest:]}"


def _questions(number: float) -> str:
    return "No question" if not number else "1 question" if number == 1 else f"{count(number)} questions"


def _is(number: float) -> str:
    return "is" if number in (0, 1) else "are"


def _moved(change: float) -> str:
    tenths = abs(round(100 * change, 1))
    if not tenths:
        return "leave accuracy where it was"
    return f"{'raise' if change > 0 else 'lower'} accuracy by {tenths:.1f} points"


def _range(interval: Interval) -> str:
    low, high = (round(100 * end, 1) for end in interval)
    if low < 0 < high:
        return f"anything between {-low:.1f} points down and {high:.1f} up"
    if high <= 0:
        return f"between {-high:.1f} and {-low:.1f} points down"
    return f"between {low:.1f} and {high:.1f} points up"
