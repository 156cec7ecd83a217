"""What guessing makes of the four cells, under each correction's own name.

    paper             Harmon et al. 2025: subtracts the flips of two independent, uniform guesses
    guess_corrected   measures changed guesses by how often one wrong option becomes another
    bound             for 0/1 data: what any balanced guessing leaves possible
    soft              changes of gold's probability; no decoding, so no decoding noise

None of them is a headline. `paper` errs upwards where guesses are fresh (4.7 % at k = 4 where nothing was forgotten
and half is known) and downwards where they persist. `guess_corrected` errs upwards where a model can rule options out
or knows in part, downwards where wrong options attract; always in proportion to the correction.

Nothing is clipped before it is averaged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forgetwatch.metrics.inference import clustered_mean
from forgetwatch.metrics.transitions import ratio

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Paper:
    """The chance adjustment of arXiv 2510.17776, with each item's own k. Shares of the n items with k >= 2.

    Assumes that an item is known or guessed uniformly, and that being unknown before says nothing about being unknown
    after. Most unknown items are the same ones: it errs upwards where they are guessed afresh, and downwards where
    their guesses persist.
    """

    n: float
    expected: float
    forgetting_unclipped: float
    backward_transfer_unclipped: float
    forgetting_max_unclipped: float
    backward_transfer_max_unclipped: float

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
        """F_max: the truly known share before, by the same model. Not a bound of F_true on data."""
        return _clip(self.forgetting_max_unclipped)

    @property
    def backward_transfer_max(self) -> float:
        """BT_max: the truly known share after, by the same model."""
        return _clip(self.backward_transfer_max_unclipped)


def paper(before: Bools, after: Bools, k: Ints, *, samples: int = 1) -> Paper:
    """The paper's chance-adjusted rates over the rows with k >= 2, chance added up over groups of equal k.

    F_true = F - sum_g (M_g/M)(1-acc_g)(1-acc'_g)/(k_g-1); nan where no row has k >= 2.

    Args:
        before: Right before, bool [rows].
        after: Right after, bool [rows].
        k: Number of options [rows]; below 2 for rows that do not take part.
        samples: Rows per item.

    >>> right = lambda share: np.arange(100) < share
    >>> round(paper(right(80), right(70), np.full(100, 4)).forgetting, 4)
    0.08
    """
    takes_part = k >= 2
    before, after, k = before[takes_part], after[takes_part], k[takes_part]
    options, group = np.unique(k, return_inverse=True)
    sizes = np.bincount(group)
    right_before = np.bincount(group, weights=before)
    right_after = np.bincount(group, weights=after)
    total = len(k)
    expected = float(np.sum((sizes - right_before) * (sizes - right_after) / (sizes * (options - 1))))
    known_before = float(np.sum((options * right_before - sizes) / (options - 1)))
    known_after = float(np.sum((options * right_after - sizes) / (options - 1)))
    forgotten, gained = int((before & ~after).sum()), int((~before & after).sum())
    return Paper(
        n=total if samples == 1 else total / samples,
        expected=ratio(expected, total),
        forgetting_unclipped=ratio(forgotten - expected, total),
        backward_transfer_unclipped=ratio(gained - expected, total),
        forgetting_max_unclipped=ratio(known_before, total),
        backward_transfer_max_unclipped=ratio(known_after, total),
    )


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """Shares of n items that were truly known and are not any more, and the reverse, with standard errors.

    Means of per-item scores, not clipped: a value below 0 is noise around 0.
    """

    n: float
    forgetting: float
    backward_transfer: float
    forgetting_se: float
    backward_transfer_se: float


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
        item: Rows of one item share a code: they are one observation.
    """

    before: Bools
    after: Bools
    chosen_before: Ints
    chosen_after: Ints
    k: Ints
    golds: Ints
    item: Ints

    def take(self, rows: Bools) -> Answers:
        """The answers of some rows."""
        return Answers(**{name: values[rows] for name, values in vars(self).items()})

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
    k, g = used.k.astype(float), used.golds.astype(float)
    scale, rate, to_none = k / (k - g), g / (k - g - 1), g / (k - g)
    churn = scale * rate * used.wrong_to_other_wrong
    wrong_option_before = ~used.before & ~used.no_answer_before
    wrong_option_after = ~used.after & ~used.no_answer_after
    lost = scale * (used.before & wrong_option_after) + (used.before & used.no_answer_after)
    won = scale * (wrong_option_before & used.after) + (used.no_answer_before & used.after)
    z10 = lost - churn - to_none * (wrong_option_before & used.no_answer_after)
    z01 = won - churn - to_none * (used.no_answer_before & wrong_option_after)
    forgetting, forgetting_se = clustered_mean(z10, used.item)
    backward_transfer, backward_transfer_se = clustered_mean(z01, used.item)
    return Corrected(
        n=len(np.unique(used.item)),
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        forgetting_se=forgetting_se,
        backward_transfer_se=backward_transfer_se,
    )


@dataclass(frozen=True, kw_only=True)
class Bound:
    """Lowest and highest true rate that balanced guessing allows, for forgetting and backward transfer."""

    forgetting: tuple[float, float]
    backward_transfer: tuple[float, float]


def bound(before: Bools, after: Bools, k: Ints, golds: Ints) -> Bound | None:
    """[max(0, p10 - p01), mean of k/(k-g) over 1->0], and its mirror image; None where no row has a wrong option.

    g is the number of right options. The lower end is the net loss: it needs only balanced flips by chance.
    """
    takes_part = k > golds
    if not takes_part.any():
        return None
    before, after = before[takes_part], after[takes_part]
    scale = k[takes_part] / (k[takes_part] - golds[takes_part]).astype(float)
    lost, won = before & ~after, ~before & after
    net = float(lost.mean() - won.mean())
    return Bound(
        forgetting=(max(0.0, net), min(1.0, float(np.mean(scale * lost)))),
        backward_transfer=(max(0.0, -net), min(1.0, float(np.mean(scale * won)))),
    )


@dataclass(frozen=True, kw_only=True)
class Persistence:
    """How much wrong answers stay the same: the diagnostics beside the corrections.

    Attributes:
        same_wrong: Share of the items wrong before and after that kept their wrong option; nan where there is none.
        same_wrong_if_fresh: The share that uniform fresh guesses would keep. Far below `same_wrong`: guesses persist,
            or wrong options are not equally attractive.
        tipping_ratio: How much more attractive than a wrong option gold would have to be, when unknown, for guessing
            to explain all forgetting: up to 1 nothing is left, 1 to 3 fragile, above 3 robust; inf where no wrong
            option changed.
    """

    same_wrong: float
    same_wrong_if_fresh: float
    tipping_ratio: float


def persistence(answers: Answers) -> Persistence:
    """The diagnostics of `Persistence`, over the rows with logged options."""
    both = answers.both_wrong & (answers.k >= 2)
    fresh = 1.0 / np.maximum(answers.k - answers.golds, 1)[both]
    used = answers.take(answers.correctable)
    rate = used.golds / np.maximum(used.k - used.golds - 1, 1)
    expected = float(np.sum(rate * used.wrong_to_other_wrong))
    flips = int((used.before & ~used.after & ~used.no_answer_after).sum())
    return Persistence(
        same_wrong=ratio(int((both & ~answers.wrong_to_other_wrong).sum()), int(both.sum())),
        same_wrong_if_fresh=float(fresh.mean()) if fresh.size else math.nan,
        tipping_ratio=flips / expected if expected else (math.inf if flips else math.nan),
    )


@dataclass(frozen=True, kw_only=True)
class Soft:
    """Mean loss and mean gain of gold's probability share. Their difference is the change of its mean, exactly.

    Free of decoding noise; symmetric noise of the weights still makes both positive.
    """

    forgetting: float
    backward_transfer: float


def soft(share_before: Floats, share_after: Floats) -> Soft | None:
    """Mean (p - p')_+ and mean (p' - p)_+ over the rows measured on both sides; None where there is none."""
    change = share_after - share_before
    change = change[np.isfinite(change)]
    if not change.size:
        return None
    return Soft(
        forgetting=float(np.mean(np.maximum(-change, 0.0))),
        backward_transfer=float(np.mean(np.maximum(change, 0.0))),
    )


def _clip(value: float) -> float:
    return value if math.isnan(value) else max(value, 0.0)
