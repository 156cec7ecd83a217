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

Members that are no rows, such as a `type` beside them, are passed over. Every reader of logs,
probes and training files reads rows here, so that a file means one thing wherever it is given.
"""

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.files.json_pieces import CHUNK, Document, Progress, begins_json
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


def json_lines(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each line of JSON lines.

    Empty lines are skipped; numbers begin at 1.

    Raises:
        SnapshotError: Names the line that is no JSON.
    """
    total, done, reported, decode = (
        path.stat().st_size,
        0,
        0,
        json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode,
    )
    with open_plain(path) as file:
        for number, line in enumerate(file, start=1):
            done += len(line)
            if progress is not None and done - reported >= CHUNK:
                reported = done
                progress(done, total)
            try:
                json_text = line.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \t\r\n")
                if not json_text:
                    continue
                value, end = decode(json_text)
                if end < len(json_text):
                    raise json.JSONDecodeError("Extra data", json_text, end)
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
    """Yield the number and value of each element of an array.

    Raises:
        SnapshotError: If the array is broken.
    """
    with Document(path, progress) as document:
        yield from document.values()
        document.end()


def json_values(path: Path) -> Iterator[Any]:
    """Yield each value of a file of JSON or JSON lines."""
    with Document(path) as document:
        while document.peek():
            yield document.value()


ABSENT: Final = object()
"""Value of a field that a row lacks; None is a value that a row may hold."""


DOCUMENT: Final = "."
"""Path of the document itself."""


NEEDED: Final = "a table in CSV, JSON or Parquet"


_BATCH: Final = 4096  # rows


_MAX_DIGITS: Final = 10
"""A longer number is no index of a list."""


def table_rows(
    path: Path, *, kept: bool = True, header: Sequence[str] | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place and value of each row of a table.

    The place is ``line 3`` or ``row 3``, from 1.

    Args:
        path: The file; gzip may have packed it.
        kept: False if the caller keeps no row, so that a table may be of any size.
        header: Names of the columns of CSV whose first line has none.

    Raises:
        SnapshotError: If it cannot be read, or a row is no object of named values; names the place.
    """
    if header and table_suffix(path) not in (".csv", ".tsv"):
        raise SnapshotError(f"{path}: header: for CSV and TSV, whose first line may have none")
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
        elif begins_json(head) or table_suffix(path).startswith(".json"):
            rows = json_rows(path)
        else:
            rows = _csv(path, header)
        for position, row in rows:
            if not isinstance(row, dict):
                raise SnapshotError(
                    f"{path}, {position}: needed a JSON object of named values, got "
                    f"{type(row).__name__}"
                )
            yield position, row


def read_rows(path: Path, within: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table, or at a path in JSON documents.

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
                        f"{path}, row {number} of {within}: needed an object, got "
                        f"{type(row).__name__}"
                    )
                yield dict(row)
    if not number:
        raise SnapshotError(
            f"{path}: no rows at {within!r}; the document has {', '.join(names) or 'nothing'}"
        )


def _members(rows: Any) -> Iterator[Any]:
    """A member of an object is one row or a list of rows."""
    if isinstance(rows, list):
        yield from rows
    for name, member in rows.items() if isinstance(rows, Mapping) else ():
        if isinstance(member, Mapping):
            yield {"key": name, **member}
        for sample, answer in enumerate(member if isinstance(member, list) else ()):
            # A number and the row, as code evaluations write them, is the row.
            row = answer[-1] if isinstance(answer, list) and answer else answer
            if isinstance(row, Mapping):
                yield {"key": name, "sample": sample, **row}


def value_at(row: Any, field_path: str) -> Any:
    """Value of a field by a path of keys and list indices.

    Returns:
        The value, or `ABSENT`.
    """
    if isinstance(row, Mapping):
        if field_path in row:
            return row[field_path]
        # A key may contain dots itself ("small.model"), so every dot is tried as the separator.
        for dot in (
            n for n, letter in enumerate(field_path) if letter == "." and field_path[:n] in row
        ):
            if (value := value_at(row[field_path[:dot]], field_path[dot + 1 :])) is not ABSENT:
                return value
    elif isinstance(row, list):
        head, _, rest = field_path.partition(".")
        if head.isdecimal() and len(head) < _MAX_DIGITS and int(head) < len(row):
            return value_at(row[int(head)], rest) if rest else row[int(head)]
    return ABSENT


def begins_array(path: Path) -> bool:
    """Does a file begin as a JSON array?"""
    with Document(path) as document:
        return document.peek() == "["


def json_rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the place and value of each row of a JSON file.

    Rows are lines, the elements of one array, or the rows of one table by columns.
    """
    is_array = begins_array(path)
    with Document(path) as document:
        try:
            first_value = None if is_array else document.value()
        except SnapshotError:
            first_value = None  # reading by lines says what is wrong
        is_alone = isinstance(first_value, dict) and not document.peek()
    if not isinstance(first_value, dict) or not is_alone:
        unit, values = ("row", json_array(path)) if is_array else ("line", json_lines(path))
        yield from ((f"{unit} {number}", value) for number, value in values)
        return
    columns, data = first_value.get("columns"), first_value.get("data")
    if (
        isinstance(columns, list)
        and isinstance(data, list)
        and all(isinstance(cells, list) for cells in data)
    ):
        for number, cells in enumerate(data, start=1):
            yield f"row {number}", dict(zip(map(str, columns), cells, strict=True))
    else:
        yield "line 1", first_value


def _csv(path: Path, header: Sequence[str] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    csv.field_size_limit(sys.maxsize)  # the default, 128 KiB, is less than a long prompt
    delimiter, body = csv_dialect(table_text(read_content(path, NEEDED)))
    delimiter = "\t" if table_suffix(path) == ".tsv" else delimiter
    reader = csv.DictReader(io.StringIO(body, newline=""), header, delimiter=delimiter, strict=True)
    try:
        names = list(reader.fieldnames or ())
        if twice := [name for name in names if names.count(name) > 1]:
            raise SnapshotError(
                f"{path}: the column {twice[0]!r} occurs twice in the header; rename one of them"
            )
        for row in reader:
            if None in row:
                raise SnapshotError(
                    f"{path}, line {reader.line_num}: more cells than the {len(names)} columns; "
                    "put cells that hold the separator in quotes"
                )
            if any(row.values()):
                yield f"line {reader.line_num}", row
    except csv.Error as error:
        raise SnapshotError(f"{path}, line {reader.line_num}: not CSV ({error})") from error
