"""The numbers of values in a Parquet file, from its footer.

    PAR1  pages ...  footer (Thrift, compact protocol)  length of the footer, 4 bytes  PAR1

A table must be measured before it is read: a run of a billion equal numbers is a few bytes in a page. pyarrow offers
the numbers too, and ends the process where a footer is damaged, so the few fields that are needed are decoded here.
The protocol is that of thrift/doc/specs/thrift-compact-protocol.md, the fields those of parquet.thrift.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_MAGIC: Final = b"PAR1"
_TAIL: Final = len(_MAGIC) + 4
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8, 6: 4, 7: 4}
"""Bytes of a value in memory by the code of its type; of a text those of its index or offset."""

# Codes of the types in the compact protocol.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
_VARINTS: Final = frozenset((4, 5, 6))


@dataclass(frozen=True)
class ColumnChunk:
    """The values of one column in one group of rows.

    Attributes:
        path: Name of the column, with dots into objects and lists.
        values: Number of values, nulls included.
        width: Bytes of one value in memory, without the bytes of a text.
    """

    path: str
    values: int
    width: int


def read_footer(path: Path) -> list[list[ColumnChunk]]:
    """The columns of each group of rows.

    Raises:
        OSError, ValueError, LookupError, TypeError: If the file cannot be read, or is no Parquet file that is whole.
    """
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - _TAIL))
        tail = file.read(_TAIL)
        if len(tail) < _TAIL or not tail.endswith(_MAGIC):
            raise ValueError("it does not end as a Parquet file does")
        (length,) = struct.unpack("<I", tail[:4])
        if length > end - _TAIL - len(_MAGIC):
            raise ValueError("its footer is longer than the file")
        file.seek(end - _TAIL - length)
        footer = _Decoder(file.read(length)).structure()
    return [[_chunk(column[3]) for column in group[1]] for group in footer[4]]


def _chunk(described: dict[int, Any]) -> ColumnChunk:
    names, values = described[3], described[5]
    if not isinstance(values, int) or values < 0:
        raise ValueError(f"needed a number of values in its footer, got {values!r}")
    return ColumnChunk(b".".join(names).decode(), values, _WIDTHS[described[1]])


class _Decoder:
    """Values of the compact protocol; structures are dicts by the number of the field."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def structure(self) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            # The high half is the distance to the field's number; 0 where it follows in full.
            number = number + (header >> 4) if header >> 4 else self._number()
            found[number] = self._value(header & 15, in_list=False)
        return found

    def _value(self, kind: int, *, in_list: bool) -> Any:
        if kind in (_TRUE, _FALSE):
            return self._byte() == _TRUE if in_list else kind == _TRUE  # a field has its truth in its header
        if kind in _VARINTS:
            return self._number()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in (_LIST, _SET):
            return self._list()
        if kind == _STRUCT:
            return self.structure()
        if kind == _MAP:
            return self._map()
        if kind in (_BYTE, _DOUBLE):
            return self._take(1 if kind == _BYTE else 8)
        raise ValueError(f"its footer has a value of the unknown type {kind}")

    def _list(self) -> list[Any]:
        header = self._byte()
        size = self._varint() if header >> 4 == 15 else header >> 4
        if size > len(self._data) - self._at:  # each element takes a byte or more
            raise ValueError("a list in its footer is longer than the footer")
        return [self._value(header & 15, in_list=True) for _ in range(size)]

    def _map(self) -> list[tuple[Any, Any]]:
        size = self._varint()
        if not size:
            return []
        kinds = self._byte()
        if size > len(self._data) - self._at:
            raise ValueError("a map in its footer is longer than the footer")
        return [(self._value(kinds >> 4, in_list=True), self._value(kinds & 15, in_list=True)) for _ in range(size)]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if len(taken) < size:
            raise ValueError("its footer is cut")
        self._at += size
        return taken

    def _varint(self) -> int:
        """A number of 7 bits a byte, the lowest first."""
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found
            if shift > 63:
                raise ValueError("a number in its footer has more than 64 bits")

    def _number(self) -> int:
        """A signed number: 0, -1, 1, -2, ... are 0, 1, 2, 3, ..."""
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
