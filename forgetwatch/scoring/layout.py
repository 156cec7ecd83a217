"""Batches in which a probe is scored: planned at the first look, and reused at each look that scores the same items.

A request is one choice of an item. The model reads the item's context and all tokens of the choice
but the last, and the log-probability of each token of the choice is taken from the logits one
position before it. Requests of one item, and often of several, begin alike. Three layouts differ in
how often a common beginning is read:

    rows     one row for each context and choice; a choice that is the beginning of another shares its row
    trie     one row for the tree of several requests, in depth-first order; a token sees its ancestors only

                 Q: Capital of Chile? A: ─┬─ Santiago
                                          └─ Lima

    prefix   as `trie`; besides, a long beginning of many items, such as few-shot examples, is read once, and its keys
             and values are cached for all rows that continue it

Rows are sorted by length, longest first, then by content hash, and fill batches up to a token
budget. The batch of a row therefore does not depend on the order of the items, and rounding that
depends on the shape of a batch cancels when two looks are compared.

Every model can read `rows`; `trie` and `prefix` need an attention mask for each pair of tokens. In
depth-first order the subtree of a token is a stretch of its row. Token i therefore sees token j
exactly if j <= i < ends[j], and the mask of a whole tree needs one comparison:

    tokens    Q  A: Santiago  Lima        row "Santiago" sees   Q  A:  Santiago
    depths    0  1  2         2           row "Lima" sees       Q  A:            Lima
    ends      4  4  3         4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import DynamicCache

from forgetwatch.scoring.encoding import Encoded, Ids, common_length
from forgetwatch.scoring.transformers_versions import PreTrainedConfig

Layout = Literal["prefix", "trie", "rows"]

PREFIX_FACTOR: Final = 4
"""Maximum length of a row that several items share, as a multiple of their common beginning; more saves little."""

GROUP_COST: Final = 0.25
"""Cost of reading a prefix separately, in token budgets, without its own: one more call, and a batch not full."""

SMALLEST: Final = 1 / 8
"""Tokens below which a batch takes no less time, in token budgets: starting operations takes longer than they do."""

BATCH_COST: Final = 1 / 64
LEAST_BATCH_COST: Final = 64
"""Cost of a batch besides its tokens, in token budgets, and its minimum in tokens. Padding is avoided by more batches
where these cost less."""

KEYS: Final = 8
"""Maximum number of attention keys of a batch, in token budgets; the keys of a prefix count once for each row."""

_MASK_PIECE: Final = 2**26
"""Pairs of tokens whose mask is computed at a time."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One choice whose log-likelihood a row yields."""

    item: int  # index in the probe
    choice: int  # index in the item
    positions: Ids  # in the row, whose logits predict the choice's tokens, one for each token
    targets: Ids  # token ids of the choice


@dataclass(frozen=True, kw_only=True)
class Row:
    """Token ids that are read once, and the requests that they serve."""

    ids: Ids  # of a tree in depth-first order, without the prefix of the batch
    depths: (
        Ids  # distance of each token from the root, the prefix included: its position in the text
    )
    ends: Ids  # one past the last token of each token's subtree: the tokens from its own position to there see it
    requests: tuple[Request, ...]

    @classmethod
    def line(cls, ids: Ids, positions: Ids) -> Self:
        """Row of a text with needed logits at some positions."""
        request = Request(item=0, choice=0, positions=positions, targets=())
        return cls(
            ids=ids, depths=tuple(range(len(ids))), ends=(len(ids),) * len(ids), requests=(request,)
        )

    @property
    def positions(self) -> Ids:
        """Positions of needed logits, ascending."""
        return tuple(
            sorted({position for request in self.requests for position in request.positions})
        )


@dataclass(frozen=True)
class Batch:
    """Rows that go through the model together, the longest first."""

    rows: tuple[Row, ...]
    prefix: Ids = ()  # token ids before each row, which are read once for all batches with this prefix

    @property
    def width(self) -> int:
        """Number of tokens of the longest row."""
        return len(self.rows[0].ids)

    @property
    def tokens(self) -> int:
        """Tokens that are read, without the prefix: the batch's cost.

        Padding is included.
        """
        return len(self.rows) * self.width

    @property
    def needed(self) -> NDArray[np.int64]:
        """Positions of needed logits, row * width + column, int64 [needed]."""
        positions = [
            number * self.width + column
            for number, row in enumerate(self.rows)
            for column in row.positions
        ]
        return np.array(positions, np.int64)

    @property
    def halves(self) -> tuple[Batch, Batch]:
        """Two batches with half of the rows each."""
        middle = len(self.rows) // 2
        return Batch(self.rows[:middle], self.prefix), Batch(self.rows[middle:], self.prefix)


def plan(
    keys: Sequence[str],
    encoded: Sequence[Encoded],
    *,
    token_budget: int,
    layout: Layout = "rows",
    attention: int = 0,
) -> tuple[Batch, ...]:
    """Plan batches for all items that can be scored.

    The content hashes of the items (`keys`) order rows of equal length. At a row of `attention`
    tokens, attention costs as much as the rest of the model: it decides how many items share a row;
    with 0, they do only after a prefix.
    """
    fill = partial(_fill, keys=keys, token_budget=token_budget)
    scored = [index for index, item in enumerate(encoded) if not item.unscored]
    if layout == "rows":
        return tuple(
            fill(
                row
                for index in scored
                for row in _linear_rows(_sequences(encoded[index], index), encoded)
            )
        )
    trees = partial(_trees, encoded=encoded, attention=attention, longest=token_budget)
    # `trie` uses the order alone: items that begin alike are neighbours, and can share a row.
    ordered, groups = by_prefix(scored, encoded, cost=int(GROUP_COST * token_budget))
    batches: list[Batch] = []
    grouped: set[int] = set()
    for group in groups if layout == "prefix" else ():
        prefix = encoded[group.items[0]].context[: group.length]
        batches += fill(trees(group.items, prefix=prefix), prefix=prefix)
        grouped.update(group.items)
    batches += fill(trees(index for index in ordered if index not in grouped))
    # The largest first, so that a lack of memory shows at once; batches of one prefix stay
    # together, as it is cached.
    heaviest: dict[Ids, int] = {}
    for batch in batches:
        heaviest[batch.prefix] = max(heaviest.get(batch.prefix, 0), len(batch.prefix) + batch.width)
    return tuple(sorted(batches, key=lambda batch: (-heaviest[batch.prefix], batch.prefix)))


def _fill(
    rows: Iterable[Row], *, keys: Sequence[str], token_budget: int, prefix: Ids = ()
) -> list[Batch]:
    # Rows continue one prefix, within the budgets, with little padding and few batches.
    # By content hash and not by index: the batches must not depend on the order of the items.
    ordered = sorted(rows, key=lambda row: (-len(row.ids), keys[row.requests[0].item], row.ids))
    if not ordered:
        return []
    lengths = np.array([len(row.ids) for row in ordered])
    starts = np.arange(len(ordered))
    # cost[n] is the least cost of the first n rows in batches, and begins[n] the first row of the
    # last batch of these.
    cost, begins = np.zeros(len(ordered) + 1), np.zeros(len(ordered) + 1, np.int64)
    start = 0
    for stop in range(1, len(ordered) + 1):
        # The first row of a batch is its longest, to which the others are padded. The cached keys
        # of a prefix take memory in every row, although its tokens are read once. More rows never
        # fit where fewer do
        # not.
        while start < stop - 1 and not (
            (stop - start) * lengths[start] <= token_budget
            and (stop - start) * (len(prefix) + lengths[start]) <= KEYS * token_budget
        ):
            start += 1
        places = slice(start, stop)
        costs = cost[places] + np.maximum(
            (stop - starts[places]) * lengths[places], SMALLEST * token_budget
        )
        begins[stop] = start + int(costs.argmin())
        cost[stop] = costs.min() + max(BATCH_COST * token_budget, LEAST_BATCH_COST)
    bounds = [len(ordered)]
    while bounds[-1]:
        bounds.append(int(begins[bounds[-1]]))
    return [Batch(tuple(ordered[low:high]), prefix) for low, high in pairwise(reversed(bounds))]


_Sequence = tuple[Ids, int, int]
"""Token ids that are read for one request, index of its item, index of its choice."""


def _sequences(encoded: Encoded, index: int) -> list[_Sequence]:
    # Sorted by token ids. The last token of a choice is predicted and never read.
    return sorted(
        (encoded.context + ids[:-1], index, choice) for choice, ids in enumerate(encoded.choices)
    )


def _linear_rows(sequences: Sequence[_Sequence], encoded: Sequence[Encoded]) -> list[Row]:
    # A sequence that begins another has no row of its own.
    rows, shared = [], []
    for number, sequence in enumerate(sequences):
        shared.append(sequence)
        # Sorted: all sequences that begin with this one follow it directly.
        following = sequences[number + 1][0] if number + 1 < len(sequences) else ()
        if following[: len(sequence[0])] != sequence[0]:
            rows.append(_tree(shared, encoded))
            shared = []
    return rows


def _trees(
    ordered: Iterable[int],
    *,
    encoded: Sequence[Encoded],
    attention: int,
    longest: int,
    prefix: Ids = (),
) -> Iterable[Row]:
    # In the order of token ids; neighbours share a row if that costs less than two rows. After a
    # prefix, items that are much shorter than it also share a row, because each row repeats the
    # prefix's keys.
    together: list[_Sequence] = []
    length, skip = 0, len(prefix)
    for index in ordered:
        inside = [
            (ids[skip:], item, choice) for ids, item, choice in _sequences(encoded[index], index)
        ]
        alone = _tree_size(inside)
        if together and (attention or skip):
            # In sorted order, no earlier item shares a longer beginning with this one than the item
            # before it.
            shared = common_length(together[-1][0], inside[0][0])
            added = alone - shared
            # In the shared row the item costs its `added` tokens, but attention over length +
            # added; in a row of its own it costs all `alone` tokens, and attention over alone. A
            # row of n tokens costs n *
            # attention + n**2.
            saves = shared * attention > 2 * length * added + added**2 - alone**2
            worth = saves and length + added <= min(
                max(longest, 2 * shared), PREFIX_FACTOR * shared
            )
            if worth or length + added <= skip // KEYS:
                together += inside
                length += added
                continue
        if together:
            yield _tree(sorted(together), encoded, skip=skip)
        together, length = inside, alone
    if together:
        yield _tree(sorted(together), encoded, skip=skip)


def _tree_size(sequences: Sequence[_Sequence]) -> int:
    shared = sum(common_length(left, right) for (left, _, _), (right, _, _) in pairwise(sequences))
    return sum(len(ids) for ids, _, _ in sequences) - shared


def _tree(sequences: Sequence[_Sequence], encoded: Sequence[Encoded], *, skip: int = 0) -> Row:
    # Each common beginning is in the row once, without the prefix's `skip` tokens.
    ids: list[int] = []
    depths: list[int] = []
    ends: list[int] = []
    path: list[int] = []  # row positions of the latest sequence's tokens, from the root to its leaf
    before: Ids = ()
    requests = []
    for sequence, item, choice in sequences:
        shared = common_length(before, sequence)
        # What this sequence does not share is complete: sorted, no later sequence descends from it.
        for position in path[shared:]:
            ends[position] = len(ids)
        del path[shared:]
        path += range(len(ids), len(ids) + len(sequence) - shared)
        ids += sequence[shared:]
        depths += range(skip + shared, skip + len(sequence))
        ends += [0] * (len(sequence) - shared)  # set when the subtree is complete
        targets = encoded[item].choices[choice]
        # The last position of the context predicts the first target, and so on: as many positions
        # as targets.
        positions = tuple(path[len(sequence) - len(targets) :])
        requests.append(Request(item=item, choice=choice, positions=positions, targets=targets))
        before = sequence
    for position in path:
        ends[position] = len(ids)
    return Row(ids=tuple(ids), depths=tuple(depths), ends=tuple(ends), requests=tuple(requests))


@dataclass(frozen=True)
class Group:
    """Items whose contexts begin with the same `length` tokens, and continue after them."""

    length: int
    items: tuple[int, ...]


@dataclass
class _Node:
    """Items `start` to `stop` of the sorted items, which all begin with the same `length` tokens."""

    length: int
    start: int
    saves: int = 0  # tokens that the best choice of groups among the items saves
    groups: list[_Node] = field(default_factory=list)  # that choice
    stop: int = 0


def by_prefix(
    scored: Iterable[int], encoded: Sequence[Encoded], *, cost: int
) -> tuple[list[int], list[Group]]:
    """Group items by common prefixes that save most tokens.

    Common beginnings form a tree: of all items, of a subject's items, of two items. From the leaves
    to the root, a node becomes a group if it saves more tokens than the groups below it do
    together. `cost` is that of reading a prefix separately, in tokens, its own not counted.

    Returns:
        The items sorted by token ids, and the groups.
    """
    contexts = {index: np.array(encoded[index].context, _SORTABLE).tobytes() for index in scored}
    ordered = sorted(contexts, key=lambda index: (contexts[index], encoded[index].choices))
    shared = [_common_tokens(contexts[left], contexts[right]) for left, right in pairwise(ordered)]
    # One pass builds the tree: the open nodes are the path to the current item, each longer than
    # the one before it.
    opened: list[_Node] = []
    for position, length in enumerate((*shared, -1)):  # -1 closes all nodes
        below = _Node(length, position)
        while opened and opened[-1].length > length:
            node = opened.pop()
            node.saves, node.groups, node.stop = (
                node.saves + below.saves,
                node.groups + below.groups,
                position + 1,
            )
            # Read once and not once for each item: all items but one save the prefix.
            saved = (position - node.start) * node.length - cost
            saves, groups = (saved, [node]) if saved > node.saves else (node.saves, node.groups)
            below = _Node(length, node.start, saves, groups)
        if opened and opened[-1].length == length:
            opened[-1].saves += below.saves
            opened[-1].groups += below.groups
        else:
            opened.append(below)
    # The sentinel's node is the only one left, and has collected the best groups of all items.
    return ordered, [
        Group(node.length, tuple(ordered[node.start : node.stop])) for node in opened[0].groups
    ]


_SORTABLE: Final = np.dtype(">u4")
"""Big-endian token ids: their bytes sort as the ids do, and compare much faster."""


def _common_tokens(left: bytes, right: bytes) -> int:
    # The logits of a context's last token predict the choices, so that token is read in the row and
    # not in the prefix.
    longest = min(len(left), len(right)) // _SORTABLE.itemsize - 1
    return max(min(common_length(left, right) // _SORTABLE.itemsize, longest), 0)


@dataclass(frozen=True, kw_only=True)
class BatchTensors:
    """One batch as tensors, rows padded on the right to one width; int64, all but `needed` [rows, width]."""

    ids: Tensor  # 0 at padding
    mask: Tensor  # 1 at tokens, 0 at padding
    depths: Tensor  # position of each token in its text
    ends: Tensor  # one past the last token that sees this one, in its row
    needed: Tensor  # positions whose logits are needed, as row * width + column, ascending [needed]

    def moved(
        self, device: torch.device, *arrays: NDArray[np.int64]
    ) -> tuple[BatchTensors, list[Tensor]]:
        """Move the batch and other arrays to a device in one transfer.

        The transfer is not waited for.
        """
        parts = [
            self.ids,
            self.mask,
            self.depths,
            self.ends,
            self.needed,
            *map(torch.from_numpy, arrays),
        ]
        packed = torch.cat([part.reshape(-1) for part in parts])
        if device.type == "cuda":
            packed = packed.pin_memory()
        flat = packed.to(device, non_blocking=True).split([part.numel() for part in parts])
        ids, mask, depths, ends, needed, *rest = (
            moved_part.view(part.shape) for moved_part, part in zip(flat, parts, strict=True)
        )
        return BatchTensors(ids=ids, mask=mask, depths=depths, ends=ends, needed=needed), rest


def tensors_of(batch: Batch) -> BatchTensors:
    """Tensors of a batch, on the CPU."""
    width = batch.width
    shape = (len(batch.rows), width)
    ids, mask, depths = (np.zeros(shape, np.int64) for _ in range(3))
    # Padding sees itself only: a row of the mask without any True gives NaN in softmax.
    ends = np.tile(np.arange(1, width + 1), (len(batch.rows), 1))
    for number, row in enumerate(batch.rows):
        length = len(row.ids)
        ids[number, :length], depths[number, :length], ends[number, :length] = (
            row.ids,
            row.depths,
            row.ends,
        )
        mask[number, :length] = 1
    arrays = {"ids": ids, "mask": mask, "depths": depths, "ends": ends, "needed": batch.needed}
    return BatchTensors(**{name: torch.from_numpy(array) for name, array in arrays.items()})


class Download:
    """Numbers, floats [numbers], on their way from a device to the host; the device goes on with other work."""

    def __init__(self, numbers: Tensor) -> None:
        self._host, self._arrived = numbers, None
        if numbers.is_cuda:
            self._host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=True)
            self._host.copy_(numbers, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record(torch.cuda.current_stream(numbers.device))

    def wait(self) -> NDArray[np.float64]:
        """Wait for the numbers, float64 [numbers]."""
        if self._arrived is not None:
            self._arrived.synchronize()
        values: NDArray[np.float64] = self._host.cpu().double().numpy()
        return values


def tree_options(
    config: PreTrainedConfig,
    tensors: BatchTensors,
    *,
    additive: torch.dtype | None,
    prefix: int = 0,
) -> dict[str, Any]:
    """Position ids and attention mask of a batch of trees.

    A token sees itself and its ancestors, within the window or chunk of each layer, and a prefix of
    so many cached tokens. The mask is boolean, or one of the dtype `additive` that is added to the
    attention scores, [rows, 1, width, prefix + width]; a model whose layers differ gets a dict with
    one mask for each kind.
    """
    depths = tensors.depths
    # Every token sees the prefix, whose tokens are at depths 0 to prefix - 1.
    before = torch.arange(prefix, device=depths.device).expand(len(depths), -1)
    keys = torch.cat([before, depths], dim=1)
    mask_of = partial(_mask, tensors, keys, additive=additive)
    window = (
        getattr(config, "sliding_window", None)
        if getattr(config, "use_sliding_window", True)
        else None
    )

    def mask(layer_type: str) -> Tensor:
        # Distances are differences of depth: in a row, another branch may lie between a token and
        # its ancestor.
        if layer_type == "sliding_attention" and window:
            return mask_of(lambda query: query[:, :, None] - keys[:, None, :] < int(window))
        if layer_type == "chunked_attention":
            size = config.attention_chunk_size
            return mask_of(lambda query: query[:, :, None] // size == keys[:, None, :] // size)
        return mask_of(None)

    kinds = sorted(set(getattr(config, "layer_types", None) or ()))
    if len(kinds) > 1:
        return {
            "attention_mask": {layer_type: mask(layer_type) for layer_type in kinds},
            "position_ids": depths,
        }
    # A configuration without kinds of layers applies its window to every layer.
    layer_type = kinds[0] if kinds else "sliding_attention" if window else "full_attention"
    return {"attention_mask": mask(layer_type), "position_ids": depths}


def _mask(
    tensors: BatchTensors,
    keys: Tensor,
    near: Callable[[Tensor], Tensor] | None,
    *,
    additive: torch.dtype | None,
) -> Tensor:
    # For keys at depths [rows, prefix + width]; [rows, 1, width, prefix + width]. `near` is True,
    # for depths of queries [rows, queries], for each key in the layer's window or chunk, [rows,
    # queries, prefix + width]; it is None if the layer sees all keys.
    rows, width = tensors.ids.shape
    prefix = keys.shape[1] - width
    position = torch.arange(width, device=keys.device)
    shape = (rows, 1, width, prefix + width)
    mask = torch.empty(
        shape, dtype=torch.bool if additive is None else additive, device=keys.device
    )
    # In pieces: distances are whole numbers, and those of a row of 32,000 tokens would take 8 GB.
    size = max(1, _MASK_PIECE // (rows * (prefix + width)))
    for start in range(0, width, size):
        piece = slice(start, start + size)
        query = position[piece]
        # [rows, i, j]: j <= i < ends[j].
        seen = (position[None, None, :] <= query[None, :, None]) & (
            query[None, :, None] < tensors.ends[:, None, :]
        )
        seen = nn.functional.pad(seen, (prefix, 0), value=True)
        if near is not None:
            seen &= near(tensors.depths[:, piece])
        # The same for all heads.
        mask[:, 0, piece] = (
            seen
            if additive is None
            else torch.where(seen, 0.0, torch.finfo(additive).min).to(additive)
        )
    return mask


class PrefixCache(DynamicCache):
    """Keys and values of one prefix: stored until it `is_read`, then seen by rows that leave none of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = False

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of a layer, with those of new tokens.

        [rows, heads, prefix + width, head size].
        """
        if not self.is_read:
            updated: tuple[Tensor, Tensor] = super().update(
                key_states, value_states, layer_idx, *args, **kwargs
            )
            return updated
        layer: Any = self.layers[layer_idx]
        before = (held.expand(len(key_states), -1, -1, -1) for held in (layer.keys, layer.values))
        # A new tensor, so that the rows of one batch are not seen by the next.
        keys, values = (
            torch.cat(pair, dim=-2) for pair in zip(before, (key_states, value_states), strict=True)
        )
        return keys, values
