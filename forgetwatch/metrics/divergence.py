"""Drift of a model from its base, on texts that the base generated: KL(base||now), and the overlap of the two.

    base generated "  Lima  .  <eos>"                 sampled once, at temperature 1, nothing cut off
    under base      -0.9  -0.1  -0.2                  stored with it
    under now       -1.6  -0.1  -0.3                  one teacher-forced look
    rise             0.7   0.0   0.1   nats           its mean over the base's tokens is KL(base||now) per token

It needs no answers, and can move before one flips. RL's Razor (Shenfeld et al. 2025, arXiv 2509.04259) finds that
this KL on the prompts of the new task ranks runs by what they forget; it is no calibration of how much.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.intervals import clustered_mean

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Drift:
    """KL(base||now) and overlap, estimated from completions that the base sampled; logarithms are natural.

    A standard error is nan for fewer than two completions, for equal ones, and next to an infinite KL.

    Attributes:
        completions: Number of completions with at least one token; empty ones are left out.
        tokens: Number of their tokens.
        kl_per_token: Mean rise of the negative log-likelihood over all tokens, nats per token. It estimates
            E[sum of the tokens' KL] / E[tokens], which is at least 0; the estimate may fall below by chance. inf if the
            model now rules out a token that the base generated.
        kl_per_token_se: Its standard error. Tokens of one completion count as one observation.
        overlap: Bhattacharyya coefficient BC of completions, mean of exp((log pi_now - log pi_base) / 2) over them. 1
            for equal models, 0 for models that generate nothing alike; the estimate may exceed 1 by chance. Longer
            completions overlap less: compare only looks at the same completions. For completions that were cut at a
            length it is an upper bound of the overlap of whole ones.
        overlap_se: Its standard error, from the sample. What is averaged has a variance of at most 1 - BC^2, since the
            mean of its square is E_base[pi_now/pi_base] <= 1: where a few completions weigh much, sqrt((1 - BC^2) / n)
            is the steadier error.
    """

    completions: int
    tokens: int
    kl_per_token: float
    kl_per_token_se: float
    overlap: float
    overlap_se: float


def drift(base: Sequence[Floats], now: Sequence[Floats]) -> Drift:
    """Estimate KL(base||now) per token in nats, and the overlap of completions; nan if no completion has a token.

    Assumes that the base sampled the completions from its own full distribution. Sources: Kullback and Leibler 1951,
    Bhattacharyya 1943. The usual reduction of variance, adding pi_now/pi_base - 1 to each rise, is not applied: it
    misses probability that moved to tokens which the base hardly ever generates, such as those of a new format.

    Args:
        base: Log-probability of each token under the base, nats, float64 [tokens] by completion; finite.
        now: The same tokens under the model now; -inf where it rules a token out.

    Raises:
        ValueError: If the two sides do not hold the same tokens, or a value cannot be a log-probability of them.

    >>> found = drift([np.log([0.5, 0.5]), np.log([0.5])], [np.log([0.5, 0.25]), np.log([0.5])])
    >>> round(found.kl_per_token, 3), round(found.overlap, 3)
    (0.231, 0.854)
    """
    _check(base, now)
    lengths = np.array([len(one) for one in base], np.int64)
    generated = np.flatnonzero(lengths)
    completion = np.repeat(np.arange(len(lengths)), lengths)
    change = np.concatenate([*now, np.empty(0)]) - np.concatenate([*base, np.empty(0)])
    of_completion = np.bincount(completion, weights=change, minlength=len(lengths))[generated]
    # Half the log ratio: sqrt(pi_now / pi_base), whose mean under the base is the Bhattacharyya coefficient.
    with np.errstate(over="ignore"):  # a ratio beyond all numbers is infinite
        ratios = np.exp(of_completion / 2)
    kl, kl_se = _mean(-change, completion)  # tokens of one completion are not independent
    overlap, overlap_se = _mean(ratios)
    return Drift(
        completions=len(generated),
        tokens=len(change),
        kl_per_token=kl,
        kl_per_token_se=kl_se,
        overlap=overlap,
        overlap_se=overlap_se,
    )


def _mean(values: Floats, cluster: NDArray[np.int64] | None = None) -> tuple[float, float]:
    """Mean and standard error; (inf, nan) if a value is infinite."""
    return clustered_mean(values, cluster) if np.isfinite(values).all() else (math.inf, math.nan)


def _check(base: Sequence[Floats], now: Sequence[Floats]) -> None:
    if len(base) != len(now):
        raise ValueError(
            f"needed both models' log-probabilities of the same completions, got {len(base)} and {len(now)}"
        )
    for number, (one, other) in enumerate(zip(base, now, strict=True)):
        if one.ndim != 1 or one.shape != other.shape:
            raise ValueError(
                f"completion {number}: needed one log-probability per token from both models, got arrays of shape "
                f"{one.shape} and {other.shape}"
            )
        if not np.isfinite(one).all():
            raise ValueError(
                f"completion {number}: the base cannot have sampled a token of log-probability {one.min()}"
            )
        if np.isnan(other).any() or np.isposinf(other).any():
            raise ValueError(f"completion {number}: the model now gives a token the log-probability {other.max()}")
