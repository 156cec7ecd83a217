"""Entrenched, or mismatched: were the lost answers those that the model barely knew, or those near the new data?

    sure        share of the right options under the base, as log odds: lost ones lower    "barely known"
    near        nearness of the question to the training rows: lost ones higher            "near the new data"

Each column is tested within categories and within thirds of the other column (`metrics.separation`). Over all questions
any column looks good, because untaught categories differ from taught ones; and a column that goes with the other one
would get its credit. Each test is one-sided at 2.5 %, so that of losses without a cause at most 5 % get one.

Questions that the base answered right by scored options take part. A loss by noise in the weights also falls on what
was barely known: that is what the sentence then says, and no proof of a better cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics import Separation, separation
from forgetwatch.pairing import pair
from forgetwatch.snapshot import Snapshot

_DOUBT: Final = 0.025
_GROUPS: Final = 3

Floats = NDArray[np.float64]
Column = Literal["sure", "near"]


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One column, and how it goes with what was lost.

    Attributes:
        column: ``sure`` or ``near``.
        groups: (lowest value, highest value, items, lost ones) of each third of the items, the lowest first.
        separation: Lost against kept within categories and thirds of the other column; None for too few.
    """

    column: Column
    groups: tuple[tuple[float, float, int, int], ...]
    separation: Separation | None

    @property
    def p_value(self) -> float:
        """One-sided p-value: lost ones are less sure, or nearer; nan if it cannot be tested."""
        if self.separation is None:
            return math.nan
        return self.separation.lower if self.column == "sure" else self.separation.higher

    @property
    def explains(self) -> bool:
        """True if the column goes with what was lost beyond chance."""
        return self.p_value <= _DOUBT


@dataclass(frozen=True, kw_only=True)
class Causes:
    """Why answers were lost, as far as two columns tell.

    Attributes:
        items: Items that were right before.
        lost: Those of them that are wrong now.
        causes: The columns; `near` only if the nearness is known.
        categories: (Category, items, lost, uses of its words in the training rows per 1,000 words), most used first;
            empty if the rows are not known.
    """

    items: int
    lost: int
    causes: tuple[Cause, ...]
    categories: tuple[tuple[str, int, int, float], ...] = ()

    def __str__(self) -> str:
        """Return the answer in one sentence."""
        tested = [one for one in self.causes if one.separation is not None]
        if not tested:
            return f"too few answers were lost to tell ({self.lost:,} of {self.items:,})"
        words = {"sure": "was what it barely knew", "near": "lies near the new data"}
        found = [words[one.column] for one in tested if one.explains]
        if found:
            return f"what it lost {' and '.join(found)}"
        names = {"sure": "how sure it was", "near": "the nearness to the new data"}
        told = [names[one.column] for one in tested]
        return f"neither {' nor '.join(told)} explains it" if len(told) > 1 else f"{told[0]} does not explain it"


def why_lost(
    before: Snapshot,
    after: Snapshot,
    *,
    near: Mapping[tuple[str, str], float] | None = None,
    words: Mapping[str, float] | None = None,
) -> Causes:
    """Return why answers that were right before are wrong after, by what both snapshots and the training rows show.

    Args:
        before: The base.
        after: The tuned model.
        near: Nearness of each question to the training rows, by (task, id) (`probes.nearness_to`); None if unknown.
        words: Uses of the words of each category in the training rows (`probes.category_words`); None if unknown.
    """
    pairing = pair(before, after)
    was, now = before.floats("correct")[pairing.before], after.floats("correct")[pairing.after]
    share = before.floats("gold_share")[pairing.before]
    with np.errstate(divide="ignore"):
        sure = np.log(share) - np.log1p(-share)
    rows = np.flatnonzero((was == 1) & np.isfinite(now) & ~np.isnan(sure))
    lost, sure = now[rows] == 0, sure[rows]
    names = [before.texts(name)[pairing.before][rows] for name in ("task", "item_id", "category")]
    category = np.unique(names[2].astype(str), return_inverse=True)[1]
    columns: dict[Column, Floats] = {"sure": np.clip(sure, -1e3, 1e3)}
    if near is not None:
        keys = zip(names[0].tolist(), names[1].tolist(), strict=True)
        columns["near"] = np.array([near.get((str(task), str(one)), math.nan) for task, one in keys], float)
    found = []
    for name, column in columns.items():
        others = [_third(other) for one, other in columns.items() if one != name]
        stratum = category * _GROUPS + (others[0] if others else 0)
        groups = _groups(column, lost)
        found.append(Cause(column=name, groups=groups, separation=separation(lost, column, stratum)))
    by_category = []
    for one, uses in sorted((words or {}).items(), key=lambda pair: -(pair[1] if math.isfinite(pair[1]) else -1.0)):
        inside = names[2] == one
        by_category.append((one, int(inside.sum()), int(lost[inside].sum()), uses))
    return Causes(items=len(rows), lost=int(lost.sum()), causes=tuple(found), categories=tuple(by_category))


def _third(column: Floats) -> NDArray[np.int64]:
    """Return the third in which each value lies, 0 to 2; 0 for nan."""
    known = column[np.isfinite(column)]
    if not len(known):
        return np.zeros(len(column), np.int64)
    return np.where(np.isfinite(column), np.searchsorted(np.quantile(known, [1 / 3, 2 / 3]), column), 0)


def _groups(column: Floats, lost: NDArray[np.bool_]) -> tuple[tuple[float, float, int, int], ...]:
    known = np.flatnonzero(np.isfinite(column))
    parts = np.array_split(known[np.argsort(column[known], kind="stable")], _GROUPS)
    return tuple(
        (float(column[part[0]]), float(column[part[-1]]), len(part), int(lost[part].sum()))
        for part in parts
        if len(part)
    )
