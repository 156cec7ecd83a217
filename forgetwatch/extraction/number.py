r"""Numbers in text, as exact fractions.

    1,234.50   1.234,50   1 234.5   1'234.5      1234.5     the last of two separators is the decimal one
    1,234   12,34,567                            1234       groups of three (in India of two) are thousands
    0,5   1,25                                   a decimal comma; 1.234 is read in the English way
    3/4   ½   1 1/2   \frac{3}{4}                fractions
    1e3   1.5 × 10^3   2^10                      powers
    -5   −5   -$5   $-5   = - 5   negative 5      minus signs
    42%                                          42, and also .42 where the other side has no percent sign
    3 million                                    3, and also 3,000,000 where the other side has no such word

Dates, versions, times and numbers within words (``12.05.2024``, ``1.2.3``, ``B12``) are none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from forgetwatch.extraction.text import fold

_DIGITS: Final = 400
"""Digits and decimal exponents beyond this are no numbers that anybody compares."""

_SPACES: Final = r"\u00a0\u2007\u2009\u202f "
_NUMBER: Final = re.compile(
    r"(?:(?<![^\W\d])|(?=[$€£¥₹]))(?<!\d)(?<!\d[.,:/])"
    r"(?P<sign>(?<![\w)\]}.])(?:[-+]|–(?=[\d.$€£¥₹])|[Nn]egative\s))?(?:\\?[$€£¥₹])?(?P<inner>(?<=[$€£¥₹])-)?"
    rf"(?P<digits>\d++(?:[.,'’]\d++|[{_SPACES}]\d{{3}}(?!\d))*+|\.\d++)"
    r"(?:[eE](?P<exponent>[-+]?\d{1,4})(?!\w))?"
    r"(?:\s?(?:[×*·]|x(?=\s?10\^)|\\times|\\cdot)\s?10\^\{?(?P<ten>[-+]?\d{1,4})\}?|\^\{?(?P<power>-?\d{1,3})\}?)?"
    r"(?:\s?/\s?(?P<below>\d++)(?!\s?/\s?\d)(?![.,]\d)|\s(?P<top>\d{1,4})/(?P<bottom>\d{1,4})(?![\d/]))?"
    r"(?P<percent>\s?\\?%|\s+per\s?cent\b|\s+percent\b)?"
    r"(?:[\s-](?P<scale>[Tt]housand|[MmBb]illion|[Tt]rillion)\b)?"
    r"(?![.:/]\d)"
)
_FRACTION: Final = re.compile(r"\\[dtc]?frac\s*(?:\{\s*(-?\d{1,99})\s*\}\s*\{\s*(\d{1,99})\s*\}|(\d)(\d))")
_MINUS: Final = re.compile(r"(?<=[=(≈])(\s?)-\s+(?=[\d.$€£¥₹\\])")
_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PRETTY: Final = re.compile(r"\{,\}|\\,|\\!")


@dataclass(frozen=True)
class Number:
    """A number in a text: its value, whether a percent sign follows, where it stands (start, end), and its scale.

    The scale is that of a word behind it, such as a million; the value is without it.
    """

    value: Fraction
    percent: bool
    start: int
    end: int
    scale: int = 1


def readable(text: str) -> str:
    """The text with its digits as ASCII, and LaTeX fractions and thousands as plain ones."""
    text = _PRETTY.sub(lambda found: "," if "," in found[0] and found[0] != "\\," else " ", fold(text))
    return _MINUS.sub(r"\1-", _FRACTION.sub(_fraction, text))


def _fraction(found: re.Match[str]) -> str:
    # A digit before it is a whole part; a minus sign has to stay with it.
    space = " " if found.string[found.start() - 1 : found.start()].isdigit() else ""
    return f"{space}{found[1] or found[3]}/{found[2] or found[4]}"


def numbers(text: str) -> list[Number]:
    """All numbers in a readable text, in their order."""
    found = []
    for match in _NUMBER.finditer(text):
        found += _read(match)
    return found


def _read(match: re.Match[str]) -> list[Number]:
    """The number that a match stands for; several, where commas separate a list."""
    digits = match["digits"]
    start, end = match.span()
    value = _decimal(digits)
    if value is None:
        if "," not in digits or re.search(r"[.'’]", digits) or len(digits) > _DIGITS:
            return []
        place, parts = match.start("digits"), []
        for piece in digits.split(","):
            if (part := _decimal(piece)) is not None:
                parts.append(Number(part, False, place, place + len(piece)))
            place += len(piece) + 1
        return parts
    exponent = int(match["exponent"] or match["ten"] or 0)
    power = int(match["power"] or 1)
    if abs(exponent) > _DIGITS or len(digits) * abs(power) > _DIGITS or (power < 0 and not value):
        return []
    value = value**power * Fraction(10) ** exponent
    if match["below"]:
        if len(match["below"]) > _DIGITS or not int(match["below"]):
            return []
        value /= int(match["below"])
    elif match["bottom"] and int(match["bottom"]):
        value += Fraction(int(match["top"]), int(match["bottom"]))
    negative = match["sign"] not in (None, "+") or match["inner"] is not None
    scale = _SCALES[match["scale"].lower()] if match["scale"] else 1
    return [Number(-value if negative else value, match["percent"] is not None, start, end, scale)]


def _decimal(digits: str) -> Fraction | None:
    """The value of digits with separators; None where these fit neither thousands nor decimals."""
    if len(digits) > _DIGITS:
        return None
    digits = re.sub(rf"[{_SPACES}'’]", "", digits)
    points, commas = digits.count("."), digits.count(",")
    if points and commas:
        whole, mark, part = digits.rpartition("." if digits.rfind(".") > digits.rfind(",") else ",")
        if mark in whole or not _grouped(whole):
            return None
        return Fraction(f"{re.sub('[.,]', '', whole)}.{part}")
    if commas > 1 or points > 1:
        return Fraction(re.sub("[.,]", "", digits)) if _grouped(digits) else None
    if commas:
        return Fraction(digits.replace(",", "" if _grouped(digits) else "."))
    return Fraction("0" + digits if points and digits.startswith(".") else digits)


def _grouped(digits: str) -> bool:
    """Whether all separators stand before groups of three digits, or in the Indian way before two and a last three."""
    if re.fullmatch(r"[1-9]\d?(?:,\d\d)+,\d{3}", digits):
        return True
    first, *groups = re.split("[.,]", digits)
    return 0 < len(first) <= 3 and not first.startswith("0") and all(len(group) == 3 for group in groups)
