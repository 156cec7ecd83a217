"""The paper's aggregation of its adjusted rates: tasks to categories to one number, each an unweighted mean.

    category_means    with each item's own k, nothing clipped: the definition in the paper's text
    paper_compat      as its released code computes it: one k a task, clipped at once, its own categories

Source: Harmon et al. 2025, arXiv 2510.17776, and github.com/post-forget/post-forget at 5a5ca678. Pooling over items is
not this mean: they differ by the covariance of the two accuracies over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics import Interval, as_released, mean_interval, paper, resample
from forgetwatch.pairing import AlignedPairs, Labels
from forgetwatch.probes import UNMAPPED, PaperTasks

Rates = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and sample standard deviation over seeds; the deviation is nan for one seed.

    `se` is the bootstrap standard error of the mean, items drawn again; None if no generator was handed in.
    """

    mean: float
    sd: float
    se: float | None = None

    @property
    def interval(self) -> Interval | None:
        """Mean plus and minus 1.96 standard errors; None without one."""
        return None if self.se is None else mean_interval(self.mean, self.se)


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


def with_errors(
    rates: Callable[[AlignedPairs], CategoryMeans],
    paired: AlignedPairs,
    rng: np.random.Generator | None,
    *,
    replications: int,
) -> CategoryMeans:
    """Return `category_means` or `paper_compat` with bootstrap standard errors, or as they are without a generator.

    A mean of clipped rates, or of tasks, has no closed form. Standard errors and not percentiles: replications of a
    clipped rate lie above it.
    """
    found = rates(paired)
    if rng is None:
        return found
    # Samples and clusters are drawn together: rows of one are not independent.
    units = np.arange(len(paired)) if paired.cluster is None else paired.cluster
    drawn = [rates(paired.take(rows)) for rows in resample(units, rng, replications=replications)]

    def with_error(found: Spread, draws: Sequence[Spread]) -> Spread:
        # A draw may leave a rate undefined, or leave out its category; the error is over the draws that have it.
        means = [one.mean for one in draws if math.isfinite(one.mean)]
        return replace(found, se=float(np.std(means, ddof=1)) if len(means) > 1 else math.nan)

    by_category = {}
    for name, (lost, won) in found.by_category.items():
        both = [one.by_category[name] for one in drawn if name in one.by_category]
        by_category[name] = with_error(lost, [one for one, _ in both]), with_error(won, [one for _, one in both])
    return replace(
        found,
        forgetting=with_error(found.forgetting, [one.forgetting for one in drawn]),
        backward_transfer=with_error(found.backward_transfer, [one.backward_transfer for one in drawn]),
        by_category=by_category,
    )


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
