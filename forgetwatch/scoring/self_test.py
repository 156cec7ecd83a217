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
from torch import nn

from forgetwatch.probe import Norm
from forgetwatch.scoring.encoding import Encoded
from forgetwatch.scoring.forward import Reader, Scores
from forgetwatch.scoring.model import is_exact
from forgetwatch.scoring.outcomes import decide, lengths
from forgetwatch.scoring.plan import Batch, plan

FEWEST: Final = 3
MOST: Final = 16
"""Items that are scored again, at least and at most; two choices of each."""

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
) -> Agreement:
    """Score the two likeliest choices of a few items again: the longest items, and others spread over the probe.

    Args:
        reader: Reads the model.
        model: The model, in evaluation mode; call inside `isolated`.
        keys: The items' content hashes.
        encoded: Their token ids.
        scores: What is to be tested.
        batches: How it was made.
        norm: The unit of the score that decides.
        vocabulary: Size of the model's vocabulary.
    """
    chosen = _sample(encoded, scores, batches)
    pairs = [_likeliest(encoded[index], scores[index], norm) for index in chosen]
    alone = [
        replace(
            encoded[index],
            choices=tuple(encoded[index].choices[choice] for choice in pair),
            texts=tuple(encoded[index].texts[choice] for choice in pair),
            spellings=((),) * len(pair),
        )
        for index, pair in zip(chosen, pairs, strict=True)
    ]
    again = _read_rows(reader, model, [keys[index] for index in chosen], alone, vocabulary, together=True)
    one = [scores[index].logprobs[list(pair)] for index, pair in zip(chosen, pairs, strict=True)]
    difference = max((float(np.abs(a - b).max()) for a, b in zip(one, again, strict=True)), default=0.0)
    noise = max((_margin_change(alone[n], a, again[n], norm) for n, a in enumerate(one)), default=0.0)
    tolerance = TOLERANCE
    if not is_exact(model):
        apart = _read_rows(reader, model, [keys[index] for index in chosen], alone, vocabulary, together=False)
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
    *,
    together: bool,
) -> list[np.ndarray]:
    """Log-likelihoods of the choices in rows of their own, in batches or each alone."""
    budget = {} if together else {"token_budget": 1}
    batches = plan(keys, encoded, vocabulary=vocabulary, way="rows", **budget)
    read = reader.read(model, batches, encoded, way="rows")
    return [read[index].logprobs for index in range(len(encoded))]


def _sample(encoded: Sequence[Encoded], scores: dict[int, Scores], batches: Sequence[Batch]) -> list[int]:
    """The longest item, and others spread over all by their token ids."""
    ordered = sorted(scores, key=lambda index: encoded[index].context)
    size = {index: len(encoded[index].context) + max(map(len, encoded[index].choices)) for index in ordered}
    tokens = sum(len(row.ids) for batch in batches for row in batch)
    longest = max(ordered, key=lambda index: size[index], default=None)
    if longest is None:
        return []
    affordable = int(COST * tokens / (2 * size[longest]))
    count = min(max(FEWEST, affordable), MOST, len(ordered))
    spread = [ordered[at * len(ordered) // count] for at in range(count)]
    return list(dict.fromkeys([longest, *spread]))[:count]


def _likeliest(encoded: Encoded, scores: Scores, norm: Norm) -> tuple[int, ...]:
    """The choice with the highest score, and the second."""
    unit = lengths(encoded)
    values = scores.logprobs / unit[norm] if norm in unit else scores.logprobs
    return tuple(int(choice) for choice in np.argsort(-values, kind="stable")[:2])


def _margin_change(encoded: Encoded, one: np.ndarray, other: np.ndarray, norm: Norm) -> float:
    """How far the margin between the two moved."""
    if len(one) < 2:
        return 0.0
    unit = lengths(encoded)
    first, second = (decide(x, lengths=unit, norm=norm, answers=[0]) for x in (one, other))
    sign = 1.0 if first.chosen == second.chosen else -1.0
    return abs(first.margin - sign * second.margin)
