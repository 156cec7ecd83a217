"""The four cells of a group with their rates, intervals and tests, and the outcomes that vanished.

Every group has both; see `metrics.transitions`. An item that was scored on one side and not on the
other has vanished:

    before     after       taken in the worst case as
    right      unscored    forgotten
    wrong      unscored    missed
    unscored   right       retained
    unscored   wrong       forgotten

It is in no cell, because one side is not known. Left at that, a model that loops, crashes its
sandbox or runs past its limit would seem to improve: its wrong answers leave the counts. So
vanished items bound the net change: whatever their outcomes were, accuracy did not fall by more
than in the worst case, and a verdict of PASS has to survive that.

Answers that neither side could score have not vanished, nor have items that a budget leaves out, or
that one of the files does not contain.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.base import Bounds, GroupMeasure, Quantity, Rows, intervals, numbers
from forgetwatch.metrics.intervals import Interval, effective_items, flip_interval, newcombe, wilson
from forgetwatch.metrics.known import TAU, is_known
from forgetwatch.metrics.significance import loss_p_value, mcnemar, sign_flip, smallest_loss
from forgetwatch.metrics.transitions import Bools, Cells, Ints, count_cells, ratio
from forgetwatch.text import between, count, percent, points


@dataclass(frozen=True, kw_only=True)
class Flips(Cells):
    """The four cells, and what follows from them. Intervals are 95 %.

    Attributes:
        effective_n: Number of independent items with the same standard error: below n where items
            come in clusters, above it where independent samples of an item add up.
        forgetting_interval: Of `forgetting` (Wilson; one-sided exact limit for no flips).
        backward_transfer_interval: Of `backward_transfer`, in the same way.
        net_change_interval: Of `net_change`, after minus before (Newcombe, corrected phi).
        p_value: Two-sided mid-p McNemar test of "no net change"; over clusters where there are any.
        loss_p_value: One-sided p-value of "no net loss", for alarms over many looks: exact McNemar;
            over clusters a sign-flip test, with the normal approximation for many clusters.
        vanished_right: Items right before that have no outcome after; they are in no cell.
        vanished_before: Items scored before that have no outcome after.
        guess_accuracy: Accuracy of a model that only guesses, the mean of 1/k, 0 for open answers;
            nan without answers.
    """

    effective_n: float
    forgetting_interval: Interval
    backward_transfer_interval: Interval
    net_change_interval: Interval
    p_value: float
    loss_p_value: float
    vanished_right: float = 0.0
    vanished_before: float = 0.0
    guess_accuracy: float = math.nan

    @property
    def retention(self) -> float:
        """Share of the right items that stay right, 0 to 1.

        Right answers that vanished are not retained: a model that loops must not seem to have kept
        everything. nan if none was right before.
        """
        return ratio(self.retained, self.retained + self.forgotten + self.vanished_right)

    @property
    def little_to_lose(self) -> bool:
        """Was the model before not shown to be better than guessing?

        By Wilson's 95 % interval of the accuracy.
        """
        right, scored = self.right_before
        return bool(scored) and wilson(right, scored)[0] <= self.guess_accuracy

    @property
    def right_before(self) -> tuple[float, float]:
        """Items right before, and items scored before.

        Items that vanished are included.
        """
        right = self.retained + self.forgotten + self.vanished_right
        return right, self.n + self.vanished_before

    def smallest_loss(self, level: float) -> float:
        """Smallest net loss that could have a one-sided p-value of `level`.

        A share of the items, nan if there is none. Exact for independent items, an approximation by
        `effective_n` for clusters.
        """
        worth = self.effective_n / self.n if self.n else 0.0
        flips = round((self.forgotten + self.gained) * worth)
        return smallest_loss(flips, level) / self.effective_n if worth else math.nan


def _of(rows: Rows) -> Flips:
    pairs = rows.pairs
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
        vanished_right=_vanished(rows.unscored, rows.unscored.before),
        vanished_before=_vanished(rows.unscored, rows.unscored.scored_before),
        guess_accuracy=_guess_accuracy(pairs),
    )


def _vanished(unscored: AlignedPairs, which: Bools) -> float:
    gone = int((which & unscored.scored_before & ~unscored.scored_after).sum())
    return gone if unscored.samples == 1 else gone / unscored.samples


def _guess_accuracy(pairs: AlignedPairs) -> float:
    if not len(pairs):
        return math.nan
    return float(np.where(pairs.k > 0, pairs.golds / np.maximum(pairs.k, 1), 0.0).mean())


def net_change(flips: Flips) -> str:
    """Format the net change with a 95 % interval.

    In points, as ``-1.1 (-7.4 to +5.2)``.
    """
    return f"{points(flips.net_change)} ({between(flips.net_change_interval, points)})"


FLIPS: Final = GroupMeasure[Flips](
    key="flips",
    of=_of,
    # Counts of a group without answers are 0, and mean nothing.
    quantities=(
        Quantity("n", lambda r: r.n, "count", heading="questions", tracker="items"),
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
        *numbers("share", "forgetting", "backward_transfer"),
        Quantity("net_change", lambda r: r.net_change, "share", low=-1.0),
        *numbers("share", "forgetting_relative", "retention"),
        *intervals("share", "forgetting_interval", "backward_transfer_interval"),
        Bounds("net_change_interval", lambda r: r.net_change_interval, "share", low=-1.0),
        *numbers("share", "p_value", "loss_p_value"),
        Quantity("effective_n", lambda r: r.effective_n if r.n else None, "count"),
    ),
)

VANISHED_SHARE_NOTED: Final = 0.01
"""Share of the items beyond which vanished ones are named in a note, and keep a verdict open."""


@dataclass(frozen=True, kw_only=True)
class Vanished:
    """Unscored items of a group, and what those that vanished leave possible. Passages are not among them.

    Attributes:
        answers: False if the group has no answer at all, scored or not: then the counts of 0 mean
            nothing.
        unscored_before: Items without an outcome before.
        unscored_after: Items without an outcome after.
        newly_unscored: Items that were scored before and are unscored after.
        vanished: Items that were scored on one side alone, whichever.
        known_vanished: Clearly known items (`metrics.known`) that are unscored after; None if
            nothing shows which were known.
        known_vanished_by_luck: Number of these that luck alone would make: 1/(k-1) for each
            confident wrong answer that is unscored after; 0 without the scores of the options.
        not_finite: Items whose outputs after are not finite, which makes an answer wrong.
        passages_not_finite: Number of these that are passages.
        net_change_interval_worst: 95 % interval of the net change in the worst case: right answers
            that vanished are forgotten, and items that were unscored before were right. Neither end
            is above that of the interval over the other items, which it is if nothing vanished.
    """

    answers: bool
    unscored_before: int
    unscored_after: int
    newly_unscored: int
    vanished: int
    known_vanished: float | None
    known_vanished_by_luck: float
    not_finite: int
    passages_not_finite: int
    net_change_interval_worst: Interval


def _of_vanished(rows: Rows) -> Vanished:
    scored, unscored = rows.pairs, rows.unscored
    interval = newcombe(
        worth_cells(scored.before, scored.after, scored.cluster, samples=scored.samples)
    )
    lost_outcome = unscored.scored_before & ~unscored.scored_after
    new_outcome = unscored.scored_after & ~unscored.scored_before
    items = np.unique(unscored.item[lost_outcome | new_outcome])
    has_share = np.isfinite(unscored.share_before) & (unscored.k - unscored.golds >= 2)
    is_known_item = is_known(unscored.before & lost_outcome, unscored.share_before) & has_share
    known_items = (
        int(is_known_item.sum())
        if unscored.samples == 1
        else int(is_known_item.sum()) / unscored.samples
    )
    has_known = has_share.any() or scored.confidence().measured.any()
    return Vanished(
        answers=bool(len(scored) or len(unscored)),
        unscored_before=len(np.unique(unscored.item[~unscored.scored_before])),
        unscored_after=len(np.unique(unscored.item[~unscored.scored_after])),
        newly_unscored=len(np.unique(unscored.item[lost_outcome])),
        vanished=len(items),
        known_vanished=known_items if has_known else None,
        known_vanished_by_luck=_vanished_luck(unscored.take(lost_outcome)),
        not_finite=len(np.unique(scored.item[scored.not_finite])) + rows.passages_not_finite,
        passages_not_finite=rows.passages_not_finite,
        net_change_interval_worst=_worst(rows, interval) if items.size else interval,
    )


def worth_cells(before: Bools, after: Bools, cluster: Ints | None, *, samples: int) -> Cells:
    """Scale the cells to independent items of equal standard error."""
    cells = count_cells(before, after, samples=samples)
    if cluster is None or not len(before):
        return cells
    return cells.scaled(effective_items(after.astype(np.float64) - before, cluster))


def vanished_rows(rows: Rows) -> AlignedPairs:
    """Rows of the items that were scored on one side alone.

    One sample that vanished takes the others of the item along: all of them are here.

    One sample that vanished takes the others of its item out of the cells with it: all of them are
    here.
    """
    unscored = rows.unscored
    items = unscored.item[unscored.scored_before != unscored.scored_after]
    return unscored.take(
        np.isin(unscored.item, items) & (unscored.scored_before | unscored.scored_after)
    )


def worst_before(vanished: AlignedPairs) -> Bools:
    """Right answers before, in the worst case.

    An item that was unscored before was right.
    """
    return vanished.before | (vanished.scored_after & ~vanished.scored_before)


def worst_cells(rows: Rows) -> Cells:
    """Effective cells of a group in the worst case.

    With the items that vanished, for the net change.
    """
    scored, vanished = rows.pairs, vanished_rows(rows)
    before = np.concatenate([scored.before, worst_before(vanished)])
    after = np.concatenate([scored.after, vanished.after])
    has_clusters = scored.cluster is not None and vanished.cluster is not None
    cluster = np.concatenate([scored.cluster, vanished.cluster]) if has_clusters else None
    return worth_cells(before, after, cluster, samples=scored.samples)


def _vanished_luck(vanished: AlignedPairs) -> float:
    # Clearly known items among those unscored after that luck alone would make.
    options = vanished.options_before
    if options is None or not len(vanished):
        return 0.0
    wrong = vanished.k - vanished.golds
    sure = ~vanished.before & (wrong >= 2) & (options.largest_wrong_share >= TAU)
    return float((vanished.golds[sure] / wrong[sure]).sum()) / vanished.samples


def _worst(rows: Rows, interval: Interval) -> Interval:
    # `interval` is that over the scored items alone.
    worst = newcombe(worst_cells(rows))
    if not len(rows.pairs):
        return worst
    # Wrong answers that vanished cannot be lost, and would bring a net change closer to 0 as
    # further items.
    return min(worst[0], interval[0]), min(worst[1], interval[1])


VANISHED: Final = GroupMeasure[Vanished](
    key="vanished",
    of=_of_vanished,
    quantities=(
        Bounds(
            "net_change_interval_worst", lambda r: r.net_change_interval_worst, "share", low=-1.0
        ),
        Quantity("known_vanished", lambda r: r.known_vanished, "count"),
        Quantity("vanished", lambda r: r.vanished if r.answers else None, "count"),
        Quantity("unscored_before", lambda r: r.unscored_before if r.answers else None, "count"),
        Quantity("unscored_after", lambda r: r.unscored_after if r.answers else None, "count"),
        Quantity("newly_unscored", lambda r: r.newly_unscored if r.answers else None, "count"),
        Quantity(
            "not_finite",
            lambda r: r.not_finite or (0 if r.answers else None),
            "count",
            tracked="where any",
        ),
    ),
)
