"""Does a column separate what was lost from what was kept, within strata? The Mann-Whitney test.

    stratum     kept, column      lost, column         U: pairs in which the lost one is higher
    History     0.1  0.4          0.3  0.9             3 of 4
    Trade       0.2               0.1                  0 of 1

    auc = sum of U / number of pairs = 3 / 5

Under the null each order within a stratum is as likely as any other. The sum of U is then nearly
normal; its variance, with ties, is known (Mann and Whitney 1947; over strata van Elteren 1960, with
equal weights). A column that differs between strata alone separates nothing.

Rows of one cluster, such as questions with one and the same right answer, are lost together. With
clusters the variance is that of the clusters' parts of the sum, and its degrees of freedom are
their number less one.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtr

from forgetwatch.metrics.transitions import Bools, Floats, Ints

FEWEST_OF_EACH: Final = 5
"""Lost and kept rows, in strata that have both, from which on the normal distribution is near."""


@dataclass(frozen=True, kw_only=True)
class Separation:
    """How a column separates lost from kept rows.

    Attributes:
        auc: Probability that a lost row has the higher value than a kept one of its stratum, ties
            as half; .5 for none.
        z: Standard score of the sum of U, or of ranks with clusters; above 0 where lost rows are
            higher.
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
        share: Squared correlation of lost (0 or 1) with the rank of the column, both less their
            means in the stratum.
        permuted: The share that 95 of 100 permutations of the column within strata stay below: what
            chance explains.
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
    """How much a column explains within strata, against permutations.

    Args:
        lost: True where lost, bool [rows].
        column: The column, float64 [rows]; rows with nan are left out.
        stratum: Stratum of each row, int64 [rows].
        cluster: Cluster of each row, int64 [rows], whose parts of the sum are permuted by their
            sign; None to permute rows.
        permutations: Number of permutations within strata.
        seed: Seed of the permutations.

    Returns:
        The result, or None where nothing varies.
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
    """How a column separates lost from kept rows within strata.

    Args:
        lost: True where lost, bool [rows].
        column: The column, float64 [rows]; rows with nan are left out.
        stratum: Stratum of each row, int64 [rows].
        cluster: Cluster of each row, int64 [rows]; None if rows are lost one by one.

    Returns:
        The result, or None for too few rows, or one value alone.
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
    """Rank of each value from 1, float64 [rows].

    Equal values share their mean rank.
    """
    _, position, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[position]
    return ranks


def _centred(lost: Bools, column: Floats, stratum: Ints) -> tuple[Floats, Floats, Ints]:
    # Less the means in the stratum; also the number of the stratum.
    _, which, sizes = np.unique(stratum, return_inverse=True, return_counts=True)
    y: Floats = lost.astype(np.float64)
    ranks: Floats = np.empty(len(column))
    for number in range(len(sizes)):
        ranks[which == number] = mean_ranks(column[which == number])
    for values in (y, ranks):
        values -= (np.bincount(which, weights=values) / sizes)[which]
    return y, ranks, which


def _parts_of_clusters(lost: Bools, column: Floats, stratum: Ints, cluster: Ints) -> Floats:
    # Less what is expected, float64 [clusters].
    y, ranks, _ = _centred(lost, column, stratum)
    _, of = np.unique(cluster, return_inverse=True)
    parts: Floats = np.bincount(of, weights=y * ranks).astype(np.float64)
    return parts
