"""The batches in which a probe is scored: made once, the same at every look.

A request is one choice: a context followed by all but the last token of the choice is read, and each token of the
choice has its log-probability at the position before it. What requests begin with is read once, in one of two ways:

    trie    a row is a tree: "Q: Capital of Chile? A:" once, then the choices side by side; a few-shot prefix once,
            then the items that share it. Each token sees its ancestors only; see `tensors`
    rows    a row is one context and one choice; a choice that is the beginning of another shares its row

Rows are sorted by length and content hash, longest first, and fill batches up to a token budget, so that the batch a
row is in does not depend on the item's place in the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from forgetwatch.scoring.encoding import Encoded, Ids

Way = Literal["trie", "rows"]

TOKEN_BUDGET: Final = 8192
"""Tokens of a batch, padding included."""

LOGIT_BUDGET: Final = 2**26
"""Logits of a batch: positions that are kept, times the vocabulary."""

PREFIX_FACTOR: Final = 4
"""A row that items share is at most so many times as long as what they share; longer ones save little more."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One choice whose log-likelihood a row yields.

    Attributes:
        item: Position of the item in the probe.
        choice: Position of the choice in the item.
        places: Positions in the row whose logits predict the choice's tokens, one by one.
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
        ids: The token ids, a tree in depth-first order.
        depths: Distance of each token from the root: its position in the text.
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


Batch = tuple[Row, ...]
_Sequence = tuple[Ids, int, int]
"""What is read for one request, its item and its choice."""


def plan(
    keys: Sequence[str],
    encoded: Sequence[Encoded],
    *,
    vocabulary: int,
    way: Way = "rows",
    attention: int = 0,
    token_budget: int = TOKEN_BUDGET,
    logit_budget: int = LOGIT_BUDGET,
) -> tuple[Batch, ...]:
    """The batches for all items that can be scored.

    Args:
        keys: What orders items of equal length, whatever file they stand in: their content hashes.
        encoded: Their token ids, in the same order.
        vocabulary: Size of the model's vocabulary.
        way: How rows are made.
        attention: Tokens of a row at which attention costs as much as the rest of the model; it decides how many items
            share a row. 0 keeps items apart.
        token_budget: Most tokens of a batch; a single row may exceed it.
        logit_budget: Most logits of a batch; a single row may exceed it.
    """
    scored = [index for index, one in enumerate(encoded) if not one.unscored]
    if way == "rows":
        rows = [row for index in scored for row in _linear(_sequences(encoded[index], index), encoded)]
    else:
        rows = list(_trees(scored, encoded, attention=attention, longest=token_budget))
    keyed = sorted(rows, key=lambda row: (-len(row.ids), keys[row.requests[0].item], row.ids))
    batches: list[Batch] = []
    batch: list[Row] = []
    kept = 0
    for row in keyed:
        width, needed = len(batch[0].ids) if batch else len(row.ids), len(row.places)
        full = (len(batch) + 1) * width > token_budget or (kept + needed) * vocabulary > logit_budget
        if batch and full:
            batches.append(tuple(batch))
            batch, kept = [], 0
        batch.append(row)
        kept += needed
    return (*batches, tuple(batch)) if batch else tuple(batches)


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


def _trees(scored: Iterable[int], encoded: Sequence[Encoded], *, attention: int, longest: int) -> Iterable[Row]:
    """Items in the order of their token ids, those together whose shared beginning is worth a longer row."""
    together: list[_Sequence] = []
    length = 0
    for index in sorted(scored, key=lambda index: (encoded[index].context, encoded[index].choices)):
        own = _sequences(encoded[index], index)
        alone = _size(own)
        if together and attention:
            shared = _shared(together[-1][0], own[0][0])
            added = alone - shared
            # Reading `added` tokens more in a longer row, against reading all of them in a row of its own.
            saves = shared * attention > 2 * length * added + added**2 - alone**2
            if saves and length + added <= min(max(longest, 2 * shared), PREFIX_FACTOR * shared):
                together += own
                length += added
                continue
        if together:
            yield _tree(sorted(together), encoded)
        together, length = own, alone
    if together:
        yield _tree(sorted(together), encoded)


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


def _tree(sequences: Sequence[_Sequence], encoded: Sequence[Encoded]) -> Row:
    """One row in which every beginning that sequences share stands once. They come in the order of their ids."""
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
        depths += range(shared, len(sequence))
        ends += [0] * (len(sequence) - shared)
        targets = encoded[item].choices[choice]
        requests.append(
            Request(item=item, choice=choice, places=tuple(path[len(sequence) - len(targets) :]), targets=targets)
        )
        before = sequence
    for place in path:
        ends[place] = len(ids)
    return Row(ids=tuple(ids), depths=tuple(depths), ends=tuple(ends), requests=tuple(requests))
