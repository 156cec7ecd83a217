"""Flips without forgetting, and losses of form: a second measurement, lost formats.

Also the share of the right answers that is lost beyond guessing and noise. See `metrics.noise`,
`metrics.known` and `metrics.guessing`.
"""

import math
from typing import Final

import numpy as np

from forgetwatch.measures.base import Bounds, GroupMeasure, Quantity, Rows, numbers
from forgetwatch.metrics.guessing import RightLost, right_lost
from forgetwatch.metrics.known import Losses, count_losses
from forgetwatch.metrics.noise import Null, noise_floor, null


def _losses(rows: Rows) -> Losses | None:
    pairs = rows.pairs
    if not (np.isfinite(pairs.form_before) & np.isfinite(pairs.form_after)).any():
        return None
    return count_losses(pairs.before, pairs.after, pairs.lost_form, samples=pairs.samples)


FORM: Final = GroupMeasure[Losses](
    key="form",
    of=_losses,
    quantities=(*numbers("count", "format_lost", "knowledge_lost"),),
)


def _null(rows: Rows) -> Null | None:
    pairs = rows.pairs
    return None if pairs.again is None else null(pairs.before, pairs.again, samples=pairs.samples)


NULL: Final = GroupMeasure[Null](
    key="null",
    of=_null,
    quantities=(
        Quantity("null_n", lambda r: r.measured, "count"),
        Quantity("null_lost", lambda r: r.null_lost, "count"),
        Quantity("null_gained", lambda r: r.null_gained, "count"),
    ),
)


def _right_lost(rows: Rows) -> RightLost | None:
    answers, used = rows.pairs.open_or_correctable()
    pairs = rows.pairs.take(used)
    return right_lost(
        answers,
        pairs.chosen_again,
        np.full(len(pairs), np.nan) if pairs.again is None else pairs.again,
        holds=float(pairs.before.sum() / max(rows.pairs.before.sum(), 1)),
        floor=noise_floor(pairs.before, pairs.after, pairs.item, samples=pairs.samples),
    )


RIGHT_LOST: Final = GroupMeasure[RightLost](
    key="right_lost",
    of=_right_lost,
    quantities=(
        Quantity("right_lost_share", lambda r: r.share, "share", low=-math.inf, high=math.inf),
        Bounds(
            "right_lost_share_interval", lambda r: r.interval, "share", low=-math.inf, high=math.inf
        ),
    ),
)
