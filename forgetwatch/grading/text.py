"""What a text becomes before an answer is looked for in it: bounded, and free of what only looks different.

    "Ａnswer： **Ⓑ**"   folded:  "Answer: **B**"

Answers stand at the end, so patterns only ever see the last `TAIL` characters; an output of any length costs the same.

What a search for the answer of one output brings back.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

TAIL: Final = 4_000
"""Characters at the end of an output that patterns search."""

_INVISIBLE: Final = dict.fromkeys(
    # Soft hyphen, zero-width characters, marks of direction, variation selectors, byte order mark.
    (
        0x00AD,
        0x061C,
        0x180E,
        *range(0x200B, 0x2010),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFE00, 0xFE10),
        0xFEFF,
    )
)
_MARKS: Final = (
    {ord(c): ":" for c in "∶꞉ː˸"}
    | {ord(c): "-" for c in "−﹣－‐‑⁃"}
    | {0x066A: "%", 0x066B: ".", 0x066C: ","}  # as Arabic writes numbers
)
_CUT_WORD: Final = re.compile(r"^[\w.,]+")
_TWO_POWERS: Final = re.compile(r"([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_VULGAR: Final = re.compile("[¼-¾⅐-⅞↉]")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")


def tail(text: str, limit: int = TAIL) -> str:
    """The last `limit` characters without white space behind them; a word that the cut would halve is left out.

    >>> tail("an answer", limit=5)
    ''
    >>> tail("the answer B", limit=5)
    ' B'
    """
    text = text.rstrip()
    return text if len(text) <= limit else _CUT_WORD.sub("", text[-limit:])


def fold(text: str) -> str:
    """The text in compatibility form (NFKC): full-width and mathematical letters, digits of any script as ASCII.

    Invisible characters are taken out. Powers become ``^2`` and fractions of one character `` 1/2``, which NFKC alone
    would glue to the digits before them.

    >>> fold("１０² ½ ١٢٣")
    '10^2  1/2 123'
    """
    if text.isascii():
        return text
    text = text.translate(_INVISIBLE).translate(_MARKS)
    text = _VULGAR.sub(lambda found: " " + found[0], text)
    text = _TWO_POWERS.sub(lambda found: "^" + found[0], text)
    text = unicodedata.normalize("NFKC", text).translate(_MARKS).replace("\u2044", "/")
    return _NOT_ASCII.sub(_ascii_digit, text)


def _ascii_digit(found: re.Match[str]) -> str:
    digit = unicodedata.decimal(found[0], None)
    return found[0] if digit is None else str(digit)


def normalise(text: str) -> str:
    """The text as it is compared: folded, without case, with single spaces, without quotes and stops around it.

    >>> normalise(' “Santiago  de Chile.” ')
    'santiago de chile'
    """
    return " ".join(fold(text).casefold().split()).strip(" .,;:!?\"'“”‘’«»„*`_$")


def collapse_spaces(text: str) -> str:
    """The text with runs of white space as one space, and none around it."""
    return " ".join(text.split())


def whole_words(text: str) -> re.Pattern[str]:
    """A pattern for a text as whole words: ``5`` is neither in ``15`` nor in ``5.2``, ``Paris`` not in ``Parisian``."""
    return re.compile(rf"(?<!\w)(?<!\d[.,]){re.escape(text)}(?!\w)(?![.,]\d)")


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """The answer that an output gives, before it is compared with the right one.

    Attributes:
        text: The answer as it was found; None where there is none.
        option: Index of the option that it names; None for open answers.
        as_text: The option's text stands where its letter was asked for.
        form: It stands in a form that prompts ask for (``Answer: B``, a boxed answer, nothing but the answer), not
            within prose.
        settled: Text that was cut off behind it could not have changed it.
        ambiguous: Two different answers are given as final.
    """

    text: str | None = None
    option: int | None = None
    as_text: bool = False
    form: bool = False
    settled: bool = False
    ambiguous: bool = False


NOTHING: Final = Extracted()
AMBIGUOUS: Final = Extracted(ambiguous=True)
