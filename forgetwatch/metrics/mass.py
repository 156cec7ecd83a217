"""Mass and conditional: the two parts of what an item's options lost or gained in probability, in nats.

    log p(gold)     =     log m                    +     log c
                          all options together           the right one among them

    m = sum_j exp(ll_j)        c_j = exp(ll_j) / m        ll_j: log-likelihood of option j

The split is exact, and so is that of every change. A model that goes elsewhere loses mass: none of
the options is what it would say now. A model that drifts keeps the mass and prefers another option.
The two need unlike remedies, and the choice among the options shows the second alone. With several
right options log c is the logarithm of their sum.

    mass KL           KL(Bern m || Bern m')                        all options against everything else
    conditional KL    KL(c || c') = sum_j c_j log(c_j / c'_j)      within the options
    weighted          m KL(c || c')

Mass KL and weighted conditional KL are the parts of KL(before || after) that the options show
(chain rule). The weighted ones say nothing where m is near 0: for options that are continuations of
a prompt m has a median of 6e-4 on real models, and 7e-17 in a log of long answers. Changes of log m
and log c are therefore plain means over the items.

The log-likelihoods are those of the options as they stand: no norm divides them and no temperature
calibrates them, unlike in `metrics.log_score`, which uses the scores that decide. If the sum
decides, the two agree on log c. They are not those of `option_mass` either, which counts other
spellings of a letter and leaves out nested options.

Source: Balasubramanian and Kasiviswanathan 2026, arXiv 2603.12163, for the two ways of forgetting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from forgetwatch.metrics.choices import OptionScores
from forgetwatch.metrics.log_score import Change, mean_change
from forgetwatch.metrics.transitions import Bools, Floats, Ints

_EXACT: Final = 1e-12
"""Change of a logarithm that is rounding of float64, nats."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MassSplit:
    """Mass and conditional of items before and after, nats. Arrays are float64 [rows], nan where not measured.

    Attributes:
        mass_before: log m before.
        mass_after: The same, after.
        conditional_before: log c of the right options before.
        conditional_after: The same, after.
        mass_kl: KL(Bern m || Bern m'); nan as well where the mass exceeds 1, or is 1 after and was
            not before.
        conditional_kl: KL(c || c').
    """

    mass_before: Floats
    mass_after: Floats
    conditional_before: Floats
    conditional_after: Floats

    @property
    def mass_change(self) -> Floats:
        """Change of log m, after minus before."""
        return _difference(self.mass_before, self.mass_after)

    @property
    def conditional_change(self) -> Floats:
        """Change of log c, after minus before."""
        return _difference(self.conditional_before, self.conditional_after)

    @property
    def measured(self) -> Bools:
        """Rows with both parts on both sides, bool [rows]."""
        return np.isfinite(self.mass_before)

    def take(self, rows: NDArray[Any]) -> MassSplit:
        """Split of some rows."""
        return MassSplit(**{name: values[rows] for name, values in vars(self).items()})


@dataclass(frozen=True, kw_only=True)
class MassChanges:
    """Means over the measured items of a group, nats an item, each with its standard error.

    Attributes:
        n: Number of measured items.
        mass: Change of log m.
        conditional: Change of log c.
        forgotten_n: Number of measured items that were forgotten.
        forgotten_mass: Change of log m over the forgotten items; None if none of them is measured.
        forgotten_conditional: Change of log c over the forgotten items; None likewise.
        mass_kl: KL(Bern m || Bern m'); None if no item has one.
        conditional_kl: KL(c || c').
        weighted_conditional_kl: m KL(c || c') over the items whose options are letters; None
            without such items.
    """

    n: float
    mass: Change
    conditional: Change
    forgotten_n: float
    forgotten_mass: Change | None
    forgotten_conditional: Change | None


def split(before: OptionScores, after: OptionScores) -> MassSplit | None:
    """Split the log-likelihoods of the options of each row.

    A row is measured if it has equally many options on both sides, all with finite log-likelihoods,
    of which at least one is right. The rows of both sides are the same items in the same order.

    >>> side = lambda *p: OptionScores(np.array([2]), np.log(p), np.array([True, False]), np.log(p))
    >>> found = split(side(0.03, 0.01), side(0.003, 0.001))
    >>> found.mass_change.round(4), abs(found.conditional_change).round(4)
    (array([-2.3026]), array([0.]))

    Returns:
        The split, or None if no row can be split on both sides.
    """
    measured = _finite(before) & _finite(after) & (before.k == after.k)
    if not measured.any():
        return None
    sides = [_side(side.take(measured)) for side in (before, after)]
    (mass, conditional), (mass_now, conditional_now) = sides

    def spread(values: Floats) -> Floats:
        """Return the values of the measured rows, nan for all others."""
        # nan for rows that are not measured.
        spread_values = np.full(len(measured), np.nan)
        spread_values[measured] = values
        return spread_values

    return MassSplit(
        mass_before=spread(mass),
        mass_after=spread(mass_now),
        conditional_before=spread(conditional),
        conditional_after=spread(conditional_now),
    )


def mass_changes(
    parts: MassSplit, *, forgotten: Bools, cluster: Ints | None = None, samples: int = 1
) -> MassChanges | None:
    """Mean changes over measured rows and over forgotten ones.

    `forgotten` are the rows right before and wrong after, `letters` those whose options are
    letters; bool [rows].

    Returns:
        The means, or None if no row is measured.
    """

    def mean(values: Floats, rows: Bools | None = None) -> Change | None:
        kept = np.isfinite(values) if rows is None else np.isfinite(values) & rows
        return (
            mean_change(values[kept], None if cluster is None else cluster[kept])
            if kept.any()
            else None
        )

    mass, conditional = mean(parts.mass_change), mean(parts.conditional_change)
    if mass is None or conditional is None:
        return None
    return MassChanges(
        n=float(parts.measured.sum()) / samples,
        mass=mass,
        conditional=conditional,
        forgotten_n=float((parts.measured & forgotten).sum()) / samples,
        forgotten_mass=mean(parts.mass_change, forgotten),
        forgotten_conditional=mean(parts.conditional_change, forgotten),
    )


def _difference(before: Floats, after: Floats) -> Floats:
    # 0 where the sums of exponentials differ by their own rounding alone.
    change = after - before
    return np.where(np.abs(change) < _EXACT, 0.0, change)


def _finite(options: OptionScores) -> Bools:
    # One of the options is right.
    is_finite = options.k > 0
    if options.logprobs is None:
        return np.zeros(len(is_finite), bool)
    row = np.repeat(np.arange(len(is_finite)), options.k)
    is_finite[row[~np.isfinite(options.logprobs)]] = False
    return is_finite & (np.bincount(row[options.golds], minlength=len(is_finite)) > 0)


def _side(options: OptionScores) -> tuple[Floats, Floats]:
    # Logarithms of m and of c of the right options.
    logprobs, golds = OptionScores(options.k, np.asarray(options.logprobs), options.golds).dense()
    mass = np.asarray(logsumexp(logprobs, axis=1))
    right = np.asarray(logsumexp(np.where(golds, logprobs, -np.inf), axis=1))
    return mass, right - mass
