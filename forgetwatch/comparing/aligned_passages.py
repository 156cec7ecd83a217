"""Aligned passages of two snapshots: texts without a right answer, beside the pairs of answers (`comparing.aligned`).

A passage takes part if it was scored on both sides; scored on one alone, it is unscored like any other item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.comparing.aligned import first_named, shared_clusters
from forgetwatch.comparing.labels import Labels
from forgetwatch.comparing.pairing import Pairing
from forgetwatch.metrics import Passages, rate
from forgetwatch.snapshot import Snapshot

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedPassages:
    """Passages that were scored on both sides, with their labels.

    Attributes:
        passages: Their log-likelihoods and lengths.
        task: Names of the tasks.
        category: Names of the categories.
    """

    passages: Passages
    task: Labels
    category: Labels

    @classmethod
    def align(cls, before: Snapshot, after: Snapshot, pairing: Pairing) -> Self:
        """Align the passages among the pairs of two snapshots; there may be none.

        Args:
            before: The snapshot before.
            after: The snapshot after.
            pairing: Rows of the two that pair.
        """
        left, right = pairing.before, pairing.after
        both = before.is_passage[left] & after.is_passage[right]
        cluster = shared_clusters(before, after, pairing)
        left, right = left[both], right[both]
        passages = Passages(
            before=_values(before, "choice_logprobs", left),
            after=_values(after, "choice_logprobs", right),
            bytes_before=_values(before, "choice_bytes", left),
            bytes_after=_values(after, "choice_bytes", right),
            cluster=None if cluster is None else cluster[both],
        )
        category = first_named(before.table["category"].take(left), after.table["category"].take(right))
        return cls(passages=passages, task=Labels.of(before.table["task"].take(left)), category=Labels.of(category))

    def __len__(self) -> int:
        return len(self.passages)

    def take(self, rows: NDArray[Any]) -> Self:
        """Some of the passages."""
        return type(self)(
            passages=self.passages.take(rows), task=self.task.take(rows), category=self.category.take(rows)
        )


def snapshot_bits_per_byte(snapshot: Snapshot) -> float:
    """Bits per byte of all passages of a snapshot; nan without passages."""
    rows = np.flatnonzero(snapshot.is_passage)
    return rate(_values(snapshot, "choice_logprobs", rows), _values(snapshot, "choice_bytes", rows))


def _values(snapshot: Snapshot, name: str, rows: NDArray[np.int64]) -> Floats:
    """The only value of a list column in each of some rows, float64 [rows]."""
    column = snapshot.table[name].take(rows).combine_chunks()
    return np.asarray(pc.cast(column.flatten(), "float64").to_numpy(zero_copy_only=False), np.float64)
