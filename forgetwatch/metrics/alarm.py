"""Alarms over many looks at the same items.

    net       accuracy fell: exact one-sided McNemar, over clusters a sign-flip test
    fading    the calibrated log score fell by more than a tolerated `DELTA`: one-sided t-test (metrics.log_score)

With twenty looks at ten categories, one of two hundred p-values is small by chance alone. An alarm is raised at a look
whose one-sided p-value is at most alpha/(G T), with T looks planned and G groups watched, or alpha/(G t(t+1)) at the
t-th look if T is unknown. The level is a union bound: whatever the dependence between looks and groups, an unchanged
model raises any alarm in at most alpha of runs. Where options have scores, net and fading have half of alpha each,
whatever they show.

The null of the first is "no net loss", not "no change": a model that forgets as much as it gains raises no alarm of
that kind. The number of known and lost items, and the log score, show such a change.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special


def alarm_level(look: int, *, groups: int, planned: int | None = None, alpha: float = 0.05) -> float:
    """p-value at and below which a look raises an alarm.

    Args:
        look: Number of the look after the baseline, from 1.
        groups: Number of groups watched.
        planned: Number of looks planned; None if unknown.
        alpha: Share of unchanged runs that may raise any alarm, 0 to 1.

    Raises:
        ValueError: If `look` is below 1 or above `planned`, or there are no groups.
    """
    if look < 1 or groups < 1 or (planned is not None and look > planned):
        raise ValueError(f"needed 1 <= look <= planned and a group, got look {look} of {planned}, {groups} groups")
    return alpha / (groups * (planned if planned is not None else look * (look + 1)))


def share_of_alpha(alpha: float = 0.05, *, fading: bool) -> float:
    """Share of the false alarms that each kind of alarm may make: half where fading is watched too, else all.

    Args:
        alpha: Share of unchanged runs that may raise any alarm, 0 to 1.
        fading: True if the options have scores.
    """
    return alpha / 2 if fading else alpha


def smallest_loss(flips: int, level: float) -> float:
    """Smallest net loss, in items, whose one-sided exact p-value is at most `level` among `flips` flipped items.

    nan if even the loss of every flipped item gives a larger p-value.

    >>> smallest_loss(40, 0.05), smallest_loss(4, 0.05)
    (12.0, nan)
    """
    # All flips that are not losses are gains: the net loss is fewest - (flips - fewest).
    return 2.0 * float(fewest) - flips if (fewest := _fewest(np.array([flips]), level)[0]) <= flips else math.nan


def _fewest(flips: np.ndarray, level: float) -> np.ndarray:
    """Minimum number of forgotten items among `flips` with a p-value of at most `level`; flips + 1 if there is none."""
    low, high = np.zeros(len(flips), np.int64), flips.astype(np.int64) + 1
    while np.any(low < high):  # P(X >= count) falls with the count: bisect
        middle = (low + high) // 2
        # bdtrc(c - 1, n, p) is P(X >= c), and that is 1 for c = 0.
        tail = np.where(middle == 0, 1.0, special.bdtrc(np.maximum(middle - 1, 0), flips, 0.5))
        found = (tail <= level) | (middle > flips)
        low, high = np.where(found, low, middle + 1), np.where(found, middle, high)
    return low


def alarm_power(n: int, *, discordance: float, loss: float, level: float) -> float:
    """Probability that one look alarms when the true net loss is `loss`; exact over the number of flips.

    nan if the loss exceeds the discordance, or nothing flips.

    Args:
        n: Number of independent items.
        discordance: Share of items that flip, 0 to 1.
        loss: True net loss, 0 to 1.
        level: The alarm's level, see `alarm_level`.

    >>> round(alarm_power(500, discordance=0.15, loss=0.05, level=alarm_level(1, groups=1, planned=20)), 2)
    0.5
    """
    if not (0 <= loss <= discordance <= 1 and discordance > 0):
        return math.nan
    # Beyond ten standard deviations the binomial weights are smaller than the rounding error of the sum.
    spread = 10 * math.sqrt(n * discordance * (1 - discordance)) + 10
    flips = np.arange(max(0, math.floor(n * discordance - spread)), min(n, math.ceil(n * discordance + spread)) + 1)
    log_ways = special.gammaln(n + 1) - special.gammaln(flips + 1) - special.gammaln(n - flips + 1)
    weights = np.exp(log_ways + special.xlogy(flips, discordance) + special.xlog1py(n - flips, -discordance))
    fewest = _fewest(flips, level)
    down = (discordance + loss) / (2 * discordance)  # share of the flips that are losses
    power = np.where(fewest > flips, 0.0, special.bdtrc(np.clip(fewest - 1, 0, flips), flips, down))
    power = np.where(fewest == 0, 1.0, power)
    return float(weights @ power)
