"""Changes of log-likelihood: the log score of options, and bits per byte of passages.

Log score: mean logarithm of the right option's share, in nats an item, and its change.

    L = mean log c_gold,   c = softmax of the item's scores          0 at best, log(1/k) for a uniform guess

    change        mean of the paired differences, after minus before

A model that only becomes surer, or less sure, of everything changes it too: no decision depends on
it.

Source: the logarithmic scoring rule (Good 1952), restricted to the options. The interval is
Student's t of the paired differences, with clusters as observations.

Bits per byte of passages: what a model can no longer predict.

    bits per byte   B = -sum of log p(token | all before it) / (ln 2 * bytes of the text), over all passages of a group
    change          B after - B before, over the same passages; above 0: the texts have become harder to predict

A passage is a text without a question: nothing is right or wrong, and nothing flips. Its
log-likelihood is divided by the bytes of its text and not by its tokens, so that the number does
not depend on the tokenizer: 8 is a model that knows nothing of bytes, and a small language model
reads English at about 1. A group is one text of all its passages: a long passage counts more than a
short one.

Source: bits per character (Shannon 1951), of bytes as in The Pile (Gao et al. 2020, arXiv
2101.00027). The interval is that of a difference of two ratios (delta method) with passages as
observations, or clusters of them, and Student's t with one degree of freedom less than there are:
it covers about 94 % at 60 passages and a point or two less at 10.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from forgetwatch.metrics.choices import OptionScores
from forgetwatch.metrics.intervals import NOTHING, Interval, cluster_codes, clustered_mean
from forgetwatch.metrics.transitions import Floats, Ints

FEWEST_SCORED: Final = 50
"""Scored items below which no change is given."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Change of a score from before to after, in its unit: nats an item for the log score.

    Attributes:
        mean: After minus before.
        error: Its standard error; 0 if no item changed, nan if it cannot be told.
        observations: Number of independent items, or clusters of them.
    """

    mean: float
    error: float
    observations: int

    @property
    def interval(self) -> Interval:
        """95 % interval, by Student's t.

        (nan, nan) without a standard error.
        """
        if math.isnan(self.error):
            return NOTHING
        half = float(special.stdtrit(self.observations - 1, 0.975)) * self.error
        return self.mean - half, self.mean + half


@dataclass(frozen=True, kw_only=True)
class LogScore:
    """Log score of some items before and after, nats an item.

    Attributes:
        n: Number of scored items.
        before: Mean log share of the right option before.
        after: The same, after.
        change: Change of the mean; None for fewer than `FEWEST_SCORED` items.
    """

    n: float
    before: float
    after: float
    change: Change | None = None


def log_score(
    before: OptionScores, after: OptionScores, *, cluster: Ints | None = None, samples: int = 1
) -> LogScore | None:
    """Log scores and their change.

    Returns:
        Over the rows with a finite score on both sides; None if there are none.
    """
    rows = np.isfinite(log_shares(before)) & np.isfinite(log_shares(after))
    if not rows.any():
        return None
    before, after = before.take(rows), after.take(rows)
    cluster = None if cluster is None else cluster[rows]
    at_start, now = log_shares(before), log_shares(after)
    n = float(rows.sum()) / samples
    change = mean_change(now - at_start, cluster) if n >= FEWEST_SCORED else None
    return LogScore(n=n, before=float(at_start.mean()), after=float(now.mean()), change=change)


def log_shares(options: OptionScores) -> Floats:
    """Log of the share of the right options, nats, float64 [rows].

    nan for a row without scores.

    >>> log_shares(OptionScores(np.array([2]), np.log([3.0, 1.0]), np.array([True, False]))).round(4)
    array([-0.2877])
    """
    scores, golds = options.dense()
    if not scores.size:
        return np.full(len(options.k), np.nan)
    of_all, of_golds = _log_sum(scores), _log_sum(np.where(golds, scores, -np.inf))
    with np.errstate(invalid="ignore"):  # a row of nothing but minus infinity has no share: nan
        return of_golds - of_all


def _log_sum(scores: Floats) -> Floats:
    # -inf for a row of nothing but minus infinity.
    best = _by_row(np.maximum, scores)
    best = np.where(np.isfinite(best), best, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(best + np.log(_by_row(np.add, np.exp(scores - best[:, None]))))


def _by_row(operation: np.ufunc, scores: Floats) -> Floats:
    # Numpy's own, along few options, takes ten times as long.
    first_column, *columns = scores.T
    reduced = np.array(first_column)
    for option in columns:
        operation(reduced, option, out=reduced)
    return reduced


def mean_change(differences: Floats, cluster: Ints | None = None) -> Change:
    """Mean of paired differences, with standard error.

    0 if nothing changed.
    """
    mean, error = clustered_mean(differences, cluster) if differences.any() else (0.0, 0.0)
    return Change(mean=mean, error=error, observations=_observations(len(differences), cluster))


def _observations(rows: int, cluster: Ints | None) -> int:
    return rows if cluster is None else int(cluster_codes(cluster).max()) + 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Passages:
    """Log-likelihoods of passages before and after. Arrays are [passages].

    Attributes:
        before: Log-likelihood of the text before, nats.
        after: The same, after.
        bytes_before: Length of the text that was scored before, in UTF-8 bytes.
        bytes_after: The same, after; it differs only where another tokenizer scores another part of
            the text.
    """

    before: Floats
    after: Floats
    bytes_before: Floats
    bytes_after: Floats
    cluster: Ints | None = None

    def __len__(self) -> int:
        return len(self.before)

    def take(self, rows: NDArray[Any]) -> Self:
        """Select some of the passages."""
        return replace(self, **{name: x[rows] for name, x in vars(self).items() if x is not None})


@dataclass(frozen=True, kw_only=True)
class BitsPerByte:
    """Bits per byte of a number of passages before and after, and after minus before with its error."""

    passages: int
    before: float
    after: float
    change: Change


def bits_per_byte(passages: Passages) -> BitsPerByte | None:
    """Bits per byte before and after, and the change.

    >>> text = np.array([-800.0, -400.0]), np.array([1000.0, 500.0])
    >>> found = bits_per_byte(Passages(before=text[0], after=text[0] - 10, bytes_before=text[1], bytes_after=text[1]))
    >>> round(found.before, 4), round(found.after, 4), round(found.change.mean, 4)
    (1.1542, 1.1734, 0.0192)

    Returns:
        The change, or None for no passages.
    """
    if not len(passages):
        return None
    sides = (passages.before, passages.bytes_before), (passages.after, passages.bytes_after)
    before, after = (rate(*side) for side in sides)
    # Delta method: values with mean 0, whose mean has the standard error of the rate of the texts.
    of_before, of_after = (
        (-logprobs / math.log(2) - value * length) / length.mean()
        for (logprobs, length), value in zip(sides, (before, after), strict=True)
    )
    same = all(
        np.array_equal(column_before, column_after)
        for column_before, column_after in zip(*sides, strict=True)
    )
    # Equal sides changed by exactly 0; of one observation, or of equal changes, nothing shows how
    # much they vary.
    error = 0.0 if same else clustered_mean(of_after - of_before, passages.cluster)[1]
    observations = _observations(len(passages), passages.cluster)
    change = Change(mean=after - before, error=error, observations=observations)
    return BitsPerByte(passages=len(passages), before=before, after=after, change=change)


def rate(logprobs: Floats, length: Floats) -> float:
    """Bits per byte of texts taken as one text.

    From log-likelihoods in nats and lengths in bytes; nan for no texts.
    """
    return float(-logprobs.sum() / math.log(2) / length.sum()) if len(length) else math.nan
