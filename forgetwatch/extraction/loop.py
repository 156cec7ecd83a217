"""Whether an output repeats itself, as models do that have lost how to end.

    "the the the the the the the the the the the the"     a loop: a few characters, twelve times in a row
    "I am sure. I am sure. I am sure. I am sure."         a loop: eight characters or more, four times
    "| --- | --- |", "0.33333333333333", "1, 2, 3, 4"     none: nothing with letters comes again

Only what follows itself at once counts; a chorus does not. Looked at are the last 4,000 characters.
"""

from __future__ import annotations

import re
from typing import Final

from forgetwatch.extraction.text import TAIL

_LONG: Final = re.compile(r"(.{8,240}?)\1{3}", re.DOTALL)
_SHORT: Final = re.compile(r"(.{1,7}?)\1{11}", re.DOTALL)
_LETTER: Final = re.compile(r"[^\W\d_]")
_SPACE: Final = re.compile(r"\s+")


def loops(body: str) -> bool:
    """Whether a text says the same again and again.

    >>> loops("No. " * 12)
    True
    """
    text = _SPACE.sub(" ", body[-TAIL:])
    return any(_LETTER.search(found[1]) for pattern in (_SHORT, _LONG) for found in pattern.finditer(text))
