r"""Mathematical answers: numbers as exact fractions, boxes, and equality of expressions.

**Numbers.**

    1,234.50   1.234,50   1 234.5   1'234.5      1234.5     the last of two separators is the decimal one
    1,234   12,34,567                            1234       groups of three (in India of two) are thousands
    0,5   1,25                                   a decimal comma; 1.234 is read in the English way
    3/4   ½   1 1/2   \frac{3}{4}                fractions
    1e3   1.5 × 10^3   2^10                      powers
    -5   −5   -$5   $-5   = - 5   negative 5      minus signs
    42%                                          42, and also .42 where the other side has no percent sign
    3 million                                    3, and also 3,000,000 where the other side has no such word

Dates, versions, times and digits within words (``12.05.2024``, ``1.2.3``, ``B12``) are no numbers. The answer of an
output (`extract_number`):

    "6 * 7 = 42\n#### 42"             the number after the last statement ("####", "Answer:", a box)
    "Answer: 6 * 7 = 42 apples"       the result of the last equation
    "The answer is 6 by 7, so 42"     the last of the sentence, where it does not begin with the number
    "Answer: 41. Wait, no, 42."       the number that replaces it
    "so she has 42 apples left"       without a statement the last number of the text; no asked form
    "Answer: 3 or 4"                  ambiguous
    "Answer: unknown"                 no answer, whatever numbers come before
    "Answer: not 41 but 42"           42: a denied number does not count

**Boxes and expressions.** The answer is the last \boxed{...} of an output.

    "so \boxed{\frac{1}{2}}."    "\frac{1}{2}"
    "\boxed{1"                   none: the text ends inside the box

Match ``boxed``: two boxes are the same if they read the same without case, spaces, LaTeX spacing and dollar signs, or
if they are the same number (units in ``\text`` left out).

Match ``math``: two expressions are the same if they are equal, such as ``\frac{1}{2}`` and ``0.5``, ``(x+1)^2`` and
``x^2+2x+1``, ``\{1,2\}`` and ``\{2,1\}``. The optional package math-verify decides, which reads LaTeX into SymPy. Its
time limit, five seconds a step, uses the alarm signal and so needs the main thread; in other threads only the length of
an answer is limited.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.extras import install
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
# Possessive digits (``++``), so that a long run of digits is read once. The first line keeps out digits within words,
# dates and versions, the last line what a stop, slash or colon would continue.
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
    """Extract the number that an output gives as its answer, as a text that `same_number` reads."""
    # Emphasis and LaTeX go; dollar signs and underscores matter to no number.
    text = normalise_numbers(
        plain(_DOLLAR.sub(" ", tail(body)).replace("\\(", " ").replace("\\)", " "))
    )
    statement = _statement(text)
    if statement is None:
        inside = _given(text)
        if not inside:
            return NOTHING
        alone = not re.search(r"[^\W\d_]", text[: inside[-1].start]) and len(inside) == 1
        return AMBIGUOUS if _clash(text, inside[-2:]) else _found(text, inside[-1], form=alone)
    if instead := _instead(text, statement):
        return _found(
            text, instead, settled=bool(text[instead.end :].strip()) or body[-1:].isspace()
        )
    start, part = _part(first_sentence(statement.line))
    inside = _given(part)
    if not inside:
        return NOTHING
    direct = start > 0 or _begins(part, inside[0])
    if _clash(part, inside[:2] if direct else inside[-2:]):
        return AMBIGUOUS
    number = inside[0 if direct else -1]
    # A number at the very end of a cut text may have more digits.
    rest = text[statement.slot + start + number.end :]
    return _found(
        part, number, form=statement.form, settled=bool(rest.strip()) or body[-1:].isspace()
    )


def same_number(found: str, answer: str) -> bool:
    """Return True if two texts are the same number.

    A percent sign on one side only may also mean hundredths, and a word like million its multiple.
    """
    left, right = find_numbers(normalise_numbers(found)), find_numbers(normalise_numbers(answer))
    if not left or not right:
        return False
    first, second = left[-1], right[-1]
    if first.percent != second.percent:
        bare, percent = (second, first) if first.percent else (first, second)
        return bare.value in (percent.value, percent.value / 100)
    if first.value * first.scale == second.value * second.scale:
        return True
    return 1 in (first.scale, second.scale) and first.value == second.value


def find_numbers(text: str) -> list[Number]:
    """Return all numbers in a text that `normalise_numbers` made, in their order."""
    return [number for match in _NUMBER.finditer(text) for number in _read(match)]


def normalise_numbers(text: str) -> str:
    """Return the text with its digits as ASCII, and LaTeX fractions and thousands as plain ones."""
    text = _PRETTY.sub(
        lambda found: "," if "," in found[0] and found[0] != "\\," else " ", fold(text)
    )
    return _MINUS.sub(r"\1-", _FRACTION.sub(_fraction, text))


def _statement(text: str) -> Statement | None:
    """Return the last statement that has an asked form or begins with a number; else the last with a number in it."""
    fallback = None
    for statement in reversed(list(statements(text))):
        start, part = _part(first_sentence(statement.line))
        inside = _given(part)
        if statement.form or (inside and (start > 0 or _begins(part, inside[0]))):
            return statement
        fallback = fallback or (statement if inside else None)
    return fallback


def _part(line: str) -> tuple[int, str]:
    """Return (Position, text) of the side of an equation that is its result; of the whole line if it is no equation."""
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


def _begins(part: str, number: Number) -> bool:
    return _OPENING.fullmatch(part[: number.start]) is not None


def _instead(text: str, statement: Statement) -> Number | None:
    """Return the number that replaces the stated one where that is taken back; None if it is not."""
    found = None
    for position in retractions(text, statement.slot):
        inside = find_numbers(text[position : position + 60])
        # The replacement must be all that the line says: "wait, 5 of them are" replaces nothing.
        if inside and inside[0].start == 0 and _REST.match(text, position + inside[0].end):
            found = replace(inside[0], start=position, end=position + inside[0].end)
    return found


def _clash(text: str, two: Sequence[Number]) -> bool:
    """Return True if two numbers differ and are offered as alternatives."""
    if len(two) < 2 or two[0].value == two[1].value:
        return False
    return _EITHER.fullmatch(text[two[0].end : two[1].start]) is not None


def _found(text: str, number: Number, *, form: bool = False, settled: bool = False) -> Extracted:
    return Extracted(text=text[number.start : number.end].strip(), form=form, settled=settled)


def _fraction(found: re.Match[str]) -> str:
    # A digit before it is the whole part of a mixed number; a minus sign must stay next to the digits.
    space = " " if found.string[found.start() - 1 : found.start()].isdigit() else ""
    return f"{space}{found[1] or found[3]}/{found[2] or found[4]}"


def _read(match: re.Match[str]) -> list[Number]:
    """Return the number of a match of `_NUMBER`.

    Several where its commas separate a list, none where it is no number.
    """
    digits = match["digits"]
    start, end = match.span()
    value = _decimal(digits)
    if value is None:
        if "," not in digits or re.search(r"[.'’]", digits) or len(digits) > _DIGITS:
            return []
        # Commas that fit neither thousands nor a decimal separate a list, such as "3,4,5".
        position, parts = match.start("digits"), []
        for piece in digits.split(","):
            if (part := _decimal(piece)) is not None:
                parts.append(Number(part, False, position, position + len(piece)))
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
    """Return the value of digits with separators; None where these fit neither thousands nor a decimal."""
    if len(digits) > _DIGITS:
        return None
    digits = re.sub(rf"[{_SPACES}'’]", "", digits)
    points, commas = digits.count("."), digits.count(",")
    # Two kinds of separator: the last is the decimal one, and the others must group thousands.
    if points and commas:
        whole, mark, part = digits.rpartition("." if digits.rfind(".") > digits.rfind(",") else ",")
        if mark in whole or not _grouped(whole):
            return None
        return Fraction(f"{re.sub('[.,]', '', whole)}.{part}")
    if commas > 1 or points > 1:
        return Fraction(re.sub("[.,]", "", digits)) if _grouped(digits) else None
    # One comma: thousands before three digits ("1,234"), else a decimal comma. One point is always a decimal point.
    if commas:
        return Fraction(digits.replace(",", "" if _grouped(digits) else "."))
    return Fraction("0" + digits if points and digits.startswith(".") else digits)


def _grouped(digits: str) -> bool:
    """Return True if separators group three digits, or in the Indian way two and a last three."""
    if re.fullmatch(r"[1-9]\d?(?:,\d\d)+,\d{3}", digits):
        return True
    first, *groups = re.split("[.,]", digits)
    return (
        0 < len(first) <= 3
        and not first.startswith("0")
        and all(len(group) == 3 for group in groups)
    )


# A box with braces, or with a single character after it.
_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|(?P<bare>[^\s{}\\$]))")
# A brace, or an escaped character, which is no brace.
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
# LaTeX that changes how an answer looks, not what it says; \dfrac and \tfrac become \frac.
_SPACING: Final = re.compile(
    r"\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|\\[,;:! ]|\s+|\$|\\[()\[\]]|(?<=\\)[dt](?=frac)"
)
_TEXT: Final = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")
_LONGEST: Final = 300
"""Limit of the characters of an expression: a longer one is no answer, and may take hours to simplify."""

_SECONDS: Final = 5
"""Time limit of one step of math-verify."""


def extract_box(body: str) -> Extracted:
    """Extract the content of the last box; nothing if that box is not closed, whatever boxes come before."""
    text = tail(body)
    last = max(_BOX.finditer(text), key=re.Match.start, default=None)
    if last is None:
        return NOTHING
    if last["bare"]:
        return Extracted(
            text=last["bare"], form=True, settled=last.end() < len(text) or body[-1:].isspace()
        )
    depth = 1
    for brace in _BRACE.finditer(text, last.end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            inside = text[last.end() : brace.start()].strip()
            return Extracted(text=inside, form=True, settled=True) if inside else NOTHING
    return NOTHING


def same_box(found: str, answer: str) -> bool:
    """Return True if two contents of a box are the same as text or as a number."""
    read_same = (
        _SPACING.sub("", _TEXT.sub(r"\1", fold(text))).rstrip(".").casefold()
        for text in (found, answer)
    )
    if len(set(read_same)) == 1:
        return True
    number = _number(found)
    return number is not None and number == _number(answer)


def check_installed() -> None:
    """Raise ProbeError with the command that installs math-verify, if it is not installed."""
    if importlib.util.find_spec("math_verify") is None:
        raise ProbeError(
            f"match 'math' compares answers with the package math-verify: {install('math_verify')}"
        )


def extract_expression(body: str) -> Extracted:
    """Extract the expression that an output gives: its last box, else its last statement, else its only line."""
    if "\\boxed" in body or "\\fbox" in body:
        return extract_box(body)
    text = plain(body)
    last = max(statements(text), key=lambda statement: statement.start, default=None)
    line = last.line if last else "" if "\n" in text.strip() else text
    inside = line.strip().rstrip(".").strip()
    if not inside:
        return NOTHING
    return Extracted(text=inside, form=last is not None and last.form, settled=body[-1:].isspace())


def same_value(found: str, answer: str) -> bool:
    """Return True if two expressions are spelled alike or equal.

    One that cannot be read in time is equal to no other.
    """
    check_installed()
    if same_box(found, answer):
        return True
    if len(found) > _LONGEST:
        return False
    from math_verify import parse, verify

    limit = _SECONDS if threading.current_thread() is threading.main_thread() else None
    try:
        left, right = (parse(f"${text}$", parsing_timeout=limit) for text in (answer, found))
        return bool(left and right and verify(left, right, timeout_seconds=limit))
    except Exception:
        # A parser may raise anything on a model's text; such a text is not known to be the answer.
        return False


def _number(text: str) -> tuple[Fraction, bool] | None:
    """Return (Value, percent sign) of a text that is a number and nothing else; None for other texts."""
    text = normalise_numbers(_TEXT.sub("", text)).replace("$", "").strip(" .")
    numbers = find_numbers(text)
    if len(numbers) != 1 or (numbers[0].start, numbers[0].end) != (0, len(text)):
        return None
    return numbers[0].value * numbers[0].scale, numbers[0].percent
