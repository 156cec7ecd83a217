"""Vanished outcomes: items that were scored on one side of a comparison and not on the other.

    before     after       taken in the worst case as
    right      unscored    forgotten
    wrong      unscored    missed
    unscored   right       retained
    unscored   wrong       forgotten

They are in no cell, because one side is not known. Left at that, a model that loops, crashes its sandbox or runs past
its limit would seem to improve: its wrong answers leave the counts. So they bound the net change: whatever the missing
outcomes were, accuracy did not fall by more than in the worst case, and a verdict of PASS has to survive that.

Answers that neither side could score have not vanished, nor have items that a budget leaves out, or that one of the
files does not contain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from forgetwatch.measures.base import Ends, GroupMeasure, Quantity, Rows
from forgetwatch.measures.flips import net_interval
from forgetwatch.metrics import Interval, count_cells, effective_items, is_known, newcombe
from forgetwatch.pairing import AlignedPairs

NOTED: Final = 0.01
"""Share of the items beyond which vanished ones are named in a note, and keep a verdict open."""


@dataclass(frozen=True, kw_only=True)
class Vanished:
    """Unscored items of a group, and what those that vanished leave possible. Passages are not among them.

    Attributes:
        answers: False if the group has no answer at all, scored or not: then the counts of 0 mean nothing.
        unscored_before: Items without an outcome before.
        unscored_after: Items without an outcome after.
        newly_unscored: Items that were scored before and are unscored after.
        vanished: Items that were scored on one side alone, whichever.
        known_vanished: Clearly known items (`metrics.known`) that are unscored after; None if nothing shows which were
            known.
        net_change_interval_worst: 95 % interval of the net change in the worst case: right answers that vanished are
            forgotten, and items that were unscored before were right. Neither end is above that of the interval over
            the other items, which it is if nothing vanished.
    """

    answers: bool
    unscored_before: int
    unscored_after: int
    newly_unscored: int
    vanished: int
    known_vanished: float | None
    net_change_interval_worst: Interval


def _of(rows: Rows) -> Vanished:
    scored, unscored = rows.pairs, rows.unscored
    interval = net_interval(scored)
    lost_outcome = unscored.scored_before & ~unscored.scored_after
    new_outcome = unscored.scored_after & ~unscored.scored_before
    items = np.unique(unscored.item[lost_outcome | new_outcome])
    has_share = np.isfinite(unscored.share_before) & (unscored.k - unscored.golds >= 2)
    known = is_known(unscored.before & lost_outcome, unscored.share_before) & has_share
    known_items = int(known.sum()) if unscored.samples == 1 else int(known.sum()) / unscored.samples
    has_known = has_share.any() or scored.confidence().measured.any()
    # One sample that vanished takes the others of its item out of the cells with it: all are back in the worst case.
    back = np.isin(unscored.item, items) & (unscored.scored_before | unscored.scored_after)
    return Vanished(
        answers=bool(len(scored) or len(unscored)),
        unscored_before=len(np.unique(unscored.item[~unscored.scored_before])),
        unscored_after=len(np.unique(unscored.item[~unscored.scored_after])),
        newly_unscored=len(np.unique(unscored.item[lost_outcome])),
        vanished=len(items),
        known_vanished=known_items if has_known else None,
        net_change_interval_worst=_worst(scored, unscored.take(back), interval) if items.size else interval,
    )


def _worst(scored: AlignedPairs, vanished: AlignedPairs, interval: Interval) -> Interval:
    """Interval of the net change over both, each missing outcome being the one that lowers it most.

    Args:
        scored: The pairs that were scored on both sides.
        vanished: The pairs of the items that vanished.
        interval: Interval of the net change over `scored`.
    """
    was_right = vanished.before | (vanished.scored_after & ~vanished.scored_before)
    before, after = np.concatenate([scored.before, was_right]), np.concatenate([scored.after, vanished.after])
    cells = count_cells(before, after, samples=scored.samples)
    if scored.cluster is not None and vanished.cluster is not None:
        change = after.astype(np.float64) - before
        cells = cells.scaled(effective_items(change, np.concatenate([scored.cluster, vanished.cluster])))
    worst = newcombe(cells)
    if not len(scored):
        return worst
    # Wrong answers that vanished cannot be lost, and would bring a net change closer to 0 as further items.
    return min(worst[0], interval[0]), min(worst[1], interval[1])


VANISHED: Final = GroupMeasure[Vanished](
    key="vanished",
    of=_of,
    quantities=(
        Ends("net_change_interval_worst", lambda r: r.net_change_interval_worst, "share", low=-1.0),
        Quantity("known_vanished", lambda r: r.known_vanished, "count"),
        Quantity("vanished", lambda r: r.vanished if r.answers else None, "count"),
        Quantity("unscored_before", lambda r: r.unscored_before if r.answers else None, "count"),
        Quantity("unscored_after", lambda r: r.unscored_after if r.answers else None, "count"),
        Quantity("newly_unscored", lambda r: r.newly_unscored if r.answers else None, "count", tracked="all"),
    ),
)
