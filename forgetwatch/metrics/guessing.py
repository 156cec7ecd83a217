"""Corrections for guessing: how many flips are guesses that changed, and not knowledge lost.

    guess_corrected               changed guesses land right->wrong, wrong->right, wrong->other wrong as 1 : 1 : k-2
    paper, as_released            the chance adjustment of arXiv 2510.17776, and the rule of its released code

None is a headline. Each rests on an assumption, and the corrections err in proportion to what they
subtract:

    guess_corrected               a known item is never answered wrong, and a model that does not know chooses gold as
                                  often as each wrong option. Too high where options can be ruled
                                  out or are known in part, too low where wrong options attract
    paper                         being unknown before and being unknown after are independent

The adjustment of Harmon et al. 2025, arXiv 2510.17776, is

    acc = true + x, x = (1 - acc)/(k - 1)          an item is known, or guessed uniformly among k
    F_true = F - (1 - acc)(1 - acc')/(k - 1)       two independent guesses flip that often

Most unknown items are the same ones before and after: with fresh guesses it reports 4.7 % at k = 4
if nothing was forgotten and half is known; with guesses that persist it subtracts flips that never
happened.

Nothing is clipped here; `comparing.comparison` clips the paper's means of tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.intervals import NOTHING, Interval, clustered_mean, mean_interval
from forgetwatch.metrics.transitions import Bools, Floats, Ints, over_samples, ratio

_Z_ENDS: Final = 1.645
"""Standard normal quantile of a one-sided 95 % limit; bands and bounds add it at both ends."""


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Paired answers to choice items, without open answers. All arrays are [rows].

    Attributes:
        chosen_before: Option chosen before; -1 = no answer found.
        chosen_after: The same, after.
        task: Code of the task.
    """

    before: Bools
    after: Bools
    chosen_before: Ints
    chosen_after: Ints
    k: Ints
    golds: Ints
    task: Ints
    cluster: Ints | None = None
    samples: int = 1

    def take(self, rows: NDArray[Any]) -> Answers:
        """Select the answers of some rows."""
        taken = {
            name: values[rows]
            for name, values in vars(self).items()
            if isinstance(values, np.ndarray)
        }
        return replace(self, **taken)

    @property
    def no_answer_before(self) -> Bools:
        """Wrong before because no answer was found, bool [rows]."""
        return ~self.before & (self.chosen_before < 0)

    @property
    def no_answer_after(self) -> Bools:
        """Wrong after because no answer was found, bool [rows]."""
        return ~self.after & (self.chosen_after < 0)

    @property
    def both_wrong(self) -> Bools:
        """A wrong option before and after, bool [rows]."""
        return ~(self.before | self.after | self.no_answer_before | self.no_answer_after)

    @property
    def wrong_to_other_wrong(self) -> Bools:
        """A wrong option before and another after, bool [rows]."""
        changed: Bools = self.both_wrong & (self.chosen_before != self.chosen_after)
        return changed

    @property
    def correctable(self) -> Bools:
        """Rows with at least two wrong options, bool [rows].

        A changed guess can then land on another wrong option.
        """
        return self.k - self.golds >= 2


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """Shares of n items that were truly known and are not any more, and the reverse, with standard errors.

    Means of per-item scores, not clipped: a value below 0 is noise around 0. The standard error is
    that of the sample; the band is wider, because it also allows for unknown items that are not
    guessed as assumed:

        [max(0, p10 - min(2c, p01)) - 1.645 SE,  k/(k-1) (p10 - c/2) + 1.645 SE],  c the correction
    """

    n: float
    forgetting: float
    backward_transfer: float
    forgetting_se: float
    backward_transfer_se: float
    forgetting_band: Interval
    backward_transfer_band: Interval


def guess_corrected(answers: Answers) -> Corrected | None:
    """Right-to-wrong flips less those of guessing alone.

    A changed guess lands right->wrong, wrong->right and wrong->another wrong in the ratio 1 : 1 :
    (k-2). With lambda = 1/(k-2), per item:

        z = k/(k-1) [1{right -> other option} - lambda 1{wrong -> other wrong}]
            + 1{right -> none} - 1{wrong -> none}/(k-1)

    and the mirror image for backward transfer. With g right options k becomes k/g and lambda
    g/(k-g-1). Needs logged options and k >= 3. Assumes that a known item is never answered wrong,
    and that gold is as attractive as a wrong option to a model that does not know; it assumes
    nothing about persistence or position bias.

    Returns:
        The rates, or None if no item allows the correction.
    """
    used = answers.take(answers.correctable)
    return _corrected(used) if len(used.k) else None


def _rate(used: Answers) -> Floats:
    # Lambda, float64 [rows].
    rate: Floats = used.golds / (used.k - used.golds - 1.0)
    return rate


FEWEST_RIGHT: Final = 20
"""Smallest number of truly right answers of which a lost share is given."""

_TWICE: Final = 300
"""Smallest number of items measured twice whose flips are taken off."""


@dataclass(frozen=True, kw_only=True)
class RightLost:
    """Share of the right answers that is lost beyond guessing, over open answers and choices with logged options.

    Attributes:
        right: Number of items that were right before, less those that guessing makes (N A); taken
            as fixed.
        share: Share of them that is lost; None under `FEWEST_RIGHT`, as the next two.
        interval: Its 95 % interval.
        least: The same share by the lower end of the band of `Corrected`.
        by_guessing: Share of the right-to-wrong flips that guessing explains, 0 to 1; nan without a
            flip.
        less_noise: True if the flips of the same weights, measured twice or in several samples, are
            taken off.
        holds: Share of all right answers that these items hold, 0 to 1.
    """

    right: float
    share: float | None
    interval: Interval | None
    least: float | None
    by_guessing: float
    less_noise: bool
    holds: float


def right_lost(
    answers: Answers, chosen_again: Ints, repeated: Floats, *, holds: float, floor: float | None
) -> RightLost | None:
    """Share of the right answers lost beyond guessing.

    The guess-corrected forgetting (`guess_corrected`) over the mean of (k r - g)/(k - g), r right
    before. An open answer is a choice that no guess hits: g = 0.

    Args:
        answers: Choices with at least two wrong options, and open answers with k = 3 and no right
            option.
        chosen_again: Options that the model before chose when it was measured again, [rows].
        repeated: Right in that measurement: 1, 0, or nan without one, [rows].
        holds: Share of all right answers that these items hold.
        floor: Noise floor of several samples a side; None for one.

    Returns:
        The share, or None without an item.
    """
    if not len(answers.k):
        return None
    k, g = answers.k.astype(float), answers.golds.astype(float)
    truly, samples = float(np.mean((k * answers.before - g) / (k - g))), answers.samples
    right = over_samples(len(k), samples) * truly
    corrected = _corrected(answers)
    flips = float(np.mean(answers.before & ~answers.after))
    made = RightLost(
        right=right,
        share=None,
        interval=None,
        least=None,
        by_guessing=min(max(1 - corrected.forgetting / flips, 0.0), 1.0) if flips else math.nan,
        less_noise=floor is not None,
        holds=holds,
    )
    if right < FEWEST_RIGHT:
        return made
    lost, error = corrected.forgetting - (floor or 0.0), corrected.forgetting_se
    twice = np.isfinite(repeated)
    if floor is None and over_samples(int(twice.sum()), samples) >= _TWICE:
        null = replace(answers, after=repeated == 1, chosen_after=chosen_again)
        (now, _), (noise, _) = (
            _scores(answers_of_side.take(twice)) for answers_of_side in (answers, null)
        )
        lost, error = clustered_mean(
            now - noise, None if answers.cluster is None else answers.cluster[twice]
        )
        made = replace(made, less_noise=True)
    interval = mean_interval(lost, 0.0 if math.isnan(error) else error)
    band = corrected.forgetting_band[0]
    return replace(
        made,
        share=lost / truly,
        interval=(interval[0] / truly, interval[1] / truly),
        least=0.0 if math.isnan(band) else band / truly,
    )


def _corrected(used: Answers) -> Corrected:
    # The bands are those of the means.
    lost, won = _scores(used)
    forgetting, forgetting_se = clustered_mean(lost, used.cluster)
    backward_transfer, backward_transfer_se = clustered_mean(won, used.cluster)
    # The band lets guessing make between half and twice the correction; see `Corrected`.
    by_guessing = _rate(used) * used.wrong_to_other_wrong
    churn = used.k / (used.k - used.golds) * by_guessing
    correction, half = float(np.mean(by_guessing)), 0.5 * float(np.mean(churn))
    p10, p01 = float(np.mean(used.before & ~used.after)), float(np.mean(~used.before & used.after))

    def band(flips: float, opposite: float, uncorrected: float, error: float) -> Interval:
        # Guesses win as often as they lose, so guessing made at most the flips in the opposite
        # direction.
        low, high = max(0.0, flips - min(2 * correction, opposite)), uncorrected - half
        return _widened(low, high, error, error, least=-1.0)

    return Corrected(
        n=over_samples(len(used.k), used.samples),
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        forgetting_se=forgetting_se,
        backward_transfer_se=backward_transfer_se,
        forgetting_band=band(p10, p01, float((lost + churn).mean()), forgetting_se),
        backward_transfer_band=band(p01, p10, float((won + churn).mean()), backward_transfer_se),
    )


def _scores(used: Answers) -> tuple[Floats, Floats]:
    # The pair is `guess_corrected` and its mirror image, float64 [rows].
    k, g = used.k.astype(float), used.golds.astype(float)
    # A forgotten item is still guessed right with probability g/k: k/(k-g) scales flips to a wrong
    # option up to all. Right to no answer is a loss, less the lucky guesses among them: g/(k-g) for
    # each wrong guess
    # that became none.
    scale, to_none = k / (k - g), g / (k - g)
    # Both directions take off the same: a changed guess lands right->wrong as often as
    # wrong->right.
    churn = scale * _rate(used) * used.wrong_to_other_wrong
    no_before, no_after = used.no_answer_before, used.no_answer_after
    option_before, option_after = ~used.before & ~no_before, ~used.after & ~no_after
    lost = (
        scale * (used.before & option_after)
        + (used.before & no_after)
        - to_none * (option_before & no_after)
    )
    won = (
        scale * (option_before & used.after)
        + (no_before & used.after)
        - to_none * (no_before & option_after)
    )
    return lost - churn, won - churn


def _widened(
    low: float, high: float, low_error: float, high_error: float, *, least: float
) -> Interval:
    # 1.645 standard errors are added, within `least` to 1. Without the error of the high end, which
    # equal values leave undefined, that end is 1.
    if math.isnan(low_error):
        return NOTHING
    # Of nan and a number, `min` returns the first.
    return max(least, low - _Z_ENDS * low_error), min(1.0, high + _Z_ENDS * high_error)


@dataclass(frozen=True, kw_only=True)
class Paper:
    """Rates of arXiv 2510.17776 adjusted for chance, with each item's own k. Shares of the n items with k >= 2.

    Not clipped, because a mean of clipped rates is biased; the properties clip for display.
    Standard errors are those of the delta method.
    """

    n: float
    expected: float
    forgetting_unclipped: float
    backward_transfer_unclipped: float
    forgetting_max_unclipped: float
    backward_transfer_max_unclipped: float
    forgetting_se: float
    backward_transfer_se: float

    @property
    def forgetting(self) -> float:
        """F_true = max(F - expected, 0); nan for no items."""
        return _clip(self.forgetting_unclipped)

    @property
    def backward_transfer(self) -> float:
        """BT_true = max(BT - expected, 0); nan for no items."""
        return _clip(self.backward_transfer_unclipped)

    @property
    def forgetting_max(self) -> float:
        """F_max: the truly known share before, by the same model.

        Not a bound of F_true on data.
        """
        return _clip(self.forgetting_max_unclipped)

    @property
    def backward_transfer_max(self) -> float:
        """BT_max: the truly known share after, by the same model."""
        return _clip(self.backward_transfer_max_unclipped)

    @property
    def forgetting_interval(self) -> Interval:
        """95 % interval of the unclipped rate."""
        return mean_interval(self.forgetting_unclipped, self.forgetting_se)

    @property
    def backward_transfer_interval(self) -> Interval:
        """95 % interval of the unclipped rate."""
        return mean_interval(self.backward_transfer_unclipped, self.backward_transfer_se)


def paper(
    before: Bools, after: Bools, k: Ints, *, cluster: Ints | None = None, samples: int = 1
) -> Paper:
    """Compute the paper's chance-adjusted rates.

    Over the rows with k >= 2; chance is added up over groups of equal k.

    F_true = F - sum_g (M_g/M)(1-acc_g)(1-acc'_g)/(k_g-1); nan if no row has k >= 2. The standard
    error is that of the per-item scores 1{10} - [u (1-acc'_g) + u' (1-acc_g) -
    (1-acc_g)(1-acc'_g)]/(k_g-1), u = wrong before, whose mean is F_true and which are its gradient
    over the four cells.

    >>> right = lambda share: np.arange(100) < share
    >>> round(paper(right(80), right(70), np.full(100, 4)).forgetting, 4)
    0.08
    """
    takes_part = k >= 2
    before, after, k = before[takes_part], after[takes_part], k[takes_part]
    cluster = None if cluster is None else cluster[takes_part]
    total = len(k)
    if not total:
        nothing = dict.fromkeys(list(Paper.__dataclass_fields__)[1:], math.nan)
        return Paper(n=0, **nothing)
    # Arrays by k; the entries of a k that no item has are multiplied with a size of 0.
    sizes = np.bincount(k)
    options = np.maximum(np.arange(len(sizes)), 2)
    right_before, right_after = np.bincount(k, weights=before), np.bincount(k, weights=after)
    wrong_before, wrong_after = (
        (sizes - right) / np.maximum(sizes, 1) for right in (right_before, right_after)
    )
    expected = float(np.sum(sizes * wrong_before * wrong_after / (options - 1))) / total
    # Per cell (retained, forgotten, gained, missed) and k: the part of an item's score that chance
    # subtracts.
    both_wrong = wrong_before * wrong_after
    off = np.stack(
        [
            -both_wrong,
            wrong_before - both_wrong,
            wrong_after - both_wrong,
            wrong_before + wrong_after - both_wrong,
        ]
    ) / (options - 1)
    cell = 2 * ~before + ~after  # 0 retained, 1 forgotten, 2 gained, 3 missed
    taken_off = off[cell, k]
    forgotten, gained = before & ~after, ~before & after
    return Paper(
        n=over_samples(total, samples),
        expected=expected,
        forgetting_unclipped=int(forgotten.sum()) / total - expected,
        backward_transfer_unclipped=int(gained.sum()) / total - expected,
        forgetting_max_unclipped=float(np.sum((options * right_before - sizes) / (options - 1)))
        / total,
        backward_transfer_max_unclipped=float(
            np.sum((options * right_after - sizes) / (options - 1))
        )
        / total,
        forgetting_se=clustered_mean(forgotten - taken_off, cluster)[1],
        backward_transfer_se=clustered_mean(gained - taken_off, cluster)[1],
    )


def as_released(before: Bools, after: Bools, *, k: int) -> tuple[float, float, float, float]:
    """Compute the rates as the paper's released code does.

    Of one task and seed; nan for no rows.

    Forgetting, backward transfer, and the ceiling max((k acc - 1)/(k - 1), 0) of each, from the
    accuracy before and from that after. One `k` for the whole task, at least 2, every row, each
    rate clipped at 0 at once.
    """
    n = len(before)
    chance = ratio(int((~before).sum()), n) * ratio(int((~after).sum()), n) / (k - 1)
    rates = (ratio(int(flips.sum()), n) for flips in (before & ~after, ~before & after))
    forgetting, backward_transfer = (_clip(rate - chance) for rate in rates)
    accuracies = (ratio(int(right.sum()), n) for right in (before, after))
    most_before, most_after = (_clip((k * accuracy - 1) / (k - 1)) for accuracy in accuracies)
    return forgetting, backward_transfer, most_before, most_after


def _clip(value: float) -> float:
    return value if math.isnan(value) else max(value, 0.0)
