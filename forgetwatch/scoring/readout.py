"""Numbers that are read from a batch's logits, and the scores of items that they give.

The log-probability of a token is read at the position before it. All numbers of a batch are named
before it is read, so that they leave the device together. The row of an item follows from its
scores in `scoring.item_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Encoded
from forgetwatch.scoring.layout import Batch

Beside = int | Sequence[NDArray[np.int64]]
"""Tokens that are read beside those of the choices: the number of the likeliest ones at each position; or given tokens
at each position of an item's only choice, int64 [tokens, n] by item. 0 for none."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """Tokens beside those of a choice, at each position [tokens, n]; the likeliest first, if they were not given."""

    ids: NDArray[np.int64]
    logprobs: NDArray[np.float64]  # nats


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Log-likelihoods of one item's choices, in nats."""

    logprobs: NDArray[np.float64]  # of each choice [choices]; nan where it was not read
    tokens: list[NDArray[np.float64]]  # of each token [tokens] by choice
    greedy: NDArray[
        np.bool_
    ]  # True for each choice that greedy decoding would generate; False unless requested
    spelled: float = 0.0  # total probability of the other spellings of the choices
    top: int = -1  # the most likely next token after the context; -1 where it was not read
    order: int = -1  # lowest index of a choice that was read, whose row gives `top` and `spelled`; -1 before any was
    beside: Tokens | None = (
        None  # other tokens at each position of the item's only choice, if any were read
    )

    @classmethod
    def of(cls, choices: int) -> Self:
        """Scores of an item before a choice is read."""
        return cls(
            logprobs=np.full(choices, np.nan),
            tokens=[np.empty(0)] * choices,
            greedy=np.zeros(choices, bool),
        )

    @property
    def are_finite(self) -> bool:
        """Are the log-likelihoods finite?

        NaN is not, nor are all minus infinity; a single minus infinity is of a token that is ruled
        out.
        """
        return not np.isnan(self.logprobs).any() and bool(np.isfinite(self.logprobs).any())

    def merged(self, rest: Scores) -> Scores:
        """Merge scores of the same item from another process."""
        # The lowest choice decides, so that the result does not depend on which process read what.
        earliest = min(
            (scores for scores in (self, rest) if scores.top >= 0),
            key=lambda scores: scores.order,
            default=self,
        )
        return replace(
            earliest,
            logprobs=np.where(np.isnan(self.logprobs), rest.logprobs, self.logprobs),
            tokens=[
                own_tokens if own_tokens.size else read
                for own_tokens, read in zip(self.tokens, rest.tokens, strict=True)
            ],
            greedy=self.greedy | rest.greedy,
            beside=self.beside or rest.beside,
        )


def check_finite_scores(scores: Iterable[Scores]) -> None:
    """Refuse log-likelihoods that are not finite.

    It is called where a score has no outcome of its own.

    Raises:
        ScoringError: If those of a text are not.
    """
    if not all(score.are_finite for score in scores):
        raise ScoringError("the model's logits are not finite; has the run diverged?")


class Readout:
    """Numbers that one batch yields.

    Attributes:
        rows: Index in `Batch.needed` of each token whose log-probability is read, ascending, int64
            [cells].
        tokens: The tokens, int64 [cells].
        likeliest: Indices in `Batch.needed` of the positions whose most likely token is read,
            ascending, int64.
        most: Number of the likeliest tokens that are read at every position.

    With `greedy` the choices that greedy decoding would generate are found too.
    """

    def __init__(
        self, batch: Batch, encoded: Sequence[Encoded], *, greedy: bool, beside: Beside = 0
    ) -> None:
        self._requests = [request for row in batch.rows for request in row.requests]
        needed, width = batch.needed, batch.width
        # Of each request, the indices in `batch.needed` of its positions.
        self._indices = [
            np.searchsorted(needed, np.array(request.positions) + number * width)
            for number, row in enumerate(batch.rows)
            for request in row.requests
        ]
        # All choices of an item share the position after the context: it is read with the lowest
        # one here.
        lowest: dict[int, int] = {}
        for number, request in enumerate(self._requests):
            lowest_known = lowest.get(request.item)
            if lowest_known is None or request.choice < self._requests[lowest_known].choice:
                lowest[request.item] = number
        self._spelled = {
            number: sorted({token for tokens in encoded[item].spellings for token in tokens})
            for item, number in lowest.items()
        }
        firsts = [self._indices[number][0] for number in self._spelled]
        spelled = [
            np.full(len(spellings), ids)
            for ids, spellings in zip(firsts, self._spelled.values(), strict=True)
        ]
        self.most = beside if isinstance(beside, int) else 0
        self._given = (
            [] if isinstance(beside, int) else [beside[request.item] for request in self._requests]
        )
        tokens_given = [
            np.repeat(index, ids.shape[1])
            for index, ids in zip(self._indices, self._given, strict=False)
        ]
        targets = [np.array(request.targets, np.int64) for request in self._requests]
        arrays = [np.array(ids, np.int64) for ids in self._spelled.values()]
        tokens = np.concatenate([*targets, *arrays, *(ids.ravel() for ids in self._given)])
        rows = np.concatenate([*self._indices, *spelled, *tokens_given])
        self._order = np.argsort(rows, kind="stable")
        self.rows = rows[self._order]
        self.tokens = tokens[self._order]
        self.likeliest = np.arange(len(needed)) if greedy else np.unique(np.array(firsts))
        self._greedy = greedy

    def add_to(self, scores_of: dict[int, Scores], numbers: NDArray[np.float64]) -> None:
        """Add the scores of the batch's requests.

        Args:
            scores_of: Scores by item, changed in place.
            numbers: Numbers of the batch's positions.
        """
        logprobs = np.empty(len(self.rows))
        logprobs[self._order] = numbers[: len(self.rows)]
        likeliest = numbers[len(self.rows) : len(self.rows) + len(self.likeliest)]
        targets = sum(len(request.targets) for request in self._requests)
        bounds = np.cumsum([len(tokens) for tokens in self._spelled.values()])
        *read, given = np.split(logprobs[targets:], bounds)
        by_spelling = dict(zip(self._spelled, read, strict=True))
        beside = self._tokens_beside(given, numbers[len(self.rows) + len(self.likeliest) :])
        offset = 0
        for number, (request, indices) in enumerate(
            zip(self._requests, self._indices, strict=True)
        ):
            logprobs_own = logprobs[offset : offset + len(indices)]
            offset += len(indices)
            scores = scores_of[request.item]
            scores.tokens[request.choice] = logprobs_own
            scores.logprobs[request.choice] = logprobs_own.sum()
            if self._greedy:
                scores.greedy[request.choice] = bool((likeliest[indices] == request.targets).all())
            if number in by_spelling and not 0 <= scores.order <= request.choice:
                top = int(likeliest[np.searchsorted(self.likeliest, indices[0])])
                spelled = float(np.exp(by_spelling[number]).sum())
                scores_of[request.item] = replace(
                    scores, top=top, spelled=spelled, order=request.choice
                )
            if beside:
                scores_of[request.item] = replace(scores_of[request.item], beside=beside[number])

    def _tokens_beside(
        self, beside: NDArray[np.float64], tops: NDArray[np.float64]
    ) -> list[Tokens]:
        # Empty if none were read.
        if self._given:
            bounds = np.cumsum([ids.size for ids in self._given])[:-1]
            parts = zip(self._given, np.split(beside, bounds), strict=True)
            return [Tokens(ids=ids, logprobs=part.reshape(ids.shape)) for ids, part in parts]
        if not self.most:
            return []
        ids, logprobs = tops.reshape(2, -1, self.most)
        return [
            Tokens(ids=ids[index].astype(np.int64), logprobs=logprobs[index])
            for index in self._indices
        ]
