"""Corrections for guessing, measured by the wrong answers that turn into other wrong answers.

    guess_corrected               changed guesses land right->wrong, wrong->right, wrong->other wrong as 1 : 1 : k-2
    guess_corrected_calibrated    the same with the ratio measured: the share of wrong answers with gold second

Neither is a headline. Each rests on an assumption, and errs in proportion to the correction:

    guess_corrected               a known item is never answered wrong, and a model that does not know chooses gold as
                                  often as each wrong option. Too high where options can be ruled out or are known in
                                  part, too low where wrong options attract
    guess_corrected_calibrated    gold attracts as often as it is the second choice of a wrong answer. Too high where
                                  much is known in part and training moves it, a little too low where wrong ones attract

Nothing is clipped before it is averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.answers import Answers
from forgetwatch.metrics.intervals import Interval, clustered_mean

Floats = NDArray[np.float64]

MAX_SECOND_CHOICE: Final = 0.9
"""Share of wrong answers with gold as the second choice above which nothing can be estimated."""
_Z_BAND: Final = 1.645
"""Standard normal quantile of a one-sided 95 % limit; the band adds it at both ends."""


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
    """Compute right-to-wrong flips minus those that guessing alone would make; None if no item allows it.

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
    """Compute `guess_corrected` with lambda measured: h/(1-h), h = P(gold is second | wrong), within task and k.

    A model that guesses uniformly has h = 1/(k-1), and so lambda = 1/(k-2). Standard errors count h as estimated.
    Items of a task and k whose h is above `MAX_SECOND_CHOICE`, or was never seen, are left out where they need lambda;
    `n` counts the items used. None if there is none, or options have no scores.
    """
    used = answers.take(answers.correctable)
    if used.second_before is None or used.second_after is None or not len(used.k):
        return None
    seen_before, seen_after = np.isfinite(used.second_before), np.isfinite(used.second_after)
    gold_before = np.where(seen_before, used.second_before, 0.0)
    gold_after = np.where(seen_after, used.second_after, 0.0)
    # One stratum for each task, k and number of right options: lambda depends on all three.
    width = np.array([int(used.k.max()) + 1, int(used.golds.max()) + 1])
    stratum = np.unique((used.task * width[0] + used.k) * width[1] + used.golds, return_inverse=True)[1]
    wrong = np.bincount(stratum, weights=seen_before.astype(float) + seen_after)
    gold_second = np.bincount(stratum, weights=gold_before + gold_after)
    churned = np.bincount(stratum, weights=used.wrong_to_other_wrong)
    share = gold_second / np.maximum(wrong, 1)
    # A stratum in which no wrong answer changed needs no lambda, however badly h is known there.
    usable = (churned == 0) | ((wrong > 0) & (share <= MAX_SECOND_CHOICE))
    share[share > MAX_SECOND_CHOICE] = 0.0  # not used: nothing is multiplied with it, and 1 would give 0 / 0
    if not usable.any() or not wrong[usable].any():
        return None
    # Delta method: an item's pull on h of its stratum, times d lambda/d h = 1/(1-h)^2, times the answers that lambda
    # scales. The products have mean 0: they widen the standard error and leave the estimate.
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
    """Average the per-item scores of `guess_corrected`, and their bands.

    Args:
        used: Answers with at least two wrong options.
        rate: lambda of each row, float64 [rows].
        by_second_choice: Term of each score from estimating lambda, with mean 0: it changes the standard error only;
            float64 [rows].
    """
    k, g = used.k.astype(float), used.golds.astype(float)
    # A forgotten item is still guessed right with probability g/k: k/(k-g) scales flips to a wrong option up to all.
    # Right to no answer is a loss, less the lucky guesses among them: g/(k-g) for each wrong guess that became none.
    scale, to_none = k / (k - g), g / (k - g)
    # Both directions take off the same: a changed guess lands right->wrong as often as wrong->right.
    churn = scale * (rate * used.wrong_to_other_wrong + by_second_choice)
    no_before, no_after = used.no_answer_before, used.no_answer_after
    option_before, option_after = ~used.before & ~no_before, ~used.after & ~no_after
    lost = scale * (used.before & option_after) + (used.before & no_after) - to_none * (option_before & no_after)
    won = scale * (option_before & used.after) + (no_before & used.after) - to_none * (no_before & option_after)
    forgetting, forgetting_se = clustered_mean(lost - churn, used.cluster)
    backward_transfer, backward_transfer_se = clustered_mean(won - churn, used.cluster)
    # The band lets guessing make between half and twice the correction; see `Corrected`.
    correction = float(np.mean(rate * used.wrong_to_other_wrong))
    half = 0.5 * float(np.mean(scale * rate * used.wrong_to_other_wrong))
    p10, p01 = float(np.mean(used.before & ~used.after)), float(np.mean(~used.before & used.after))
    return Corrected(
        n=len(k) if used.samples == 1 else len(k) / used.samples,
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        forgetting_se=forgetting_se,
        backward_transfer_se=backward_transfer_se,
        forgetting_band=_band(
            flips=p10, opposite=p01, correction=correction, high=float(lost.mean()) - half, error=forgetting_se
        ),
        backward_transfer_band=_band(
            flips=p01, opposite=p10, correction=correction, high=float(won.mean()) - half, error=backward_transfer_se
        ),
    )


def _band(*, flips: float, opposite: float, correction: float, high: float, error: float) -> Interval:
    """Band of `Corrected` within -1 to 1; nan if the standard error is.

    Args:
        flips: Share of items that flipped in this direction.
        opposite: Share that flipped in the other one.
        correction: Share of flips that guessing is estimated to make.
        high: The corrected rate if guessing made half of that.
        error: Standard error of the corrected rate.
    """
    if math.isnan(error):
        return math.nan, math.nan
    # Guesses win as often as they lose, so guessing made at most the flips in the opposite direction.
    low = max(0.0, flips - min(2 * correction, opposite))
    return max(low - _Z_BAND * error, -1.0), min(high + _Z_BAND * error, 1.0)
