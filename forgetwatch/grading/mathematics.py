r"""The last \boxed{...} of an output, with balanced braces.

    "so \boxed{\frac{1}{2}}."    "\frac{1}{2}"
    "\boxed{1"                   none: the text ends inside the box

Two boxes are the same if they read the same without case, spaces, LaTeX spacing and dollar signs, or if they are the
same number (units in ``\text`` left out). For equality in mathematics (``(x+1)^2`` and ``x^2+2x+1``) an item asks for
the match ``math`` (mathematics.py).

Equality in mathematics: ``\frac{1}{2}`` and ``0.5``, ``(x+1)^2`` and ``x^2+2x+1``, ``\{1,2\}`` and ``\{2,1\}``.

This is the work of the package math-verify, which reads LaTeX into SymPy; it is optional. Its time limit of five
seconds a step needs the main thread and takes its alarm clock (SIGALRM); elsewhere answers are only bounded in length.
"""

from __future__ import annotations

import importlib.util
import re
import threading
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.grading.numbers import find_numbers, normalise_numbers
from forgetwatch.grading.statements import plain, statements
from forgetwatch.grading.text import NOTHING, Extracted, fold, tail

_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|(?P<bare>[^\s{}\\$]))")
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_SPACING: Final = re.compile(
    r"\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|\\[,;:! ]|\s+|\$|\\[()\[\]]|(?<=\\)[dt](?=frac)"
)
_TEXT: Final = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")


def extract_box(body: str) -> Extracted:
    """What stands in the last box, or nothing: a box that is not closed is none, and no box before it counts either."""
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
    """Whether two contents of a box are the same as text or as a number."""
    one, other = _plain(found), _plain(answer)
    if one == other:
        return True
    left, right = (_number(text) for text in (found, answer))
    return left is not None and left == right


def _plain(text: str) -> str:
    return _SPACING.sub("", _TEXT.sub(r"\1", fold(text))).rstrip(".").casefold()


def _number(text: str) -> object:
    """The value of a text that is a number and nothing else."""
    text = normalise_numbers(_TEXT.sub("", text)).replace("$", "").strip(" .")
    read = find_numbers(text)
    return (
        (read[0].value * read[0].scale, read[0].percent)
        if len(read) == 1 and (read[0].start, read[0].end) == (0, len(text))
        else None
    )


_LONGEST: Final = 300
"""Characters of an answer that are read as mathematics; more is no answer, and may take hours to simplify."""

_SECONDS: Final = 5


def check_installed() -> None:
    """Refuse items that need mathematics where math-verify is not installed.

    Raises:
        ProbeError: If it is not.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise ProbeError("match 'math' compares answers with the package math-verify: pip install math-verify")


def extract_expression(body: str) -> Extracted:
    """The expression that the output gives: its last box, or else what its last statement or its only line says."""
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
    """Whether two expressions are equal; False where one cannot be read, or where it takes too long to tell.

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
        # Whatever a parser of foreign text trips over, such a text is not known to be the answer.
        return False
