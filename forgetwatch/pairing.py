"""Which row before belongs to which row after.

Rows pair on (task, content_hash, sample): on what the question says, never on where it stands. Where a hash repeats
within a task, as it does in real benchmarks, equal item_ids pair first, then the n-th with the n-th. Tables without
content hashes pair on (task, item_id, sample); nothing guarantees then that it is the same question, and gold or k
that differ show that it is not.
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
    """Rows that belong together, and those that are left over.

    Attributes:
        before: Row numbers before, int64 [pairs].
        after: Row numbers after, int64 [pairs].
        only_before: Rows that have no partner, int64.
        only_after: Rows that have no partner, int64.
        content_differs: Number of ids that are on both sides with unlike questions.
        by_content: Whether rows were paired by content hash.
    """

    before: Ints
    after: Ints
    only_before: Ints
    only_after: Ints
    content_differs: int
    by_content: bool

    @property
    def complete(self) -> bool:
        """Whether every row has a partner."""
        return not (self.only_before.size or self.only_after.size)


def pair(before: Snapshot, after: Snapshot) -> Pairing:
    """Pair the rows of two snapshots. Linear in the rows but for sorting; pairs come in the order of `before`."""
    rows = len(before)
    by_id = _both(before, after, "task", "item_id", "sample")
    id_before, id_after = by_id[:rows], by_id[rows:]
    _, at_before, at_after = np.intersect1d(id_before, id_after, assume_unique=True, return_indices=True)
    by_content = not any(s.table["content_hash"].null_count for s in (before, after))
    if not by_content:
        same = _same_key(before, after, at_before, at_after)
        left, right = at_before[same], at_after[same]
        differs = int(np.sum(~same))
    else:
        by_hash = _both(before, after, "task", "content_hash", "sample")
        hash_before, hash_after = by_hash[:rows], by_hash[rows:]
        same = hash_before[at_before] == hash_after[at_after]
        differs = int(np.sum(~same))
        rest_before = _others(rows, at_before[same])
        rest_after = _others(len(after), at_after[same])
        extra_before, extra_after = _nth_with_nth(hash_before[rest_before], hash_after[rest_after])
        left = np.concatenate([at_before[same], rest_before[extra_before]])
        right = np.concatenate([at_after[same], rest_after[extra_after]])
    order = np.argsort(left, kind="stable")
    return Pairing(
        before=left[order],
        after=right[order],
        only_before=_others(rows, left),
        only_after=_others(len(after), right),
        content_differs=differs,
        by_content=by_content,
    )


def _both(before: Snapshot, after: Snapshot, *names: str) -> Ints:
    """Joint codes of the rows of both snapshots, those of `before` first."""
    return codes(*(pa.chunked_array(before.table[name].chunks + after.table[name].chunks) for name in names))


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
