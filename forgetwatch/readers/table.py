"""Plain tables to a Snapshot: CSV, JSONL or Parquet with `item_id`, `correct`, and any other column of a snapshot.

    item_id,task,category,k,gold,chosen,correct
    17,capitals,Culture,4,2,2,1

`correct` is 0/1 or true/false; empty means unscored. A `chosen` outside the options is set to null and counted. A
column `prompt_hash` is kept as `source_prompt_hash`, because another tool hashes other bytes than forgetwatch.

Scores that no model gives are counted as missing, or refused, here and in the logs of other tools (`clean_scores`):

    choice_logprobs            NaN for an option, minus infinity for all    `NOT_FINITE`: wrong, with a note
    choice_logprobs, _priors   no number for an option                      the item's scores are missing, with a note
                               plus infinity                                refused
    gold_share, option_mass    nan                                          missing
                               outside 0 to 1 by rounding                   0 or 1
    margin                     nan; infinite, as the second option is out   missing, with a note if infinite
                               below 0 by rounding                          0
    any                        outside its range (`ranges`)                 refused

Minus infinity for some of the options is a score: the token was ruled out.

**A map.** Tables with column names of their own to a Snapshot, by a map that the command line gives.

    --map correct=6b_finetuning.is_correct     a column of the snapshot from a field of the row; dots enter objects
    --map question=query                       the field that defines the question: it is hashed, and pairs the rows
    --where model=gpt-4-0613                   only the rows whose field has this text
    --set k=2                                  the same value in every row
    --rows details                             where the rows are in a JSON document, or in each of its lines
    --match regex:PATTERN                      `correct` from `output` and `gold`, the right answer as text

`files.rows` reads the files and finds their rows. Without --map and
--match the columns keep their names, and only the named rows are taken: one file may hold the outcomes of many models.
Of Parquet only the row groups that may have such rows are decoded, so a file that is sorted by model costs no more
than one model.

If no id is mapped, the hash of the question is the id, so that files can be joined in any order of rows. Where a
question recurs, its options and what belongs before it are hashed with it. Rows that are equal in all of these are
refused: their order proves nothing. With ``by_order`` they get numbers instead: "9f2c41d0#2".
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from forgetwatch.errors import ProbeError, SnapshotError, did_you_mean, some_of
from forgetwatch.files import (
    ABSENT,
    DAMAGE,
    NEEDED,
    check_row_group,
    csv_dialect,
    file_errors,
    is_text,
    parquet_batches,
    read_content,
    read_head,
    read_rows,
    table_rows,
    table_text,
    value_at,
)
from forgetwatch.files import read_parquet as read_parquet_table
from forgetwatch.grading import Grade, check_item, grade
from forgetwatch.item import Item
from forgetwatch.probes import PLACES, USUAL_NAMES, is_part_of_question
from forgetwatch.ranges import BY_OPTION, check_ranges, flat_values
from forgetwatch.snapshot import NONE, NOT_FINITE, SCHEMA, Snapshot, as_array

_COLUMNS: Final = frozenset(SCHEMA.names)
_MAY_BE_EMPTY: Final = frozenset({"task", "category", "output"})  # elsewhere an empty cell is null
_DEEPEST: Final = 3
_SHOWN: Final = 12
"""Names of columns in a message, at most."""
_CSV_BLOCK: Final = 2**26
"""Bytes that are parsed at a time; no row may be longer."""
_OUTCOMES: Final = (
    *("correct", "is_correct", "acc", "score", "result", "passed", "success", "right", "reward", "valid"),
)
_OUTPUTS: Final = (
    "output",
    "pred",
    "prediction",
    "response",
    "model_answer",
    "generated_answer",
    "model_output",
    "predict",
)
_GOLDS: Final = ("gold", "gt", "target", "reference", "standard_answer", "expected", "answer", "label")
"""Usual names of columns in tables of other tools, in lower case."""
_TRUTH: Final = {"1": True, "1.0": True, "true": True, "0": False, "0.0": False, "false": False}


def parquet_schema(path: Path, needed: str = "a table in Parquet") -> pa.Schema | None:
    """Return the schema of a Parquet file; None of another file."""
    with file_errors(path, needed):
        if not read_head(path).startswith(b"PAR1"):
            return None
        schema = pq.read_schema(path)
        _ = schema.names  # raises if they are not UTF-8
        return schema


def read_csv(path: Path) -> Snapshot:
    """Return the outcomes in a CSV file with a header line."""
    with file_errors(path, "a table in CSV"):
        delimiter, text = csv_dialect(table_text(read_content(path, "a table in CSV")))
        names = next((row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row), [])
        data = text.encode()
        _refuse_twice(path, names)
        # A quote inside a quoted cell is doubled; one within another cell, as an inch sign, stands alone.
        if data.count(b'"') % 2 and _is_open(text, delimiter):
            raise SnapshotError(f"{path}: a quote is opened and never closed; is the file cut?")
        # Read all cells as text: a guessed type would turn the id "007" into 7. From memory, because pyarrow would
        # unpack a file by the end of its name.
        table = pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(block_size=_CSV_BLOCK),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, delimiter=delimiter),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    return to_snapshot(path, {name: table[name].combine_chunks() for name in table.column_names})


def _is_open(text: str, delimiter: str) -> bool:
    """Return True if the text of a table ends within a quoted cell."""
    csv.field_size_limit(sys.maxsize)
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            pass
    except csv.Error:
        return True
    return False


def _refuse_twice(path: Path, names: Sequence[str]) -> None:
    if twice := [name for name in names if names.count(name) > 1]:
        raise SnapshotError(f"{path}: the column {twice[0]!r} occurs twice; rename one of them")


def read_jsonl(path: Path) -> Snapshot:
    """Return the outcomes in a JSONL file, one object per row, or in one JSON array of such objects."""
    rows = list[dict[str, Any]]()
    for _, row in table_rows(path):
        is_probe = {"prompt", "answer"} <= set(row) and not {*_OUTCOMES, *_OUTPUTS, "completion"} & set(row)
        if is_probe or "forgetwatch_probe" in row:
            raise SnapshotError(f"{path}: a probe (questions), not outcomes; score a model on it with --probe")
        rows.append(row)
    if len(rows) == 1 and not {"item_id", "correct"} & set(rows[0]):
        _refuse_rows_within(path, rows[0])
    names = dict.fromkeys(name for row in rows for name in row)
    return to_snapshot(path, {name: [row.get(name) for row in rows] for name in names} if rows else {})


def _refuse_rows_within(path: Path, document: Mapping[str, Any]) -> None:
    """Raise if a member of the document holds rows: several objects, in a list or by name."""
    found = max(_members(document, ""), key=lambda member: len(member[1]), default=("", []))
    if len(found[1]) > 1:
        raise SnapshotError(
            f"{path}: one JSON document with {len(found[1]):,} rows in {found[0]!r}, each with "
            f"{', '.join(list(found[1][0])[:_SHOWN])}; `forgetwatch convert` reads them with --rows {found[0]}, and "
            "--map question=..., --map correct=..."
        )


def _members(document: Mapping[str, Any], path: str) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    """Yield (path, objects) of each member of the document and of the objects in it, four levels deep."""
    for name, member in document.items():
        inner = member.values() if isinstance(member, Mapping) else member if isinstance(member, list) else ()
        yield f"{path}{name}", [one for one in inner if isinstance(one, Mapping)]
        if isinstance(member, Mapping) and path.count(".") < _DEEPEST:
            yield from _members(member, f"{path}{name}.")


def read_parquet(path: Path) -> Snapshot:
    """Return the outcomes in a Parquet file."""
    with file_errors(path, "a table in Parquet"):
        table = read_parquet_table(path)
        _refuse_twice(path, table.column_names)
    return to_snapshot(path, {name: table[name].combine_chunks() for name in table.column_names})


def to_snapshot(path: Path, given: dict[str, Any]) -> Snapshot:
    """Return the snapshot with these columns, each converted to the type of the schema.

    Args:
        path: The file, for messages.
        given: Values by column, as lists or Arrow arrays; names that a snapshot does not have are ignored.

    Raises:
        SnapshotError: If item_id or correct is missing, or a value does not fit; its row is named.
    """
    # Checked before anything is converted: a table of another kind should fail with its columns named.
    if lacking := [name for name in ("item_id", "correct") if name not in given]:
        found = f"; its columns are {some_of(given, _SHOWN)}" if given else ""
        raise SnapshotError(
            f"{path}: a table of outcomes needs the columns item_id and correct; {lacking[0]} is missing{found}; "
            + _conversion(path, given)
        )
    if len(given["item_id"]) == 0:
        raise SnapshotError(f"{path}: the table has no rows")
    columns: dict[str, Any] = {}
    for name, values in given.items():
        if name == "question":
            listed = values.to_pylist() if isinstance(values, pa.Array) else values
            columns[name] = pa.array(map(_question, listed), pa.string())
        elif name in _COLUMNS:
            target = "source_prompt_hash" if name == "prompt_hash" else name
            columns[target] = _column(path, name, values, SCHEMA.field(target).type)
    for name in ("task", "category"):
        if name in columns:
            columns[name] = pc.fill_null(columns[name], "")
    if "sample" in columns:
        columns["sample"] = pc.fill_null(columns["sample"], 0)
    if not {"task", "sample"} & set(columns):
        _refuse_ids_of_subjects(path, columns["item_id"], given)
    _reconcile_outcomes(columns)
    try:
        notes = (*clean_scores(columns), *_drop_impossible_choices(columns), *_contradictions(columns))
        return Snapshot.from_columns(columns, {"source": str(path)}, notes)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _question(value: Any) -> str | None:
    """Return the text of a question in any form that a table has: a list of messages is JSON."""
    if value is None or isinstance(value, str):
        return None if value is None else value.encode("utf-8", "replace").decode()
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace").decode()


def _conversion(path: Path, given: Mapping[str, Any]) -> str:
    """Return the command that takes the columns of a table, if the name and the values of each say what it is.

    Where one is not certain, only what is needed.
    """
    own = {name.lower(): name for name in given}

    def named(names: Sequence[str]) -> str | None:
        return next((own[name] for name in names if name in own), None)

    number = next((own[name] for name in USUAL_NAMES["id"] if name in own and _are_unique(given[own[name]])), None)
    question = named(USUAL_NAMES["prompt"])
    key, value = ("question", question) if question and number in (None, *map(own.get, PLACES)) else ("item_id", number)
    outcomes = {own[name]: _truths(given[own[name]]) for name in _OUTCOMES if name in own}
    outcome = next((name for name, truths in outcomes.items() if len(truths) == 2), None)
    output, gold = named(_OUTPUTS), named(_GOLDS)
    taken = [("correct", outcome)] if outcome else [("output", output), ("gold", gold)]
    if value is not None and (outcome or (output and gold and not outcomes and not _truths(given[gold]))):
        pairs = " ".join(f"--map {part}={shlex.quote(str(column))}" for part, column in [(key, value), *taken])
        match = "" if outcome else " --match contains"
        return f"`forgetwatch convert {shlex.quote(str(path))} {pairs}{match} -o out.parquet` takes them, if meant"
    if constant := next(((name, truths.pop()) for name, truths in outcomes.items() if len(truths) == 1), None):
        kind = "" if constant[1] else ": a list of failures only, without what was right"
        return f"{constant[0]!r} is {str(constant[1]).lower()} in every row{kind}; needed the outcomes of all questions"
    return (
        "no column is certain to hold them; `forgetwatch convert` takes --map item_id=COLUMN or --map question=COLUMN, "
        "and --map correct=COLUMN of 0 and 1, or --map output=COLUMN and --map gold=COLUMN with --match"
    )


def _are_unique(values: Any) -> bool:
    listed = [str(value) for value in values]
    return len(set(listed)) == len(listed)


def _truths(values: Any) -> set[bool]:
    """Return the truth values that a column holds; none if it holds anything else."""
    found = {str(value).strip().lower() for value in values if str(value).strip() not in ("", "None")}
    return {_TRUTH[text] for text in found} if found <= _TRUTH.keys() else set()


def _refuse_ids_of_subjects(path: Path, item_id: pa.Array, given: Mapping[str, Any]) -> None:
    """Raise if ids repeat, and are unique within the values of another column."""
    if pc.count_distinct(item_id).as_py() == len(item_id):
        return
    ids, found = item_id.to_pylist(), []
    for name, values in given.items():
        if name not in _COLUMNS or name == "category":
            subjects = list(map(str, values))
            if len(set(zip(subjects, ids, strict=True))) == len(ids):
                found.append((len(set(subjects)), name))
    if found and 2 * min(found)[0] <= len(ids):
        subject = min(found)[1]
        raise SnapshotError(
            f"{path}: its ids repeat, and are unique within each {subject}; "
            f"`forgetwatch convert {shlex.quote(str(path))} --map item_id=item_id --map task={shlex.quote(subject)} "
            "--map correct=correct -o outcomes.parquet` makes each one a task"
        )


def _column(path: Path, name: str, values: Any, kind: pa.DataType) -> pa.Array:
    """Return one column in the type of the schema; the first value that does not fit is an error."""
    if pa.types.is_boolean(kind):
        if isinstance(values, pa.BooleanArray):
            return values
        return _by_value(path, name, values, kind, _truth)
    if not isinstance(values, pa.Array):
        if pa.types.is_string(kind):
            return _by_value(path, name, values, kind, _text)
        return _by_value(path, name, values, kind, lambda value: _exact(value, kind))
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        if name not in _MAY_BE_EMPTY:
            values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
        if pa.types.is_list(kind):
            return _by_value(path, name, values, kind, lambda text: _exact(_parse_list(text), kind))
    try:
        return values.cast(kind)
    except pa.ArrowException:
        return _by_value(path, name, values, kind, lambda value: _exact(value, kind))


def _by_value(path: Path, name: str, values: Any, kind: pa.DataType, convert: Callable[[Any], Any]) -> pa.Array:
    """Return one column, converted value by value."""
    listed = values.to_pylist() if isinstance(values, pa.Array) else values
    converted = []
    for row, value in enumerate(listed, start=1):
        try:
            converted.append(None if value is None else convert(value))
        except DAMAGE as error:
            expected = "0, 1, true, false or empty" if pa.types.is_boolean(kind) else str(kind)
            shown = str(value) if len(str(value)) <= 40 else f"{str(value)[:40]}..."
            raise SnapshotError(f"{path}, row {row}: {name} must be {expected}, got {shown!r}") from error
    return pa.array(converted, type=kind)


def _truth(value: Any) -> bool | None:
    text = str(value).strip().lower()
    if not text or text == "nan":
        return None
    if text not in _TRUTH:
        raise ValueError(text)
    return _TRUTH[text]


def _text(value: Any) -> str:
    if not isinstance(value, (str, int, float)):
        raise TypeError(type(value).__name__)
    str(value).encode()  # raises on a lone surrogate, which Arrow cannot hold
    return str(value)


def _parse_list(text: str) -> Any:
    """Return the value of a JSON list in a cell; nan and inf may be spelled as Python spells them."""
    return json.loads(text.replace("nan", "NaN").replace("inf", "Infinity"))


def _exact(value: Any, kind: pa.DataType) -> Any:
    """Return the value as a number of this type, 4 for 4.0.

    An error if it is no number or loses a part, as 4.5 would.
    """
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise TypeError(type(value).__name__)
        # A null among the scores of an item is a score that is missing, and nan one that the model gave.
        floats = pa.types.is_floating(kind.value_type)
        return [None if part is None and floats else _exact(part, kind.value_type) for part in value]
    if isinstance(value, bool) or "_" in str(value):  # Python would read 4_0 as 40
        raise ValueError(value)
    number = float(value)
    if not pa.types.is_integer(kind):
        return number
    if math.isnan(number):
        return None
    if not number.is_integer():
        raise ValueError(value)
    return pa.scalar(int(number), type=kind).as_py()


def _reconcile_outcomes(columns: dict[str, Any]) -> None:
    """Make `correct` null where `outcome` is unscored, and `outcome` unscored where `correct` is null."""
    default = pc.if_else(pc.is_null(columns["correct"]), "unscored: no value in the table", "ok")
    outcome = pc.coalesce(columns["outcome"], default) if "outcome" in columns else default
    unscored = pc.starts_with(outcome, "unscored")
    columns["correct"] = pc.if_else(unscored, pa.scalar(None, pa.bool_()), columns["correct"])
    columns["outcome"] = pc.if_else(pc.and_(pc.is_null(columns["correct"]), pc.invert(unscored)), default, outcome)


def _drop_impossible_choices(columns: dict[str, Any]) -> tuple[str, ...]:
    """Set `chosen` to null where it is no option, and return a note with the number of such rows."""
    if "chosen" not in columns:
        return ()
    chosen = np.asarray(pc.fill_null(columns["chosen"], NONE), dtype=np.int64)
    given = ~np.asarray(pc.is_null(columns["chosen"]))
    k = np.asarray(pc.fill_null(columns["k"], NONE), dtype=np.int64) if "k" in columns else np.full(len(chosen), NONE)
    impossible = given & ((chosen < 0) | ((k != NONE) & (chosen >= k)))
    columns["chosen"] = pa.array(chosen, type=pa.int32(), mask=impossible | ~given)
    count = int(impossible.sum())
    return (f"{count:,} chosen options are outside their items' options and count as no answer",) if count else ()


def _contradictions(columns: dict[str, Any]) -> tuple[str, ...]:
    """Return a note with the number of rows whose `correct` contradicts chosen and gold.

    Often a column counts from 1.
    """
    if not {"chosen", "gold", "correct"} <= set(columns) or "golds" in columns:
        return ()
    agrees = pc.equal(pc.equal(columns["chosen"], columns["gold"]), columns["correct"])
    count = int(pc.sum(pc.invert(agrees)).as_py() or 0)
    return (f"rows whose `correct` is not what chosen and gold say: {count:,}; both count from 0",) if count else ()


_SHARES: Final = ("gold_share", "option_mass")


def clean_scores(columns: dict[str, Any]) -> tuple[str, ...]:
    """Set unusable scores to null in place, and return notes with their numbers.

    Args:
        columns: Columns of a snapshot by name, as sequences or Arrow arrays; all of one length.

    Raises:
        SnapshotError: If a value is impossible; names the first row with one, its item, and the remedy.
    """
    scores, checked = dict[str, Any](), dict[str, Any]()
    for name in ("item_id", "k", *BY_OPTION, *_SHARES, "margin"):
        values = columns.get(name)
        if values is None:
            continue
        checked[name] = as_array(values, SCHEMA.field(name).type)
        # A list may hold nothing, as the scores of open answers do.
        if name not in ("item_id", "k") and not (isinstance(values, list) and all(value is None for value in values)):
            scores[name] = checked[name]
    # Before anything is cleaned: a note on missing scores would hide the reason.
    check_ranges(pa.table(checked))
    columns |= scores
    notes = [_note_not_finite(columns)] if "choice_logprobs" in scores else []
    notes += [_clean_logprobs(columns, name) for name in ("choice_logprobs", "choice_priors") if name in scores]
    for name in _SHARES:
        if name in scores:
            share = np.asarray(columns[name], np.float64)
            columns[name] = pa.array(np.clip(share, 0.0, 1.0), mask=np.isnan(share))
    if "margin" in scores:
        margin = np.asarray(columns["margin"], np.float64)
        columns["margin"] = pa.array(np.maximum(margin, 0.0), mask=~np.isfinite(margin))
        if infinite := int(np.isinf(margin).sum()):
            notes.append(f"margin of {infinite:,} of {len(margin):,} rows is infinite, and counts as missing")
    return tuple(filter(None, notes))


def _note_not_finite(columns: dict[str, Any]) -> str:
    """Mark answers with NaN among their log-likelihoods, or nothing but minus infinity, and return a note."""
    lists = columns["choice_logprobs"]
    values, row = pc.list_flatten(lists), flat_values(lists)[1]
    nan, finite = (np.asarray(pc.fill_null(test(values), False)) for test in (pc.is_nan, pc.is_finite))
    is_nan, is_finite, has_value = (
        np.bincount(row[which], minlength=len(lists)) > 0 for which in (nan, finite, np.asarray(values.is_valid()))
    )
    right = as_array(columns["correct"], pa.bool_())
    broken = pa.array((is_nan | (has_value & ~is_finite)) & np.asarray(right.is_valid()))
    if not (number := int(pc.sum(broken).as_py() or 0)):
        return ""
    ok = pa.array(["ok"] * len(right))
    columns["outcome"] = pc.if_else(broken, NOT_FINITE, as_array(columns.get("outcome", ok), pa.string()))
    columns["correct"] = pc.if_else(broken, pa.scalar(False), right)
    for name, value in (("chosen", None), ("gold_share", 0.0), ("margin", None), ("choice_logprobs", None)):
        if columns.get(name) is not None:
            kind = SCHEMA.field(name).type
            columns[name] = pc.if_else(broken, pa.scalar(value, kind), as_array(columns[name], kind))
    return f"answers whose log-likelihoods are not finite, and that count as wrong: {number:,} of {len(right):,}"


def _clean_logprobs(columns: dict[str, Any], name: str) -> str:
    """Set lists with nan, or with nothing but minus infinity, to null, and return a note on their number."""
    lists = columns[name]
    values, row = flat_values(lists)  # a null among them is nan
    given, finite, unknown = (
        np.bincount(row[which], minlength=len(lists)) > 0
        for which in (np.full(len(row), True), np.isfinite(values), np.isnan(values))
    )
    missing = unknown | (given & ~finite)  # plus infinity was refused
    if not missing.any():
        return ""
    columns[name] = pc.if_else(pa.array(missing), pa.scalar(None, lists.type), lists)
    return (
        f"{name} of {int(missing.sum()):,} of {len(lists):,} rows count as missing: they have no number for an "
        "option, or minus infinity for every one"
    )


def null_as_wrong(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with every unscored answer as a wrong one, and a note with their number."""
    unscored, columns = pa.array(snapshot.is_unscored), {name: snapshot.table[name] for name in SCHEMA.names}
    if not (count := int(snapshot.is_unscored.sum())):
        return snapshot
    columns["correct"] = pc.if_else(unscored, pa.scalar(False), columns["correct"])
    columns["outcome"] = pc.if_else(unscored, pa.scalar("no answer"), columns["outcome"])
    note = f"answers without a score that count as wrong (--null wrong): {count:,} of {len(snapshot):,}"
    return Snapshot.from_columns(columns, {**snapshot.meta, "null": "wrong"}, (*snapshot.notes, note))


def concatenate(snapshots: Sequence[Snapshot], *, as_samples: bool = False) -> Snapshot:
    """Return one snapshot with the rows of all, in their order; the metadata are those of the first.

    Args:
        snapshots: At least one snapshot.
        as_samples: Treat each as one more sample of the same items, such as a seed; otherwise no item may be in two of
            them.

    Raises:
        SnapshotError: If there is none, or an item is in two of them.
    """
    if not snapshots:
        raise SnapshotError("needed at least one file of outcomes, got none")
    if len(snapshots) == 1:
        return snapshots[0]
    tables = [snapshot.table for snapshot in snapshots]
    if as_samples:
        if several := next((snapshot for snapshot in snapshots if snapshot.ints("sample").any()), None):
            raise SnapshotError(
                f"{several.label}: its items have several samples already; --as-samples takes single ones"
            )
        position = tables[0].column_names.index("sample")
        tables = [
            table.set_column(position, "sample", pa.array(np.full(len(table), seed, np.int32)))
            for seed, table in enumerate(tables)
        ]
    table = pa.concat_tables(tables)
    notes = list(dict.fromkeys(note for snapshot in snapshots for note in snapshot.notes))
    models = sorted({str(snapshot.meta["model"]) for snapshot in snapshots if snapshot.meta.get("model")})
    if len(models) > 1:
        notes.append(f"its files are of several models: {', '.join(models)}")
    sources = [str(snapshot.meta.get("source", snapshot.label)) for snapshot in snapshots]
    meta = {**snapshots[0].meta, "sources": sources}
    norms = {task: norm for snapshot in reversed(snapshots) for task, norm in snapshot.norms.items()}
    if len(set(norms.values())) > 1:  # then the first file's norm is not that of all tasks
        meta["norms"] = norms
    return Snapshot.from_columns({name: table[name] for name in table.column_names}, meta, tuple(notes))


QUESTION: Final = "question"
_PARTS: Final = "parts of the question"
"""Key of what belongs to the question of a row besides its text, until the rows have ids."""
_TARGETS: Final = tuple(SCHEMA.names)
_BATCH: Final = 4096  # rows
_SELECTED: Final = 65536  # rows
_SEEN: Final = 6
"""Values of a field that an error lists."""


@dataclass(frozen=True, kw_only=True)
class ColumnMap:
    """Columns of a snapshot from fields of a table's rows.

    Attributes:
        fields: Field of a row by column of the snapshot (or ``question``); dots enter objects and lists.
        where: Text that a field must have for its row to count, by field.
        constants: Text of a column in every row, by column.
        match: Rule that grades `output` by `gold`: any match of an open answer, such as ``number`` or
            ``regex:PATTERN`` (the last match, without case).
        rows: Path of the rows within a JSON document; None if the file is a table.
        by_order: Number rows of one question in their order, instead of refusing them: as samples where most questions
            have several rows, else as items.

    Raises:
        SnapshotError: If a column is unknown, or given twice.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    match: str | None = None
    rows: str | None = None
    by_order: bool = False

    def __post_init__(self) -> None:
        """Check the names."""
        if unknown := [name for name in (*self.fields, *self.constants) if name not in _TARGETS]:
            raise SnapshotError(
                f"unknown column {unknown[0]!r}; a snapshot has {', '.join(SCHEMA.names)}"
                + did_you_mean(unknown[0], _TARGETS)
            )
        if twice := self.fields.keys() & self.constants.keys():
            raise SnapshotError(f"the column {min(twice)!r} is both mapped and set; give it once")
        if broken := [name for name, text in self.constants.items() if not is_text(text)]:
            raise SnapshotError(f"the column {broken[0]!r} is set to what is no text in UTF-8; give it as UTF-8")
        given = self.fields.keys() | self.constants.keys()
        if self.match is not None and (lacking := {"output", "gold"} - given):
            raise SnapshotError(f"--match grades output by gold, and {min(lacking)} is not mapped")


def read_mapped(path: str | Path, columns: ColumnMap) -> Snapshot:
    """Return the outcomes in a table with column names of its own.

    Raises:
        SnapshotError: If the file cannot be read, a field is in no row, or no row is left.
    """
    path = Path(path)
    schema = parquet_schema(path, NEEDED) if columns.rows is None else None
    if not columns.fields and columns.match is None:
        by_groups = schema is not None and _are_texts(columns.where, schema)
        names = schema.names if schema is not None and by_groups else next(read_rows(path, columns.rows), {})
        own = [name for name in names if name in SCHEMA.names and name not in columns.constants]
        if not own and not by_groups:
            _refuse_no_rows(path, 0, columns, {})
        columns = replace(columns, fields=dict(zip(own, own, strict=True)))
    else:
        by_groups = schema is not None and _are_columns(columns, schema)
    if by_groups:
        return _selected(path, columns)
    rows: list[dict[str, Any]] = []
    seen: dict[str, set[str]] = {name: set() for name in columns.where}
    number = 0
    for number, row in enumerate(read_rows(path, columns.rows), start=1):
        values = {name: _spelled(value_at(row, name)) for name in columns.where}
        for name, text in values.items():
            if len(seen[name]) < _SEEN:
                seen[name].add("" if text is None else text)
        if all(values[name] == wanted for name, wanted in columns.where.items()):
            rows.append(_mapped(path, number, row, columns))
    if not rows:
        _refuse_no_rows(path, number, columns, seen)
    _check_fields(path, rows, columns)
    if "item_id" not in columns.fields:
        _add_ids(path, rows, by_order=columns.by_order)
    for row in rows:
        row.pop(_PARTS, None)
    given = {name: [row.get(name) for row in rows] for name in dict.fromkeys(key for row in rows for key in row)}
    return to_snapshot(path, {name: _uniform(name, values) for name, values in given.items()})


def _are_columns(columns: ColumnMap, schema: pa.Schema) -> bool:
    """Return True if every field is a column, and every value is what a reading row by row would make of it."""
    fields = columns.fields
    if columns.match is not None or QUESTION in fields or "item_id" not in fields:
        return False
    if not (set(fields.values()) <= set(schema.names) and _are_texts(columns.where, schema)):
        return False
    # Numbers as text: only whole ones are spelled as JSON spells them.
    sources = [
        schema.field(source).type for name, source in fields.items() if pa.types.is_string(SCHEMA.field(name).type)
    ]
    return all(pa.types.is_string(kind) or pa.types.is_integer(kind) for kind in sources)


def _are_texts(where: Iterable[str], schema: pa.Schema) -> bool:
    """Return True if all are columns whose values have one spelling as text: texts, whole numbers, truth values."""
    if not set(where) <= set(schema.names):
        return False
    kinds = [schema.field(name).type for name in where]
    kinds = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in kinds]
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean)
    return all(any(of_kind(kind) for of_kind in is_text) for kind in kinds)


def _selected(path: Path, columns: ColumnMap) -> Snapshot:
    """Return the wanted rows of a Parquet file, decoded by row groups."""
    names = list(dict.fromkeys(columns.fields.values()))
    others = [name for name in columns.where if name not in names]
    batches = []
    with file_errors(path, NEEDED):
        groups = _row_groups(path, columns.where)
        for batch in parquet_batches(path, columns=[*names, *others], rows=_SELECTED, groups=groups):
            kept = pa.array(np.ones(len(batch), bool))
            for name, wanted in columns.where.items():
                texts = pc.cast(batch.column(name), pa.string())
                kept = pc.and_(kept, pc.fill_null(pc.equal(texts, wanted), False))
            batches.append(batch.select(names).filter(kept))
        if not sum(map(len, batches)):
            _refuse_selection(path, columns)
        rows = pa.Table.from_batches(batches)
        rows.validate(full=True)  # pyarrow itself does not check that texts are UTF-8
    found = {}
    for name, source in columns.fields.items():
        array = rows[source].combine_chunks()
        found[name] = array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array
    constants = {name: pa.array([text] * len(rows), pa.string()) for name, text in columns.constants.items()}
    return to_snapshot(path, {**found, **constants})


def _row_groups(path: Path, where: Mapping[str, str]) -> list[int]:
    """Return the row groups that may have a wanted row, by their least and greatest texts."""
    found = []
    with pq.ParquetFile(path) as file:
        for number in range(file.metadata.num_row_groups):
            group = check_row_group(file, number)
            chunks = {chunk.path_in_schema: chunk for chunk in map(group.column, range(group.num_columns))}
            if all(_may_hold(chunks[name], wanted) for name, wanted in where.items() if name in chunks):
                found.append(number)
    return found


def _may_hold(chunk: pq.ColumnChunkMetaData, wanted: str) -> bool:
    """Return True unless a text is outside the least and greatest of a column's chunk of texts."""
    # Texts alone: numbers are wanted as texts, which have another order. Damaged statistics of theirs end the process.
    stats = chunk.statistics if chunk.physical_type == "BYTE_ARRAY" else None
    if stats is None or not stats.has_min_max or not isinstance(stats.min, str):
        return True
    return bool(stats.min <= wanted <= stats.max)


def _refuse_selection(path: Path, columns: ColumnMap) -> None:
    """Raise with what all rows of a Parquet file have, also those of row groups that were not decoded."""
    seen: dict[str, set[str]] = {name: set() for name in columns.where}
    total = 0
    for batch in parquet_batches(path, columns=list(seen), rows=_SELECTED, kept=False):
        total += len(batch)
        for name, texts in seen.items():
            texts |= {text or "" for text in pc.unique(pc.cast(batch.column(name), pa.string())).to_pylist()}
            seen[name] = set(sorted(texts)[:_SEEN])
    _refuse_no_rows(path, total, columns, seen)


def _mapped(path: Path, number: int, row: Mapping[str, Any], columns: ColumnMap) -> dict[str, Any]:
    """Return one row under the names of a snapshot; fields that the row lacks are left out."""
    made: dict[str, Any] = dict(columns.constants)
    for name, source in columns.fields.items():
        if (value := value_at(row, source)) is not ABSENT:
            made[name] = value
    if columns.match is not None:
        graded = _grade(path, number, made, columns.match)
        made["correct"] = None if graded is None else graded.correct
        if graded is not None and graded.correct is None:
            made["outcome"] = graded.outcome
        made.pop("gold", None)  # it is text, and a snapshot's gold is an option
    if QUESTION in made:
        # Parquet has values that JSON has not, such as dates: they are hashed as text.
        text = json.dumps(made[QUESTION], sort_keys=True, ensure_ascii=False, default=str)
        made.setdefault("content_hash", _hash(text))
        names = [name for name in row if is_part_of_question(str(name)) and name not in columns.fields.values()]
        made[_PARTS] = json.dumps({name: row[name] for name in names}, sort_keys=True, default=str)
    return made


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _add_ids(path: Path, rows: Sequence[dict[str, Any]], *, by_order: bool) -> None:
    """Give rows without an id the hash of their question as id.

    Raises:
        SnapshotError: If rows have one question, and nothing that belongs to it tells them apart.
    """
    own = [row for row in rows if "item_id" not in row and "content_hash" in row]
    if own and _recurring(own):
        for row in own:
            row["content_hash"] = _hash(f"{row['content_hash']} {row.get(_PARTS, '')}")
    again = _recurring(own)
    times = Counter((row.get("task"), str(row["content_hash"]), row.get("sample")) for row in own)
    # Several answers to most questions are samples; a few questions that occur twice are items.
    are_samples = bool(again) and 2 * sum(number > 1 for number in times.values()) > len(times)
    if again and not by_order:
        numbered = "numbers them as samples" if are_samples else "pairs them as they come"
        raise SnapshotError(
            f"{path}: {again:,} of {len(rows):,} rows have the question of another one, and their order proves "
            "nothing; --map item_id=FIELD tells them apart, --map sample=FIELD if they are answers to one question, "
            f"and --pair-by order {numbered}"
        )
    if are_samples and len(numbers := set(times.values())) > 1:
        raise SnapshotError(
            f"{path}: answers to one question are its samples, and questions have from {min(numbers)} to "
            f"{max(numbers)} of them; needed as many of each, or --map item_id=FIELD if they are questions of their own"
        )
    seen = Counter[tuple[Any, str, Any]]()
    for row in own:
        key = row.get("task"), str(row["content_hash"]), row.get("sample")
        if are_samples and key[2] is None:
            row.update(item_id=key[1], sample=seen[key])
        else:
            row["item_id"] = f"{key[1]}#{seen[key] + 1}" if seen[key] else key[1]
        seen[key] += 1


def _recurring(rows: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of rows beyond the first of each question.

    Samples of an answer are told apart by their number.
    """
    keys = Counter((row.get("task"), str(row["content_hash"]), row.get("sample")) for row in rows)
    return len(rows) - len(keys)


def _grade(path: Path, number: int, row: Mapping[str, Any], match: str) -> Grade | None:
    """Return the grade of a row's output by its gold; None if it has no output or no gold."""
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
    """Return the value as text, in JSON if it is another type; None if there is no value."""
    if value is None or value is ABSENT:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text.encode("utf-8", "replace").decode()  # UTF-8 cannot hold a lone surrogate


def _uniform(name: str, values: list[Any]) -> Any:
    """Return a column as `table.to_snapshot` takes it: text if the file or the command line gave text."""
    if all(value is None or isinstance(value, str) for value in values):
        return pa.array(map(_spelled, values), pa.string())
    if pa.types.is_string(SCHEMA.field(name).type):
        return [_spelled(value) for value in values]
    return values


def _check_fields(path: Path, rows: Sequence[Mapping[str, Any]], columns: ColumnMap) -> None:
    """Refuse a field that no row has: a misspelt name would give an empty column."""
    for name, source in columns.fields.items():
        made = "correct" if name == "gold" and columns.match else name
        if not any(made in row for row in rows):
            names = [str(field_name) for field_name in next(read_rows(path, columns.rows), {})]
            raise SnapshotError(
                f"{path}: {name} is mapped to {source!r}, and no row has that field; the first has {', '.join(names)}"
                + did_you_mean(source, names)
            )


def _refuse_no_rows(path: Path, number: int, columns: ColumnMap, seen: Mapping[str, set[str]]) -> None:
    if not number:
        raise SnapshotError(f"{path}: the table has no rows")
    wanted = " and ".join(f"{name}={text}" for name, text in columns.where.items())
    found = "; ".join(f"{name} is {', '.join(map(repr, sorted(seen[name])))}" for name in columns.where)
    raise SnapshotError(f"{path}: none of its {number:,} rows has {wanted}; in the file {found}")
