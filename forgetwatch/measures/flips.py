"""The four cells of a group with their rates, intervals and tests: what every group has. See `metrics.transitions`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from forgetwatch.measures.base import Ends, GroupMeasure, Quantity, false_discoveries
from forgetwatch.metrics import (
    Cells,
    Interval,
    count_cells,
    detectable_change,
    effective_items,
    flip_interval,
    loss_p_value,
    mcnemar,
    newcombe,
    sign_flip,
    smallest_loss,
)
from forgetwatch.pairing import AlignedPairs, between, count, percent, points, probability


@dataclass(frozen=True, kw_only=True)
class Flips(Cells):
    """The four cells, and what follows from them. Intervals are 95 %.

    Attributes:
        effective_n: Number of independent items with the same standard error: below n where items come in clusters,
            above it where independent samples of an item add up.
        forgetting_interval: Of `forgetting` (Wilson; one-sided exact limit for no flips).
        backward_transfer_interval: Of `backward_transfer`, in the same way.
        net_change_interval: Of `net_change`, after minus before (Newcombe, corrected phi).
        p_value: Two-sided mid-p McNemar test of "no net change"; over clusters where there are any.
        loss_p_value: One-sided p-value of "no net loss", for alarms over many looks: exact McNemar; over clusters a
            sign-flip test, with the normal approximation for many clusters.
        q_value: Benjamini-Hochberg over the groups of the level; nan for a group without answers.
    """

    effective_n: float
    forgetting_interval: Interval
    backward_transfer_interval: Interval
    net_change_interval: Interval
    p_value: float
    loss_p_value: float
    q_value: float = math.nan

    @property
    def detectable_change(self) -> float:
        """Smallest net change that these items see with 80 % power at the observed share of flips; nan for no items."""
        if not self.n:
            return math.nan
        # With fewer than three flips the observed share is too uncertain to plan with.
        return detectable_change(self.effective_n, max(self.forgotten + self.gained, 3) / self.n)

    def smallest_loss(self, level: float) -> float:
        """Smallest net loss (share of the items) that could have a one-sided p-value of `level`; nan if none could.

        Exact for independent items, an approximation by `effective_n` for clusters.
        """
        worth = self.effective_n / self.n if self.n else 0.0
        flips = round((self.forgotten + self.gained) * worth)
        return smallest_loss(flips, level) / self.effective_n if worth else math.nan


def count_flips(pairs: AlignedPairs) -> Flips:
    """Count the four cells of some pairs."""
    cells = count_cells(pairs.before, pairs.after, samples=pairs.samples)
    if not len(pairs):
        p_values = math.nan, math.nan
        worth_lost = worth_won = worth_net = 0.0
    elif pairs.cluster is None:
        forgotten, gained = int(cells.forgotten), int(cells.gained)
        p_values = mcnemar(forgotten, gained), loss_p_value(forgotten, gained)
        worth_lost = worth_won = worth_net = cells.n
    else:
        # Each rate has its own design effect: losses may cluster where gains do not.
        gone, won = pairs.before & ~pairs.after, ~pairs.before & pairs.after
        change = won.astype(np.int64) - gone
        tested = sign_flip(change, pairs.cluster)
        p_values = tested.p_value, tested.loss_p_value
        worth_lost, worth_won, worth_net = (
            effective_items(x.astype(np.float64), pairs.cluster) for x in (gone, won, change)
        )
    return Flips(
        **vars(cells),
        effective_n=worth_net,
        forgetting_interval=flip_interval(cells.forgetting * worth_lost, worth_lost),
        backward_transfer_interval=flip_interval(cells.backward_transfer * worth_won, worth_won),
        net_change_interval=newcombe(cells.scaled(worth_net)),
        p_value=p_values[0],
        loss_p_value=p_values[1],
    )


def net_interval(pairs: AlignedPairs) -> Interval:
    """95 % interval of the net change of some pairs, without the tests."""
    cells = count_cells(pairs.before, pairs.after, samples=pairs.samples)
    if pairs.cluster is None or not len(pairs):
        return newcombe(cells)
    return newcombe(cells.scaled(effective_items(pairs.after.astype(np.float64) - pairs.before, pairs.cluster)))


def _corrected(groups: Sequence[Flips | None]) -> list[Flips | None]:
    q_values = false_discoveries([None if one is None else one.p_value for one in groups])
    return [
        one if one is None or q is None else replace(one, q_value=q) for one, q in zip(groups, q_values, strict=True)
    ]


def net_change(found: Flips) -> str:
    """Net change in points with its 95 % interval, such as ``-1.1 (-7.4 to +5.2)``."""
    return f"{points(found.net_change)} ({between(found.net_change_interval, points)})"


def _line(found: Flips) -> str:
    net = f"net {points(found.net_change)} points"
    if not math.isnan(found.net_change_interval[0]):
        net += f" ({between(found.net_change_interval, points)})"
    return f"forgotten {count(found.forgotten)}   gained {count(found.gained)}   {net}"


FLIPS: Final = GroupMeasure[Flips](
    key="flips",
    of=lambda rows: count_flips(rows.pairs),
    corrected=_corrected,
    line=_line,
    # Counts of a group without answers are 0, and mean nothing.
    quantities=(
        Quantity("n", lambda r: r.n, "count", heading="questions", tracked="all", tracker="items"),
        Quantity("retained", lambda r: r.retained if r.n else None, "count"),
        Quantity(
            "forgotten",
            lambda r: r.forgotten if r.n else None,
            "count",
            heading="forgotten",
            text=lambda r: count(r.forgotten),
            tracked="category",
        ),
        Quantity(
            "gained",
            lambda r: r.gained if r.n else None,
            "count",
            heading="gained",
            text=lambda r: count(r.gained),
            tracked="all",
        ),
        Quantity("missed", lambda r: r.missed if r.n else None, "count"),
        Quantity(
            "accuracy_before",
            lambda r: r.accuracy_before,
            "share",
            heading="right before",
            text=lambda r: f"{percent(r.accuracy_before)} %",
        ),
        Quantity(
            "accuracy_after",
            lambda r: r.accuracy_after,
            "share",
            heading="right after",
            text=lambda r: f"{percent(r.accuracy_after)} %",
            tracked="all",
            tracker="accuracy",
        ),
        Quantity("forgetting", lambda r: r.forgetting, "share"),
        Quantity("backward_transfer", lambda r: r.backward_transfer, "share"),
        Quantity(
            "net_change",
            lambda r: r.net_change,
            "share",
            low=-1.0,
            heading="net points",
            text=net_change,
            tracked="category",
        ),
        Quantity("forgetting_relative", lambda r: r.forgetting_relative, "share"),
        Quantity("retention", lambda r: r.retention, "share", tracked="all"),
        Ends("forgetting_interval", lambda r: r.forgetting_interval, "share"),
        Ends("backward_transfer_interval", lambda r: r.backward_transfer_interval, "share"),
        Ends("net_change_interval", lambda r: r.net_change_interval, "share", low=-1.0),
        Quantity("p_value", lambda r: r.p_value, "share"),
        Quantity("loss_p_value", lambda r: r.loss_p_value, "share"),
        Quantity("q_value", lambda r: r.q_value, "share", heading="q", text=lambda r: probability(r.q_value)),
        Quantity("effective_n", lambda r: r.effective_n if r.n else None, "count"),
        Quantity("detectable_change", lambda r: r.detectable_change, "share"),
    ),
)
