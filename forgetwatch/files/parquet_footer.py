"""The sizes and encodings of the columns of a Parquet file, from its footer.

    PAR1  pages ...  footer (Thrift, compact protocol)  length of the footer, 4 bytes  PAR1

A table must be measured before it is read: a run of a billion equal numbers is a few bytes in a page. pyarrow offers
the numbers too, and ends the process where a footer is damaged, so the few fields that are needed are decoded here, and
the others skipped.
The protocol is that of thrift/doc/specs/thrift-compact-protocol.md, the fields those of parquet.thrift.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

_MAGIC: Final = b"PAR1"
_TAIL: Final = len(_MAGIC) + 4
_WIDTHS: Final = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8, 6: 4, 7: 4}
"""Bytes of a value in memory by the code of its type; of a text those of its index or offset."""

# Codes of the types in the compact protocol.
_TRUE, _FALSE, _BYTE, _INT32, _INT64, _DOUBLE = 1, 2, 3, 5, 6, 7
_BINARY, _LIST, _SET, _MAP, _STRUCT = 8, 9, 10, 11, 12
_VARINTS: Final = frozenset((4, _INT32, _INT64))
_MAX_VARINT: Final = 10
"""Bytes of a number of 64 bits."""


class _Field(NamedTuple):
    """Type of a field that is needed.

    Attributes:
        kind: Code of its type. A field of another type is skipped, as by other readers.
        element: Code of the type of its elements, if it is a list.
        fields: Needed fields of the structure, or of those in the list.
    """

    kind: int
    element: int = 0
    fields: Mapping[int, _Field] = {}


_TYPE, _ENCODINGS, _PATH, _VALUES, _UNCOMPRESSED = 1, 2, 3, 5, 6
_CHUNK: Final = {
    _TYPE: _Field(_INT32),
    _ENCODINGS: _Field(_LIST, _INT32),
    _PATH: _Field(_LIST, _BINARY),
    _VALUES: _Field(_INT64),
    _UNCOMPRESSED: _Field(_INT64),
}
_FOOTER: Final = {4: _Field(_LIST, _STRUCT, {1: _Field(_LIST, _STRUCT, {3: _Field(_STRUCT, fields=_CHUNK)})})}
"""Groups of rows, their columns, and the metadata of each."""


@dataclass(frozen=True)
class ColumnChunk:
    """The values of one column in one group of rows.

    Attributes:
        path: Name of the column, with dots into objects and lists.
        values: Number of values, nulls included.
        width: Bytes of one value in memory, without the bytes of a text.
        uncompressed: Bytes of the encoded values before compression.
        encodings: Codes of the encodings of its pages.
    """

    path: str
    values: int
    width: int
    uncompressed: int
    encodings: frozenset[int]


def read_footer(path: Path) -> list[list[ColumnChunk]]:
    """The columns of each group of rows.

    Raises:
        OSError, ValueError, LookupError, TypeError: If the file cannot be read, or is not a whole Parquet file.
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
        footer = file.read(length)
    try:
        found = _Decoder(footer).structure(_FOOTER)
    except IndexError as error:
        raise ValueError("its footer is cut") from error
    return [[_chunk(column[3]) for column in group[1]] for group in found[4]]


def _chunk(described: dict[int, Any]) -> ColumnChunk:
    values, uncompressed = described[_VALUES], described[_UNCOMPRESSED]
    if values < 0 or uncompressed < 0:
        name, found = ("number of values", values) if values < 0 else ("size", uncompressed)
        raise ValueError(f"needed a {name} of at least 0 in its footer, got {found}")
    return ColumnChunk(
        path=b".".join(described[_PATH]).decode(),
        values=values,
        width=_WIDTHS[described[_TYPE]],
        uncompressed=uncompressed,
        encodings=frozenset(described[_ENCODINGS]),
    )


class _Decoder:
    """Needed values of the compact protocol; structures are dicts by the number of the field.

    An IndexError means that the data are cut.
    """

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def structure(self, fields: Mapping[int, _Field]) -> dict[int, Any]:
        found: dict[int, Any] = {}
        number = 0
        while header := self._byte():
            # The high half is the distance to the field's number; 0 where it follows in full.
            number = number + (header >> 4) if header >> 4 else self._number()
            field = fields.get(number)
            if field is None or field.kind != header & 15:
                self._skip(header & 15, in_list=False)
            else:
                found[number] = self._value(field)
        return found

    def _value(self, field: _Field) -> Any:
        if field.kind == _STRUCT:
            return self.structure(field.fields)
        if field.kind == _LIST:
            kind, size = self._list_header()
            if size and kind != field.element:
                raise ValueError(f"its footer has a list of the type {kind} instead of {field.element}")
            element = _Field(field.element, fields=field.fields)
            return [self._value(element) for _ in range(size)]
        return self._binary() if field.kind == _BINARY else self._number()

    def _skip(self, kind: int, *, in_list: bool) -> None:
        if kind in _VARINTS:
            self._varint()
        elif kind == _BINARY:
            self._advance(self._varint())
        elif kind == _STRUCT:
            self._skip_structure()
        elif kind in (_LIST, _SET):
            element, size = self._list_header()
            for _ in range(size):
                self._skip(element, in_list=True)
        elif kind == _MAP:
            self._skip_map()
        elif kind in (_TRUE, _FALSE):
            self._advance(int(in_list))  # a field has its truth in its header
        elif kind in (_BYTE, _DOUBLE):
            self._advance(1 if kind == _BYTE else 8)
        else:
            raise ValueError(f"its footer has a value of the unknown type {kind}")

    def _skip_structure(self) -> None:
        data = self._data
        while header := self._byte():
            kind = header & 15
            if header < 16:
                self._varint()  # the field's number
            elif kind in _VARINTS and data[self._at] < 128:
                self._at += 1  # most of the fields, without the cost of two calls
                continue
            self._skip(kind, in_list=False)

    def _skip_map(self) -> None:
        size = self._varint()
        kinds = self._byte() if size else 0
        if size > len(self._data) - self._at:
            raise ValueError("a map in its footer is longer than the footer")
        for _ in range(size):
            self._skip(kinds >> 4, in_list=True)
            self._skip(kinds & 15, in_list=True)

    def _list_header(self) -> tuple[int, int]:
        """(Code of the type of the elements, their number)."""
        header = self._byte()
        size = self._varint() if header >> 4 == 15 else header >> 4
        if size > len(self._data) - self._at:  # each element takes a byte or more
            raise ValueError("a list in its footer is longer than the footer")
        return header & 15, size

    def _binary(self) -> bytes:
        size = self._varint()
        self._advance(size)
        return self._data[self._at - size : self._at]

    def _advance(self, size: int) -> None:
        self._at += size
        if self._at > len(self._data):
            raise IndexError

    def _byte(self) -> int:
        byte = self._data[self._at]
        self._at += 1
        return byte

    def _varint(self) -> int:
        """A number of 7 bits a byte, the lowest first."""
        data, start = self._data, self._at
        at, byte = start + 1, data[start]
        found = byte & 127
        while byte > 127:
            if at - start == _MAX_VARINT:
                raise ValueError("a number in its footer has more than 64 bits")
            byte = data[at]
            found |= (byte & 127) << 7 * (at - start)
            at += 1
        self._at = at
        return found

    def _number(self) -> int:
        """A signed number: 0, -1, 1, -2, ... are 0, 1, 2, 3, ..."""
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
