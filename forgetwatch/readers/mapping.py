"""Tables with column names of their own to a Snapshot, by a map.

    --map correct=6b_finetuning.is_correct     a column of the snapshot from a field of the row; dots enter objects
    --map question=query                       the field that defines the question: it is hashed, and pairs the rows
    --where model=gpt-4-0613                   only the rows whose field has this text
    --set k=2                                  the same value in every row
    --rows details                             where the rows are in a JSON document, or in each of its lines
    --match regex:PATTERN                      `correct` from `output` and `gold`, the right answer as text

`files.rows` reads the files and finds their rows. Without --map and
--match the columns keep their names, and only the named rows are taken: one file may hold the
outcomes of many models. Of Parquet only the row groups that may have such rows are decoded, so a
file that is sorted by model costs no more than one model.

If no id is mapped, the hash of the question is the id, so that files can be joined in any order of
rows. Where a question recurs, its options and what belongs before it are hashed with it. Rows that
are equal in all of these are refused: their order proves nothing. With ``by_order`` they get
numbers instead: "9f2c41d0#2".
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forgetwatch.errors import ProbeError, SnapshotError, did_you_mean
from forgetwatch.files.reading import file_errors, is_text
from forgetwatch.files.rows import ABSENT, NEEDED, read_rows, value_at
from forgetwatch.files.table_files import check_row_group, parquet_batches
from forgetwatch.grading.grader import Grade, check_item, grade
from forgetwatch.grading.outcome_rule import UPPER_HALF, OutcomeRule, number_of
from forgetwatch.item import Item
from forgetwatch.probes.row_files import is_part_of_question
from forgetwatch.readers.table import parquet_schema, to_snapshot
from forgetwatch.snapshot import SCHEMA, Snapshot

QUESTION: Final = "question"


_PARTS: Final = "parts of the question"
"""Key of what belongs to the question of a row besides its text, until the rows have ids."""


_TARGETS: Final = tuple(SCHEMA.names)


_SELECTED: Final = 65536  # rows


_SEEN: Final = 6
"""Values of a field that an error lists."""


@dataclass(frozen=True, kw_only=True)
class ColumnMap:
    """Columns of a snapshot from fields of a table's rows.

    Attributes:
        fields: Field of a row by column of the snapshot (or ``question``); dots enter objects and
            lists.
        where: Text that a field must have for its row to count, by field.
        constants: Text of a column in every row, by column.
        match: Rule that grades `output` by `gold`: any match of an open answer, such as ``number``
            or ``regex:PATTERN`` (the last match, without case).
        rows: Path of the rows within a JSON document; None if the file is a table.
        rule: How outcomes are read.
        by_order: Number rows of one question in their order, instead of refusing them: as samples
            where most questions have several rows, else as items.

    Raises:
        SnapshotError: If a column is unknown, or given twice.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    match: str | None = None
    rows: str | None = None
    by_order: bool = False
    rule: OutcomeRule = UPPER_HALF

    def __post_init__(self) -> None:
        if unknown := [name for name in (*self.fields, *self.constants) if name not in _TARGETS]:
            raise SnapshotError(
                f"unknown column {unknown[0]!r}; a snapshot has {', '.join(SCHEMA.names)}"
                + did_you_mean(unknown[0], _TARGETS)
            )
        if twice := self.fields.keys() & self.constants.keys():
            raise SnapshotError(f"the column {min(twice)!r} is both mapped and set; give it once")
        if broken := [name for name, value in self.constants.items() if not is_text(value)]:
            raise SnapshotError(
                f"the column {broken[0]!r} is set to what is no text in UTF-8; give it as UTF-8"
            )
        names_given = self.fields.keys() | self.constants.keys()
        if self.match is not None and (lacking := {"output", "gold"} - names_given):
            raise SnapshotError(f"--match grades output by gold, and {min(lacking)} is not mapped")


def read_mapped(path: str | Path, columns: ColumnMap) -> Snapshot:  # noqa: C901
    """Read the outcomes in a table with other column names.

    Raises:
        SnapshotError: If the file cannot be read, a field is in no row, or no row is left.
    """
    path = Path(path)
    schema = parquet_schema(path, NEEDED) if columns.rows is None else None
    if not columns.fields and columns.match is None:
        by_groups = schema is not None and _are_texts(columns.where, schema)
        names = (
            schema.names
            if schema is not None and by_groups
            else next(read_rows(path, columns.rows), {})
        )
        fields = [name for name in names if name in SCHEMA.names and name not in columns.constants]
        if not fields and not by_groups:
            _refuse_no_rows(path, 0, columns, {})
        columns = replace(columns, fields=dict(zip(fields, fields, strict=True)))
    else:
        by_groups = schema is not None and _are_columns(columns, schema)
    by_groups = by_groups and not {*columns.rule.fields} & {*(schema.names if schema else ())}
    if by_groups:
        return _selected(path, columns)
    rows: list[dict[str, Any]] = []
    seen: dict[str, set[str]] = {name: set() for name in columns.where}
    number = 0
    for number, row in enumerate(read_rows(path, columns.rows), start=1):
        values = {name: _spelled(value_at(row, name)) for name in columns.where}
        for name, value in values.items():
            if len(seen[name]) < _SEEN:
                seen[name].add("" if value is None else value)
        if all(values[name] == wanted for name, wanted in columns.where.items()):
            rows.append(_mapped(path, number, row, columns))
    if not rows:
        _refuse_no_rows(path, number, columns, seen)
    _check_fields(path, rows, columns)
    if "item_id" not in columns.fields:
        _add_ids(path, rows, by_order=columns.by_order)
    for row in rows:
        row.pop(_PARTS, None)
    columns_given = {
        name: [row.get(name) for row in rows]
        for name in dict.fromkeys(key for row in rows for key in row)
    }
    return to_snapshot(
        path,
        {name: _uniform(name, values) for name, values in columns_given.items()},
        columns.rule,
    )


def _are_columns(columns: ColumnMap, schema: pa.Schema) -> bool:
    # Every value is what a reading row by row would make of it.
    fields = columns.fields
    if columns.match is not None or QUESTION in fields or "item_id" not in fields:
        return False
    if not (set(fields.values()) <= set(schema.names) and _are_texts(columns.where, schema)):
        return False
    # Numbers as text: only whole ones are spelled as JSON spells them.
    sources = [
        schema.field(source).type
        for name, source in fields.items()
        if pa.types.is_string(SCHEMA.field(name).type)
    ]
    return all(pa.types.is_string(source) or pa.types.is_integer(source) for source in sources)


def _are_texts(where: Iterable[str], schema: pa.Schema) -> bool:
    # Columns whose values have one spelling as text: texts, whole numbers, truth values.
    if not set(where) <= set(schema.names):
        return False
    kinds = [schema.field(name).type for name in where]
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    is_text = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_integer,
        pa.types.is_boolean,
    )
    return all(any(of_kind(kind) for of_kind in is_text) for kind in kinds)


def _selected(path: Path, columns: ColumnMap) -> Snapshot:
    # Decoded by row groups.
    names = list(dict.fromkeys(columns.fields.values()))
    missing_columns = [name for name in columns.where if name not in names]
    batches = []
    with file_errors(path, NEEDED):
        groups = _row_groups(path, columns.where)
        for batch in parquet_batches(
            path, columns=[*names, *missing_columns], rows=_SELECTED, groups=groups
        ):
            kept = pa.array(np.ones(len(batch), bool))
            for name, wanted in columns.where.items():
                texts = pc.cast(batch.column(name), pa.string())
                kept = pc.and_(kept, pc.fill_null(pc.equal(texts, wanted), False))
            batches.append(batch.select(names).filter(kept))
        if not sum(map(len, batches)):
            _refuse_selection(path, columns)
        rows = pa.Table.from_batches(batches)
        rows.validate(full=True)  # pyarrow itself does not check that texts are UTF-8
    selected = {}
    for name, source in columns.fields.items():
        array = rows[source].combine_chunks()
        selected[name] = (
            array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
        )
    constants = {
        name: pa.array([value] * len(rows), pa.string())
        for name, value in columns.constants.items()
    }
    return to_snapshot(path, {**selected, **constants}, columns.rule)


def _row_groups(path: Path, where: Mapping[str, str]) -> list[int]:
    # The least and greatest text of a group decide.
    groups = []
    with pq.ParquetFile(path) as file:
        for number in range(file.metadata.num_row_groups):
            group = check_row_group(file, number)
            chunks = {
                chunk.path_in_schema: chunk for chunk in map(group.column, range(group.num_columns))
            }
            if all(
                _may_hold(chunks[name], wanted) for name, wanted in where.items() if name in chunks
            ):
                groups.append(number)
    return groups


def _may_hold(chunk: pq.ColumnChunkMetaData, wanted: str) -> bool:
    # A text outside the least and greatest of the chunk cannot be in the chunk.
    # Texts alone: numbers are wanted as texts, which have another order. Damaged statistics of
    # theirs end the process.
    stats = chunk.statistics if chunk.physical_type == "BYTE_ARRAY" else None
    if stats is None or not stats.has_min_max or not isinstance(stats.min, str):
        return True
    return bool(stats.min <= wanted <= stats.max)


def _refuse_selection(path: Path, columns: ColumnMap) -> None:
    # Row groups that were not decoded count too.
    seen: dict[str, set[str]] = {name: set() for name in columns.where}
    total = 0
    for batch in parquet_batches(path, columns=list(seen), rows=_SELECTED, kept=False):
        total += len(batch)
        for name, texts in seen.items():
            texts |= {
                value or ""
                for value in pc.unique(pc.cast(batch.column(name), pa.string())).to_pylist()
            }
            seen[name] = set(sorted(texts)[:_SEEN])
    _refuse_no_rows(path, total, columns, seen)


def _mapped(path: Path, number: int, row: Mapping[str, Any], columns: ColumnMap) -> dict[str, Any]:
    # Fields that the row lacks are left out.
    mapped: dict[str, Any] = dict(columns.constants)
    for name, source in columns.fields.items():
        if (value := value_at(row, source)) is not ABSENT:
            is_sum = name in ("correct", "score") and isinstance(value, list)  # rewards by token
            mapped[name] = number_of(value, sums=True) if is_sum else value
    for name in columns.rule.fields:
        if (value := value_at(row, name)) is not ABSENT:
            mapped.setdefault(name, value)
    if columns.match is not None:
        graded = _grade(path, number, mapped, columns.match)
        mapped["correct"] = None if graded is None else graded.correct
        if graded is not None and graded.correct is None:
            mapped["outcome"] = graded.outcome
        mapped.pop("gold", None)  # it is text, and a snapshot's gold is an option
    if QUESTION in mapped:
        # Parquet has values that JSON has not, such as dates: they are hashed as text.
        question_text = json.dumps(
            mapped[QUESTION], sort_keys=True, ensure_ascii=False, default=str
        )
        mapped.setdefault("content_hash", _hash(question_text))
        names = [
            name
            for name in row
            if is_part_of_question(str(name)) and name not in columns.fields.values()
        ]
        mapped[_PARTS] = json.dumps(
            {name: row[name] for name in names}, sort_keys=True, default=str
        )
    return mapped


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _add_ids(path: Path, rows: Sequence[dict[str, Any]], *, by_order: bool) -> None:
    # The id is the hash of the question. Rows of one question need something that tells them apart.
    without_id = [row for row in rows if "item_id" not in row and "content_hash" in row]
    if without_id and _recurring(without_id):
        for row in without_id:
            row["content_hash"] = _hash(f"{row['content_hash']} {row.get(_PARTS, '')}")
    repeats = _recurring(without_id)
    times = Counter(
        (row.get("task"), str(row["content_hash"]), row.get("sample")) for row in without_id
    )
    # Several answers to most questions are samples; a few questions that occur twice are items.
    are_samples = bool(repeats) and 2 * sum(number > 1 for number in times.values()) > len(times)
    if repeats and not by_order:
        numbered = "numbers them as samples" if are_samples else "pairs them as they come"
        raise SnapshotError(
            f"{path}: {repeats:,} of {len(rows):,} rows have the question of another one, and "
            "their order proves nothing; --map item_id=FIELD tells them apart, --map sample=FIELD "
            f"if they are answers to one question, and --pair-by order {numbered}"
        )
    if are_samples and len(numbers := set(times.values())) > 1:
        raise SnapshotError(
            f"{path}: answers to one question are its samples, and questions have from "
            f"{min(numbers)} to {max(numbers)} of them; needed as many of each, or --map "
            "item_id=FIELD if they are questions of their own"
        )
    seen = Counter[tuple[Any, str, Any]]()
    for row in without_id:
        key = row.get("task"), str(row["content_hash"]), row.get("sample")
        if are_samples and key[2] is None:
            row.update(item_id=key[1], sample=seen[key])
        else:
            row["item_id"] = f"{key[1]}#{seen[key] + 1}" if seen[key] else key[1]
            if repeats:  # one question is one observation
                row.setdefault("cluster", key[1])
        seen[key] += 1


def _recurring(rows: Sequence[Mapping[str, Any]]) -> int:
    # Samples of an answer are told apart by their number.
    keys = Counter((row.get("task"), str(row["content_hash"]), row.get("sample")) for row in rows)
    return len(rows) - len(keys)


def _grade(path: Path, number: int, row: Mapping[str, Any], match: str) -> Grade | None:
    # None without an output or a gold.
    output, gold = _spelled(row.get("output")), _spelled(row.get("gold"))
    if output is None or gold is None:
        return None
    try:
        item = Item(id=f"row {number}", task="table", prompt="as logged", answer=gold, match=match)
        check_item(item)
    except ProbeError as error:
        raise SnapshotError(f"{path}: {error}") from error
    return grade(item, output)


def _spelled(value: Any) -> str | None:
    # JSON for another type than text; None without a value.
    if value is None or value is ABSENT:
        return None
    spelled = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    )
    return spelled.encode("utf-8", "replace").decode()  # UTF-8 cannot hold a lone surrogate


def _uniform(name: str, values: list[Any]) -> Any:
    # Text if the file or the command line gave text.
    if all(value is None or isinstance(value, str) for value in values):
        return pa.array(map(_spelled, values), pa.string())
    if name in _TARGETS and pa.types.is_string(SCHEMA.field(name).type):
        return [_spelled(value) for value in values]
    return values


def _check_fields(path: Path, rows: Sequence[Mapping[str, Any]], columns: ColumnMap) -> None:
    # A misspelt name would give an empty column.
    for name, source in columns.fields.items():
        column = "correct" if name == "gold" and columns.match else name
        if not any(column in row for row in rows):
            names = [str(field_name) for field_name in next(read_rows(path, columns.rows), {})]
            raise SnapshotError(
                f"{path}: {name} is mapped to {source!r}, and no row has that field; the first "
                f"has {', '.join(names)}" + did_you_mean(source, names)
            )


def _refuse_no_rows(
    path: Path, number: int, columns: ColumnMap, seen: Mapping[str, set[str]]
) -> None:
    if not number:
        raise SnapshotError(f"{path}: the table has no rows")
    wanted = " and ".join(f"{name}={condition}" for name, condition in columns.where.items())
    values_listed = "; ".join(
        f"{name} is {', '.join(map(repr, sorted(seen[name])))}" for name in columns.where
    )
    raise SnapshotError(
        f"{path}: none of its {number:,} rows has {wanted}; in the file {values_listed}"
    )
