"""Intervals and tests for paired outcomes: b items forgotten, c items gained, of n.

    wilson, flip_interval      a share of n
    newcombe                   the net change, two dependent shares
    mcnemar                    is b - c more than luck?
    false_discovery            the same question asked of many groups
    detectable_change          the smallest net change that n items can see

All levels are two-sided 95 % unless stated.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from forgetwatch.metrics.transitions import Cells

Interval = tuple[float, float]


def wilson(count: float, n: float, *, level: float = 0.95) -> Interval:
    """Wilson's score interval of a share, within 0 to 1; (nan, nan) for n = 0.

    Source: Wilson 1927.

    >>> [round(end, 4) for end in wilson(10, 100)]
    [0.0552, 0.1744]
    """
    if n <= 0:
        return math.nan, math.nan
    z = float(special.ndtri(0.5 + level / 2))
    share = count / n
    centre = share + z * z / (2 * n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)
    return (0.0 if count == 0 else max(low, 0.0)), (1.0 if count == n else min(high, 1.0))


def flip_interval(count: float, n: float) -> Interval:
    """Interval of a flip rate: Wilson's, and for no flips the exact one-sided 95 % limit, 1 - .05^(1/n).

    (nan, nan) for n = 0.
    """
    if n > 0 and count == 0:
        return 0.0, 1.0 - 0.05 ** (1.0 / n)
    return wilson(count, n)


def newcombe(cells: Cells, *, level: float = 0.95) -> Interval:
    """Interval of the net change, after minus before, within -1 to 1; (nan, nan) for no items.

    Newcombe's (1998) method 10 for paired shares, with the corrected phi. Unlike Wald's it keeps its coverage in small
    samples and at the edges.
    """
    n = cells.n
    if n <= 0:
        return math.nan, math.nan
    right_before, right_after = cells.retained + cells.forgotten, cells.retained + cells.gained
    share_before, share_after = right_before / n, right_after / n
    low_before, high_before = wilson(right_before, n, level=level)
    low_after, high_after = wilson(right_after, n, level=level)
    cross = cells.retained * cells.missed - cells.forgotten * cells.gained
    if cross > 0:
        cross = max(cross - n / 2, 0.0)
    margins = right_before * (n - right_before) * right_after * (n - right_after)
    phi = cross / math.sqrt(margins) if margins else 0.0
    change = share_after - share_before
    below = _combine(share_after - low_after, high_before - share_before, phi)
    above = _combine(high_after - share_after, share_before - low_before, phi)
    return max(change - below, -1.0), min(change + above, 1.0)


def _combine(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(one * one - 2 * phi * one * other + other * other, 0.0))


def mcnemar(forgotten: int, gained: int, *, mid: bool = True) -> float:
    """Two-sided p-value of "no net change": McNemar's test on the discordant pairs, mid-p unless `mid` is off.

    1 where nothing flipped. The exact test is conservative; mid-p rejects at most 5.0 % of unchanged models at the 5 %
    level, in exact calculation over a random number of flips (Fagerland, Lydersen and Laake 2013).

    >>> round(mcnemar(9, 21), 6), round(mcnemar(9, 21, mid=False), 6)
    (0.029449, 0.042774)
    """
    flips, fewer = forgotten + gained, min(forgotten, gained)
    if forgotten == gained:
        return 1.0
    at_most = float(special.bdtr(fewer, flips, 0.5))
    if not mid:
        return min(1.0, 2 * at_most)
    log_binomial = special.gammaln(flips + 1) - special.gammaln(fewer + 1) - special.gammaln(flips - fewer + 1)
    return min(1.0, 2 * at_most - math.exp(float(log_binomial) - flips * math.log(2)))


def clustered_p_value(change: NDArray[np.float64], cluster: NDArray[np.int64]) -> float:
    """Two-sided p-value of "no net change" for rows that come in clusters; 1 where nothing changed.

    A normal test of the summed change of each cluster around zero, with the variance under that null.

    Args:
        change: Right after minus right before, -1, 0 or 1 [rows].
        cluster: Code of each row's cluster [rows].
    """
    sums = np.bincount(np.unique(cluster, return_inverse=True)[1], weights=change)
    spread = math.sqrt(float(np.sum(sums**2)))
    return 1.0 if spread == 0 else float(2 * special.ndtr(-abs(float(sums.sum())) / spread))


def clustered_mean(values: NDArray[np.float64], cluster: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and its standard error, rows of one cluster counted as one observation; (nan, nan) for no rows.

    Source: Miller 2024, arXiv 2411.00640, with the small-sample factor G/(G-1) over G clusters; nan error for G = 1.
    """
    if not values.size:
        return math.nan, math.nan
    mean = float(values.mean())
    sums = np.bincount(np.unique(cluster, return_inverse=True)[1], weights=values - mean)
    count = len(sums)
    if count < 2:
        return mean, math.nan
    return mean, math.sqrt(float(np.sum(sums**2)) * count / (count - 1)) / values.size


def false_discovery(p_values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Benjamini-Hochberg q-values in the order given, 0 to 1; nan stays nan and is not counted.

    Source: Benjamini and Hochberg 1995.
    """
    q_values = np.full(len(p_values), math.nan)
    tested = np.flatnonzero(np.isfinite(p_values))
    if tested.size:
        order = tested[np.argsort(-p_values[tested], kind="stable")]
        ranks = np.arange(len(order), 0, -1)
        q_values[order] = np.minimum(np.minimum.accumulate(p_values[order] * len(order) / ranks), 1.0)
    return q_values


def detectable_change(n: float, discordance: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """The smallest net change (0 to 1) that n paired items see with the given power; nan where no change would do.

    Solves Connor's (1987) n = (z_a sqrt(psi) + z_b sqrt(psi - d^2))^2 / d^2 for d <= psi, psi the share of items that
    flip. Under n psi of about 8 there is no solution.

    >>> round(100 * detectable_change(2000, 0.10), 1)
    2.0
    """
    if not n > 0 or not discordance > 0:
        return math.nan
    z_alpha, z_beta = float(special.ndtri(1 - alpha / 2)), float(special.ndtri(power))
    first = z_alpha * math.sqrt(discordance)
    scale = n + z_beta**2
    inner = n * first**2 - scale * (first**2 - z_beta**2 * discordance)
    change = (first * math.sqrt(n) + math.sqrt(max(inner, 0.0))) / scale
    solves = first <= change * math.sqrt(n) and change <= discordance <= 1
    return change if solves else math.nan
