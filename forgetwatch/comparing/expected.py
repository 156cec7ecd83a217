"""Verdicts to expect of a run, before its first step: how often they will be KEPT or FORGOT.

Each of 100 simulated ends has the margins of the baseline, moved:

    a harmless run     m + .3 h e           e standard normal, h the width of the boundary (`metrics.margin_change`)
    a loss of L        m - s + .3 h e       s such that accuracy is expected to fall by L

A margin moves by the score of the right options; an answer without a margin stays as it is. Each end is decided like
any comparison, by the same items, categories and second measurement.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import optimize, special

from forgetwatch.comparing.checks import align_repeat
from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import Word, decide
from forgetwatch.comparing.groups import deciding_groups
from forgetwatch.measures import Rows
from forgetwatch.metrics import boundary
from forgetwatch.metrics import decide as choose
from forgetwatch.pairing import AlignedPairs, pair
from forgetwatch.pairing.aligned import Floats
from forgetwatch.snapshot import Snapshot

LOSS: Final = 0.04
"""Net loss of accuracy of the second simulated run."""

_NOISE: Final = 0.3
"""Standard deviation of a margin's change in a harmless run, over the width of the boundary."""

_ENDS: Final = 100
_FEWEST_MARGINS: Final = 0.5
"""Share of the answers that must have a margin, for simulated ends to stand for real ones."""


@dataclass(frozen=True)
class Expected:
    """Shares of simulated ends with a verdict, 0 to 1.

    Attributes:
        kept: Harmless runs that read KEPT.
        forgot: Runs with a loss of `LOSS` that read FORGOT; None if there is not so much to lose.
    """

    kept: float
    forgot: float | None


def expected_verdicts(start: Comparison, baseline: Snapshot, null: Snapshot | None = None) -> Expected | None:
    """Return how often a run will read KEPT and FORGOT; None where most answers have no margin.

    Args:
        start: The baseline, compared with itself.
        baseline: The rows of that comparison.
        null: The second measurement of the same weights, if there is one.
    """
    again = None if null is None else align_repeat(baseline, null)[0]
    pairs, unscored = AlignedPairs.align(baseline, baseline, pair(baseline, baseline), again=again)
    margins = pairs.margin_before
    width = boundary(margins, margins)
    if width is None or np.isfinite(margins).sum() < _FEWEST_MARGINS * len(pairs):
        return None
    spread, found = _NOISE * width.h, margins[np.isfinite(margins)]
    rows, draws = Rows(pairs=pairs, unscored=unscored), np.random.default_rng(0).normal(size=(_ENDS, len(pairs)))

    def accuracy(shift: float) -> float:
        return float(special.ndtr((found - shift) / spread).mean())

    def share_of(word: Word, shift: float) -> float:
        ends = (_moved(rows, spread * draw - shift) for draw in draws)
        words = Counter(decide(replace(start, groups=tuple(deciding_groups(end)))).word for end in ends)
        return words[word] / _ENDS

    least = float((found > 0).mean()) - LOSS * len(pairs) / len(found)
    if least <= 0:
        return Expected(share_of("KEPT", 0.0), None)
    farthest = float(np.abs(found).max()) + 10 * spread
    shift = float(optimize.brentq(lambda at: accuracy(at) - least, -farthest, farthest))
    return Expected(share_of("KEPT", 0.0), share_of("FORGOT", shift))


def _moved(rows: Rows, by: Floats) -> Rows:
    """Return the rows with another side after: the right options of each have a score that is so much higher."""
    pairs, options = rows.pairs, rows.pairs.options_before
    if options is None:
        return rows
    scores = options.scores + np.repeat(by, options.k) * options.golds
    made, moves = choose(scores, options.k, options.golds), np.isfinite(pairs.margin_before)
    after = pairs.margin_before + by
    moved = replace(
        pairs,
        after=np.where(moves, after > 0, pairs.before),
        margin_after=after,
        share_after=np.where(moves, made.share, pairs.share_before),
        chosen_after=None if pairs.chosen_before is None else np.where(moves, made.chosen, pairs.chosen_before),
        options_after=replace(options, scores=scores),
    )
    return replace(rows, pairs=moved)
