"""Simulated runs of many looks at one set of items, and their alarms, fast enough for thousands of runs.

A run is an array of scores [1 + looks, items, options]: the baseline, then the looks; option 0 is right everywhere. The
alarms are those of `Trajectory.verdicts`, by the same metrics; a test holds them equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from forgetwatch.metrics import FEWEST_SCORED, Change, alarm_level, clustered_mean, loss_p_value, smallest_loss

Floats = NDArray[np.float64]

CATEGORIES = (150, 90, 70, 60, 50, 30, 25, 15, 10)
"""Number of items of each category."""

LOOKS = 20


@dataclass(frozen=True, kw_only=True)
class Tests:
    """One-sided p-values of each look and group, all items first; float64 [looks, groups].

    Attributes:
        net: Of "no net loss".
        fading: Of "the calibrated log score did not fall by more than the tolerated"; nan for groups not watched.
    """

    net: Floats
    fading: Floats

    def raised(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """True where a look alarms, by kind; bool [looks, groups]."""
        looks = len(self.net)
        return tuple(
            p_values <= alarm_level(1, groups=int(np.isfinite(p_values[0]).sum()), planned=looks, alpha=0.025)
            for p_values in (self.net, self.fading)
        )


def null_run(rng: np.random.Generator, *, noise: float, factor: float = 1.0) -> Floats:
    """Run of an unchanged model: a shared base, independent noise of one size on the baseline and on every look.

    Args:
        rng: Source of the draws.
        noise: Standard deviation of the noise, nats; that of the base is 2.
        factor: How much surer the looks are than the baseline.
    """
    return _noisy(rng, np.full(1 + LOOKS, noise)) * np.r_[1.0, np.full(LOOKS, factor)][:, None, None]


def damaged_run(rng: np.random.Generator, *, noise: float = 0.0, lost: float = 0.0) -> Floats:
    """Run whose damage grows in equal steps to the last look.

    Args:
        rng: Source of the draws.
        noise: Standard deviation of the noise at the last look, nats, beyond .3 on every look and the baseline.
        lost: Share of the items known before whose options have scores of guesses at the last look.
    """
    steps = np.arange(1 + LOOKS) / LOOKS
    scores = _noisy(rng, np.hypot(0.3, noise * steps))
    n, k = scores.shape[1:]
    gone = (scores[0].argmax(axis=-1) == 0) & (rng.random(n) < lost)
    when = rng.random(n)
    guess = 2.0 * rng.normal(size=(n, k))
    return np.where((gone & (when < steps[:, None]))[:, :, None], guess, scores)


def alarm_power(n: int, *, discordance: float, loss: float, level: float) -> float:
    """Probability that one look at n independent items alarms when the true net loss is `loss`; exact over the flips.

    Args:
        n: Number of items.
        discordance: Share of items that flip, at least `loss`.
        loss: True net loss, 0 to 1.
        level: The alarm's level.
    """
    flips = np.arange(n + 1)
    fewest = (flips + np.array([smallest_loss(int(count), level) for count in flips])) / 2
    power = stats.binom.sf(fewest - 1, flips, (discordance + loss) / (2 * discordance))
    # Where no number of losses alarms, `fewest` is nan.
    return float(stats.binom.pmf(flips, n, discordance) @ np.nan_to_num(power))


def _noisy(rng: np.random.Generator, noise: Floats) -> Floats:
    base = 2.0 * rng.normal(size=(sum(CATEGORIES), 4))
    base[:, 0] += 1.5
    return base + noise[:, None, None] * rng.normal(size=(len(noise), *base.shape))


def run_tests(scores: Floats) -> Tests:
    """The tests of all items and of each category, in order of `CATEGORIES`, at each look."""
    right = scores.argmax(axis=-1) == 0
    ends = np.cumsum(CATEGORIES)
    groups = [slice(0, int(ends[-1])), *(slice(int(a), int(b)) for a, b in zip(ends - CATEGORIES, ends, strict=True))]
    net, fading = (np.full((len(scores) - 1, len(groups)), np.nan) for _ in range(2))
    for column, rows in enumerate(groups):
        lost = (right[0, rows] & ~right[1:, rows]).sum(axis=-1).tolist()
        won = (~right[0, rows] & right[1:, rows]).sum(axis=-1).tolist()
        net[:, column] = [_loss(*flips) for flips in zip(lost, won, strict=True)]
        if rows.stop - rows.start >= FEWEST_SCORED:
            fading[:, column] = _fading(scores[:, rows])
    return Tests(net=net, fading=fading)


@cache
def _loss(forgotten: int, gained: int) -> float:
    return loss_p_value(forgotten, gained)


def _fading(scores: Floats) -> list[float]:
    by_option = np.ascontiguousarray(np.moveaxis(scores, -1, 0))  # sums over options are then sums of long arrays
    by_option -= by_option.max(axis=0)
    scaled = by_option * sharpness(by_option)[:, None]
    shares = scaled[0] - np.log(np.exp(scaled).sum(axis=0))
    found = []
    for change in shares[1:] - shares[0]:
        mean, error = clustered_mean(change)
        found.append(Change(mean=mean, error=error, observations=len(change)).fading_p_value())
    return found


def sharpness(scores: Floats) -> Floats:
    """1/temperature with the highest log score of each side, as `metrics.log_score.best_temperature`; [sides].

    Newton's method for all sides at once; bisection where a step leaves the bracket.

    Args:
        scores: Scores below the best of the item, [options, sides, items].
    """
    sides = scores.shape[1]
    low, high, at = np.full(sides, 0.01), np.full(sides, 10.0), np.full(sides, 0.3)
    for _ in range(60):
        weights = np.exp(at[:, None] * scores)
        total = weights.sum(axis=0)
        weighted = weights * scores
        mean = weighted.sum(axis=0) / total
        slope = (scores[0] - mean).mean(axis=-1)
        spread = ((weighted * scores).sum(axis=0) / total - mean**2).mean(axis=-1)
        low, high = np.where(slope > 0, at, low), np.where(slope > 0, high, at)
        step = at + slope / np.maximum(spread, 1e-12)
        moved = np.where((low < step) & (step < high), step, np.sqrt(low * high))
        if np.all(np.abs(moved / at - 1) < 1e-6):
            break
        at = moved
    return at
