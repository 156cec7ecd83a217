"""Bits per byte of passages: texts without a question, which a model predicts. See `metrics.log_score`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from forgetwatch.measures.base import GroupMeasure, Quantity, Rows, false_discoveries, mean_change, with_interval
from forgetwatch.metrics import BitsPerByte, bits_per_byte
from forgetwatch.pairing import bits, count, passages, probability


@dataclass(frozen=True, kw_only=True)
class PassageBits(BitsPerByte):
    """Bits per byte of a group's passages before and after.

    Attributes:
        q_value: Benjamini-Hochberg over the groups of the level; None for one passage, which has no test.
    """

    q_value: float | None = None


def _of(rows: Rows) -> PassageBits | None:
    found = None if rows.passages is None else bits_per_byte(rows.passages.passages)
    return None if found is None else PassageBits(**vars(found))


def _corrected(groups: Sequence[PassageBits | None]) -> list[PassageBits | None]:
    q_values = false_discoveries([None if one is None else one.change.p_value for one in groups])
    return [None if one is None else replace(one, q_value=q) for one, q in zip(groups, q_values, strict=True)]


def _line(found: PassageBits) -> str:
    sides = f"{found.before:.3f} -> {found.after:.3f}"
    return f"passages {count(found.passages)}   bits per byte {sides}: {with_interval(bits, found.change)}"


def _sentence(found: PassageBits) -> str:
    change, interval = found.change.mean, found.change.interval
    text = f"its {passages(found.passages)} took {found.before:.3f} bits per byte before and take {found.after:.3f} now"
    if not change and not any(interval):
        return f"{text}: nothing changed."
    size, low, high = (end.lstrip("+-") for end in bits(change, *interval))
    text += f", {size} {'more' if change > 0 else 'fewer'}"
    if math.isnan(interval[0]):
        return f"{text}. One passage does not show how much of that is luck."
    if interval[0] > 0:
        return f"{text}: the texts have become harder to predict. Between {low} and {high} more would fit."
    if interval[1] < 0:
        return f"{text}: the texts have become easier to predict. Between {high} and {low} fewer would fit."
    return f"{text}. That may be luck: anything between {low} fewer and {high} more would fit."


PASSAGES: Final = GroupMeasure[PassageBits](
    key="passages",
    title="Passages: what it can still predict",
    about=(
        "A passage is a text without a question. Bits per byte is what the model needs to predict it, given all "
        "before: higher is worse. No answer is right or wrong here, and nothing flips. Brackets hold 95 % intervals, "
        "passages as observations."
    ),
    of=_of,
    corrected=_corrected,
    line=_line,
    sentence=_sentence,
    question="Can it still predict text?",
    quantities=(
        Quantity("passages", lambda r: r.passages, "count", heading="passages"),
        Quantity(
            "bits_per_byte_before",
            lambda r: r.before,
            "bits",
            heading="bits per byte before",
            text=lambda r: f"{r.before:.3f}",
        ),
        Quantity(
            "bits_per_byte_after",
            lambda r: r.after,
            "bits",
            heading="after",
            text=lambda r: f"{r.after:.3f}",
            tracked="all",
            tracker="bits_per_byte",
        ),
        *mean_change("bits_per_byte_change", lambda r: r.change, unit="bits", show=bits, heading="change"),
        Quantity("bits_per_byte_p_value", lambda r: r.change.p_value, "share"),
        Quantity(
            "bits_per_byte_q_value",
            lambda r: r.q_value,
            "share",
            heading="q",
            text=lambda r: probability(math.nan if r.q_value is None else r.q_value),
        ),
    ),
)
