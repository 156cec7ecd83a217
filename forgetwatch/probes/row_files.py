"""Files of rows: questions, and the examples of a training set.

A table is CSV, TSV, JSON lines, Parquet, or one JSON document: a list of objects, or an object that holds one such list
among other members. A text beside that list that belongs before each question, such as the `task_prefix` of BIG-bench,
is a column of every row.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import ProbeError
from forgetwatch.files import (
    UnsuitableError,
    csv_dialect,
    file_errors,
    parquet_batches,
    read_content,
    read_parquet,
    regular_size,
    table_suffix,
    table_text,
    unique_keys,
)
from forgetwatch.probe import LETTERS
from forgetwatch.probes.overlap import training_text
from forgetwatch.probes.plan import BEFORE

SUFFIXES: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
"""Suffixes of files of rows."""

Rows = list[tuple[str, Mapping[str, Any]]]
"""Rows, each after its position in the file, for messages."""

_NEEDED: Final = "a table of questions"
_LARGEST_CELL: Final = 10_000_000
"""Maximum number of characters of a CSV cell; the default of `csv` is too small for passages."""


def read_rows(path: str | Path) -> Rows:
    """Read the rows of a file in the format of its suffix; ProbeError if it cannot be read in that format."""
    path = Path(path)
    suffix = table_suffix(path)
    if suffix not in SUFFIXES:
        raise ProbeError(f"{path}: needed a file that ends in {', '.join(SUFFIXES)}")
    with file_errors(path, _NEEDED, ProbeError):
        if suffix == ".parquet":
            return [(f"row {number}", row) for number, row in enumerate(read_parquet(path).to_pylist())]
        text = table_text(read_content(path, _NEEDED, ProbeError))
        if suffix in (".csv", ".tsv"):
            return _csv(text, path, is_tsv=suffix == ".tsv")
        # JSON lines are also saved under the name of a document.
        if suffix != ".json" or (text.lstrip()[:1] == "{" and "\n{" in text.strip()):
            lines = enumerate(text.split("\n"), start=1)
            return [(f"line {n}", _object(line, f"{path}, line {n}")) for n, line in lines if line.strip()]
        try:
            given = json.loads(text, object_pairs_hook=unique_keys)
        except UnsuitableError as error:
            raise ProbeError(f"{path}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise ProbeError(f"{path}: not JSON ({error}); is the file cut?") from error
        return [(f"row {number}", row) for number, row in enumerate(_listed_rows(given, path))]


def _listed_rows(given: Any, path: Path) -> list[dict[str, Any]]:
    """Return the rows of a document.

    A list of objects, or an object with one such list, and texts that belong to each row.
    """
    if isinstance(given, list) and all(isinstance(row, dict) for row in given):
        return given
    lists = {name: rows for name, rows in given.items() if _are_rows(rows)} if isinstance(given, dict) else {}
    if len(lists) != 1:
        found = f", got an object with several: {', '.join(lists)}" if lists else ""
        raise ProbeError(f"{path}: needed a list of objects, one a question, or an object with one such list{found}")
    (rows,) = lists.values()
    shared = {name: text for name, text in given.items() if name.lower() in BEFORE and isinstance(text, str)}
    return [{**shared, **row} for row in rows]


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def flat(rows: Rows) -> Rows:
    """Return rows without the objects in which some data sets hold a question, and the scores of its options.

    {"question": {"stem": "Capital?", "choices": [...]}, "answerKey": "B"}     ARC, OpenBookQA, CommonsenseQA
    {"messages": [..., {"role": "assistant", "content": "Lima"}]}               the last turn is the answer
    {"input": "Capital?", "target_scores": {"Lima": 0, "Santiago": 1}}          BIG-bench
    """
    if all(isinstance(row.get("question"), Mapping) and "stem" in row["question"] for _, row in rows):
        rows = [
            (at, {**row["question"], **{name: row[name] for name in row if name != "question"}}) for at, row in rows
        ]
    if all(_ends_with_answer(row.get("messages")) and len(row) == 1 for _, row in rows):
        rows = [
            (at, {"messages": list(row["messages"][:-1]), "answer": row["messages"][-1]["content"]}) for at, row in rows
        ]
    if all(_is_scored(row.get("target_scores")) and "answer" not in row for _, row in rows):
        rows = [(at, _with_options(row)) for at, row in rows]
    return rows


def _ends_with_answer(value: Any) -> bool:
    """Return True for messages of which the last is a text by the assistant, after another one."""
    last = value[-1] if isinstance(value, (list, tuple)) and len(value) > 1 else None
    return isinstance(last, Mapping) and last.get("role") == "assistant" and isinstance(last.get("content"), str)


def _is_scored(value: Any) -> bool:
    return isinstance(value, Mapping) and len(value) > 1 and set(value.values()) == {0, 1}


def _with_options(row: Mapping[str, Any]) -> dict[str, Any]:
    scores = row["target_scores"]
    kept = {name: cell for name, cell in row.items() if name not in ("target_scores", "target")}
    right = [LETTERS[index] for index, mark in enumerate(scores.values()) if mark]
    return {**kept, "choices": list(scores), "answer": right}


def _csv(text: str, path: Path, *, is_tsv: bool) -> Rows:
    delimiter, text = csv_dialect(text)
    delimiter = "\t" if is_tsv else delimiter
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


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line, object_pairs_hook=unique_keys)
    except UnsuitableError as error:
        raise ProbeError(f"{where}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise ProbeError(f"{where}: not a JSON object ({error}); is the file cut?") from error
    if not isinstance(row, dict):
        raise ProbeError(f"{where}: needed a JSON object, got {type(row).__name__}")
    return row


def training_texts(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the rows of training files one after the other, each as one text; every line of a file of another format.

    JSONL and Parquet are read row by row, whatever their size.

    Raises:
        ProbeError: If a file cannot be read.
    """
    for path in paths:
        with file_errors(path, "training data", ProbeError):
            if path.suffix == ".parquet":
                for batch in parquet_batches(path, rows=1000, kept=False):
                    yield from map(training_text, batch.to_pylist())
            elif path.suffix in (".csv", ".tsv", ".json"):
                yield from (training_text(row) for _, row in read_rows(path))
            else:
                is_json = path.suffix in (".jsonl", ".ndjson")
                regular_size(path)
                # A wrong byte somewhere in a training set must not end the search.
                with path.open(encoding="utf-8", errors="replace") as file:
                    for number, line in enumerate(file, start=1):
                        row = _object(line, f"{path}, line {number}") if is_json and line.strip() else line
                        yield training_text(row)
