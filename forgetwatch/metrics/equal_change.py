"""Did several sets of items change alike? A randomisation test.

    D = sum over sets of w (mean change of set w - mean of all)^2, w = n / variance of the set
    (Welch) p = (1 + number of exchanges whose D is as large) / (1 + number of exchanges)

The sets of the items of each stratum are exchanged at random. Where sets were given to the items at
random within the strata, the test has its level for any number of items and any changes. Each term
is divided by its own variance, so that it nearly keeps the level for sets of unlike sizes and
noise. Within a stratum that holds one item in several sets, such as a question in several wordings,
that needs exchangeable sets under the null. Source: Fisher 1935; Pitman 1937.
"""

import math
from typing import Final

import numpy as np

from forgetwatch.metrics.transitions import Floats, Ints

EXCHANGES: Final = 999
"""Random exchanges; the smallest p-value is one over one more."""


_CLOSE: Final = 1e-12
"""Relative difference of two sums in another order."""


def equal_change_p_value(
    changes: Floats, set_of: Ints, stratum: Ints, rng: np.random.Generator
) -> float:
    """P-value of "all sets changed alike".

    nan for fewer than two sets.

    Args:
        changes: Change of each item, float64 [rows].
        set_of: Number of the set of each item, from 0 without gaps, int64 [rows].
        stratum: Code of each item's stratum, within which sets are exchanged, int64 [rows].
        rng: Generator of the exchanges.
    """
    sets = int(set_of.max()) + 1 if set_of.size else 0
    if sets < 2:
        return math.nan
    order = np.argsort(stratum, kind="stable")
    own, of, centred = set_of[order], stratum[order], changes[order] - changes.mean()
    sizes, pooled = np.bincount(own, minlength=sets), float(centred.var())
    if not pooled:  # all changed alike
        return 1.0

    def spread(set_numbers: Ints) -> float:
        means, squares = (
            np.bincount(set_numbers, weights=values, minlength=sets) / sizes
            for values in (centred, centred**2)
        )
        # One more item of the variance of all: a set in which nothing changed has some doubt too.
        weight = sizes / (squares - means**2 + pooled / sizes)
        return float(weight @ (means - weight @ means / weight.sum()) ** 2)

    observed, as_large = spread(own), 0
    for _ in range(EXCHANGES):
        # Sorted by stratum, then at random: the sets of a stratum in another order.
        as_large += spread(own[np.argsort(of + rng.random(len(own)))]) >= observed * (1 - _CLOSE)
    return (1 + as_large) / (1 + EXCHANGES)
