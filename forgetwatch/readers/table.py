"""Plain tables to a Snapshot: CSV, JSONL or Parquet with `item_id`, `correct`, and any other column of a snapshot.

    item_id,task,category,k,gold,chosen,correct
    17,capitals,Culture,4,2,2,1

`correct` is 0/1, true/false, or a word such as pass; empty means unscored. It may be a score from 0
to 1, or of a scale that an `OutcomeRule` names; so may a column `score`, beside it or alone. A
`chosen` outside the options is set to null and counted. A column `prompt_hash` is kept as
`source_prompt_hash`, because another tool hashes other bytes than forgetwatch.

Scores that no model gives are counted as missing, or refused, here and in the logs of other tools
(`clean_scores`):

    choice_logprobs            NaN for an option, minus infinity for all    `NOT_FINITE`: wrong, with a note
    choice_logprobs, _priors   no number for an option                      the item's scores are missing, with a note
                               plus infinity                                refused
    gold_share, option_mass    nan                                          missing
                               outside 0 to 1 by rounding                   0 or 1
    margin                     nan; infinite, as the second option is out   missing, with a note if infinite
                               below 0 by rounding                          0
    any                        outside its range (`ranges`)                 refused

Minus infinity for some of the options is a score: the token was ruled out.
"""

import csv
import io
import json
import math
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from forgetwatch.errors import SnapshotError, some_of
from forgetwatch.files.reading import (
    DAMAGE,
    csv_dialect,
    file_errors,
    read_content,
    read_head,
    table_text,
)
from forgetwatch.files.rows import table_rows
from forgetwatch.files.table_files import read_parquet as read_parquet_table
from forgetwatch.grading.outcome_rule import UPPER_HALF, OutcomeRule
from forgetwatch.probes.row_files import PLACES, USUAL_NAMES
from forgetwatch.ranges import BY_OPTION, check_ranges, flat_values
from forgetwatch.readers.outcome_columns import column_values, outcome_columns, truth
from forgetwatch.snapshot import NONE, NOT_FINITE, SCHEMA, Snapshot, as_array

_COLUMNS: Final = frozenset(SCHEMA.names)


_MAY_BE_EMPTY: Final = frozenset({"task", "category", "output"})  # elsewhere an empty cell is null


_DEEPEST: Final = 3


_SHOWN: Final = 12
"""Names of columns in a message, at most."""


_CSV_BLOCK: Final = 2**26
"""Bytes that are parsed at a time; no row may be longer."""


_OUTCOMES: Final = (
    "correct",
    "is_correct",
    "acc",
    "score",
    "result",
    "passed",
    "success",
    "right",
    "reward",
    "rewards",
    "valid",
    "verdict",
    "exact_match",
    "answer_correctness",
    "pass@1",
)


_INVERTED: Final = (
    "is_wrong",
    "wrong",
    "incorrect",
    "is_incorrect",
    "failed",
    "error",
    "attack_success",
    "jailbroken",
    "harmful",
    "is_harmful",
    "unsafe",
    "toxic",
    "violation",
)
"""Usual names of columns in which 1 is bad."""


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


_GOLDS: Final = (
    "gold",
    "gt",
    "target",
    "reference",
    "standard_answer",
    "expected",
    "answer",
    "label",
)
"""Usual names of columns in tables of other tools, in lower case."""


def parquet_schema(path: Path, needed: str = "a table in Parquet") -> pa.Schema | None:
    """Schema of a Parquet file.

    Returns:
        The schema, or None for another file.
    """
    with file_errors(path, needed):
        if not read_head(path).startswith(b"PAR1"):
            return None
        schema = pq.read_schema(path)
        _ = schema.names  # raises if they are not UTF-8
        return schema


def read_csv(path: Path, rule: OutcomeRule = UPPER_HALF) -> Snapshot:
    """Read the outcomes in a CSV file with a header line."""
    with file_errors(path, "a table in CSV"):
        delimiter, text = csv_dialect(table_text(read_content(path, "a table in CSV")))
        names = next(
            (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row),
            [],
        )
        data = text.encode()
        _refuse_twice(path, names)
        # A quote inside a quoted cell is doubled; one within another cell, as an inch sign, stands
        # alone.
        if data.count(b'"') % 2 and _is_open(text, delimiter):
            raise SnapshotError(f"{path}: a quote is opened and never closed; is the file cut?")
        # Read all cells as text: a guessed type would turn the id "007" into 7. From memory,
        # because pyarrow would unpack a file by the end of its name.
        table = pa_csv.read_csv(
            pa.BufferReader(data),
            read_options=pa_csv.ReadOptions(block_size=_CSV_BLOCK),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, delimiter=delimiter),
            convert_options=pa_csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return to_snapshot(path, columns, rule)


def _is_open(text: str, delimiter: str) -> bool:
    # Within a quoted cell at the end of the text.
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


def read_jsonl(path: Path, rule: OutcomeRule = UPPER_HALF) -> Snapshot:
    """Read the outcomes in JSONL, or in a JSON array of objects."""
    rows = list[dict[str, Any]]()
    for _, row in table_rows(path):
        is_probe = {"prompt", "answer"} <= set(row) and not {
            *_OUTCOMES,
            *_OUTPUTS,
            "completion",
        } & set(row)
        if is_probe or "forgetwatch_probe" in row:
            raise SnapshotError(
                f"{path}: a probe (questions), not outcomes; score a model on it with --probe"
            )
        rows.append(row)
    if len(rows) == 1 and not {"item_id", "correct"} & set(rows[0]):
        _refuse_rows_within(path, rows[0])
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names} if rows else {}
    return to_snapshot(path, columns, rule)


def _refuse_rows_within(path: Path, document: Mapping[str, Any]) -> None:
    # Several objects, in a list or by name.
    found = max(_members(document, ""), key=lambda member: len(member[1]), default=("", []))
    if len(found[1]) > 1:
        raise SnapshotError(
            f"{path}: one JSON document with {len(found[1]):,} rows in {found[0]!r}, each with "
            f"{', '.join(list(found[1][0])[:_SHOWN])}; `forgetwatch convert` reads them with "
            f"--rows {found[0]}, and --map question=..., --map correct=..."
        )
    members = [
        member[0] if isinstance(member, list) and member else member for member in document.values()
    ]
    if len(members) > 1 and all(isinstance(member, Mapping) for member in members):
        names = list(members[0])
        raise SnapshotError(
            f"{path}: one JSON document of {len(members):,} rows by name, each with "
            f"{', '.join(names[:_SHOWN])}; `forgetwatch convert {shlex.quote(str(path))} --rows . "
            f"--map item_id=key --map correct={shlex.quote(names[-1])} -o out.parquet` reads them; "
            "--lower-is-better says which value is right, as where 1 is the success of an attack"
        )


def _members(
    document: Mapping[str, Any], path: str
) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    # Objects within members are searched too, four levels deep.
    for name, member in document.items():
        inner = (
            member.values()
            if isinstance(member, Mapping)
            else member
            if isinstance(member, list)
            else ()
        )
        yield f"{path}{name}", [element for element in inner if isinstance(element, Mapping)]
        if isinstance(member, Mapping) and path.count(".") < _DEEPEST:
            yield from _members(member, f"{path}{name}.")


def read_parquet(path: Path, rule: OutcomeRule = UPPER_HALF) -> Snapshot:
    """Read the outcomes in a Parquet file."""
    with file_errors(path, "a table in Parquet"):
        table = read_parquet_table(path)
        _refuse_twice(path, table.column_names)
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    return to_snapshot(path, columns, rule)


def to_snapshot(  # noqa: C901
    path: Path, given: dict[str, Any], rule: OutcomeRule = UPPER_HALF
) -> Snapshot:
    """Build a snapshot of columns, converted to the schema's types.

    Args:
        path: The file, for messages.
        given: Values by column, as lists or Arrow arrays; names that a snapshot does not have are
            ignored.
        rule: How outcomes are read.

    Raises:
        SnapshotError: If item_id or the outcome is missing, or a value does not fit; its row is named.
    """
    # Checked before anything is converted: a table of another kind should fail with its columns
    # named.
    outcome = "correct" if "correct" in given or "score" not in given else "score"
    if lacking := [name for name in ("item_id", outcome) if name not in given]:
        columns_found = f"; its columns are {some_of(given, _SHOWN)}" if given else ""
        raise SnapshotError(
            f"{path}: a table of outcomes needs the columns item_id and correct, or score; "
            f"{lacking[0]} is missing{columns_found}; " + _conversion(path, given)
        )
    if len(given["item_id"]) == 0:
        raise SnapshotError(f"{path}: the table has no rows")
    columns: dict[str, Any] = {}
    for name, values in given.items():
        if name == "question":
            listed = values.to_pylist() if isinstance(values, pa.Array) else values
            columns[name] = pa.array(map(_question, listed), pa.string())
        elif name in _COLUMNS and name not in ("correct", "score"):
            target = "source_prompt_hash" if name == "prompt_hash" else name
            columns[target] = _column(path, name, values, SCHEMA.field(target).type)
    outcomes, described, notes = outcome_columns(path, given, rule)
    columns |= outcomes
    for name in ("task", "category"):
        if name in columns:
            columns[name] = pc.fill_null(columns[name], "")
    if "sample" in columns:
        columns["sample"] = pc.fill_null(columns["sample"], 0)
    if not {"task", "sample"} & set(columns):
        _refuse_ids_of_subjects(path, columns["item_id"], given)
    _reconcile_outcomes(columns)
    try:
        notes = (
            *notes,
            *clean_scores(columns),
            *_drop_impossible_choices(columns),
            *_contradictions(columns),
        )
        return Snapshot.from_columns(columns, {"source": str(path), **described}, notes)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from error


def _question(value: Any) -> str | None:
    # A list of messages is JSON.
    if value is None or isinstance(value, str):
        return None if value is None else value.encode("utf-8", "replace").decode()
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace").decode()


def _conversion(path: Path, columns: Mapping[str, Any]) -> str:
    # The command takes the columns of a table, if the name and the values of each say what it is;
    # only what is needed where a column is not certain.
    own = {name.lower(): name for name in columns}

    def named(names: Sequence[str]) -> str | None:
        return next((own[name] for name in names if name in own), None)

    number = next(
        (
            own[name]
            for name in USUAL_NAMES["id"]
            if name in own and _are_unique(columns[own[name]])
        ),
        None,
    )
    question = named(USUAL_NAMES["prompt"])
    key, value = (
        ("question", question)
        if question and number in (None, *map(own.get, PLACES))
        else ("item_id", number)
    )
    outcomes = {
        own[name]: column_values(own[name], columns[own[name]])
        for name in (*_OUTCOMES, *_INVERTED)
        if name in own
    }
    several = {name: numbers for name, numbers in outcomes.items() if len(numbers) > 1}
    outcome = next((name for name, numbers in several.items() if _is_clear(numbers)), None)
    output, gold = named(_OUTPUTS), named(_GOLDS)
    taken = [("correct", outcome)] if outcome else [("output", output), ("gold", gold)]
    if value is not None and (
        outcome or (output and gold and not outcomes and not _is_truth(gold, columns[gold]))
    ):
        pairs = " ".join(
            f"--map {field}={shlex.quote(str(column))}" for field, column in [(key, value), *taken]
        )
        match = "" if outcome else " --match contains"
        if outcome and min(outcomes[outcome]) < 0:
            match = " --scale -1,1"
        if outcome and outcome.lower() in _INVERTED:
            match += " --lower-is-better"
        return f"`forgetwatch convert {shlex.quote(str(path))} {pairs}{match} -o out.parquet` takes them, if meant"
    if constant := next(
        ((name, numbers.pop()) for name, numbers in outcomes.items() if len(numbers) == 1), None
    ):
        remark = "" if constant[1] else ": a list of failures only, without what was right"
        word = {0.0: "false", 1.0: "true"}.get(constant[1], f"{constant[1]:g}")
        return (
            f"{constant[0]!r} is {word} in every row{remark}; needed the outcomes of all questions"
        )
    return (
        "no column is certain to hold them; `forgetwatch convert` takes --map item_id=COLUMN or "
        "--map question=COLUMN, and --map correct=COLUMN of 0 and 1, or of scores with --scale "
        "LOW,HIGH, or --map output=COLUMN and --map gold=COLUMN with --match"
    )


def _is_truth(name: str, values: Any) -> bool:
    numbers = column_values(name, values)
    return bool(numbers) and numbers <= {0.0, 1.0}


def _is_clear(numbers: set[float]) -> bool:
    # Of a scale that needs no asking.
    return numbers == {-1.0, 1.0} or (min(numbers) >= 0 and max(numbers) <= 1)


def _are_unique(values: Any) -> bool:
    listed = [str(value) for value in values]
    return len(set(listed)) == len(listed)


def _refuse_ids_of_subjects(path: Path, item_id: pa.Array, columns: Mapping[str, Any]) -> None:
    # Ids repeat, and are unique within the values of another column.
    if pc.count_distinct(item_id).as_py() == len(item_id):
        return
    ids, found = item_id.to_pylist(), []
    for name, values in columns.items():
        if name not in _COLUMNS or name == "category":
            subjects = list(map(str, values))
            if len(set(zip(subjects, ids, strict=True))) == len(ids):
                found.append((len(set(subjects)), name))
    if found and 2 * min(found)[0] <= len(ids):
        subject = min(found)[1]
        raise SnapshotError(
            f"{path}: its ids repeat, and are unique within each {subject}; `forgetwatch convert "
            f"{shlex.quote(str(path))} --map item_id=item_id --map task={shlex.quote(subject)} "
            "--map correct=correct -o outcomes.parquet` makes each one a task"
        )


def _column(path: Path, name: str, values: Any, kind: pa.DataType) -> pa.Array:
    # The first value that does not fit is an error.
    if pa.types.is_boolean(kind):
        if isinstance(values, pa.BooleanArray):
            return values
        return _by_value(path, name, values, kind, truth)
    if not isinstance(values, pa.Array):
        if pa.types.is_string(kind):
            return _by_value(path, name, values, kind, _text)
        return _by_value(path, name, values, kind, lambda value: _exact(value, kind))
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        if name not in _MAY_BE_EMPTY:
            values = pc.if_else(pc.equal(values, ""), pa.scalar(None, values.type), values)
        if pa.types.is_list(kind):
            return _by_value(path, name, values, kind, lambda cell: _exact(_parse_list(cell), kind))
    try:
        return values.cast(kind)
    except pa.ArrowException:
        return _by_value(path, name, values, kind, lambda value: _exact(value, kind))


def _by_value(
    path: Path, name: str, values: Any, kind: pa.DataType, convert: Callable[[Any], Any]
) -> pa.Array:
    listed = values.to_pylist() if isinstance(values, pa.Array) else values
    converted = []
    for row, value in enumerate(listed, start=1):
        try:
            converted.append(None if value is None else convert(value))
        except DAMAGE as error:
            expected = "0, 1, true, false or empty" if pa.types.is_boolean(kind) else str(kind)
            excerpt = str(value) if len(str(value)) <= 40 else f"{str(value)[:40]}..."
            raise SnapshotError(
                f"{path}, row {row}: {name} must be {expected}, got {excerpt!r}"
            ) from error
    return pa.array(converted, type=kind)


def _text(value: Any) -> str:
    if not isinstance(value, (str, int, float)):
        raise TypeError(type(value).__name__)
    str(value).encode()  # raises on a lone surrogate, which Arrow cannot hold
    return str(value)


def _parse_list(text: str) -> Any:
    # nan and inf may be spelled as Python spells them.
    return json.loads(text.replace("nan", "NaN").replace("inf", "Infinity"))


def _exact(value: Any, kind: pa.DataType) -> Any:
    # 4 for 4.0; an error if a value is no number or loses a part, as 4.5 would.
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise TypeError(type(value).__name__)
        # A null among the scores of an item is a score that is missing, and nan one that the model
        # gave.
        floats = pa.types.is_floating(kind.value_type)
        return [
            None if element is None and floats else _exact(element, kind.value_type)
            for element in value
        ]
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
    # `correct` becomes null where `outcome` is unscored, and `outcome` unscored where `correct` is
    # null.
    default = pc.if_else(pc.is_null(columns["correct"]), "unscored: no value in the table", "ok")
    outcome = pc.coalesce(columns["outcome"], default) if "outcome" in columns else default
    unscored = pc.starts_with(outcome, "unscored")
    columns["correct"] = pc.if_else(unscored, pa.scalar(None, pa.bool_()), columns["correct"])
    columns["outcome"] = pc.if_else(
        pc.and_(pc.is_null(columns["correct"]), pc.invert(unscored)), default, outcome
    )


def _drop_impossible_choices(columns: dict[str, Any]) -> tuple[str, ...]:
    # `chosen` becomes null where it is no option; the note has the number of such rows.
    if "chosen" not in columns:
        return ()
    chosen = np.asarray(pc.fill_null(columns["chosen"], NONE), dtype=np.int64)
    is_given = ~np.asarray(pc.is_null(columns["chosen"]))
    k = (
        np.asarray(pc.fill_null(columns["k"], NONE), dtype=np.int64)
        if "k" in columns
        else np.full(len(chosen), NONE)
    )
    impossible = is_given & ((chosen < 0) | ((k != NONE) & (chosen >= k)))
    columns["chosen"] = pa.array(chosen, type=pa.int32(), mask=impossible | ~is_given)
    count = int(impossible.sum())
    return (
        (f"{count:,} chosen options are outside their items' options and count as no answer",)
        if count
        else ()
    )


def _contradictions(columns: dict[str, Any]) -> tuple[str, ...]:
    # Rows whose `correct` contradicts chosen and gold. Often a column counts from 1.
    if not {"chosen", "gold", "correct"} <= set(columns) or "golds" in columns:
        return ()
    agrees = pc.equal(pc.equal(columns["chosen"], columns["gold"]), columns["correct"])
    count = int(pc.sum(pc.invert(agrees)).as_py() or 0)
    return (
        (f"rows whose `correct` is not what chosen and gold say: {count:,}; both count from 0",)
        if count
        else ()
    )


_SHARES: Final = ("gold_share", "option_mass")


def clean_scores(columns: dict[str, Any]) -> tuple[str, ...]:
    """Set unusable scores to null in place.

    Args:
        columns: Columns of a snapshot by name, as sequences or Arrow arrays; all of one length.

    Returns:
        Notes with their numbers.

    Raises:
        SnapshotError: If a value is impossible; names the first row with one, its item, and the
            remedy.
    """
    scores, checked = dict[str, Any](), dict[str, Any]()
    for name in ("item_id", "k", *BY_OPTION, *_SHARES, "margin"):
        values = columns.get(name)
        if values is None:
            continue
        checked[name] = as_array(values, SCHEMA.field(name).type)
        # A list may hold nothing, as the scores of open answers do.
        if name not in ("item_id", "k") and not (
            isinstance(values, list) and all(value is None for value in values)
        ):
            scores[name] = checked[name]
    # Before anything is cleaned: a note on missing scores would hide the reason.
    check_ranges(pa.table(checked))
    columns |= scores
    notes = [_note_not_finite(columns)] if "choice_logprobs" in scores else []
    notes += [
        _clean_logprobs(columns, name)
        for name in ("choice_logprobs", "choice_priors")
        if name in scores
    ]
    for name in _SHARES:
        if name in scores:
            share = np.asarray(columns[name], np.float64)
            columns[name] = pa.array(np.clip(share, 0.0, 1.0), mask=np.isnan(share))
    if "margin" in scores:
        margin = np.asarray(columns["margin"], np.float64)
        columns["margin"] = pa.array(np.maximum(margin, 0.0), mask=~np.isfinite(margin))
        if infinite := int(np.isinf(margin).sum()):
            notes.append(
                f"margin of {infinite:,} of {len(margin):,} rows is infinite, and counts as missing"
            )
    return tuple(filter(None, notes))


def _note_not_finite(columns: dict[str, Any]) -> str:
    # Answers with nan among their log-likelihoods, or nothing but minus infinity.
    lists = columns["choice_logprobs"]
    values, row = pc.list_flatten(lists), flat_values(lists)[1]
    nan, finite = (
        np.asarray(pc.fill_null(test(values), False)) for test in (pc.is_nan, pc.is_finite)
    )
    is_nan, is_finite, has_value = (
        np.bincount(row[which], minlength=len(lists)) > 0
        for which in (nan, finite, np.asarray(values.is_valid()))
    )
    right = as_array(columns["correct"], pa.bool_())
    broken = pa.array((is_nan | (has_value & ~is_finite)) & np.asarray(right.is_valid()))
    if not (number := int(pc.sum(broken).as_py() or 0)):
        return ""
    ok = pa.array(["ok"] * len(right))
    columns["outcome"] = pc.if_else(
        broken, NOT_FINITE, as_array(columns.get("outcome", ok), pa.string())
    )
    columns["correct"] = pc.if_else(broken, pa.scalar(False), right)
    for name, value in (
        ("chosen", None),
        ("gold_share", 0.0),
        ("margin", None),
        ("choice_logprobs", None),
    ):
        if columns.get(name) is not None:
            kind = SCHEMA.field(name).type
            columns[name] = pc.if_else(
                broken, pa.scalar(value, kind), as_array(columns[name], kind)
            )
    return f"answers whose log-likelihoods are not finite, and that count as wrong: {number:,} of {len(right):,}"


def _clean_logprobs(columns: dict[str, Any], name: str) -> str:
    # Lists with nan, or with nothing but minus infinity, become null.
    lists = columns[name]
    values, row = flat_values(lists)  # a null among them is nan
    is_given, finite, unknown = (
        np.bincount(row[which], minlength=len(lists)) > 0
        for which in (np.full(len(row), True), np.isfinite(values), np.isnan(values))
    )
    missing = unknown | (is_given & ~finite)  # plus infinity was refused
    if not missing.any():
        return ""
    columns[name] = pc.if_else(pa.array(missing), pa.scalar(None, lists.type), lists)
    return (
        f"{name} of {int(missing.sum()):,} of {len(lists):,} rows count as missing: they have "
        "no number for an option, or minus infinity for every one"
    )


_BATCH: Final = 4096  # rows
