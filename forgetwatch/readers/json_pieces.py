"""JSON files piece by piece, so that a log of a gigabyte needs no gigabytes of memory.

    {"results": {...}, "samples": {"arc": [ROW, ROW, ...]}}      `Document`: one document, its rows one by one
    ROW, end of line, ROW, end of line, ...                      `json_lines`: one document a line

Every error names the file and the place; a file that ends too early is one of them.

Where the parts of a JSON text lie, so that only what is wanted is ever built.

    data = b'{"id": 7, "events": [...a megabyte...], "scores": {...}}'
    picked(data, 0, len(data), {"id", "scores"})       {"id": 7, "scores": {...}}; the events are stepped over

A log's transcripts are a hundred times as large as what is read from it, and their Python objects five times as large
again. Stepping over looks at quotes and brackets only: what is not wanted is not checked.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final, Self

from forgetwatch.errors import SnapshotError

Progress = Callable[[int, int], None]
"""Called with what is read, in bytes, samples or files, and how much there is in all."""

_CHUNK: Final = 2**20
_NEAR_END: Final = 64
"""Where a value is cut, the decoder stops at most so many characters before the end, or within a string."""
_BLANK: Final = re.compile(r"[ \t\n\r]*")


def json_lines(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, Any]]:
    """The number and the value of each line that is not empty.

    Raises:
        SnapshotError: If a line is no JSON.
    """
    total, done, told, decode = path.stat().st_size, 0, 0, json.JSONDecoder().raw_decode
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            done += len(line)
            if progress is not None and done - told >= _CHUNK:
                told = done
                progress(done, total)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \t\r\n")
                if not text:
                    continue
                value, end = decode(text)
                if end < len(text):
                    raise json.JSONDecodeError("Extra data", text, end)
            except (ValueError, RecursionError) as error:
                raise SnapshotError(f"{path}, line {number}: not a JSON object ({error}); is the file cut?") from error
            yield number, value
    if progress is not None:
        progress(total, total)


class Document:
    """One JSON document of any size, of which only the piece at hand is in memory.

    `members` and `elements` go through an object and an array; between two steps the caller reads the value, with
    `value` or by going through it in turn.
    """

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self._file = path.open("rb")
        self._total = path.stat().st_size
        self._progress = progress
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._decode = json.JSONDecoder().raw_decode
        self._text, self._at = "", 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def peek(self) -> str:
        """The next character that is not blank; empty at the end of the file."""
        while True:
            blank = _BLANK.match(self._text, self._at)
            self._at = self._at if blank is None else blank.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def members(self) -> Iterator[str]:
        """The names in the object that begins here."""
        for _ in self._parts("{", "}"):
            name = self.value() if self.peek() == '"' else None
            if not isinstance(name, str):
                raise self._broken("a name in quotes")
            self._take(":")
            yield name

    def elements(self) -> Iterator[None]:
        """One step for each value of the array that begins here."""
        yield from self._parts("[", "]")

    def value(self) -> Any:
        """The value that begins here, whole."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - _NEAR_END
                if cut and self._more():
                    continue
                raise self._broken(f"JSON: {error.msg}") from error
            except (ValueError, RecursionError) as error:
                raise self._broken(f"JSON: {error}") from error
            rest = self._text[end : end + _NEAR_END]
            is_number = self._text[end - 1] not in '"]}'
            if is_number and len(rest) < _NEAR_END and not rest.strip("0123456789+-.eE") and self._more():
                continue  # it may go on
            self._at = end
            return value

    def end(self) -> None:
        """Nothing but blanks may follow."""
        if self.peek():
            raise self._broken("the end of the document")

    def _parts(self, opening: str, closing: str) -> Iterator[None]:
        self._take(opening)
        if self.peek() == closing:
            self._at += 1
            return
        while True:
            yield
            if self.peek() == closing:
                self._at += 1
                return
            self._take(",")

    def _take(self, character: str) -> None:
        if self.peek() != character:
            raise self._broken(repr(character))
        self._at += 1

    def _more(self) -> bool:
        """Read on; what was used is dropped. False at the end of the file."""
        rest = self._text[self._at :]
        chunk = self._file.read(max(_CHUNK, len(rest)))  # twice as much each time: a long value is not read too often
        try:
            self._text, self._at = rest + self._utf8.decode(chunk, final=not chunk), 0
        except UnicodeDecodeError as error:
            raise SnapshotError(
                f"{self.path}: not UTF-8 text ({error.reason}, near byte {self._file.tell():,})"
            ) from error
        if self._progress is not None:
            self._progress(self._file.tell(), self._total)
        return bool(chunk)

    def _broken(self, needed: str) -> SnapshotError:
        found = repr(self._text[self._at : self._at + 20]) if self._at < len(self._text) else "the end of the file"
        byte = self._file.tell() - len(self._text[self._at :].encode("utf-8", "surrogatepass"))
        return SnapshotError(f"{self.path}: needed {needed}, got {found} (near byte {byte:,}); is the file cut?")


def opening(path: Path) -> tuple[bool, dict[str, str]]:
    """Whether a file begins with an array; and the names in its first object, up to ``samples``.

    The object may stand alone, begin a line, or be the first of the array. Each name comes with the first character of
    its value. None where there is no object; where the text breaks, those that stand before.
    """
    is_array, names = False, dict[str, str]()
    with Document(path) as document:
        try:
            if is_array := document.peek() == "[":
                next(document.elements(), None)
            for name in document.members():
                names[name] = document.peek()
                if name == "samples":
                    break
                document.value()
        except SnapshotError:
            pass  # the reader of the format says what is wrong, and where
    return is_array, names


_BLANK_BYTES: Final = re.compile(rb"[ \t\n\r]*+")
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
    found = _BLANK_BYTES.match(data, at)
    return at if found is None else found.end()


def _after(data: bytes, at: int, mark: bytes) -> int:
    at = _blank(data, at)
    if data[at : at + 1] != mark:
        raise ValueError(f"needed {mark.decode()!r}, got {data[at : at + 20]!r} at byte {at:,}")
    return at + 1
