"""Sentences below the fold of a report: how sure it is, and what was not measured.

No sentence repeats the verdict, which `report.summary` has, or a table.
"""

from __future__ import annotations

import math
from typing import Final

from forgetwatch.comparing import Comparison, Conclusion, Group, Subset, Trajectory
from forgetwatch.measures import FORM, KNOWN, NULL, net_of_luck
from forgetwatch.pairing import count, is_or_are, listed, passages, questions


def how_sure(comparison: Comparison, found: Conclusion | None, trajectory: Trajectory | None) -> list[str]:
    """Return what intervals do not show, and what was not measured, a text each; `found` is None for no look."""
    parts = [_how_sure(comparison)] if found is not None and found.has_answers else []
    parts += _form(comparison.all)
    if (wordings := comparison.wordings) is not None:
        than = "between wordings beyond chance" if wordings.differ else "between wordings no more than by chance"
        parts.append(f"The net change differs {than} ({wordings}).")
    if comparison.again is not None:
        parts.append(f"{capital(str(comparison.again))}.")
    return [*parts, _not_measured(comparison, trajectory)]


def capital(text: str) -> str:
    """Return the text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def _form(whole: Group) -> list[str]:
    """Return the sentence that divides the losses into those of knowledge and of form; none if no form was lost."""
    if (losses := whole[FORM]) is None or not losses.format_lost:
        return []
    # Losses of form can be of answers that still count as right: the rest of those that are wrong lost their form.
    only_form = whole.forgotten - losses.knowledge_lost
    text = f"Of the {count(whole.forgotten)} forgotten, {count(losses.knowledge_lost)} have another answer and "
    text += f"{count(only_form)} lost only the required form"
    if still_right := max(losses.format_lost - only_form, 0):
        text += f"; {count(still_right)} more are right among the options, but would now begin with other words"
    return [f"{text}."]


def _how_sure(comparison: Comparison) -> str:
    """Return the sentences on measurement noise, guessing and vanished outcomes, which intervals do not show."""
    whole, parts = comparison.all, list[str]()
    if (again := whole[NULL]) is not None:
        parts.append(_against_noise(whole, again.null_lost + again.null_gained))
    parts += _guessing(whole)
    if (vanished := whole.outcomes.vanished) > 0:
        gone = questions(vanished)
        were = "was" if vanished == 1 else "were"
        parts.append(f"{gone} {were} scored on one side alone; a limit is kept only if all of these may be lost.")
    return " ".join([*parts, "An interval that contains 0 shows neither a loss nor a gain."])


def _guessing(whole: Group) -> list[str]:
    """Return the sentence on the number of losses that guessing makes, by the correction for guessing."""
    guessed = whole.chance.guess_corrected
    if guessed is None or not whole.forgotten or math.isnan(guessed.forgetting) or net_of_luck(whole[KNOWN]):
        return []  # the clearly known items show it with fewer assumptions
    low, high = guessed.forgetting_band

    def made(truly: float) -> str:
        """Return the number of losses that guessing made, if this share was truly forgotten."""
        # A corrected rate may lie below 0, or above all losses that were seen.
        left = 0.0 if math.isnan(truly) else min(max(truly, 0.0) * guessed.n, whole.forgotten)
        return count(round(whole.forgotten - left))

    # The more was truly forgotten, the fewer losses guessing made: the ends change places.
    lost = f"the {count(whole.forgotten)} losses" if whole.forgotten > 1 else "this loss"
    text = f"Guessing explains about {made(guessed.forgetting)} of {lost}"
    return [f"{text}." if math.isnan(low) else f"{text} (95 %: {made(high)} to {made(low)})."]


def _against_noise(whole: Group, again: float) -> str:
    """Return the sentence that compares the flips with those of the same weights, measured again."""
    text = f"When the same weights were measured again, {questions(again).lower()} had another result"
    flips = whole.forgotten + whole.gained
    if not flips:
        return f"{text}."
    if again and flips <= 5 * again:
        return f"{text}: about as many of the forgotten and gained ones are noise of the measurement."
    return f"{text}; the {'other ' if again else ''}flips are not noise of the measurement."


_NO_KNOWLEDGE: Final = "Clear knowledge needs the probabilities of three or more options a question; none has them."


def _not_measured(comparison: Comparison, trajectory: Trajectory | None) -> str:
    """Return the sentences on what was not measured."""
    counted, parts = comparison.items, list[str]()
    if trajectory is not None and len(trajectory) == 1:
        parts.append("No look was taken after the start.")
    if counted.unscored:
        parts.append(
            f"{questions(counted.unscored)} could not be scored and {is_or_are(counted.unscored)} in no count."
        )
    if gone := comparison.all.outcomes.newly_unscored:
        known = comparison.all.outcomes.known_vanished
        which = f", {count(known)} of them clearly known before" if known else ""
        parts.append(f"{questions(gone)} {'was' if gone == 1 else 'were'} scored before and not after{which}.")
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
