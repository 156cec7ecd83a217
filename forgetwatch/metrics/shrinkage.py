"""Shrinkage of many groups' changes towards the change of all, against the winner's curse.

The group that looks worst among many is partly the worst by chance: its shown fall is larger than
its true one. With e_g the estimated change of group g, v_g its variance, and e the change of all
items:

    u       = sum of (e_g / v_g) / sum of (1 / v_g)
    Q       = sum of (e_g - u)^2 / v_g               against chi-square with G - 1 degrees of freedom
    tau^2   = max(0, (Q - (G-1)) / (sum w - sum w^2 / sum w)),   w = 1 / v_g
    shrunk  = e + tau^2 / (tau^2 + v_g) (e_g - e)

Sources: Cochran 1954 for Q, DerSimonian and Laird 1986 for tau^2, Morris 1983 for the shrunk
    estimate.
"""

import math
from dataclasses import dataclass

from scipy import special

from forgetwatch.metrics.transitions import Floats


@dataclass(frozen=True, kw_only=True, eq=False)
class Shrunk:
    """Changes of some groups, shrunk towards that of all.

    Attributes:
        p_value: Of "all groups changed alike", by Q; nan for fewer than two groups.
        spread: Standard deviation tau of the true changes between groups, in the unit of the
            changes.
        values: Shrunk changes, float64 [groups].
    """

    p_value: float
    spread: float
    values: Floats


def shrunk(changes: Floats, errors: Floats, *, overall: float) -> Shrunk:
    """Shrink the changes of some groups.

    Args:
        changes: Change of each group, float64 [groups].
        errors: Their standard errors, above 0, float64 [groups].
        overall: Change of all items.
    """
    if len(changes) < 2:
        return Shrunk(p_value=math.nan, spread=0.0, values=changes)
    weights = 1.0 / errors**2
    freedom = len(changes) - 1
    total = float(weights.sum())
    q = float(weights @ (changes - float(weights @ changes) / total) ** 2)
    between = max(0.0, (q - freedom) / (total - float(weights @ weights) / total))
    values: Floats = overall + between / (between + errors**2) * (changes - overall)
    return Shrunk(
        p_value=float(special.chdtrc(freedom, q)), spread=math.sqrt(between), values=values
    )
