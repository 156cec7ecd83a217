"""The net change as well as it is known: by flips and margins together. See `metrics.margin_change`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from forgetwatch.measures.base import Ends, GroupMeasure, Quantity, Rows, mean_change
from forgetwatch.measures.flips import vanished_rows, worst_before, worst_cells, worth_cells
from forgetwatch.metrics import (
    FEWEST,
    Cells,
    Change,
    FallTest,
    Interval,
    MarginRule,
    NetMargin,
    boundary,
    fall_test,
    loss_p_value,
    margins,
    net_margin,
    newcombe,
    pooled,
    sign_flip,
)
from forgetwatch.metrics.transitions import Floats
from forgetwatch.pairing import AlignedPairs, between, points

_POWER: Final = float(special.ndtri(0.975) + special.ndtri(0.8))
"""Standard errors of a change that is found with 80 % power, two-sided at 5 %."""


@dataclass(frozen=True, kw_only=True)
class NetEstimate:
    """Net change of a group by flips and margins together, as shares of the items.

    Attributes:
        margin_change: Change of the answers softened by their margins; None where options have no scores.
        change: The estimate, with its standard error; that of the flips alone where options have no scores.
        worst: The same in the worst case of the outcomes that vanished (`measures.flips`).
        flips: Effective cells, of the scored items and in the worst case, where flips alone give the interval; None
            where margins take part.
        fall: Test for a fall by margins; None where options have no scores, or too few.
        unscored_loss: One-sided p-value of "no net loss" by the flips of items without scores, in a group in which
            others have them; None if there are none.
        rule: Widths and weight of margins; None for flips alone.
    """

    margin_change: Change | None
    change: Change
    worst: Change
    flips: tuple[Cells, Cells] | None
    fall: FallTest | None
    unscored_loss: float | None
    rule: MarginRule | None

    @property
    def fall_p_value(self) -> float | None:
        """One-sided p-value of "it did not fall" by margins, where these are tested; None where flips alone are.

        Items without scores are tested by their flips, and the smaller of the two p-values counts twice.
        """
        if self.fall is None or self.unscored_loss is None:
            return None if self.fall is None else self.fall.p_value
        return min(1.0, 2 * min(self.fall.p_value, self.unscored_loss))

    @property
    def interval(self) -> Interval:
        """95 % interval of the estimate."""
        return self.interval_at(0.95)

    @property
    def detectable(self) -> float | None:
        """Change that the items show with 80 % power; None for flips alone."""
        return None if self.flips is not None else _POWER * self.change.error

    def interval_at(self, level: float, *, worst: bool = False) -> Interval:
        """Interval of the estimate at a level, 0 to 1; `worst` in the worst case of the outcomes that vanished."""
        if self.flips is not None:
            low, high = newcombe(self.flips[worst], level=level)
        else:
            change = self.worst if worst else self.change
            half = float(special.stdtrit(change.observations - 1, 0.5 + level / 2)) * change.error
            low, high = max(change.mean - half, -1.0), min(change.mean + half, 1.0)
        if not worst:
            return low, high
        # Wrong answers that vanished cannot be lost, and would bring a net change closer to 0 as further items.
        bound = self.interval_at(level)
        return min(low, bound[0]), min(high, bound[1])


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


def _cells(pairs: AlignedPairs) -> Cells:
    return worth_cells(pairs.before, pairs.after, pairs.cluster, samples=pairs.samples)


def _measured(pairs: AlignedPairs, softened: Floats) -> NetMargin | None:
    """Both measurements of the net change of pairs that all have scores."""
    flips = pairs.after.astype(np.float64) - pairs.before
    return net_margin(softened, flips, newcombe(_cells(pairs)), pairs.cluster)


def _of_flips(cells: Cells, rows: int) -> Change:
    """Net change of some cells, with the standard error that the width of its interval stands for."""
    low, high = newcombe(cells)
    error = (high - low) / (2 * float(special.ndtri(0.975)))
    return Change(mean=cells.net_change, error=error, observations=rows)


def _of(rows: Rows) -> NetEstimate | None:
    pairs, rule = rows.pairs, rows.margin_rule
    if len(pairs) < FEWEST:
        return None
    cells = _cells(pairs)
    by_flips = _of_flips(cells, len(pairs))
    alone = NetEstimate(
        margin_change=None,
        change=by_flips,
        worst=by_flips,
        flips=(cells, worst_cells(rows)),
        fall=None,
        unscored_loss=None,
        rule=None,
    )
    if rule is None:
        return alone
    before, after = _margins(pairs)
    scored = ~(np.isnan(before) | np.isnan(after))
    of_scored = pairs.take(scored)
    softened = rule.boundary.softened(before[scored], after[scored])
    found = _measured(of_scored, softened)
    if found is None:
        return alone
    change, unscored_loss = found.estimate(rule.weight), None
    if not scored.all():
        rest = pairs.take(~scored)
        change = pooled(change, _of_flips(_cells(rest), len(rest)), share=float(scored.mean()))
        unscored_loss = _loss(rest)
    return NetEstimate(
        margin_change=found.margins,
        change=change,
        worst=_worst(change, rows),
        flips=None,
        fall=fall_test(softened, of_scored.cluster),
        unscored_loss=unscored_loss,
        rule=rule,
    )


def _loss(pairs: AlignedPairs) -> float:
    """One-sided p-value of "no net loss" by flips."""
    if pairs.cluster is not None:
        return sign_flip(pairs.after.astype(np.int64) - pairs.before, pairs.cluster).loss_p_value
    cells = _cells(pairs)
    return loss_p_value(int(cells.forgotten), int(cells.gained))


def _worst(change: Change, rows: Rows) -> Change:
    """Estimate of a group and its vanished items, each missing outcome the one that lowers it most."""
    vanished = vanished_rows(rows)
    if not len(vanished):
        return change
    cells = worth_cells(worst_before(vanished), vanished.after, vanished.cluster, samples=vanished.samples)
    share = len(rows.pairs) / (len(rows.pairs) + len(vanished))
    return pooled(change, _of_flips(cells, len(vanished)), share=share)


def net_estimate(found: NetEstimate) -> str:
    """Estimate in points with its 95 % interval, such as ``-1.1 (-4.2 to +2.0)``."""
    return f"{points(found.change.mean)} ({between(found.interval, points)})"


NET_ESTIMATE: Final = GroupMeasure[NetEstimate](
    key="net_estimate",
    of=_of,
    quantities=(
        *mean_change("margin_change", "margin_change", unit="share"),
        Quantity(
            "net_change_estimate",
            lambda r: r.change.mean,
            "share",
            low=-1.0,
            heading="net change, points",
            text=net_estimate,
            tracked="category",
        ),
        Ends("net_change_estimate_interval", lambda r: r.interval, "share", low=-1.0),
        Quantity("detectable_change_estimate", lambda r: r.detectable, "share"),
    ),
)
