"""Large JSON files in pieces, so that a log of a gigabyte needs no gigabytes of memory.

    {"results": {...}, "samples": {"arc": [ROW, ROW, ...]}}      `Document`: one document, its rows one by one
    ROW, end of line, ROW, end of line, ...                      `json_lines`: one document a line
    {"id": 7, "events": [...a megabyte...], "scores": {...}}     `pick`: some members of an object in memory

`Document` and `json_lines` read files; their errors name the file and the line or byte, also where
a file is cut. `spans`, `pick` and `build` work on bytes in memory: a log's transcripts are a
hundred times as large as the fields that are needed, and their Python objects five times as large
again, so those bytes are skipped and never decoded. Skipping looks at quotes and brackets only:
JSON that is not needed is not checked. They raise ValueError where there is no object or array,
where it is cut, and for a value that is no JSON or has too many values.
"""

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Final, Self

from forgetwatch.errors import SnapshotError
from forgetwatch.files.reading import (
    open_plain,
    unique_keys,
)

Progress = Callable[[int, int], None]
"""Called with the amount read and the total, in bytes, samples or files."""

CHUNK: Final = 2**20


_NEAR_END: Final = 64
"""The decoder stops at most this many characters before the end of a cut value, or within a string."""


_BLANK: Final = re.compile(r"[ \t\n\r]*")


class Document:
    """One JSON document of any size, of which only the current piece is in memory.

    `members` and `elements` iterate over an object and an array. Between two steps the caller must
    read the value, with `value` or by iterating over it in turn. `progress` is in bytes.
    """

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self._file = open_plain(path)
        self._total = path.stat().st_size
        self._progress = progress
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._decode = json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode
        self._text, self._at = "", 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def peek(self) -> str:
        """Next character that is not blank; empty at the file's end."""
        while True:
            blank = _BLANK.match(self._text, self._at)
            self._at = self._at if blank is None else blank.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def members(self) -> Iterator[str]:
        """Yield the names of the members of the object here."""
        for _ in self._parts("{", "}"):
            name = self.value() if self.peek() == '"' else None
            if not isinstance(name, str):
                raise self._broken("a name in quotes")
            self._take(":")
            yield name

    def elements(self) -> Iterator[None]:
        """Yield None for each element of the array here."""
        yield from self._parts("[", "]")

    def values(self) -> Iterator[tuple[int, Any]]:
        """Yield the number and value of each element of the array here."""
        for number, _ in enumerate(self.elements(), start=1):
            yield number, self.value()

    def value(self) -> Any:
        """Read the whole value that begins here."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The value may only be cut by the end of the chunk: then it is decoded again with
                # the next one.
                cut = (
                    error.msg.startswith("Unterminated") or error.pos > len(self._text) - _NEAR_END
                )
                if cut and self._more():
                    continue
                raise self._broken(f"JSON: {error.msg}") from error
            except (ValueError, RecursionError) as error:
                raise self._broken(f"JSON: {error}") from error
            # A number at the end of a chunk may be cut: "12" of "125" decodes without an error.
            rest = self._text[end : end + _NEAR_END]
            is_number = self._text[end - 1] not in '"]}'
            if (
                is_number
                and len(rest) < _NEAR_END
                and not rest.strip("0123456789+-.eE")
                and self._more()
            ):
                continue
            self._at = end
            return value

    def end(self) -> None:
        """Raise unless only blanks follow."""
        if self.peek():
            raise self._broken("the end of the document")

    def _parts(self, opening: str, closing: str) -> Iterator[None]:
        self._take(opening)
        is_first = True
        while self.peek() != closing:
            if not is_first:
                self._take(",")
            yield
            is_first = False
        self._take(closing)

    def _take(self, character: str) -> None:
        if self.peek() != character:
            raise self._broken(repr(character))
        self._at += 1

    def _more(self) -> bool:
        rest = self._text[self._at :]
        # A value that spans chunks is decoded anew after each: doubling keeps the total linear in
        # its length.
        chunk = self._file.read(max(CHUNK, len(rest)))
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
        reason = (
            repr(self._text[self._at : self._at + 20])
            if self._at < len(self._text)
            else "the end of the file"
        )
        byte = self._file.tell() - len(self._text[self._at :].encode("utf-8", "surrogatepass"))
        return SnapshotError(
            f"{self.path}: needed {needed}, got {reason} (near byte {byte:,}); is the file cut?"
        )


def begins_json(head: bytes) -> bool:
    """Does a file begin as a JSON object or array?"""
    return head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def first_object(path: Path) -> dict[str, str]:
    """Find the names in the first object of a file.

    The object may be alone, the first line, or the first element of an array. No name after
    ``samples`` is read. There are no names if there is no object; of a broken text they are those
    before the break.

    Returns:
        Each name with the first character of the value.
    """
    names = dict[str, str]()
    with Document(path) as document:
        try:
            if document.peek() == "[":
                next(document.elements(), None)
            for name in document.members():
                names[name] = document.peek()
                if name == "samples":
                    break
                document.value()
        except SnapshotError:
            pass  # the reader of the format raises a better error
    return names


# Atomic groups and possessive classes never backtrack, so that a cut file of a gigabyte fails in
# linear time.
_BLANK_BYTES: Final = re.compile(rb"[ \t\n\r]*+")


_STRING: Final = re.compile(rb'"(?>(?:[^"\\]++|\\.)*)"', re.DOTALL)


_SCALAR: Final = re.compile(rb'[^ \t\n\r,:\[\]{}"]++')


_PLAIN: Final = rb'[^"\[\]{}]++|"(?>(?:[^"\\]++|\\.)*)"'


_FLAT: Final = re.compile(
    rb"(?>(?:" + _PLAIN + rb"|[\[{](?>(?:" + _PLAIN + rb")*)[\]}])*)", re.DOTALL
)
"""Text without deeper nesting: scalars, strings, and lists and objects that hold nothing else."""


_SMALL: Final = 2**16
"""Bytes up to which building a whole object is faster than skipping its members."""


_MAX_VALUES: Final = 500_000
"""Values that one picked member may hold: Python needs a hundred bytes for each, however short its text."""


def spans(data: bytes, at: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, start and end of each value of an object or array.

    Empty names in an array.
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
            name = str(json.loads(data[at:end]))  # a name may contain escapes
            at = _blank(data, _after(data, end, b":"))
        end = _end(data, at)
        yield name, at, end
        at = _blank(data, end)
        if data[at : at + 1] != closing:
            at = _blank(data, _after(data, at, b","))


def pick(data: bytes, start: int, end: int, names: Collection[str]) -> dict[str, Any]:
    """Read some members of the object in `data[start:end]`."""
    if end - start > _SMALL:
        return {name: build(data, at, to) for name, at, to in spans(data, start) if name in names}
    members = build(data, start, end)
    if not isinstance(members, dict):
        raise ValueError(f"needed an object, got {data[start : start + 20]!r} at byte {start:,}")
    return {name: members[name] for name in names if name in members}


def build(data: bytes, start: int, end: int) -> Any:
    """Read the value in `data[start:end]`."""
    # Every value but the outermost follows one of these marks. Marks within texts count too: the
    # bound is from above.
    if (
        end - start > _MAX_VALUES
        and sum(data.count(mark, start, end) for mark in (b",", b"[", b"{")) > _MAX_VALUES
    ):
        raise ValueError(f"the value at byte {start:,} holds more than {_MAX_VALUES:,} values")
    try:
        return json.loads(data[start:end].decode("utf-8"), object_pairs_hook=unique_keys)
    except RecursionError as error:
        raise ValueError(f"the value at byte {start:,} is nested too deeply") from error


def _end(data: bytes, at: int) -> int:
    if data[at : at + 1] not in (b"{", b"["):
        match = (_STRING if data[at : at + 1] == b'"' else _SCALAR).match(data, at)
        if match is None:
            raise ValueError(f"needed a value, got {data[at : at + 20]!r} at byte {at:,}")
        return match.end()
    # Count brackets; the pattern takes whole strings, so that brackets inside them do not count.
    start, depth = at, 0
    while at < len(data):
        mark = data[at]
        if mark in b"{[":
            depth += 1
        elif mark in b"}]":
            depth -= 1
        else:
            break  # a quote that is never closed
        at += 1
        if depth == 0:
            return at
        match = _FLAT.match(data, at)
        at = at if match is None else match.end()
    raise ValueError(f"the value that begins at byte {start:,} has no end")


def _blank(data: bytes, at: int) -> int:
    match = _BLANK_BYTES.match(data, at)
    return at if match is None else match.end()


def _after(data: bytes, at: int, mark: bytes) -> int:
    at = _blank(data, at)
    if data[at : at + 1] != mark:
        raise ValueError(f"needed {mark.decode()!r}, got {data[at : at + 20]!r} at byte {at:,}")
    return at + 1
