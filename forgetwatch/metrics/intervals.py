"""Intervals for paired outcomes: two-sided 95 % unless stated; (nan, nan) for no items.

    wilson, flip_interval      a share of n
    newcombe                   the net change, two dependent shares
    mean_interval              a mean of per-item scores
    clustered_mean             the standard error of such a mean where rows are not independent
    effective_items            the number of independent items that such rows are worth

Rows that share a passage, a template or a question flip together. Counted as independent they would
give intervals that are too narrow; the intervals of shares then use the number of independent items
with the same standard error.
"""

import math

import numpy as np
from scipy import special

from forgetwatch.metrics.transitions import Cells, Floats, Ints

Interval = tuple[float, float]

NOTHING: Interval = (math.nan, math.nan)


def wilson(count: float, n: float, *, level: float = 0.95) -> Interval:
    """Wilson's score interval of a share, within 0 to 1.

    (nan, nan) for n = 0.

    Source: Wilson 1927.

    >>> [round(end, 4) for end in wilson(10, 100)]
    [0.0552, 0.1744]
    """
    if not n > 0:
        return NOTHING
    z = float(special.ndtri(0.5 + level / 2))
    share = count / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)
    # At 0 and n the ends are 0 and 1 exactly; the formula gives them up to rounding.
    return (0.0 if count == 0 else max(low, 0.0)), (1.0 if count == n else min(high, 1.0))


def flip_interval(count: float, n: float) -> Interval:
    """Interval of a flip rate.

    Wilson's; for no flips the exact one-sided 95 % limit, 1 - .05^(1/n).

    (nan, nan) for n = 0.
    """
    if n > 0 and count == 0:
        return 0.0, 1.0 - 0.05 ** (1.0 / n)
    return wilson(count, n)


def newcombe(cells: Cells, *, level: float = 0.95) -> Interval:
    """Interval of the net change, after minus before.

    Within -1 to 1; (nan, nan) for no items.

    Newcombe's (1998) method 10 for paired shares, with the corrected phi. Unlike Wald's it keeps
    its coverage in small samples and at the edges.
    """
    n = cells.n
    if not n > 0:
        return NOTHING
    right_before, right_after = cells.retained + cells.forgotten, cells.retained + cells.gained
    share_before, share_after = right_before / n, right_after / n
    low_before, high_before = wilson(right_before, n, level=level)
    low_after, high_after = wilson(right_after, n, level=level)
    cross = cells.retained * cells.missed - cells.forgotten * cells.gained
    # The corrected phi takes n/2 off a positive numerator, at most to 0, and leaves a negative one.
    if cross > 0:
        cross = max(cross - n / 2, 0.0)
    margins = right_before * (n - right_before) * right_after * (n - right_after)
    phi = cross / math.sqrt(margins) if margins else 0.0
    change = share_after - share_before
    # The change is lowest with the lower end of the share after and the upper end of the share
    # before.
    below = combined_width(share_after - low_after, high_before - share_before, phi)
    above = combined_width(high_after - share_after, share_before - low_before, phi)
    return max(change - below, -1.0), min(change + above, 1.0)


def combined_width(left: float, right: float, phi: float) -> float:
    """Width to one side of a difference of two estimates.

    It follows from the width of each and the correlation phi.

    Source: Zou and Donner 2008; Newcombe's method 10 is a case of it.
    """
    return math.sqrt(max(left * left - 2 * phi * left * right + right * right, 0.0))


def mean_interval(mean: float, error: float, *, low: float = -1.0, high: float = 1.0) -> Interval:
    """Interval of a mean.

    Plus and minus 1.96 standard errors, cut at its range; (nan, nan) without an error.
    """
    if not (math.isfinite(mean) and math.isfinite(error)):
        return NOTHING
    half = float(special.ndtri(0.975)) * error
    return max(mean - half, low), min(mean + half, high)


def clustered_mean(values: Floats, cluster: Ints | None = None) -> tuple[float, float]:
    """Mean and standard error of clustered rows.

    (nan, nan) for no rows; a nan error for one observation or equal values.

    Rows of one cluster count as one observation. Source: Miller 2024, arXiv 2411.00640, with the
    small-sample factor G/(G-1) over G clusters.
    """
    if not values.size:
        return NOTHING
    mean = float(values.mean())
    if cluster is None:
        count = len(values)
        squares = float(values.var()) * count
    else:
        sums = np.bincount(cluster_codes(cluster), weights=values - mean)
        count = len(sums)
        squares = float(sums @ sums)
    if count < 2 or squares <= 0.0:  # equal values say nothing about how much they vary
        return mean, math.nan
    return mean, math.sqrt(squares * count / (count - 1)) / values.size


def cluster_codes(cluster: Ints) -> Ints:
    """Number the clusters from 0, in rising order, int64 [rows]."""
    if not cluster.size:
        return cluster
    # np.unique would sort; codes are small, and those of one task close together, so a table by
    # code is linear.
    cluster = cluster - cluster.min()
    there = np.zeros(int(cluster.max()) + 1, np.int64)
    there[cluster] = 1
    codes: Ints = (np.cumsum(there) - 1)[cluster]
    return codes


def effective_items(values: Floats, cluster: Ints) -> float:
    """Independent items with the standard error of clustered rows.

    0 for no rows.

    The variance of the rows over the squared standard error of their mean, reduced by the squared
    ratio of the t quantile for this number of clusters to the normal one; never above the number of
    rows. For equal rows it is the number of clusters. Source: Korn and Graubard 1998, for shares.
    """
    if not values.size:
        return 0.0
    count = int(cluster_codes(cluster).max()) + 1
    if count < 2:
        return 1.0
    error = clustered_mean(values, cluster)[1]
    spread = float(values.var())
    if spread == 0.0:
        return float(count)
    # Rows of a cluster can cancel out exactly; then there is no evidence of a worth above their
    # number.
    worth = math.inf if math.isnan(error) else spread / error**2
    quantile = float(special.stdtrit(count - 1, 0.975)) / float(special.ndtri(0.975))
    return max(min(worth / quantile**2, float(values.size)), 1.0)
