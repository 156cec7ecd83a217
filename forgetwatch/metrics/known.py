"""Losses of known items, less what luck makes, and losses of form apart from losses of knowledge.

Known items:

    right before with a share of at least TAU on the right option        known       wrong now: known_lost
    wrong before with a share of at least TAU on some wrong option       its mirror  on another wrong option now

A confident answer of a model that does not know is right now and then, and such a guess moves as
others do. If the right option attracts that model as a wrong one does, a confident guess is right
once for every k-1 times it is wrong, and a guess that changes goes from right to wrong and from
wrong to another wrong option in the ratio 1 : k-2. The confident wrong answers therefore measure
the luck among the known items, with no further measurement:

    known_by_luck       sum of 1/(k-1) over the confident wrong answers
    known_lost_by_luck  sum of 1/(k-2) over those that have moved to another wrong option
    known_net           known - known_by_luck
    lost_net      known_lost - known_lost_by_luck
    newly_known_net     the same with before and after swapped

With g right options the weights are g/(k-g) and g/(k-g-1). Confident wrong answers that are right
now do not count: training may have taught them. Items with fewer than two wrong options take no
part: their answers cannot move from one wrong option to another.

The interval of `lost_net` combines Wilson's intervals of the two counts (Zou and Donner 2008), as
Newcombe's does for the net change. A normal interval of the difference covers less than 90 % where
few items are lost and k is large.

Derived for this project. Keys drawn at random give a net of 0. It is too low where wrong options
tempt, as misconceptions do, and too high where options can be ruled out or are known in part.

A loss of form is not a loss of knowledge. One rule decides for each answer:

    scored choices     still the likeliest option, but the answer would begin otherwise    form
                       another option, only because all options together became likelier
                       or less likely, and a length divides the score                      form
                       another option is likelier now                                      knowledge
    generated answers  right before in the required form, now in none, and the option
                       still scores highest                                                form
                       wrong now in any other way                                          knowledge

If the choices of a generated answer were not scored too (open answers have none), an answer in no
form counts as a loss of form: nothing shows whether the knowledge is still there.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.intervals import Interval, combined_width, effective_items, wilson
from forgetwatch.metrics.transitions import Bools, Floats, Ints, over_samples

TAU: Final = 0.8
"""Share of the options' probability from which an answer is confident.

Chosen on real fine-tunings of a model with 135M weights (benchmarks/real_model/results.md): of .5
to .95 the value with the largest median z of `lost_net` on damage among those for which keys drawn
at random give nothing, and for which z stays below 1.96 at every dose at which neither accuracy nor
the calibrated log score fell. Lower values see more, and also read partial knowledge that moves as
loss.
"""

DEFINITION: Final = "k>=3, share>=tau"
"""Definition of a known item, as the JSON document names it."""

FEWEST_KNOWN: Final = 20
"""Smallest `known_net` of which a share is given."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Confidence:
    """Confidence of the answers of some items, before and after. Arrays are [rows].

    Attributes:
        share_before: Share of the right options before, 0 to 1; nan where it was not measured.
        share_after: The same, after.
        wrong_share: Largest share of one wrong option before, 0 to 1; nan where the options have no
            scores on both sides. None if no row has them.
        other_wrong: Wrong before and after, on different options.
        k: Number of options; -1 for open answers.
    """

    before: Bools
    after: Bools
    share_before: Floats
    share_after: Floats
    wrong_share: Floats | None
    other_wrong: Bools
    k: Ints
    golds: Ints
    cluster: Ints | None = None
    wrong_share_after: Floats | None = None

    def take(self, rows: NDArray[Any]) -> Self:
        """Select the confidence of some rows."""
        return replace(
            self, **{name: x[rows] for name, x in vars(self).items() if isinstance(x, np.ndarray)}
        )

    @property
    def reversed(self) -> Self:
        """The same items with before and after swapped."""
        return replace(
            self,
            before=self.after,
            after=self.before,
            share_before=self.share_after,
            share_after=self.share_before,
            wrong_share=self.wrong_share_after,
            wrong_share_after=self.wrong_share,
        )

    @property
    def measured(self) -> Bools:
        """Rows that take part, bool [rows].

        At least two wrong options, and shares on both sides.

        If some rows have the scores of their options, rows with a share alone have no mirror, and
        take no part.
        """
        is_measured: Bools = (
            np.isfinite(self.share_before)
            & np.isfinite(self.share_after)
            & (self.k - self.golds >= 2)
        )
        return (
            is_measured if self.wrong_share is None else is_measured & np.isfinite(self.wrong_share)
        )

    @property
    def known(self) -> Bools:
        """Known items that take part, bool [rows]."""
        return is_known(self.before, self.share_before) & self.measured

    def luck(self, tau: float = TAU) -> tuple[Floats, Floats]:
        """Weights of each confident wrong answer, float64 [rows] each.

        The first is g/(k-g). The second is g/(k-g-1) if the answer moved to another wrong option,
        else 0. Both are 0 for all other rows.
        """
        if self.wrong_share is None:
            raise ValueError(
                "confident wrong answers need the largest share of one wrong option, and there "
                "is none"
            )
        mirror = self.measured & ~self.before & (self.wrong_share >= tau)
        wrong = np.maximum(
            self.k - self.golds, 2
        )  # rows that take part have at least 2 wrong options
        of_known = np.where(mirror, self.golds / wrong, 0.0)
        return of_known, np.where(mirror & self.other_wrong, self.golds / (wrong - 1.0), 0.0)


@dataclass(frozen=True, kw_only=True)
class NetCounts:
    """Shares of some items that are lost, and that luck moved, for the interval of their difference.

    Attributes:
        lost: Share of the items that are known and lost.
        moved: Share of the items that are confidently wrong and moved to another wrong option.
        weight: Lost items that luck makes for each of these.
        worth: Number of independent items with the same standard error.
        items: Number of items.
    """

    lost: float
    moved: float
    weight: float
    worth: float
    items: float

    def interval(self, level: float) -> Interval:
        """Interval of the lost items net of luck, in items."""
        low_lost, high_lost = wilson(self.lost * self.worth, self.worth, level=level)
        low_moved, high_moved = wilson(self.moved * self.worth, self.worth, level=level)
        # One item cannot be both, so the two shares are negatively correlated.
        product = self.lost * self.moved
        phi = -math.sqrt(product / ((1 - self.lost) * (1 - self.moved))) if product else 0.0
        net = self.lost - self.weight * self.moved
        below = combined_width(self.lost - low_lost, self.weight * (high_moved - self.moved), phi)
        above = combined_width(high_lost - self.lost, self.weight * (self.moved - low_moved), phi)
        return (net - below) * self.items, (net + above) * self.items


@dataclass(frozen=True, kw_only=True)
class Known:
    """Counts of known items, of those lost, and of what luck makes of both; means over samples.

    Attributes:
        known: Items right before with a share of at least `TAU`.
        known_lost: Those of them that are wrong now.
        newly_known: Items wrong before and right now with a share of at least `TAU`, including
            lucky guesses.
        known_by_luck: Number of known items that luck alone would make; None, as the next two, if
            luck could not be estimated.
        known_lost_by_luck: Number of lost items that luck alone would make.
        lost_net_counts: What the interval of `lost_net` follows from.
        newly_known_net: Newly known items minus those that luck would make; None without the scores
            of all options, and if no answer is wrong after.
        newly_known_net_interval: Its 95 % interval, in items.
        why_no_net: Reason for which there is no mirror; None if there is one.
        independent: Number of independent observations among the known; infinite where every item
            is one.
    """

    known: float
    known_lost: float
    newly_known: float
    known_by_luck: float | None = None
    known_lost_by_luck: float | None = None
    lost_net_counts: NetCounts | None = None
    newly_known_net: float | None = None
    newly_known_net_interval: Interval | None = None
    why_no_net: str | None = None
    independent: float = math.inf

    @property
    def known_net(self) -> float | None:
        """Known items net of luck.

        Returns:
            The number, or None if luck could not be estimated.
        """
        return None if self.known_by_luck is None else self.known - self.known_by_luck

    @property
    def lost_net(self) -> float | None:
        """Known and lost items net of luck.

        Returns:
            The number, or None if luck could not be estimated.
        """
        return (
            None if self.known_lost_by_luck is None else self.known_lost - self.known_lost_by_luck
        )

    @property
    def lost_net_interval(self) -> Interval | None:
        """95 % interval of `lost_net`, in items."""
        return None if self.lost_net_counts is None else self.lost_net_counts.interval(0.95)

    @property
    def lost_net_share(self) -> float | None:
        """`lost_net` as a share of `known_net`.

        At least `FEWEST_KNOWN` are needed, and as many independent observations among them.

        Returns:
            The share, or None if luck is unknown or too few are known.
        """
        known_net, lost = self.known_net, self.lost_net
        if known_net is None or lost is None or min(known_net, self.independent) < FEWEST_KNOWN:
            return None
        return lost / known_net

    @property
    def lost_net_share_interval(self) -> Interval | None:
        """95 % interval of `lost_net_share`.

        `known_net` is taken as fixed; None where that share is None.
        """
        return self.lost_net_share_at(0.95)

    def lost_net_share_at(self, level: float) -> Interval | None:
        """Interval of `lost_net_share` at a level, 0 to 1.

        Returns:
            The interval, or None where that share is None.
        """
        known_net = self.known_net
        if self.lost_net_share is None or known_net is None or self.lost_net_counts is None:
            return None
        low, high = self.lost_net_counts.interval(level)
        return low / known_net, high / known_net


def is_known(right: Bools, share: Floats, tau: float = TAU) -> Bools:
    """Right with a share of at least `tau`, bool [rows]?

    The share is on the right options; False for nan.
    """
    is_known_item: Bools = right & (share >= tau)
    return is_known_item


def count_known(items: Confidence, *, samples: int = 1, tau: float = TAU) -> Known | None:
    """Count known and lost items, and what luck makes of them.

    `tau` is the share from which an answer is confident; other values than the default are for
    choosing it.

    Returns:
        The counts, or None if no row takes part (`Confidence.measured`).
    """
    used = items.take(items.measured)
    if not len(used.k):
        return None
    known_items, gained = (
        is_known(used.before, used.share_before, tau),
        is_known(used.after, used.share_after, tau),
    )
    lost, won = known_items & ~used.after, gained & ~used.before
    counts = Known(
        known=over_samples(int(known_items.sum()), samples),
        known_lost=over_samples(int(lost.sum()), samples),
        newly_known=over_samples(int(won.sum()), samples),
        independent=math.inf if used.cluster is None else len(np.unique(used.cluster[known_items])),
    )
    if used.wrong_share is None:
        return replace(
            counts,
            why_no_net="the options chosen, or the scores of the options, are not recorded on both sides",
        )
    newly = None if used.wrong_share_after is None else _less_luck(won, used.reversed, tau, samples)
    if newly is not None:
        counts = replace(
            counts, newly_known_net=newly.net, newly_known_net_interval=newly.counts.interval(0.95)
        )
    less_luck = _less_luck(lost, used, tau, samples)
    if less_luck is None:
        return replace(counts, why_no_net="no answer was wrong before")
    return replace(
        counts,
        known_by_luck=less_luck.known_by_luck,
        known_lost_by_luck=less_luck.lost_by_luck,
        lost_net_counts=less_luck.counts,
    )


@dataclass(frozen=True, kw_only=True)
class _LessLuck:
    """Known and lost items less luck, in items, with what their interval follows from and the parts that luck makes."""

    net: float
    counts: NetCounts
    known_by_luck: float
    lost_by_luck: float


def _less_luck(lost: Bools, used: Confidence, tau: float, samples: int) -> _LessLuck | None:
    # Without an answer that was wrong before there is no mirror.
    if used.before.all():
        return None
    known_by_luck, lost_by_luck = used.luck(tau)
    largest_weight = float((used.golds / (used.k - used.golds - 1.0))[~used.before].max())
    return _LessLuck(
        net=(float(lost.sum()) - float(lost_by_luck.sum())) / samples,
        counts=_net_counts(
            lost, lost_by_luck, used.cluster, largest_weight=largest_weight, samples=samples
        ),
        known_by_luck=float(known_by_luck.sum()) / samples,
        lost_by_luck=float(lost_by_luck.sum()) / samples,
    )


def _net_counts(
    lost: Bools, by_luck: Floats, cluster: Ints | None, *, largest_weight: float, samples: int
) -> NetCounts:
    # `by_luck` has the weights of the mirrored that moved.
    rows, total = len(lost), float(by_luck.sum())
    # The items of one weight that have the sum and the variance of the mirrored ones.
    weight = float(by_luck @ by_luck) / total if total else largest_weight
    worth = rows if cluster is None else effective_items(lost - by_luck, cluster)
    return NetCounts(
        lost=float(lost.mean()),
        moved=total / weight / rows,
        weight=weight,
        worth=worth,
        items=rows / samples,
    )


Loss = Literal["form", "knowledge"]


@dataclass(frozen=True)
class Losses:
    """Numbers of losses by kind, in items.

    Attributes:
        format_lost: Answers that are no longer in their form, without evidence that the knowledge
            is gone.
        knowledge_lost: Answers right before and wrong now, not by their form.
    """

    format_lost: float
    knowledge_lost: float


def lost_form(
    before: Bools,
    after: Bools,
    form_before: Floats,
    form_after: Floats,
    forced_after: Floats,
    *,
    constant_mass: Floats | None = None,
) -> Bools:
    """Answers that lost the form alone, bool [rows].

    An answer that was right, is wrong, and is not among them lost its knowledge, as far as anything
    shows.

    Args:
        before: Right before, bool [rows].
        after: The same, after.
        form_before: 1 where the answer was in its form, 0 where not, nan where not measured,
            float64 [rows]. For scored choices: 1 where the model would have begun with the right
            answer.
        form_after: The same, after.
        forced_after: 1 where the right option of a generated answer scores highest, 0 where not,
            nan where not known, float64 [rows]. For scored choices: 1 where the answer is right.
        constant_mass: 1 where a scored choice would be right after, had its options kept their
            total probability, 0 where not, nan where no score divided by a length decides, float64
            [rows]; None for nowhere. See `metrics.choices.right_at_constant_mass`.
    """
    # An unknown forced answer counts as kept: a loss of knowledge needs evidence.
    kept = after | (forced_after == 1.0) | np.isnan(forced_after)
    lost: Bools = before & (form_before == 1.0) & (form_after == 0.0) & kept
    return lost if constant_mass is None else lost | (before & ~after & (constant_mass == 1.0))


def count_losses(before: Bools, after: Bools, form: Bools, *, samples: int = 1) -> Losses:
    """Count losses of form and losses of knowledge."""
    return Losses(float(form.sum()) / samples, float((before & ~after & ~form).sum()) / samples)
