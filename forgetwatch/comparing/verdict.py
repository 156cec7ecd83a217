"""PASS, FAIL or INCONCLUSIVE: did accuracy fall by more than is tolerated? One rule for the report, the gate, the page.

PASS           the whole interval of the net change lies above minus the tolerance
FAIL           it lies below
INCONCLUSIVE   it holds minus the tolerance: more items would tell
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group
from forgetwatch.report.formatting import between, count, points

Word = Literal["PASS", "FAIL", "INCONCLUSIVE"]

TOLERANCE: Final = 0.02
"""Net loss of accuracy that is tolerated where nothing else is said: 2 points."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A verdict on one group.

    Attributes:
        word: The verdict.
        tolerance: The net loss that is tolerated, 0 to 1.
        measured: The net change with its interval, and the items that would tell where they are too few.
        sentence: It in plain words, without a symbol.
    """

    word: Word
    tolerance: float
    measured: str
    sentence: str


def verdict(comparison: Comparison, tolerance: float = TOLERANCE) -> Verdict:
    """The verdict on a comparison as a whole.

    Args:
        comparison: What was measured.
        tolerance: The net loss that is tolerated, 0 to 1.
    """
    return group_verdict(comparison.all, tolerance)


def group_verdict(group: Group, tolerance: float) -> Verdict:
    """The verdict on one group of items."""
    found = group.no_worse_than(tolerance)
    more = math.ceil(found.items_needed) if math.isfinite(found.items_needed) else None
    measured = f"{points(group.net_change)} points ({between(found.interval, points)})"
    measured += f", about {count(more)} items would tell" if more is not None else ""
    return Verdict(
        word=found.verdict, tolerance=tolerance, measured=measured, sentence=_sentence(found.verdict, tolerance, more)
    )


def _sentence(word: Word, tolerance: float, more: int | None) -> str:
    bound = f"{100 * tolerance:g} point{'' if tolerance == 0.01 else 's'}"
    if word == "PASS":
        return f"Accuracy did not fall by more than {bound}, and there are enough questions to say so."
    if word == "FAIL":
        return f"Accuracy fell by more than {bound}, and luck does not explain it."
    told = f" About {count(more)} questions would tell." if more is not None else ""
    return f"These questions cannot tell whether accuracy fell by more than {bound}.{told}"
