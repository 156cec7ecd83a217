"""The batches in which a probe is scored: made once, the same at every look.

A request is one choice: a context followed by all but the last token of the choice is read, and each token of the
choice has its log-probability at the position before it. What requests begin with is read once, as far as a model can:

    prefix  what many items begin with is read once and kept: the keys and values of a few-shot prefix. Their rows go on
            from there, and are trees as in ``trie``
    trie    a row is a tree: "Q: Capital of Chile? A:" once, then the choices side by side; a passage once, then the
            items about it. Each token sees its ancestors only; see `tensors`
    rows    a row is one context and one choice; a choice that is the beginning of another shares its row

Rows are sorted by length and content hash, longest first, and fill batches up to a token budget, so that the batch a
row is in does not depend on the item's place in the file.

Which items begin alike for so long that their beginning is worth reading once, on its own: few-shot prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal

import numpy as np

from forgetwatch.scoring.encoding import Encoded, Ids

Layout = Literal["prefix", "trie", "rows"]

TOKEN_BUDGET: Final = 8192
"""Tokens of a batch, padding included."""

LOGIT_BUDGET: Final = 2**26
"""Logits of a batch: positions that are kept, times the vocabulary."""

PREFIX_FACTOR: Final = 4
"""A row that items share is at most so many times as long as what they share; longer ones save little more."""

GROUP_COST: Final = 0.25
"""What reading a prefix on its own costs beside its tokens, in budgets: a forward more, a batch that is not full."""

KEYS: Final = 8
"""Keys of a batch, the prefix's repeated for each row: at most so many budgets."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One choice whose log-likelihood a row yields.

    Attributes:
        item: Position of the item in the probe.
        choice: Position of the choice in the item.
        places: Places in the row whose logits predict the choice's tokens, one by one.
        targets: The choice's token ids.
    """

    item: int
    choice: int
    places: Ids
    targets: Ids


@dataclass(frozen=True, kw_only=True)
class Row:
    """Token ids that are read once, and what is read off them.

    Attributes:
        ids: The token ids, a tree in depth-first order; what the batch's prefix holds is left out.
        depths: Distance of each token from the root: its position in the text, the prefix included.
        ends: One past the last token of each token's subtree: the tokens from its own place to there see it.
        requests: What is read off the row.
    """

    ids: Ids
    depths: Ids
    ends: Ids
    requests: tuple[Request, ...]

    @property
    def places(self) -> Ids:
        """The positions whose logits are needed, rising."""
        return tuple(sorted({place for request in self.requests for place in request.places}))


@dataclass(frozen=True)
class Batch:
    """Rows that go through the model together, the longest first.

    Attributes:
        rows: The rows.
        prefix: Token ids that stand before each of them, and are read once for all batches that have them.
    """

    rows: tuple[Row, ...]
    prefix: Ids = ()

    @property
    def width(self) -> int:
        """Tokens of the longest row."""
        return len(self.rows[0].ids)

    @property
    def halves(self) -> tuple[Batch, Batch]:
        """The batch in two."""
        middle = len(self.rows) // 2
        return Batch(self.rows[:middle], self.prefix), Batch(self.rows[middle:], self.prefix)


_Sequence = tuple[Ids, int, int]
"""What is read for one request, its item and its choice."""


def plan(
    keys: Sequence[str],
    encoded: Sequence[Encoded],
    *,
    vocabulary: int,
    layout: Layout = "rows",
    attention: int = 0,
    token_budget: int = TOKEN_BUDGET,
    logit_budget: int = LOGIT_BUDGET,
) -> tuple[Batch, ...]:
    """The batches for all items that can be scored.

    Args:
        keys: What orders items of equal length, whatever file they stand in: their content hashes.
        encoded: Their token ids, in the same order.
        vocabulary: Size of the model's vocabulary.
        layout: How rows are made.
        attention: Tokens of a row at which attention costs as much as the rest of the model; it decides how many items
            share a row. 0 keeps items apart.
        token_budget: Most tokens of a batch; a single row may exceed it.
        logit_budget: Most logits of a batch; a single row may exceed it.
    """
    scored = [index for index, one in enumerate(encoded) if not one.unscored]
    if layout == "rows":
        rows = [row for index in scored for row in _linear(_sequences(encoded[index], index), encoded)]
        return tuple(_batches(rows, keys, vocabulary, token_budget, logit_budget))
    ordered, groups = by_prefix(scored, encoded, cost=int(GROUP_COST * token_budget))
    batches: list[Batch] = []
    rest = ordered
    for group in groups if layout == "prefix" else ():
        prefix = encoded[group.items[0]].context[: group.length]
        own = list(_trees(group.items, encoded, prefix=prefix, attention=attention, longest=token_budget))
        batches += _batches(own, keys, vocabulary, token_budget, logit_budget, prefix=prefix)
    if layout == "prefix":
        grouped = {index for group in groups for index in group.items}
        rest = [index for index in ordered if index not in grouped]
    alone = list(_trees(rest, encoded, attention=attention, longest=token_budget))
    batches += _batches(alone, keys, vocabulary, token_budget, logit_budget)
    # What needs most memory first; batches of one prefix stay together.
    heaviest: dict[Ids, int] = {}
    for batch in batches:
        heaviest[batch.prefix] = max(heaviest.get(batch.prefix, 0), len(batch.prefix) + batch.width)
    return tuple(sorted(batches, key=lambda batch: (-heaviest[batch.prefix], batch.prefix)))


def _batches(
    rows: Sequence[Row],
    keys: Sequence[str],
    vocabulary: int,
    token_budget: int,
    logit_budget: int,
    *,
    prefix: Ids = (),
) -> list[Batch]:
    """Rows with the same prefix, sorted and dealt to batches."""
    batches: list[Batch] = []
    batch: list[Row] = []
    kept = 0
    for row in sorted(rows, key=lambda row: (-len(row.ids), keys[row.requests[0].item], row.ids)):
        width, needed, count = len(batch[0].ids) if batch else len(row.ids), len(row.places), len(batch) + 1
        full = count * width > token_budget or (kept + needed) * vocabulary > logit_budget
        if batch and (full or count * (len(prefix) + width) > KEYS * token_budget):
            batches.append(Batch(tuple(batch), prefix))
            batch, kept = [], 0
        batch.append(row)
        kept += needed
    return [*batches, Batch(tuple(batch), prefix)] if batch else batches


def _sequences(encoded: Encoded, index: int) -> list[_Sequence]:
    """What is read for each choice of an item, in the order of the token ids."""
    return sorted((encoded.context + ids[:-1], index, choice) for choice, ids in enumerate(encoded.choices))


def _linear(sequences: Sequence[_Sequence], encoded: Sequence[Encoded]) -> list[Row]:
    """One row for each sequence that is not the beginning of another."""
    rows, shared = [], []
    for number, sequence in enumerate(sequences):
        shared.append(sequence)
        following = sequences[number + 1][0] if number + 1 < len(sequences) else ()
        if following[: len(sequence[0])] != sequence[0]:
            rows.append(_tree(shared, encoded))
            shared = []
    return rows


def _trees(
    ordered: Iterable[int], encoded: Sequence[Encoded], *, attention: int, longest: int, prefix: Ids = ()
) -> Iterable[Row]:
    """Items in the order of their token ids, those together whose shared beginning is worth a longer row.

    Behind a prefix also those that are much shorter than it: each row repeats its keys.
    """
    together: list[_Sequence] = []
    length, skip = 0, len(prefix)
    for index in ordered:
        own = [(ids[skip:], item, choice) for ids, item, choice in _sequences(encoded[index], index)]
        alone = _size(own)
        if together and (attention or skip):
            shared = _shared(together[-1][0], own[0][0])
            added = alone - shared
            # Reading `added` tokens more in a longer row, against reading all of them in a row of its own.
            saves = shared * attention > 2 * length * added + added**2 - alone**2
            worth = saves and length + added <= min(max(longest, 2 * shared), PREFIX_FACTOR * shared)
            if worth or length + added <= skip // KEYS:
                together += own
                length += added
                continue
        if together:
            yield _tree(sorted(together), encoded, skip=skip)
        together, length = own, alone
    if together:
        yield _tree(sorted(together), encoded, skip=skip)


def _size(sequences: Sequence[_Sequence]) -> int:
    """Tokens of the tree of some sequences in order."""
    size = 0
    before: Ids = ()
    for ids, _, _ in sequences:
        size += len(ids) - _shared(before, ids)
        before = ids
    return size


def _shared(one: Ids, other: Ids) -> int:
    """Tokens that two sequences begin with together."""
    low, high = 0, min(len(one), len(other))
    while low < high:  # the longest equal beginning, by halving: comparing slices is fast
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


def _tree(sequences: Sequence[_Sequence], encoded: Sequence[Encoded], *, skip: int = 0) -> Row:
    """One row in which every beginning that sequences share stands once. They come in the order of their ids.

    Args:
        sequences: What is read, without the first `skip` tokens.
        encoded: The items.
        skip: Tokens of the prefix.
    """
    ids: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    path: list[int] = []  # places of the latest sequence's tokens
    before: Ids = ()
    requests = []
    for sequence, item, choice in sequences:
        shared = _shared(before, sequence)
        for place in path[shared:]:
            ends[place] = len(ids)
        del path[shared:]
        path += range(len(ids), len(ids) + len(sequence) - shared)
        ids += sequence[shared:]
        depths += range(skip + shared, skip + len(sequence))
        ends += [0] * (len(sequence) - shared)
        targets = encoded[item].choices[choice]
        requests.append(
            Request(item=item, choice=choice, places=tuple(path[len(sequence) - len(targets) :]), targets=targets)
        )
        before = sequence
    for place in path:
        ends[place] = len(ids)
    return Row(ids=tuple(ids), depths=tuple(depths), ends=tuple(ends), requests=tuple(requests))


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
    shared = [_shared_bytes(texts[one], texts[other]) for one, other in pairwise(ordered)]
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


def _shared_bytes(one: bytes, other: bytes) -> int:
    """Tokens that two contexts begin with together, not counting the last of either: the choices are read off that."""
    low, high = 0, min(len(one), len(other)) // 4 - 1
    while low < high:  # by halving: slices of bytes compare fast
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[: 4 * middle] == other[: 4 * middle] else (low, middle - 1)
    return max(low, 0)
