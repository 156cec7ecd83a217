"""Where the parts of a JSON text lie, so that only what is wanted is ever built.

    data = b'{"id": 7, "events": [...a megabyte...], "scores": {...}}'
    picked(data, 0, len(data), {"id", "scores"})       {"id": 7, "scores": {...}}; the events are stepped over

A log's transcripts are a hundred times as large as what is read from it, and their Python objects five times as large
again. Stepping over looks at quotes and brackets only: what is not wanted is not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any, Final

_BLANK: Final = re.compile(rb"[ \t\n\r]*+")
_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_SCALAR: Final = re.compile(rb'[^ \t\n\r,:\[\]{}"]++')
_PLAIN: Final = rb'[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+"'
_FLAT: Final = re.compile(rb"(?:" + _PLAIN + rb"|[\[{](?:" + _PLAIN + rb")*+[\]}])*+", re.DOTALL)
"""What needs no counting: scalars, strings, and lists and objects that hold nothing else."""
_SMALL: Final = 2**16
"""Bytes up to which building a whole object is faster than stepping over its parts."""
_OPENING: Final = frozenset(b"{[")
_CLOSING: Final = frozenset(b"}]")
_MOST: Final = 500_000
"""Values that one wanted part may hold: Python needs a hundred bytes for each, however short it is written."""


def parts(data: bytes, at: int) -> Iterator[tuple[str, int, int]]:
    """The name (empty in an array), beginning and end of each value in the object or array that begins at `at`.

    Raises:
        ValueError: If there is no object or array, or it is cut.
    """
    at = _blank(data, at)
    opening = data[at : at + 1]
    if opening not in (b"{", b"["):
        raise ValueError(f"needed an object or a list, got {data[at : at + 20]!r} at byte {at:,}")
    closing = b"}" if opening == b"{" else b"]"
    at = _blank(data, at + 1)
    while data[at : at + 1] != closing:
        name = ""
        if opening == b"{":
            end = _end(data, at)
            name = str(json.loads(data[at:end]))
            at = _blank(data, _after(data, end, b":"))
        end = _end(data, at)
        yield name, at, end
        at = _blank(data, end)
        if data[at : at + 1] != closing:
            at = _blank(data, _after(data, at, b","))


def picked(data: bytes, start: int, end: int, wanted: Collection[str]) -> dict[str, Any]:
    """The values of the object from `start` to `end` whose names are wanted.

    Raises:
        ValueError: If there is no object, it is cut, or a wanted value is no JSON or holds too many values.
    """
    if end - start > _SMALL:
        return {name: built(data, at, to) for name, at, to in parts(data, start) if name in wanted}
    whole = built(data, start, end)
    if not isinstance(whole, dict):
        raise ValueError(f"needed an object, got {data[start : start + 20]!r} at byte {start:,}")
    return {name: whole[name] for name in wanted if name in whole}


def built(data: bytes, start: int, end: int) -> Any:
    """The value that lies there.

    Raises:
        ValueError: If it is no JSON, or holds too many values.
    """
    if end - start > _MOST and sum(data.count(mark, start, end) for mark in (b",", b"[", b"{")) > _MOST:
        raise ValueError(f"the value at byte {start:,} holds more than {_MOST:,} values")
    try:
        return json.loads(data[start:end].decode("utf-8"))
    except RecursionError as error:
        raise ValueError(f"the value at byte {start:,} is nested too deeply") from error


def _end(data: bytes, at: int) -> int:
    """Where the value that begins at `at` ends."""
    if data[at : at + 1] not in (b"{", b"["):
        found = (_STRING if data[at : at + 1] == b'"' else _SCALAR).match(data, at)
        if found is None:
            raise ValueError(f"needed a value, got {data[at : at + 20]!r} at byte {at:,}")
        return found.end()
    start, depth = at, 0
    while at < len(data):
        mark = data[at]
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
        else:
            break  # a quote that is never closed
        at += 1
        if depth == 0:
            return at
        found = _FLAT.match(data, at)
        at = at if found is None else found.end()
    raise ValueError(f"the value that begins at byte {start:,} has no end")


def _blank(data: bytes, at: int) -> int:
    found = _BLANK.match(data, at)
    return at if found is None else found.end()


def _after(data: bytes, at: int, mark: bytes) -> int:
    at = _blank(data, at)
    if data[at : at + 1] != mark:
        raise ValueError(f"needed {mark.decode()!r}, got {data[at : at + 20]!r} at byte {at:,}")
    return at + 1
