"""Drift of a model from its base, on texts that the base generated: KL(base||now), and the overlap of the two.

    base generated "  Lima  .  <eos>"                 sampled once, at temperature 1, nothing cut off
    under base      -0.9  -0.1  -0.2                  stored with it
    under now       -1.6  -0.1  -0.3                  one teacher-forced look
    rise             0.7   0.0   0.1   nats           its mean over the base's tokens is KL(base||now) per token

At the first token it also shows whether the model still begins as the base would (`first_tokens`).

It needs no answers, and can move before one flips. RL's Razor (Shenfeld et al. 2025, arXiv
2509.04259) finds that this KL on the prompts of the new task ranks runs by what they forget; it is
no calibration of how much.

Two estimates of it:

    sampled   the rise on the sampled token                           unbiased, noisy, may fall below 0
    summed    over the base's likeliest tokens, the rest as one       a lower bound at each position, far less noisy
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import logsumexp

from forgetwatch.metrics.intervals import clustered_mean
from forgetwatch.metrics.transitions import Floats, Ints

TAIL: Final = 2.0**-22
"""Least probability of the bucket of all other tokens: two units of rounding of a sum of 1 in fp32."""

FORCED: Final = 0.1
"""Nats of entropy below which the base hardly chooses a token."""

ROUNDING: Final = 1e-3
"""Nats by which rounding may lift a log-probability above 0."""


NOT_ALWAYS: Final = ("kl_summed", "first_", "kl_first")
"""Beginnings of the names in `Drift` that not every run can measure."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """KL(base||now) and overlap, estimated from completions that the base sampled; logarithms are natural.

    A standard error is nan for fewer than two completions, for equal ones, and next to an infinite
    KL.

    Attributes:
        completions: Number of completions with at least one token; empty ones are left out.
        tokens: Number of their tokens.
        kl_sampled: Mean rise of the negative log-likelihood over all tokens, nats per token. It
            estimates E[sum of the tokens' KL] / E[tokens], which is at least 0; the estimate may
            fall below by chance. inf if the model now rules out a token that the base generated.
        kl_sampled_se: Its standard error. Tokens of one completion count as one observation.
        overlap: Bhattacharyya coefficient BC of completions, mean of exp((log pi_now - log pi_base)
            / 2) over them. 1 for equal models, 0 for models that generate nothing alike; the
            estimate may exceed 1 by chance. Longer completions overlap less: compare only looks at
            the same completions. For completions that were cut at a length it is an upper bound of
            the overlap of whole ones.
        overlap_se: Its standard error, from the sample. What is averaged has a variance of at most
            1 - BC^2, since the mean of its square is E_base[pi_now/pi_base] <= 1: where a few
            completions weigh much, sqrt((1 - BC^2) / n) is the steadier error.
        kl_summed: Mean of `bucketed_kl` over the positions of all tokens, nats per token: at least
            0, and a lower bound of the KL at each position. None if the base's likeliest tokens are
            not known; inf as `kl_sampled`.
        kl_summed_se: Its standard error, clustered in the same way; None next to None.
        first_token_kept: Probability of the base's likeliest first tokens that base and model have
            in common, as a share of the base's, mean over completions: 1 for equal models, near 0
            where answers begin in another form. See `first_tokens`. None if the likeliest tokens
            are not known, nan if no completion has a free first token.
        first_token_kept_se: Its standard error.
        kl_first_share: Share of `kl_summed` that is at these first tokens, over all completions;
            nan without drift. One over the mean length is an even drift; several times as much is
            another beginning.
    """

    completions: int
    tokens: int
    kl_sampled: float
    kl_sampled_se: float
    overlap: float
    overlap_se: float
    kl_summed: float | None = None
    kl_summed_se: float | None = None
    first_token_kept: float | None = None
    first_token_kept_se: float | None = None
    kl_first_share: float | None = None


def drift(
    base: Sequence[Floats],
    now: Sequence[Floats],
    *,
    summed: Sequence[Floats] | None = None,
    tops: Sequence[tuple[Floats, Floats]] | None = None,
) -> Drift:
    """Estimate KL(base||now) per token in nats, and the overlap.

    Assumes that the base sampled the completions from its own full distribution. Sources: Kullback
    and Leibler 1951, Bhattacharyya 1943. The usual reduction of variance, adding pi_now/pi_base - 1
    to each rise, is not applied: it misses probability that moved to tokens which the base hardly
    ever generates, such as those of a new format.

    Args:
        base: Log-probability of each token under the base, nats, float64 [tokens] by completion;
            finite.
        now: The same tokens under the model now; -inf where it rules a token out.
        summed: `bucketed_kl` at the position of each token, float64 [tokens] by completion; None if
            not known.
        tops: Log-probabilities of the base's likeliest tokens under the base and now, [tokens,
            likeliest] each, by completion; None if not known.

    Raises:
        ValueError: If the sides do not hold the same tokens, or a value cannot be a log-probability
            or KL of them.

    >>> found = drift([np.log([0.5, 0.5]), np.log([0.5])], [np.log([0.5, 0.25]), np.log([0.5])])
    >>> round(found.kl_sampled, 3), round(found.overlap, 3), found.kl_summed
    (0.231, 0.854, None)
    """
    _check(base, now)
    lengths = np.array([len(positions) for positions in base], np.int64)
    generated = np.flatnonzero(lengths)
    completion = np.repeat(np.arange(len(lengths)), lengths)
    change = np.concatenate([*now, np.empty(0)]) - np.concatenate([*base, np.empty(0)])
    of_completion = np.bincount(completion, weights=change, minlength=len(lengths))[generated]
    # Half the log ratio: sqrt(pi_now / pi_base), whose mean under the base is the Bhattacharyya
    # coefficient.
    with np.errstate(over="ignore"):  # a ratio beyond all numbers is infinite
        ratios = np.exp(of_completion / 2)
    kl, kl_se = _mean(-change, completion)  # tokens of one completion are not independent
    kl_summed, kl_summed_se = _mean_of_positions(summed, completion, lengths)
    overlap, overlap_se = _mean(ratios)
    first_kept, first_se, share = (None, None, None) if tops is None else _first(tops, summed)
    return Drift(
        completions=len(generated),
        tokens=len(change),
        kl_sampled=kl,
        kl_sampled_se=kl_se,
        overlap=overlap,
        overlap_se=overlap_se,
        kl_summed=kl_summed,
        kl_summed_se=kl_summed_se,
        first_token_kept=first_kept,
        first_token_kept_se=first_se,
        kl_first_share=share,
    )


def first_tokens(tops: Sequence[tuple[Floats, Floats]]) -> tuple[Ints, Floats]:
    """Find the first free token of each completion.

    A token is free if the base's entropy there is at least `FORCED` nats: tags and prefixes that it
    always writes say nothing. The position is -1, and the share nan, where a completion has none.

    The share is the sum over these tokens of the smaller of both probabilities, over that under the
    base. It is exact where a new form takes over and the old answers stay as they were. It errs
    downwards: a word as good as the base's counts as lost. The plain sum of the probabilities now,
    without the smaller of both, stays high where the new form begins with a token that the base had
    among its likeliest. Derived here; tried on one model (benchmarks/real_model/why_results.md).

    >>> position, kept = first_tokens([(np.log([[0.5, 0.25]]), np.log([[0.25, 0.125]]))])
    >>> position.tolist(), kept.round(3).tolist()
    ([0], [0.5])

    Args:
        tops: Log-probabilities of the base's likeliest tokens under the base and now, nats [tokens,
            likeliest] each.

    Returns:
        The position, and what is kept of the base's likeliest tokens there.
    """
    positions, kept = np.full(len(tops), -1), np.full(len(tops), np.nan)
    for number, (base, now) in enumerate(tops):
        with_tail = np.concatenate([base, _log_tail(base)], axis=1) if len(base) else base
        free = np.flatnonzero(
            -(np.exp(with_tail) * np.maximum(with_tail, math.log(TAIL))).sum(axis=1) >= FORCED
        )
        if len(free):
            at = positions[number] = int(free[0])
            kept[number] = np.exp(np.minimum(base[at], now[at])).sum() / np.exp(base[at]).sum()
    return positions, kept


def _first(
    tops: Sequence[tuple[Floats, Floats]], summed: Sequence[Floats] | None
) -> tuple[float, float, float | None]:
    # What is kept of the first free tokens, its standard error, and their share of the KL.
    positions, kept = first_tokens(tops)
    mean, error = _mean(kept[positions >= 0]) if (positions >= 0).any() else (math.nan, math.nan)
    if summed is None:
        return mean, error, None
    pairs = [(values, at) for values, at in zip(summed, positions, strict=True) if at >= 0]
    total = sum(float(values.sum()) for values, _ in pairs)
    at_first = sum(float(values[at]) for values, at in pairs)
    return mean, error, at_first / total if 0 < total < math.inf else math.nan


def bucketed_kl(base: Floats, now: Floats) -> Floats:
    """KL over some tokens and a bucket of all others.

    Nats, float64 [positions].

    A lower bound of the KL over all tokens, by the log-sum inequality (Kullback and Leibler 1951);
    equal to it if the tokens are all there are, or the others keep their shares of the rest. At
    least 0; 0 for equal sides; inf where now rules out a token that the base does not.

    Computed as the sum of p log(p/q) - p + q over the buckets: the same, since each side's buckets
    add up to 1, and no term is negative. A bucket below `TAIL` counts as `TAIL` on both sides,
    which can only lower the result: it is what rounding leaves of 1 minus a sum of probabilities in
    fp32.

    Args:
        base: Log-probabilities of the base's likeliest tokens, nats [positions, tokens].
        now: Those of the same tokens under the model now; -inf where it rules a token out.

    Raises:
        ValueError: If the shapes differ, or a value is no log-probability.

    >>> bucketed_kl(np.log([[0.5, 0.25]]), np.log([[0.25, 0.25]])).round(4)  # 0.5 log 2 + 0.25 log(0.25 / 0.5)
    array([0.1733])
    """
    if base.shape != now.shape or base.ndim != 2:
        raise ValueError(
            "needed log-probabilities [positions, tokens] of the same tokens from both models, "
            f"got arrays of shape {base.shape} and {now.shape}"
        )
    highest = np.maximum(base.max(initial=-np.inf), now.max(initial=-np.inf))  # nan if there is one
    if not highest <= ROUNDING:
        raise ValueError(f"needed log-probabilities of at most 0, got {highest}")
    with_base, with_now = (
        np.concatenate([values, _log_tail(values)], axis=1) for values in (base, now)
    )
    p, q = np.exp(with_base), np.exp(with_now)
    # A token that the base rules out has p log(p/q) = 0, whatever now gives it.
    possible = with_base > -np.inf
    rise = np.subtract(with_base, with_now, out=np.zeros_like(with_base), where=possible)
    terms = np.multiply(p, rise, out=np.zeros_like(with_base), where=possible & (p > 0)) - p + q
    total: Floats = np.maximum(terms, 0.0).sum(axis=1)  # a term is below 0 by rounding only
    return total


def _log_tail(logprobs: Floats) -> Floats:
    # The value is at least `TAIL`, float64 [positions, 1].
    total = (
        logsumexp(logprobs, axis=1, keepdims=True)
        if logprobs.size
        else np.full((len(logprobs), 1), -np.inf)
    )
    # log1p keeps a small rest that 1 - sum would lose; a sum of 1 or more by rounding leaves none.
    with np.errstate(divide="ignore"):
        left = np.log1p(-np.exp(np.minimum(total, 0.0)))
    tail: Floats = np.maximum(left, math.log(TAIL))
    return tail


def _mean_of_positions(
    values: Sequence[Floats] | None, completion: Ints, lengths: Ints
) -> tuple[float, float] | tuple[None, None]:
    # Clustered by completion; (None, None) without values.
    if values is None:
        return None, None
    if [len(value) for value in values] != lengths.tolist():
        raise ValueError(
            f"needed a KL at each of {lengths.sum()} tokens, got {sum(map(len, values))}"
        )
    flat = np.concatenate([*values, np.empty(0)])
    if np.isnan(flat).any() or (flat < 0).any():
        raise ValueError(f"needed a KL of at least 0 at each position, got {flat.min()}")
    return _mean(flat, completion)


def _mean(values: Floats, cluster: Ints | None = None) -> tuple[float, float]:
    # (inf, nan) if a value is infinite.
    return clustered_mean(values, cluster) if np.isfinite(values).all() else (math.inf, math.nan)


def _check(base: Sequence[Floats], now: Sequence[Floats]) -> None:
    if len(base) != len(now):
        raise ValueError(
            f"needed both models' log-probabilities of the same completions, got {len(base)} "
            f"and {len(now)}"
        )
    for number, (of_base, of_now) in enumerate(zip(base, now, strict=True)):
        if of_base.ndim != 1 or of_base.shape != of_now.shape:
            raise ValueError(
                f"completion {number}: needed one log-probability per token from both models, "
                f"got arrays of shape {of_base.shape} and {of_now.shape}"
            )
        if not np.isfinite(of_base).all():
            raise ValueError(
                f"completion {number}: the base cannot have sampled a token of log-probability "
                f"{of_base.min()}"
            )
        if np.isnan(of_now).any() or np.isposinf(of_now).any():
            raise ValueError(
                f"completion {number}: the model now gives a token the log-probability "
                f"{of_now.max()}"
            )
