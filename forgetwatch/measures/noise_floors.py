"""Flips without forgetting, and losses of form: a second measurement, sampled decoding, soft changes, lost formats.

See `metrics.noise` and `metrics.form`.
"""

from __future__ import annotations

from typing import Final

from forgetwatch.measures.base import Measure, Quantity, Rows
from forgetwatch.metrics import Losses, NoiseFloor, Null, Soft, count_losses, noise_floor, null, soft


def _losses(rows: Rows) -> Losses | None:
    pairs = rows.pairs
    return count_losses(
        pairs.before,
        pairs.after,
        pairs.form_before,
        pairs.form_after,
        pairs.forced_after,
        constant_mass=pairs.mass_after,
        samples=pairs.samples,
    )


FORM: Final = Measure[Losses](
    key="form",
    of=_losses,
    quantities=(
        Quantity(name="format_lost", read=lambda r: r.format_lost, unit="count"),
        Quantity(name="knowledge_lost", read=lambda r: r.knowledge_lost, unit="count"),
    ),
)


def _null(rows: Rows) -> Null | None:
    again = rows.pairs.again
    return None if again is None else null(rows.pairs.before, again, samples=rows.pairs.samples)


NULL: Final = Measure[Null](
    key="null",
    of=_null,
    quantities=(
        Quantity(name="null_n", read=lambda r: r.measured, unit="count"),
        Quantity(name="null_lost", read=lambda r: r.null_lost, unit="count", tracked="all"),
        Quantity(name="null_gained", read=lambda r: r.null_gained, unit="count"),
    ),
)

SOFT: Final = Measure[Soft](
    key="soft",
    of=lambda rows: soft(rows.pairs.share_before, rows.pairs.share_after, cluster=rows.pairs.cluster),
    parts={"soft": lambda r: r},
    quantities=(
        Quantity(name="soft.forgetting", read=lambda r: r.forgetting, unit="share", high=1.0),
        Quantity(name="soft.backward_transfer", read=lambda r: r.backward_transfer, unit="share", high=1.0),
        Quantity(name="soft.forgetting_se", read=lambda r: r.forgetting_se, unit="share", high=1.0),
        Quantity(name="soft.backward_transfer_se", read=lambda r: r.backward_transfer_se, unit="share", high=1.0),
    ),
)


def _noise_floor(rows: Rows) -> NoiseFloor | None:
    pairs = rows.pairs
    return noise_floor(pairs.before, pairs.after, pairs.item, samples=pairs.samples, cluster=pairs.cluster)


NOISE_FLOOR: Final = Measure[NoiseFloor](
    key="noise_floor",
    of=_noise_floor,
    parts={"noise_floor": lambda r: r},
    quantities=(
        Quantity(name="noise_floor.floor", read=lambda r: r.floor, unit="share", high=1.0),
        Quantity(name="noise_floor.forgetting", read=lambda r: r.forgetting, unit="share", high=1.0),
        Quantity(name="noise_floor.backward_transfer", read=lambda r: r.backward_transfer, unit="share", high=1.0),
        Quantity(
            name="noise_floor.forgetting_above", read=lambda r: r.forgetting_above, unit="share", low=-1.0, high=1.0
        ),
        Quantity(
            name="noise_floor.backward_transfer_above",
            read=lambda r: r.backward_transfer_above,
            unit="share",
            low=-1.0,
            high=1.0,
        ),
        Quantity(name="noise_floor.forgetting_above_se", read=lambda r: r.forgetting_above_se, unit="share", high=1.0),
        Quantity(
            name="noise_floor.backward_transfer_above_se",
            read=lambda r: r.backward_transfer_above_se,
            unit="share",
            high=1.0,
        ),
    ),
)
