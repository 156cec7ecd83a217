"""The first page of a report: what was gained and lost, whether it is luck, what was not measured. Words, no symbols.

Everything below it in a report is for those who want to know more; this page must be right for those who do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from forgetwatch.compare import Comparison
from forgetwatch.flips import Flip, ordered
from forgetwatch.groups import Group
from forgetwatch.report.luck import beyond_luck, luck
from forgetwatch.report.numbers import count
from forgetwatch.report.verdict import TOLERANCE, Verdict, verdict
from forgetwatch.report.words import cases, is_or_are, questions, shorten
from forgetwatch.trajectory import Trajectory

EXAMPLES = 2
"""Lost questions that are told in full."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The first page.

    Attributes:
        before: Name of what is compared with.
        after: Name of what is compared.
        sections: A heading and its sentences each.
        examples: Lost questions in words.
        verdict: By the tolerance.
        heading: What changed, in pieces, each with whether it is a name.
        beyond_luck: Which groups fell by more than luck, in one sentence; empty where none did.
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
            f" In {cases(whole.knowledge_lost)} another answer stands there now; in {cases(whole.format_lost)} only "
            "the form that was asked for is lost, as far as one can tell, and some of these may still count as right."
        )
    groups = [group for group in comparison.by("category").values() if group.forgotten]
    if len(comparison.by("category")) > 1 and groups:
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
            "second have no partner on the other, and are left out."
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
