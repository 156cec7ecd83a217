"""The log score: the mean logarithm of the right option's share of the options. See `metrics.log_score`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from forgetwatch.measures.base import GroupMeasure, Quantity, Rows, false_discoveries, mean_change
from forgetwatch.metrics import LogScore, log_shares
from forgetwatch.metrics.log_score import log_score
from forgetwatch.pairing import nats


@dataclass(frozen=True, kw_only=True)
class Scores(LogScore):
    """Log score before and after, nats an item.

    Attributes:
        forgotten_change: Mean change over the forgotten items; None if none of them has scores.
        q_value: Benjamini-Hochberg of the p-value of the calibrated change, over the groups of the level.
    """

    forgotten_change: float | None = None
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
    forgotten = None
    if (gone := pairs.before & ~pairs.after).any():
        change = log_shares(after.take(gone)) - log_shares(before.take(gone))
        forgotten = float(change[finite].mean()) if (finite := np.isfinite(change)).any() else None
    return Scores(**vars(found), forgotten_change=forgotten)


def _corrected(groups: Sequence[Scores | None]) -> list[Scores | None]:
    q_values = false_discoveries([None if one is None else one.p_value for one in groups])
    return [None if one is None else replace(one, q_value=q) for one, q in zip(groups, q_values, strict=True)]


def _line(found: Scores) -> str:
    if found.calibrated is None:
        return ""
    shown, low, high = nats(found.calibrated.mean, *found.calibrated.interval)
    alone = math.isnan(found.calibrated.interval[0])
    return f"log score {shown} nats" + (", calibrated" if alone else f" ({low} to {high}), calibrated")


_NO_CHANGE: Final = 5e-4
"""Change of the log score that no text shows, nats."""


def _sentence(found: Scores) -> str:
    if found.calibrated is None:
        return ""
    change, (start, end) = found.calibrated.mean, found.calibrated.interval
    if max(abs(value) for value in (change, start, end)) < _NO_CHANGE:
        return "the log score of the right options did not change."
    size, low, high = (text.lstrip("+-") for text in nats(change, start, end))
    text = f"the log score of the right options {'rose' if change > 0 else 'fell'} by {size} nats a question, after "
    text += "removing that the model became more or less sure of all options. "
    if end < 0:
        return f"{text}Between {high} and {low} down would fit. It falls before answers flip."
    if start > 0:
        return f"{text}Between {low} and {high} up would fit."
    return f"{text}That may be luck: anything between {low} down and {high} up would fit."


LOG_SCORE: Final = GroupMeasure[Scores](
    key="log_score",
    of=_of,
    corrected=_corrected,
    line=_line,
    sentence=_sentence,
    question="Is it less sure of the right answers?",
    quantities=(
        Quantity("log_score_before", lambda r: r.before, "nats", low=-math.inf, high=0.0),
        Quantity("log_score_after", lambda r: r.after, "nats", low=-math.inf, high=0.0),
        *mean_change("log_score_change", lambda r: r.change, unit="nats", show=nats),
        *mean_change("log_score_change_clipped", lambda r: r.clipped, unit="nats", show=nats),
        *mean_change(
            "log_score_change_calibrated",
            lambda r: r.calibrated,
            unit="nats",
            show=nats,
            heading="log score, nats",
            tracked="category",
        ),
        Quantity("log_score_p_value", lambda r: r.p_value, "share"),
        Quantity("log_score_q_value", lambda r: r.q_value, "share"),
        Quantity("temperature_before", lambda r: r.temperature_before, "ratio"),
        Quantity("temperature_after", lambda r: r.temperature_after, "ratio"),
        Quantity("forgotten_log_score_change", lambda r: r.forgotten_change, "nats", low=-math.inf),
    ),
)
