"""The most that guessing could explain: a bound from right and wrong alone, and diagnostics of wrong answers.

bound            from the net loss to k/(k-1) times all flips. Assumes only that guesses win as often as they lose;
                 the low end is too low where guesses are few, the high end too high wherever a flip is a guess
persistence      share of wrong answers that stay the same, and the share that fresh guesses would keep
tipping_ratio    attraction that gold, when unknown, would need for guessing to explain all forgetting
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.answers import Answers
from forgetwatch.metrics.intervals import Interval, clustered_mean
from forgetwatch.metrics.transitions import ratio

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

_Z_END: Final = 1.645
"""Standard normal quantile of a one-sided 95 % limit."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Lowest and highest true rates that balanced guessing allows, for forgetting and backward transfer.

    The intervals add 1.645 standard errors at each end: 95 % for either end.
    """

    forgetting: Interval
    backward_transfer: Interval
    forgetting_interval: Interval
    backward_transfer_interval: Interval


def bound(before: Bools, after: Bools, k: Ints, golds: Ints, *, cluster: Ints | None = None) -> Bound | None:
    """Compute [max(0, p10 - p01), mean of k/(k-g) over 1->0], and its mirror image; None if no row has a wrong option.

    g is the number of right options. The lower end is the net loss: it needs only balanced flips by chance.

    Args:
        before: Right before, bool [rows].
        after: Right after, bool [rows].
        k: Number of options [rows]; rows with no wrong option do not take part.
        golds: Number of right options [rows].
        cluster: Code of each row's cluster, int64 [rows]; None if every row is independent.
    """
    takes_part = k > golds
    if not takes_part.any():
        return None
    before, after = before[takes_part], after[takes_part]
    cluster = None if cluster is None else cluster[takes_part]
    # A forgotten item is still guessed right with g/k: at most k/(k-g) times the observed flips were forgotten.
    scale = k[takes_part] / (k[takes_part] - golds[takes_part]).astype(float)
    lost, won = before & ~after, ~before & after
    net, net_se = clustered_mean(lost.astype(float) - won, cluster)
    high_lost, high_won = clustered_mean(scale * lost, cluster), clustered_mean(scale * won, cluster)
    forgetting, forgetting_interval = _ends(net=net, net_se=net_se, high=high_lost[0], high_se=high_lost[1])
    backward_transfer, backward_transfer_interval = _ends(
        net=-net, net_se=net_se, high=high_won[0], high_se=high_won[1]
    )
    return Bound(
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        forgetting_interval=forgetting_interval,
        backward_transfer_interval=backward_transfer_interval,
    )


def _ends(*, net: float, net_se: float, high: float, high_se: float) -> tuple[Interval, Interval]:
    """Both ends of the bound within 0 to 1, and the same with 1.645 standard errors added; nan without an error."""
    ends = (max(0.0, net), min(1.0, high))
    if math.isnan(net_se):
        return ends, (math.nan, math.nan)
    return ends, (max(0.0, net - _Z_END * net_se), min(1.0, high + _Z_END * high_se))


@dataclass(frozen=True, kw_only=True)
class Persistence:
    """Diagnostics of wrong answers that stay the same.

    Attributes:
        same_wrong: Share of the items wrong before and after that kept their wrong option; nan if there is none.
        same_wrong_se: Its standard error.
        same_wrong_if_fresh: The share that uniform fresh guesses would keep. If it is far below `same_wrong`,
            guesses persist, or wrong options are not equally attractive.
        tipping_ratio: Attraction of gold relative to a wrong option that guessing would need, when gold is unknown, to
            explain all forgetting: up to 1 nothing is left, 1 to 3 fragile, above 3 robust; inf if no wrong option
            changed.
    """

    same_wrong: float
    same_wrong_se: float
    same_wrong_if_fresh: float
    tipping_ratio: float


def persistence(answers: Answers) -> Persistence:
    """Compute the diagnostics of `Persistence` over the rows with logged options."""
    both = answers.both_wrong & (answers.k >= 2)
    # A fresh guess that misses gold repeats the earlier wrong option with 1/(k-g).
    fresh = 1.0 / np.maximum(answers.k - answers.golds, 1)[both]
    kept = ~answers.wrong_to_other_wrong[both]
    same_wrong, same_wrong_se = clustered_mean(
        kept.astype(float), None if answers.cluster is None else answers.cluster[both]
    )
    return Persistence(
        same_wrong=same_wrong,
        same_wrong_se=same_wrong_se,
        same_wrong_if_fresh=float(fresh.mean()) if fresh.size else math.nan,
        tipping_ratio=tipping_ratio(answers),
    )


def tipping_ratio(answers: Answers) -> float:
    """Ratio of 1->0 flips to those expected from wrong options that turned into others; nan if neither happened.

    R = p10 (k-2)/D, with D = p(wrong -> other wrong), and sums over the items if k differs; see `Persistence`.
    """
    used = answers.correctable
    # Among k-g wrong options a changed wrong guess lands on another one k-g-1 times for g times on a right one.
    rate = answers.golds / np.maximum(answers.k - answers.golds - 1, 1)
    expected = float(np.sum((rate * answers.wrong_to_other_wrong)[used]))
    flips = int((answers.before & ~answers.after & ~answers.no_answer_after)[used].sum())
    return ratio(flips, expected) if expected else (math.inf if flips else math.nan)
