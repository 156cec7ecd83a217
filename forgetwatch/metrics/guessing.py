"""Guessing, measured by how often one wrong option becomes another.

    guess_corrected               changed guesses land right->wrong, wrong->right, wrong->other wrong as 1 : 1 : k-2
    guess_corrected_calibrated    the same with the ratio measured: how often gold is the second choice when wrong
    bound                         for 0/1 data: what any balanced guessing leaves possible
    persistence                   diagnostics: do wrong answers stay the same?

None of them is a headline. What each takes for granted, and where it errs, always in proportion to the correction:

    guess_corrected               a known item is never answered wrong, and gold attracts a model that does not know as
                                  much as a wrong option does. Too high where options can be ruled out or are known in
                                  part, too low where wrong options attract
    guess_corrected_calibrated    gold attracts as often as it is the second choice of a wrong answer. Too high where
                                  much is known in part and training moves it, a little too low where wrong ones attract
    bound                         guesses win as often as they lose. The low end is too low where guesses are few, the
                                  high end too high wherever a flip is a guess

Nothing is clipped before it is averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.intervals import Interval, clustered_mean
from forgetwatch.metrics.transitions import ratio

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MAX_SECOND_CHOICE: Final = 0.9
"""Share of wrong answers with gold as the second choice above which nothing can be estimated."""
_Z_BAND: Final = 1.645


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Paired answers to choice items. All arrays [rows]; rows with open answers do not belong here.

    Attributes:
        before: Right before, bool.
        after: Right after, bool.
        chosen_before: Option chosen before; -1 = no answer found.
        chosen_after: Option chosen after; -1 = no answer found.
        k: Number of options.
        golds: Number of right options; 1 for most items.
        task: Code of the task.
        cluster: Rows of one code are one observation; None where every row stands alone.
        second_before: Before, 1 where gold was the second choice of a wrong answer, 0 where it was not, nan where the
            answer was right or options have no scores; None where no option has one.
        second_after: The same, after.
    """

    before: Bools
    after: Bools
    chosen_before: Ints
    chosen_after: Ints
    k: Ints
    golds: Ints
    task: Ints
    cluster: Ints | None = None
    second_before: Floats | None = None
    second_after: Floats | None = None

    def take(self, rows: NDArray[Any]) -> Answers:
        """The answers of some rows."""
        taken = {name: values[rows] for name, values in vars(self).items() if values is not None}
        return replace(self, **taken)

    @property
    def no_answer_before(self) -> Bools:
        """Wrong before because no answer was found."""
        return ~self.before & (self.chosen_before < 0)

    @property
    def no_answer_after(self) -> Bools:
        """Wrong after because no answer was found."""
        return ~self.after & (self.chosen_after < 0)

    @property
    def both_wrong(self) -> Bools:
        """A wrong option before and after, the same or another."""
        return ~(self.before | self.after | self.no_answer_before | self.no_answer_after)

    @property
    def wrong_to_other_wrong(self) -> Bools:
        """A wrong option before and another wrong option after."""
        changed: Bools = self.both_wrong & (self.chosen_before != self.chosen_after)
        return changed

    @property
    def correctable(self) -> Bools:
        """At least two wrong options: a changed guess can land on another wrong one."""
        return self.k - self.golds >= 2


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """Shares of n items that were truly known and are not any more, and the reverse, with standard errors.

    Means of per-item scores, not clipped: a value below 0 is noise around 0. The standard error is that of the sample;
    the band is wider, because it also allows for unknown items that are not guessed as assumed:

        [max(0, p10 - min(2c, p01)) - 1.645 SE,  k/(k-1) (p10 - c/2) + 1.645 SE],  c the correction

    Attributes:
        second_choice: Share of wrong answers whose second choice was gold, if the ratio was measured; None if assumed.
    """

    n: float
    forgetting: float
    backward_transfer: float
    forgetting_se: float
    backward_transfer_se: float
    forgetting_band: Interval
    backward_transfer_band: Interval
    second_choice: float | None = None


def guess_corrected(answers: Answers) -> Corrected | None:
    """Right-to-wrong flips minus those that guessing alone would make; None where no item allows it.

    A changed guess lands right->wrong, wrong->right and wrong->another wrong in the ratio 1 : 1 : (k-2). With
    lambda = 1/(k-2), per item:

        z = k/(k-1) [1{right -> other option} - lambda 1{wrong -> other wrong}]
            + 1{right -> none} - 1{wrong -> none}/(k-1)

    and the mirror image for backward transfer. With g right options k becomes k/g and lambda g/(k-g-1).
    Needs logged options and k >= 3. Assumes that a known item is never answered wrong, and that gold is as attractive
    as a wrong option to a model that does not know; it assumes nothing about persistence or position bias.
    """
    used = answers.take(answers.correctable)
    if not len(used.k):
        return None
    rate = used.golds / (used.k - used.golds - 1.0)
    return _corrected(used, rate, by_second_choice=0.0)


def guess_corrected_calibrated(answers: Answers) -> Corrected | None:
    """`guess_corrected` with lambda measured: h/(1-h), h = P(gold is the second choice | wrong), within task and k.

    A model that guesses uniformly has h = 1/(k-1), and so lambda = 1/(k-2). Standard errors count h as estimated.
    Items of a task and k whose h is above `MAX_SECOND_CHOICE`, or was never seen, are left out where they need lambda;
    `n` says how many are in. None where no item is, or options have no scores.
    """
    used = answers.take(answers.correctable)
    if used.second_before is None or used.second_after is None or not len(used.k):
        return None
    seen_before, seen_after = np.isfinite(used.second_before), np.isfinite(used.second_after)
    gold_before = np.where(seen_before, used.second_before, 0.0)
    gold_after = np.where(seen_after, used.second_after, 0.0)
    width = np.array([int(used.k.max()) + 1, int(used.golds.max()) + 1])
    stratum = np.unique((used.task * width[0] + used.k) * width[1] + used.golds, return_inverse=True)[1]
    wrong = np.bincount(stratum, weights=seen_before.astype(float) + seen_after)
    gold_second = np.bincount(stratum, weights=gold_before + gold_after)
    churned = np.bincount(stratum, weights=used.wrong_to_other_wrong)
    share = gold_second / np.maximum(wrong, 1)
    usable = (churned == 0) | ((wrong > 0) & (share <= MAX_SECOND_CHOICE))
    share[~usable | (wrong == 0) | (share > MAX_SECOND_CHOICE)] = 0.0  # not used: nothing is multiplied with it
    if not usable.any() or not wrong[usable].any():
        return None
    # How far each item's own second choices moved h, and h moved the correction.
    pull = np.where(seen_before, gold_before - share[stratum], 0.0) + np.where(
        seen_after, gold_after - share[stratum], 0.0
    )
    weight = churned / (1 - share) ** 2 / np.maximum(wrong, 1)
    keep = usable[stratum]
    corrected = _corrected(
        used.take(keep), (share / (1 - share))[stratum][keep], by_second_choice=(weight[stratum] * pull)[keep]
    )
    return replace(corrected, second_choice=float(gold_second[usable].sum() / wrong[usable].sum()))


def _corrected(used: Answers, rate: Floats, *, by_second_choice: Floats | float) -> Corrected:
    """The per-item scores with lambda = `rate` [rows]; `by_second_choice` has mean 0 and counts for the error only."""
    k, g = used.k.astype(float), used.golds.astype(float)
    scale, to_none = k / (k - g), g / (k - g)
    churn = scale * (rate * used.wrong_to_other_wrong + by_second_choice)
    no_before, no_after = used.no_answer_before, used.no_answer_after
    option_before, option_after = ~used.before & ~no_before, ~used.after & ~no_after
    lost = scale * (used.before & option_after) + (used.before & no_after) - to_none * (option_before & no_after)
    won = scale * (option_before & used.after) + (no_before & used.after) - to_none * (no_before & option_after)
    forgetting, forgetting_se = clustered_mean(lost - churn, used.cluster)
    backward_transfer, backward_transfer_se = clustered_mean(won - churn, used.cluster)
    correction = float(np.mean(rate * used.wrong_to_other_wrong))
    half = 0.5 * float(np.mean(scale * rate * used.wrong_to_other_wrong))
    p10, p01 = float(np.mean(used.before & ~used.after)), float(np.mean(~used.before & used.after))
    return Corrected(
        n=len(k) if used.cluster is None else len(np.unique(used.cluster)),
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        forgetting_se=forgetting_se,
        backward_transfer_se=backward_transfer_se,
        forgetting_band=_band(p10, p01, correction, float(lost.mean()) - half, forgetting_se),
        backward_transfer_band=_band(p01, p10, correction, float(won.mean()) - half, backward_transfer_se),
    )


def _band(flips: float, back: float, correction: float, high: float, error: float) -> Interval:
    """See `Corrected`; within -1 to 1, nan where the standard error is."""
    if math.isnan(error):
        return math.nan, math.nan
    low = max(0.0, flips - min(2 * correction, back))
    return max(low - _Z_BAND * error, -1.0), min(high + _Z_BAND * error, 1.0)


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Lowest and highest true rate that balanced guessing allows, for forgetting and backward transfer.

    The intervals add 1.645 standard errors at each end: 95 % for either end.
    """

    forgetting: Interval
    backward_transfer: Interval
    forgetting_interval: Interval
    backward_transfer_interval: Interval


def bound(before: Bools, after: Bools, k: Ints, golds: Ints, *, cluster: Ints | None = None) -> Bound | None:
    """[max(0, p10 - p01), mean of k/(k-g) over 1->0], and its mirror image; None where no row has a wrong option.

    g is the number of right options. The lower end is the net loss: it needs only balanced flips by chance.

    Args:
        before: Right before, bool [rows].
        after: Right after, bool [rows].
        k: Number of options [rows]; rows with no wrong option do not take part.
        golds: Number of right options [rows].
        cluster: Code of each row's cluster, int64 [rows]; None where every row stands alone.
    """
    takes_part = k > golds
    if not takes_part.any():
        return None
    before, after = before[takes_part], after[takes_part]
    cluster = None if cluster is None else cluster[takes_part]
    scale = k[takes_part] / (k[takes_part] - golds[takes_part]).astype(float)
    lost, won = before & ~after, ~before & after
    net, net_se = clustered_mean(lost.astype(float) - won, cluster)
    high_lost, high_won = clustered_mean(scale * lost, cluster), clustered_mean(scale * won, cluster)
    forgetting, forgetting_interval = _ends(net, net_se, *high_lost)
    backward_transfer, backward_transfer_interval = _ends(-net, net_se, *high_won)
    return Bound(
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        forgetting_interval=forgetting_interval,
        backward_transfer_interval=backward_transfer_interval,
    )


def _ends(net: float, net_se: float, high: float, high_se: float) -> tuple[Interval, Interval]:
    ends = (max(0.0, net), min(1.0, high))
    if math.isnan(net_se):
        return ends, (math.nan, math.nan)
    return ends, (max(0.0, net - _Z_BAND * net_se), min(1.0, high + _Z_BAND * high_se))


@dataclass(frozen=True, kw_only=True)
class Persistence:
    """How much wrong answers stay the same: the diagnostics beside the corrections.

    Attributes:
        same_wrong: Share of the items wrong before and after that kept their wrong option; nan where there is none.
        same_wrong_se: Its standard error.
        same_wrong_if_fresh: The share that uniform fresh guesses would keep. Far below `same_wrong`: guesses persist,
            or wrong options are not equally attractive.
        tipping_ratio: How much more attractive than a wrong option gold would have to be, when unknown, for guessing
            to explain all forgetting: up to 1 nothing is left, 1 to 3 fragile, above 3 robust; inf where no wrong
            option changed.
    """

    same_wrong: float
    same_wrong_se: float
    same_wrong_if_fresh: float
    tipping_ratio: float


def persistence(answers: Answers) -> Persistence:
    """The diagnostics of `Persistence`, over the rows with logged options."""
    both = answers.both_wrong & (answers.k >= 2)
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
    """1->0 flips over what one wrong option turning into another lets expect of them; nan where neither happened.

    R = p10 (k-2)/D, added up over unlike k; see `Persistence`.
    """
    used = answers.correctable
    rate = answers.golds / np.maximum(answers.k - answers.golds - 1, 1)
    expected = float(np.sum((rate * answers.wrong_to_other_wrong)[used]))
    flips = int((answers.before & ~answers.after & ~answers.no_answer_after)[used].sum())
    return ratio(flips, expected) if expected else (math.inf if flips else math.nan)
