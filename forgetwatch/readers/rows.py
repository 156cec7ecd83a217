"""Rows of a file, wherever they are in it: `read_rows`; and fields of a row by their path: `value_at`.

    CSV, JSON lines, one JSON array, Parquet          the rows of the table
    {"columns": ["a", "b"], "data": [[1, 2], ...]}    the same, as W&B writes tables
    {"results": {"results": [ROW, ...]}}              rows at the path results.results
    {"details": {"0": ROW, "1": ROW}}                 members of an object: each has its name as the field `key`
    {"eval": {"HE/0": [ROW, ROW]}}                    several rows of one member: numbered by the field `sample`
    {"0": ROW, "1": ROW}                              members of the document itself: the path is a dot

Members that are no rows, such as a `type` beside them, are passed over.
"""

from __future__ import annotations

import codecs
import csv
import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.files import csv_dialect, file_errors, parquet_batches, read_content, read_head, table_text
from forgetwatch.readers.json_pieces import Document, json_array, json_lines, json_values

ABSENT: Final = object()
"""Value of a field that a row lacks; None is a value that a row may hold."""
DOCUMENT: Final = "."
"""Path of the document itself."""
NEEDED: Final = "a table in CSV, JSON or Parquet"

_BATCH: Final = 4096  # rows
_MAX_DIGITS: Final = 10
"""A longer number is no index of a list."""


def read_rows(path: Path, within: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, or those at a path within a JSON document or within each of its lines.

    Raises:
        SnapshotError: If it cannot be read, the line is named; or nothing is at the path.
    """
    if within is None:
        yield from _table_rows(path)
        return
    number, names = 0, list[str]()
    with file_errors(path, NEEDED):
        for document in json_values(path):
            names = names or (list(map(str, document)) if isinstance(document, Mapping) else [type(document).__name__])
            for row in _members(document if within == DOCUMENT else value_at(document, within)):
                number += 1
                if not isinstance(row, Mapping):
                    raise SnapshotError(f"{path}, row {number} of {within}: needed an object, got {type(row).__name__}")
                yield dict(row)
    if not number:
        raise SnapshotError(f"{path}: no rows at {within!r}; the document has {', '.join(names) or 'nothing'}")


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
        for dot in (n for n, letter in enumerate(field_path) if letter == "." and field_path[:n] in row):
            if (found := value_at(row[field_path[:dot]], field_path[dot + 1 :])) is not ABSENT:
                return found
    elif isinstance(row, list):
        head, _, rest = field_path.partition(".")
        if head.isdecimal() and len(head) < _MAX_DIGITS and int(head) < len(row):
            return value_at(row[int(head)], rest) if rest else row[int(head)]
    return ABSENT


def _table_rows(path: Path) -> Iterator[dict[str, Any]]:
    with file_errors(path, NEEDED):
        head = read_head(path)
        first = head.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        if head.startswith(b"PAR1"):
            for batch in parquet_batches(path, rows=_BATCH):
                yield from batch.to_pylist()
        elif first in (b"{", b"["):
            yield from _objects(path, json_rows(path))
        else:
            csv.field_size_limit(sys.maxsize)  # the default, 128 KiB, is less than a long prompt
            delimiter, text = csv_dialect(table_text(read_content(path, NEEDED)))
            reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
            names = list(reader.fieldnames or ())
            if twice := [name for name in names if names.count(name) > 1]:
                raise SnapshotError(f"{path}: the column {twice[0]!r} occurs twice in the header; rename one of them")
            yield from _objects(path, enumerate(reader, start=1))


def _objects(path: Path, rows: Iterable[tuple[int, Any]]) -> Iterator[dict[str, Any]]:
    for number, row in rows:
        if not isinstance(row, dict) or None in row:
            got = "more cells than names" if isinstance(row, dict) else type(row).__name__
            raise SnapshotError(f"{path}, row {number}: a row is an object of named values, got {got}")
        yield row


def json_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield (number, value) of each line, of each element of one array, or of each row of one table by columns.

    One document on several lines is one line.
    """
    with Document(path) as document:
        is_array = document.peek() == "["
        try:
            first = None if is_array else document.value()
        except SnapshotError:
            first = None  # reading by lines says what is wrong
        is_alone = isinstance(first, dict) and not document.peek()
    if not isinstance(first, dict) or not is_alone:
        yield from json_array(path) if is_array else json_lines(path)
        return
    columns, data = first.get("columns"), first.get("data")
    if isinstance(columns, list) and isinstance(data, list) and all(isinstance(cells, list) for cells in data):
        for number, cells in enumerate(data, start=1):
            yield number, dict(zip(map(str, columns), cells, strict=True))
    else:
        yield 1, first
