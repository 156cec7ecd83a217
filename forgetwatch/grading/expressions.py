r"""Boxes and expressions: the answer is the last \boxed{...} of an output.

    "so \boxed{\frac{1}{2}}."    "\frac{1}{2}"
    "\boxed{1"                   none: the text ends inside the box

Match ``boxed``: two boxes are the same if they read the same without case, spaces, LaTeX spacing
and dollar signs, or if they are the same number (units in ``\text`` left out).

Match ``math``: two expressions are the same if they are equal, such as ``\frac{1}{2}`` and ``0.5``,
``(x+1)^2`` and ``x^2+2x+1``, ``\{1,2\}`` and ``\{2,1\}``. The optional package math-verify decides,
which reads LaTeX into SymPy. Its time limit, five seconds a step, uses the alarm signal and so
needs the main thread; in other threads only the length of an answer is limited.
"""

import importlib.util
import re
import threading
from fractions import Fraction
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.extras import install
from forgetwatch.grading.mathematics import find_numbers, normalise_numbers
from forgetwatch.grading.output_text import (
    NOTHING,
    Extracted,
    fold,
    plain,
    statements,
    tail,
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
    """Content of the last box of an output.

    Nothing if that box is not closed, whatever boxes come before.
    """
    ending = tail(body)
    last_box = max(_BOX.finditer(ending), key=re.Match.start, default=None)
    if last_box is None:
        return NOTHING
    if last_box["bare"]:
        return Extracted(
            text=last_box["bare"],
            form=True,
            settled=last_box.end() < len(ending) or body[-1:].isspace(),
        )
    depth = 1
    for brace in _BRACE.finditer(ending, last_box.end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            inside = ending[last_box.end() : brace.start()].strip()
            return Extracted(text=inside, form=True, settled=True) if inside else NOTHING
    return NOTHING


def same_box(output_text: str, answer: str) -> bool:
    """Are two contents of a box the same text or number?"""
    read_same = (
        _SPACING.sub("", _TEXT.sub(r"\1", fold(content))).rstrip(".").casefold()
        for content in (output_text, answer)
    )
    if len(set(read_same)) == 1:
        return True
    number = _number(output_text)
    return number is not None and number == _number(answer)


def check_installed() -> None:
    """Refuse if math-verify is not installed.

    Raises:
        ProbeError: If it is missing, with the command that installs the package.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise ProbeError(
            f"match 'math' compares answers with the package math-verify: {install('math_verify')}"
        )


def extract_expression(body: str) -> Extracted:
    """Find the expression that an output gives.

    The last box, else the last statement, else the only line.
    """
    if "\\boxed" in body or "\\fbox" in body:
        return extract_box(body)
    folded = plain(body)
    last_statement = max(statements(folded), key=lambda statement: statement.start, default=None)
    line = last_statement.line if last_statement else "" if "\n" in folded.strip() else folded
    inside = line.strip().rstrip(".").strip()
    if not inside:
        return NOTHING
    return Extracted(
        text=inside,
        form=last_statement is not None and last_statement.form,
        settled=body[-1:].isspace(),
    )


def same_value(output_text: str, answer: str) -> bool:
    """Are two expressions spelled alike or equal?

    An expression that cannot be read in time equals no other.

    One that cannot be read in time is equal to no other.
    """
    check_installed()
    if same_box(output_text, answer):
        return True
    if len(output_text) > _LONGEST:
        return False
    from math_verify import parse, verify

    limit = _SECONDS if threading.current_thread() is threading.main_thread() else None
    try:
        left, right = (
            parse(f"${expression}$", parsing_timeout=limit) for expression in (answer, output_text)
        )
        return bool(left and right and verify(left, right, timeout_seconds=limit))
    except Exception:
        # A parser may raise anything on a model's text; such a text is not known to be the answer.
        return False


def _number(text: str) -> tuple[Fraction, bool] | None:
    text = normalise_numbers(_TEXT.sub("", text)).replace("$", "").strip(" .")
    numbers = find_numbers(text)
    if len(numbers) != 1 or (numbers[0].start, numbers[0].end) != (0, len(text)):
        return None
    return numbers[0].value * numbers[0].scale, numbers[0].percent
