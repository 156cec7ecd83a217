"""Which row before belongs to which row after.

Items pair on (task, content_hash): on what the question says, never on where it stands. Where a hash repeats within a
task, as it does in real benchmarks, equal item_ids pair first, then the n-th with the n-th. An item without a content
hash on either side pairs on (task, item_id); nothing guarantees then that it is the same question, and gold or k that
differ show that it is not. Within a pair of items sample j belongs to sample j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forgetwatch.snapshot import NONE, Snapshot, codes

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairing:
    """Rows that belong together, and items that are left over.

    Attributes:
        before: Row numbers before, int64 [pairs].
        after: Row numbers after, int64 [pairs].
        item: Number of the item that each pair belongs to, int64 [pairs].
        only_before: The first row of each item that has no partner after, int64.
        only_after: The first row of each item that has no partner before, int64.
        content_differs: Number of ids that are on both sides with unlike questions.
        by_id: Number of items that only their id pairs.
    """

    before: Ints
    after: Ints
    item: Ints
    only_before: Ints
    only_after: Ints
    content_differs: int
    by_id: int

    @property
    def complete(self) -> bool:
        """Whether every item has a partner."""
        return not (self.only_before.size or self.only_after.size)


def item_codes(snapshot: Snapshot) -> Ints:
    """One whole number per row, the same for all samples of an item, counting from 0; int64 [rows]."""
    return codes(snapshot.table["task"], snapshot.table["item_id"])


def pair(before: Snapshot, after: Snapshot) -> Pairing:
    """Pair the rows of two snapshots. Linear in the rows but for sorting; pairs come in the order of `before`."""
    item_before, item_after = item_codes(before), item_codes(after)
    first_before, first_after = _first_rows(item_before), _first_rows(item_after)
    left, right, content_differs, by_id = _pair_items(before, after, first_before, first_after)
    # Both sides of a pair of items get the number of the pair; then rows pair on (pair, sample).
    number_before, number_after = np.full(len(first_before), NONE), np.full(len(first_after), NONE)
    number_before[left] = number_after[right] = np.arange(len(left))
    rows_before, rows_after = number_before[item_before], number_after[item_after]
    samples_before, samples_after = before.ints("sample"), after.ints("sample")
    width = 1 + int(max(samples_before.max(), samples_after.max()))
    in_before, in_after = np.flatnonzero(rows_before != NONE), np.flatnonzero(rows_after != NONE)
    _, at_before, at_after = np.intersect1d(
        rows_before[in_before] * width + samples_before[in_before],
        rows_after[in_after] * width + samples_after[in_after],
        assume_unique=True,
        return_indices=True,
    )
    paired_before, paired_after = in_before[at_before], in_after[at_after]
    order = np.argsort(paired_before, kind="stable")
    return Pairing(
        before=paired_before[order],
        after=paired_after[order],
        item=rows_before[paired_before[order]],
        only_before=first_before[number_before == NONE],
        only_after=first_after[number_after == NONE],
        content_differs=content_differs,
        by_id=by_id,
    )


def _pair_items(
    before: Snapshot, after: Snapshot, first_before: Ints, first_after: Ints
) -> tuple[Ints, Ints, int, int]:
    """Items that belong together, by their place in `first_before` and `first_after`; unlike ids; paired by id only."""
    by_id = _both(before, after, first_before, first_after, "task", "item_id")
    _, at_before, at_after = np.intersect1d(*by_id, assume_unique=True, return_indices=True)
    hash_before, hash_after = _both(before, after, first_before, first_after, "task", "content_hash")
    hashed_before, hashed_after = _has_hash(before)[first_before], _has_hash(after)[first_after]
    both_hashed = hashed_before[at_before] & hashed_after[at_after]
    same_key = _same_key(before, after, first_before[at_before], first_after[at_after])
    same = np.where(both_hashed, hash_before[at_before] == hash_after[at_after], same_key)
    left, right = at_before[same], at_after[same]
    rest_before = _others(len(first_before), left)
    rest_after = _others(len(first_after), right)
    rest_before, rest_after = rest_before[hashed_before[rest_before]], rest_after[hashed_after[rest_after]]
    # Items are numbered by their codes; the n-th is the n-th in the order of the rows.
    rest_before = rest_before[np.argsort(first_before[rest_before], kind="stable")]
    rest_after = rest_after[np.argsort(first_after[rest_after], kind="stable")]
    extra_before, extra_after = _nth_with_nth(hash_before[rest_before], hash_after[rest_after])
    return (
        np.concatenate([left, rest_before[extra_before]]),
        np.concatenate([right, rest_after[extra_after]]),
        int(np.sum(~same)),
        int(np.sum(same & ~both_hashed)),
    )


def _first_rows(items: Ints) -> Ints:
    """The first row of each item, by item code."""
    return np.unique(items, return_index=True)[1]


def _both(before: Snapshot, after: Snapshot, rows_before: Ints, rows_after: Ints, *names: str) -> tuple[Ints, Ints]:
    """Joint codes of some rows of both snapshots."""
    columns = [
        pa.chunked_array(before.table[name].take(rows_before).chunks + after.table[name].take(rows_after).chunks)
        for name in names
    ]
    joint = codes(*columns)
    return joint[: len(rows_before)], joint[len(rows_before) :]


def _has_hash(snapshot: Snapshot) -> NDArray[np.bool_]:
    return np.asarray(snapshot.table["content_hash"].is_valid())


def _same_key(before: Snapshot, after: Snapshot, at_before: Ints, at_after: Ints) -> NDArray[np.bool_]:
    """Whether gold and k agree, where both sides give them."""
    same = np.ones(len(at_before), bool)
    for name in ("gold", "k"):
        one, other = before.ints(name)[at_before], after.ints(name)[at_after]
        same &= (one == other) | (one == NONE) | (other == NONE)
    return same


def _nth_with_nth(before: Ints, after: Ints) -> tuple[Ints, Ints]:
    """Positions of the pairs of equal codes, the n-th occurrence with the n-th."""
    rank_before, rank_after = _rank(before), _rank(after)
    width = 1 + max((int(r.max()) for r in (rank_before, rank_after) if r.size), default=0)
    _, left, right = np.intersect1d(
        before * width + rank_before, after * width + rank_after, assume_unique=True, return_indices=True
    )
    return left, right


def _rank(values: Ints) -> Ints:
    """How often each value has stood before its place: 0, 0, 1 for [5, 7, 5]."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if values.size else np.zeros(0, np.int64)
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values)) - np.repeat(starts, np.diff(np.r_[starts, len(values)]))
    return rank


def _others(count: int, taken: Ints | Sequence[int]) -> Ints:
    """The numbers below `count` that are not taken."""
    free = np.ones(count, bool)
    free[np.asarray(taken, np.int64)] = False
    return np.flatnonzero(free)
