"""Numbers and names inside sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forgetwatch.report.numbers import count

NAMED: Final = 4
"""Names that a sentence lists."""

_LONGEST: Final = 160
"""Characters of a question or an answer in an example."""


def questions(number: float) -> str:
    """A number of questions, with the noun."""
    return "No question" if not number else "1 question" if number == 1 else f"{count(number)} questions"


def is_or_are(number: float) -> str:
    """The verb for a number of things."""
    return "is" if number in (0, 1) else "are"


def cases(number: float) -> str:
    """A number of cases, with the noun."""
    return "1 case" if number == 1 else f"{count(number)} cases"


def listed(names: Sequence[str]) -> str:
    """Names in a row; of many the first, and how many more there are. At least one is needed."""
    shown = [*names[:NAMED], *([f"{count(len(names) - NAMED)} more"] if len(names) > NAMED else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def by_points(change: float) -> str:
    """A change of accuracy without its sign."""
    tenths = f"{abs(100 * change):.1f}"
    return "1.0 point" if tenths == "1.0" else f"{tenths} points"


def shorten(text: str, longest: int = _LONGEST) -> str:
    """A text in one line of so many characters; the end of what is longer, since questions stand there."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"… {line[-longest:]}"
