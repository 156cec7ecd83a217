"""The net change as well as it is known: by flips and margins together. See `metrics.margin_change`."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.base import Bounds, GroupMeasure, Quantity, Rows, mean_change
from forgetwatch.measures.flip_counts import vanished_rows, worst_before, worst_cells, worth_cells
from forgetwatch.metrics.intervals import Interval, newcombe
from forgetwatch.metrics.log_score import Change
from forgetwatch.metrics.margin_change import (
    FEWEST,
    Boundary,
    FallTest,
    MarginRule,
    NetMargin,
    boundary,
    fall_test,
    net_margin,
    pooled,
)
from forgetwatch.metrics.mean_score import graded_change
from forgetwatch.metrics.significance import loss_p_value, sign_flip
from forgetwatch.metrics.transitions import Cells


@dataclass(frozen=True, kw_only=True)
class NetEstimate:
    """Net change of a group by flips and margins together, as shares of the items.

    Attributes:
        margin_change: Change of the answers softened by their margins; None where no answer has a
            margin.
        change: The estimate, with its standard error; that of the flips alone where no answer has a
            margin.
        worst: The same in the worst case of the outcomes that vanished (`measures.flip_counts`).
        flips: Effective cells, of the scored items and in the worst case, where flips alone give
            the interval; None where margins take part.
        enough: False for fewer than `FEWEST` items, and for a single cluster: then there is no
            interval.
        fall: Test for a fall by margins; None where too few answers have a margin.
        unscored_loss: One-sided p-value of "no net loss" by the flips of the answers without a
            margin, in a group in which others have one; None if there are none.
        rule: Widths and least bias of margins; None for flips alone.
    """

    margin_change: Change | None
    change: Change
    worst: Change
    flips: tuple[Cells, Cells] | None
    enough: bool
    fall: FallTest | None
    unscored_loss: float | None
    rule: MarginRule | None

    @property
    def interval(self) -> Interval | None:
        """95 % interval of the estimate.

        Returns:
            The interval, or None if there are too few items.
        """
        return self.interval_at(0.95)

    def interval_at(self, level: float, *, worst: bool = False) -> Interval | None:
        """Interval of the estimate at a level, 0 to 1.

        Args:
            level: The level.
            worst: Return that in the worst case of the outcomes that vanished.

        Returns:
            The interval, or None if there are too few items.
        """
        if not self.enough:
            return None
        if self.flips is not None:
            low, high = newcombe(self.flips[worst], level=level)
        else:
            change = self.worst if worst else self.change
            half = float(special.stdtrit(change.observations - 1, 0.5 + level / 2)) * change.error
            low, high = max(change.mean - half, -1.0), min(change.mean + half, 1.0)
        bound = self.interval_at(level) if worst else None
        # Wrong answers that vanished cannot be lost, and would bring a net change closer to 0 as
        # further items.
        return (low, high) if bound is None else (min(low, bound[0]), min(high, bound[1]))


def margin_rule(pairs: AlignedPairs) -> MarginRule | None:
    """Fit the rule for margins that all groups share.

    Returns:
        The rule, or None where too few pairs have margins, or there is no width.
    """
    boundary_found = boundary(pairs.margin_before, pairs.margin_after)
    if boundary_found is None:
        return None
    scored = pairs.take(pairs.has_margin)
    measured = _measured(scored, boundary_found)
    return None if measured is None else MarginRule(boundary=boundary_found, bias=measured.bias)


def _cells(pairs: AlignedPairs) -> Cells:
    return worth_cells(pairs.before, pairs.after, pairs.cluster, samples=pairs.samples)


def _measured(scored: AlignedPairs, boundary: Boundary) -> NetMargin | None:
    # For pairs that all have margins.
    flips = scored.after.astype(np.float64) - scored.before
    softened = boundary.softened(scored.margin_before, scored.margin_after)
    return net_margin(softened, flips, newcombe(_cells(scored)), scored.cluster)


def _of_outcomes(pairs: AlignedPairs, cells: Cells) -> Change:
    # Without margins: of scores where there are any, else of flips, whose standard error is that
    # for which the width of the interval stands.
    if pairs.scores is not None and pairs.is_graded.any():
        return graded_change(pairs.scores.at_worst(), pairs.item, pairs.cluster)
    low, high = newcombe(cells)
    error = (high - low) / (2 * float(special.ndtri(0.975)))
    return Change(mean=cells.net_change, error=error, observations=_observations(pairs))


def _observations(pairs: AlignedPairs) -> int:
    return len(pairs) if pairs.cluster is None else len(np.unique(pairs.cluster))


def _of(rows: Rows) -> NetEstimate | None:
    pairs, rule = rows.pairs, rows.margin_rule
    if not len(pairs):
        return None
    cells = _cells(pairs)
    by_flips = _of_outcomes(pairs, cells)
    is_graded = bool(pairs.is_graded.any())
    alone = NetEstimate(
        margin_change=None,
        change=by_flips,
        worst=_worst(by_flips, rows) if is_graded else by_flips,
        flips=None if is_graded else (cells, worst_cells(rows)),
        enough=len(pairs) >= FEWEST and by_flips.observations > 1,
        fall=None,
        unscored_loss=None,
        rule=None,
    )
    if rule is None or not alone.enough:
        return alone
    scored = pairs.take(pairs.has_margin)
    estimate = _measured(scored, rule.boundary)
    if estimate is None:
        return alone
    change, unscored_loss = estimate.estimate(least_bias=rule.bias), None
    if len(scored) < len(pairs):
        rest = pairs.take(~pairs.has_margin)
        share = len(scored) / len(pairs)
        change = pooled(
            change,
            _of_outcomes(rest, _cells(rest)),
            share=share,
            observations=by_flips.observations,
        )
        unscored_loss = _loss(rest)
    return NetEstimate(
        margin_change=estimate.margins,
        change=change,
        worst=_worst(change, rows),
        flips=None,
        enough=True,
        fall=fall_test(
            rule.boundary.softened(scored.margin_before, scored.margin_after), scored.cluster
        ),
        unscored_loss=unscored_loss,
        rule=rule,
    )


def _loss(pairs: AlignedPairs) -> float:
    if pairs.cluster is not None:
        return sign_flip(pairs.after.astype(np.int64) - pairs.before, pairs.cluster).loss_p_value
    cells = _cells(pairs)
    return loss_p_value(int(cells.forgotten), int(cells.gained))


def _worst(change: Change, rows: Rows) -> Change:
    # Each missing outcome is the one that lowers the estimate most.
    vanished = vanished_rows(rows)
    if not len(vanished):
        return change
    cells = worth_cells(
        worst_before(vanished), vanished.after, vanished.cluster, samples=vanished.samples
    )
    share, observations = len(rows.pairs) / (len(rows.pairs) + len(vanished)), change.observations
    return pooled(
        change,
        _of_outcomes(vanished, cells),
        share=share,
        observations=observations + _observations(vanished),
    )


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
            tracked="card",
        ),
        Bounds("net_change_estimate_interval", lambda r: r.interval, "share", low=-1.0),
    ),
)
