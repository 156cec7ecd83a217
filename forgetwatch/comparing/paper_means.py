"""The paper's aggregation of its adjusted rates: tasks to categories to one number.

    category_means    with each item's own k: the definition in the paper's text
    paper_compat      as its released code computes it: one k a task, its own categories

Both clip the rate of each task and seed at 0 before any mean, as the paper's max(., 0) does; the
unclipped means, which are less biased, are beside them.

Source: Harmon et al. 2025, arXiv 2510.17776, and github.com/post-forget/post-forget at 5a5ca678.
Pooling over items is not this mean: they differ by the covariance of the two accuracies over tasks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.option_columns import Labels
from forgetwatch.metrics.guessing import as_released, paper
from forgetwatch.probes.categories import UNMAPPED, PaperTasks

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
        by_category: Both, by category: means over its tasks. Categories without a defined rate are
            left out.
        unclipped: Both as means over categories of rates that are not clipped at 0.
        ceilings: Means of what each can be at most by the paper's model (`Paper.forgetting_max`),
            over categories.
        ceilings_by_category: The same, by category.
    """

    forgetting: Spread
    backward_transfer: Spread
    by_category: Mapping[str, tuple[Spread, Spread]]
    unclipped: tuple[Spread, Spread]
    ceilings: tuple[Spread, Spread]
    ceilings_by_category: Mapping[str, tuple[Spread, Spread]]


def category_means(paired: AlignedPairs) -> CategoryMeans:
    """Average the paper's adjusted rates as the paper does.

    Per task and seed, see `metrics.guessing`.
    """
    seeds = np.unique(paired.sample)
    rates: dict[str, list[Rates]] = {}
    for category, rows in _every(paired.category):
        inside = paired.take(rows)
        for _, of_task in _every(inside.task):
            task = inside.take(of_task)
            of_seeds = [
                task.take(task.sample == seed) if len(seeds) > 1 else task for seed in seeds
            ]
            papers = [paper(of_seed.before, of_seed.after, of_seed.k) for of_seed in of_seeds]
            clipped = [
                (paper_rates.forgetting, paper_rates.backward_transfer) for paper_rates in papers
            ]
            ceilings = [
                (paper_rates.forgetting_max, paper_rates.backward_transfer_max)
                for paper_rates in papers
            ]
            unclipped = [
                (paper_rates.forgetting_unclipped, paper_rates.backward_transfer_unclipped)
                for paper_rates in papers
            ]
            rates.setdefault(category, []).append(np.hstack([clipped, ceilings, unclipped]))
    return _aggregate(rates, seeds=len(seeds))


def paper_compat(paired: AlignedPairs) -> CategoryMeans:
    """Compute the paper's numbers as the released code does.

    One k for each task, from a table for BIG-Bench Hard and 4 for every other task, whatever the k
    of its items; some tasks ignored; every (task, seed) clipped at 0 before it is averaged; tasks
    without a category form one of their own that counts as much as any other.
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
        released = [as_released(*side, k=tasks.k(name)) for side in sides]
        # Every unmapped task falls into one category, which weighs as much as any other: so does
        # the released code.
        rates.setdefault(tasks.category(name) or UNMAPPED, []).append(
            np.array([(*four, *four[:2]) for four in released])
        )
    return _aggregate(rates, seeds=len(seeds))


def _every(labels: Labels) -> Sequence[tuple[str, NDArray[np.int64]]]:
    # Rows without a name form a group of their own, which `Labels.split` leaves out.
    nameless = [index for index, name in enumerate(labels.names) if not name]
    rows = np.flatnonzero(np.isin(labels.code, nameless)) if nameless else np.zeros(0, np.int64)
    return [*labels.split(), *([("", rows)] if rows.size else [])]


def _aggregate(rates: Mapping[str, Sequence[Rates]], *, seeds: int) -> CategoryMeans:
    # `rates` has, by category, one array [seeds, 6] a task: both rates, both ceilings, both rates
    # without clipping; nan where a task has no rate for a seed.
    of_category = {name: _mean(np.stack(of_tasks)) for name, of_tasks in rates.items()}
    # A category without a rate for any seed would show as nan; the mean over categories skips it.
    of_category = {name: mean for name, mean in of_category.items() if np.isfinite(mean).any()}
    overall = (
        _mean(np.stack(list(of_category.values())))
        if of_category
        else np.full((max(seeds, 1), 6), math.nan)
    )
    forgetting, backward_transfer, most_forgotten, most_gained, *unclipped = map(_spread, overall.T)
    spreads = {name: [*map(_spread, mean.T)] for name, mean in of_category.items()}
    return CategoryMeans(
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        by_category={name: (lost, won) for name, (lost, won, *_) in spreads.items()},
        unclipped=(unclipped[0], unclipped[1]),
        ceilings=(most_forgotten, most_gained),
        ceilings_by_category={name: (lost, won) for name, (_, _, lost, won, *_) in spreads.items()},
    )


def _mean(rates: Rates) -> Rates:
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
