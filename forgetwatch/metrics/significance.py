"""Tests of paired outcomes, with b items forgotten and c items gained: alarms over many looks.

    mcnemar                two-sided, mid-p or exact: is b - c more than chance?
    loss_p_value           one-sided and exact: is there a net loss?
    sign_flip              both of these for items in clusters
    alarm_level            p-value at which a look raises an alarm
    smallest_loss          smallest net loss with such a p-value

The null of all of them is "no net change", not "no change": a model that forgets as much as it
gains gives no evidence and raises no such alarm. The number of known and lost items, and the log
score, show that change.

With twenty looks at ten categories, one of two hundred p-values is small by chance alone. So an
alarm is raised at a look whose one-sided p-value is at most alpha/(G T), with T looks planned and G
groups watched, or alpha/(G t(t+1)) at the t-th look if T is unknown. The level is a union bound:
whatever the dependence between looks and groups, an unchanged model raises any alarm in at most
alpha of runs. `comparing.trajectory` chooses the test.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from forgetwatch.metrics.intervals import cluster_codes
from forgetwatch.metrics.transitions import Ints

EXACT_WORK: Final = 10**8
"""Number of changed clusters times their summed sizes, up to which the clustered test is exact."""


def mcnemar(forgotten: int, gained: int, *, mid: bool = True) -> float:
    """Two-sided p-value of "no net change" by McNemar's test.

    On the discordant pairs; mid-p unless `mid` is off.

    1 if nothing flipped. The exact test is conservative; mid-p rejects at most 5.0 % of unchanged
    models at the 5 % level, in exact calculation over a random number of flips (Fagerland, Lydersen
    and Laake 2013).

    >>> round(mcnemar(9, 21), 6), round(mcnemar(9, 21, mid=False), 6)
    (0.029449, 0.042774)
    """
    flips, fewer = forgotten + gained, min(forgotten, gained)
    if forgotten == gained:
        return 1.0
    at_most = float(special.bdtr(fewer, flips, 0.5))
    # mid-p counts half of the observed split in each of the two tails.
    return min(1.0, 2 * at_most - (_half_binomial(fewer, flips) if mid else 0.0))


def loss_p_value(forgotten: int, gained: int, *, mid: bool = False) -> float:
    """One-sided p-value of "no net loss" by McNemar's test.

    Exact, or mid-p.

    Without flips 1, and 1/2 for mid-p.

    >>> loss_p_value(0, 0), loss_p_value(0, 0, mid=True), loss_p_value(3, 0)
    (1.0, 0.5, 0.125)
    """
    flips = forgotten + gained
    at_least = 1.0 if forgotten == 0 else float(special.bdtrc(forgotten - 1, flips, 0.5))
    return at_least - (0.5 * _half_binomial(forgotten, flips) if mid else 0.0)


def _half_binomial(count: int, n: int) -> float:
    log_ways = special.gammaln(n + 1) - special.gammaln(count + 1) - special.gammaln(n - count + 1)
    return math.exp(float(log_ways) - n * math.log(2))


@dataclass(frozen=True, kw_only=True)
class SignFlip:
    """p-values of "no net change" (two-sided, mid-p) and of "no net loss" (one-sided, exact)."""

    p_value: float
    loss_p_value: float


def sign_flip(change: Ints, cluster: Ints, *, exact_work: int = EXACT_WORK) -> SignFlip:
    """Test "no net change" and "no net loss" for clustered rows.

    Rows of a cluster flip together.

    Under the null each cluster's summed change is as likely as its opposite. The distribution of
    the total over all signs is exact up to `EXACT_WORK`; beyond, it is normal with the same
    variance, the one-sided p-value with half a step added. With one item per cluster it is
    McNemar's test. Few clusters cannot reject: three that all lost give .125.

    `change` is right after minus right before, -1, 0 or 1, int64 [rows].
    """
    sums = np.bincount(cluster_codes(cluster), weights=change) if change.size else np.zeros(0)
    sums = sums[sums != 0]  # a cluster without net change is the same under either sign
    total = float(sums.sum())
    if not sums.size:
        return SignFlip(p_value=1.0, loss_p_value=1.0)
    sizes = np.abs(sums).astype(np.int64)
    if len(sizes) * int(sizes.sum()) > exact_work:
        # All totals are multiples of the sizes' divisor: half of it corrects the normal tail for
        # the steps.
        spread, half_step = math.sqrt(float(sums @ sums)), float(np.gcd.reduce(sizes))
        at_most = float(special.ndtr((total + half_step) / spread))
        return SignFlip(p_value=float(2 * special.ndtr(-abs(total) / spread)), loss_p_value=at_most)
    positive = np.zeros(
        int(sizes.sum()) + 1
    )  # distribution of the summed sizes of the clusters that rose
    positive[0] = 1.0
    for size in sizes:  # convolve with a fair coin between 0 and the size
        shifted = np.zeros_like(positive)
        shifted[size:] = positive[:-size]
        positive = (positive + shifted) / 2
    rose = int(sizes[sums > 0].sum())
    at_most, at_least = float(positive[: rose + 1].sum()), float(positive[rose:].sum())
    # mid-p: half of the probability of the observed total is taken off the tail.
    tail = min(at_most, at_least) - 0.5 * float(positive[rose])
    return SignFlip(p_value=min(1.0, 2 * tail), loss_p_value=min(1.0, at_most))


def alarm_level(
    look: int, *, groups: int, planned: int | None = None, alpha: float = 0.05
) -> float:
    """P-value at and below which a look raises an alarm.

    Args:
        look: Number of the look after the baseline, from 1.
        groups: Number of groups watched.
        planned: Number of looks planned; None if unknown.
        alpha: Share of unchanged runs that may raise any alarm, 0 to 1.

    Raises:
        ValueError: If `look` is below 1 or above `planned`, or there are no groups.
    """
    if look < 1 or groups < 1 or (planned is not None and look > planned):
        raise ValueError(
            f"needed 1 <= look <= planned and a group, got look {look} of {planned}, {groups} "
            "groups"
        )
    return alpha / (groups * (planned if planned is not None else look * (look + 1)))


def smallest_loss(flips: int, level: float) -> float:
    """Smallest net loss with a p-value up to `level`.

    In items, one-sided and exact, among `flips` flips.

    nan if even the loss of every flipped item gives a larger p-value.

    >>> smallest_loss(40, 0.05), smallest_loss(4, 0.05)
    (12.0, nan)
    """
    low, high = 0, flips + 1
    while low < high:  # the p-value falls with the number of losses: bisect
        middle = (low + high) // 2
        if loss_p_value(middle, flips - middle) <= level:
            high = middle
        else:
            low = middle + 1
    # All flips that are not losses are gains: the net loss is low - (flips - low).
    return 2.0 * low - flips if low <= flips else math.nan
