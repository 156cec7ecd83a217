"""Bounded and normalised text, and the record of an extracted answer.

    "Ａnswer： **Ⓑ**"    fold    "Answer: **B**"

An answer stands at the end, so patterns search the last `TAIL` characters only, and the time for an output does not
depend on its length.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

TAIL: Final = 4_000
"""Number of characters at the end of an output that patterns search."""


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """Answer of an output, before it is compared with the right one.

    Attributes:
        text: The answer as written; None where there is none.
        option: Index of the option that it names; None for open answers.
        as_text: True where it is the option's text instead of its letter.
        form: True for a form that prompts ask for (``Answer: B``, a boxed answer, nothing but the answer); False within
            prose.
        settled: True where text after it, lost to a length limit, could not have changed it.
        ambiguous: True where two different answers are given as final.
        unscored: Reason why the answer could not be extracted; empty if it could.
    """

    text: str | None = None
    option: int | None = None
    as_text: bool = False
    form: bool = False
    settled: bool = False
    ambiguous: bool = False
    unscored: str = ""


NOTHING: Final = Extracted()
AMBIGUOUS: Final = Extracted(ambiguous=True)
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
# The rest of a word or number that a cut at the limit halved.
_CUT_WORD: Final = re.compile(r"^[\w.,]+")
# A run of superscripts, so that it becomes one power and not one for each digit.
_TWO_POWERS: Final = re.compile(r"([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
# Fractions of one character, such as ½.
_VULGAR: Final = re.compile("[¼-¾⅐-⅞↉]")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]")


def tail(text: str, limit: int = TAIL) -> str:
    """The last `limit` characters of a text, without trailing white space; a word that the limit halves is left out.

    >>> tail("an answer", limit=5)
    ''
    >>> tail("the answer B", limit=5)
    ' B'
    """
    text = text.rstrip()
    return text if len(text) <= limit else _CUT_WORD.sub("", text[-limit:])


def fold(text: str) -> str:
    """Text in compatibility form (NFKC): full-width and mathematical letters and the digits of any script as ASCII.

    Invisible characters are removed. Powers become ``^2`` and fractions of one character `` 1/2``: NFKC alone would
    join them with the digits before them.

    >>> fold("１０² ½ ١٢٣")
    '10^2  1/2 123'
    """
    if text.isascii():
        return text
    text = text.translate(_INVISIBLE).translate(_MARKS)
    text = _VULGAR.sub(lambda found: " " + found[0], text)
    text = _TWO_POWERS.sub(lambda found: "^" + found[0], text)
    # NFKC itself yields some of the marks, and a fraction slash between the digits of a fraction.
    text = unicodedata.normalize("NFKC", text).translate(_MARKS).replace("\u2044", "/")
    return _NOT_ASCII.sub(_ascii_digit, text)


def normalise(text: str) -> str:
    """Text in the form that is compared: folded, lower case, single spaces, no quotes or stops around it.

    >>> normalise(' “Santiago  de Chile.” ')
    'santiago de chile'
    """
    return " ".join(fold(text).casefold().split()).strip(" .,;:!?\"'“”‘’«»„*`_$")


def collapse_spaces(text: str) -> str:
    """Text with each run of white space as one space, and none at its ends."""
    return " ".join(text.split())


def whole_words(text: str) -> re.Pattern[str]:
    """Pattern of a text as whole words: ``5`` is neither in ``15`` nor in ``5.2``, ``Paris`` not in ``Parisian``."""
    return re.compile(rf"(?<!\w)(?<!\d[.,]){re.escape(text)}(?!\w)(?![.,]\d)")


def _ascii_digit(found: re.Match[str]) -> str:
    digit = unicodedata.decimal(found[0], None)
    return found[0] if digit is None else str(digit)
