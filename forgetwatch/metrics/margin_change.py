"""Net change from margins: a change of accuracy that uses how far each answer is from the boundary.

An item that moves from .1 nats below the boundary to .1 above says as much about a model as one that moves on to
.3 above. Flips count the first and not the second. Margins count both:

    m = best score of a right option - best score of a wrong one                       nats; m' after
    h = c mean|m|,   h' = c mean|m'|                                                   over all items
    S = mean[ Phi(m'/h') - Phi(m/h) ]                                                  `margin_change`

S is a change of accuracy in which an answer is right by degrees. Each side has its own h, so a model that only becomes
surer of all its answers does not change S. S varies less than the net change R of the flips, but it assumes that items
on either side of the boundary move alike over a distance h, and it shrinks large changes. The estimate weighs the two:

    E = (1-w) R + w S                                                                  `net_change_estimate`
    w = clip((V_R - C) / (V_R + V_S - 2C + b^2), 0, 1)
    V_R = (half the width of R's Newcombe interval / 1.96)^2                           not 0 where nothing flips
    C = rho sqrt(V_R V_S)                                                              rho: correlation over items
    b^2 = FLOOR^2 + (SHARE S)^2                                                        the bias that S is charged
    interval = E +- t sqrt((1-w)^2 V_R + w^2 (V_S + b^2) + 2 w (1-w) C)

A fall is tested by a one-sided t-test of the softened changes, with one more observation of +1 among them. Without it
a group with many small falls and few large rises would raise far more false alarms than its level allows.

This w has the least mean squared error. As items or the change grow, b^2 outweighs the variance of R, and E is R again.
w and h come from all items of a comparison and are used in each of its groups, so that groups can be compared.

Derived for this project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import special

from forgetwatch.metrics.choices import OptionScores
from forgetwatch.metrics.intervals import Interval
from forgetwatch.metrics.log_score import Change, mean_change
from forgetwatch.metrics.transitions import Floats, Ints

C: Final = 0.75
"""Width of the boundary over the mean distance from it.

Chosen with the two constants below on pairs of models and planted worlds (docs/explanation/decision.md): the widest for
which the interval of E holds the net change of the items not drawn in at least 90 % of draws of every real pair.
"""

FLOOR: Final = 0.004
"""Standard deviation of the bias of S for no change, as a share of the items."""

SHARE: Final = 0.4
"""Standard deviation of the bias of S for large changes, as a share of S."""

FEWEST: Final = 5
"""Smallest number of scored items that have an estimate."""

DELTA: Final = 0.005
"""Fall of S that raises no alarm, as a share of the items."""

FEWEST_TESTED: Final = 50
"""Smallest number of scored items whose fall is tested by margins."""


def margins(options: OptionScores) -> Floats:
    """Best score of a right option minus best of a wrong one, nats, float64 [rows]; positive where the answer is right.

    nan where there is no right or no wrong option, a score is nan, or neither kind has a finite score. Infinite where
    only one of them has.
    """
    scores, golds = options.dense()
    if not scores.size:
        return np.full(len(options.k), np.nan)
    best_gold = np.where(golds, scores, -np.inf).max(axis=1)
    there = np.arange(scores.shape[1]) < options.k[:, None]
    best_wrong = np.where(golds | ~there, -np.inf, scores).max(axis=1)
    with np.errstate(invalid="ignore"):  # no finite score on either side
        found: Floats = best_gold - best_wrong
    found[~(golds.any(axis=1) & (there & ~golds).any(axis=1))] = np.nan
    return found


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """Widths of the boundary between right and wrong, nats.

    Attributes:
        h: Width before.
        h_after: Width after.
    """

    h: float
    h_after: float

    def softened(self, before: Floats, after: Floats) -> Floats:
        """Change of each item's softened answer, -1 to 1, from its margins; float64 [rows]."""
        changed: Floats = special.ndtr(after / self.h_after) - special.ndtr(before / self.h)
        return changed


@dataclass(frozen=True, kw_only=True)
class MarginRule:
    """Widths of the boundary, and the weight of S, chosen over all items of a comparison for each of its groups."""

    boundary: Boundary
    weight: float

    @property
    def definition(self) -> dict[str, float]:
        """The numbers that lead from margins to an estimate: widths in nats, weight, and the bias that is charged."""
        return {**vars(self.boundary), "weight": self.weight, "floor": FLOOR, "share": SHARE}


def boundary(before: Floats, after: Floats, *, c: float = C) -> Boundary | None:
    """Widths for the margins of two sides; None if a side's mean distance is 0, infinite, or that of no item.

    Args:
        before: Margins before, nats, float64 [rows]; rows where a side is nan take no part.
        after: Margins after [rows].
        c: Width over mean distance.
    """
    there = ~(np.isnan(before) | np.isnan(after))
    if not there.any():
        return None
    h, h_after = (c * float(np.abs(side[there]).mean()) for side in (before, after))
    return Boundary(h=h, h_after=h_after) if 0 < h < math.inf and 0 < h_after < math.inf else None


@dataclass(frozen=True, kw_only=True)
class NetMargin:
    """Two measurements of one change of accuracy: by flips, and by margins.

    Attributes:
        flips: Net change of the flips, R, -1 to 1.
        flips_variance: Its variance V_R, from the width of its interval.
        margins: Change of the softened answers, S, with its standard error.
        correlation: Of the two differences over the items, -1 to 1; 0 if one of them is constant.
    """

    flips: float
    flips_variance: float
    margins: Change
    correlation: float

    @property
    def _variances(self) -> tuple[float, float, float]:
        """V_S with the bias that S is charged, and C; then V_S alone."""
        alone = self.margins.error**2
        bias = FLOOR**2 + (SHARE * self.margins.mean) ** 2
        return alone + bias, self.correlation * math.sqrt(self.flips_variance * alone), alone

    @property
    def weight(self) -> float:
        """Weight of S that gives the estimate its least mean squared error, 0 to 1."""
        biased, shared, _ = self._variances
        spread = self.flips_variance + biased - 2 * shared
        return min(max((self.flips_variance - shared) / spread, 0.0), 1.0) if spread > 0 else 0.0

    def estimate(self, weight: float) -> Change:
        """Estimate of the net change, -1 to 1, with its standard error.

        Args:
            weight: Weight of S; that of all items is used in each of their groups.
        """
        biased, shared, _ = self._variances
        of_flips = 1 - weight
        variance = of_flips**2 * self.flips_variance + weight**2 * biased + 2 * weight * of_flips * shared
        return Change(
            mean=of_flips * self.flips + weight * self.margins.mean,
            error=math.sqrt(max(variance, 0.0)),
            observations=self.margins.observations,
        )


def net_margin(softened: Floats, flipped: Floats, interval: Interval, cluster: Ints | None = None) -> NetMargin | None:
    """Both measurements of the net change of some items; None for fewer than `FEWEST` rows or clusters.

    Args:
        softened: Change of each item's softened answer, float64 [rows]; see `Boundary.softened`.
        flipped: Right after minus right before, -1 to 1, float64 [rows].
        interval: 95 % interval of the mean of `flipped`.
        cluster: Code of each row's independent observation, int64 [rows]; None if every row is one.
    """
    if len(softened) < FEWEST:
        return None
    margins_change = mean_change(softened, cluster)
    if math.isnan(margins_change.error):  # equal differences: they do not vary
        margins_change = Change(mean=margins_change.mean, error=0.0, observations=margins_change.observations)
    both_vary = float(softened.std()) > 0 and float(flipped.std()) > 0
    return NetMargin(
        flips=float(flipped.mean()),
        flips_variance=((interval[1] - interval[0]) / (2 * float(special.ndtri(0.975)))) ** 2,
        margins=margins_change,
        correlation=float(np.corrcoef(softened, flipped)[0, 1]) if both_vary else 0.0,
    )


@dataclass(frozen=True, kw_only=True)
class FallTest:
    """One-sided test of "S fell by no more than delta".

    Attributes:
        change: Mean of the softened changes and of one more observation of +1, with its standard error.
        delta: Fall that is tolerated, as a share of the items.
    """

    change: Change
    delta: float

    @property
    def p_value(self) -> float:
        """One-sided p-value, by Student's t."""
        return float(special.stdtr(self.change.observations - 1, (self.change.mean + self.delta) / self.change.error))

    def smallest_fall(self, level: float) -> float:
        """Smallest fall whose p-value is at most `level`, for changes that vary as these do."""
        return self.delta - float(special.stdtrit(self.change.observations - 1, level)) * self.change.error


def fall_test(softened: Floats, cluster: Ints | None = None, *, delta: float = DELTA) -> FallTest | None:
    """Test a group for a fall by margins; None for fewer than `FEWEST_TESTED` rows or clusters.

    Args:
        softened: Change of each item's softened answer, float64 [rows]; see `Boundary.softened`.
        cluster: Code of each row's independent observation, int64 [rows]; None if every row is one.
        delta: Fall that is tolerated, as a share of the items.
    """
    observations = len(softened) if cluster is None else len(np.unique(cluster))
    if observations < FEWEST_TESTED:
        return None
    found = mean_change(np.append(softened, 1.0), None if cluster is None else np.append(cluster, cluster.max() + 1))
    # Where every item rose by 1 nothing varies, and nothing fell.
    return FallTest(change=found if found.error > 0 else replace(found, error=1.0), delta=delta)


def pooled(scored: Change, others: Change, *, share: float) -> Change:
    """Change of all items from those of two parts, each with its standard error; `share` of the items are `scored`."""
    return Change(
        mean=share * scored.mean + (1 - share) * others.mean,
        error=math.hypot(share * scored.error, (1 - share) * others.error),
        observations=scored.observations + others.observations,
    )
