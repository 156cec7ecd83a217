"""Files of rows: CSV, TSV, JSONL, JSON and Parquet to a list of rows, each with its position for messages."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import ProbeError
from forgetwatch.files import file_errors, parquet_batches, read_parquet, read_text, regular_size
from forgetwatch.probes.overlap import training_text

SUFFIXES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")

_NEEDED: Final = "a table of questions"

Rows = list[tuple[str, Mapping[str, Any]]]
"""Rows, each after its position in the file."""

_LARGEST_CELL: Final = 10_000_000
"""Maximum number of characters of a CSV cell; the default of `csv` is too small for passages."""


def read_rows(path: str | Path) -> Rows:
    """Read the rows of a file in the format of its suffix.

    Raises:
        ProbeError: If the file cannot be read in that format.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise ProbeError(f"{path}: needed a file that ends in {', '.join(SUFFIXES)}")
    with file_errors(path, _NEEDED, ProbeError):
        if path.suffix == ".parquet":
            return _numbered(read_parquet(path).to_pylist())
        return _read_text_rows(path)


def _read_text_rows(path: Path) -> Rows:
    text = read_text(path, _NEEDED, ProbeError)
    if path.suffix in (".csv", ".tsv"):
        return _csv(text, path)
    return _json(text, path) if path.suffix == ".json" else _jsonl(text, path)


def training_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Rows of training files one after the other, each as one text; every line of a file of another format.

    JSONL and Parquet are read row by row, whatever their size.

    Raises:
        ProbeError: If a file cannot be read.
    """
    for path in paths:
        with file_errors(path, "training data", ProbeError):
            yield from map(training_text, _stream(path))


def _stream(path: Path) -> Iterator[Any]:
    if path.suffix == ".parquet":
        for batch in parquet_batches(path, rows=1000, kept=False):
            yield from batch.to_pylist()
    elif path.suffix in (".csv", ".tsv", ".json"):
        yield from (row for _, row in read_rows(path))
    else:
        rows = path.suffix in (".jsonl", ".ndjson")
        regular_size(path)
        # A wrong byte somewhere in a training set must not end the search.
        with path.open(encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, start=1):
                yield _object(line, f"{path}, line {number}") if rows and line.strip() else line


def _csv(text: str, path: Path) -> Rows:
    # The separator that is most frequent in the header: spreadsheets of some languages write semicolons.
    first = text.partition("\n")[0]
    delimiter = "\t" if path.suffix == ".tsv" else max(",;\t", key=first.count)
    csv.field_size_limit(_LARGEST_CELL)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    found: Rows = []
    try:
        names = reader.fieldnames or ()
        if twice := [name for name in names if list(names).count(name) > 1]:
            raise ProbeError(f"{path}: the column {twice[0]!r} is in the header twice; rename one of them")
        for row in reader:
            if None in row:
                raise ProbeError(
                    f"{path}, line {reader.line_num}: more cells than the {len(names)} columns; put "
                    "cells that hold the separator in quotes"
                )
            found.append((f"line {reader.line_num}", row))
    except csv.Error as error:
        raise ProbeError(f"{path}, line {reader.line_num}: not CSV ({error})") from error
    return found


def _jsonl(text: str, path: Path) -> Rows:
    found: Rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            found.append((f"line {number}", _object(line, f"{path}, line {number}")))
    return found


def _json(text: str, path: Path) -> Rows:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProbeError(f"{path}: not JSON ({error}); is the file cut?") from error
    if not isinstance(given, list) or not all(isinstance(row, dict) for row in given):
        raise ProbeError(f"{path}: needed a list of objects, one a question")
    return _numbered(given)


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ProbeError(f"{where}: not a JSON object ({error}); is the file cut?") from error
    if not isinstance(row, dict):
        raise ProbeError(f"{where}: needed a JSON object, got {type(row).__name__}")
    return row


def _numbered(rows: list[dict[str, Any]]) -> Rows:
    return [(f"row {number}", row) for number, row in enumerate(rows)]
