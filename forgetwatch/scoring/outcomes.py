"""The outcome of one item from the log-likelihoods of its options. numpy only; the rule is `metrics.choices`.

A passage has no outcome: its log-likelihood is stored with the length of its text (`metrics.passages`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from forgetwatch.item import Item
from forgetwatch.metrics import choices
from forgetwatch.probe import Norm
from forgetwatch.scoring.encoding import Encoded


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The outcome of one item; see the columns of a snapshot."""

    chosen: int
    correct: bool
    gold_share: float
    margin: float


def lengths(encoded: Encoded, *, leading_space: bool = False) -> dict[str, NDArray[np.int64]]:
    """Length of each choice in characters, UTF-8 bytes and tokens, int64 [choices].

    Args:
        encoded: The item's choices.
        leading_space: Also count a leading space among characters and bytes, as in a passage, where it is text.
    """
    texts = [text if leading_space else text.removeprefix(" ") for text in encoded.texts]
    return {
        "chars": np.array([len(text) for text in texts]),
        "bytes": np.array([len(text.encode()) for text in texts]),
        "tokens": np.array([len(ids) for ids in encoded.choices]),
    }


def decide(
    logprobs: NDArray[np.float64],
    *,
    lengths: dict[str, NDArray[np.int64]],
    norm: Norm,
    answers: Sequence[Any],
    priors: NDArray[np.float64] | None = None,
) -> Decision:
    """The choice with the highest normalised log-likelihood, its margin and gold's share, by `metrics.choices`.

    Args:
        logprobs: Log-likelihood of each choice, nats [choices].
        lengths: Length of each choice by unit, as `lengths` gives them.
        norm: Norm of the score that decides, one of `metrics.choices.NORMS`.
        answers: Indices of the right choices.
        priors: Log-likelihood of each choice without the prompt, nats [choices]; for the norm ``unconditional``.

    >>> decision = decide(np.log([0.8, 0.2]), lengths={}, norm="sum", answers=[0])
    >>> decision.chosen, decision.correct, round(decision.gold_share, 6), round(decision.margin, 6)
    (0, True, 0.8, 1.386294)
    """
    k = np.array([len(logprobs)])
    scores = choices.normalise(logprobs, k, norm=norm, lengths=lengths, priors=priors)
    golds = np.zeros(len(logprobs), bool)
    golds[list(answers)] = True
    found = choices.decide(scores, k, golds)
    chosen = int(found.chosen[0])
    return Decision(
        chosen=chosen, correct=chosen in answers, gold_share=float(found.share[0]), margin=float(found.margin[0])
    )


def option_mass(logprobs: NDArray[np.float64], encoded: Encoded, spelled: float) -> float:
    """Total probability of the options at the answer position, 0 to 1.

    A choice that begins with another choice's tokens is already counted in it.

    Args:
        logprobs: Log-likelihood of each choice, nats [choices].
        encoded: The item's token ids.
        spelled: Probability of other spellings of the choices, together.
    """
    # By token ids: two choices with the same tokens are one continuation, and count once.
    counted = {
        ids: logprob
        for ids, logprob in zip(encoded.choices, logprobs, strict=True)
        if not any(other != ids and ids[: len(other)] == other for other in encoded.choices)
    }
    # Rounding may carry the sum above 1.
    return min(1.0, float(np.exp(logsumexp(list(counted.values())))) + spelled)


def is_free_correct(item: Item, encoded: Encoded, top: int) -> bool:
    """True if the most likely next token begins a right answer, in any of its spellings."""
    golds = map(int, item.answers)
    return any(top == encoded.choices[gold][0] or top in encoded.spellings[gold] for gold in golds)
