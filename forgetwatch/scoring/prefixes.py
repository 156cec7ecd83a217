"""Which items begin alike for so long that their beginning is worth reading once, on its own: few-shot prefixes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from forgetwatch.scoring.encoding import Encoded, Ids


@dataclass(frozen=True)
class Group:
    """Items whose contexts begin with the same `length` tokens, and each go on from there."""

    length: int
    items: tuple[int, ...]


@dataclass
class _Node:
    """Items `start` to `stop`, in the order of their ids, that begin with the same `length` tokens."""

    length: int
    start: int
    saves: int = 0
    groups: list[_Node] = field(default_factory=list)
    stop: int = 0


def by_prefix(scored: Iterable[int], encoded: Sequence[Encoded], *, cost: int) -> tuple[list[int], list[Group]]:
    """Items in the order of their token ids, and the groups whose prefixes, read once each, save most tokens.

    Args:
        scored: Places of the items.
        encoded: All items.
        cost: What reading a prefix on its own costs beside its tokens, in tokens.
    """
    texts = {index: _as_bytes(encoded[index].context) for index in scored}
    ordered = sorted(texts, key=lambda index: (texts[index], encoded[index].choices))
    shared = [_shared(texts[one], texts[other]) for one, other in pairwise(ordered)]
    # Beginnings form a tree: that of all questions, of a subject's, of two questions. From the leaves up, a node is a
    # group if it saves more than the groups below it together.
    opened: list[_Node] = []
    for place, length in enumerate((*shared, -1)):
        below = _Node(length, place)
        while opened and opened[-1].length > length:
            node = opened.pop()
            node.saves, node.groups, node.stop = node.saves + below.saves, node.groups + below.groups, place + 1
            own = (place - node.start) * node.length - cost
            saves, groups = (own, [node]) if own > node.saves else (node.saves, node.groups)
            below = _Node(length, node.start, saves, groups)
        if opened and opened[-1].length == length:
            opened[-1].saves += below.saves
            opened[-1].groups += below.groups
        else:
            opened.append(below)
    return ordered, [Group(node.length, tuple(ordered[node.start : node.stop])) for node in opened[0].groups]


def _as_bytes(ids: Ids) -> bytes:
    """Ids as bytes that compare as the ids do, and much faster."""
    return np.array(ids, dtype=">u4").tobytes()


def _shared(one: bytes, other: bytes) -> int:
    """Tokens that two contexts begin with together, not counting the last of either: the choices are read off that."""
    low, high = 0, min(len(one), len(other)) // 4 - 1
    while low < high:  # by halving: slices of bytes compare fast
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[: 4 * middle] == other[: 4 * middle] else (low, middle - 1)
    return max(low, 0)
