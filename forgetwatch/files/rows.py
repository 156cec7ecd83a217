"""Rows of a file: `table_rows` of a table, by its content; `read_rows` also of a part of a document.

    CSV, TSV                                          a row for each line; the first names the columns
    {"id": 1, ...} on each line                       JSON lines
    [{"id": 1, ...}, ...]                             one array
    {"columns": ["a", "b"], "data": [[1, 2], ...]}    a table by columns, as W&B writes them
    {...}                                             one document on any number of lines is one row
    Parquet                                           its rows

    {"results": {"results": [ROW, ...]}}              rows at the path results.results
    {"details": {"0": ROW, "1": ROW}}                 members of an object: each has its name as the field `key`
    {"eval": {"HE/0": [ROW, ROW]}}                    several rows of one member: numbered by the field `sample`
    {"0": ROW, "1": ROW}                              members of the document itself: the path is a dot

Members that are no rows, such as a `type` beside them, are passed over. Every reader of logs, probes and training
files reads rows here, so that a file means one thing wherever it is given.

**Pieces.** Large JSON files in pieces, so that a log of a gigabyte needs no gigabytes of memory.

    {"results": {...}, "samples": {"arc": [ROW, ROW, ...]}}      `Document`: one document, its rows one by one
    ROW, end of line, ROW, end of line, ...                      `json_lines`: one document a line
    {"id": 7, "events": [...a megabyte...], "scores": {...}}     `pick`: some members of an object in memory

`Document` and `json_lines` read files; their errors name the file and the line or byte, also where a file is cut.
`spans`, `pick` and `build` work on bytes in memory: a log's transcripts are a hundred times as large as the fields that
are needed, and their Python objects five times as large again, so those bytes are skipped and never decoded. Skipping
looks at quotes and brackets only: JSON that is not needed is not checked. They raise ValueError where there is no
object or array, where it is cut, and for a value that is no JSON or has too many values.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

from forgetwatch.errors import SnapshotError
from forgetwatch.files.reading import (
    UnsuitableError,
    csv_dialect,
    file_errors,
    open_plain,
    read_content,
    read_head,
    table_suffix,
    table_text,
    unique_keys,
)
from forgetwatch.files.table_files import parquet_batches

Progress = Callable[[int, int], None]
"""Called with the amount read and the total, in bytes, samples or files."""

_CHUNK: Final = 2**20
_NEAR_END: Final = 64
"""The decoder stops at most this many characters before the end of a cut value, or within a string."""
_BLANK: Final = re.compile(r"[ \t\n\r]*")


def json_lines(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of each line that is not empty, from 1; SnapshotError names a line that is no JSON."""
    total, done, reported, decode = (
        path.stat().st_size,
        0,
        0,
        json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode,
    )
    with open_plain(path) as file:
        for number, line in enumerate(file, start=1):
            done += len(line)
            if progress is not None and done - reported >= _CHUNK:
                reported = done
                progress(done, total)
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \t\r\n")
                if not text:
                    continue
                value, end = decode(text)
                if end < len(text):
                    raise json.JSONDecodeError("Extra data", text, end)
            except UnsuitableError as error:
                raise SnapshotError(f"{path}, line {number}: {error}") from error
            except (ValueError, RecursionError) as error:
                raise SnapshotError(
                    f"{path}, line {number}: not a JSON object ({error}); is the file cut?"
                ) from error
            yield number, value
    if progress is not None:
        progress(total, total)


def json_array(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of each element of a file that is one array, from 1; SnapshotError if it is broken."""
    with Document(path, progress) as document:
        yield from document.values()
        document.end()


def json_values(path: Path) -> Iterator[Any]:
    """Yield each value of a file: one document on any number of lines, or several, as in JSON lines."""
    with Document(path) as document:
        while document.peek():
            yield document.value()


class Document:
    """One JSON document of any size, of which only the current piece is in memory.

    `members` and `elements` iterate over an object and an array. Between two steps the caller must read the value, with
    `value` or by iterating over it in turn. `progress` is in bytes.
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
        """Return the next character that is not blank, without consuming it; empty at the end of the file."""
        while True:
            blank = _BLANK.match(self._text, self._at)
            self._at = self._at if blank is None else blank.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def members(self) -> Iterator[str]:
        """Return the names of the members of the object that begins here."""
        for _ in self._parts("{", "}"):
            name = self.value() if self.peek() == '"' else None
            if not isinstance(name, str):
                raise self._broken("a name in quotes")
            self._take(":")
            yield name

    def elements(self) -> Iterator[None]:
        """Yield None for each element of the array that begins here."""
        yield from self._parts("[", "]")

    def values(self) -> Iterator[tuple[int, Any]]:
        """Yield (number, value) of each element of the array that begins here, from 1."""
        for number, _ in enumerate(self.elements(), start=1):
            yield number, self.value()

    def value(self) -> Any:
        """Return the whole value that begins here."""
        self.peek()
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # The value may only be cut by the end of the chunk: then it is decoded again with the next one.
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
        """Read the next chunk and drop the consumed text; False at the end of the file."""
        rest = self._text[self._at :]
        # A value that spans chunks is decoded anew after each: doubling keeps the total linear in its length.
        chunk = self._file.read(max(_CHUNK, len(rest)))
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
        found = (
            repr(self._text[self._at : self._at + 20])
            if self._at < len(self._text)
            else "the end of the file"
        )
        byte = self._file.tell() - len(self._text[self._at :].encode("utf-8", "surrogatepass"))
        return SnapshotError(
            f"{self.path}: needed {needed}, got {found} (near byte {byte:,}); is the file cut?"
        )


def begins_json(head: bytes) -> bool:
    """Return True if the beginning of a file is that of a JSON object or array."""
    return head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in (b"{", b"[")


def first_object(path: Path) -> dict[str, str]:
    """Return each name in the first object of a file, with the first character of its value.

    The object may be alone, the first line, or the first element of an array. No name after ``samples`` is read. There
    are no names if there is no object; of a broken text they are those before the break.
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


# Atomic groups and possessive classes never backtrack, so that a cut file of a gigabyte fails in linear time.
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
    """Yield (name, start, end) of each value in the object or array that begins at byte `at`.

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
    """Return the members with these names of the object in `data[start:end]`."""
    if end - start > _SMALL:
        return {name: build(data, at, to) for name, at, to in spans(data, start) if name in names}
    members = build(data, start, end)
    if not isinstance(members, dict):
        raise ValueError(f"needed an object, got {data[start : start + 20]!r} at byte {start:,}")
    return {name: members[name] for name in names if name in members}


def build(data: bytes, start: int, end: int) -> Any:
    """Return the value in `data[start:end]`."""
    # Every value but the outermost follows one of these marks. Marks within texts count too: the bound is from above.
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
    """End of the value that begins at `at`."""
    if data[at : at + 1] not in (b"{", b"["):
        found = (_STRING if data[at : at + 1] == b'"' else _SCALAR).match(data, at)
        if found is None:
            raise ValueError(f"needed a value, got {data[at : at + 20]!r} at byte {at:,}")
        return found.end()
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
        found = _FLAT.match(data, at)
        at = at if found is None else found.end()
    raise ValueError(f"the value that begins at byte {start:,} has no end")


def _blank(data: bytes, at: int) -> int:
    """Return the first position from `at` on that is not blank."""
    found = _BLANK_BYTES.match(data, at)
    return at if found is None else found.end()


def _after(data: bytes, at: int, mark: bytes) -> int:
    """Return the position after the mark that must come next."""
    at = _blank(data, at)
    if data[at : at + 1] != mark:
        raise ValueError(f"needed {mark.decode()!r}, got {data[at : at + 20]!r} at byte {at:,}")
    return at + 1


ABSENT: Final = object()
"""Value of a field that a row lacks; None is a value that a row may hold."""
DOCUMENT: Final = "."
"""Path of the document itself."""
NEEDED: Final = "a table in CSV, JSON or Parquet"

_BATCH: Final = 4096  # rows
_MAX_DIGITS: Final = 10
"""A longer number is no index of a list."""


def table_rows(path: Path, *, kept: bool = True) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, row) of each row of a table; the place is ``line 3`` or ``row 3``, from 1.

    Args:
        path: The file; gzip may have packed it.
        kept: False if the caller keeps no row, so that a table may be of any size.

    Raises:
        SnapshotError: If it cannot be read, or a row is no object of named values; names the place.
    """
    with file_errors(path, NEEDED):
        head = read_head(path)
        if head.startswith(b"PAR1") or table_suffix(path) == ".parquet":
            batches = parquet_batches(path, rows=_BATCH, kept=kept)
            rows: Iterator[tuple[str, Any]] = (
                (f"row {number}", row)
                for number, row in enumerate(
                    (row for batch in batches for row in batch.to_pylist()), start=1
                )
            )
        elif begins_json(head):
            rows = json_rows(path)
        else:
            rows = _csv(path)
        for place, row in rows:
            if not isinstance(row, dict):
                raise SnapshotError(
                    f"{path}, {place}: needed a JSON object of named values, got {type(row).__name__}"
                )
            yield place, row


def read_rows(path: Path, within: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, or those at a path within a JSON document or within each of its lines.

    Raises:
        SnapshotError: If it cannot be read, the line is named; or nothing is at the path.
    """
    if within is None:
        yield from (row for _, row in table_rows(path))
        return
    number, names = 0, list[str]()
    with file_errors(path, NEEDED):
        for document in json_values(path):
            names = names or (
                list(map(str, document))
                if isinstance(document, Mapping)
                else [type(document).__name__]
            )
            for row in _members(document if within == DOCUMENT else value_at(document, within)):
                number += 1
                if not isinstance(row, Mapping):
                    raise SnapshotError(
                        f"{path}, row {number} of {within}: needed an object, got {type(row).__name__}"
                    )
                yield dict(row)
    if not number:
        raise SnapshotError(
            f"{path}: no rows at {within!r}; the document has {', '.join(names) or 'nothing'}"
        )


def _members(found: Any) -> Iterator[Any]:
    """Yield the rows of a list, or of an object, in which a member is one row or a list of them."""
    if isinstance(found, list):
        yield from found
    for name, member in found.items() if isinstance(found, Mapping) else ():
        if isinstance(member, Mapping):
            yield {"key": name, **member}
        for sample, answer in enumerate(member if isinstance(member, list) else ()):
            # A number and the row, as code evaluations write them, is the row.
            row = answer[-1] if isinstance(answer, list) and answer else answer
            if isinstance(row, Mapping):
                yield {"key": name, "sample": sample, **row}


def value_at(row: Any, field_path: str) -> Any:
    """Return the value of a field: a key, or keys and list indices with dots between; `ABSENT` if there is none."""
    if isinstance(row, Mapping):
        if field_path in row:
            return row[field_path]
        # A key may contain dots itself ("small.model"), so every dot is tried as the separator.
        for dot in (
            n for n, letter in enumerate(field_path) if letter == "." and field_path[:n] in row
        ):
            if (found := value_at(row[field_path[:dot]], field_path[dot + 1 :])) is not ABSENT:
                return found
    elif isinstance(row, list):
        head, _, rest = field_path.partition(".")
        if head.isdecimal() and len(head) < _MAX_DIGITS and int(head) < len(row):
            return value_at(row[int(head)], rest) if rest else row[int(head)]
    return ABSENT


def begins_array(path: Path) -> bool:
    """Return True if a file begins as a JSON array does."""
    with Document(path) as document:
        return document.peek() == "["


def json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (place, value) of each line, of each element of one array, or of each row of one table by columns."""
    is_array = begins_array(path)
    with Document(path) as document:
        try:
            first = None if is_array else document.value()
        except SnapshotError:
            first = None  # reading by lines says what is wrong
        is_alone = isinstance(first, dict) and not document.peek()
    if not isinstance(first, dict) or not is_alone:
        unit, values = ("row", json_array(path)) if is_array else ("line", json_lines(path))
        yield from ((f"{unit} {number}", value) for number, value in values)
        return
    columns, data = first.get("columns"), first.get("data")
    if (
        isinstance(columns, list)
        and isinstance(data, list)
        and all(isinstance(cells, list) for cells in data)
    ):
        for number, cells in enumerate(data, start=1):
            yield f"row {number}", dict(zip(map(str, columns), cells, strict=True))
    else:
        yield "line 1", first


def _csv(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    csv.field_size_limit(sys.maxsize)  # the default, 128 KiB, is less than a long prompt
    delimiter, text = csv_dialect(table_text(read_content(path, NEEDED)))
    delimiter = "\t" if table_suffix(path) == ".tsv" else delimiter
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        names = list(reader.fieldnames or ())
        if twice := [name for name in names if names.count(name) > 1]:
            raise SnapshotError(
                f"{path}: the column {twice[0]!r} occurs twice in the header; rename one of them"
            )
        for row in reader:
            if None in row:
                raise SnapshotError(
                    f"{path}, line {reader.line_num}: more cells than the {len(names)} columns; put cells that hold "
                    "the separator in quotes"
                )
            yield f"line {reader.line_num}", row
    except csv.Error as error:
        raise SnapshotError(f"{path}, line {reader.line_num}: not CSV ({error})") from error
