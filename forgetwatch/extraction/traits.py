"""What an output is, instead of what it answers: the match names the trait, the answer says what it must be.

    match       answer                 found in an output
    stops       yes                    yes; an output that was cut has the outcome truncated, and is wrong
    loops       no                     yes or no                        loop.py
    refuses     yes, no                yes or no                        refusal.py
    language    de (or several)        en, de, fr, es, it, ru, zh, ar   language.py
    length      "at most 20 words"     "23 words"                       length.py
    case        upper, lower           upper, lower or mixed

Fine-tuning changes these before any fact. They are forms of `match` and no functions, so that an item in a file is
judged like the same item in Python, and its content hash covers how it is judged.
"""

from __future__ import annotations

from typing import Final

from forgetwatch.extraction import length
from forgetwatch.extraction.found import NOTHING, Found
from forgetwatch.extraction.language import LANGUAGES, language
from forgetwatch.extraction.loop import loops
from forgetwatch.extraction.refusal import refuses

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
        fit = all(length.limits(answer) is not None for answer in answers)
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
    asked = [limits for answer in answers if (limits := length.limits(answer)) is not None]
    right = [limits for limits in asked if limits.least <= length.count(body, limits.unit) <= limits.most]
    shown = (right or asked)[0].unit
    # A cut text may have gone on: only one that is too long already is told by it.
    over = all(length.count(body, limits.unit) > limits.most for limits in asked)
    return Found(text=f"{length.count(body, shown)} {shown}", form=True, settled=over), bool(right)
