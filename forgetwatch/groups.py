"""Aligned pairs to groups (all, categories, tasks), each with its cells, tests and chance.

Paired   scored pairs as aligned arrays         Group   one group's cells, and everything that follows from them
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.chance import (
    Answers,
    Bound,
    Corrected,
    Paper,
    Persistence,
    Soft,
    bound,
    guess_corrected,
    paper,
    persistence,
    soft,
)
from forgetwatch.metrics.inference import (
    Interval,
    clustered_p_value,
    detectable_change,
    false_discovery,
    flip_interval,
    mcnemar,
    newcombe,
)
from forgetwatch.metrics.transitions import Cells, count_cells, count_known
from forgetwatch.pairing import Pairing
from forgetwatch.snapshot import NONE, Snapshot

Level = Literal["all", "category", "task"]


@dataclass(frozen=True, kw_only=True)
class Chance:
    """What guessing makes of a group's flips; None where a quantity is undefined for it.

    Attributes:
        n: Items with k >= 2.
        paper: The paper's adjustment, over those items.
        guess_corrected: Needs logged options and k >= 3.
        bound: What balanced guessing leaves possible.
        persistence: How much wrong answers stay the same; needs logged options.
    """

    n: float
    paper: Paper | None
    guess_corrected: Corrected | None
    bound: Bound | None
    persistence: Persistence | None


@dataclass(frozen=True, kw_only=True)
class Group(Cells):
    """The four cells of one group of items, and what follows from them.

    Attributes:
        level: ``all``, ``category`` or ``task``.
        name: The category's or task's name; ``all`` for the whole.
        known: Items clearly known before; None without option probabilities. See `metrics.transitions.Known`.
        known_lost: Those of them that are wrong now.
        newly_known: Items clearly known now that were wrong before.
        p_value: Two-sided mid-p McNemar test of "no net change".
        q_value: Benjamini-Hochberg over the groups of the level.
        chance: What guessing makes of it.
        soft: Loss and gain of gold's probability share; None without option probabilities.
    """

    level: Level
    name: str
    known: float | None
    known_lost: float | None
    newly_known: float | None
    p_value: float
    q_value: float
    chance: Chance
    soft: Soft | None

    @property
    def forgetting_interval(self) -> Interval:
        """95 % interval of `forgetting` (Wilson; one-sided exact limit for no flips)."""
        return flip_interval(self.forgotten, self.n)

    @property
    def backward_transfer_interval(self) -> Interval:
        """95 % interval of `backward_transfer` (Wilson; one-sided exact limit for no flips)."""
        return flip_interval(self.gained, self.n)

    @property
    def net_change_interval(self) -> Interval:
        """95 % interval of `net_change`, after minus before (Newcombe, corrected phi)."""
        return newcombe(self)

    @property
    def detectable_change(self) -> float:
        """The smallest net change these items see with 80 % power, at the share of flips observed; nan for none."""
        return detectable_change(self.n, max(self.forgotten + self.gained, 3) / self.n) if self.n else math.nan


@dataclass(frozen=True, kw_only=True, eq=False)
class Paired:
    """Scored pairs as aligned arrays [rows], `samples` rows per item."""

    before: NDArray[np.bool_]
    after: NDArray[np.bool_]
    share_before: NDArray[np.float64]
    share_after: NDArray[np.float64]
    chosen_before: NDArray[np.int64]
    chosen_after: NDArray[np.int64]
    k: NDArray[np.int64]
    golds: NDArray[np.int64]
    item: NDArray[np.int64]
    sample: NDArray[np.int64]
    task: NDArray[np.object_]
    category: NDArray[np.object_]
    has_options: bool
    samples: int
    unscored: int

    def __len__(self) -> int:
        return len(self.before)

    def take(self, rows: NDArray[Any]) -> Self:
        """The pairs at some rows."""
        arrays = {name: value[rows] for name, value in vars(self).items() if isinstance(value, np.ndarray)}
        return replace(self, **arrays)

    @classmethod
    def align(cls, before: Snapshot, after: Snapshot, pairing: Pairing) -> Self:
        """The pairs that were scored on both sides; labels are those of `before` where it has them."""
        left, right, item = pairing.before, pairing.after, pairing.item
        correct_before, correct_after = before.floats("correct")[left], after.floats("correct")[right]
        k_before, k_after = before.ints("k")[left], after.ints("k")[right]
        categories = before.texts("category")[left]
        labelled = np.array([bool(name) for name in categories], bool)
        scored = np.isfinite(correct_before) & np.isfinite(correct_after)
        # An item with one unscored sample leaves with all its samples: every item weighs the same.
        dropped = np.unique(item[~scored])
        keep = ~np.isin(item, dropped)
        items = len(np.unique(item[keep]))
        aligned = cls(
            before=correct_before == 1.0,
            after=correct_after == 1.0,
            share_before=before.floats("gold_share")[left],
            share_after=after.floats("gold_share")[right],
            chosen_before=before.ints("chosen")[left],
            chosen_after=after.ints("chosen")[right],
            k=np.where(k_before == NONE, k_after, k_before),
            golds=_golds(before)[left],
            item=item,
            sample=before.ints("sample")[left],
            task=before.texts("task")[left],
            category=np.where(labelled, categories, after.texts("category")[right]),
            has_options=not (before.missing("chosen") or after.missing("chosen")),
            samples=int(keep.sum()) // items if items else 1,
            unscored=len(dropped),
        )
        return aligned.take(keep)


def _golds(snapshot: Snapshot) -> NDArray[np.int64]:
    """Number of right options of each row."""
    if snapshot.missing("golds"):
        return np.ones(len(snapshot), np.int64)
    return np.array([len(row) if row else 1 for row in snapshot.table["golds"].to_pylist()], np.int64)


def count_groups(paired: Paired) -> Iterator[Group]:
    """The groups of every level: all, then categories, then tasks, in the order in which they first stand."""
    whole = _group(paired, "all", "all")
    yield replace(whole, q_value=whole.p_value)
    levels: tuple[tuple[Level, NDArray[np.object_]], ...] = (("category", paired.category), ("task", paired.task))
    for level, names in levels:
        groups = [_group(paired.take(rows), level, name) for name, rows in split(names) if name]
        q_values = false_discovery(np.array([group.p_value for group in groups], float))
        yield from (replace(group, q_value=float(q)) for group, q in zip(groups, q_values, strict=True))


def split(names: NDArray[np.object_]) -> list[tuple[str, NDArray[np.int64]]]:
    """The rows of each name, in the order in which the names first stand."""
    if not len(names):
        return []
    unique, first, code = np.unique(names.astype(str), return_index=True, return_inverse=True)
    rows = np.split(np.argsort(code, kind="stable"), np.cumsum(np.bincount(code, minlength=len(unique)))[:-1])
    return [(str(unique[index]), rows[index]) for index in np.argsort(first)]


def _group(paired: Paired, level: Level, name: str) -> Group:
    cells = count_cells(paired.before, paired.after, samples=paired.samples)
    known = count_known(paired.before, paired.after, paired.share_before, paired.share_after, samples=paired.samples)
    if paired.samples == 1:
        p_value = mcnemar(int(cells.forgotten), int(cells.gained))
    else:
        p_value = clustered_p_value(paired.after.astype(float) - paired.before, paired.item)
    return Group(
        **vars(cells),
        level=level,
        name=name,
        known=known.known if known else None,
        known_lost=known.known_lost if known else None,
        newly_known=known.newly_known if known else None,
        p_value=p_value,
        q_value=math.nan,
        chance=_chance(paired),
        soft=soft(paired.share_before, paired.share_after),
    )


def _chance(paired: Paired) -> Chance:
    adjusted = paper(paired.before, paired.after, paired.k, samples=paired.samples)
    answers = None
    if paired.has_options and adjusted.n:
        rows = paired.take(paired.k >= 2)
        answers = Answers(**{name: getattr(rows, name) for name in Answers.__dataclass_fields__})
    return Chance(
        n=adjusted.n,
        paper=adjusted if adjusted.n else None,
        guess_corrected=guess_corrected(answers) if answers else None,
        bound=bound(paired.before, paired.after, paired.k, paired.golds),
        persistence=persistence(answers) if answers else None,
    )
