"""Planning before a run: the number of items for a net change, and the change that a number of items can see.

    detectable_change      the smallest net change that n items see
    items_needed           its inverse

`discordance` is the share of items that flip either way. It matters more than the change itself: a model that is
trained hard flips 10 to 20 % of its answers and may end with the accuracy that it began with.
"""

from __future__ import annotations

import math

from scipy import special


def detectable_change(n: float, discordance: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Smallest net change (0 to 1) that n paired items see with the given power; nan if no change would do.

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
    if not n > 0 or not discordance > 0:
        return math.nan
    z_alpha, z_beta = float(special.ndtri(1 - alpha / 2)), float(special.ndtri(power))
    if z_alpha + z_beta <= 0:  # less power than false alarms: every change would do
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


def items_needed(change: float, discordance: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Number of items that see a net change with the given power, by Connor's (1987) formula, not rounded.

    nan if the change is 0 or above the discordance (a net change cannot exceed the share of items that flip), and
    if the power is below alpha/2.

    >>> round(items_needed(0.02, 0.10))
    1960
    """
    change = abs(change)
    if not 0 < change <= discordance <= 1:  # nan included
        return math.nan
    z_alpha, z_beta = float(special.ndtri(1 - alpha / 2)), float(special.ndtri(power))
    if z_alpha + z_beta <= 0:
        return math.nan
    spread = z_alpha * math.sqrt(discordance) + z_beta * math.sqrt(discordance - change**2)
    return spread**2 / change**2
