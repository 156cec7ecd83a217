r"""Where an output goes on to a question of its own: base models do, once they have answered.

    " B\n\nQuestion: Capital of Chile? ... Answer: A"        the answer is B

What stands before is the answer only if one is given there: a model may also read the question out first.
"""

from __future__ import annotations

import re
from typing import Final

_NEXT: Final = re.compile(
    r"\n[^\S\n]{0,20}(?:#{1,6} {0,2}|\*\*)?"
    r"(?:(?:(?:next |new )?(?:question|problem|exercise|q)\b {0,2}\d{0,4}|(?:human|user)\b) {0,2}(?:\*\*)?[:.)]"
    r"|(?:(?<=### )|(?<=###))instruction\b)",
    re.IGNORECASE,
)


def before_next_question(body: str) -> str | None:
    """The text before the first next question; None where there is none, or nothing before it."""
    text = body.lstrip()
    found = _NEXT.search(text)
    return text[: found.start() + 1] if found else None
