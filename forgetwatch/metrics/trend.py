"""Slopes of an outcome over covariates of pairs of models, with the model family as the unit.

    outcome = intercept + slope · covariate (+ slopes of the others) + error;      errors of one family go together

Pairs of one family share a base, data and recipes, so that ten pairs of two families are hardly more than two
observations. The error is the cluster-robust one with the correction of Bell and McCaffrey (2002), CR2, and the degrees
of freedom are Satterthwaite's for it (Pustejovsky and Tipton 2018). With few families these fall to one or two, and the
interval becomes as wide as it must. Families of one pair each give the robust error of unlike variances, HC2.

Two kinds of study have no interval, since theirs would be too narrow by far: one with no more families than columns,
and one in which a covariate varies by one family alone, such as the only one that was trained in another way. The
residuals of that family are 0 or cancel, and the error is then that of the others.

**Separation.** Does a column separate what was lost from what was kept, within strata? The stratified Mann-Whitney
test.

    stratum     kept, column      lost, column         U: pairs in which the lost one is higher
    History     0.1  0.4          0.3  0.9             3 of 4
    Trade       0.2               0.1                  0 of 1

    auc = sum of U / number of pairs = 3 / 5

Under the null each order within a stratum is as likely as any other. The sum of U is then nearly normal; its variance,
with ties, is known (Mann and Whitney 1947; over strata van Elteren 1960, with equal weights). A column that differs
between strata alone separates nothing.

Rows of one cluster, such as questions with one and the same right answer, are lost together. With clusters the variance
is that of the clusters' parts of the sum, and its degrees of freedom are their number less one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtr, stdtrit

from forgetwatch.metrics.intervals import Interval
from forgetwatch.metrics.transitions import Bools, Floats, Ints

_FEWEST: Final = 1.0
"""Degrees of freedom below which an interval says nothing."""

_SINGULAR: Final = 1e-8

_ALONE: Final = 0.05
"""Part of a covariate's variation that must be left without any one family."""


@dataclass(frozen=True, kw_only=True)
class Slope:
    """Change of the outcome with one more unit of a covariate.

    Attributes:
        slope: The change; nan if the covariates do not determine it.
        error: Its standard error; nan where families are too few.
        degrees: Degrees of freedom of the error.
    """

    slope: float
    error: float
    degrees: float

    @property
    def interval(self) -> Interval:
        """95 % interval; (nan, nan) without an error."""
        return self.interval_of(1)

    def interval_of(self, questions: int) -> Interval:
        """Return the interval that all questions of a study share: of each one 1 - .05/questions (Bonferroni)."""
        width = math.nan if math.isnan(self.error) else self._quantile(questions) * self.error
        return self.slope - width, self.slope + width

    def _quantile(self, questions: int) -> float:
        return float(stdtrit(self.degrees, 1 - 0.025 / questions))

    @property
    def p_value(self) -> float:
        """Two-sided p-value of no change; nan without an error."""
        return (
            math.nan
            if math.isnan(self.error)
            else float(2 * stdtr(self.degrees, -abs(self.slope) / self.error))
        )

    def seen(self, questions: int) -> float:
        """Return the change that 80 of 100 such studies of so many questions would tell; nan without an error."""
        if math.isnan(self.error):
            return math.nan
        return (self._quantile(questions) + float(stdtrit(self.degrees, 0.8))) * self.error


def family_mean(outcome: Floats, family: Ints) -> Slope:
    """Return the mean of an outcome over pairs, float64 [pairs], with its error over families, as `family_slopes`."""
    return _fitted(outcome, np.ones((len(outcome), 1)), family)[0]


def family_slopes(
    outcome: Floats, covariates: Mapping[str, Floats], family: Ints
) -> dict[str, Slope]:
    """Return the slope of each covariate with the others held, by least squares.

    Args:
        outcome: The outcome of each pair, float64 [pairs].
        covariates: The covariates by name, float64 [pairs] each.
        family: Family of each pair, int64 [pairs].

    Raises:
        ValueError: If the numbers of pairs differ, or a value is not finite.
    """
    columns = [np.ones(len(outcome)), *covariates.values()]
    if len({len(outcome), len(family), *map(len, columns)}) > 1:
        raise ValueError(
            f"needed {len(outcome)} values of each covariate, got {[*map(len, columns[1:])]}"
        )
    x = np.stack(columns, axis=1)
    if not (np.isfinite(x).all() and np.isfinite(outcome).all()):
        raise ValueError("needed finite values")
    return dict(zip(covariates, _fitted(outcome, x, family)[1:], strict=True))


def _fitted(outcome: Floats, x: Floats, family: Ints) -> list[Slope]:
    """Return the coefficient of each column of x [pairs, columns]."""
    # Units do not matter to the fit, and unlike ones would hide that columns determine each other.
    scale = np.maximum(np.abs(x).max(axis=0, initial=0.0), 1e-300)
    x = x / scale
    if len(x) < x.shape[1] or np.linalg.matrix_rank(x, tol=_SINGULAR) < x.shape[1]:
        return [Slope(slope=math.nan, error=math.nan, degrees=0.0)] * x.shape[1]
    bread = np.linalg.inv(x.T @ x)
    beta = bread @ (x.T @ outcome)
    residuals = outcome - x @ beta
    left = np.eye(len(x)) - x @ bread @ x.T
    rows = [np.flatnonzero(family == one) for one in np.unique(family)]
    # Of each family the square root of the inverse of its block: what makes its residuals as large as its errors.
    adjusted = [bread @ x[own].T @ _root_of_inverse(left[np.ix_(own, own)]) for own in rows]
    found = []
    for at in range(x.shape[1]):
        weights = [one[at] for one in adjusted]
        variance = sum(
            float(weight @ residuals[own]) ** 2 for weight, own in zip(weights, rows, strict=True)
        )
        vectors = np.stack(
            [left[:, own] @ weight for weight, own in zip(weights, rows, strict=True)], axis=1
        )
        gram = vectors.T @ vectors
        squares = float((gram**2).sum())
        degrees = float(np.trace(gram)) ** 2 / squares if squares > 0 else 0.0
        has_error = (
            len(rows) > x.shape[1]
            and degrees >= _FEWEST - 1e-9
            and _varies_without_each(x, at, rows)
        )
        error = math.sqrt(variance) / float(scale[at]) if has_error else math.nan
        found.append(Slope(slope=float(beta[at] / scale[at]), error=error, degrees=degrees))
    return found


def _varies_without_each(x: Floats, at: int, rows: list[Ints]) -> bool:
    """Return True if a column varies beside the others also without any one family."""

    def left(keep: Ints) -> float:
        others = np.delete(x[keep], at, axis=1)
        own = x[keep, at]
        fitted = (
            others @ np.linalg.lstsq(others, own, rcond=None)[0]
            if others.shape[1]
            else np.zeros_like(own)
        )
        return float(((own - fitted) ** 2).sum())

    every = np.concatenate(rows)
    return all(left(np.setdiff1d(every, own)) >= _ALONE * left(every) for own in rows)


def _root_of_inverse(block: Floats) -> Floats:
    """Return the square root of the inverse of a symmetric block, on the part where it has one."""
    values, vectors = np.linalg.eigh(block)
    roots = np.where(values > _SINGULAR, 1 / np.sqrt(np.maximum(values, _SINGULAR)), 0.0)
    root: Floats = (vectors * roots) @ vectors.T
    return root


FEWEST_OF_EACH: Final = 5
"""Lost and kept rows, in strata that have both, from which on the normal distribution is near."""


@dataclass(frozen=True, kw_only=True)
class Separation:
    """How a column separates lost from kept rows.

    Attributes:
        auc: Probability that a lost row has the higher value than a kept one of its stratum, ties as half; .5 for none.
        z: Standard score of the sum of U, or of ranks with clusters; above 0 where lost rows are higher.
        lost: Lost rows in strata that have both.
        kept: Kept rows in strata that have both.
        degrees: Degrees of freedom of z: infinite, or the number of clusters less one.
    """

    auc: float
    z: float
    lost: int
    kept: int
    degrees: float = math.inf

    @property
    def higher(self) -> float:
        """One-sided p-value of lost rows being higher."""
        return float(stdtr(self.degrees, -self.z))

    @property
    def lower(self) -> float:
        """One-sided p-value of lost rows being lower."""
        return float(stdtr(self.degrees, self.z))


@dataclass(frozen=True, kw_only=True)
class Explained:
    """How much of what was lost a column explains within strata.

    Attributes:
        share: Squared correlation of lost (0 or 1) with the rank of the column, both less their means in the stratum.
        permuted: The share that 95 of 100 permutations of the column within strata stay below: what chance explains.
    """

    share: float
    permuted: float


def explained(
    lost: Bools,
    column: Floats,
    stratum: Ints,
    *,
    cluster: Ints | None = None,
    permutations: int = 200,
    seed: int = 0,
) -> Explained | None:
    """Return how much a column explains within strata, and how much permuted ones; None where nothing varies.

    Args:
        lost: True where lost, bool [rows].
        column: The column, float64 [rows]; rows with nan are left out.
        stratum: Stratum of each row, int64 [rows].
        cluster: Cluster of each row, int64 [rows], whose parts of the sum are permuted by their sign; None to permute
            rows.
        permutations: Number of permutations within strata.
        seed: Seed of the permutations.
    """
    there = np.isfinite(column)
    order = np.argsort(
        stratum[there], kind="stable"
    )  # rows of a stratum side by side, as permutations sort them
    y, ranks, which = _centred(lost[there][order], column[there][order], stratum[there][order])
    scale = float(y @ y) * float(ranks @ ranks)
    if scale <= 0:
        return None
    rng = np.random.default_rng(seed)
    if cluster is None:
        shuffled = [
            float(y @ ranks[np.lexsort((rng.random(len(y)), which))]) ** 2
            for _ in range(permutations)
        ]
    else:
        parts = _parts_of_clusters(lost[there], column[there], stratum[there], cluster[there])
        shuffled = [
            float(parts @ rng.choice((-1.0, 1.0), len(parts))) ** 2 for _ in range(permutations)
        ]
    share = float(y @ ranks) ** 2 / scale
    return Explained(share=share, permuted=float(np.quantile(shuffled, 0.95)) / scale)


def separation(
    lost: Bools, column: Floats, stratum: Ints, *, cluster: Ints | None = None
) -> Separation | None:
    """Return how a column separates lost from kept rows within strata; None for too few rows, or one value alone.

    Args:
        lost: True where lost, bool [rows].
        column: The column, float64 [rows]; rows with nan are left out.
        stratum: Stratum of each row, int64 [rows].
        cluster: Cluster of each row, int64 [rows]; None if rows are lost one by one.
    """
    there = np.isfinite(column)
    parts = (
        None
        if cluster is None
        else _parts_of_clusters(lost[there], column[there], stratum[there], cluster[there])
    )
    lost, column, stratum = lost[there], column[there], stratum[there]
    total = expected = variance = pairs = 0.0
    rows = [0, 0]
    for number in np.unique(stratum):
        inside = stratum == number
        n_lost, n = int(lost[inside].sum()), int(inside.sum())
        n_kept = n - n_lost
        if not n_lost or not n_kept:
            continue
        ties = np.unique(column[inside], return_counts=True)[1].astype(float)
        ranks = mean_ranks(column[inside])
        total += float(ranks[lost[inside]].sum()) - n_lost * (n_lost + 1) / 2
        pairs += n_lost * n_kept
        expected += n_lost * n_kept / 2
        variance += n_lost * n_kept / 12 * (n + 1 - float((ties**3 - ties).sum()) / (n * (n - 1)))
        rows[0] += n_lost
        rows[1] += n_kept
    if min(rows) < FEWEST_OF_EACH or variance <= 0:
        return None
    z, degrees = (total - expected) / math.sqrt(variance), math.inf
    if parts is not None:
        moved = int(np.count_nonzero(parts))
        if moved < FEWEST_OF_EACH:
            return None
        z, degrees = float(parts.sum()) / math.sqrt(float(parts @ parts)), float(moved - 1)
    return Separation(auc=total / pairs, z=z, lost=rows[0], kept=rows[1], degrees=degrees)


def mean_ranks(values: Floats) -> Floats:
    """Return the rank of each value from 1, float64 [rows]; equal values share their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks


def _centred(lost: Bools, column: Floats, stratum: Ints) -> tuple[Floats, Floats, Ints]:
    """Return lost and the rank of the column, both less their means in the stratum, and the number of the stratum."""
    _, which, sizes = np.unique(stratum, return_inverse=True, return_counts=True)
    y: Floats = lost.astype(np.float64)
    ranks: Floats = np.empty(len(column))
    for number in range(len(sizes)):
        ranks[which == number] = mean_ranks(column[which == number])
    for values in (y, ranks):
        values -= (np.bincount(which, weights=values) / sizes)[which]
    return y, ranks, which


def _parts_of_clusters(lost: Bools, column: Floats, stratum: Ints, cluster: Ints) -> Floats:
    """Return each cluster's part of the sum of ranks of the lost rows less what is expected, float64 [clusters]."""
    y, ranks, _ = _centred(lost, column, stratum)
    _, of = np.unique(cluster, return_inverse=True)
    parts: Floats = np.bincount(of, weights=y * ranks).astype(np.float64)
    return parts
