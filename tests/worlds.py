"""Simulated answers with a planted truth: the share forgotten is known, the rest is guessing and noise.

know_or_guess       an item is known or guessed uniformly; a guess persists with a probability
logits              an option has a score; unknown items have preferences, and training moves every score a little
planted_losses      a population of items known or guessed with confidence; some are lost, some learned, guesses move
score_changes       a population of scores before and after a change of one kind
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.choices import OptionScores, decide
from forgetwatch.metrics.guessing import Answers
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


def option_scores(
    scores: NDArray[np.float64], gold: NDArray[np.int64] | None = None
) -> OptionScores:
    """Scores [n, k] as a flat array; the right option is the first, or `gold` [n]."""
    n, k = scores.shape
    golds = np.arange(k) == (np.zeros(n, np.int64) if gold is None else gold)[:, None]
    return OptionScores(np.full(n, k), scores.ravel(), golds.ravel())


def confidence(before: OptionScores, after: OptionScores) -> Confidence:
    """Confidence of answers that follow from scores; every item has as many options."""
    n, k = len(before.k), int(before.k[0])
    sides = [decide(side.scores, side.k, side.golds) for side in (before, after)]
    right = [
        side.golds.reshape(n, k)[np.arange(n), found.chosen]
        for side, found in zip((before, after), sides, strict=True)
    ]
    return Confidence(
        before=right[0],
        after=right[1],
        share_before=sides[0].share,
        share_after=sides[1].share,
        wrong_share=before.largest_wrong_share,
        wrong_share_after=after.largest_wrong_share,
        other_wrong=~right[0] & ~right[1] & (sides[0].chosen != sides[1].chosen),
        k=before.k,
        golds=before.golds.reshape(n, k).sum(axis=1),
    )


@dataclass(frozen=True, kw_only=True)
class Population:
    """Items from which samples are drawn with replacement: the truth is that of the population, exactly.

    Attributes:
        confidence: The answers.
        lost: Truly known and counted as known before, truly unknown and answered wrong after; bool [items].
        size: Items per cluster; clusters are drawn as a whole.
    """

    confidence: Confidence
    lost: NDArray[np.bool_]
    size: int = 1

    def draw(self, rng: np.random.Generator, n: int) -> Confidence:
        """Confidence of `n` drawn items."""
        rows, cluster = draw_rows(rng, len(self.lost), n, size=self.size)
        return replace(self.confidence.take(rows), cluster=cluster)

    @classmethod
    def mixed(cls, parts: Sequence[Population]) -> Population:
        """Items of several populations, clusters of one item."""
        fields = [vars(part.confidence) for part in parts]
        joined = {
            name: np.concatenate([one[name] for one in fields])
            for name in fields[0]
            if name != "cluster"
        }
        return cls(
            confidence=Confidence(**joined), lost=np.concatenate([part.lost for part in parts])
        )


def rights(*cells: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Right answers before and after, from the counts 1->1, 1->0, 0->1, 0->0."""
    return np.repeat([True, True, False, False], cells), np.repeat(
        [True, False, True, False], cells
    )


def draw_rows(
    rng: np.random.Generator, items: int, n: int, *, size: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Rows of `n` items drawn with replacement, and their cluster; clusters of `size` items are drawn as a whole."""
    if size == 1:
        return rng.integers(0, items, n), None
    drawn = rng.integers(0, items // size, n // size)
    return (drawn[:, None] * size + np.arange(size)).ravel(), np.repeat(np.arange(len(drawn)), size)


def planted_losses(
    rng: np.random.Generator,
    *,
    items: int,
    k: int = 4,
    golds: int = 1,
    known: float = 0.5,
    lost: float = 0.0,
    learned: float = 0.0,
    half_known: float = 0.0,
    spread: float = 4.0,
    noise: float = 2.0,
    size: int = 1,
) -> Population:
    """Population of items that are known, or guessed with confidence: unknown options have normal scores.

    Args:
        rng: Source of the draws.
        items: Number of items.
        k: Number of options; the first is the one that is known.
        golds: Number of right options, the first ones.
        known: Share of the items that is known before.
        lost: Share of these that is unknown after; all their options are then drawn anew.
        learned: Share of the unknown items that is known after.
        half_known: Score by which gold attracts more than a wrong option where unknown, nats; 0 as the count assumes.
        spread: Standard deviation of the scores of unknown items, nats: how confident guesses are.
        noise: Standard deviation by which training moves the scores of unknown items, nats.
        size: Items per cluster; the items of one are lost, learned and moved together.
    """
    fate = np.arange(items) // size
    clusters = int(fate[-1]) + 1

    def guess() -> NDArray[np.float64]:
        scores = spread * rng.normal(size=(items, k))
        scores[:, 0] += half_known
        return scores

    knows, gone, taught = (
        rng.random(items) < known,
        *(rng.random((2, clusters))[:, fate] < [[lost], [learned]]),
    )
    before = guess()
    before[knows, 0] = before[knows].max(axis=1) + 8.0
    # In clusters half of the passages move, twice as far, so that guesses turn together too.
    moves = noise * (2.0 * (rng.random(clusters) < 0.5)[fate] if size > 1 else np.ones(items))
    after = before + (moves * ~knows)[:, None] * rng.normal(size=(items, k))
    after[knows & gone] = guess()[knows & gone]
    after[~knows & taught, 0] = after[~knows & taught].max(axis=1) + 8.0
    flat = np.tile(np.arange(k) < golds, items)
    options = [OptionScores(np.full(items, k), scores.ravel(), flat) for scores in (before, after)]
    found = confidence(options[0], options[1])
    return Population(confidence=found, lost=knows & gone & found.known & ~found.after, size=size)


Change = Literal[
    "exchangeable", "surer", "noise after", "heavy tails", "few large losses", "clusters"
]


def score_changes(
    rng: np.random.Generator, *, items: int, change: Change, size: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores before and after, [items, 4], the right option first.

    Args:
        rng: Source of the draws.
        items: Number of items.
        change: exchangeable: equal noise on both sides. surer: the same, and twice as sure after. noise after: more
            noise after. heavy tails: the noise after has Student's distribution with 3 degrees of freedom. few large
            losses: half of the items are known, and 5 % of these lose 8 nats on average. clusters: a shift of its own
            for each cluster.
        size: Items per cluster.
    """
    base = 2.0 * rng.normal(size=(items, 4))
    base[:, 0] += 1.0
    before, after = (base + 0.7 * rng.normal(size=(items, 4)) for _ in range(2))
    if change == "surer":
        after *= 2.0
    elif change == "noise after":
        after += rng.normal(size=(items, 4))
    elif change == "heavy tails":
        after = base + 0.7 * rng.standard_t(3, size=(items, 4))
    elif change == "few large losses":
        knows = rng.random(items) < 0.5
        gone = knows & (rng.random(items) < 0.05)
        before[knows, 0] += 8.0
        after[knows, 0] += 8.0
        after[gone, 0] -= rng.exponential(8.0, int(gone.sum()))
    elif change == "clusters":
        after[:, 0] += np.repeat(rng.normal(size=items // size), size)
    return before, after


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


def logits(
    rng: np.random.Generator, *, n: int, k: int = 4, unknown: Unknown, lost: float, noise: float
) -> World:
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
    after = np.where(forgets[:, None], rng.normal(size=(n, k)), before) + noise * rng.normal(
        size=(n, k)
    )
    return World(
        answers=_answers(before.argmax(1), after.argmax(1), np.full(n, k)),
        scores=(before, after),
        lost=lost,
        won=0.0,
    )


def _answers(
    chosen: NDArray[np.int64], chosen_after: NDArray[np.int64], k: NDArray[np.int64]
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
    )
