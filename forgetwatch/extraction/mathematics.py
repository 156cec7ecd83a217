r"""Equality in mathematics: ``\frac{1}{2}`` and ``0.5``, ``(x+1)^2`` and ``x^2+2x+1``, ``\{1,2\}`` and ``\{2,1\}``.

This is the work of the package math-verify, which reads LaTeX into SymPy; it is optional. Its time limit of five
seconds a step needs the main thread and takes its alarm clock (SIGALRM); elsewhere answers are only bounded in length.
"""

from __future__ import annotations

import importlib.util
import threading
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.extraction.boxed import boxed
from forgetwatch.extraction.found import NOTHING, Found
from forgetwatch.extraction.statement import plain, statements

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


def expression(body: str) -> Found:
    """The expression that the output gives: its last box, or else what its last statement or its only line says."""
    if "\\boxed" in body or "\\fbox" in body:
        return boxed(body)
    text = plain(body)
    last = max(statements(text), key=lambda statement: statement.start, default=None)
    lines = [text.strip()] if text.strip() and "\n" not in text.strip() else []
    line = last.line if last else (lines[0] if lines else "")
    inside = line.strip().rstrip(".").strip()
    return Found(text=inside, form=last is not None and last.form, settled=body[-1:].isspace()) if inside else NOTHING


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
