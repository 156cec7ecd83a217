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

from forgetwatch.metrics import choices
from forgetwatch.probe import Norm
from forgetwatch.scoring.encoding import Encoded
from forgetwatch.scoring.forward import Reader, Scores
from forgetwatch.scoring.layout import Batch, Layout, Request, Row, plan
from forgetwatch.scoring.model import is_exact
from forgetwatch.scoring.outcomes import decide, lengths
from forgetwatch.scoring.tensors import tensors_of

FEWEST: Final = 3
MOST: Final = 16
"""Items that are scored again, at least and at most; two or three choices of each."""

COST: Final = 0.05
"""Share of the tokens of a look that scoring again may take, beyond the fewest items."""

CAUTION: Final = 2.0
"""The largest change among thousands of margins, in those of the largest among a few."""

TOLERANCE: Final = 1e-3
"""Nats by which a log-likelihood may differ in fp32."""


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Scores of a few items, against the same choices in rows of their own.

    Attributes:
        difference: Largest difference of a log-likelihood, nats.
        tolerance: The largest that is numerical noise.
        noise: What no margin's change exceeds, nats, as far as a few items can tell.
    """

    difference: float
    tolerance: float
    noise: float

    @property
    def holds(self) -> bool:
        """Whether the two ways agree."""
        return self.difference <= self.tolerance


def check_parity(
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
) -> Parity:
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
    chosen = _sample(keys, encoded, scores, batches)
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
    noise = CAUTION * max((_margin_change(alone[n], a, again[n], norm) for n, a in enumerate(one)), default=0.0)
    tolerance = TOLERANCE
    if not is_exact(model):
        apart = _read_rows(reader, model, [keys[index] for index in chosen], alone, vocabulary, 1)
        rows = max((float(np.abs(a - b).max()) for a, b in zip(again, apart, strict=True)), default=0.0)
        longest = max((len(ids) for one in alone for ids in one.choices), default=1)
        # Each token's log-probability is rounded on its own way through the layers.
        tolerance = max(3 * rows, _ROUNDING * math.sqrt(longest))
    return Parity(difference=difference, tolerance=tolerance, noise=noise)


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
    batches = plan(keys, encoded, vocabulary=vocabulary, layout="rows", token_budget=token_budget)
    read = reader.read(model, batches, encoded, layout="rows")
    return [read[index].logprobs for index in range(len(encoded))]


def _sample(
    keys: Sequence[str], encoded: Sequence[Encoded], scores: dict[int, Scores], batches: Sequence[Batch]
) -> list[int]:
    """The items deepest in shared rows, the longest, and others, the same in any order of the items."""
    ordered = sorted(scores, key=lambda index: keys[index])
    size = {index: len(encoded[index].context) + max(map(len, encoded[index].choices)) for index in ordered}
    tokens = sum(len(row.ids) for batch in batches for row in batch.rows)
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
    requests = [
        (len(batch.prefix) + request.places[-1], row.depths[request.places[-1]], bool(batch.prefix), request)
        for batch in batches
        for row in batch.rows
        for request in row.requests
    ]
    if not requests:
        return {}
    behind = max(requests, key=lambda one: one[0])
    shifted = max(requests, key=lambda one: one[0] - one[1])
    # And the furthest behind a prefix, and behind none.
    parts = [[one for one in requests if one[2] is kind] for kind in (True, False)]
    furthest = [max(part, key=lambda one: one[0]) for part in parts if part]
    return {request.item: request.choice for _, _, _, request in (behind, shifted, *furthest)}


def has_mask_leakage(reader: Reader, model: nn.Module, ids: Sequence[int], *, layout: Layout, vocabulary: int) -> bool:
    """Whether a token of one branch is seen by another: are its logits changed when the token is?

    Four tokens and two branches of four, twice, the second time with another token in the first branch. The second
    branch may not change by more than rounding (experts are sent other batches): what small weights hide today they may
    show tomorrow. The first four stand in the row, or before it where prefixes do.
    """
    root, size = 4, 12
    tokens = tuple(ids[at % len(ids)] for at in range(size))
    before = root if layout == "prefix" else 0
    ends = (*(size,) * root, *(2 * root,) * root, *(size,) * root)
    places = tuple(range(2 * root - before, size - before))
    row = Row(
        ids=tokens[before:],
        depths=(*range(2 * root), *range(root, 2 * root))[before:],
        ends=tuple(end - before for end in ends[before:]),
        requests=(Request(item=0, choice=0, places=places, targets=tokens[-len(places) :]),),
    )
    first = root - before
    changed = replace(row, ids=(*row.ids[:first], (row.ids[first] + 1) % vocabulary, *row.ids[first + 1 :]))
    cache = reader.read_prefix(model, tokens[:before])
    one, other = (
        reader.logits(model, tensors_of(Batch((each,))), layout=layout, cache=cache) for each in (row, changed)
    )
    return bool((one - other).abs().max() > _LEAK * one.abs().max())


_LEAK: Final = 2e-5
"""Share of the largest logit by which rounding may move others."""


def is_non_causal(reader: Reader, model: nn.Module, ids: Sequence[int], *, vocabulary: int) -> bool:
    """Whether a later token changes what the model says of an earlier position: then it is no causal language model.

    By more than noise, or by half of what the token before changes: a model that is not trained yet says little.
    """
    tokens, place = tuple(ids[at % len(ids)] for at in range(8)), 6
    row = Row(
        ids=tokens,
        depths=tuple(range(8)),
        ends=(8,) * 8,
        requests=(Request(item=0, choice=0, places=(place,), targets=tokens[-1:]),),
    )
    later, earlier = (
        replace(row, ids=(*tokens[:at], (tokens[at] + 1) % vocabulary, *tokens[at + 1 :])) for at in (7, place - 1)
    )
    one, ahead, behind = (
        reader.logits(model, tensors_of(Batch((each,))), layout="rows").float() for each in (row, later, earlier)
    )
    much = 2 * (one - ahead).abs().max() > (one - behind).abs().max()
    # What is not finite is refused where it is read, with a better reason.
    return bool(torch.isfinite(one).all()) and (bool(much) or not torch.allclose(one, ahead, atol=1e-2, rtol=1e-2))


def _likeliest(encoded: Encoded, scores: Scores, norm: Norm, also: int | None) -> tuple[int, ...]:
    """The choice with the highest score, the second, and one more that is to be tested."""
    k = np.array([len(scores.logprobs)])
    values = choices.normalise(scores.logprobs, k, norm=_without_priors(norm), lengths=lengths(encoded))
    found = choices.ranking(values)[:2].tolist()
    return tuple(dict.fromkeys([*found, *([] if also is None else [also])]))


def _margin_change(encoded: Encoded, one: np.ndarray, other: np.ndarray, norm: Norm) -> float:
    """How far the margin between the two moved."""
    if len(one) < 2:
        return 0.0
    unit = {name: values[:2] for name, values in lengths(encoded).items()}
    first, second = (decide(x[:2], lengths=unit, norm=_without_priors(norm), answers=[0]) for x in (one, other))
    sign = 1.0 if first.chosen == second.chosen else -1.0
    return abs(first.margin - sign * second.margin)


def _without_priors(norm: Norm) -> Norm:
    """The norm by which choices are compared here: their priors are rows of their own, which are not scored again."""
    return "sum" if norm == "unconditional" else norm
