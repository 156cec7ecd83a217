r"""Mathematical answers: the last \boxed{...} of an output, and equality of expressions.

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
from fractions import Fraction
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.grading.numbers import find_numbers, normalise_numbers
from forgetwatch.grading.statements import plain, statements
from forgetwatch.grading.text import NOTHING, Extracted, fold, tail

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
        return Extracted(text=last["bare"], form=True, settled=last.end() < len(text) or body[-1:].isspace())
    depth = 1
    for brace in _BRACE.finditer(text, last.end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            inside = text[last.end() : brace.start()].strip()
            return Extracted(text=inside, form=True, settled=True) if inside else NOTHING
    return NOTHING


def same_box(found: str, answer: str) -> bool:
    """True if two contents of a box are the same as text or as a number."""
    if _plain(found) == _plain(answer):
        return True
    left, right = (_number(text) for text in (found, answer))
    return left is not None and left == right


def check_installed() -> None:
    """Raise if math-verify is not installed.

    Raises:
        ProbeError: With the command that installs it.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise ProbeError("match 'math' compares answers with the package math-verify: pip install math-verify")


def extract_expression(body: str) -> Extracted:
    """Extract the expression that an output gives: its last box, else its last statement, else its only line."""
    if "\\boxed" in body or "\\fbox" in body:
        return extract_box(body)
    text = plain(body)
    last = max(statements(text), key=lambda statement: statement.start, default=None)
    lines = [text.strip()] if text.strip() and "\n" not in text.strip() else []
    line = last.line if last else (lines[0] if lines else "")
    inside = line.strip().rstrip(".").strip()
    return (
        Extracted(text=inside, form=last is not None and last.form, settled=body[-1:].isspace()) if inside else NOTHING
    )


def same_value(found: str, answer: str) -> bool:
    """True if two expressions are equal; False where one cannot be read or the time limit is reached.

    Raises:
        ProbeError: If math-verify is not installed.
    """
    check_installed()
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


def _plain(text: str) -> str:
    return _SPACING.sub("", _TEXT.sub(r"\1", fold(text))).rstrip(".").casefold()


def _number(text: str) -> tuple[Fraction, bool] | None:
    """(Value, percent sign) of a text that is a number and nothing else; None for other texts."""
    text = normalise_numbers(_TEXT.sub("", text)).replace("$", "").strip(" .")
    numbers = find_numbers(text)
    if len(numbers) != 1 or (numbers[0].start, numbers[0].end) != (0, len(text)):
        return None
    return numbers[0].value * numbers[0].scale, numbers[0].percent
