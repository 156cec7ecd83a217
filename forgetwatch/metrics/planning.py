"""Planning before a run: the number of items for a change, and the change that a number of items can see.

    detectable_change      the smallest net change that n items see
    items_needed           its inverse
    detectable_known_lost  the smallest number of known and lost items, less luck, that n items see
    detectable_log_score   the smallest change of the calibrated log score that n items see

`discordance` is the share of items that flip either way, 0 to 1. It matters more than the change itself: a model that
is trained hard flips 10 to 20 % of its answers and may end with the accuracy that it began with. It also sets how much
the log shares of the items vary, and how many known items luck makes: `log_score_sd` and `luck` were measured on a real
model, SmolLM2-135M-Instruct on the shipped items, in 16 comparisons of its start with fine-tunings, full and LoRA, of
which 7 to 31 % of the answers flipped.
"""

from __future__ import annotations

import math
from typing import Final

from scipy import special

from forgetwatch.metrics.intervals import combined_width, wilson
from forgetwatch.metrics.log_score import FEWEST_SCORED

_SD_PER_FLIP: Final = 1.4
"""Standard deviation of the paired differences, nats, per unit of discordance; measured 0.96 to 1.54, median 1.35."""

_LUCK_PER_FLIP: Final = 0.2
"""Share of items that are known and lost by luck, per squared discordance; measured 0 to 0.26, median 0.2."""

_WEIGHT: Final = 0.5
"""Known and lost items that luck makes per mirrored item: 1/(k-2) for four options."""


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


def items_needed(change: float, discordance: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Number of items that see a net change with the given power, by Connor's (1987) formula, not rounded.

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


def log_score_sd(discordance: float) -> float:
    """Standard deviation of the paired differences of the calibrated log score to plan with, nats.

    >>> log_score_sd(0.10)
    0.14
    """
    return round(_SD_PER_FLIP * discordance, 12)


def luck(discordance: float) -> float:
    """Share of items that are known and lost by luck to plan with, 0 to 1.

    >>> luck(0.10)
    0.002
    """
    return round(_LUCK_PER_FLIP * discordance**2, 12)


def detectable_log_score(n: float, sd: float, *, power: float = 0.8, alpha: float = 0.05, delta: float = 0.0) -> float:
    """Smallest change of the log score, in nats an item, that n scored items see with the given power.

    nan for fewer than 50 items, for which there is no change.

    Args:
        n: Number of scored items.
        sd: Standard deviation of the paired differences, nats; see `log_score_sd`.
        power: See `detectable_change`.
        alpha: See `detectable_change`.
        delta: Fall that the test tolerates, nats an item; it adds to the change.

    >>> round(detectable_log_score(2000, 0.14), 4)
    0.0088
    """
    if not n >= FEWEST_SCORED or not sd > 0:
        return math.nan
    return delta + float(special.ndtri(1 - alpha / 2) + special.ndtri(power)) * sd / math.sqrt(n)


def detectable_known_lost(n: float, discordance: float, *, power: float = 0.8) -> float:
    """Smallest number of items known and lost, less luck, whose 95 % interval n items show above 0.

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
