"""Scores between wrong and right: their mean change, and the part of its variance that sampling makes.

    d = mean over items of (mean score of the item's samples after - the same before)

Items count alike, whatever the number of their samples. The standard error is that of the paired
differences, clustered, with two items more, which change by +e and by -e, e the root of the share
of items that did not change: among them a rare large change shows too little variance, and where
none changed there is none. "Nothing changed" of 60 items is then a change of 0 within 4.6 points,
of 500 within 0.6. Where every score moves a little nothing is added.

Sampling's part of the variance is the mean variance within an item over the number of its samples,
over the number of items: what more samples of the same items would remove. Source: Wang 2025, arXiv
2512.21326.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.intervals import clustered_mean
from forgetwatch.metrics.log_score import Change
from forgetwatch.metrics.transitions import Bools, Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class ItemScores:
    """Scores of paired answers, each that of its whole item. Arrays are [rows].

    Attributes:
        before: Mean score of the item's samples before, 0 to 1; nan where none was scored.
        after: The same, after.
        sampling: Variance of the difference of the two means that sampling makes; nan where a side
            has one sample.
        graded: True where a score is more than right or wrong.
    """

    before: Floats
    after: Floats
    sampling: Floats
    graded: Bools

    def take(self, rows: NDArray[Any]) -> Self:
        """Select some rows."""
        return replace(self, **{name: values[rows] for name, values in vars(self).items()})

    def at_worst(self) -> Self:
        """Scores in the worst case of what is missing: 1 before, and 0 after."""
        before, after = np.nan_to_num(self.before, nan=1.0), np.nan_to_num(self.after, nan=0.0)
        return replace(self, before=before, after=after)


def item_scores(score: Floats, item: Ints) -> tuple[Floats, Floats]:
    """Mean score of each row's item, and the variance of that mean by sampling.

    Args:
        score: Score of each answer, nan where unscored, float64 [rows].
        item: Code of its item, from 0, int64 [rows].

    Returns:
        Both float64 [rows]; nan without a score, the variance also for a single one.
    """
    scored = np.isfinite(score)
    size = int(item.max(initial=-1)) + 1
    number = np.bincount(item[scored], minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(item[scored], weights=score[scored], minlength=size) / number
        squares = (score[scored] - mean[item[scored]]) ** 2
        spread = np.bincount(item[scored], weights=squares, minlength=size)
        variance = spread / np.where(number > 1, number - 1, np.nan) / number
    return mean[item], variance[item]


def graded_change(scores: ItemScores, item: Ints, cluster: Ints | None) -> Change:
    """Mean change of the scores of some items, with its standard error.

    >>> nothing = ItemScores(before=np.ones(60), after=np.ones(60), sampling=np.zeros(60), graded=np.ones(60, bool))
    >>> low, high = graded_change(nothing, np.arange(60), None).interval
    >>> round(100 * high, 1)
    4.6

    Args:
        scores: The scores, of all samples of each item.
        item: Code of each row's item, int64 [rows].
        cluster: Code of its cluster; None where items are independent.
    """
    rows = np.unique(item, return_index=True)[1]
    change = scores.after[rows] - scores.before[rows]
    of = (
        np.arange(len(rows))
        if cluster is None
        else np.unique(cluster[rows], return_inverse=True)[1]
    )
    number, edge = int(of.max(initial=-1)) + 1, math.sqrt(np.mean(change == 0.0))
    added = np.append(change, [edge, -edge])
    _, error = clustered_mean(added, np.append(of, [number, number + 1]))
    return Change(mean=float(change.mean()), error=error, observations=number)


def sampling_share(scores: ItemScores, item: Ints, cluster: Ints | None) -> float:
    """Share of the variance of the mean change that sampling makes, 0 to 1.

    Returns:
        The share; nan where an item has a single sample on a side.
    """
    rows = np.unique(item, return_index=True)[1]
    change = scores.after[rows] - scores.before[rows]
    error = clustered_mean(change, None if cluster is None else cluster[rows])[1]
    if not error or math.isnan(error):
        return math.nan
    return min(float(scores.sampling[rows].sum()) / (len(rows) * error) ** 2, 1.0)
