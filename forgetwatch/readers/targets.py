"""What a log names as right among an item's options: an index, several, a letter, or the text of an option."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from forgetwatch.snapshot import NONE

_SEVERAL: Final = re.compile(r"\[\s*[0-9]{1,6}(\s*,\s*[0-9]{1,6})*\s*\]")
_INDEX: Final = re.compile(r"[0-9]{1,6}")
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def read_target(target: object, k: int, texts: Sequence[str] | None) -> tuple[list[int], int]:
    """The options that a target names by index; and the one that it names by letter or text, -1 for none.

    Digits may be an index or the text of an option; then both come back.

    Args:
        target: A whole number, a list of them, or text; anything else names none.
        k: Number of options.
        texts: The options, where they are known.

    >>> read_target("1", 3, ["3", "1", "2"]), read_target("Chile", 2, ["Peru", "Chile"]), read_target("B", 3, None)
    (([1], 1), ([], 1), ([], 1))
    >>> read_target([2, 0], 3, None), read_target("[0, 2]", 3, None), read_target(7, 3, None)
    (([0, 2], -1), ([0, 2], -1), ([], -1))
    """
    if isinstance(target, str) and not _SEVERAL.fullmatch(target):
        index = [int(target)] if _INDEX.fullmatch(target) and int(target) < k else []
        return index, _by_text(target.strip(), k, texts)
    named = [int(one) for one in _INDEX.findall(target)] if isinstance(target, str) else target
    listed: list[object] = named if isinstance(named, list) else [named]
    indices = [one for one in listed if isinstance(one, int) and not isinstance(one, bool)]
    if len(indices) < len(listed):
        return [], NONE
    return sorted({one for one in indices if 0 <= one < k}), NONE


def _by_text(target: str, k: int, texts: Sequence[str] | None) -> int:
    same = [option for option, text in enumerate(texts or ()) if text.strip() == target]
    if len(same) == 1:
        return same[0]
    letter = _LETTERS.find(target) if len(target) == 1 else NONE
    return letter if letter < k else NONE
