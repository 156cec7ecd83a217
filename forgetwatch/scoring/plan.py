"""The batches in which a probe is scored: made once, the same at every look.

A row is a context followed by all but the last token of a choice. Choices of one item whose row is the beginning of
another row share it: all one-token choices cost one row. Rows are sorted by length and content hash, longest first, and
fill batches up to a token budget, so that the batch a row is in does not depend on its place in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from forgetwatch.item import Item
from forgetwatch.scoring.encoding import Encoded, Ids

TOKEN_BUDGET: Final = 8192
"""Tokens of a batch, padding included."""

LOGIT_BUDGET: Final = 2**27
"""Logits of a batch: positions that are kept, times the vocabulary."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One choice whose log-likelihood a row yields.

    Attributes:
        item: Position of the item in the probe.
        choice: Position of the choice in the item.
        start: Position of the row's logits that predict the first token.
        targets: The choice's token ids.
    """

    item: int
    choice: int
    start: int
    targets: Ids


@dataclass(frozen=True, kw_only=True)
class Row:
    """Token ids that are read once, and what is read off them."""

    ids: Ids
    requests: tuple[Request, ...]

    @property
    def first(self) -> int:
        """The first position whose logits are needed."""
        return min(request.start for request in self.requests)


Batch = tuple[Row, ...]


def plan(
    items: Sequence[Item],
    encoded: Sequence[Encoded],
    *,
    vocabulary: int,
    token_budget: int = TOKEN_BUDGET,
    logit_budget: int = LOGIT_BUDGET,
) -> tuple[Batch, ...]:
    """The batches for all items that can be scored.

    Args:
        items: The items, for their content hashes.
        encoded: Their token ids, in the same order.
        vocabulary: Size of the model's vocabulary.
        token_budget: Most tokens of a batch; a single row may exceed it.
        logit_budget: Most logits of a batch; a single row may exceed it.
    """
    rows = []
    for index, (item, one) in enumerate(zip(items, encoded, strict=True)):
        if not one.unscored:
            rows += [((-len(row.ids), item.content_hash, row.ids), row) for row in _rows(index, one)]
    batches: list[Batch] = []
    batch: list[Row] = []
    for _, row in sorted(rows, key=lambda keyed: keyed[0]):
        width = len(batch[0].ids) if batch else len(row.ids)
        first = min(each.first for each in (*batch, row))
        size = len(batch) + 1
        if batch and (size * width > token_budget or size * (width - first) * vocabulary > logit_budget):
            batches.append(tuple(batch))
            batch = []
        batch.append(row)
    return (*batches, tuple(batch)) if batch else tuple(batches)


def _rows(index: int, encoded: Encoded) -> list[Row]:
    """The rows of one item, each with the choices that can be read off it."""
    start = len(encoded.context) - 1
    shared: dict[Ids, list[Request]] = {}
    by_length = sorted(range(len(encoded.choices)), key=lambda choice: -len(encoded.choices[choice]))
    for choice in by_length:
        targets = encoded.choices[choice]
        ids = encoded.context + targets[:-1]
        home = next((row for row in shared if row[: len(ids)] == ids), ids)
        shared.setdefault(home, []).append(Request(item=index, choice=choice, start=start, targets=targets))
    return [Row(ids=ids, requests=tuple(requests)) for ids, requests in shared.items()]
