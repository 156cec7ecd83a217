"""Entrenched, or mismatched: were the lost answers those that the model barely knew, or those near the new data?

    sure    share of the right options under the base, as log odds: lost ones lower       "the less sure ones"
    near    nearness of the question to the training rows, by words: lost ones higher     "near the new data"

Each column is tested within categories and within tenths of the other one (`metrics.trend`). Over all questions
any column looks good, because untaught categories differ from taught ones; and a column that goes with the other one
would get its credit: within thirds it did in 14 to 38 % of worlds with one cause, within tenths in 3 to 4 %. Each test
is one-sided, at 5 % divided by the number of columns, so that of losses without a cause at most 5 % get one.

Questions with one and the same right answer are lost together, where a model stops to say a word: they count as one
observation each (`answers`), or a column that follows the answer would look good.

Between categories there is a fourth question: does a category lose more the more its words occur in the rows?

Questions that the base answered right by scored options take part. A loss by noise in the weights also falls on the
less sure ones: that is what the sentence then says, and no proof of a better cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetwatch.measures.pairing import pair
from forgetwatch.metrics.trend import Explained, Separation, explained, mean_ranks, separation
from forgetwatch.probes.checking import RightAnswer
from forgetwatch.snapshot import Snapshot
from forgetwatch.text import count, one_line

_DOUBT: Final = 0.05
_PERMUTATIONS: Final = 10_000
_FEWEST_CATEGORIES: Final = 5
_SHOWN: Final = 6
"""Right answers that the sentence names."""

Floats = NDArray[np.float64]
Nearness = Mapping[tuple[str, str], float]
"""How near questions are to the training rows, by (task, id)."""
Column = Literal["sure", "near"]

COLUMNS: Final[dict[Column, str]] = {
    "sure": "how sure it was",
    "near": "nearness to the new data, by words",
}
"""Name of each column for people; its values rise with it."""


class Part(NamedTuple):
    """Questions of one part of a column."""

    items: int
    lost: int


class CategoryUse(NamedTuple):
    """A category, and how often its words occur in the training rows, per 1,000 words; nan if it has none."""

    name: str
    items: int
    lost: int
    uses: float


class AnswerLost(NamedTuple):
    """Questions with one and the same right answer."""

    text: str
    items: int
    lost: int


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One column, and how it goes with what was lost.

    Attributes:
        column: A key of `COLUMNS`.
        parts: Tenths of each category's items by the column, the lowest first; thirds of fewer than 100 items in all.
        separation: Lost against kept within categories and tenths of the other column; None for too few.
        explained: How much it explains there, and permuted questions do; None likewise.
        doubt: p-value up to which it explains the loss.
    """

    column: Column
    parts: tuple[Part, ...]
    separation: Separation | None
    explained: Explained | None
    doubt: float

    @property
    def p_value(self) -> float:
        """One-sided p-value: lost ones are less sure, or nearer; nan if it cannot be tested."""
        if self.separation is None:
            return math.nan
        return self.separation.lower if self.column == "sure" else self.separation.higher

    @property
    def explains(self) -> bool:
        """True if the column goes with what was lost beyond chance."""
        return self.p_value <= self.doubt


@dataclass(frozen=True, kw_only=True)
class Causes:
    """Why answers were lost, as far as the columns tell.

    Attributes:
        items: Items that were right before.
        lost: Those of them that are wrong now.
        causes: The columns that are known.
        categories: The categories, those whose words are used most first; empty if the rows are not known.
        answers: Right answers of at least three questions, that lost most first, without private ones; empty if they
            are not known.
        between: (rank correlation of a category's lost share with the uses of its words, two-sided p-value by
            permuted categories); None for fewer than five categories.
    """

    items: int
    lost: int
    causes: tuple[Cause, ...]
    categories: tuple[CategoryUse, ...] = ()
    answers: tuple[AnswerLost, ...] = ()
    between: tuple[float, float] | None = None

    @property
    def is_tested(self) -> bool:
        """True if enough answers were lost to tell anything."""
        return any(one.separation is not None for one in self.causes)

    def __str__(self) -> str:
        """Return the answer in one sentence."""
        tested = [one for one in self.causes if one.separation is not None]
        if not tested:
            return f"too few answers were lost to tell ({count(self.lost)} of {count(self.items)})"
        explains = {one.column for one in tested if one.explains}
        found = ["the less sure of its right answers"] if "sure" in explains else []
        found += ["those near the new data"] if "near" in explains else []
        if found:
            return f"within categories, it lost {' and '.join(found)}"
        asked = {one.column for one in tested}
        told = ["how sure it was"] if "sure" in asked else []
        told += ["the nearness to the new data"] if "near" in asked else []
        return (
            f"neither {' nor '.join(told)} explains it"
            if len(told) > 1
            else f"{told[0]} does not explain it"
        )

    def answers_text(self) -> str:
        """Return the sentence on answers that are lost as a whole; empty if they are few of the losses."""
        whole = [one for one in self.answers if one.lost >= 3 and 2 * one.lost >= one.items]
        if 3 * sum(one.lost for one in whole) < self.lost or not whole:
            return ""
        shown = ", ".join(
            f"{one_line(one.text)} {one.lost} of {one.items}" for one in whole[:_SHOWN]
        )
        return f"whole answers are lost, which count as one observation each: {shown}"

    def between_text(self) -> str:
        """Return the sentence on the categories; empty if it is not asked."""
        if self.between is None:
            return ""
        rank, p_value = self.between
        told = f"rank correlation {rank:+.2f}, p {p_value:.2g}, {len(self.categories)} categories"
        if p_value > _DOUBT:
            return f"categories whose words the rows use more lose neither more nor less beyond chance ({told})"
        return f"categories whose words the rows use more lose {'more' if rank > 0 else 'less'} ({told})"


def why_lost(
    before: Snapshot,
    after: Snapshot,
    *,
    near: Nearness | None = None,
    words: Mapping[str, float] | None = None,
    answers: Mapping[tuple[str, str], RightAnswer] | None = None,
) -> Causes:
    """Return why answers that were right before are wrong after, by what both snapshots and the training rows show.

    Args:
        before: The base.
        after: The tuned model.
        near: Nearness of each question by its words (`nearness_to`); None if unknown.
        words: Uses of the words of each category in the training rows (`category_words`); None if unknown.
        answers: Right answer of each question (`answers_of`), by (task, id); None if unknown: then the clusters
            of the snapshot go together.
    """
    pairing = pair(before, after)
    was, now = before.right_as_base[pairing.before], after.floats("correct")[pairing.after]
    share = before.floats("gold_share")[pairing.before]
    with np.errstate(divide="ignore"):
        sure = np.log(share) - np.log1p(-share)
    rows = np.flatnonzero((was == 1) & np.isfinite(now) & ~np.isnan(sure))
    lost = now[rows] == 0
    names = [before.texts(name)[pairing.before][rows] for name in ("task", "item_id", "category")]
    category = np.unique(names[2].astype(str), return_inverse=True)[1]
    keys = [
        (str(task), str(one))
        for task, one in zip(names[0].tolist(), names[1].tolist(), strict=True)
    ]
    columns: dict[Column, Floats] = {"sure": np.clip(sure[rows], -1e3, 1e3)}
    if near is not None:
        columns["near"] = np.array([near.get(key, math.nan) for key in keys], float)
    if answers is None:
        of_snapshot = before.texts("cluster")[pairing.before][rows].tolist()
        together = [one or str(key) for one, key in zip(of_snapshot, keys, strict=True)]
    else:
        together = [answers[key].text if key in answers else str(key) for key in keys]
    _, cluster, sizes = np.unique(together, return_inverse=True, return_counts=True)
    clusters = cluster if len(sizes) < len(rows) else None
    found = []
    for name, column in columns.items():
        other = columns.get("near" if name == "sure" else "sure")
        stratum = category if other is None else category * 10 + _tenth(other)
        found.append(
            Cause(
                column=name,
                parts=_parts(column, lost, category),
                separation=(tested := separation(lost, column, stratum, cluster=clusters)),
                explained=None
                if tested is None
                else explained(lost, column, stratum, cluster=clusters),
                doubt=_DOUBT / len(columns),
            )
        )
    uses = []
    for one, used in sorted(
        (words or {}).items(), key=lambda pair: -(pair[1] if math.isfinite(pair[1]) else -1.0)
    ):
        inside = names[2] == one
        uses.append(CategoryUse(one, int(inside.sum()), int(lost[inside].sum()), used))
    return Causes(
        items=len(rows),
        lost=int(lost.sum()),
        causes=tuple(found),
        categories=tuple(uses),
        answers=() if answers is None else _by_answer([answers.get(key) for key in keys], lost),
        between=_between([one for one in uses if one.items and math.isfinite(one.uses)]),
    )


def _by_answer(
    answers: list[RightAnswer | None], lost: NDArray[np.bool_]
) -> tuple[AnswerLost, ...]:
    texts = ["" if one is None or one.is_private else one.text for one in answers]
    names, which, sizes = np.unique(texts, return_inverse=True, return_counts=True)
    of_each = np.bincount(which, weights=lost)
    rows = zip(names.tolist(), sizes.tolist(), of_each.astype(int).tolist(), strict=True)
    found = [AnswerLost(*row) for row in rows if row[0] and row[1] >= 3]
    return tuple(sorted(found, key=lambda one: (-one.lost, one.items, one.text)))


def _between(categories: list[CategoryUse]) -> tuple[float, float] | None:
    """Return the rank correlation of the lost share with the uses, and its p-value; None for too few or no difference.

    Spearman's coefficient; the permutations are drawn, always the same.
    """
    if len(categories) < _FEWEST_CATEGORIES:
        return None
    columns = ([one.lost / one.items for one in categories], [one.uses for one in categories])
    share, uses = (ranks - ranks.mean() for ranks in map(mean_ranks, map(np.array, columns)))
    scale = math.sqrt(float(share @ share) * float(uses @ uses))
    if scale <= 0:
        return None
    rank = float(share @ uses) / scale
    rng = np.random.default_rng(0)
    permuted = np.array([share @ rng.permutation(uses) for _ in range(_PERMUTATIONS)]) / scale
    beyond = int((np.abs(permuted) >= abs(rank) - 1e-12).sum())
    return rank, (1 + beyond) / (1 + _PERMUTATIONS)


def _tenth(column: Floats) -> NDArray[np.int64]:
    """Return the tenth in which each value lies, 0 to 9; 0 for nan."""
    known = column[np.isfinite(column)]
    if not len(known):
        return np.zeros(len(column), np.int64)
    return np.where(
        np.isfinite(column), np.searchsorted(np.quantile(known, np.arange(1, 10) / 10), column), 0
    )


def _parts(
    column: Floats, lost: NDArray[np.bool_], category: NDArray[np.int64]
) -> tuple[Part, ...]:
    known = np.flatnonzero(np.isfinite(column))
    number = 10 if len(known) >= 100 else 3
    place = np.empty(len(known), np.int64)
    for one in np.unique(category[known]):
        inside = np.flatnonzero(category[known] == one)
        order = np.argsort(column[known[inside]], kind="stable")
        # The middle of its place among the items of its category, so that small categories fill the parts evenly.
        place[inside[order]] = (2 * np.arange(len(inside)) + 1) * number // (2 * len(inside))
    inside_parts = [lost[known[place == part]] for part in range(number)]
    return tuple(Part(len(one), int(one.sum())) for one in inside_parts if len(one))
