"""Changes although nothing was learned or forgotten: the noise of decoding, and of the measurement itself.

noise_floor    flips that sampled decoding makes by itself, from two or more samples a side
null           flips when the same weights are measured again
"""

from dataclasses import dataclass

import numpy as np

from forgetwatch.metrics.transitions import Bools, Floats, Ints, count_cells, over_samples


@dataclass(frozen=True, kw_only=True)
class Null:
    """Flips when the weights of the model before are measured again, among the items scored in both measurements."""

    measured: float
    null_lost: float
    null_gained: float


def null(before: Bools, repeated: Floats, *, samples: int = 1) -> Null | None:
    """Count the flips between two measurements of the same weights.

    `again` is 1 where the second measurement is right, 0 where wrong, nan without an outcome,
    float64 [rows].

    Returns:
        The counts, or None if nothing was measured twice.
    """
    measured = np.isfinite(repeated)
    if not measured.any():
        return None
    flips = count_cells(before[measured], repeated[measured] == 1, samples=samples)
    number = over_samples(int(measured.sum()), samples)
    return Null(measured=number, null_lost=flips.forgotten, null_gained=flips.gained)


def noise_floor(before: Bools, after: Bools, item: Ints, *, samples: int) -> float | None:
    """Share of items that flip by sampled decoding alone.

    1->0, and as many 0->1; None for a single sample.

    It is (W + W')/4, W the share of items on which two samples of one model disagree, over all
    pairs of samples. `item` is the code of each row's item, int64 [rows]; every item has `samples`
    rows.
    """
    if samples < 2 or not item.size:
        return None
    code = np.unique(item, return_inverse=True)[1]
    right_before, right_after = np.bincount(code, weights=before), np.bincount(code, weights=after)
    # Ordered pairs of different samples of one model: right times wrong, in both orders.
    disagree = right_before * (samples - right_before) + right_after * (samples - right_after)
    return float(disagree.mean()) / (2 * samples * (samples - 1.0))
