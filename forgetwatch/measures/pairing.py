"""Pairs of rows of two snapshots that are answers to the same question.

    before              after                pairs on
    a  hash 1           a  hash 1            id and hash
    b  hash 2           x  hash 2            hash: the id may differ
    c  hash 3, hash 3   c, d  hash 3, hash 3 equal ids first, then the n-th with the n-th
    e  no hash          e  hash 4            id, unless gold or k differ

Items pair on (task, content_hash, wording): on the text of the question and how it was asked, never
on its row. Hashes repeat within a task in real benchmarks. An item without a content hash on either
side pairs on (task, item_id); nothing guarantees then that it is the same question, and gold or k
that differ show that it is not. Within a pair of items sample j pairs with sample j.
"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from forgetwatch.metrics.transitions import Ints
from forgetwatch.snapshot import NONE, Snapshot, codes
from forgetwatch.wording import SHIPPED


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairing:
    """Rows that pair, and items without a partner.

    Attributes:
        before: Row numbers before, int64 [pairs].
        after: Row numbers after, int64 [pairs].
        item: Number of the item of each pair, int64 [pairs].
        only_before: First row of each item without a partner after, int64 [items].
        only_after: First row of each item without a partner before, int64 [items].
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
        """Does every item have a partner?"""
        return not (self.only_before.size or self.only_after.size)


def item_codes(snapshot: Snapshot) -> Ints:
    """Code each row by item, int64 [rows].

    The same for all samples of an item, counting from 0.
    """
    return codes(snapshot.table["task"], snapshot.table["item_id"])


def pair(before: Snapshot, after: Snapshot) -> Pairing:
    """Pair the rows of two snapshots, in the order of `before`.

    Takes the time of sorting the rows.
    """
    item_before, first_before = item_codes(before), _first_rows(before)
    if _are_aligned(before, after):  # a shortcut to what sorting finds
        rows, nothing = np.arange(len(before)), np.zeros(0, np.int64)
        number = codes(*(before.table[name].take(first_before) for name in ("task", "item_id")))
        return Pairing(
            before=rows,
            after=rows,
            item=number[item_before],
            only_before=nothing,
            only_after=nothing,
            content_differs=0,
            by_id=0,
        )
    item_after, first_after = item_codes(after), _first_rows(after)
    left, right, content_differs, by_id = _pair_items(before, after, first_before, first_after)
    # Both items of a pair get one number, items without a partner NONE: then rows pair on (number,
    # sample).
    number_before, number_after = np.full(len(first_before), NONE), np.full(len(first_after), NONE)
    number_before[left] = number_after[right] = np.arange(len(left))
    rows_before, rows_after = number_before[item_before], number_after[item_after]
    samples_before, samples_after = before.ints("sample"), after.ints("sample")
    # number * width + sample is one key for both, unique on each side because (task, id, sample)
    # is.
    width = 1 + int(max(samples_before.max(initial=0), samples_after.max(initial=0)))
    in_before, in_after = np.flatnonzero(rows_before != NONE), np.flatnonzero(rows_after != NONE)
    _, found_before, found_after = np.intersect1d(
        rows_before[in_before] * width + samples_before[in_before],
        rows_after[in_after] * width + samples_after[in_after],
        assume_unique=True,
        return_indices=True,
    )
    # intersect1d gives positions among the rows with a partner, in the order of the keys.
    paired_before, paired_after = in_before[found_before], in_after[found_after]
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


def rows_of_baseline(snapshot: Snapshot, baseline: Snapshot) -> Snapshot:
    """Rows of a snapshot that pair with a baseline's, in order."""
    rows = pair(baseline, snapshot).after
    return replace(snapshot, table=snapshot.table.take(rows))


def _are_aligned(before: Snapshot, after: Snapshot) -> bool:
    # Row i of both sides is the same sample of the same question, by id and hash.
    names = ("sample", "task", "item_id", "content_hash", "wording")
    return not before.table["content_hash"].null_count and all(
        before.table[n].equals(after.table[n]) for n in names
    )


def _pair_items(
    before: Snapshot, after: Snapshot, first_before: Ints, first_after: Ints
) -> tuple[Ints, Ints, int, int]:
    # An item is an index in `first_before` or `first_after`. Also returns the number of ids with
    # different questions, and of items paired by id alone.
    by_id = _joint_codes(before, after, first_before, first_after, "task", "item_id")
    _, same_id_before, same_id_after = np.intersect1d(
        *by_id, assume_unique=True, return_indices=True
    )
    hash_before, hash_after = _joint_codes(
        before, after, first_before, first_after, "task", "content_hash", "wording"
    )
    hashed_before, hashed_after = (
        np.asarray(side.table["content_hash"].is_valid())[first_rows]
        for side, first_rows in ((before, first_before), (after, first_after))
    )
    both_hashed = hashed_before[same_id_before] & hashed_after[same_id_after]
    same_key = np.ones(len(same_id_before), bool)  # gold and k agree as far as both sides have them
    for name in ("gold", "k"):
        question_before, question_after = (
            before.ints(name)[first_before[same_id_before]],
            after.ints(name)[first_after[same_id_after]],
        )
        same_key &= (
            (question_before == question_after)
            | (question_before == NONE)
            | (question_after == NONE)
        )
    # Null hashes have a code of their own, so equal codes mean equal questions only where both
    # sides have a hash.
    same = np.where(both_hashed, hash_before[same_id_before] == hash_after[same_id_after], same_key)
    left, right = same_id_before[same], same_id_after[same]
    # Equal ids come first: among repeated hashes the id decides which item belongs to which.
    rest_before = np.setdiff1d(np.arange(len(first_before)), left, assume_unique=True)
    rest_after = np.setdiff1d(np.arange(len(first_after)), right, assume_unique=True)
    rest_before, rest_after = (
        rest_before[hashed_before[rest_before]],
        rest_after[hashed_after[rest_after]],
    )
    # Items are numbered by their codes, and "n-th" is meant in the order of the rows.
    rest_before = rest_before[np.argsort(first_before[rest_before], kind="stable")]
    rest_after = rest_after[np.argsort(first_after[rest_after], kind="stable")]
    extra_before, extra_after = _match_occurrences(hash_before[rest_before], hash_after[rest_after])
    return (
        np.concatenate([left, rest_before[extra_before]]),
        np.concatenate([right, rest_after[extra_after]]),
        int(np.sum(~same)),
        int(np.sum(same & ~both_hashed)),
    )


def _first_rows(snapshot: Snapshot) -> Ints:
    return np.unique(item_codes(snapshot), return_index=True)[1]


def _joint_codes(
    before: Snapshot, after: Snapshot, rows_before: Ints, rows_after: Ints, *names: str
) -> tuple[Ints, Ints]:
    # Equal where the named columns are, int64 [rows before] and [rows after].
    columns = [
        pa.chunked_array(
            before.table[name].take(rows_before).chunks + after.table[name].take(rows_after).chunks
        )
        for name in names
    ]
    # A question in the wording of its probe is the same whether it is asked in others or not.
    columns = [
        column.fill_null(SHIPPED) if name == "wording" else column
        for name, column in zip(names, columns, strict=True)
    ]
    joint = codes(*columns)
    return joint[: len(rows_before)], joint[len(rows_before) :]


def _match_occurrences(before: Ints, after: Ints) -> tuple[Ints, Ints]:
    # The n-th occurrence before with the n-th after, int64 [pairs] each.
    rank_before, rank_after = _occurrence(before), _occurrence(after)
    width = 1 + max((int(r.max()) for r in (rank_before, rank_after) if r.size), default=0)
    _, left, right = np.intersect1d(
        before * width + rank_before,
        after * width + rank_after,
        assume_unique=True,
        return_indices=True,
    )
    return left, right


def _occurrence(values: Ints) -> Ints:
    _, code, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.empty(len(values), np.int64)
    # Sorted, equal values form runs; the rank of a value is its distance from the start of its run.
    rank[np.argsort(code, kind="stable")] = np.arange(len(values)) - np.repeat(
        np.cumsum(counts) - counts, counts
    )
    return rank
