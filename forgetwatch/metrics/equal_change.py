"""Did several sets of items change alike, where one observation may be in more than one of them?

With d_i the change of item i, theta_w the mean change of set w, and c the independent observation of an item:

    u_cw = sum of (d_i - theta_w) / n_w over the items of observation c in set w
    V    = C/(C-1) sum of u_c u_c'                            C observations
    T    = (D theta)' (D V D')^-1 (D theta)                   D: differences from the first set
    F    = (C-W+1) / ((C-1)(W-1)) T                           against F with W-1 and C-W+1 degrees of freedom

For complete blocks this is Hotelling's test of equal means; for sets without a common observation it is Cochran's Q
with estimated variances. Source: Hotelling 1931; the covariance is that of clusters (Liang and Zeger 1986).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy import special

from forgetwatch.metrics.intervals import cluster_codes
from forgetwatch.metrics.transitions import Floats, Ints

_RIDGE: Final = 1e-12
"""Variance of a set whose items all changed by the same."""


def equal_change_p_value(changes: Floats, set_of: Ints, cluster: Ints | None = None) -> float:
    """Return the p-value of "all sets changed alike"; nan for one set, or for no more observations than sets.

    Args:
        changes: Change of each item, float64 [rows].
        set_of: Number of the set of each item, from 0 without gaps, int64 [rows].
        cluster: Code of each item's independent observation, int64 [rows]; None if every row is one.
    """
    sets = int(set_of.max()) + 1 if set_of.size else 0
    observation = np.arange(len(changes)) if cluster is None else cluster_codes(cluster)
    observations = int(observation.max()) + 1 if observation.size else 0
    if sets < 2 or observations <= sets:
        return math.nan
    sizes = np.bincount(set_of, minlength=sets)
    means = np.bincount(set_of, weights=changes, minlength=sets) / sizes
    each = np.bincount(
        observation * sets + set_of, weights=(changes - means[set_of]) / sizes[set_of], minlength=observations * sets
    ).reshape(observations, sets)
    differences = means[1:] - means[0]
    apart = each[:, 1:] - each[:, :1]
    covariance = observations / (observations - 1) * (apart.T @ apart) + _RIDGE * np.eye(sets - 1)
    t = float(differences @ np.linalg.solve(covariance, differences))
    left = observations - sets + 1
    return float(special.fdtrc(sets - 1, left, left / ((observations - 1) * (sets - 1)) * t))
