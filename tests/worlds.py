"""Simulated answers with a planted truth: the share forgotten is known, the rest is guessing and noise.

know_or_guess    an item is known or guessed uniformly; a guess persists with a probability
logits           an option has a score; unknown items have preferences, and training moves every score a little
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.answers import Answers
from forgetwatch.metrics.choices import OptionScores, decide
from forgetwatch.metrics.known import Confidence

Unknown = Literal["exchangeable", "partial", "ruled out", "attractor"]


@dataclass(frozen=True, kw_only=True)
class World:
    """Paired answers, scores of the options before and after [n, k] if there are any, shares lost and learnt."""

    answers: Answers
    scores: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    lost: float
    won: float

    @property
    def options(self) -> tuple[OptionScores, OptionScores]:
        """Scores before and after."""
        assert self.scores is not None
        return option_scores(self.scores[0]), option_scores(self.scores[1])

    @property
    def confidence(self) -> Confidence:
        """Confidence of the answers."""
        return confidence(*self.options)


def option_scores(scores: NDArray[np.float64], gold: NDArray[np.int64] | None = None) -> OptionScores:
    """Scores [n, k] as a flat array; the right option is the first, or `gold` [n]."""
    n, k = scores.shape
    golds = np.arange(k) == (np.zeros(n, np.int64) if gold is None else gold)[:, None]
    return OptionScores(np.full(n, k), scores.ravel(), golds.ravel())


def confidence(before: OptionScores, after: OptionScores) -> Confidence:
    """Confidence of answers that follow from scores; every item has as many options."""
    n, k = len(before.k), int(before.k[0])
    sides = [decide(side.scores, side.k, side.golds) for side in (before, after)]
    right = [
        side.golds.reshape(n, k)[np.arange(n), found.chosen] for side, found in zip((before, after), sides, strict=True)
    ]
    return Confidence(
        before=right[0],
        after=right[1],
        share_before=sides[0].share,
        share_after=sides[1].share,
        wrong_share=before.largest_wrong_share,
        other_wrong=~right[0] & ~right[1] & (sides[0].chosen != sides[1].chosen),
        k=before.k,
        golds=before.golds.reshape(n, k).sum(axis=1),
    )


def know_or_guess(
    rng: np.random.Generator,
    *,
    n: int,
    k: int | NDArray[np.int64] = 4,
    known: float,
    lost: float = 0.0,
    won: float = 0.0,
    persistence: float = 0.0,
    silent: float = 0.0,
) -> World:
    """Items that are known or guessed; the expected truth is `lost` of the known and `won` of the rest.

    Args:
        rng: Source of the draws.
        n: Number of items.
        k: Number of options, one for all or [n].
        known: Share of the items that is known before.
        lost: Share of these that is not known after; they are guessed afresh.
        won: Share of the others that is known after.
        persistence: Probability that an item unknown twice keeps its guess.
        silent: Probability that an item unknown after gets no answer.
    """
    options = np.full(n, k) if isinstance(k, int) else k
    know = rng.random(n) < known
    know_after = np.where(know, rng.random(n) >= lost, rng.random(n) < won)

    first, second, fresh = (rng.integers(0, options) for _ in range(3))
    second = np.where(rng.random(n) < persistence, first, second)
    second = np.where(rng.random(n) < silent, -1, np.where(know, fresh, second))
    chosen, chosen_after = np.where(know, 0, first), np.where(know_after, 0, second)
    return World(
        answers=_answers(chosen, chosen_after, options),
        scores=None,
        lost=known * lost,
        won=(1 - known) * won,
    )


def logits(rng: np.random.Generator, *, n: int, k: int = 4, unknown: Unknown, lost: float, noise: float) -> World:
    """Items with scores: half are known, the others normal with standard deviation 1; noise moves all.

    Args:
        rng: Source of the draws.
        n: Number of items.
        k: Number of options.
        unknown: Distribution of the scores of unknown items. exchangeable: all alike. partial: gold .8 higher on half
            of them. ruled out: one wrong option is never chosen. attractor: a wrong option .8 higher on half.
        lost: Share of all items that is known before and unknown after; every option of these is then alike.
        noise: Standard deviation by which training moves every score.
    """
    known = np.arange(n) < n // 2
    forgets = known & (rng.random(n) < 2 * lost)

    before = rng.normal(size=(n, k))
    half = rng.random(n) < 0.5
    if unknown == "partial":
        before[half, 0] += 0.8
    elif unknown == "attractor":
        before[half, 1] += 0.8
    elif unknown == "ruled out":
        before[:, 1] -= 20.0
    before[known, 0] = 12.0
    after = np.where(forgets[:, None], rng.normal(size=(n, k)), before) + noise * rng.normal(size=(n, k))
    return World(
        answers=_answers(before.argmax(1), after.argmax(1), np.full(n, k), before, after),
        scores=(before, after),
        lost=lost,
        won=0.0,
    )


def _answers(
    chosen: NDArray[np.int64],
    chosen_after: NDArray[np.int64],
    k: NDArray[np.int64],
    before: NDArray[np.float64] | None = None,
    after: NDArray[np.float64] | None = None,
) -> Answers:
    """Answers whose gold is option 0 everywhere, since no estimator looks at positions."""
    ones = np.ones(len(k), np.int64)
    return Answers(
        before=chosen == 0,
        after=chosen_after == 0,
        chosen_before=chosen,
        chosen_after=chosen_after,
        k=k,
        golds=ones,
        task=0 * ones,
        second_before=None if before is None else _second(before),
        second_after=None if after is None else _second(after),
    )


def _second(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 where option 0 is second, 0 where it is lower, nan where it is first; float64 [n]."""
    rank = (scores > scores[:, :1]).sum(axis=1)
    return np.where(rank == 0, np.nan, (rank == 1).astype(float))
