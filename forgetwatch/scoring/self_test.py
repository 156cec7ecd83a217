"""Do shared rows give what single rows give, on this model? Measured, not looked up.

A few choices are scored again, each in a row of its own. That also measures how far a margin moves by numerical noise
alone, and so which items are too close to call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import nn

from forgetwatch.probe import Norm
from forgetwatch.scoring.encoding import Encoded
from forgetwatch.scoring.forward import Reader, Scores
from forgetwatch.scoring.model import is_exact
from forgetwatch.scoring.outcomes import decide, lengths
from forgetwatch.scoring.plan import Batch, Request, Row, plan
from forgetwatch.scoring.tensors import tensors_of

FEWEST: Final = 3
MOST: Final = 16
"""Items that are scored again, at least and at most; two or three choices of each."""

COST: Final = 0.05
"""Share of the tokens of a look that scoring again may take, beyond the fewest items."""

TOLERANCE: Final = 1e-3
"""Nats by which a log-likelihood may differ in fp32."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Scores of a few items, against the same choices in rows of their own.

    Attributes:
        difference: Largest difference of a log-likelihood, nats.
        tolerance: The largest that is numerical noise.
        noise: Largest change of a margin, nats.
    """

    difference: float
    tolerance: float
    noise: float

    @property
    def holds(self) -> bool:
        """Whether the two ways agree."""
        return self.difference <= self.tolerance


def agreement(
    reader: Reader,
    model: nn.Module,
    keys: Sequence[str],
    encoded: Sequence[Encoded],
    scores: dict[int, Scores],
    batches: Sequence[Batch],
    *,
    norm: Norm,
    vocabulary: int,
    token_budget: int,
) -> Agreement:
    """Score a few choices of a few items again: those deepest in shared rows, the longest item, others spread over all.

    Args:
        reader: Reads the model.
        model: The model, in evaluation mode; call inside `isolated`.
        keys: The items' content hashes.
        encoded: Their token ids.
        scores: What is to be tested.
        batches: How it was made.
        norm: The unit of the score that decides.
        vocabulary: Size of the model's vocabulary.
        token_budget: Tokens of a batch: the test needs no more memory than what it tests.
    """
    chosen = _sample(encoded, scores, batches)
    deep = _deepest(batches)
    pairs = [_likeliest(encoded[index], scores[index], norm, deep.get(index)) for index in chosen]
    alone = [
        replace(
            encoded[index],
            choices=tuple(encoded[index].choices[choice] for choice in pair),
            texts=tuple(encoded[index].texts[choice] for choice in pair),
            spellings=((),) * len(pair),
        )
        for index, pair in zip(chosen, pairs, strict=True)
    ]
    again = _read_rows(reader, model, [keys[index] for index in chosen], alone, vocabulary, token_budget)
    one = [scores[index].logprobs[list(pair)] for index, pair in zip(chosen, pairs, strict=True)]
    difference = max((float(np.abs(a - b).max()) for a, b in zip(one, again, strict=True)), default=0.0)
    noise = max((_margin_change(alone[n], a, again[n], norm) for n, a in enumerate(one)), default=0.0)
    tolerance = TOLERANCE
    if not is_exact(model):
        apart = _read_rows(reader, model, [keys[index] for index in chosen], alone, vocabulary, 1)
        rows = max((float(np.abs(a - b).max()) for a, b in zip(again, apart, strict=True)), default=0.0)
        longest = max((len(ids) for one in alone for ids in one.choices), default=1)
        # Each token's log-probability is rounded on its own way through the layers.
        tolerance = max(3 * rows, _ROUNDING * math.sqrt(longest))
    return Agreement(difference=difference, tolerance=tolerance, noise=noise)


_ROUNDING: Final = 0.02
"""Nats by which the log-probability of one token moves in bf16; a wrong mask moves most of them by more."""


def _read_rows(
    reader: Reader,
    model: nn.Module,
    keys: Sequence[str],
    encoded: Sequence[Encoded],
    vocabulary: int,
    token_budget: int,
) -> list[np.ndarray]:
    """Log-likelihoods of the choices in rows of their own, in batches of so many tokens."""
    batches = plan(keys, encoded, vocabulary=vocabulary, way="rows", token_budget=token_budget)
    read = reader.read(model, batches, encoded, way="rows")
    return [read[index].logprobs for index in range(len(encoded))]


def _sample(encoded: Sequence[Encoded], scores: dict[int, Scores], batches: Sequence[Batch]) -> list[int]:
    """The items deepest in shared rows, the longest, and others spread over all by their token ids."""
    ordered = sorted(scores, key=lambda index: (encoded[index].context, encoded[index].choices))
    size = {index: len(encoded[index].context) + max(map(len, encoded[index].choices)) for index in ordered}
    tokens = sum(len(row.ids) for batch in batches for row in batch)
    longest = max(ordered, key=lambda index: size[index], default=None)
    if longest is None:
        return []
    affordable = int(COST * tokens / (2 * size[longest]))
    count = min(max(FEWEST, affordable), MOST, len(ordered))
    spread = [ordered[at * len(ordered) // count] for at in range(count)]
    # Where shared rows go wrong first: far behind in a row, and far from where a row of one's own would put it.
    return list(dict.fromkeys([*_deepest(batches), longest, *spread]))[: max(count, FEWEST)]


def _deepest(batches: Sequence[Batch]) -> dict[int, int]:
    """Item and choice of the request that stands furthest from its own position, and of the one furthest behind."""
    requests = [(row, request) for batch in batches for row in batch for request in row.requests]
    if not requests:
        return {}
    shifted = max(requests, key=lambda one: one[1].places[-1] - one[0].depths[one[1].places[-1]])[1]
    behind = max(requests, key=lambda one: one[1].places[-1])[1]
    return {behind.item: behind.choice, shifted.item: shifted.choice}


def leak(reader: Reader, model: nn.Module, ids: Sequence[int], *, vocabulary: int) -> bool:
    """Whether a token of one branch is seen by another: are its logits changed when the token is?

    A tree of twelve tokens, twice, the second time with another token in its first branch. The second branch may not
    change by more than rounding (experts are sent other batches): what small weights hide today they may show tomorrow.
    """
    root, size = 4, 12
    tokens = tuple(ids[at % len(ids)] for at in range(size))
    places = tuple(range(2 * root, size))
    row = Row(
        ids=tokens,
        depths=(*range(2 * root), *range(root, 2 * root)),
        ends=(*(size,) * root, *(2 * root,) * root, *(size,) * root),
        requests=(Request(item=0, choice=0, places=places, targets=tokens[-len(places) :]),),
    )
    changed = replace(row, ids=(*tokens[:root], (tokens[root] + 1) % vocabulary, *tokens[root + 1 :]))
    one, other = (reader.logits(model, tensors_of((each,)), way="trie") for each in (row, changed))
    return bool((one - other).abs().max() > _LEAK * one.abs().max())


_LEAK: Final = 2e-5
"""Share of the largest logit by which rounding may move others."""


def reads_ahead(reader: Reader, model: nn.Module, ids: Sequence[int], *, vocabulary: int) -> bool:
    """Whether a later token changes what the model says of an earlier position: then it is no causal language model."""
    tokens, place = tuple(ids[at % len(ids)] for at in range(8)), 6
    row = Row(
        ids=tokens,
        depths=tuple(range(8)),
        ends=(8,) * 8,
        requests=(Request(item=0, choice=0, places=(place,), targets=tokens[-1:]),),
    )
    changed = replace(row, ids=(*tokens[:-1], (tokens[-1] + 1) % vocabulary))
    one, other = (reader.logits(model, tensors_of((each,)), way="rows").float() for each in (row, changed))
    # What is not finite is refused where it is read, with a better reason.
    return bool(torch.isfinite(one).all()) and not torch.allclose(one, other, atol=1e-2, rtol=1e-2)


def _likeliest(encoded: Encoded, scores: Scores, norm: Norm, also: int | None) -> tuple[int, ...]:
    """The choice with the highest score, the second, and one more that is to be tested."""
    unit = lengths(encoded)
    values = scores.logprobs / unit[norm] if norm in unit else scores.logprobs
    found = [int(choice) for choice in np.argsort(-values, kind="stable")[:2]]
    return tuple(dict.fromkeys([*found, *([] if also is None else [also])]))


def _margin_change(encoded: Encoded, one: np.ndarray, other: np.ndarray, norm: Norm) -> float:
    """How far the margin between the two moved."""
    if len(one) < 2:
        return 0.0
    unit = lengths(encoded)
    unit = {name: values[:2] for name, values in unit.items()}
    first, second = (decide(x[:2], lengths=unit, norm=norm, answers=[0]) for x in (one, other))
    sign = 1.0 if first.chosen == second.chosen else -1.0
    return abs(first.margin - sign * second.margin)
