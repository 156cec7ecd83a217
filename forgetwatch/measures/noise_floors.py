"""Flips without forgetting, and losses of form: a second measurement, sampled decoding, soft changes, lost formats.

See `metrics.noise` and `metrics.known`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from forgetwatch.measures.base import GroupMeasure, Quantity, Rows, numbers
from forgetwatch.metrics import Losses, NoiseFloor, Null, Soft, count_losses, noise_floor, null, soft

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
