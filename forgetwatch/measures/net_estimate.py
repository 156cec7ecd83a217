"""The net change as well as it is known: by flips and margins together. See `metrics.margin_change`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from forgetwatch.measures.base import Ends, GroupMeasure, Quantity, Rows, mean_change
from forgetwatch.measures.flips import net_interval
from forgetwatch.metrics import (
    FEWEST,
    Change,
    Interval,
    MarginRule,
    NetMargin,
    boundary,
    margins,
    net_margin,
    pooled,
)
from forgetwatch.metrics.transitions import Floats
from forgetwatch.pairing import AlignedPairs

_POWER: Final = float(special.ndtri(0.975) + special.ndtri(0.8))
"""Standard errors of a change that is found with 80 % power, two-sided at 5 %."""


@dataclass(frozen=True, kw_only=True)
class NetEstimate:
    """Net change of a group by flips and margins together, as shares of the items.

    Attributes:
        margin_change: Change of the answers softened by their margins; None where options have no scores.
        estimate: Estimate of the net change; that of the flips alone where options have no scores.
        interval: Its 95 % interval.
        detectable: Change that the items show with 80 % power; None for flips alone.
        rule: Widths and weight of margins; None for flips alone.
    """

    margin_change: Change | None
    estimate: float
    interval: Interval
    detectable: float | None
    rule: MarginRule | None


def margin_rule(pairs: AlignedPairs) -> MarginRule | None:
    """Widths and weight for a comparison of these items; None where options have no scores, or no width is defined."""
    before, after = _margins(pairs)
    found = boundary(before, after)
    if found is None:
        return None
    scored = ~(np.isnan(before) | np.isnan(after))
    measured = _measured(pairs.take(scored), found.softened(before[scored], after[scored]))
    return None if measured is None else MarginRule(boundary=found, weight=measured.weight)


def _margins(pairs: AlignedPairs) -> tuple[Floats, Floats]:
    """Margins of both sides, nats [rows]; nan in rows without scores."""
    nothing = np.full(len(pairs), np.nan)
    sides = pairs.options_before, pairs.options_after
    before, after = (nothing if side is None else margins(side) for side in sides)
    return before, after


def _measured(pairs: AlignedPairs, softened: Floats) -> NetMargin | None:
    """Both measurements of the net change of pairs that all have scores."""
    flips = pairs.after.astype(np.float64) - pairs.before
    interval = net_interval(pairs.before, pairs.after, pairs.cluster, samples=pairs.samples)
    return net_margin(softened, flips, interval, pairs.cluster)


def _of(rows: Rows) -> NetEstimate | None:
    pairs, rule = rows.pairs, rows.margin_rule
    if len(pairs) < FEWEST:
        return None
    flips = pairs.after.astype(np.float64) - pairs.before
    by_flips = net_interval(pairs.before, pairs.after, pairs.cluster, samples=pairs.samples)
    alone = NetEstimate(margin_change=None, estimate=float(flips.mean()), interval=by_flips, detectable=None, rule=None)
    if rule is None:
        return alone
    before, after = _margins(pairs)
    scored = ~(np.isnan(before) | np.isnan(after))
    found = _measured(pairs.take(scored), rule.boundary.softened(before[scored], after[scored]))
    if found is None:
        return alone
    estimate = found.estimate(rule.weight)
    if not scored.all():
        rest = pairs.take(~scored)
        low, high = net_interval(rest.before, rest.after, rest.cluster, samples=rest.samples)
        error = (high - low) / (2 * float(special.ndtri(0.975)))
        others = Change(mean=float(flips[~scored].mean()), error=error, observations=len(rest))
        estimate = pooled(estimate, others, share=float(scored.mean()))
    low, high = estimate.interval
    return NetEstimate(
        margin_change=found.margins,
        estimate=estimate.mean,
        interval=(max(low, -1.0), min(high, 1.0)),
        detectable=_POWER * estimate.error,
        rule=rule,
    )


NET_ESTIMATE: Final = GroupMeasure[NetEstimate](
    key="net_estimate",
    of=_of,
    quantities=(
        *mean_change("margin_change", "margin_change", unit="share"),
        Quantity("net_change_estimate", lambda r: r.estimate, "share", low=-1.0),
        Ends("net_change_estimate_interval", lambda r: r.interval, "share", low=-1.0),
        Quantity("detectable_change_estimate", lambda r: r.detectable, "share"),
    ),
)
