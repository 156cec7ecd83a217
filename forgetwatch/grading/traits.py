"""What an output is, instead of what it answers: the match names the trait, the answer says what it must be.

    match       answer                 found in an output
    stops       yes                    yes; an output that was cut has the outcome truncated, and is wrong
    loops       no                     yes or no                        loop.py
    refuses     yes, no                yes or no                        refusal.py
    language    de (or several)        en, de, fr, es, it, ru, zh, ar   language.py
    length      "at most 20 words"     "23 words"                       py
    case        upper, lower           upper, lower or mixed

Fine-tuning changes these before any fact. They are forms of `match` and no functions, so that an item in a file is
judged like the same item in Python, and its content hash covers how it is judged.

Whether an output repeats itself, as models do that have lost how to end.

    "the the the the the the the the the the the the"     a loop: a few characters, twelve times in a row
    "I am sure. I am sure. I am sure. I am sure."         a loop: eight characters or more, four times
    "| --- | --- |", "0.33333333333333", "1, 2, 3, 4"     none: nothing with letters comes again

Only what follows itself at once counts; a chorus does not. Looked at are the last 4,000 characters.

How long an output is: words, sentences or lines.

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

from forgetwatch.grading.language import LANGUAGES, language
from forgetwatch.grading.refusal import refuses
from forgetwatch.grading.text import NOTHING, TAIL, Found

_VALUES: Final[dict[str, tuple[str, ...]]] = {
    "stops": ("yes",),
    "loops": ("no",),
    "refuses": ("yes", "no"),
    "language": LANGUAGES,
    "case": ("upper", "lower"),
}
"""What an item may ask for."""


def trait(name: str, body: str, answers: tuple[str, ...]) -> tuple[Found, bool]:
    """The trait of an output, and whether it is what was asked for; nothing, if there is none to be told."""
    if not body.strip():
        return NOTHING, False
    if name == "length":
        return _length(body, answers)
    found = {"stops": _stops, "loops": _loops, "refuses": _refuses, "language": language, "case": _case}[name](body)
    if found is None:
        return NOTHING, False
    # More text would not change what is told of this much; but whether an output ends, only its end tells.
    return Found(text=found, form=True, settled=name != "stops"), found in answers


def why_no_trait(name: str, answers: tuple[str, ...]) -> str | None:
    """Why the answers are none that an output can have; None if they are."""
    if name == "length":
        fit = all(limits(answer) is not None for answer in answers)
        return None if fit else "match 'length' needs an answer such as 'at most 20 words'"
    allowed = _VALUES[name]
    return None if set(answers) <= set(allowed) else f"match {name!r} needs one of {', '.join(allowed)}"


def _stops(body: str) -> str:
    return "yes"


def _loops(body: str) -> str:
    return "yes" if loops(body) else "no"


def _refuses(body: str) -> str:
    return "yes" if refuses(body) else "no"


def _case(body: str) -> str | None:
    if body.upper() == body.lower():
        return None
    return "upper" if body == body.upper() else "lower" if body == body.lower() else "mixed"


def _length(body: str, answers: tuple[str, ...]) -> tuple[Found, bool]:
    asked = [bounds for answer in answers if (bounds := limits(answer)) is not None]
    right = [limits for limits in asked if limits.least <= count(body, limits.unit) <= limits.most]
    shown = (right or asked)[0].unit
    # A cut text may have gone on: only one that is too long already is told by it.
    over = all(count(body, limits.unit) > limits.most for limits in asked)
    return Found(text=f"{count(body, shown)} {shown}", form=True, settled=over), bool(right)


_LONG: Final = re.compile(r"(.{8,240}?)\1{3}", re.DOTALL)
_SHORT: Final = re.compile(r"(.{1,7}?)\1{11}", re.DOTALL)
_LETTER: Final = re.compile(r"[^\W\d_]")
_SPACE: Final = re.compile(r"\s+")


def loops(body: str) -> bool:
    """Whether a text says the same again and again.

    >>> loops("No. " * 12)
    True
    """
    text = _SPACE.sub(" ", body[-TAIL:])
    return any(_LETTER.search(found[1]) for pattern in (_SHORT, _LONG) for found in pattern.finditer(text))


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
