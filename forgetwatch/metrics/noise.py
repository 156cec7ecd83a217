"""Changes although nothing was learned or forgotten: the noise of decoding, and of the measurement itself.

soft           changes of gold's probability: no decoding, so no decoding noise
noise_floor    flips that sampled decoding makes by itself, from two or more samples a side
null           flips when the same weights are measured again
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forgetwatch.metrics.intervals import clustered_mean
from forgetwatch.metrics.transitions import Bools, Floats, Ints, count_cells, over_samples


@dataclass(frozen=True, kw_only=True)
class Soft:
    """Mean loss and mean gain of gold's probability share. Their difference is the change of its mean, exactly."""

    forgetting: float
    backward_transfer: float
    forgetting_se: float
    backward_transfer_se: float


def soft(share_before: Floats, share_after: Floats, *, cluster: Ints | None = None) -> Soft | None:
    """Compute mean (p - p')_+ and mean (p' - p)_+ over the rows measured on both sides; None if there is none.

    p is gold's share of the option probability, 0 to 1, nan where it was not measured, float64 [rows].
    """
    change = share_after - share_before
    measured = np.isfinite(change)
    if not measured.any():
        return None
    change, cluster = change[measured], None if cluster is None else cluster[measured]
    forgetting, forgetting_se = clustered_mean(np.maximum(-change, 0.0), cluster)
    backward_transfer, backward_transfer_se = clustered_mean(np.maximum(change, 0.0), cluster)
    return Soft(
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        forgetting_se=forgetting_se,
        backward_transfer_se=backward_transfer_se,
    )


@dataclass(frozen=True, kw_only=True)
class NoiseFloor:
    """Flips that sampled decoding makes by itself, and the flips observed: shares of items over pairs of samples.

    Attributes:
        floor: 1->0 flips, and as many 0->1, that unchanged probabilities of being right would give.
        forgetting: 1->0 flips between a sample before and another sample after.
        backward_transfer: 0->1 flips between them.
        forgetting_above: `forgetting` minus `floor`; estimates mean [(p-p')^2 + (p-p')]/2. Below 0 where unsure
            answers improve.
        backward_transfer_above: The mirror image.
    """

    floor: float
    forgetting: float
    backward_transfer: float
    forgetting_above: float
    backward_transfer_above: float
    forgetting_above_se: float
    backward_transfer_above_se: float


def noise_floor(
    before: Bools, after: Bools, item: Ints, *, samples: int, cluster: Ints | None = None
) -> NoiseFloor | None:
    """Compute the noise floor of sampled decoding; None for a single sample or no rows.

    floor = (W + W')/4, W the share of items on which two samples of one model disagree, over all pairs of samples.
    `item` is the code of each row's item, int64 [rows]; every item has `samples` rows, all in one cluster.
    """
    if samples < 2 or not item.size:
        return None
    codes, first = np.unique(item, return_index=True)
    code = np.searchsorted(codes, item)
    right_before, right_after = np.bincount(code, weights=before), np.bincount(code, weights=after)
    same_sample = np.bincount(code, weights=before & ~after), np.bincount(code, weights=~before & after)
    # Sample j before and sample j after may share a seed; only pairs of different samples are independent draws.
    pairs = samples * (samples - 1.0)
    # Ordered pairs of different samples of one model: right times wrong, in both orders.
    disagree = (right_before * (samples - right_before) + right_after * (samples - right_after)) * 2 / pairs
    forgotten = (right_before * (samples - right_after) - same_sample[0]) / pairs
    gained = ((samples - right_before) * right_after - same_sample[1]) / pairs
    # From here on one value per item, so the item itself is no cluster any more.
    of_item = None if cluster is None else cluster[first]
    above, above_se = clustered_mean(forgotten - disagree / 4, of_item)
    gain_above, gain_above_se = clustered_mean(gained - disagree / 4, of_item)
    return NoiseFloor(
        floor=float(disagree.mean()) / 4,
        forgetting=float(forgotten.mean()),
        backward_transfer=float(gained.mean()),
        forgetting_above=above,
        backward_transfer_above=gain_above,
        forgetting_above_se=above_se,
        backward_transfer_above_se=gain_above_se,
    )


@dataclass(frozen=True, kw_only=True)
class Null:
    """Flips when the weights of the model before are measured again, among the items scored in both measurements."""

    measured: float
    null_lost: float
    null_gained: float


def null(before: Bools, again: Floats, *, samples: int = 1) -> Null | None:
    """Count the flips between two measurements of the same weights; None if nothing was measured twice.

    `again` is 1 where the second measurement is right, 0 where wrong, nan without an outcome, float64 [rows].
    """
    measured = np.isfinite(again)
    if not measured.any():
        return None
    flips = count_cells(before[measured], again[measured] == 1, samples=samples)
    number = over_samples(int(measured.sum()), samples)
    return Null(measured=number, null_lost=flips.forgotten, null_gained=flips.gained)
