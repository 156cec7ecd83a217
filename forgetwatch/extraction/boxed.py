r"""The last \boxed{...} of an output, with balanced braces.

    "so \boxed{\frac{1}{2}}."    "\frac{1}{2}"
    "\boxed{1"                   none: the text ends inside the box

Two boxes are the same if they read the same without case, spaces, LaTeX spacing and dollar signs, or if they are the
same number (units in ``\text`` left out). For equality in mathematics (``(x+1)^2`` and ``x^2+2x+1``) an item asks for
the match ``math`` (mathematics.py).
"""

from __future__ import annotations

import re
from typing import Final

from forgetwatch.extraction.found import NOTHING, Found
from forgetwatch.extraction.number import numbers, readable
from forgetwatch.extraction.text import fold, tail

_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s*(?:\{|(?P<bare>[^\s{}\\$]))")
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
_SPACING: Final = re.compile(
    r"\\(?:left|right|displaystyle|quad|qquad)(?![A-Za-z])|\\[,;:! ]|\s+|\$|\\[()\[\]]|(?<=\\)[dt](?=frac)"
)
_TEXT: Final = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")


def boxed(body: str) -> Found:
    """What stands in the last box, or nothing: a box that is not closed is none, and no box before it counts either."""
    text = tail(body)
    last = max(_BOX.finditer(text), key=re.Match.start, default=None)
    if last is None:
        return NOTHING
    if last["bare"]:
        return Found(text=last["bare"], form=True, settled=last.end() < len(text) or body[-1:].isspace())
    depth = 1
    for brace in _BRACE.finditer(text, last.end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            inside = text[last.end() : brace.start()].strip()
            return Found(text=inside, form=True, settled=True) if inside else NOTHING
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
    text = readable(_TEXT.sub("", text)).replace("$", "").strip(" .")
    read = numbers(text)
    return (
        (read[0].value * read[0].scale, read[0].percent)
        if len(read) == 1 and (read[0].start, read[0].end) == (0, len(text))
        else None
    )
