"""Choices from scores: the option that a model chooses, by how much, and which option comes second.

The score s_j of option j of an item follows from its log-likelihood ll_j, in nats, by the norm of
the probe or log:

    sum               s_j = ll_j
    chars             s_j = ll_j / length_j * mean length; in characters, without a leading space
    chars_with_space  the same, every length one more: a leading space counts (in lighteval)
    bytes, tokens     the same, lengths in bytes or tokens
    unconditional     s_j = ll_j - prior_j, the prior without the prompt

The choice is argmax s_j, the first of equals. The share of the right options is the sum of their
softmax(s). The factor `mean length` gives normalised scores the unit nats, so that shares and
margins of all norms can be compared.

Items have different numbers of options. The options of all items are therefore in one flat array,
item by item, and `k` [items] is the number of options of each:

    k        2           3
    scores   -1.0 -2.0   -4.0 -0.5 -3.0
    golds     yes   no     no   no  yes

Scoring, the readers of logs and the comparison all decide by these functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from forgetwatch.metrics.transitions import Bools, Floats, Ints

NO_CHOICE: Final = -1
"""Value for "no option" in arrays of option indices."""

UNITS: Final[Mapping[str, tuple[str, int]]] = {
    "chars": ("chars", 0),
    "chars_with_space": ("chars", 1),
    "bytes": ("bytes", 0),
    "tokens": ("tokens", 0),
}
"""Norms that divide by a length: the unit of the lengths, and the number added to each."""

NORMS: Final = ("sum", *UNITS, "unconditional")


@dataclass(frozen=True, kw_only=True, eq=False)
class Decisions:
    """Choices of some items, and how clear they are. All arrays [items].

    Attributes:
        chosen: Index of the option with the highest score, the first of equals; -1 where a score is
            nan or there is no option; int64.
        share: Share of the right options in the softmax of the scores, 0 to 1; nan where no option
            is right, nothing is chosen, or no score is finite.
        margin: Best minus second score, nats; nan for fewer than two finite scores.
        tied: The two best scores are equal; bool.
    """

    chosen: Ints
    share: Floats
    margin: Floats
    tied: Bools


@dataclass(frozen=True, eq=False)
class OptionScores:
    """Scores of the options of some items, in one flat array.

    Attributes:
        k: Number of scored options of each row; 0 where a row has no usable scores; int64 [rows].
        scores: The score that decides, nats; finite or minus infinity; float64 [options].
        golds: The right options, bool [options].
        logprobs: Log-likelihood of each option, nats, float64 [options]; None if only the scores
            are known.
        factors: Score of an option over its log-likelihood, mean length / length; nan in rows whose
            norm does not divide by a length; float64 [options]. None if no norm does, or only the
            scores are known.
    """

    k: Ints
    scores: Floats
    golds: Bools
    logprobs: Floats | None = None
    factors: Floats | None = None

    def take(self, rows: NDArray[Any]) -> OptionScores:
        """Select the scores of some rows."""
        index = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        k, starts = self.k[index], (np.cumsum(self.k) - self.k)[index]
        # 0, 1, ... within each row, without a loop over the rows.
        cells = np.repeat(starts - (np.cumsum(k) - k), k) + np.arange(int(k.sum()))
        return OptionScores(
            k,
            self.scores[cells],
            self.golds[cells],
            None if self.logprobs is None else self.logprobs[cells],
            None if self.factors is None else self.factors[cells],
        )

    def without(self, rows: Bools) -> OptionScores:
        """Drop the scores of some rows, bool [rows]."""
        kept, cells = np.where(rows, 0, self.k), ~np.repeat(rows, self.k)
        logprobs, factors = (None if x is None else x[cells] for x in (self.logprobs, self.factors))
        return OptionScores(kept, self.scores[cells], self.golds[cells], logprobs, factors)

    @property
    def log_mass(self) -> Floats:
        """Log of the total probability of each row's options.

        Nats, float64 [rows]; nan if not known.
        """
        log_mass = np.full(len(self.k), np.nan)
        if self.logprobs is not None:
            for rows, cells in _blocks(self.k):
                log_mass[rows] = logsumexp(self.logprobs[cells], axis=1)
        return log_mass

    @property
    def by_length(self) -> Bools:
        """Are the scores of the row divided by a length, bool [rows]?"""
        is_by_length = np.zeros(len(self.k), bool)
        if self.factors is not None:
            for rows, cells in _blocks(self.k):
                is_by_length[rows] = ~np.isnan(self.factors[cells]).any(axis=1)
        return is_by_length

    @property
    def largest_wrong_share(self) -> Floats:
        """Largest share of a wrong option, float64 [rows].

        In the softmax of the row's scores; nan without scores.
        """
        scores, golds = self.dense()
        if not scores.size:
            return np.full(len(self.k), np.nan)
        with np.errstate(invalid="ignore"):  # a row of nothing but minus infinity has no share
            shares = softmax(scores, axis=1)
        return np.asarray(np.where(golds, 0.0, shares).max(axis=1))

    def dense(self) -> tuple[Floats, Bools]:
        """Scores and right options as arrays [rows, most options].

        -inf where a row has no such option.
        """
        there = np.arange(int(self.k.max(initial=0))) < self.k[:, None]
        scores, golds = np.full(there.shape, -np.inf), np.zeros(there.shape, bool)
        scores[there], golds[there] = self.scores, self.golds
        return scores, golds


def normalise(
    logprobs: Floats,
    k: Ints,
    *,
    norm: str,
    lengths: Mapping[str, NDArray[np.generic]] | None = None,
    priors: Floats | None = None,
) -> Floats:
    """Normalise the score of each option, nats, float64 [options].

    Args:
        logprobs: Log-likelihood of each option, nats [options].
        k: Number of options of each item [items].
        norm: One of `NORMS`.
        lengths: Length of each option by unit [options]; the norm's unit is needed.
        priors: Log-likelihood of each option without its prompt, nats [options]; needed for
            ``unconditional``.

    Raises:
        ValueError: If the norm is unknown, or what it needs is not given.

    >>> normalise(np.array([-2.0, -3.0]), np.array([2]), norm="chars", lengths={"chars": np.array([1, 3])})
    array([-4., -2.])
    """
    if norm not in NORMS:
        raise ValueError(f"unknown norm {norm!r}; needed one of {', '.join(NORMS)}")
    if norm == "sum":
        return logprobs
    if norm == "unconditional":
        if priors is None:
            raise ValueError(
                "the norm 'unconditional' needs the options' log-likelihoods without the prompt"
            )
        with np.errstate(invalid="ignore"):  # both may be minus infinity
            return np.asarray(logprobs - priors)
    unit, extra = UNITS[norm]
    if lengths is None or unit not in lengths:
        raise ValueError(f"the norm {norm!r} needs the options' lengths in {unit}")
    length = np.asarray(lengths[unit], np.float64) + extra
    scores = np.empty(len(logprobs), np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):  # an empty option has length 0
        for _, cells in _blocks(k):
            block = length[cells]
            # Times the mean length: in nats again, and the order of an item's options is the same.
            scores[cells] = logprobs[cells] / block * block.mean(axis=1, keepdims=True)
    return scores


def decide(scores: Floats, k: Ints, golds: Bools) -> Decisions:
    """Find the choice of each item, and how clear the choice is.

    Args:
        scores: The score that decides, nats [options].
        k: Number of options of each item [items].
        golds: The right options, bool [options]; all False for an item whose right option is
            unknown.

    >>> found = decide(np.log([0.8, 0.2, 0.5, 0.1, 0.4]), np.array([2, 3]), np.array([1, 0, 0, 1, 1], bool))
    >>> found.chosen, found.share.round(3), found.margin.round(3)
    (array([0, 0]), array([0.8, 0.5]), array([1.386, 0.223]))
    """
    items = len(k)
    chosen, tied = np.full(items, NO_CHOICE), np.zeros(items, bool)
    share, margin = np.full(items, np.nan), np.full(items, np.nan)
    for rows, cells in _blocks(k):
        block, gold = scores[cells], golds[cells]
        usable = ~np.isnan(block).any(axis=1)
        chosen[rows] = np.where(usable, np.argmax(block, axis=1), NO_CHOICE)
        if block.shape[1] > 1:
            ordered = np.sort(block, axis=1)  # nan sorts last, and `usable` leaves those rows out
            clear = usable & np.isfinite(ordered[:, -2])
            margin[rows[clear]] = ordered[clear, -1] - ordered[clear, -2]
            tied[rows] = usable & (ordered[:, -1] == ordered[:, -2])
        # Softmax of infinities alone is nan, with a warning.
        shared = usable & gold.any(axis=1) & np.isfinite(block.max(axis=1))
        # Rounding may carry a sum over several right options above 1.
        share[rows[shared]] = np.minimum(
            (softmax(block[shared], axis=1) * gold[shared]).sum(axis=1), 1.0
        )
    return Decisions(chosen=chosen, share=share, margin=margin, tied=tied)


def right_at_constant_mass(before: OptionScores, after: OptionScores, right: Bools) -> Bools:
    """Right answers, had the options kept their total probability.

    Bool [rows].

    Where the score that decides is divided by a length, a model that gives all options e times the
    probability raises the scores of long options less than those of short ones, and its answer may
    change although no option has become likelier than another. The log-likelihoods after are
    shifted by log m - log m', m the total probability before and m' after, and decided again. An
    answer whose choice does not change stays as it was logged, as do those of rows without
    log-likelihoods on both sides, or whose norm does not divide by a length.

    Args:
        before: Options before.
        after: Options after, of the same items.
        right: Right after [rows].
    """
    with np.errstate(invalid="ignore"):  # a mass of 0 on both sides
        shift = before.log_mass - after.log_mass
    shifted = after.by_length & np.isfinite(shift)
    if after.factors is None or not shifted.any():
        return right
    # An empty option has an infinite factor; its item has a nan then, and is left as it was.
    with np.errstate(invalid="ignore"):
        scores = after.scores + np.repeat(np.where(shifted, shift, 0.0), after.k) * after.factors
    chosen, moved = (decide(x, after.k, after.golds).chosen for x in (after.scores, scores))
    changed = np.flatnonzero(
        shifted & (moved != chosen) & (moved != NO_CHOICE) & (chosen != NO_CHOICE)
    )
    is_right = right.copy()
    is_right[changed] = after.golds[(np.cumsum(after.k) - after.k)[changed] + moved[changed]]
    return is_right


def ranking(scores: Floats) -> Ints:
    """Rank an item's options by falling score, int64 [k].

    Of equal scores the first comes first.
    """
    return np.argsort(-scores, kind="stable")


def option_mask(k: Ints, items: Ints, options: Ints) -> Bools:
    """Mask the named options of the named items, bool [options].

    An index outside an item's options marks none.

    >>> option_mask(np.array([2, 3]), np.array([0, 1, 1]), np.array([1, 0, 5]))
    array([False,  True,  True, False, False])
    """
    mask = np.zeros(int(k.sum()), bool)
    # Indices come from files, so they may lie outside; they must not reach into the next item's
    # options.
    inside = (options >= 0) & (options < k[items])
    mask[(np.cumsum(k) - k)[items[inside]] + options[inside]] = True
    return mask


def _blocks(k: Ints) -> Iterator[tuple[Ints, Ints]]:
    # Each number of options gives the items [n], and where their options are in the flat array [n,
    # options].
    starts = np.cumsum(k) - k
    # One dense block for each number of options: a row sums in the same order as an item alone, to
    # the last bit.
    for options in np.unique(k).tolist():
        if options:
            rows = np.flatnonzero(k == options)
            yield rows, starts[rows][:, None] + np.arange(options)
