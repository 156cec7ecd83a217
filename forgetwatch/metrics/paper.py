"""The chance adjustment of Harmon et al. 2025, arXiv 2510.17776, and the rule of its released code.

    acc = true + x, x = (1 - acc)/(k - 1)          an item is known, or guessed uniformly among k
    F_true = F - (1 - acc)(1 - acc')/(k - 1)       two independent guesses flip that often

It assumes that being unknown before and being unknown after are independent. Most unknown items are the same ones: with
fresh guesses it reports 4.7 % at k = 4 if nothing was forgotten and half is known; with guesses that persist it
subtracts flips that never happened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.intervals import Interval, clustered_mean, mean_interval
from forgetwatch.metrics.transitions import ratio

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Paper:
    """Rates of arXiv 2510.17776 adjusted for chance, with each item's own k. Shares of the n items with k >= 2.

    Not clipped, because a mean of clipped rates is biased; the properties clip for display. Standard errors are
    those of the delta method.
    """

    n: float
    expected: float
    forgetting_unclipped: float
    backward_transfer_unclipped: float
    forgetting_max_unclipped: float
    backward_transfer_max_unclipped: float
    forgetting_se: float
    backward_transfer_se: float

    @property
    def forgetting(self) -> float:
        """F_true = max(F - expected, 0); nan for no items."""
        return _clip(self.forgetting_unclipped)

    @property
    def backward_transfer(self) -> float:
        """BT_true = max(BT - expected, 0); nan for no items."""
        return _clip(self.backward_transfer_unclipped)

    @property
    def forgetting_max(self) -> float:
        """F_max: the truly known share before, by the same model. Not a bound of F_true on data."""
        return _clip(self.forgetting_max_unclipped)

    @property
    def backward_transfer_max(self) -> float:
        """BT_max: the truly known share after, by the same model."""
        return _clip(self.backward_transfer_max_unclipped)

    @property
    def forgetting_interval(self) -> Interval:
        """95 % interval of the unclipped rate."""
        return mean_interval(self.forgetting_unclipped, self.forgetting_se)

    @property
    def backward_transfer_interval(self) -> Interval:
        """95 % interval of the unclipped rate."""
        return mean_interval(self.backward_transfer_unclipped, self.backward_transfer_se)


def paper(before: Bools, after: Bools, k: Ints, *, cluster: Ints | None = None, samples: int = 1) -> Paper:
    """Compute the paper's chance-adjusted rates over the rows with k >= 2, chance added up over groups of equal k.

    F_true = F - sum_g (M_g/M)(1-acc_g)(1-acc'_g)/(k_g-1); nan if no row has k >= 2. The standard error is that of
    the per-item scores 1{10} - [u (1-acc'_g) + u' (1-acc_g) - (1-acc_g)(1-acc'_g)]/(k_g-1), u = wrong before, whose
    mean is F_true and which are its gradient over the four cells.

    Args:
        before: Right before, bool [rows].
        after: Right after, bool [rows].
        k: Number of options [rows]; below 2 for rows that do not take part.
        cluster: Code of each row's cluster, int64 [rows]; None if every row is independent.
        samples: Rows per item.

    >>> right = lambda share: np.arange(100) < share
    >>> round(paper(right(80), right(70), np.full(100, 4)).forgetting, 4)
    0.08
    """
    takes_part = k >= 2
    before, after, k = before[takes_part], after[takes_part], k[takes_part]
    cluster = None if cluster is None else cluster[takes_part]
    total = len(k)
    if not total:
        nothing = dict.fromkeys(list(Paper.__dataclass_fields__)[1:], math.nan)
        return Paper(n=0, **nothing)
    # Arrays by k; the entries of a k that no item has are multiplied with a size of 0.
    sizes = np.bincount(k)
    options = np.maximum(np.arange(len(sizes)), 2)
    right_before = np.bincount(k, weights=before)
    right_after = np.bincount(k, weights=after)
    wrong_before = (sizes - right_before) / np.maximum(sizes, 1)
    wrong_after = (sizes - right_after) / np.maximum(sizes, 1)
    expected = float(np.sum(sizes * wrong_before * wrong_after / (options - 1))) / total
    # Per cell (retained, forgotten, gained, missed) and k: the part of an item's score that chance subtracts.
    both = wrong_before * wrong_after
    off = np.stack([-both, wrong_before - both, wrong_after - both, wrong_before + wrong_after - both]) / (options - 1)
    cell = 2 * ~before + ~after  # 0 retained, 1 forgotten, 2 gained, 3 missed
    taken_off = off[cell, k]
    forgotten, gained = before & ~after, ~before & after
    return Paper(
        n=total if samples == 1 else total / samples,
        expected=expected,
        forgetting_unclipped=int(forgotten.sum()) / total - expected,
        backward_transfer_unclipped=int(gained.sum()) / total - expected,
        forgetting_max_unclipped=float(np.sum((options * right_before - sizes) / (options - 1))) / total,
        backward_transfer_max_unclipped=float(np.sum((options * right_after - sizes) / (options - 1))) / total,
        forgetting_se=clustered_mean(forgotten - taken_off, cluster)[1],
        backward_transfer_se=clustered_mean(gained - taken_off, cluster)[1],
    )


def as_released(before: Bools, after: Bools, *, k: int) -> tuple[float, float]:
    """Compute forgetting and backward transfer of one task and seed as the paper's released code does.

    One k for the whole task, every row, each rate clipped at 0 at once. (nan, nan) for no rows.

    Args:
        before: Right before, bool [rows].
        after: Right after, bool [rows].
        k: Number of options that the code assumes, at least 2.
    """
    n = len(before)
    chance = ratio(int((~before).sum()), n) * ratio(int((~after).sum()), n) / (k - 1)
    forgetting, backward_transfer = ratio(int((before & ~after).sum()), n), ratio(int((~before & after).sum()), n)
    return _clip(forgetting - chance), _clip(backward_transfer - chance)


def most_as_released(before: Bools, after: Bools, *, k: int) -> tuple[float, float]:
    """Compute the ceilings of both rates of one task and seed as the paper's released code does.

    max((k acc - 1)/(k - 1), 0) of the accuracy before, and of that after. (nan, nan) for no rows.

    Args:
        before: See `as_released`.
        after: See `as_released`.
        k: See `as_released`.
    """
    accuracies = (ratio(int(right.sum()), len(right)) for right in (before, after))
    forgetting, backward_transfer = (_clip((k * accuracy - 1) / (k - 1)) for accuracy in accuracies)
    return forgetting, backward_transfer


def _clip(value: float) -> float:
    return value if math.isnan(value) else max(value, 0.0)
