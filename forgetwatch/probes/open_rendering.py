"""Whether the open questions of a table are asked in the chat template: decided once, by the base's first answers.

    chat template     where the tokenizer has one
    plain text        without a template, or where none of the first 16 answers is right in the
                      template, and one is in plain text

Questions with options stay plain. A rendering that somebody has named, or that a file holds, is
kept, and so is that of an earlier measurement.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from forgetwatch.errors import ScoringError
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.snapshot import Snapshot

_TRIED: Final = 16
"""Open questions by whose answers the rendering is chosen."""


def rendered(probe: Probe, answers: Callable[[Probe], Snapshot]) -> tuple[Probe, str]:
    """Choose the rendering of open questions, if nobody has.

    Args:
        probe: Any probe.
        answers: Answers of the model at the start to a probe.

    Returns:
        The probe, and a line on the choice; an empty one where there is nothing to choose.
    """
    if not probe.may_chat:
        return probe, ""
    plain, chat = _renderings(probe)
    by_chat, tried = _right(chat, answers)
    if not tried:  # the tokenizer has no template
        return plain, ""
    line = f"open questions are asked in the chat template: {by_chat} of the first {tried} right"
    if by_chat:
        return chat, line
    by_plain, _ = _right(plain, answers)
    if not by_plain:
        return chat, f"{line}, and none in plain text"
    line = f"open questions are asked in plain text: {by_plain} of the first {tried} right, and"
    return plain, f"{line} none in the chat template"


def as_measured(probe: Probe, fingerprint: str | None) -> Probe:
    """Probe in the rendering of an earlier measurement, if it is the same probe."""
    renderings = _renderings(probe) if probe.may_chat else ()
    return next((made for made in renderings if made.fingerprint == fingerprint), probe)


def _renderings(probe: Probe) -> tuple[Probe, Probe]:
    plain = replace(probe, may_chat=False)
    items = (replace(item, rendering="chat") if _is_open(item) else item for item in plain)
    return plain, plain.with_items(items)


def _is_open(item: Item) -> bool:
    return not item.choices and isinstance(item.prompt, str) and item.rendering is None


def _right(probe: Probe, answers: Callable[[Probe], Snapshot]) -> tuple[int, int]:
    # Right answers, and those that have an outcome.
    asked = [item for item in probe if not item.choices][:_TRIED]
    try:
        snapshot = answers(probe.with_items(asked))
    except ScoringError:  # a template that leaves the question out
        return 0, 0
    right = snapshot.floats("correct")[snapshot.ints("sample") == 0]
    return int((right == 1.0).sum()), int((right >= 0.0).sum())
