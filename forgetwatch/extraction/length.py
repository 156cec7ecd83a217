"""How long an output is: words, sentences or lines.

    "at most 20 words"   "3 lines"   "2 to 4 sentences"   "at least 5 words"

Words stand between white space and hold a letter or a digit. A sentence ends with a stop, a question or exclamation
mark behind which white space, a quote or nothing follows. Lines hold a letter or a digit too, so that neither a blank
line nor a rule counts. Counted are the first 100,000 characters.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

_LIMITS: Final = re.compile(r"(?:(at most|at least) )?(\d{1,6})(?: to (\d{1,6}))? (word|sentence|line)s?")
_END: Final = re.compile(r"(?<=\w[.!?])[\"'”’)*]*(?=\s|\Z)|(?<=\w[.!?][.!?])(?=\s|\Z)|[。！？؟]")
_NUMBERED: Final = re.compile(r"^\s*(?:\d{1,3}[.)]|[-*•])\s+", re.MULTILINE)
_SAID: Final = re.compile(r"[^\W_]")
_MOST: Final = 100_000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """From `least` to `most` of a unit, both included."""

    least: float
    most: float
    unit: str


def limits(text: str) -> Limits | None:
    """What an answer such as "at most 20 words" asks for; None if it is no such text.

    >>> limits("2 to 4 lines")
    Limits(least=2, most=4, unit='lines')
    """
    found = _LIMITS.fullmatch(text)
    if found is None or (found[1] and found[3]):
        return None
    one, unit = int(found[2]), f"{found[4]}s"
    if found[1]:
        bounds = (0, one) if found[1] == "at most" else (one, math.inf)
        return Limits(least=bounds[0], most=bounds[1], unit=unit)
    return Limits(least=one, most=int(found[3] or one), unit=unit)


def count(body: str, unit: str) -> int:
    """How many words, sentences or lines a text has.

    >>> count("It is 3.5 m. Is it?", "sentences")
    2
    """
    text = body[:_MOST]
    if unit == "words":
        return sum(1 for word in text.split() if _SAID.search(word))
    if unit == "lines":
        return sum(1 for line in text.splitlines() if _SAID.search(line))
    return sum(1 for part in _END.split(_NUMBERED.sub("", text)) if _SAID.search(part))
