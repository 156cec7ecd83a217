"""The paper's aggregation of its adjusted rates: tasks to categories to one number, each an unweighted mean.

Source: Harmon et al. 2025, arXiv 2510.17776. Pooling over items is not this mean: they differ by the covariance of the
two accuracies over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forgetwatch.groups import Paired, split
from forgetwatch.metrics.chance import paper


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and sample standard deviation over seeds; the deviation is nan for one seed."""

    mean: float
    sd: float


@dataclass(frozen=True, kw_only=True)
class Macro:
    """The paper's aggregation of its adjusted rates: tasks to categories to one number, each an unweighted mean.

    Rates are those of `metrics.chance.paper` per category, task and seed, not clipped.
    """

    forgetting: Spread
    backward_transfer: Spread
    by_category: Mapping[str, tuple[Spread, Spread]]


def macro_rates(paired: Paired) -> Macro:
    """The paper's aggregation: rates per task and seed, tasks to categories, categories to one number."""
    by_category: dict[str, tuple[Spread, Spread]] = {}
    seeds = np.unique(paired.sample)
    table = []  # [categories][2, seeds]
    for category, rows in split(paired.category):
        inside = paired.take(rows)
        rates = []
        for _, of_task in split(inside.task):
            task = inside.take(of_task)
            of_seeds = [task.take(task.sample == seed) for seed in seeds]
            of_seeds_rates = [paper(one.before, one.after, one.k) for one in of_seeds]
            rates.append([[r.forgetting_unclipped, r.backward_transfer_unclipped] for r in of_seeds_rates])
        rows_of_rates = _mean(np.array(rates)).T
        if np.isfinite(rows_of_rates).any():
            by_category[category] = (_spread(rows_of_rates[0]), _spread(rows_of_rates[1]))
            table.append(rows_of_rates)
    overall = _mean(np.array(table)) if table else np.full((2, 1), math.nan)
    return Macro(forgetting=_spread(overall[0]), backward_transfer=_spread(overall[1]), by_category=by_category)


def _mean(rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over the first axis of what is defined; nan where nothing is."""
    defined = np.isfinite(rates)
    count = defined.sum(axis=0)
    total = np.where(defined, rates, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)


def _spread(values: NDArray[np.float64]) -> Spread:
    """Over seeds [seeds]."""
    return Spread(mean=float(values.mean()), sd=float(values.std(ddof=1)) if len(values) > 1 else math.nan)
