"""PASS, FAIL or INCONCLUSIVE: did accuracy fall by more than is tolerated? The decision that every output shows.

    net change     -4        -2         0        +2  points, tolerance 2
    PASS                      |   [-----o-----]      the whole interval is above minus the tolerance
    FAIL           [---o---]  |                      it is below
    INCONCLUSIVE        [-----|--o-----]             it contains minus the tolerance: more items would decide

The terminal, the page, the guard of a run, gates and trackers call this module, so that no two of them disagree about
one comparison. The test itself is `metrics.significance.non_inferiority`; report/ renders the sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group
from forgetwatch.metrics.intervals import Interval

Word = Literal["PASS", "FAIL", "INCONCLUSIVE"]

TOLERANCE: Final = 0.02
"""Net loss of accuracy that is tolerated if nothing else is given: 2 points."""

_WORST_FIRST: Final[tuple[Word, ...]] = ("FAIL", "INCONCLUSIVE", "PASS")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Decision on one group of items, with the numbers that it follows from.

    Attributes:
        word: PASS, FAIL or INCONCLUSIVE; INCONCLUSIVE if nothing was measured.
        tolerance: The net loss that is tolerated, 0 to 1.
        net_change: Accuracy after minus before, -1 to 1; nan if nothing was measured.
        interval: Its 95 % interval.
        items_needed: Number of items that would decide; None if the verdict is clear, nothing was measured, or the
            net change is exactly minus the tolerance.
    """

    word: Word
    tolerance: float
    net_change: float
    interval: Interval
    items_needed: int | None


def verdict(comparison: Comparison, tolerance: float = TOLERANCE) -> Verdict:
    """Return the verdict on a comparison as a whole.

    Args:
        comparison: Two snapshots, compared.
        tolerance: The net loss that is tolerated, 0 to 1.
    """
    return group_verdict(comparison.all, tolerance)


def group_verdict(group: Group, tolerance: float) -> Verdict:
    """Return the verdict on one group of items; see `verdict`."""
    tested = group.no_worse_than(tolerance)
    return Verdict(
        word=tested.verdict,
        tolerance=tolerance,
        net_change=group.net_change,
        interval=tested.interval,
        items_needed=math.ceil(tested.items_needed) if math.isfinite(tested.items_needed) else None,
    )


def worst(words: Iterable[Word]) -> Word:
    """Return the worst of some verdicts: FAIL before INCONCLUSIVE before PASS.

    Raises:
        ValueError: If there is none.
    """
    return min(words, key=_WORST_FIRST.index)
