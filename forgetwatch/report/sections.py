"""Sentences below the fold of a report: what was lost and gained, how sure that is, and what was not measured.

Each section has a heading that a reader would search for. No sentence repeats the verdict, which `report.summary` has,
and each is complete without the tables.
"""

from __future__ import annotations

import math
from typing import Final

from forgetwatch.comparing import Comparison, Conclusion, Group, Subset, Trajectory, WordingChanges
from forgetwatch.measures import (
    DRIFT,
    FORM,
    HISTORY,
    KNOWN,
    MASS,
    MEASURES,
    NULL,
    SET_NAMES,
    form_takes_over,
    mass_mode,
    net_of_luck,
    sentence_of,
)
from forgetwatch.pairing import count, is_or_are, listed, one_line, passages, points, questions

HOW_SURE: Final = "How sure is that?"
BY_WORDING: Final = "Is it the wording?"
ASKED_AGAIN: Final = "Lost, or only asked otherwise?"
NOT_MEASURED: Final = "What was not measured"


def sections(comparison: Comparison, found: Conclusion, trajectory: Trajectory | None) -> list[tuple[str, str]]:
    """Return (heading, text) of the sections, without that on what was not measured."""
    whole, made = comparison.all, list[tuple[str, str]]()
    if found.has_answers:
        made = [
            (HOW_SURE, _how_sure(comparison, found)),
            ("What it lost", _flipped(whole.forgotten, "right", "wrong") + _form(whole)),
            ("What it gained", _gained(comparison, found, trajectory)),
        ]
    made += [(one.question, capital(text)) for one in MEASURES if (text := sentence_of(one, whole[one]))]
    if comparison.wordings is not None:
        made.append((BY_WORDING, _by_wording(comparison.wordings)))
    if comparison.again is not None:
        made.append((ASKED_AGAIN, f"{capital(str(comparison.again))}."))
    drifts = (comparison[DRIFT] or {}).items()
    moved = [
        f"After the {SET_NAMES.get(name, name)}, {text}" for name, one in drifts if (text := sentence_of(DRIFT, one))
    ]
    made += [(DRIFT.question, " ".join(moved) + _beside_options(comparison))] if moved else []
    if trajectory is not None and (text := sentence_of(HISTORY, trajectory[HISTORY])):
        made.append((HISTORY.question, capital(text)))
    return made


def _by_wording(found: WordingChanges) -> str:
    """Return the net change by wording, and whether it is equal."""
    if found.differ:
        return f"In part: the net change differs between wordings beyond chance ({found})."
    return f"It is not shown: the net change differs between wordings no more than by chance ({found})."


_AGREEMENT: Final[dict[tuple[bool, str], str]] = {
    (True, "mass"): "The options say the same: of the forgotten answers they are said less.",
    (True, "both"): "The options show both: of the forgotten answers they are said less, and another one is preferred.",
    (True, "conditional"): "The options show something else: of the forgotten answers another one is preferred, which "
    "another form does not explain.",
    (False, "mass"): "The options show something else: of the forgotten answers they are said less. Free texts begin "
    "as before, so it is the form that the questions ask for which became rarer.",
    (False, "both"): "The options show both: of the forgotten answers another one is preferred, and all are said less.",
    (False, "conditional"): "The options say the same: of the forgotten answers another one is preferred.",
}
"""By whether free texts begin in another form, and by `mass_mode` of the forgotten answers."""


def _beside_options(comparison: Comparison) -> str:
    """Return the sentence that sets what the options lost beside what free texts did; empty if one is not known."""
    drift, split = (comparison[DRIFT] or {}).get("probe"), comparison.all[MASS]
    form = None if drift is None else form_takes_over(drift)
    mode = None if split is None else mass_mode(split)
    if form is None or mode is None or (form, mode) not in _AGREEMENT:
        return ""
    return f" {_AGREEMENT[form, mode]}"


def capital(text: str) -> str:
    """Return the text with a capital at its beginning."""
    return text[:1].upper() + text[1:]


def _flipped(flips: float, before: str, after: str) -> str:
    return f"{questions(flips)} that it answered {before} before {is_or_are(flips)} now {after}."


def _form(whole: Group) -> str:
    """Return the sentences that divide the losses into those of knowledge and of form; empty if no form was lost."""
    if (losses := whole[FORM]) is None or not losses.format_lost:
        return ""
    # Losses of form can be of answers that still count as right: the rest of those that are wrong lost their form.
    only_form = whole.forgotten - losses.knowledge_lost
    still_right = losses.format_lost - only_form
    text = " In each case another answer took its place." if whole.forgotten else ""
    if only_form:
        have = "has" if losses.knowledge_lost == 1 else "have"
        text = f" Of these, {count(losses.knowledge_lost)} {have} another answer and"
        text += f" {count(only_form)} lost only the required form."
    if still_right > 0:
        text += (
            f" {questions(still_right)} more still {'counts' if still_right == 1 else 'count'} as right among the "
            "options, but a freely written answer would now begin with other words."
        )
    return text


def _gained(comparison: Comparison, found: Conclusion, trajectory: Trajectory | None) -> str:
    """Return the sentences on the gains, with the categories that rose, and the figure of the new task."""
    text = _flipped(comparison.all.gained, "wrong", "right")
    groups = sorted(comparison.by("category").values(), key=lambda group: -group.gained)
    most = [f"{one_line(group.name)} ({count(group.gained)})" for group in groups if group.gained]
    if found.won:
        rose = [f"{one_line(one.group.name)} by {points(one.change).lstrip('+')} points" for one in found.won]
        text += f" Accuracy rose in {listed(rose)}."
    elif most and len(groups) > 1:
        text += f" Most of them are in {listed(most)}."
    task = None if trajectory is None else trajectory.task
    return text if task is None else f"{text} The trainer logged {task}."


def _how_sure(comparison: Comparison, found: Conclusion) -> str:
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
    """Return the sentence on the number of losses that guessing makes, by the calibrated correction if available."""
    guessed = whole.chance.guess_corrected_calibrated or whole.chance.guess_corrected
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


_NO_MIRROR: Final = (
    "No question has two wrong options, so confident answers cannot be distinguished from lucky guesses."
)
_NO_SHARES: Final = (
    "The probabilities of the options are not known, so clear knowledge cannot be distinguished from a lucky guess."
)


def not_measured(comparison: Comparison, trajectory: Trajectory | None) -> str:
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
        # If the shares of the right options are there, it is for want of wrong options.
        parts.append(_NO_SHARES if comparison.all.soft is None else _NO_MIRROR)
    these = ["this question" if counted.compared == 1 else f"these {count(counted.compared)} questions"]
    if texts:
        these = [*these, passages(texts)] if counted.compared else [f"these {passages(texts)}"]
    parts.append(f"Nothing beyond {' and '.join(these)} was measured.")
    return " ".join(parts)
