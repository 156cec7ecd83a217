"""Scores of options, and what was logged as right or wrong, to the choice, its clearness, and the right option.

    scores     right   golds          chosen   gold
    -2 -1 -3   yes     not known      1        1        the choice was right
    -2 -1      no      not known      1        0        the other of two
    -2 -1 -3   no      0              1        0
    -2 -1 -3   no      1              0        1        contradicts: the best option that is not right, no margin

What was logged as right or wrong stands. numpy only; all arrays have one row per item, items of equal k together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from forgetwatch.snapshot import NONE

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Judged = NDArray[np.int8]
"""1 for right, 0 for wrong, -1 for not known."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What the scores of some items say.

    Attributes:
        chosen: The option, -1 where it is not known, int64 [rows].
        golds: The right options, bool [rows, k].
        share: Share of the right options, 0 to 1; nan where it is not known [rows].
        margin: Best minus second, nats; nan where it is not known [rows].
        tied: Whether the two best are equal, bool [rows].
        against: Whether the scores contradict what was logged, bool [rows].
    """

    chosen: Ints
    golds: Bools
    share: Floats
    margin: Floats
    tied: Bools
    against: Bools


def best_option(scores: Floats) -> Ints:
    """The option with the highest score, the first of equals; -1 where a score is nan; int64 [rows]."""
    return np.where(np.isnan(scores).any(axis=1), NONE, np.argmax(scores, axis=1))


def first_gold(index: Ints, text: Ints, best: Ints, right: Judged) -> Ints:
    """The right option as the target names it, -1 for none, int64 [rows].

    A target such as "2" may be an index or an option's text. All are read in the way that fits more outcomes.

    Args:
        index: The option that the target names by index, -1 for none [rows].
        text: The option that it names by text, -1 for none [rows].
        best: The option with the highest score, -1 where it is not known [rows].
        right: What was logged [rows].
    """
    unlike = (index != NONE) & (text != NONE) & (index != text) & (best != NONE) & (right >= 0)
    fits_index, fits_text = (((best == gold) == (right == 1))[unlike].sum() for gold in (index, text))
    first, second = (text, index) if fits_text > fits_index else (index, text)
    return np.where(first != NONE, first, second)


def settle(scores: Floats, golds: Bools, right: Judged) -> Choices:
    """The choices that the scores and the logged outcomes agree on.

    Args:
        scores: The score that decides, nats, nan where it is not known [rows, k].
        golds: The right options as far as the log names them, bool [rows, k].
        right: What was logged [rows].
    """
    best, rows = best_option(scores), np.arange(len(scores))
    usable = best != NONE
    golds = golds.copy()
    silent = usable & ~golds.any(axis=1)
    golds[rows[silent & (right == 1)], best[silent & (right == 1)]] = True
    if scores.shape[1] == 2:
        golds[rows[silent & (right == 0)], 1 - best[silent & (right == 0)]] = True
    known = golds.any(axis=1)
    against = usable & known & (right >= 0) & (golds[rows, best] != (right == 1))
    fitting = np.where((golds == (right == 1)[:, None]) & usable[:, None], scores, -np.inf)
    second = np.where(np.isneginf(fitting).all(axis=1), NONE, np.argmax(fitting, axis=1))
    clear = usable & ~against
    margin, tied = np.full(len(scores), np.nan), np.zeros(len(scores), bool)
    if scores.shape[1] > 1:
        ordered = np.sort(scores, axis=1)
        finite = clear & np.isfinite(ordered[:, -2])
        margin[finite] = ordered[finite, -1] - ordered[finite, -2]
        tied = usable & (ordered[:, -1] == ordered[:, -2])
    share = np.full(len(scores), np.nan)
    shared = clear & known & np.isfinite(scores).any(axis=1)
    share[shared] = np.minimum((softmax(scores[shared], axis=1) * golds[shared]).sum(axis=1), 1.0)
    return Choices(
        chosen=np.where(against, second, best), golds=golds, share=share, margin=margin, tied=tied, against=against
    )
