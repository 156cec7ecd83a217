"""Simulated runs of many looks at one set of items, and their alarms, fast enough for thousands of runs.

A run is an array of scores [1 + looks, items, options]: the baseline, then the looks; option 0 is right everywhere. The
alarms are those of `Trajectory.verdicts`, by the same metrics; a test holds them equal.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from forgetwatch.comparing.trajectory import ALPHA
from forgetwatch.metrics.margin_change import FEWEST_TESTED, Boundary, boundary, fall_test
from forgetwatch.metrics.significance import alarm_level, loss_p_value, smallest_loss

Floats = NDArray[np.float64]

CATEGORIES = (150, 90, 70, 60, 50, 30, 25, 15, 10)
"""Number of items of each category."""

LOOKS = 20


def raised(p_values: Floats, *, alpha: float = ALPHA) -> NDArray[np.bool_]:
    """True where a look of a run of so many planned looks alarms; bool [looks, groups], as `run_tests` gives them."""
    looks, groups = p_values.shape
    whole, other = (
        alarm_level(1, groups=count, planned=looks, alpha=alpha / 2) for count in (1, groups - 1)
    )
    return p_values <= np.r_[whole, np.full(groups - 1, other)]


def null_run(rng: np.random.Generator, *, noise: float, factor: float = 1.0) -> Floats:
    """Run of an unchanged model: a shared base, independent noise of one size on the baseline and on every look.

    Args:
        rng: Source of the draws.
        noise: Standard deviation of the noise, nats; that of the base is 2.
        factor: How much surer the looks are than the baseline.
    """
    return (
        _noisy(rng, np.full(1 + LOOKS, noise)) * np.r_[1.0, np.full(LOOKS, factor)][:, None, None]
    )


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


def run_tests(scores: Floats) -> Floats:
    """One-sided p-values of all items, then of each category in order of `CATEGORIES`; float64 [looks, groups]."""
    right, softened = scores.argmax(axis=-1) == 0, differences(scores)
    ends = np.cumsum(CATEGORIES)
    groups = [
        slice(0, int(ends[-1])),
        *(slice(int(a), int(b)) for a, b in zip(ends - CATEGORIES, ends, strict=True)),
    ]
    found = np.full((len(scores) - 1, len(groups)), np.nan)
    for column, rows in enumerate(groups):
        if rows.stop - rows.start >= FEWEST_TESTED:
            found[:, column] = [fall_p_value(of_look[rows]) for of_look in softened]
        else:
            lost = (right[0, rows] & ~right[1:, rows]).sum(axis=-1).tolist()
            won = (~right[0, rows] & right[1:, rows]).sum(axis=-1).tolist()
            found[:, column] = [_loss(*flips) for flips in zip(lost, won, strict=True)]
    return found


def differences(scores: Floats) -> Floats:
    """Change of each item's softened answer from the baseline, float64 [looks, items]."""
    margins = scores[..., 0] - scores[..., 1:].max(axis=-1)
    return np.stack(
        [boundary_of(margins[0], of_look).softened(margins[0], of_look) for of_look in margins[1:]]
    )


def boundary_of(before: Floats, after: Floats) -> Boundary:
    """Widths for two sides that have one."""
    found = boundary(before, after)
    assert found is not None
    return found


def fall_p_value(softened: Floats) -> float:
    """p-value of "it did not fall", of enough items."""
    test = fall_test(softened)
    assert test is not None
    return test.p_value


@cache
def _loss(forgotten: int, gained: int) -> float:
    return loss_p_value(forgotten, gained)


def skewed(rng: np.random.Generator, shape: tuple[int, ...], *, mean: float, right: bool) -> Floats:
    """Softened changes of a mean, most of them small on one side of it and few large on the other.

    Args:
        rng: Source of the draws.
        shape: Shape of the array.
        mean: Mean of the changes, -.1 to .1.
        right: True for few large rises, False for few large falls.
    """
    share, large = 0.04, 0.6
    small = share * large / (1 - share)
    found = np.where(rng.random(shape) < share, large, -small * 2 * rng.random(shape))
    return mean + (found if right else -found)
