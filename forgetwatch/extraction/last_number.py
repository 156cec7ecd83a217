r"""The number that an output gives as its answer.

"6 * 7 = 42\n#### 42"             behind the last statement ("####", "Answer:", a box)
"Answer: 6 * 7 = 42 apples"       what the last equals sign leads to
"The answer is 6 by 7, so 42"     the last of the sentence, where it does not begin with the number
"Answer: 41. Wait, no, 42."       what stands instead
"so she has 42 apples left"       or else the last number of the text; not in an asked form
"Answer: 3 or 4"                  ambiguous
"Answer: unknown"                 no answer, whatever numbers stand before
"Answer: not 41 but 42"           a number that is denied is none
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from forgetwatch.extraction.found import AMBIGUOUS, NOTHING, Found
from forgetwatch.extraction.number import Number, numbers, readable
from forgetwatch.extraction.statement import Statement, plain, sentence, statements, taken_back
from forgetwatch.extraction.text import tail

_EITHER: Final = re.compile(
    r"\s*(?:,|;|&|(?:[^\W\d_]{1,12}\s+)?\b(?:or|and|to|oder|und|bis|ou|et)\b|-|–|—)\s*(?:[$€£]\s*)?"
)
_DENIED: Final = re.compile(r"(?:\bnot|n['’]t|\brather\s+than|\binstead\s+of)\s+\Z", re.IGNORECASE)
_OPENING: Final = re.compile(
    r"(?:[\W_]|\b(?:about|approx|approximately|around|roughly|exactly|nearly|almost|only|just|simply|still|indeed|"
    r"therefore|thus|then|equal|equals|to|is|a|the|total|of|usd|eur|rs|[a-z])\b)*+",
    re.IGNORECASE,
)
_DOLLAR: Final = re.compile(r"\\\$|(?<=[A-Za-z])\$(?=\d)")
_OPERATOR: Final = re.compile(r"\s*(?:[-+*/×·÷]|\\times|\\cdot|\\div)\s*")
_REST: Final = re.compile(r"(?:\s?[^\W\d_]+)?[.!]?[^\S\n]*(?:\n|\Z)")


def last_number(body: str) -> Found:
    """The number that the output gives as its answer, as a text that `same_number` reads."""
    # Emphasis and LaTeX go; dollar signs and underscores matter to no number.
    text = readable(plain(_DOLLAR.sub(" ", tail(body)).replace("\\(", " ").replace("\\)", " ")))
    statement = _statement(text)
    if statement is None:
        inside = _given(text)
        if not inside:
            return NOTHING
        alone = not re.search(r"[^\W\d_]", text[: inside[-1].start]) and len(inside) == 1
        return AMBIGUOUS if _clash(text, inside[-2:]) else _found(text, inside[-1], form=alone)
    if instead := _instead(text, statement):
        return _found(text, instead, settled=bool(text[instead.end :].strip()) or body[-1:].isspace())
    start, part = _part(sentence(statement.line))
    inside = _given(part)
    if not inside:
        return NOTHING
    direct = start > 0 or _begins(part, inside[0])
    if _clash(part, inside[:2] if direct else inside[-2:]):
        return AMBIGUOUS
    number = inside[0 if direct else -1]
    # A number that ends a cut text may have more digits.
    rest = text[statement.slot + start + number.end :]
    return _found(part, number, form=statement.form, settled=bool(rest.strip()) or body[-1:].isspace())


def _statement(text: str) -> Statement | None:
    """The last statement that is in an asked form or begins with a number; else the last with a number in it."""
    other = None
    for statement in reversed(list(statements(text))):
        start, part = _part(sentence(statement.line))
        inside = _given(part)
        if statement.form or (inside and (start > 0 or _begins(part, inside[0]))):
            return statement
        other = other or (statement if inside else None)
    return other


def _part(line: str) -> tuple[int, str]:
    """The side of an equation that is its result, and where it begins; the whole line where it is none."""
    left, equals, right = line.rpartition("=")
    inside = _given(right)
    if not equals or not inside:
        return 0, line
    if len(inside) > 1 and _OPERATOR.fullmatch(right[inside[0].end : inside[1].start]) and len(_given(left)) == 1:
        return 0, left  # "42 = 6 * 7"
    return len(left) + 1, right


def _given(text: str) -> list[Number]:
    """The numbers of a text that are not denied."""
    return [one for one in numbers(text) if not _DENIED.search(text[max(0, one.start - 20) : one.start])]


def _begins(part: str, number: Number) -> bool:
    return _OPENING.fullmatch(part[: number.start]) is not None


def _instead(text: str, statement: Statement) -> Number | None:
    """The number that stands instead of the stated one, where that is taken back."""
    found = None
    for place in taken_back(text, statement.slot):
        inside = numbers(text[place : place + 60])
        if inside and inside[0].start == 0 and _REST.match(text, place + inside[0].end):
            one = inside[0]
            found = Number(one.value, one.percent, place, place + one.end, one.scale)
    return found


def _clash(text: str, two: Sequence[Number]) -> bool:
    """Whether two numbers are offered side by side and differ."""
    if len(two) < 2 or two[0].value == two[1].value:
        return False
    return _EITHER.fullmatch(text[two[0].end : two[1].start]) is not None


def _found(text: str, number: Number, *, form: bool = False, settled: bool = False) -> Found:
    return Found(text=text[number.start : number.end].strip(), form=form, settled=settled)


def same_number(found: str, answer: str) -> bool:
    """Whether two texts are the same number.

    A percent sign on one side only may also mean hundredths, and a word like million its multiple.
    """
    left, right = numbers(readable(found)), numbers(readable(answer))
    if not left or not right:
        return False
    one, other = left[-1], right[-1]
    if one.percent != other.percent:
        bare, percent = (other, one) if one.percent else (one, other)
        return bare.value in (percent.value, percent.value / 100)
    if one.value * one.scale == other.value * other.scale:
        return True
    return 1 in (one.scale, other.scale) and one.value == other.value
