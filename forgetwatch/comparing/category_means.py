"""The paper's aggregation of its adjusted rates: tasks to categories to one number, each an unweighted mean.

    category_means    with each item's own k, nothing clipped: the definition in the paper's text
    paper_compat      as its released code computes it: one k a task, clipped at once, its own categories

Source: Harmon et al. 2025, arXiv 2510.17776, and github.com/post-forget/post-forget at 5a5ca678. Pooling over items is
not this mean: they differ by the covariance of the two accuracies over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics import as_released, paper
from forgetwatch.pairing import AlignedPairs, Labels
from forgetwatch.probes import UNMAPPED, PaperTasks

Rates = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and sample standard deviation over seeds; the deviation is nan for one seed."""

    mean: float
    sd: float


@dataclass(frozen=True, kw_only=True)
class CategoryMeans:
    """Forgetting and backward transfer as means over categories of means over tasks.

    Attributes:
        forgetting: Mean over categories.
        backward_transfer: Mean over categories.
        by_category: Both, by category: means over its tasks. Categories without a defined rate are left out.
        ceilings: Means of what each can be at most by the paper's model (`Paper.forgetting_max`), over categories.
        ceilings_by_category: The same, by category.
    """

    forgetting: Spread
    backward_transfer: Spread
    by_category: Mapping[str, tuple[Spread, Spread]]
    ceilings: tuple[Spread, Spread]
    ceilings_by_category: Mapping[str, tuple[Spread, Spread]]


def category_means(paired: AlignedPairs) -> CategoryMeans:
    """Average the paper's adjusted rates per task and seed (`metrics.guessing`, not clipped) as the paper does."""
    seeds = np.unique(paired.sample)
    rates: dict[str, list[Rates]] = {}
    for category, rows in _every(paired.category):
        inside = paired.take(rows)
        for _, of_task in _every(inside.task):
            task = inside.take(of_task)
            of_seeds = [task.take(task.sample == seed) if len(seeds) > 1 else task for seed in seeds]
            found = [paper(one.before, one.after, one.k) for one in of_seeds]
            adjusted = [[one.forgetting_unclipped, one.backward_transfer_unclipped] for one in found]
            most = [[one.forgetting_max_unclipped, one.backward_transfer_max_unclipped] for one in found]
            rates.setdefault(category, []).append(np.hstack([adjusted, most]))
    return _aggregate(rates, seeds=len(seeds))


def paper_compat(paired: AlignedPairs) -> CategoryMeans:
    """Compute the paper's numbers as its released code does, from tasks named as there.

    One k for each task, from a table for BIG-Bench Hard and 4 for every other task, whatever the k of its items; some
    tasks ignored; every (task, seed) clipped at 0 before it is averaged; tasks without a category form
    one of their own that counts as much as any other.
    """
    tasks = PaperTasks.released()
    seeds = np.unique(paired.sample)
    rates: dict[str, list[Rates]] = {}
    for name, rows in _every(paired.task):
        if tasks.ignored(name):
            continue
        task = paired.take(rows)
        of_seeds = [task.sample == seed for seed in seeds]
        sides = [(task.before[seed], task.after[seed]) for seed in of_seeds]
        released = [as_released(*both, k=tasks.k(name)) for both in sides]
        # Every unmapped task falls into one category, which weighs as much as any other: so does the released code.
        rates.setdefault(tasks.category(name) or UNMAPPED, []).append(np.array(released))
    return _aggregate(rates, seeds=len(seeds))


def _every(labels: Labels) -> Sequence[tuple[str, NDArray[np.int64]]]:
    """Return each name with its rows.

    Rows without a name form a group of their own, which `Labels.split` leaves out.
    """
    nameless = [index for index, name in enumerate(labels.names) if not name]
    rows = np.flatnonzero(np.isin(labels.code, nameless)) if nameless else np.zeros(0, np.int64)
    return [*labels.split(), *([("", rows)] if rows.size else [])]


def _aggregate(rates: Mapping[str, Sequence[Rates]], *, seeds: int) -> CategoryMeans:
    """Average tasks to categories to one number, per seed; then take mean and deviation over the seeds.

    `rates` has, by category, one array [seeds, 4] a task: both rates, then both ceilings; nan where a task has no rate
    for a seed.
    """
    of_category = {name: _mean(np.stack(of_tasks)) for name, of_tasks in rates.items()}
    # A category without a rate for any seed would show as nan; the mean over categories skips it.
    of_category = {name: mean for name, mean in of_category.items() if np.isfinite(mean).any()}
    overall = _mean(np.stack(list(of_category.values()))) if of_category else np.full((max(seeds, 1), 4), math.nan)
    forgetting, backward_transfer, *ceilings = map(_spread, overall.T)
    spreads = {name: [*map(_spread, mean.T)] for name, mean in of_category.items()}
    return CategoryMeans(
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        by_category={name: (lost, won) for name, (lost, won, *_) in spreads.items()},
        ceilings=(ceilings[0], ceilings[1]),
        ceilings_by_category={name: (lost, won) for name, (*_, lost, won) in spreads.items()},
    )


def _mean(rates: Rates) -> Rates:
    """Return the mean over the first axis of what is defined; nan where nothing is."""
    defined = np.isfinite(rates)
    count = defined.sum(axis=0)
    total = np.where(defined, rates, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)


def _spread(values: Rates) -> Spread:
    values = values[np.isfinite(values)]
    return Spread(
        mean=float(values.mean()) if values.size else math.nan,
        sd=float(values.std(ddof=1)) if values.size > 1 else math.nan,
    )
