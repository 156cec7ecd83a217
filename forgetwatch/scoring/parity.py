"""Measured parity of shared rows with single rows: do both give the same log-likelihoods on this model?

Nothing is looked up by the model's name. A few choices are scored again, each in a row of its own, and three things are
measured:

    difference     of the log-likelihoods of shared and single rows: shared rows are used only if it is rounding
    noise          of the margins, which rounding alone moves: items with smaller margins are too close to call
    mask leakage   a token of one branch that changes the logits of another, also where small weights hide it today

A model whose earlier positions change with later tokens is no causal language model, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from forgetwatch.metrics import choices
from forgetwatch.probe import Norm
from forgetwatch.scoring.encoding import Encoded, Ids
from forgetwatch.scoring.forward import ForwardPass
from forgetwatch.scoring.isolation import maskable
from forgetwatch.scoring.layout import Batch, Layout, Request, Row, plan
from forgetwatch.scoring.model import is_exact
from forgetwatch.scoring.outcomes import decide, lengths
from forgetwatch.scoring.readout import Scores
from forgetwatch.scoring.tensors import tensors_of

FEWEST: Final = 3
MOST: Final = 16
"""Minimum and maximum number of items that are scored again, with two or three choices each."""

COST: Final = 0.05
"""Share of a look's tokens that scoring again may read, beyond the fewest items."""

CAUTION: Final = 2.0
"""Largest change expected among thousands of margins, in units of the largest among a few."""

TOLERANCE: Final = 1e-3
"""Nats by which a log-likelihood may differ in fp32."""

ROUNDING: Final = 0.02
"""Nats by which the log-probability of one token moves in bf16; a wrong mask moves most of them by more."""

LEAKAGE: Final = 2e-5
"""Change of a logit that may be rounding, as a share of the largest logit: experts may compute in other batches."""


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Scores of a few items in shared rows, compared with those of the same choices in single rows.

    Attributes:
        difference: Largest difference of a log-likelihood, nats; 0 if nothing is compared.
        tolerance: Largest difference that is rounding, nats.
        noise: Change that no margin exceeds, nats, as far as a few items can show.
    """

    difference: float
    tolerance: float
    noise: float

    @property
    def holds(self) -> bool:
        """True if the difference is rounding."""
        return self.difference <= self.tolerance


class ParityCheck:
    """Tests a model against its own single rows.

    Args:
        forward: Reads the model.
        encoded: Token ids of the items.
        keys: Their content hashes.
        norm: Unit of the score that decides.
        token_budget: Tokens of a batch, so that the test needs no more memory than what it tests.
    """

    def __init__(
        self, forward: ForwardPass, encoded: Sequence[Encoded], keys: Sequence[str], *, norm: Norm, token_budget: int
    ) -> None:
        self._forward, self._encoded, self._keys = forward, encoded, keys
        self._norm, self._token_budget = norm, token_budget
        # Any token ids serve to try the mask; those of an item are in the vocabulary.
        self._ids = next((one.context + one.choices[0] for one in encoded if not one.unscored), ())[:12]

    def compare(self, model: nn.Module, scores: Mapping[int, Scores], batches: Sequence[Batch]) -> Parity:
        """Score a few choices again: those deepest in shared rows, the longest item, and others spread over all.

        Args:
            model: The model, in evaluation mode; call inside `isolated`.
            scores: Scores to be tested, by item.
            batches: The batches that they were read in.
        """
        chosen = self._sample(scores, batches)
        deep = _deepest(batches)
        pairs = [_likeliest(self._encoded[index], scores[index], self._norm, deep.get(index)) for index in chosen]
        alone = [_with_choices(self._encoded[index], pair) for index, pair in zip(chosen, pairs, strict=True)]
        keys = [self._keys[index] for index in chosen]
        shared = [scores[index].logprobs[list(pair)] for index, pair in zip(chosen, pairs, strict=True)]
        single = self._single_rows(model, keys, alone, self._token_budget)
        noise = max((_margin_change(alone[n], a, single[n], self._norm) for n, a in enumerate(shared)), default=0.0)
        tolerance = TOLERANCE
        if not is_exact(model):
            # Rounding depends on the shape of a batch: the same rows one by one show how much.
            apart = self._single_rows(model, keys, alone, 1)
            longest = max((len(ids) for one in alone for ids in one.choices), default=1)
            # Each token's log-probability is rounded independently: the sum grows with the root of their number.
            tolerance = max(3 * _largest_difference(single, apart), ROUNDING * math.sqrt(longest))
        return Parity(difference=_largest_difference(shared, single), tolerance=tolerance, noise=CAUTION * noise)

    def cost(self, batches: Sequence[Batch]) -> float:
        """Tokens that `compare` reads, approximately, as a share of those of the batches."""
        longest = max((len(one.context) + max(map(len, one.choices), default=0) for one in self._encoded), default=0)
        return max(COST, 2 * FEWEST * longest / max(1, sum(batch.tokens for batch in batches)))

    def has_mask_leakage(self, model: nn.Module, *, layout: Layout) -> bool:
        """True if changing a token of one branch changes the logits of another branch by more than rounding.

        The row has a root of four tokens and two branches of four; it is read twice, the second time with another first
        token of the first branch. With the layout `prefix` the root is the prefix.
        """
        # Positions 0-3 root, 4-7 first branch, 8-11 second branch; depths 0-3, 4-7, 4-7.
        root, size = 4, 12
        tokens = self._tokens(size)
        before = root if layout == "prefix" else 0
        # The whole row sees the root; the first branch ends where the second begins.
        ends = (*(size,) * root, *(2 * root,) * root, *(size,) * root)
        # Read off the second branch, which must not see the token that changes.
        positions = tuple(range(2 * root - before, size - before))
        row = Row(
            ids=tokens[before:],
            depths=(*range(2 * root), *range(root, 2 * root))[before:],
            ends=tuple(end - before for end in ends[before:]),
            requests=(Request(item=0, choice=0, positions=positions, targets=tokens[-len(positions) :]),),
        )
        changed = self._with_other_token(row, root - before)
        with maskable(model):
            cache = self._forward.prefix_cache(model, tokens[:before])
            one, other = (
                self._forward.logits(model, tensors_of(Batch((each,))), layout=layout, cache=cache)
                for each in (row, changed)
            )
        return bool((one - other).abs().max() > LEAKAGE * one.abs().max())

    def is_non_causal(self, model: nn.Module) -> bool:
        """True if a later token changes the logits of an earlier position.

        The change counts if it is more than rounding, or more than half of the change that the token before the
        position makes: the logits of an untrained model hardly depend on its input.
        """
        if not self._ids:
            return False
        position = 6
        tokens = self._tokens(position + 2)
        size = len(tokens)
        row = Row(
            ids=tokens,
            depths=tuple(range(size)),
            ends=(size,) * size,
            requests=(Request(item=0, choice=0, positions=(position,), targets=tokens[-1:]),),
        )
        later, earlier = self._with_other_token(row, position + 1), self._with_other_token(row, position - 1)
        one, after_later, after_earlier = (
            self._forward.logits(model, tensors_of(Batch((each,))), layout="rows").float()
            for each in (row, later, earlier)
        )
        much = 2 * (one - after_later).abs().max() > (one - after_earlier).abs().max()
        # Logits that are not finite are refused where they are read, with a better reason.
        return bool(torch.isfinite(one).all()) and (
            bool(much) or not torch.allclose(one, after_later, atol=1e-2, rtol=1e-2)
        )

    def _tokens(self, size: int) -> Ids:
        return tuple(self._ids[number % len(self._ids)] for number in range(size))

    def _with_other_token(self, row: Row, position: int) -> Row:
        other = (row.ids[position] + 1) % self._forward.vocabulary
        return replace(row, ids=(*row.ids[:position], other, *row.ids[position + 1 :]))

    def _single_rows(
        self, model: nn.Module, keys: Sequence[str], encoded: Sequence[Encoded], token_budget: int
    ) -> list[NDArray[np.float64]]:
        """Log-likelihoods of the choices in single rows, nats, float64 [choices] by item."""
        batches = plan(keys, encoded, token_budget=token_budget, layout="rows")
        read = self._forward.score(model, batches, encoded, layout="rows")
        return [read[index].logprobs for index in range(len(encoded))]

    def _sample(self, scores: Mapping[int, Scores], batches: Sequence[Batch]) -> list[int]:
        """Items deepest in shared rows, the longest item, and others; the same ones in any order of the items."""
        ordered = sorted(scores, key=lambda index: self._keys[index])
        encoded = self._encoded
        size = {index: len(encoded[index].context) + max(map(len, encoded[index].choices)) for index in ordered}
        tokens = sum(len(row.ids) for batch in batches for row in batch.rows)
        longest = max(ordered, key=lambda index: size[index], default=None)
        if longest is None:
            return []
        # Two choices of each item are read again, in rows of their own.
        affordable = int(COST * tokens / (2 * size[longest]))
        count = min(max(FEWEST, affordable), MOST, len(ordered))
        spread = [ordered[number * len(ordered) // count] for number in range(count)]
        # Without repetition, the most telling items first: the last are dropped.
        return list(dict.fromkeys([*_deepest(batches), longest, *spread]))[: max(count, FEWEST)]


def _deepest(batches: Sequence[Batch]) -> dict[int, int]:
    """Item and choice of the requests where shared rows go wrong first.

    They are the one at the highest position of its row, the one whose position differs most from its depth, and the
    ones at the highest position with and without a prefix.
    """
    requests = [
        (len(batch.prefix) + request.positions[-1], row.depths[request.positions[-1]], bool(batch.prefix), request)
        for batch in batches
        for row in batch.rows
        for request in row.requests
    ]
    if not requests:
        return {}
    last = max(requests, key=lambda one: one[0])
    shifted = max(requests, key=lambda one: one[0] - one[1])
    parts = [[one for one in requests if one[2] is kind] for kind in (True, False)]
    furthest = [max(part, key=lambda one: one[0]) for part in parts if part]
    return {request.item: request.choice for _, _, _, request in (last, shifted, *furthest)}


def _with_choices(encoded: Encoded, choices: Sequence[int]) -> Encoded:
    return replace(
        encoded,
        choices=tuple(encoded.choices[choice] for choice in choices),
        texts=tuple(encoded.texts[choice] for choice in choices),
        spellings=((),) * len(choices),
    )


def _largest_difference(one: Sequence[NDArray[np.float64]], other: Sequence[NDArray[np.float64]]) -> float:
    return max((float(np.abs(a - b).max()) for a, b in zip(one, other, strict=True)), default=0.0)


def _likeliest(encoded: Encoded, scores: Scores, norm: Norm, also: int | None) -> tuple[int, ...]:
    """Choices with the highest and the second highest score, and one more that is to be tested."""
    k = np.array([len(scores.logprobs)])
    values = choices.normalise(scores.logprobs, k, norm=_without_priors(norm), lengths=lengths(encoded))
    found = choices.ranking(values)[:2].tolist()
    return tuple(dict.fromkeys([*found, *([] if also is None else [also])]))


def _margin_change(encoded: Encoded, one: NDArray[np.float64], other: NDArray[np.float64], norm: Norm) -> float:
    """Change of the margin between the first two choices, nats; 0 if there is one choice."""
    if len(one) < 2:
        return 0.0
    unit = {name: values[:2] for name, values in lengths(encoded).items()}
    first, second = (decide(x[:2], lengths=unit, norm=_without_priors(norm), answers=[0]) for x in (one, other))
    # Another choice won: the margin went through zero.
    sign = 1.0 if first.chosen == second.chosen else -1.0
    return abs(first.margin - sign * second.margin)


def _without_priors(norm: Norm) -> Norm:
    """Norm by which choices are compared here: without priors, which have rows of their own that are not read again."""
    return "sum" if norm == "unconditional" else norm
