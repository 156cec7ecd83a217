"""Log scores: that of the right options' shares, and the bits per byte of passages. See `metrics.log_score`.

A passage is a text without a question, which a model predicts.
"""

import math
from typing import Final

from forgetwatch.measures.base import GroupMeasure, Quantity, Rows, mean_change
from forgetwatch.metrics.log_score import BitsPerByte, LogScore, bits_per_byte, log_score


def _of(rows: Rows) -> LogScore | None:
    pairs = rows.pairs
    before, after = pairs.options_before, pairs.options_after
    if before is None or after is None:
        return None
    return log_score(before, after, cluster=pairs.cluster, samples=pairs.samples)


LOG_SCORE: Final = GroupMeasure[LogScore](
    key="log_score",
    of=_of,
    quantities=(
        Quantity("log_score_before", lambda r: r.before, "nats", low=-math.inf, high=0.0),
        Quantity("log_score_after", lambda r: r.after, "nats", low=-math.inf, high=0.0),
        *mean_change("log_score_change", "change", heading="log score, nats"),
    ),
)


def _of_passages(rows: Rows) -> BitsPerByte | None:
    return None if rows.passages is None else bits_per_byte(rows.passages.passages)


PASSAGES: Final = GroupMeasure[BitsPerByte](
    key="passages",
    title="Passages: what it can still predict",
    about=(
        "A passage is a text without a question. Bits per byte is the number of bits that the "
        "model needs to predict a byte, given all before it: higher is worse. No answer is right "
        "or wrong here, and nothing flips. Brackets hold 95 % intervals, passages as observations."
    ),
    of=_of_passages,
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
    ),
)
