"""Several models against one base: who lost what another still has, and who kept most for what it learnt.

    matrix     a row for each model that is right, a column for each that is wrong: answers lost from one to the other
    ranking    by retention; with a target metric also the Pareto front: those that no other beats in both

Retention alone puts the model first that learnt least. The front is the choice that is left once the target counts too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetwatch.compare import Comparison
from forgetwatch.groups import Group
from forgetwatch.metrics.intervals import Interval, flip_interval
from forgetwatch.pairing import item_codes
from forgetwatch.snapshot import Snapshot
from forgetwatch.trajectory import aligned


@dataclass(frozen=True, kw_only=True, eq=False)
class Matrix:
    """Answers that one model has right and another wrong, over the items that all models were scored on.

    Attributes:
        labels: Short names of the models, in the order in which they were given.
        answers: Answers right in the row's model and wrong in the column's, int64 [models, models].
        items: Items that are counted.
        left_out: Items of the first model that some model lacks or could not be scored on.
        samples: Answers to each item.
    """

    labels: tuple[str, ...]
    answers: NDArray[np.int64]
    items: int
    left_out: int
    samples: int

    @property
    def lost(self) -> list[list[float]]:
        """The counts in items: whole numbers, means where items have several samples."""
        counts: list[list[float]] = self.answers.tolist()
        return counts if self.samples == 1 else [[count / self.samples for count in row] for row in counts]


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the models were trained for: a metric, with its value for each model after the base.

    Attributes:
        name: The metric's name. Of one that ends in ``loss`` less is better, as transformers' Trainer takes it.
        values: Its values, in the order of the comparisons.
    """

    name: str
    values: tuple[float, ...]

    @property
    def less_is_better(self) -> bool:
        """Whether a smaller value is the better one."""
        return self.name.lower().endswith("loss")


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """One model in the ranking.

    Attributes:
        number: Its number among the models after the base, from 1, in the order in which they were given.
        label: Its short name.
        place: Its place by retention, from 1; equal retention shares a place. None where retention is undefined.
        retention: Share of the items right before that are still right, 0 to 1; nan where none was right.
        retention_interval: 95 %, Wilson's; wider where items come in clusters.
        net_change: Accuracy after minus before, -1 to 1.
        net_change_interval: 95 %.
        target: Value of the target metric; None without one.
        on_front: Whether no other model is better in one of retention and target and as good in the other; None
            without a target. Models that are equal in both stand on it together.
    """

    number: int
    label: str
    place: int | None
    retention: float
    retention_interval: Interval
    net_change: float
    net_change_interval: Interval
    target: float | None
    on_front: bool | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Several:
    """What several comparisons with one base say together.

    Attributes:
        matrix: The base first, then the models in the order of the comparisons.
        ranking: The models by retention, most first.
        target: The metric that they are ranked against; None without one.
    """

    matrix: Matrix
    ranking: tuple[Ranked, ...]
    target: Target | None


def transition_matrix(snapshots: Sequence[Snapshot]) -> Matrix:
    """The answers lost between each two models, over the items that all of them were scored on.

    Args:
        snapshots: At least one; items are those of the first.
    """
    first = snapshots[0]
    right = np.stack([aligned(first, one) for one in snapshots])
    item = item_codes(first)
    scored = np.isfinite(right).all(axis=0)
    kept = np.bincount(item, weights=~scored) == 0  # an item with one unscored answer is left out as a whole
    rows = right[:, kept[item]]
    items = int(kept.sum())
    return Matrix(
        labels=tuple(one.label for one in snapshots),
        answers=np.rint(rows @ (1 - rows).T).astype(np.int64),
        items=items,
        left_out=len(kept) - items,
        samples=rows.shape[1] // items if items else 1,
    )


def ranked(comparisons: Sequence[Comparison], target: Target | None = None) -> tuple[Ranked, ...]:
    """The models of some comparisons with one base by retention, most first; equal ones by the target, then as given.

    Args:
        comparisons: The base against each model.
        target: The metric they are ranked against; None for retention alone.
    """
    groups = [one.all for one in comparisons]
    kept = [group.retention for group in groups]
    wanted = [0.0] * len(kept) if target is None else [_better_up(target, value) for value in target.values]
    front = _front(kept, wanted)

    def worst_last(at: int) -> tuple[Any, ...]:
        return math.isnan(kept[at]), -kept[at] if not math.isnan(kept[at]) else 0.0, -wanted[at], at

    return tuple(
        Ranked(
            number=at + 1,
            label=comparisons[at].labels[1],
            place=None if math.isnan(kept[at]) else 1 + sum(other > kept[at] for other in kept),
            retention=kept[at],
            retention_interval=_kept_interval(groups[at]),
            net_change=groups[at].net_change,
            net_change_interval=groups[at].net_change_interval,
            target=None if target is None else target.values[at],
            on_front=None if target is None else front[at],
        )
        for at in sorted(range(len(comparisons)), key=worst_last)
    )


def _better_up(target: Target, value: float) -> float:
    return -value if target.less_is_better else value


def _front(one: Sequence[float], other: Sequence[float]) -> list[bool]:
    """Which points no point dominates; nan is on no front and dominates nothing."""

    def dominated(at: int) -> bool:
        return any(
            one[rival] >= one[at] and other[rival] >= other[at] and (one[rival], other[rival]) != (one[at], other[at])
            for rival in range(len(one))
        )

    return [not math.isnan(one[at]) and not dominated(at) for at in range(len(one))]


def _kept_interval(group: Group) -> Interval:
    """Of the items right before, the share that is still right; clusters count by the worth of the whole group."""
    worth = group.effective_n / group.n if group.n else 0.0
    low, high = flip_interval(group.forgotten * worth, (group.retained + group.forgotten) * worth)
    return 1 - high, 1 - low
