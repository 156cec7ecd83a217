"""Labels: a text column as codes. Grouping a million rows is then a sort and not a million comparisons of text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Labels:
    """A text column as codes.

    Attributes:
        code: Index of each row's name in `names`, int64 [rows].
        names: The names, in the order of their first rows.
    """

    code: Ints
    names: tuple[str, ...]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Self:
        """Encode a text column without nulls."""
        encoded = pc.dictionary_encode(column).combine_chunks()
        encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
        return cls(np.asarray(encoded.indices.to_numpy(), np.int64), tuple(encoded.dictionary.to_pylist()))

    def take(self, rows: NDArray[Any]) -> Labels:
        """Labels of some rows."""
        return Labels(self.code[rows], self.names)

    def split(self) -> Iterator[tuple[str, Ints]]:
        """Yield each name that is not empty with its rows, int64, in the order of the names."""
        # Stable, so that the rows of each name keep their order.
        order = np.argsort(self.code, kind="stable")
        ends = np.cumsum(np.bincount(self.code, minlength=len(self.names)))
        for name, rows in zip(self.names, np.split(order, ends[:-1]) if len(ends) else [], strict=True):
            if name and rows.size:
                yield name, rows
