"""One thing that a gate looked at: what was measured, where its limit lies, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from forgetwatch.report.verdict import Word

_BAD_FIRST: Final[tuple[Word, ...]] = ("FAIL", "INCONCLUSIVE", "PASS")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a gate found of one limit.

    Attributes:
        what: The quantity and its group, or the items.
        measured: What was measured, in words and numbers.
        limit: What was asked.
        verdict: The verdict.
    """

    what: str
    measured: str
    limit: str
    verdict: Word

    @property
    def line(self) -> str:
        """It in one line, without the verdict."""
        return f"{self.what} {self.measured} ({self.limit})"


def worst(verdicts: Iterable[Word]) -> Word:
    """The worst of some verdicts: FAIL before INCONCLUSIVE before PASS."""
    return min(verdicts, key=_BAD_FIRST.index)
