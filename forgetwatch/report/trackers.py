"""A Comparison as one row of numbers for W&B, TensorBoard and other trackers.

    eval_forget/all/forgotten            1->0 so far                  eval_forget/<category>/forgotten
    eval_forget/all/gained               0->1 so far                  eval_forget/<category>/known_lost
    eval_forget/all/known_lost           clearly known before, wrong now
    eval_forget/all/net_change           accuracy now minus accuracy of the baseline
    eval_forget/all/accuracy             right now, share of all
    eval_forget/all/retention            still right, share of the items right before
    eval_forget/all/null_lost            right, and wrong when the same weights were measured again
    eval_forget/all/unscored             items without a usable outcome
    eval_forget/all/seconds              what the look took

A quantity that is undefined has no key: trackers draw nan and None as gaps or zeros.
"""

from __future__ import annotations

import math
import re
from typing import Final

from forgetwatch.compare import Comparison
from forgetwatch.groups import Group

PREFIX: Final = "eval_forget"


def tracker_row(comparison: Comparison, *, seconds: float) -> dict[str, float]:
    """The numbers of one look, by tracker key; whole numbers as int, the rest as float.

    Args:
        comparison: The baseline against the look.
        seconds: What the look took.
    """
    whole = comparison.all
    row: dict[str, float | None] = {
        "all/forgotten": whole.forgotten,
        "all/gained": whole.gained,
        "all/known_lost": whole.known_lost,
        "all/net_change": whole.net_change,
        "all/accuracy": whole.accuracy_after,
        "all/retention": whole.retention,
        "all/null_lost": whole.null_lost,
        "all/unscored": comparison.items.unscored,
        "all/seconds": seconds,
    }
    for key, group in _named(comparison.by("category")).items():
        row |= {f"{key}/forgotten": group.forgotten, f"{key}/known_lost": group.known_lost}
    return {f"{PREFIX}/{key}": value for key, value in row.items() if value is not None and math.isfinite(value)}


def _named(groups: dict[str, Group]) -> dict[str, Group]:
    """The groups by tracker name; a name that is taken (`all`, or twice the same) gets a number."""
    named: dict[str, Group] = {}
    for name, group in groups.items():
        key = base = re.sub(r"[^a-z0-9]", "_", name.lower())
        number = 2
        while key in named or key == "all":
            key, number = f"{base}_{number}", number + 1
        named[key] = group
    return named
