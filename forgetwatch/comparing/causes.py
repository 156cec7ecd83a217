"""Entrenched, or mismatched: were the lost answers those that the model barely knew, or those near the new data?

    sure    share of the right options under the base, as log odds: lost ones lower       "the less sure ones"
    near    nearness of the question to the training rows, by words: lost ones higher     "near the new data"

Each column is tested within categories and within tenths of the other one (`metrics.trend`). Over
all questions any column looks good, because untaught categories differ from taught ones; and a
column that goes with the other one would get its credit: within thirds it did in 14 to 38 % of
worlds with one cause, within tenths in 3 to 4 %. Each test is one-sided, at 5 % divided by the
number of columns, so that of losses without a cause at most 5 % get one.

Questions with one and the same right answer are lost together, where a model stops to say a word:
they count as one observation each (`answers`), or a column that follows the answer would look good.

Between categories there is a fourth question: does a category lose more the more its words occur in
the rows?

Questions that the base answered right by scored options take part. A loss by noise in the weights
also falls on the less sure ones: that is what the sentence then says, and no proof of a better
cause.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forgetwatch.measures.pairing import pair
from forgetwatch.metrics.separation import Explained, Separation, explained, mean_ranks, separation
from forgetwatch.probes.nearness import RightAnswer
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
        parts: Tenths of each category's items by the column, the lowest first; thirds of fewer than
            100 items in all.
        separation: Lost against kept within categories and tenths of the other column; None for too
            few.
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
        """One-sided p-value: lost ones are less sure, or nearer.

        Returns:
            The p-value, or nan if it cannot be tested.
        """
        if self.separation is None:
            return math.nan
        return self.separation.lower if self.column == "sure" else self.separation.higher

    @property
    def explains(self) -> bool:
        """Does the column go with losses beyond chance?"""
        return self.p_value <= self.doubt


@dataclass(frozen=True, kw_only=True)
class Causes:
    """Why answers were lost, as far as the columns tell.

    Attributes:
        items: Items that were right before.
        lost: Those of them that are wrong now.
        causes: The columns that are known.
        categories: The categories, those whose words are used most first; empty if the rows are not
            known.
        answers: Right answers of at least three questions, that lost most first, without private
            ones; empty if they are not known.
        between: (rank correlation of a category's lost share with the uses of its words, two-sided
            p-value by permuted categories); None for fewer than five categories.
    """

    items: int
    lost: int
    causes: tuple[Cause, ...]
    categories: tuple[CategoryUse, ...] = ()
    answers: tuple[AnswerLost, ...] = ()
    between: tuple[float, float] | None = None

    @property
    def is_tested(self) -> bool:
        """Were enough answers lost for a test?"""
        return any(cause.separation is not None for cause in self.causes)

    def __str__(self) -> str:
        """The answer in one sentence."""
        tested = [cause for cause in self.causes if cause.separation is not None]
        if not tested:
            return f"too few answers were lost to tell ({count(self.lost)} of {count(self.items)})"
        explains = {explaining.column for explaining in tested if explaining.explains}
        lost_kinds = ["the less sure of its right answers"] if "sure" in explains else []
        lost_kinds += ["those near the new data"] if "near" in explains else []
        if lost_kinds:
            return f"within categories, it lost {' and '.join(lost_kinds)}"
        columns = {cause.column for cause in tested}
        tested_kinds = ["how sure it was"] if "sure" in columns else []
        tested_kinds += ["the nearness to the new data"] if "near" in columns else []
        return (
            f"neither {' nor '.join(tested_kinds)} explains it"
            if len(tested_kinds) > 1
            else f"{tested_kinds[0]} does not explain it"
        )

    def answers_text(self) -> str:
        """Sentence on answers that are lost as a whole.

        Returns:
            The sentence, or an empty text if they are few of the losses.
        """
        lost_answers = [
            answer
            for answer in self.answers
            if answer.lost >= 3 and 2 * answer.lost >= answer.items
        ]
        if 3 * sum(answer.lost for answer in lost_answers) < self.lost or not lost_answers:
            return ""
        listed = ", ".join(
            f"{one_line(answer.text)} {answer.lost} of {answer.items}"
            for answer in lost_answers[:_SHOWN]
        )
        return f"whole answers are lost, which count as one observation each: {listed}"

    def between_text(self) -> str:
        """Sentence on the categories.

        Returns:
            The sentence, or an empty text without training rows.
        """
        if self.between is None:
            return ""
        rank, p_value = self.between
        result = f"rank correlation {rank:+.2f}, p {p_value:.2g}, {len(self.categories)} categories"
        if p_value > _DOUBT:
            return f"categories whose words the rows use more lose neither more nor less beyond chance ({result})"
        return f"categories whose words the rows use more lose {'more' if rank > 0 else 'less'} ({result})"


def why_lost(
    before: Snapshot,
    after: Snapshot,
    *,
    near: Nearness | None = None,
    words: Mapping[str, float] | None = None,
    answers: Mapping[tuple[str, str], RightAnswer] | None = None,
) -> Causes:
    """Relate lost answers to certainty and nearness to the new data.

    Args:
        before: The base.
        after: The tuned model.
        near: Nearness of each question by its words (`nearness_to`); None if unknown.
        words: Uses of the words of each category in the training rows (`category_words`); None if
            unknown.
        answers: Right answer of each question (`answers_of`), by (task, id); None if unknown: then
            the clusters of the snapshot go together.
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
        (str(task), str(category))
        for task, category in zip(names[0].tolist(), names[1].tolist(), strict=True)
    ]
    columns: dict[Column, Floats] = {"sure": np.clip(sure[rows], -1e3, 1e3)}
    if near is not None:
        columns["near"] = np.array([near.get(key, math.nan) for key in keys], float)
    if answers is None:
        of_snapshot = before.texts("cluster")[pairing.before][rows].tolist()
        together = [given_id or str(key) for given_id, key in zip(of_snapshot, keys, strict=True)]
    else:
        together = [answers[key].text if key in answers else str(key) for key in keys]
    _, cluster, sizes = np.unique(together, return_inverse=True, return_counts=True)
    clusters = cluster if len(sizes) < len(rows) else None
    causes = []
    for name, column in columns.items():
        control = columns.get("near" if name == "sure" else "sure")
        stratum = category if control is None else category * 10 + _tenth(control)
        causes.append(
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
    for use, used in sorted(
        (words or {}).items(), key=lambda pair: -(pair[1] if math.isfinite(pair[1]) else -1.0)
    ):
        inside = names[2] == use
        uses.append(CategoryUse(use, int(inside.sum()), int(lost[inside].sum()), used))
    return Causes(
        items=len(rows),
        lost=int(lost.sum()),
        causes=tuple(causes),
        categories=tuple(uses),
        answers=() if answers is None else _by_answer([answers.get(key) for key in keys], lost),
        between=_between([use for use in uses if use.items and math.isfinite(use.uses)]),
    )


def _by_answer(
    answers: list[RightAnswer | None], lost: NDArray[np.bool_]
) -> tuple[AnswerLost, ...]:
    texts = ["" if answer is None or answer.is_private else answer.text for answer in answers]
    names, which, sizes = np.unique(texts, return_inverse=True, return_counts=True)
    of_each = np.bincount(which, weights=lost)
    rows = zip(names.tolist(), sizes.tolist(), of_each.astype(int).tolist(), strict=True)
    losses = [AnswerLost(*row) for row in rows if row[0] and row[1] >= 3]
    return tuple(sorted(losses, key=lambda loss: (-loss.lost, loss.items, loss.text)))


def _between(categories: list[CategoryUse]) -> tuple[float, float] | None:
    # Spearman's coefficient. The permutations are drawn, always the same.
    if len(categories) < _FEWEST_CATEGORIES:
        return None
    columns = (
        [category.lost / category.items for category in categories],
        [category.uses for category in categories],
    )
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
    # 0 to 9; 0 for nan.
    finite = column[np.isfinite(column)]
    if not len(finite):
        return np.zeros(len(column), np.int64)
    return np.where(
        np.isfinite(column), np.searchsorted(np.quantile(finite, np.arange(1, 10) / 10), column), 0
    )


def _parts(
    column: Floats, lost: NDArray[np.bool_], category: NDArray[np.int64]
) -> tuple[Part, ...]:
    finite = np.flatnonzero(np.isfinite(column))
    number = 10 if len(finite) >= 100 else 3
    position = np.empty(len(finite), np.int64)
    for name in np.unique(category[finite]):
        inside = np.flatnonzero(category[finite] == name)
        order = np.argsort(column[finite[inside]], kind="stable")
        # The middle of its place among the items of its category, so that small categories fill the
        # parts evenly.
        position[inside[order]] = (2 * np.arange(len(inside)) + 1) * number // (2 * len(inside))
    inside_parts = [lost[finite[position == part]] for part in range(number)]
    return tuple(
        Part(len(inside_part), int(inside_part.sum()))
        for inside_part in inside_parts
        if len(inside_part)
    )
