"""Slopes of an outcome over covariates of pairs of models, with the model family as the unit.

    outcome = intercept + slope · covariate (+ slopes of the others) + error;      errors of one family go together

Pairs of one family share a base, data and recipes, so that ten pairs of two families are hardly
more than two observations. The error is the cluster-robust one with the correction of Bell and
McCaffrey (2002), CR2, and the degrees of freedom are Satterthwaite's for it (Pustejovsky and Tipton
2018). With few families these fall to one or two, and the interval becomes as wide as it must.
Families of one pair each give the robust error of unlike variances, HC2.

Two kinds of study have no interval, since theirs would be too narrow by far: one with no more
families than columns, and one in which a covariate varies by one family alone, such as the only one
that was trained in another way. The residuals of that family are 0 or cancel, and the error is then
that of the others.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtr, stdtrit

from forgetwatch.metrics.intervals import Interval
from forgetwatch.metrics.transitions import Floats, Ints

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
        """Interval that all questions of a study share.

        1 - .05/questions each (Bonferroni).
        """
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
        """Change that 80 of 100 such studies would show.

        Studies of so many questions; nan without an error.
        """
        if math.isnan(self.error):
            return math.nan
        return (self._quantile(questions) + float(stdtrit(self.degrees, 0.8))) * self.error


def family_mean(outcome: Floats, family: Ints) -> Slope:
    """Mean of an outcome over pairs, with error over families.

    As `family_slopes`; outcome float64 [pairs].
    """
    return _fitted(outcome, np.ones((len(outcome), 1)), family)[0]


def family_slopes(
    outcome: Floats, covariates: Mapping[str, Floats], family: Ints
) -> dict[str, Slope]:
    """Least-squares slope of each covariate with the others held.

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
    # x is [pairs, columns].
    # Units do not matter to the fit, and unlike ones would hide that columns determine each other.
    scale = np.maximum(np.abs(x).max(axis=0, initial=0.0), 1e-300)
    x = x / scale
    if len(x) < x.shape[1] or np.linalg.matrix_rank(x, tol=_SINGULAR) < x.shape[1]:
        return [Slope(slope=math.nan, error=math.nan, degrees=0.0)] * x.shape[1]
    bread = np.linalg.inv(x.T @ x)
    beta = bread @ (x.T @ outcome)
    residuals = outcome - x @ beta
    left = np.eye(len(x)) - x @ bread @ x.T
    rows = [np.flatnonzero(family == name) for name in np.unique(family)]
    # Of each family the square root of the inverse of its block: what makes its residuals as large
    # as its errors.
    adjusted = [bread @ x[row].T @ _root_of_inverse(left[np.ix_(row, row)]) for row in rows]
    slopes = []
    for at in range(x.shape[1]):
        weights = [of_family[at] for of_family in adjusted]
        variance = sum(
            float(weight @ residuals[members]) ** 2
            for weight, members in zip(weights, rows, strict=True)
        )
        vectors = np.stack(
            [left[:, members] @ weight for weight, members in zip(weights, rows, strict=True)],
            axis=1,
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
        slopes.append(Slope(slope=float(beta[at] / scale[at]), error=error, degrees=degrees))
    return slopes


def _varies_without_each(x: Floats, at: int, rows: list[Ints]) -> bool:
    # Beside the others, also without any one family.

    def left(keep: Ints) -> float:
        other_columns = np.delete(x[keep], at, axis=1)
        column = x[keep, at]
        fitted = (
            other_columns @ np.linalg.lstsq(other_columns, column, rcond=None)[0]
            if other_columns.shape[1]
            else np.zeros_like(column)
        )
        return float(((column - fitted) ** 2).sum())

    all_rows = np.concatenate(rows)
    return all(left(np.setdiff1d(all_rows, members)) >= _ALONE * left(all_rows) for members in rows)


def _root_of_inverse(block: Floats) -> Floats:
    # Directions without an inverse are left out.
    values, vectors = np.linalg.eigh(block)
    roots = np.where(values > _SINGULAR, 1 / np.sqrt(np.maximum(values, _SINGULAR)), 0.0)
    root: Floats = (vectors * roots) @ vectors.T
    return root
