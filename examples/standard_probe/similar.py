"""Prompts that are nearly the same: for reading through, not for refusing.

Computed questions share their wording, and differ in a number that is the whole question; a slip of the pen makes two
questions of one. Only a reader can tell, so the pairs are listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

_LENGTH: Final = 4


def near_duplicates(prompts: Sequence[str], *, least: float = 0.8) -> list[tuple[float, str, str]]:
    """Pairs of prompts that share at least so much of their four-character pieces, the most alike first.

    The overlap is shared pieces over all pieces of both (Jaccard), 0 to 1, without case and with single spaces.

    >>> near_duplicates(["Is 91 a prime number?", "Is 97 a prime number?", "Who wrote Emma?"], least=0.6)
    [(0.64, 'Is 91 a prime number?', 'Is 97 a prime number?')]
    """
    pieces = [_pieces(prompt) for prompt in prompts]
    holders: dict[str, list[int]] = {}
    found = []
    for place, own in enumerate(pieces):
        shared = Counter(before for piece in own for before in holders.get(piece, ()))
        for before, count in shared.items():
            overlap = count / (len(own) + len(pieces[before]) - count)
            if overlap >= least:
                found.append((round(overlap, 2), prompts[before], prompts[place]))
        for piece in own:
            holders.setdefault(piece, []).append(place)
    return sorted(found, key=lambda pair: (-pair[0], pair[1:]))


def _pieces(prompt: str) -> set[str]:
    text = " ".join(prompt.casefold().split())
    return {text[place : place + _LENGTH] for place in range(max(1, len(text) - _LENGTH + 1))}
