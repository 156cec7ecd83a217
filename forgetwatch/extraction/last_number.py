r"""The number that an output gives as its answer.

"6 * 7 = 42\n#### 42"          behind the last statement ("####", "Answer:", a box)
"Answer: 6 * 7 = 42 apples"    what the last equals sign leads to
"so she has 42 apples left"    or else the last number of the text; not in an asked form
"Answer: 3 or 4"               ambiguous
"Answer: unknown"              no answer, whatever numbers stand before
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from forgetwatch.extraction.found import AMBIGUOUS, NOTHING, Found
from forgetwatch.extraction.number import Number, numbers, readable
from forgetwatch.extraction.statement import plain, sentence, statements
from forgetwatch.extraction.text import tail

_EITHER: Final = re.compile(
    r"\s*(?:,|;|&|(?:[^\W\d_]{1,12}\s+)?\b(?:or|and|to|oder|und|bis|ou|et)\b|-|–|—)\s*(?:[$€£]\s*)?"
)


def last_number(body: str) -> Found:
    """The number that the output gives as its answer, as a text that `same_number` reads."""
    # Emphasis and LaTeX go; dollar signs and underscores matter to no number.
    text = readable(plain(tail(body).replace("\\$", " ").replace("\\(", " ").replace("\\)", " ")))
    given = None
    for statement in reversed(list(statements(text))):
        line = sentence(statement.line)
        inside = numbers(line.rpartition("=")[2]) or numbers(line)
        if inside or statement.form:
            given = (statement, inside, line)
            break
    if given is None:
        inside = numbers(text)
        if not inside:
            return NOTHING
        alone = not re.search(r"[^\W\d_]", text[: inside[-1].start]) and len(inside) == 1
        return AMBIGUOUS if _clash(text, inside[-2:]) else _found(text, inside[-1], form=alone)
    statement, inside, line = given
    if not inside:
        return NOTHING
    part = line.rpartition("=")[2] if numbers(line.rpartition("=")[2]) else line
    if _clash(part, inside[:2]):
        return AMBIGUOUS
    # A number that ends a cut text may have more digits.
    rest = text[statement.slot + len(line) - len(part) + inside[0].end :]
    settled = bool(rest.strip()) or body[-1:].isspace()
    return _found(part, inside[0], form=statement.form, settled=settled)


def _clash(text: str, two: Sequence[Number]) -> bool:
    """Whether two numbers are offered side by side and differ."""
    if len(two) < 2 or two[0].value == two[1].value:
        return False
    return _EITHER.fullmatch(text[two[0].end : two[1].start]) is not None


def _found(text: str, number: Number, *, form: bool, settled: bool = False) -> Found:
    return Found(text=text[number.start : number.end].strip(), form=form, settled=settled)


def same_number(found: str, answer: str) -> bool:
    """Whether two texts are the same number; a percent sign on one side only may also mean hundredths."""
    left, right = numbers(readable(found)), numbers(readable(answer))
    if not left or not right:
        return False
    one, other = left[-1], right[-1]
    if one.percent == other.percent:
        return one.value == other.value
    bare, percent = (other, one) if one.percent else (one, other)
    return bare.value in (percent.value, percent.value / 100)
