"""Tests of paired outcomes, with b items forgotten and c items gained: alarms over many looks, and planning.

    mcnemar                two-sided, mid-p or exact: is b - c more than chance?
    loss_p_value           one-sided and exact: is there a net loss?
    sign_flip              both of these for items in clusters
    false_discovery        q-values of the same test in many groups
    alarm_level            p-value at which a look raises an alarm
    detectable_change      the smallest net change that n items see
    detectable_estimate    the same by margins
    items_needed           its inverse
    detectable_known_lost  the smallest number of known and lost items, less luck, that n items see

The null of all of them is "no net change", not "no change": a model that forgets as much as it gains gives no evidence
and raises no such alarm. The number of known and lost items, and the log score, show that change.

With twenty looks at ten categories, one of two hundred p-values is small by chance alone. So an alarm is raised at a
look whose one-sided p-value is at most alpha/(G T), with T looks planned and G groups watched, or alpha/(G t(t+1)) at
the t-th look if T is unknown. The level is a union bound: whatever the dependence between looks and groups, an
unchanged model raises any alarm in at most alpha of runs. `comparing.trajectory` chooses the test.

Before a run `discordance` is the share of items that will flip either way, 0 to 1. It matters more than the change: a
model that is trained hard flips 10 to 20 % of its answers and may end with the accuracy that it began with. It also
sets how many known items luck makes: `luck` was measured on a real model, SmolLM2-135M-Instruct on the shipped items,
in 16 comparisons of its start with fine-tunings, full and LoRA, of which 7 to 31 % of the answers flipped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from forgetwatch.metrics.intervals import cluster_codes, combined_width, wilson
from forgetwatch.metrics.transitions import Floats, Ints

EXACT_WORK: Final = 10**8
"""Number of changed clusters times their summed sizes, up to which the clustered test is exact."""


def mcnemar(forgotten: int, gained: int, *, mid: bool = True) -> float:
    """Return two-sided p-value of "no net change" by McNemar's test on the discordant pairs; mid-p unless `mid` is off.

    1 if nothing flipped. The exact test is conservative; mid-p rejects at most 5.0 % of unchanged models at the 5 %
    level, in exact calculation over a random number of flips (Fagerland, Lydersen and Laake 2013).

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
    """Return the one-sided p-value of "no net loss" by McNemar's exact test, or mid-p.

    Without flips 1, and 1/2 for mid-p.

    >>> loss_p_value(0, 0), loss_p_value(0, 0, mid=True), loss_p_value(3, 0)
    (1.0, 0.5, 0.125)
    """
    flips = forgotten + gained
    at_least = 1.0 if forgotten == 0 else float(special.bdtrc(forgotten - 1, flips, 0.5))
    return at_least - (0.5 * _half_binomial(forgotten, flips) if mid else 0.0)


def _half_binomial(count: int, n: int) -> float:
    """Return the probability of `count` heads among n fair coins."""
    log_ways = special.gammaln(n + 1) - special.gammaln(count + 1) - special.gammaln(n - count + 1)
    return math.exp(float(log_ways) - n * math.log(2))


@dataclass(frozen=True, kw_only=True)
class SignFlip:
    """p-values of "no net change" (two-sided, mid-p) and of "no net loss" (one-sided, exact)."""

    p_value: float
    loss_p_value: float


def sign_flip(change: Ints, cluster: Ints, *, exact_work: int = EXACT_WORK) -> SignFlip:
    """Test "no net change" and "no net loss" where rows come in clusters that flip together.

    Under the null each cluster's summed change is as likely as its opposite. The distribution of the total over all
    signs is exact up to `EXACT_WORK`; beyond, it is normal with the same variance, the one-sided p-value with half a
    step added. With one item per cluster it is McNemar's test. Few clusters cannot reject: three that all lost give
    .125.

    `change` is right after minus right before, -1, 0 or 1, int64 [rows].
    """
    sums = np.bincount(cluster_codes(cluster), weights=change) if change.size else np.zeros(0)
    sums = sums[sums != 0]  # a cluster without net change is the same under either sign
    total = float(sums.sum())
    if not sums.size:
        return SignFlip(p_value=1.0, loss_p_value=1.0)
    sizes = np.abs(sums).astype(np.int64)
    if len(sizes) * int(sizes.sum()) > exact_work:
        # All totals are multiples of the sizes' divisor: half of it corrects the normal tail for the steps.
        spread, half_step = math.sqrt(float(sums @ sums)), float(np.gcd.reduce(sizes))
        at_most = float(special.ndtr((total + half_step) / spread))
        return SignFlip(p_value=float(2 * special.ndtr(-abs(total) / spread)), loss_p_value=at_most)
    positive = np.zeros(int(sizes.sum()) + 1)  # distribution of the summed sizes of the clusters that rose
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


def false_discovery(p_values: Floats) -> Floats:
    """Return Benjamini-Hochberg q-values in the order given, 0 to 1; nan stays nan and is not counted.

    Source: Benjamini and Hochberg 1995.
    """
    q_values = np.full(len(p_values), math.nan)
    tested = np.flatnonzero(np.isfinite(p_values))
    if tested.size:
        # From the largest p-value down, so that a q-value is the minimum over all p-values that are not smaller.
        order = tested[np.argsort(-p_values[tested], kind="stable")]
        ranks = np.arange(len(order), 0, -1)
        q_values[order] = np.minimum(np.minimum.accumulate(p_values[order] * len(order) / ranks), 1.0)
    return q_values


def alarm_level(look: int, *, groups: int, planned: int | None = None, alpha: float = 0.05) -> float:
    """Return the p-value at and below which a look raises an alarm.

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


def smallest_loss(flips: int, level: float) -> float:
    """Return the smallest net loss, in items, with a one-sided exact p-value up to `level` among `flips` flips.

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


_LUCK_PER_FLIP: Final = 0.2
"""Share of items that are known and lost by luck, per squared discordance; measured 0 to 0.26, median 0.2."""

_WEIGHT: Final = 0.5
"""Known and lost items that luck makes per mirrored item: 1/(k-2) for four options."""


def detectable_change(n: float, discordance: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the smallest net change (0 to 1) that n paired items see with the given power; nan if no change would do.

    Solves Connor's (1987) n = (z_a sqrt(psi) + z_b sqrt(psi - d^2))^2 / d^2 for d <= psi, psi the share of items that
    flip. Under n psi of about 8 there is no solution.

    Args:
        n: Number of items.
        discordance: Share of them that flip, 0 to 1.
        power: Probability that a change of this size gives p <= alpha.
        alpha: Two-sided level; twice a one-sided level for a one-sided test.

    >>> round(100 * detectable_change(2000, 0.10), 1)
    2.0
    """
    z_alpha, z_beta = float(special.ndtri(1 - alpha / 2)), float(special.ndtri(power))
    # With less power than false alarms every change would do.
    if not n > 0 or not discordance > 0 or z_alpha + z_beta <= 0:
        return math.nan
    first = z_alpha * math.sqrt(discordance)
    scale = n + z_beta**2
    # Squaring Connor's equation gives a quadratic in d with the leading coefficient `scale`; this is its larger root.
    inner = n * first**2 - scale * (first**2 - z_beta**2 * discordance)
    change = (first * math.sqrt(n) + math.sqrt(max(inner, 0.0))) / scale
    # Squaring adds roots that do not solve the equation; equality is allowed, up to rounding.
    almost = 1 + 1e-9
    solves = first <= almost * change * math.sqrt(n) and change <= almost * discordance <= almost
    return change if solves else math.nan


def detectable_estimate(
    n: float, discordance: float, *, unscored: float = 0.0, power: float = 0.8, alpha: float = 0.05
) -> float:
    """Return the smallest net change (0 to 1) that n scored items show by the estimate from margins.

    Nan if no change would do.

    Before a run nothing is known of the margins. The estimate is then taken to have half the variance of the flips; on
    real models it had less for changes below eight points.

    Args:
        n: Number of items with option scores.
        discordance: See `detectable_change`.
        unscored: Number of further items, of which only the flips are known.
        power: See `detectable_change`.
        alpha: See `detectable_change`.

    >>> round(100 * detectable_estimate(2000, 0.10), 1)
    1.4
    """
    # Means of two parts, weighted by their items: the number of items by flips alone with the same variance.
    like = (n + unscored) ** 2 / (n / 2 + unscored) if n or unscored else 0.0
    return detectable_change(like, discordance, power=power, alpha=alpha)


def items_needed(change: float, discordance: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Return the number of items that see a net change with the given power, by Connor's (1987) formula, not rounded.

    nan if the change is 0 or above the discordance (a net change cannot exceed the share of items that flip), and
    if the power is below alpha/2.

    >>> round(items_needed(0.02, 0.10))
    1960
    """
    change = abs(change)
    z_alpha, z_beta = float(special.ndtri(1 - alpha / 2)), float(special.ndtri(power))
    if not 0 < change <= discordance <= 1 or z_alpha + z_beta <= 0:  # nan included
        return math.nan
    spread = z_alpha * math.sqrt(discordance) + z_beta * math.sqrt(discordance - change**2)
    return spread**2 / change**2


def luck(discordance: float) -> float:
    """Return the share of items that are known and lost by luck to plan with, 0 to 1.

    >>> luck(0.10)
    0.002
    """
    return round(_LUCK_PER_FLIP * discordance**2, 12)


def detectable_known_lost(n: float, discordance: float, *, power: float = 0.8) -> float:
    """Return the smallest number of items known and lost, less luck, whose 95 % interval n items show above 0.

    nan if it exceeds the number of items that flip. A net d has the variance d + n luck (1 + w), where w = 1/2 is the
    weight of a mirrored item with four options; the interval of `metrics.known` has to be above 0 for a net that is z_b
    standard deviations below d.

    Args:
        n: Number of items with at least two wrong options.
        discordance: Share of them that flip, 0 to 1; it sets the `luck`.
        power: Probability that the interval is above 0.

    >>> round(detectable_known_lost(2000, 0.10), 1)
    9.3
    """
    if not n > 0 or not discordance > 0:
        return math.nan
    z_beta = float(special.ndtri(power))
    lost_by_luck = n * luck(discordance)
    moved = lost_by_luck / _WEIGHT
    most = n * discordance
    above_moved = n * wilson(moved, n)[1] - moved

    def excess(net: float) -> float:
        low_net = net - z_beta * math.sqrt(net + lost_by_luck * (1 + _WEIGHT))
        lost = max(low_net + lost_by_luck, 0.0)
        return low_net - combined_width(lost - n * wilson(lost, n)[0], _WEIGHT * above_moved, 0.0)

    # Imported here: it takes tens of megabytes and a tenth of a second, and a comparison does not plan.
    from scipy import optimize

    return float(optimize.brentq(excess, 0.0, most)) if excess(most) >= 0 else math.nan
