"""Log scores: that of the right options' shares, and the bits per byte of passages. See `metrics.log_score`.

A passage is a text without a question, which a model predicts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from forgetwatch.measures.base import GroupMeasure, Quantity, Rows, mean_change, numbers, with_interval, with_q_values
from forgetwatch.metrics import BitsPerByte, LogScore, bits_per_byte
from forgetwatch.metrics.log_score import log_score
from forgetwatch.text import count, probability


@dataclass(frozen=True, kw_only=True)
class Scores(LogScore):
    """Log score before and after, nats an item.

    Attributes:
        forgotten_change: Mean change over the forgotten items; None if none of them has scores.
        q_value: Benjamini-Hochberg of the p-value of the calibrated change, over the groups of the level.
    """

    q_value: float | None = None

    @property
    def p_value(self) -> float | None:
        """Two-sided p-value of "no change" of the calibrated log score."""
        return None if self.calibrated is None else self.calibrated.p_value


def _of(rows: Rows) -> Scores | None:
    pairs = rows.pairs
    before, after = pairs.options_before, pairs.options_after
    if before is None or after is None:
        return None
    found = log_score(before, after, cluster=pairs.cluster, samples=pairs.samples)
    if found is None:
        return None
    return Scores(**vars(found))


LOG_SCORE: Final = GroupMeasure[Scores](
    key="log_score",
    of=_of,
    corrected=with_q_values,
    quantities=(
        Quantity("log_score_before", lambda r: r.before, "nats", low=-math.inf, high=0.0),
        Quantity("log_score_after", lambda r: r.after, "nats", low=-math.inf, high=0.0),
        *mean_change("log_score_change", "change"),
        *mean_change("log_score_change_calibrated", "calibrated", heading="log score, nats"),
        Quantity("log_score_p_value", lambda r: r.p_value, "share"),
        Quantity("log_score_q_value", lambda r: r.q_value, "share"),
        *numbers("ratio", "temperature_before", "temperature_after"),
    ),
)


@dataclass(frozen=True, kw_only=True)
class PassageBits(BitsPerByte):
    """Bits per byte of a group's passages before and after.

    Attributes:
        q_value: Benjamini-Hochberg over the groups of the level; None for one passage, which has no test.
    """

    q_value: float | None = None

    @property
    def p_value(self) -> float:
        """Two-sided p-value of "no change"."""
        return self.change.p_value


def _of_passages(rows: Rows) -> PassageBits | None:
    found = None if rows.passages is None else bits_per_byte(rows.passages.passages)
    return None if found is None else PassageBits(**vars(found))


def _passage_line(found: PassageBits) -> str:
    sides = f"{found.before:.3f} -> {found.after:.3f}"
    change = with_interval(found.change, "bits")
    return f"passages      {count(found.passages)}; bits per byte {sides}: {change}"


PASSAGES: Final = GroupMeasure[PassageBits](
    key="passages",
    title="Passages: what it can still predict",
    about=(
        "A passage is a text without a question. Bits per byte is the number of bits that the model needs to predict "
        "a byte, given all before it: higher is worse. No answer is right or wrong here, and nothing flips. Brackets "
        "hold 95 % intervals, passages as observations."
    ),
    of=_of_passages,
    corrected=with_q_values,
    line=_passage_line,
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
        *mean_change("bits_per_byte_change", "change", unit="bits", heading="change"),
        Quantity("bits_per_byte_p_value", lambda r: r.p_value, "share"),
        Quantity(
            "bits_per_byte_q_value",
            lambda r: r.q_value,
            "share",
            heading="q",
            text=lambda r: probability(math.nan if r.q_value is None else r.q_value),
        ),
    ),
)
