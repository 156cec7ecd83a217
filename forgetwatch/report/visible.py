r"""Text of others as it can be seen: nothing in it steers a terminal, turns a line around, or breaks a file.

"a\u202eb"    ->    a⟨U+202E⟩b        control characters, marks of writing direction, halves of surrogate pairs
"""

from __future__ import annotations

import re
from typing import Final

_UNSEEN: Final = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def visible(text: str) -> str:
    r"""A text whose control characters and marks of writing direction can be seen; line breaks and tabs stay.

    >>> visible("a\x00b\u202ec\r\nd")
    'a⟨U+0000⟩b⟨U+202E⟩c\nd'
    """
    return _UNSEEN.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text.replace("\r\n", "\n"))
