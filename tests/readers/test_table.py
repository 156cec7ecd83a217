"""Plain tables in three formats, and the errors for bad rows.

Tables with column names of their own, and several files as one snapshot.

Plain tables that are cut, damaged or of odd types: an error of ours, or a snapshot; never anything else.

What a refused table is told: a command only where name and values of each column say what it is.
"""

import gzip
import io
import json
import lzma
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import snapshot, write_jsonl, write_table
from typer.testing import CliRunner

from forgetwatch import compare, load_probe, load_snapshot
from forgetwatch.cli import app
from forgetwatch.errors import MismatchError, ProbeError, SnapshotError
from forgetwatch.files.table_files import parquet_batches
from forgetwatch.grading import patterns
from forgetwatch.readers import mapping
from forgetwatch.readers.joining import concatenate
from forgetwatch.readers.mapping import ColumnMap, read_mapped
from forgetwatch.snapshot import NONE

ROWS: list[dict[str, Any]] = [
    {
        "item_id": "007",
        "task": "t",
        "category": "c",
        "k": 4,
        "gold": 1,
        "chosen": 1,
        "correct": True,
        "note": "x",
    },
    {
        "item_id": "8",
        "task": "t",
        "category": "c",
        "k": 3,
        "gold": 0,
        "chosen": 2,
        "correct": False,
        "note": "y",
    },
    {
        "item_id": "9",
        "task": "u",
        "category": "d",
        **dict.fromkeys(("k", "gold", "chosen", "correct")),
        "note": "",
    },
]
FORMATS = pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])


@FORMATS
def test_every_format_gives_the_same_snapshot(tmp_path: Path, suffix: str) -> None:
    read = load_snapshot(write_table(tmp_path / f"a{suffix}", ROWS))
    assert read.texts("item_id").tolist() == ["007", "8", "9"]
    assert read.table["correct"].to_pylist() == [True, False, None]
    assert read.ints("k").tolist() == [4, 3, NONE]
    assert read.ints("chosen").tolist() == [1, 2, NONE]
    assert read.texts("outcome")[2] == "unscored: no value in the table"
    assert read.meta["source"].endswith(suffix)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_a_packed_table_is_the_table(tmp_path: Path, suffix: str) -> None:
    whole = write_table(tmp_path / f"a{suffix}", ROWS)
    (tmp_path / "a.gz").write_bytes(gzip.compress(whole.read_bytes()))
    assert load_snapshot(tmp_path / "a.gz").table.equals(load_snapshot(whole).table)
    (tmp_path / "a.xz").write_bytes(lzma.compress(whole.read_bytes()))
    with pytest.raises(SnapshotError, match="got a file that xz packed; unpack it first"):
        load_snapshot(tmp_path / "a.xz")


def test_gzip_of_zeros_is_not_unpacked_without_an_end(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(gzip.compress(b"{" + bytes(2**27)))
    with pytest.raises(SnapshotError, match="gzip data that grow to more than"):
        load_snapshot(tmp_path / "a.jsonl")


@pytest.mark.parametrize("name", ["a.txt", "a", "a.parquet.csv"])
def test_the_format_is_recognised_by_content_and_not_by_name(tmp_path: Path, name: str) -> None:
    for made in (
        write_table(tmp_path / "x.jsonl", ROWS),
        write_table(tmp_path / "x.parquet", ROWS),
    ):
        assert len(load_snapshot(made.rename(tmp_path / name))) == 3


@pytest.mark.parametrize(
    "values", [["1", "0"], ["True", "false"], [1, 0], [1.0, 0.0], [True, False], ["1.0", " 0 "]]
)
def test_correct_may_be_written_in_several_ways(tmp_path: Path, values: list[Any]) -> None:
    path = write_jsonl(
        tmp_path / "a.jsonl", [{"item_id": str(i), "correct": v} for i, v in enumerate(values)]
    )
    assert load_snapshot(path).floats("correct").tolist() == [1.0, 0.0]


def test_a_choice_outside_the_options_becomes_no_answer_and_is_counted(tmp_path: Path) -> None:
    rows = [
        {**ROWS[0], "item_id": str(i), "chosen": chosen}
        for i, chosen in enumerate((4, -2, 3, None))
    ]
    read = load_snapshot(write_table(tmp_path / "a.parquet", rows))
    assert read.ints("chosen").tolist() == [NONE, NONE, 3, NONE]
    assert (
        read.notes[0] == "2 chosen options are outside their items' options and count as no answer"
    )


def test_rows_that_contradict_themselves_are_counted(tmp_path: Path) -> None:
    rows = [
        {**ROWS[0], "item_id": str(i), "gold": 2, "chosen": chosen, "correct": correct}
        for i, (chosen, correct) in enumerate(
            ((2, True), (1, True), (2, False), (None, False), (1, None))
        )
    ]
    read = load_snapshot(write_table(tmp_path / "a.parquet", rows))
    assert read.notes == (
        "rows whose `correct` is not what chosen and gold say: 2; both count from 0",
    )


def test_another_tools_prompt_hash_is_kept_under_its_own_name(tmp_path: Path) -> None:
    read = load_snapshot(
        write_jsonl(tmp_path / "a.jsonl", [{"item_id": "1", "correct": 1, "prompt_hash": "p"}])
    )
    assert read.missing("prompt_hash")
    assert read.texts("source_prompt_hash").tolist() == ["p"]


@FORMATS
def test_lists_are_read_from_every_format(tmp_path: Path, suffix: str) -> None:
    rows = [{"item_id": "1", "correct": 1, "choice_logprobs": [-1.0, -2.5]}]
    read = load_snapshot(write_table(tmp_path / f"a{suffix}", rows))
    assert read.table["choice_logprobs"].to_pylist() == [[-1.0, -2.5]]


def test_a_row_with_an_unscored_outcome_is_never_counted(tmp_path: Path) -> None:
    rows = [
        {"item_id": "a", "correct": 0, "outcome": "unscored: too long"},
        {"item_id": "b", "correct": 1, "outcome": "truncated"},
        {"item_id": "c", "correct": None, "outcome": "ok"},
    ]
    read = load_snapshot(write_jsonl(tmp_path / "a.jsonl", rows))
    assert read.table["correct"].to_pylist() == [None, True, None]
    assert read.texts("outcome").tolist() == [
        "unscored: too long",
        "truncated",
        "unscored: no value in the table",
    ]


@FORMATS
@pytest.mark.parametrize("absent", [None, float("nan")])
def test_whole_numbers_may_have_a_point_and_not_a_number_is_no_value(
    tmp_path: Path, suffix: str, absent: float | None
) -> None:
    rows = [{"item_id": "a", "correct": 1, "k": 4.0}, {"item_id": "b", "correct": 1, "k": absent}]
    assert load_snapshot(write_table(tmp_path / f"a{suffix}", rows)).ints("k").tolist() == [4, NONE]


def test_jsonl_may_have_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('\ufeff{"item_id": "a", "correct": 1}\n', encoding="utf-8")
    assert len(load_snapshot(tmp_path / "a.jsonl")) == 1


def test_a_csv_may_begin_with_an_empty_line_and_have_long_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"\nitem_id,correct,output\n007,1,{'x' * 2_000_000}\n")
    assert load_snapshot(tmp_path / "a.csv").texts("item_id").tolist() == ["007"]


def test_a_csv_may_have_a_byte_order_mark_quotes_and_line_breaks_in_cells(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('﻿item_id,correct,output\n"a,1",1,"two\nlines"\n')
    read = load_snapshot(tmp_path / "a.csv")
    assert (read.texts("item_id")[0], read.texts("output")[0]) == ("a,1", "two\nlines")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("dup.csv", "item_id,correct\na,1\na,0\n", "'a' is twice"),
        ("empty.csv", "item_id,correct\n", "no rows"),
        ("nothing.csv", "", "the file is empty"),
        (
            "type.csv",
            "item_id,correct\na,1\nb,maybe\n",
            "row 2: correct must be a score from 0 to 1, true, false, a word such as pass or "
            "fail, or empty, got 'maybe'",
        ),
        (
            "half.csv",
            "item_id,correct\na,1.5\n",
            "correct has values from 1.5 to 1.5; needed 0 to 1",
        ),
        (
            "columns.csv",
            "question,answer\nx,y\n",
            "item_id is missing; its columns are question, answer; .*--map item_id=",
        ),
        ("ragged.csv", "item_id,correct\na,1,2\n", "needed a table in CSV, and it cannot be read"),
        ("id.csv", "item_id,correct\n,1\n", "'item_id' has 1 empty"),
        ("k.csv", "item_id,correct,k\na,1,four\n", "row 1: k must be int32, got 'four'"),
        ("under.csv", "item_id,correct,k\na,1,4_0\n", "row 1: k must be int32, got '4_0'"),
        (
            "gold.csv",
            "item_id,correct,k,gold\na,1,3,3\n",
            "needed one of its 3 options as gold, got 3",
        ),
        (
            "cut.jsonl",
            '{"item_id": "a", "correct": 1}\n{"item_id": "b", "corr',
            "line 2: not a JSON object.*is the file cut",
        ),
        ("list.jsonl", '{"item_id": "a", "correct": 1}\n[1]\n', "of named values, got list"),
        ("nested.jsonl", '{"item_id": {"a": 1}, "correct": 1}\n', "row 1: item_id must be string"),
        (
            "half-k.jsonl",
            '{"item_id": "a", "correct": 1, "k": 4.5}\n',
            "row 1: k must be int32, got '4.5'",
        ),
        (
            "quote.csv",
            'item_id,correct,output\na,1,"x\nb,0,y\n',
            "a quote is opened and never closed",
        ),
        ("twice.csv", "item_id,correct,note,note\na,1,x,y\n", "'note' occurs twice; rename"),
        ("bom.csv", "\ufeff", "needed a table in CSV, and it cannot be read"),
        ("number.csv", "item_id,correct,choice_logprobs\na,1,5\n", "choice_logprobs must be list"),
        (
            "surrogate.jsonl",
            '{"item_id": "\\ud83d", "correct": 1}\n',
            "row 1: item_id must be string",
        ),
        ("deep.jsonl", '{"item_id": ' + "[" * 100_000, "line 1: not a JSON object"),
        (
            "array.json",
            '[{"item_id": "a", "correct": 1}, 7]',
            "row 2: needed a JSON object of named values, got int",
        ),
        ("cut.json", '[{"item_id": "a", "correct": 1}', "needed ',', got the end of the file"),
        ("emptyid.jsonl", '{"item_id": "", "correct": 1}\n', "item_id is empty"),
        (
            "huge.jsonl",
            '{"item_id": "a", "correct": 1, "k": 99999999999}\n',
            "row 1: k must be int32",
        ),
        (
            "pointer.parquet",
            "version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "Git LFS pointer",
        ),
    ],
)
def test_an_error_names_the_problem_and_its_position(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SnapshotError, match=message) as caught:
        load_snapshot(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"\x93\x00\x7f\xff" * 50, b"PAR1" + b"\x00" * 100, "item_id,ü\n".encode("utf-16")]
)
def test_bytes_that_are_no_table_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "noise.parquet").write_bytes(content)
    with pytest.raises(SnapshotError, match=r"noise\.parquet"):
        load_snapshot(tmp_path / "noise.parquet")


def test_a_cut_parquet_file_is_refused(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.parquet", ROWS)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SnapshotError, match="is it cut"):
        load_snapshot(path)


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="a folder that contains neither"):
        load_snapshot(tmp_path)
    with pytest.raises(SnapshotError, match="no such file"):
        load_snapshot(tmp_path / "none.csv")


def test_a_key_that_is_there_twice_is_refused_as_in_yaml(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"item_id": "a", "correct": true, "correct": false}')
    with pytest.raises(
        SnapshotError, match=r"log.jsonl, line 1: the key 'correct' is in one object twice$"
    ):
        load_snapshot(tmp_path / "log.jsonl")
    item = (
        '{"id": "a", "task": "t", "prompt": "Q", "choices": ["x", "y"], "answer": 0, "answer": 1}'
    )
    (tmp_path / "probe.jsonl").write_text(item)
    with pytest.raises(ProbeError, match="the key 'answer' is in one object twice"):
        load_probe(str(tmp_path / "probe.jsonl"))


def test_one_array_of_rows_is_read_as_lines_are(tmp_path: Path) -> None:
    rows = [{"item_id": str(n), "correct": n % 2, "remark": "x"} for n in range(5)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=1))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert load_snapshot(tmp_path / "a.json").table == load_snapshot(tmp_path / "b.jsonl").table


@pytest.mark.parametrize(
    ("spelled", "shown"), [("{}.0", "'1' and '1.0'"), ("00{}", "'1' and '001'")]
)
def test_ids_that_are_spelled_unlike_are_named(tmp_path: Path, spelled: str, shown: str) -> None:
    for side, name in (("a", "{}"), ("b", spelled)):
        rows = [f"{name.format(n)},1" for n in range(1, 4)]
        (tmp_path / f"{side}.csv").write_text("\n".join(["item_id,correct", *rows]))
    with pytest.raises(
        MismatchError, match=f"3 ids are spelled unlike, such as {shown}; write them alike"
    ):
        compare(before=tmp_path / "a.csv", after=tmp_path / "b.csv")


ROWS_OF_MAPPING: list[dict[str, Any]] = [
    {
        "q": f"Is {number} prime?",
        "truth": truth,
        "who": who,
        "reply": reply,
        "marks": {"small.model": {"ok": ok}},
    }
    for number, truth, who, reply, ok in (
        (7, "yes", "a", "Let me see. [Yes]", True),
        (8, "no", "a", "yes or no? It is No", 0),
        (7, "yes", "b", "No.", 1),
        (8, "no", "b", None, None),
    )
]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".json", ".parquet"])
def test_answers_are_graded_by_their_last_match(tmp_path: Path, suffix: str) -> None:
    path = write_table(
        tmp_path / f"log{suffix}",
        [{name: row[name] for name in row if name != "marks"} for row in ROWS_OF_MAPPING],
    )
    columns = ColumnMap(
        fields={"question": "q", "gold": "truth", "output": "reply"},
        where={"who": "a"},
        constants={"k": "2", "task": "prime"},
        match=r"regex:\b(yes|no)\b",
    )
    read = read_mapped(path, columns)
    assert read.table["correct"].to_pylist() == [True, True]
    assert (read.ints("k").tolist(), read.texts("task").tolist()) == ([2, 2], ["prime", "prime"])
    other = read_mapped(path, ColumnMap(**{**vars(columns), "where": {"who": "b"}}))
    assert other.table["correct"].to_pylist() == [False, None if suffix != ".csv" else False]
    assert other.texts("content_hash").tolist() == read.texts("content_hash").tolist()
    whole = compare(before=read, after=other)
    assert (whole.all.forgotten, whole.items.unscored) == ((1, 1) if suffix != ".csv" else (2, 0))


def test_rows_whose_pattern_reaches_its_limit_are_unscored_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.2)
    rows = [
        {"id": n, "truth": "ab", "reply": reply}
        for n, reply in enumerate(["c", *["a" * 60 + "b"] * 2])
    ]
    path = write_jsonl(tmp_path / "log.jsonl", rows)
    read = read_mapped(
        path,
        ColumnMap(
            fields={"item_id": "id", "gold": "truth", "output": "reply"}, match="regex:(a|aa)+$"
        ),
    )
    assert read.table["correct"].to_pylist() == [False, None, None]
    assert read.texts("outcome").tolist() == [
        "ok",
        *["unscored: its pattern took longer than 0.2 s"] * 2,
    ]


def test_a_field_path_enters_objects_whose_names_have_dots(tmp_path: Path) -> None:
    path = write_table(tmp_path / "log.jsonl", ROWS_OF_MAPPING)
    read = read_mapped(
        path,
        ColumnMap(
            fields={"item_id": "reply", "correct": "marks.small.model.ok"}, where={"who": "a"}
        ),
    )
    assert read.table["correct"].to_pylist() == [True, False]
    listed = write_jsonl(tmp_path / "l.jsonl", [{"id": 1, "runs": [{"ok": 0}, {"ok": 1}]}])
    assert (
        read_mapped(listed, ColumnMap(fields={"item_id": "id", "correct": "runs.1.ok"}))
        .table["correct"][0]
        .as_py()
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"fields": {"item_id": "q", "correct": "rigth"}},
            "correct is mapped to 'rigth', and no row has that field; the first has q",
        ),
        (
            {"fields": {"item_id": "q"}, "where": {"who": "c"}},
            "none of its 4 rows has who=c; in the file who is 'a', 'b'",
        ),
        ({"fields": {"item_id": "q"}}, "--map correct=COLUMN of 0 and 1"),
        (
            {"fields": {"item_id": "q", "correct": "truth"}},
            "item_id 'Is 7 prime?' is twice in task ''",
        ),
        (
            {"fields": {"question": "q", "gold": "truth", "output": "reply"}, "match": "regex:(a"},
            "regular expression",
        ),
        (
            {"fields": {"question": "q", "gold": "truth", "output": "reply"}, "match": "number"},
            "needs a number",
        ),
    ],
)
def test_a_field_or_value_that_does_not_fit_is_named(
    tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    path = write_table(tmp_path / "log.jsonl", ROWS_OF_MAPPING)
    with pytest.raises(SnapshotError) as caught:
        read_mapped(path, ColumnMap(**columns))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"fields": {"right": "q"}}, "unknown column 'right'"),
        ({"fields": {"k": "q"}, "constants": {"k": "2"}}, "both mapped and set"),
        (
            {"fields": {"output": "q"}, "match": "number"},
            "grades output by gold, and gold is not mapped",
        ),
    ],
)
def test_unknown_or_contradictory_columns_are_refused(
    columns: dict[str, Any], message: str
) -> None:
    with pytest.raises(SnapshotError, match=message):
        ColumnMap(**columns)


@pytest.mark.parametrize(
    "text",
    ['{"a": 1}\n{"a": ', "a,b\n1,2,3\n", "[1, 2]", '{"a": 1}\n[2]\n', '[{"a": 1}', "a\n\0\n"],
)
def test_cut_and_malformed_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(SnapshotError, match="log"):
        read_mapped(path, ColumnMap(fields={"item_id": "a", "correct": "a"}))


def test_the_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n\n[2]\n')
    with pytest.raises(
        SnapshotError, match="line 3: needed a JSON object of named values, got list"
    ):
        read_mapped(path, ColumnMap(fields={"item_id": "a", "correct": "a"}))


def test_a_column_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("id,ok,ok\n1,0,1\n")
    with pytest.raises(SnapshotError, match="the column 'ok' occurs twice in the header"):
        read_mapped(path, ColumnMap(fields={"item_id": "id", "correct": "ok"}))


def test_files_without_ids_are_joined_by_their_questions(tmp_path: Path) -> None:
    columns = ColumnMap(fields={"question": "q", "correct": "ok"}, by_order=True)
    one, other = (
        read_mapped(
            write_jsonl(tmp_path / f"{name}.jsonl", [{"q": q, "ok": 1} for q in questions]), columns
        )
        for name, questions in (("one", "aab"), ("other", "cd"))
    )
    assert len(concatenate([one, other])) == 5
    assert one.texts("item_id")[1] == f"{one.texts('item_id')[0]}#2"
    with pytest.raises(SnapshotError, match="is twice"):
        concatenate([one, one])
    again = read_mapped(
        write_jsonl(tmp_path / "again.jsonl", [{"q": q, "ok": 0} for q in "baa"]), columns
    )
    samples = compare(
        before=concatenate([one, again], as_samples=True),
        after=concatenate([again, one], as_samples=True),
    )
    assert (samples.all.n, samples.all.forgotten, samples.all.gained) == (3, 1.5, 1.5)


def test_a_question_that_recurs_is_told_apart_by_what_belongs_to_it(tmp_path: Path) -> None:
    """Equal outcomes in another order of rows: nothing flips."""
    rows = [
        {
            "query": "Which is true?",
            "options": [f"{at}a", f"{at}b"],
            "passage": f"p{at % 3}",
            "ok": at % 4 > 0,
        }
        for at in range(40)
    ]
    columns = ColumnMap(fields={"question": "query", "correct": "ok"})
    one, other = (
        read_mapped(write_jsonl(tmp_path / f"{name}.jsonl", given), columns)
        for name, given in (("one", rows), ("other", rows[::-1]))
    )
    found = compare(before=one, after=other).all
    assert (found.n, found.forgotten, found.gained) == (40, 0, 0)


def test_equal_questions_are_not_paired_by_their_order_unless_it_is_asked_for(
    tmp_path: Path,
) -> None:
    rows = [{"q": "Which is true?", "note": f"n{at}", "ok": 1} for at in range(5)]
    path = write_jsonl(tmp_path / "log.jsonl", rows)
    fields = {"question": "q", "correct": "ok"}
    with pytest.raises(
        SnapshotError, match=r"4 of 5 rows have the question of another one.*--pair-by order"
    ):
        read_mapped(path, ColumnMap(fields=fields))
    assert len(read_mapped(path, ColumnMap(fields=fields, by_order=True))) == 5
    assert len(read_mapped(path, ColumnMap(fields={**fields, "item_id": "note"}))) == 5


def test_files_of_several_models_get_a_note() -> None:
    files = [snapshot([True], item_id=[name], meta={"model": name}) for name in "ba"]
    assert concatenate(files).notes == ("its files are of several models: a, b",)
    assert concatenate([files[0], snapshot([True], item_id=["c"])]).notes == ()


def test_files_of_several_seeds_are_samples_of_one_item(tmp_path: Path) -> None:
    seeds = [
        load_snapshot(
            write_jsonl(tmp_path / f"{seed}.jsonl", [{"item_id": "1", "correct": seed % 2}])
        )
        for seed in range(3)
    ]
    read = concatenate(seeds, as_samples=True)
    assert (read.ints("sample").tolist(), read.table["correct"].to_pylist()) == (
        [0, 1, 2],
        [False, True, False],
    )
    with pytest.raises(SnapshotError, match="is twice"):
        concatenate(seeds)
    with pytest.raises(SnapshotError, match="several samples already"):
        concatenate([read, read], as_samples=True)


def test_the_command_writes_what_compare_reads(tmp_path: Path) -> None:
    path = write_table(tmp_path / "log.jsonl", ROWS_OF_MAPPING)
    for who in "ab":
        given = [
            "--map",
            "question=q",
            "--map",
            "correct=marks.small.model.ok",
            "--where",
            f"who={who}",
        ]
        done = CliRunner().invoke(
            app, ["convert", str(path), *given, "-o", str(tmp_path / f"{who}.parquet")]
        )
        assert done.exit_code == 0, done.output
    assert "2 rows, 100.0 % right, 1 unscored" in done.output
    whole = compare(before=tmp_path / "a.parquet", after=tmp_path / "b.parquet")
    assert (whole.all.n, whole.all.retained, whole.items.unscored) == (1, 1, 1)


def test_real_tables_of_four_systems(real_data: Path, tmp_path: Path) -> None:
    gsm8k = real_data / "gsm8k" / "example_model_solutions.jsonl"
    sides = [
        read_mapped(
            gsm8k,
            ColumnMap(
                fields={
                    "question": "question",
                    "correct": f"{name}.is_correct",
                    "output": f"{name}.solution",
                }
            ),
        )
        for name in ("6b_finetuning", "6b_verification")
    ]
    found = compare(before=sides[0], after=sides[1]).all
    assert (found.n, found.forgotten, found.gained) == (1319, 64, 293)
    prime = real_data / "llmdrift" / "PRIME_FULL_EVAL.csv"
    sides = [
        read_mapped(
            prime,
            ColumnMap(
                fields={
                    "item_id": "id",
                    "question": "query",
                    "output": "answer",
                    "gold": "ref_answer",
                },
                where={"model": f"openaichat/gpt-4-{version}"},
                constants={"k": "2"},
                match=r"regex:\b(yes|no)\b",
            ),
        )
        for version in ("0314", "0613")
    ]
    found = compare(before=sides[0], after=sides[1]).all
    assert (found.n, found.forgotten, found.gained) == (1000, 476, 147)
    assert (found.accuracy_before, found.accuracy_after) == (0.840, 0.511)
    assert found.chance.paper is not None
    assert found.chance.paper.forgetting == pytest.approx(0.397760, abs=1e-9)


SEVERAL = [
    {"item_id": f"q{n}", "correct": "10"[(n + len(name)) % 2], "k": 4, "model": name, "seed": seed}
    for name in ("a", "bb", "c")
    for seed in (1, 2)
    for n in range(4)
]
"""Outcomes of several models and seeds in one table, whose columns have the names of a snapshot's."""


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_part_of_a_table_keeps_its_columns(tmp_path: Path, suffix: str) -> None:
    path = write_table(tmp_path / f"all{suffix}", SEVERAL)
    read = read_mapped(
        path, ColumnMap(where={"model": "bb", "seed": "1"}, constants={"task": "own"})
    )
    assert read.texts("item_id").tolist() == ["q0", "q1", "q2", "q3"]
    assert read.table["correct"].to_pylist() == [True, False, True, False]
    assert (set(read.texts("task")), set(read.ints("k"))) == ({"own"}, {4})
    with pytest.raises(
        SnapshotError, match=r"none of its 24 rows has model=d; in the file model is 'a', 'bb', 'c'"
    ):
        read_mapped(path, ColumnMap(where={"model": "d"}))


@pytest.mark.parametrize(
    ("fields", "read"),
    [
        ({}, {"item_id", "correct", "k", "model", "seed"}),
        ({"item_id": "item_id", "correct": "correct"}, {"item_id", "correct", "model", "seed"}),
    ],
)
def test_row_groups_that_cannot_have_a_wanted_row_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, str], read: set[str]
) -> None:
    pq.write_table(pa.Table.from_pylist(SEVERAL), tmp_path / "all.parquet", row_group_size=8)
    decoded = []

    def spied(path: Path, **options: Any) -> Any:
        decoded.append((options["groups"], set(options["columns"])))
        return parquet_batches(path, **options)

    monkeypatch.setattr(mapping, "parquet_batches", spied)
    found = read_mapped(
        tmp_path / "all.parquet", ColumnMap(fields=fields, where={"model": "bb", "seed": "2"})
    )
    # Of seeds, which are numbers, any group may have a wanted row.
    assert decoded == [([1], read)]
    assert len(found) == 4


def test_a_selection_without_rows_names_what_all_row_groups_have(tmp_path: Path) -> None:
    rows = [
        {"item_id": f"q{n}", "correct": "1", "model": "abcz"[n // 4] if n % 4 else None}
        for n in range(16)
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "all.parquet", row_group_size=8)
    # Between c and z: the first row group cannot have it, the second may.
    expected = r"none of its 16 rows has model=m; in the file model is '', 'a', 'b', 'c', 'z'"
    for fields in ({}, {"item_id": "item_id", "correct": "correct"}):
        with pytest.raises(SnapshotError, match=expected):
            read_mapped(tmp_path / "all.parquet", ColumnMap(fields=fields, where={"model": "m"}))
    pq.write_table(pa.Table.from_pylist(rows).slice(0, 0), tmp_path / "empty.parquet")
    with pytest.raises(SnapshotError, match="the table has no rows"):
        read_mapped(tmp_path / "empty.parquet", ColumnMap(where={"model": "a"}))


def test_a_damaged_or_odd_parquet_file_is_refused_in_one_sentence(tmp_path: Path) -> None:
    columns = {
        name: [row[name] for row in SEVERAL * 50] for name in ("item_id", "correct", "model")
    }
    path = tmp_path / "whole.parquet"
    pq.write_table(pa.table(columns), path, compression="none")
    content = path.read_bytes()
    named = {"item_id": "item_id", "correct": "correct"}
    wanted = [ColumnMap(fields=fields, where={"model": "a"}) for fields in ({}, named)]
    refused = 0
    for at in range(4, len(content) - 8, len(content) // 40):
        damaged = tmp_path / "damaged.parquet"
        damaged.write_bytes(content[:at] + b"\xff" * 40 + content[at + 40 :])
        for one in wanted:
            try:
                read_mapped(damaged, one)
            except SnapshotError as error:
                refused += str(error).startswith(f"{damaged}: ")
    assert refused > 20
    broken = pa.array([b"q\xff", b"q1"])
    text = pa.Array.from_buffers(pa.string(), 2, broken.buffers())
    pq.write_table(pa.table({"item_id": text, "correct": [True, True], "model": ["a", "a"]}), path)
    for one in wanted:
        with pytest.raises(
            SnapshotError, match=r"whole\.parquet: needed a table in CSV, JSON or Parquet"
        ):
            read_mapped(path, one)


@pytest.mark.parametrize(
    ("values", "wanted", "others"),
    [
        ([["a"], ["b"]], '["a"]', '["b"]'),
        ([{"x": 1}, {"x": 2}], '{"x": 1}', '{"x": 2}'),
        ([1.0, 2.5], "1.0", "2.5"),
        ([True, False], "true", "false"),
        ([1, None], "1", None),
    ],
)
def test_a_field_of_any_type_selects_rows_by_its_text_in_json(
    tmp_path: Path, values: list[Any], wanted: str, others: str | None
) -> None:
    rows = [{"item_id": f"q{n}", "correct": 1, "field": value} for n, value in enumerate(values)]
    for suffix in (".jsonl", ".parquet"):
        path = write_table(tmp_path / f"all{suffix}", rows)
        assert read_mapped(path, ColumnMap(where={"field": wanted})).texts("item_id").tolist() == [
            "q0"
        ]
        if others is not None:
            assert read_mapped(path, ColumnMap(where={"field": others})).texts(
                "item_id"
            ).tolist() == ["q1"]


MODELS, ITEMS = 6, 50


def written(path: Path, *, group: int = ITEMS, order: Any = None) -> Path:
    """Rows of several models, sorted by model unless an order is given."""
    model, row = np.repeat(np.arange(MODELS), ITEMS), np.arange(MODELS * ITEMS)
    columns = {
        "model": [f"m{n}" for n in model],
        "size": model,
        "tuned": model % 2 == 1,
        "text": ["x" * 100] * len(row),
    }
    table = pa.table({**columns, "id": [f"q{n % ITEMS}" for n in row], "right": row % 7 < 3})
    pq.write_table(table if order is None else table.take(order), path, row_group_size=group)
    return path


FIELDS = {"item_id": "id", "correct": "right"}


@pytest.mark.parametrize(
    "where", [{"model": "m3"}, {"size": "3"}, {"tuned": "true", "model": "m3"}]
)
@pytest.mark.parametrize("group", [ITEMS, 7, 1000])
def test_the_rows_of_one_model_are_those_that_a_reading_row_by_row_finds(
    tmp_path: Path, where: dict[str, str], group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shuffled = np.random.default_rng(1).permutation(MODELS * ITEMS)
    for order in (None, shuffled):
        path = written(tmp_path / "all.parquet", group=group, order=order)
        columns = ColumnMap(fields=FIELDS, where=where, constants={"k": "4"})
        found = read_mapped(path, columns)
        with monkeypatch.context() as patch:
            patch.setattr(mapping, "_are_columns", lambda *_: False)
            assert read_mapped(path, columns).checksum == found.checksum
        assert len(found) == ITEMS


@pytest.mark.parametrize(
    "where", [{"model": "m9"}, {"size": "03"}, {"size": "x"}, {"tuned": "yes"}]
)
def test_a_value_that_is_not_there_is_refused(tmp_path: Path, where: dict[str, str]) -> None:
    path = written(tmp_path / "all.parquet")
    with pytest.raises(SnapshotError, match="none of its 300 rows has"):
        read_mapped(path, ColumnMap(fields=FIELDS, where=where))


DETAILS = {"type": "GEN"} | {str(n): {"prompt": f"Q{n}?", "right": n % 3 == 0} for n in range(7)}


@pytest.mark.parametrize(
    ("document", "rows"),
    [
        ({"accuracy": 1.0, "details": DETAILS}, "details"),
        ({"run": {"details": DETAILS}}, "run.details"),
        ({"details": [DETAILS[str(n)] for n in range(7)]}, "details"),
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_rows_within_a_document_are_read(
    tmp_path: Path, document: Any, rows: str, indent: int | None
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document, indent=indent))
    with pytest.raises(
        SnapshotError, match=f"7 rows in '{rows}', each with prompt, right; .* --rows {rows}, and"
    ):
        load_snapshot(path)
    columns = ColumnMap(fields={"question": "prompt", "correct": "right"}, rows=rows)
    assert read_mapped(path, columns).table["correct"].to_pylist() == [n % 3 == 0 for n in range(7)]
    with pytest.raises(SnapshotError, match="no rows at 'elsewhere'; the document has "):
        read_mapped(path, replace(columns, rows="elsewhere"))


def test_rows_of_each_line_and_the_names_of_members_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        "".join(
            json.dumps({"of": {f"{half}{n}": {"right": n} for n in (0, 1)}}) + "\n" for half in "xy"
        )
    )
    read = read_mapped(path, ColumnMap(fields={"item_id": "key", "correct": "right"}, rows="of"))
    assert read.texts("item_id").tolist() == ["x0", "x1", "y0", "y1"]
    path.write_text('{"of": [1]}')
    with pytest.raises(SnapshotError, match="row 1 of of: needed an object, got int"):
        read_mapped(path, ColumnMap(fields={"item_id": "key", "correct": "right"}, rows="of"))


def test_a_table_with_semicolons_is_mapped(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\ufeffname;ok\na;1\nb;0\n", encoding="utf-8")
    read = read_mapped(tmp_path / "a.csv", ColumnMap(fields={"item_id": "name", "correct": "ok"}))
    assert read.floats("correct").tolist() == [1, 0]


def test_an_answer_without_a_score_is_wrong_if_the_user_says_so(tmp_path: Path) -> None:
    path = write_jsonl(
        tmp_path / "a.jsonl",
        [{"q": f"Q{n}?", "a": "A", "pred": "A" if n else None} for n in range(4)],
    )
    arguments = [
        "convert",
        str(path),
        "--map",
        "question=q",
        "--map",
        "gold=a",
        "--map",
        "output=pred",
    ]
    arguments += ["--match", "exact", "-o", str(tmp_path / "a.parquet")]
    for null, correct in (
        ("unscored", [None, True, True, True]),
        ("wrong", [False, True, True, True]),
    ):
        done = CliRunner().invoke(app, [*arguments, "--null", null])
        read = load_snapshot(tmp_path / "a.parquet")
        assert read.table["correct"].to_pylist() == correct
    assert read.texts("outcome").tolist() == ["no answer", "ok", "ok", "ok"]
    assert "note: answers without a score that count as wrong (--null wrong): 1 of 4" in done.output


ROWS_OF_DAMAGED_TABLES = [
    {
        "item_id": str(n),
        "task": "t",
        "k": 4,
        "gold": n % 4,
        "chosen": 1,
        "correct": n % 2 == 0,
        "output": 'a,\nb"é',
    }
    for n in range(6)
]


def _parquet() -> bytes:
    made = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS_OF_DAMAGED_TABLES), made)
    return made.getvalue()


WHOLE = {
    "csv": b"item_id,correct,k,gold,output\n"
    + b"".join(b'%d,%d,4,2,"x,\ny"\n' % (n, n % 2) for n in range(6)),
    "jsonl": "".join(json.dumps(row) + "\n" for row in ROWS_OF_DAMAGED_TABLES).encode(),
    "json": json.dumps(ROWS_OF_DAMAGED_TABLES).encode(),
    "parquet": _parquet(),
}
ODD = st.sampled_from(
    [*(b"\x00", b"\xff\xfe", b"1e400", b"9" * 400, b"null", b"[", b'"', b"{" * 3000, b"-1", b"true", b"\n"),
     *(b"\xed\xa0\x80", b"")]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, kind: str) -> bytes:
    whole = WHOLE[kind]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, max(0, len(whole) - 1)))
        end = draw(st.integers(start, min(len(whole), start + 40)))
        whole = whole[:start] + draw(ODD) + whole[end:]
    return whole[: draw(st.integers(len(whole) // 2, len(whole)))] if draw(st.booleans()) else whole


@pytest.mark.parametrize("kind", WHOLE)
@settings(derandomize=True, max_examples=120, deadline=None)
@given(data=st.data())
def test_a_damaged_table_is_an_error_of_ours_or_a_snapshot(kind: str, data: st.DataObject) -> None:
    content = data.draw(damaged(kind))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"log.{kind}"
        path.write_bytes(content)
        for columns in (
            None,
            ColumnMap(fields={"item_id": "item_id", "correct": "correct", "question": "output"}),
            ColumnMap(
                fields={"question": "item_id", "output": "output", "gold": "k"}, match="number"
            ),
        ):
            try:
                read = load_snapshot(path) if columns is None else read_mapped(path, columns)
                message = f"log., {len(read)} rows"
            except SnapshotError as error:
                message = str(error)
            assert "log." in message


N = 12
HALF = [at % 2 for at in range(N)]
IDS = [f"q{at}" for at in range(N)]
ASKED = {"question": [f"What is {at} plus 1?" for at in range(N)]}


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def told(path: Path) -> str:
    with pytest.raises(SnapshotError) as caught:
        load_snapshot(path)
    return str(caught.value)


@pytest.mark.parametrize(
    "columns",
    [
        {"step": [0] * N},
        {"turn": [1] * N},
        {"rank": HALF},
        {"index_in_batch": HALF},
        {"agreement": HALF},
        {"label": HALF},
        {"is_long": HALF},
        {"epoch": HALF},
        {"seed": HALF},
        {"annotator_1": HALF},
        {"truncated": [False] * N},
        {"flagged": HALF},
        {"worker": HALF},
        {"judge_vote": HALF, "pass_number": [1] * N},
        {"output": ["It is 7."] * N, "label": HALF},
    ],
)
def test_no_outcome_is_proposed_where_none_is_certain(
    tmp_path: Path, columns: dict[str, list[Any]]
) -> None:
    said = told(write(tmp_path / "log.jsonl", {"id": IDS, **ASKED, **columns}))
    assert "--map correct=COLUMN" in said
    assert "if meant" not in said
    assert all(name in said for name in columns)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"score": [-1.0, 1.0] * (N // 2), "step": [0] * N}, "correct=score --scale -1,1 -o"),
        ({"score": list(range(N)), "turn": [1] * N}, "or of scores with --scale LOW,HIGH"),
        ({"reward": [0.25, 0.5] * (N // 2)}, "correct=reward -o"),
        ({"rewards": [[0.0, 1.0], [0.0, 0.0]] * (N // 2)}, "correct=rewards -o"),
        ({"jailbroken": HALF}, "correct=jailbroken --lower-is-better -o"),
        ({"is_wrong": HALF, "turn": [1] * N}, "correct=is_wrong --lower-is-better -o"),
    ],
)
def test_a_score_is_proposed_with_its_scale_and_sign(
    tmp_path: Path, columns: dict[str, list[Any]], words: str
) -> None:
    said = told(write(tmp_path / "log.jsonl", {"id": IDS, **ASKED, **columns}))
    assert words in said
    assert "=step" not in said
    assert "=turn" not in said


def test_without_names_no_outcome_is_proposed(tmp_path: Path) -> None:
    cells = [IDS, ASKED["question"], HALF, [1] * N, ["7"] * N]
    said = told(
        write(tmp_path / "log.jsonl", {f"x{at}": column for at, column in enumerate(cells)})
    )
    assert "if meant" not in said


@pytest.mark.parametrize(
    ("columns", "pairs"),
    [
        ({"id": IDS, "passed": HALF, "turn": [1] * N}, "--map item_id=id --map correct=passed"),
        (
            {"index": list(range(N)), **ASKED, "acc": HALF},
            "--map question=question --map correct=acc",
        ),
        ({"example_id": IDS, "reward": HALF}, "--map item_id=example_id --map correct=reward"),
        (
            {**ASKED, "predict": ["7"] * N, "label": IDS},
            "--map output=predict --map gold=label --match contains",
        ),
    ],
)
def test_certain_columns_are_proposed(
    tmp_path: Path, columns: dict[str, list[Any]], pairs: str
) -> None:
    assert f"{pairs} -o out.parquet` takes them, if meant" in told(
        write(tmp_path / "log.jsonl", columns)
    )


def test_failures_alone_and_constant_outcomes_are_named(tmp_path: Path) -> None:
    said = told(write(tmp_path / "log.jsonl", {"id": IDS, "valid": [False] * N}))
    assert "'valid' is false in every row: a list of failures only" in said
    assert "'passed' is true in every row; " in told(
        write(tmp_path / "log.jsonl", {"id": IDS, "passed": [1] * N})
    )


def test_rows_with_outputs_are_no_probe(tmp_path: Path) -> None:
    questions = {"prompt": IDS, "answer": ["7"] * N}
    assert "a probe (questions)" in told(write(tmp_path / "log.jsonl", questions))
    assert "a probe" not in told(
        write(tmp_path / "log.jsonl", {**questions, "completion": ["7"] * N})
    )


def sampled(path: Path, outcomes: Sequence[int], *, n: int = 4) -> ColumnMap:
    write(path, {"q": [f"q{at // n}" for at in range(len(outcomes))], "ok": outcomes})
    return ColumnMap(fields={"question": "q", "correct": "ok"}, by_order=True)


def test_answers_to_one_question_are_samples_of_it(tmp_path: Path) -> None:
    outcomes = [int(at % 3 > 0) for at in range(40)]
    sides = []
    for name, right in (("before", outcomes), ("after", outcomes[::-1])):
        path = tmp_path / f"{name}.jsonl"
        sides.append(read_mapped(path, sampled(path, right)))
    found = compare(before=sides[0], after=sides[1])
    assert (found.all.n, found.samples) == (10, 4)


def test_unlike_numbers_of_answers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with pytest.raises(SnapshotError, match="questions have from 3 to 4 of them"):
        read_mapped(path, sampled(path, [0, 1] * 9 + [1]))


def test_a_few_repeated_questions_stay_items(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", {"q": [*IDS, "q0"], "ok": [*HALF, 1]})
    read = read_mapped(path, ColumnMap(fields={"question": "q", "correct": "ok"}, by_order=True))
    assert len(set(read.texts("item_id"))) == N + 1
