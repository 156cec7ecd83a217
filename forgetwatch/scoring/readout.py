"""Numbers that are read from a batch's logits, and the scores of items that they give.

The log-probability of a token is read at the position before it. All numbers of a batch are named before it is read,
so that they leave the device together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import Encoded
from forgetwatch.scoring.layout import Batch


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Log-likelihoods of one item's choices.

    Attributes:
        logprobs: Log-likelihood of each choice, nats, float64 [choices]; nan where it was not read.
        tokens: Log-probability of each token of each choice, nats, float64 [tokens] by choice.
        greedy: True for each choice that greedy decoding would generate, bool [choices]; False unless requested.
        spelled: Total probability of the other spellings of the choices, 0 to 1.
        top: The most likely next token after the context; -1 where it was not read.
        order: Lowest index of a choice that was read; `top` and `spelled` are from its row; -1 before any was read.
    """

    logprobs: NDArray[np.float64]
    tokens: list[NDArray[np.float64]]
    greedy: NDArray[np.bool_]
    spelled: float = 0.0
    top: int = -1
    order: int = -1

    @classmethod
    def of(cls, choices: int) -> Self:
        """Scores of an item before any of its choices is read."""
        return cls(logprobs=np.full(choices, np.nan), tokens=[np.empty(0)] * choices, greedy=np.zeros(choices, bool))

    def merged(self, other: Scores) -> Scores:
        """These scores together with those of the same item from another process."""
        # The lowest choice decides, so that the result does not depend on which process read what.
        first = min((one for one in (self, other) if one.top >= 0), key=lambda one: one.order, default=self)
        return replace(
            first,
            logprobs=np.where(np.isnan(self.logprobs), other.logprobs, self.logprobs),
            tokens=[own if own.size else read for own, read in zip(self.tokens, other.tokens, strict=True)],
            greedy=self.greedy | other.greedy,
        )


class Readout:
    """Numbers that one batch yields.

    Attributes:
        needed: Positions whose logits are needed, as row * width + column, ascending, int64 [needed].
        rows: Index in `needed` of each token whose log-probability is read, ascending, int64 [cells].
        tokens: The tokens, int64 [cells].
        likeliest: Indices in `needed` of the positions whose most likely token is read, ascending, int64.

    Args:
        batch: The batch.
        encoded: Token ids of all items.
        greedy: Also find the choices that greedy decoding would generate.
    """

    def __init__(self, batch: Batch, encoded: Sequence[Encoded], *, greedy: bool) -> None:
        width = batch.width
        self._requests = [request for row in batch.rows for request in row.requests]
        positions = [
            np.array(request.positions) + number * width
            for number, row in enumerate(batch.rows)
            for request in row.requests
        ]
        self.needed = np.unique(np.concatenate(positions))
        places = [np.searchsorted(self.needed, of_request) for of_request in positions]
        # All choices of an item share the position after the context: it is read with the lowest one here.
        lowest: dict[int, int] = {}
        for number, request in enumerate(self._requests):
            known = lowest.get(request.item)
            if known is None or request.choice < self._requests[known].choice:
                lowest[request.item] = number
        self._spelled = {
            number: sorted({token for tokens in encoded[item].spellings for token in tokens})
            for item, number in lowest.items()
        }
        firsts = [places[number][0] for number in self._spelled]
        rows = [
            *places,
            *(np.full(len(others), first) for first, others in zip(firsts, self._spelled.values(), strict=True)),
        ]
        tokens = [*(request.targets for request in self._requests), *self._spelled.values()]
        unsorted = np.concatenate(rows)
        self._order = np.argsort(unsorted, kind="stable")
        self.rows = unsorted[self._order]
        self.tokens = np.concatenate([np.array(of_row, np.int64) for of_row in tokens])[self._order]
        self.likeliest = np.arange(len(self.needed)) if greedy else np.unique(np.array(firsts))
        self._places, self._greedy = places, greedy

    def add_to(self, found: dict[int, Scores], numbers: NDArray[np.float64]) -> None:
        """Put the scores of the batch's requests into `found`, by item.

        Args:
            found: Scores of the items so far.
            numbers: Log-probabilities in the order of `tokens`, then most likely tokens, float64 [cells + likeliest].

        Raises:
            ScoringError: If a log-probability is not finite.
        """
        logprobs = np.empty(len(self.rows))
        logprobs[self._order] = numbers[: len(self.rows)]
        likeliest = numbers[len(self.rows) :]
        targets = sum(len(request.targets) for request in self._requests)
        if not np.isfinite(logprobs[:targets]).all():
            raise ScoringError("the model's logits are not finite; has the run diverged?")
        others = dict(
            zip(
                self._spelled,
                np.split(logprobs[targets:], np.cumsum([*map(len, self._spelled.values())])),
                strict=False,
            )
        )
        offset = 0
        for number, (request, places) in enumerate(zip(self._requests, self._places, strict=True)):
            own = logprobs[offset : offset + len(places)]
            offset += len(places)
            scores = found[request.item]
            scores.tokens[request.choice] = own
            scores.logprobs[request.choice] = own.sum()
            if self._greedy:
                scores.greedy[request.choice] = bool((likeliest[places] == request.targets).all())
            if number in others and not 0 <= scores.order <= request.choice:
                top = int(likeliest[np.searchsorted(self.likeliest, places[0])])
                spelled = float(np.exp(others[number]).sum())
                found[request.item] = replace(scores, top=top, spelled=spelled, order=request.choice)
