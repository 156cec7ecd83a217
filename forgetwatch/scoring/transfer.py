"""Items that the main process encodes once and sends to the other processes.

The token ids of all items go as one array: tuples would be received with an integer object for each token, 36 bytes
instead of 4 on the way and 8 afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from forgetwatch.scoring.encoding import Encoded, share_integers
from forgetwatch.scoring.processes import on_main_process, world_size


def encoded_by_main_process(function: Callable[[], list[Encoded]]) -> list[Encoded]:
    """Items that a function encodes in the main process, sent to all; the others do not call it.

    Raises:
        ForgetwatchError: If it failed in the main process; there the error itself is raised.
    """
    if world_size() == 1:
        return function()
    return on_main_process(lambda: _Packed.of(function())).items()


@dataclass(frozen=True)
class _Packed:
    """Encoded items on their way.

    Attributes:
        ids: Token ids of the context and the choices of each item, int32 [all of them].
        lengths: Number of ids of each context and each choice, int64.
        rest: The items without these ids.
    """

    ids: NDArray[np.int32]
    lengths: NDArray[np.int64]
    rest: list[Encoded]

    @classmethod
    def of(cls, encoded: Sequence[Encoded]) -> _Packed:
        rows = [ids for one in encoded for ids in (one.context, *one.choices)]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        # Empty choices keep their number.
        rest = [replace(one, context=(), choices=((),) * len(one.choices)) for one in encoded]
        return cls(ids, lengths, rest)

    def items(self) -> list[Encoded]:
        """The items, with the ids of all rows as shared objects."""
        shared: dict[int, int] = {}
        bounds = zip(np.cumsum(self.lengths), self.lengths, strict=True)
        rows = (share_integers(self.ids[end - length : end].tolist(), shared) for end, length in bounds)
        return [replace(one, context=next(rows), choices=tuple(next(rows) for _ in one.choices)) for one in self.rest]
