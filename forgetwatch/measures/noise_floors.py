"""Flips without forgetting, and losses of form: a second measurement, sampled decoding, soft changes, lost formats.

Also the share of the right answers that is lost beyond guessing and noise. See `metrics.noise`, `metrics.known` and
`metrics.guessing`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from forgetwatch.measures.base import Bounds, GroupMeasure, Quantity, Rows, numbers
from forgetwatch.metrics import (
    Losses,
    NoiseFloor,
    Null,
    RightLost,
    Soft,
    count_losses,
    noise_floor,
    null,
    right_lost,
    soft,
)

_RATES: Final = ("forgetting", "backward_transfer")


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
    floor = noise_floor(pairs.before, pairs.after, pairs.item, samples=pairs.samples, cluster=pairs.cluster)
    return right_lost(
        answers,
        pairs.chosen_again,
        np.full(len(pairs), np.nan) if pairs.again is None else pairs.again,
        holds=float(pairs.before.sum() / max(rows.pairs.before.sum(), 1)),
        floor=None if floor is None else floor.floor,
    )


RIGHT_LOST: Final = GroupMeasure[RightLost](
    key="right_lost",
    of=_right_lost,
    quantities=(
        Quantity("right_lost_share", lambda r: r.share, "share", low=-math.inf, high=math.inf),
        Bounds("right_lost_share_interval", lambda r: r.interval, "share", low=-math.inf, high=math.inf),
    ),
)

SOFT: Final = GroupMeasure[Soft](
    key="soft",
    of=lambda rows: soft(rows.pairs.share_before, rows.pairs.share_after, cluster=rows.pairs.cluster),
    parts={"soft": lambda r: r},
    quantities=(*numbers("share", *_RATES, "forgetting_se", "backward_transfer_se", prefix="soft."),),
)


def _noise_floor(rows: Rows) -> NoiseFloor | None:
    pairs = rows.pairs
    return noise_floor(pairs.before, pairs.after, pairs.item, samples=pairs.samples, cluster=pairs.cluster)


NOISE_FLOOR: Final = GroupMeasure[NoiseFloor](
    key="noise_floor",
    of=_noise_floor,
    parts={"noise_floor": lambda r: r},
    quantities=(
        *numbers("share", "floor", *_RATES, prefix="noise_floor."),
        *numbers("share", "forgetting_above", "backward_transfer_above", prefix="noise_floor.", low=-1.0),
        *numbers("share", "forgetting_above_se", "backward_transfer_above_se", prefix="noise_floor."),
    ),
)
