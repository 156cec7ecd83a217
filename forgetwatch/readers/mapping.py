"""Any table whose columns have other names: which of them is what, in words of the command line, to a Snapshot.

    --map correct=6b_finetuning.is_correct     a column of the snapshot from a place in the row; dots go into objects
    --map question=query                       what defines the question: it is hashed, and pairs the rows
    --where model=gpt-4-0613                   only the rows whose value there is this text
    --set k=2                                  the same value in every row
    --match regex:PATTERN                      `correct` from `output` and `gold`, the right answer as text

CSV, JSONL, Parquet, and a JSON file that is one list of objects. Where no id is mapped, the hash of the question is
one, so that files can be joined in any order of rows; a question that stands twice gets a number the second time.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from forgetwatch.errors import ProbeError, SnapshotError
from forgetwatch.grading import check_item, grade
from forgetwatch.item import Item
from forgetwatch.readers import table
from forgetwatch.readers.json_pieces import json_lines
from forgetwatch.snapshot import SCHEMA, Snapshot

QUESTION: Final = "question"
_NOWHERE: Final = object()
_TARGETS: Final = (*SCHEMA.names, QUESTION)


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which column of a table is what.

    Attributes:
        places: Place in a row by column of the snapshot (or ``question``).
        where: Text that a place must have for its row to count.
        constants: Text that a column has in every row.
        match: How `output` is judged by `gold`: any match of an open answer, such as ``number`` or ``regex:PATTERN``
            (the last match, without case).

    Raises:
        SnapshotError: If a column is unknown, or given twice.
    """

    places: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    match: str | None = None

    def __post_init__(self) -> None:
        """Check the names."""
        if unknown := [name for name in (*self.places, *self.constants) if name not in _TARGETS]:
            raise SnapshotError(f"unknown column {unknown[0]!r}; a snapshot has question, {', '.join(SCHEMA.names)}")
        if twice := self.places.keys() & self.constants.keys():
            raise SnapshotError(f"the column {min(twice)!r} is both mapped and set")
        given = self.places.keys() | self.constants.keys()
        if self.match is not None and (lacking := {"output", "gold"} - given):
            raise SnapshotError(f"--match judges output by gold, and {min(lacking)} is not mapped")


def read_mapped(path: str | Path, columns: Columns) -> Snapshot:
    """The outcomes in a table whose columns have other names.

    Raises:
        SnapshotError: If the file cannot be read, a place is in no row, or no row is left.
    """
    path = Path(path)
    rows: list[dict[str, Any]] = []
    seen: dict[str, set[str]] = {place: set() for place in columns.where}
    number = 0
    for number, row in enumerate(_rows(path), start=1):
        there = {place: _text(_at(row, place)) for place in columns.where}
        for place, text in there.items():
            if len(seen[place]) < _SHOWN:
                seen[place].add("" if text is None else text)
        if all(there[place] == wanted for place, wanted in columns.where.items()):
            rows.append(_mapped(path, number, row, columns))
    if not rows:
        _no_rows(path, number, columns, seen)
    _check_found(path, rows, columns)
    if "item_id" not in columns.places:
        _name(rows)
    given = {name: [row.get(name) for row in rows] for name in dict.fromkeys(key for row in rows for key in row)}
    return table.to_snapshot(path, {name: _listed(name, values) for name, values in given.items()})


_SHOWN: Final = 6
"""Values of a place that an error names."""

_DIGITS: Final = 10
"""More of them are no place in a list."""


def _mapped(path: Path, number: int, row: Mapping[str, Any], columns: Columns) -> dict[str, Any]:
    """One row under the names of a snapshot; what is nowhere in the row is left out."""
    made: dict[str, Any] = dict(columns.constants)
    for name, place in columns.places.items():
        if (value := _at(row, place)) is not _NOWHERE:
            made[name] = value
    if columns.match is not None:
        made["correct"] = _judged(path, number, made, columns.match)
        made.pop("gold", None)  # it is text, and a snapshot's gold is an option
    if QUESTION in made:
        text = json.dumps(made.pop(QUESTION), sort_keys=True, ensure_ascii=False, default=str)
        made.setdefault("content_hash", hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16])
    return made


def _name(rows: Sequence[dict[str, Any]]) -> None:
    """Give rows without an id the hash of their question as one."""
    times = Counter[tuple[Any, str]]()
    for row in rows:
        if "item_id" not in row and "content_hash" in row:
            key = row.get("task"), str(row["content_hash"])
            times[key] += 1
            row["item_id"] = key[1] if times[key] == 1 else f"{key[1]}#{times[key]}"


def _judged(path: Path, number: int, row: Mapping[str, Any], match: str) -> bool | None:
    output, gold = _text(row.get("output")), _text(row.get("gold"))
    if output is None or gold is None:
        return None
    try:
        item = Item(id=f"row {number}", task="table", prompt="as logged", answer=gold, match=match)
        check_item(item)
    except ProbeError as error:
        raise SnapshotError(f"{path}: {error}") from error
    return grade(item, output).correct


def _at(row: Any, place: str) -> Any:
    """What stands at a place: a key, or keys and places in lists with dots between; `_NOWHERE` if it is not there."""
    if isinstance(row, Mapping):
        if place in row:
            return row[place]
        for at in (at for at, letter in enumerate(place) if letter == "." and place[:at] in row):
            if (found := _at(row[place[:at]], place[at + 1 :])) is not _NOWHERE:
                return found
    elif isinstance(row, list):
        head, _, rest = place.partition(".")
        if head.isdecimal() and len(head) < _DIGITS and int(head) < len(row):
            return _at(row[int(head)], rest) if rest else row[int(head)]
    return _NOWHERE


def _text(value: Any) -> str | None:
    if value is None or value is _NOWHERE:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace").decode()  # a lone half of a surrogate pair is no text


def _listed(name: str, values: list[Any]) -> Any:
    """A column as the table reader takes it: text where the file or the command line gave text."""
    if all(value is None or isinstance(value, str) for value in values):
        return pa.array(map(_text, values), pa.string())
    if pa.types.is_string(SCHEMA.field(name).type):
        return [_text(value) for value in values]
    return values


def _check_found(path: Path, rows: Sequence[Mapping[str, Any]], columns: Columns) -> None:
    """Refuse a place that no row has: a slip of the pen would be a column of nothing."""
    for name, place in columns.places.items():
        made = "content_hash" if name == QUESTION else "correct" if name == "gold" and columns.match else name
        if not any(made in row for row in rows):
            raise SnapshotError(f"{path}: {name} is mapped to {place!r}, and no row has that; they have {_names(path)}")


def _no_rows(path: Path, number: int, columns: Columns, seen: Mapping[str, set[str]]) -> None:
    if not number:
        raise SnapshotError(f"{path}: the table has no rows")
    there = "; ".join(f"{place} is {', '.join(map(repr, sorted(seen[place])))}" for place in columns.where)
    raise SnapshotError(f"{path}: none of its {number:,} rows is where was asked for; there {there}")


def _names(path: Path) -> str:
    first = next(_rows(path), {})
    return ", ".join(map(str, first))


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file, as objects.

    Raises:
        SnapshotError: If it cannot be read; the line is named.
    """
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        raise SnapshotError(f"{path}: cannot be read ({error.strerror})") from error
    first = head.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    try:
        if head.startswith(b"PAR1"):
            for batch in pq.ParquetFile(path).iter_batches(batch_size=10_000):
                yield from batch.to_pylist()
        elif first == b"{":
            yield from _objects(path, json_lines(path))
        elif first == b"[":
            yield from _objects(path, enumerate(json.loads(path.read_bytes()), start=1))
        else:
            csv.field_size_limit(sys.maxsize)
            with path.open(encoding="utf-8-sig", newline="") as text:
                reader = csv.DictReader(text, strict=True)
                names = list(reader.fieldnames or ())
                if twice := [name for name in names if names.count(name) > 1]:
                    raise SnapshotError(
                        f"{path}: the column {twice[0]!r} stands twice in the header; rename one of them"
                    )
                yield from _objects(path, enumerate(reader, start=1))
    except (pa.ArrowException, OSError, csv.Error, ValueError, RecursionError, OverflowError) as error:
        raise SnapshotError(f"{path}: cannot be read; is it cut? ({str(error).splitlines()[0]})") from error


def _objects(path: Path, rows: Iterable[tuple[int, Any]]) -> Iterator[dict[str, Any]]:
    for number, row in rows:
        if not isinstance(row, dict) or None in row:
            got = "more cells than names" if isinstance(row, dict) else type(row).__name__
            raise SnapshotError(f"{path}, row {number}: a row is an object of named values, got {got}")
        yield row
