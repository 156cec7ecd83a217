r"""Mathematical answers: numbers as exact fractions, boxes, and equality of expressions.

    1,234.50   1.234,50   1 234.5   1'234.5      1234.5     the last of two separators is the decimal one
    1,234   12,34,567                            1234       groups of three (in India of two) are thousands
    0,5   1,25                                   a decimal comma; 1.234 is read in the English way
    3/4   ½   1 1/2   \frac{3}{4}                fractions
    1e3   1.5 × 10^3   2^10                      powers
    -5   −5   -$5   $-5   = - 5   negative 5      minus signs
    42%                                          42, and also .42 where the other side has no percent sign
    3 million                                    3, and also 3,000,000 where the other side has no such word

Dates, versions, times and digits within words (``12.05.2024``, ``1.2.3``, ``B12``) are no numbers.
The answer of an output (`extract_number`):

    "6 * 7 = 42\n#### 42"             the number after the last statement ("####", "Answer:", a box)
    "Answer: 6 * 7 = 42 apples"       the result of the last equation
    "The answer is 6 by 7, so 42"     the last of the sentence, where it does not begin with the number
    "Answer: 41. Wait, no, 42."       the number that replaces it
    "so she has 42 apples left"       without a statement the last number of the text; no asked form
    "Answer: 3 or 4"                  ambiguous
    "Answer: unknown"                 no answer, whatever numbers come before
    "Answer: not 41 but 42"           42: a denied number does not count
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from forgetwatch.grading.output_text import (
    AMBIGUOUS,
    NOTHING,
    Extracted,
    Statement,
    first_sentence,
    fold,
    plain,
    retractions,
    statements,
    tail,
)

_DIGITS: Final = 400
"""Limit of digits and of decimal exponents; no answer has more, and exact arithmetic slows with each."""


_SPACES: Final = r"\u00a0\u2007\u2009\u202f "


# Possessive digits (``++``), so that a long run of digits is read once. The first line keeps out
# digits within words, dates and versions, the last line what a stop, slash or colon would continue.
_NUMBER: Final = re.compile(
    r"(?:(?<![^\W\d])|(?=[$€£¥₹]))(?<!\d)(?<!\d[.,:/])"
    r"(?P<sign>(?<![\w)\]}.])(?:[-+]|–(?=[\d.$€£¥₹])|[Nn]egative\s))?(?:\\?[$€£¥₹])?(?P<inner>(?<=[$€£¥₹])-)?"
    rf"(?P<digits>\d++(?>(?:[.,'’]\d++|[{_SPACES}]\d{{3}}(?!\d))*)|\.\d++)"
    r"(?:[eE](?P<exponent>[-+]?\d{1,4})(?!\w))?"
    r"(?:\s?(?:[×*·]|x(?=\s?10\^)|\\times|\\cdot)\s?10\^\{?(?P<ten>[-+]?\d{1,4})\}?|\^\{?(?P<power>-?\d{1,3})\}?)?"
    r"(?:\s?/\s?(?P<below>\d++)(?!\s?/\s?\d)(?![.,]\d)|\s(?P<top>\d{1,4})/(?P<bottom>\d{1,4})(?![\d/]))?"
    r"(?P<percent>\s?\\?%|\s+per\s?cent\b|\s+percent\b)?"
    r"(?:[\s-](?P<scale>[Tt]housand|[MmBb]illion|[Tt]rillion)\b)?"
    r"(?![.:/]\d)"
)


_FRACTION: Final = re.compile(
    r"\\[dtc]?frac\s*(?:\{\s*(-?\d{1,99})\s*\}\s*\{\s*(\d{1,99})\s*\}|(\d)(\d))"
)


# "= - 5": a minus sign with a space, after a sign that needs a number.
_MINUS: Final = re.compile(r"(?<=[=(≈])(\s?)-\s+(?=[\d.$€£¥₹\\])")


_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


# Thousands as LaTeX writes them.
_PRETTY: Final = re.compile(r"\{,\}|\\,|\\!")


# Text between two numbers that are offered side by side.
_EITHER: Final = re.compile(
    r"\s*(?:,|;|&|(?:[^\W\d_]{1,12}\s+)?\b(?:or|and|to|oder|und|bis|ou|et)\b|-|–|—)\s*(?:[$€£]\s*)?"
)


_DENIED: Final = re.compile(r"(?:\bnot|n['’]t|\brather\s+than|\binstead\s+of)\s+\Z", re.IGNORECASE)


# Words and signs between a statement and its number, such as "about $"; atomic.
_OPENING: Final = re.compile(
    r"(?>(?:[\W_]|\b(?:about|approx|approximately|around|roughly|exactly|nearly|almost|only|just|simply|still|indeed|"
    r"therefore|thus|then|equal|equals|to|is|a|the|total|of|usd|eur|rs|[a-z])\b)*)",
    re.IGNORECASE,
)


# Dollar signs that `plain` would join with the letters before them: "US$5".
_DOLLAR: Final = re.compile(r"\\\$|(?<=[A-Za-z])\$(?=\d)")


_OPERATOR: Final = re.compile(r"\s*(?:[-+*/×·÷]|\\times|\\cdot|\\div)\s*")


# The end of a line after a number: at most a unit and a stop.
_REST: Final = re.compile(r"(?:\s?[^\W\d_]+)?[.!]?[^\S\n]*(?:\n|\Z)")


@dataclass(frozen=True)
class Number:
    """A number in a text, from the character `start` to before the character `end`."""

    value: Fraction  # without percent sign and scale
    percent: bool  # True if a percent sign follows
    start: int
    end: int
    scale: int = 1  # multiple that a word after it names, such as 10**6 for a million


def extract_number(body: str) -> Extracted:
    """Find the number that an output gives as its answer.

    `same_number` reads the result.
    """
    # Emphasis and LaTeX go; dollar signs and underscores matter to no number.
    normalised = normalise_numbers(
        plain(_DOLLAR.sub(" ", tail(body)).replace("\\(", " ").replace("\\)", " "))
    )
    statement = _statement(normalised)
    if statement is None:
        inside = _given(normalised)
        if not inside:
            return NOTHING
        alone = not re.search(r"[^\W\d_]", normalised[: inside[-1].start]) and len(inside) == 1
        return (
            AMBIGUOUS
            if _clash(normalised, inside[-2:])
            else _found(normalised, inside[-1], form=alone)
        )
    if instead := _instead(normalised, statement):
        return _found(
            normalised,
            instead,
            settled=bool(normalised[instead.end :].strip()) or body[-1:].isspace(),
        )
    start, side = _part(first_sentence(statement.line))
    inside = _given(side)
    if not inside:
        return NOTHING
    direct = start > 0 or _begins(side, inside[0])
    if _clash(side, inside[:2] if direct else inside[-2:]):
        return AMBIGUOUS
    number = inside[0 if direct else -1]
    # A number at the very end of a cut text may have more digits.
    rest = normalised[statement.slot + start + number.end :]
    return _found(
        side, number, form=statement.form, settled=bool(rest.strip()) or body[-1:].isspace()
    )


def same_number(output_text: str, answer: str) -> bool:
    """Are two texts the same number?

    A percent sign on one side may also mean hundredths; a word like million, the multiple.

    A percent sign on one side only may also mean hundredths, and a word like million its multiple.
    """
    left, right = (
        find_numbers(normalise_numbers(output_text)),
        find_numbers(normalise_numbers(answer)),
    )
    if not left or not right:
        return False
    number, second = left[-1], right[-1]
    if number.percent != second.percent:
        bare, percent = (second, number) if number.percent else (number, second)
        return bare.value in (percent.value, percent.value / 100)
    if number.value * number.scale == second.value * second.scale:
        return True
    return 1 in (number.scale, second.scale) and number.value == second.value


def find_numbers(text: str) -> list[Number]:
    """Numbers in a text of `normalise_numbers`, in order."""
    return [number for match in _NUMBER.finditer(text) for number in _read(match)]


def normalise_numbers(text: str) -> str:
    """Write digits as ASCII; LaTeX fractions and thousands plainly."""
    text = _PRETTY.sub(
        lambda separator: "," if "," in separator[0] and separator[0] != "\\," else " ", fold(text)
    )
    return _MINUS.sub(r"\1-", _FRACTION.sub(_fraction, text))


def _statement(text: str) -> Statement | None:
    # The last statement in an expected form or that begins with a number; else the last with a
    # number in it.
    fallback = None
    for statement in reversed(list(statements(text))):
        start, side = _part(first_sentence(statement.line))
        inside = _given(side)
        if statement.form or (inside and (start > 0 or _begins(side, inside[0]))):
            return statement
        fallback = fallback or (statement if inside else None)
    return fallback


def _part(line: str) -> tuple[int, str]:
    # The side of an equation that is the result; the whole line without an equation.
    left, equals, right = line.rpartition("=")
    inside = _given(right)
    if not equals or not inside:
        return 0, line
    if (
        len(inside) > 1
        and _OPERATOR.fullmatch(right[inside[0].end : inside[1].start])
        and len(_given(left)) == 1
    ):
        return 0, left  # "42 = 6 * 7"
    return len(left) + 1, right


def _given(text: str) -> list[Number]:
    return [
        number
        for number in find_numbers(text)
        if not _DENIED.search(text[max(0, number.start - 20) : number.start])
    ]


def _begins(side: str, number: Number) -> bool:
    return _OPENING.fullmatch(side[: number.start]) is not None


def _instead(text: str, statement: Statement) -> Number | None:
    # A new number where the stated one is taken back.
    replacement = None
    for position in retractions(text, statement.slot):
        inside = find_numbers(text[position : position + 60])
        # The replacement must be all that the line says: "wait, 5 of them are" replaces nothing.
        if inside and inside[0].start == 0 and _REST.match(text, position + inside[0].end):
            replacement = replace(inside[0], start=position, end=position + inside[0].end)
    return replacement


def _clash(text: str, two: Sequence[Number]) -> bool:
    if len(two) < 2 or two[0].value == two[1].value:
        return False
    return _EITHER.fullmatch(text[two[0].end : two[1].start]) is not None


def _found(text: str, number: Number, *, form: bool = False, settled: bool = False) -> Extracted:
    return Extracted(text=text[number.start : number.end].strip(), form=form, settled=settled)


def _fraction(match: re.Match[str]) -> str:
    # A digit before it is the whole part of a mixed number; a minus sign must stay next to the
    # digits.
    space = " " if match.string[match.start() - 1 : match.start()].isdigit() else ""
    return f"{space}{match[1] or match[3]}/{match[2] or match[4]}"


def _read(match: re.Match[str]) -> list[Number]:
    # Several where commas separate a list, none where it is no number.
    digits = match["digits"]
    start, end = match.span()
    value = _decimal(digits)
    if value is None:
        if "," not in digits or re.search(r"[.'’]", digits) or len(digits) > _DIGITS:
            return []
        # Commas that fit neither thousands nor a decimal separate a list, such as "3,4,5".
        position, parts = match.start("digits"), []
        for piece in digits.split(","):
            if (decimal := _decimal(piece)) is not None:
                parts.append(Number(decimal, False, position, position + len(piece)))
            position += len(piece) + 1
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
    # None where the separators fit neither thousands nor a decimal.
    if len(digits) > _DIGITS:
        return None
    digits = re.sub(rf"[{_SPACES}'’]", "", digits)
    points, commas = digits.count("."), digits.count(",")
    # Two kinds of separator: the last is the decimal one, and the others must group thousands.
    if points and commas:
        integer, mark, decimals = digits.rpartition(
            "." if digits.rfind(".") > digits.rfind(",") else ","
        )
        if mark in integer or not _grouped(integer):
            return None
        return Fraction(f"{re.sub('[.,]', '', integer)}.{decimals}")
    if commas > 1 or points > 1:
        return Fraction(re.sub("[.,]", "", digits)) if _grouped(digits) else None
    # One comma: thousands before three digits ("1,234"), else a decimal comma. One point is always
    # a decimal point.
    if commas:
        return Fraction(digits.replace(",", "" if _grouped(digits) else "."))
    return Fraction("0" + digits if points and digits.startswith(".") else digits)


def _grouped(digits: str) -> bool:
    # Three digits, or in the Indian way two and a last three.
    if re.fullmatch(r"[1-9]\d?(?:,\d\d)+,\d{3}", digits):
        return True
    first_group, *groups = re.split("[.,]", digits)
    return (
        0 < len(first_group) <= 3
        and not first_group.startswith("0")
        and all(len(group) == 3 for group in groups)
    )
