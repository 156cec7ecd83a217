"""Flips without forgetting, and losses of form: a second measurement, sampled decoding, soft changes, lost formats.

See `metrics.noise` and `metrics.known`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from forgetwatch.measures.base import GroupMeasure, Quantity, Rows
from forgetwatch.metrics import Losses, NoiseFloor, Null, Soft, count_losses, noise_floor, null, soft


def _losses(rows: Rows) -> Losses | None:
    pairs = rows.pairs
    if not (np.isfinite(pairs.form_before) & np.isfinite(pairs.form_after)).any():
        return None
    return count_losses(pairs.before, pairs.after, pairs.lost_form, samples=pairs.samples)


FORM: Final = GroupMeasure[Losses](
    key="form",
    of=_losses,
    quantities=(
        Quantity("format_lost", lambda r: r.format_lost, "count"),
        Quantity("knowledge_lost", lambda r: r.knowledge_lost, "count"),
    ),
)


def _null(rows: Rows) -> Null | None:
    again = rows.pairs.again
    return None if again is None else null(rows.pairs.before, again, samples=rows.pairs.samples)


NULL: Final = GroupMeasure[Null](
    key="null",
    of=_null,
    quantities=(
        Quantity("null_n", lambda r: r.measured, "count"),
        Quantity("null_lost", lambda r: r.null_lost, "count", tracked="all"),
        Quantity("null_gained", lambda r: r.null_gained, "count"),
    ),
)

SOFT: Final = GroupMeasure[Soft](
    key="soft",
    of=lambda rows: soft(rows.pairs.share_before, rows.pairs.share_after, cluster=rows.pairs.cluster),
    parts={"soft": lambda r: r},
    quantities=(
        Quantity("soft.forgetting", lambda r: r.forgetting, "share"),
        Quantity("soft.backward_transfer", lambda r: r.backward_transfer, "share"),
        Quantity("soft.forgetting_se", lambda r: r.forgetting_se, "share"),
        Quantity("soft.backward_transfer_se", lambda r: r.backward_transfer_se, "share"),
    ),
)


def _noise_floor(rows: Rows) -> NoiseFloor | None:
    pairs = rows.pairs
    return noise_floor(pairs.before, pairs.after, pairs.item, samples=pairs.samples, cluster=pairs.cluster)


NOISE_FLOOR: Final = GroupMeasure[NoiseFloor](
    key="noise_floor",
    of=_noise_floor,
    parts={"noise_floor": lambda r: r},
    quantities=(
        Quantity("noise_floor.floor", lambda r: r.floor, "share"),
        Quantity("noise_floor.forgetting", lambda r: r.forgetting, "share"),
        Quantity("noise_floor.backward_transfer", lambda r: r.backward_transfer, "share"),
        Quantity("noise_floor.forgetting_above", lambda r: r.forgetting_above, "share", low=-1.0),
        Quantity("noise_floor.backward_transfer_above", lambda r: r.backward_transfer_above, "share", low=-1.0),
        Quantity("noise_floor.forgetting_above_se", lambda r: r.forgetting_above_se, "share"),
        Quantity("noise_floor.backward_transfer_above_se", lambda r: r.backward_transfer_above_se, "share"),
    ),
)
