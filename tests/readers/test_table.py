"""Plain tables in three formats, and the errors for bad rows."""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from support import write_jsonl, write_table

from forgetwatch import compare, load_probe, load_snapshot
from forgetwatch.errors import MismatchError, ProbeError, SnapshotError
from forgetwatch.snapshot import NONE

ROWS: list[dict[str, Any]] = [
    {"item_id": "007", "task": "t", "category": "c", "k": 4, "gold": 1, "chosen": 1, "correct": True, "note": "x"},
    {"item_id": "8", "task": "t", "category": "c", "k": 3, "gold": 0, "chosen": 2, "correct": False, "note": "y"},
    {"item_id": "9", "task": "u", "category": "d", **dict.fromkeys(("k", "gold", "chosen", "correct")), "note": ""},
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
    for made in (write_table(tmp_path / "x.jsonl", ROWS), write_table(tmp_path / "x.parquet", ROWS)):
        assert len(load_snapshot(made.rename(tmp_path / name))) == 3


@pytest.mark.parametrize("values", [["1", "0"], ["True", "false"], [1, 0], [1.0, 0.0], [True, False], ["1.0", " 0 "]])
def test_correct_may_be_written_in_several_ways(tmp_path: Path, values: list[Any]) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", [{"item_id": str(i), "correct": v} for i, v in enumerate(values)])
    assert load_snapshot(path).floats("correct").tolist() == [1.0, 0.0]


def test_a_choice_outside_the_options_becomes_no_answer_and_is_counted(tmp_path: Path) -> None:
    rows = [{**ROWS[0], "item_id": str(i), "chosen": chosen} for i, chosen in enumerate((4, -2, 3, None))]
    read = load_snapshot(write_table(tmp_path / "a.parquet", rows))
    assert read.ints("chosen").tolist() == [NONE, NONE, 3, NONE]
    assert read.notes[0] == "2 chosen options are outside their items' options and count as no answer"


def test_rows_that_contradict_themselves_are_counted(tmp_path: Path) -> None:
    rows = [
        {**ROWS[0], "item_id": str(i), "gold": 2, "chosen": chosen, "correct": correct}
        for i, (chosen, correct) in enumerate(((2, True), (1, True), (2, False), (None, False), (1, None)))
    ]
    read = load_snapshot(write_table(tmp_path / "a.parquet", rows))
    assert read.notes == ("rows whose `correct` is not what chosen and gold say: 2; both count from 0",)


def test_another_tools_prompt_hash_is_kept_under_its_own_name(tmp_path: Path) -> None:
    read = load_snapshot(write_jsonl(tmp_path / "a.jsonl", [{"item_id": "1", "correct": 1, "prompt_hash": "p"}]))
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
    assert read.texts("outcome").tolist() == ["unscored: too long", "truncated", "unscored: no value in the table"]


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
            "row 2: correct must be 0, 1, true, false or empty, got 'maybe'",
        ),
        ("half.csv", "item_id,correct\na,0.5\n", "got '0.5'"),
        (
            "columns.csv",
            "question,answer\nx,y\n",
            "item_id is missing; its columns are question, answer; .*--map item_id=",
        ),
        ("ragged.csv", "item_id,correct\na,1,2\n", "needed a table in CSV, and it cannot be read"),
        ("id.csv", "item_id,correct\n,1\n", "'item_id' has 1 empty"),
        ("k.csv", "item_id,correct,k\na,1,four\n", "row 1: k must be int32, got 'four'"),
        ("under.csv", "item_id,correct,k\na,1,4_0\n", "row 1: k must be int32, got '4_0'"),
        ("gold.csv", "item_id,correct,k,gold\na,1,3,3\n", "needed one of its 3 options as gold, got 3"),
        (
            "cut.jsonl",
            '{"item_id": "a", "correct": 1}\n{"item_id": "b", "corr',
            "line 2: not a JSON object.*is the file cut",
        ),
        (
            "list.jsonl",
            '{"item_id": "a", "correct": 1}\n[1]\n',
            "of named values, got list",
        ),
        ("nested.jsonl", '{"item_id": {"a": 1}, "correct": 1}\n', "row 1: item_id must be string"),
        ("half-k.jsonl", '{"item_id": "a", "correct": 1, "k": 4.5}\n', "row 1: k must be int32, got '4.5'"),
        ("quote.csv", 'item_id,correct,output\na,1,"x\nb,0,y\n', "a quote is opened and never closed"),
        ("twice.csv", "item_id,correct,note,note\na,1,x,y\n", "'note' occurs twice; rename"),
        ("bom.csv", "\ufeff", "needed a table in CSV, and it cannot be read"),
        ("number.csv", "item_id,correct,choice_logprobs\na,1,5\n", "choice_logprobs must be list"),
        ("surrogate.jsonl", '{"item_id": "\\ud83d", "correct": 1}\n', "row 1: item_id must be string"),
        ("deep.jsonl", '{"item_id": ' + "[" * 100_000, "line 1: not a JSON object"),
        (
            "array.json",
            '[{"item_id": "a", "correct": 1}, 7]',
            "row 2: needed a JSON object of named values, got int",
        ),
        ("cut.json", '[{"item_id": "a", "correct": 1}', "needed ',', got the end of the file"),
        ("emptyid.jsonl", '{"item_id": "", "correct": 1}\n', "item_id is empty"),
        ("huge.jsonl", '{"item_id": "a", "correct": 1, "k": 99999999999}\n', "row 1: k must be int32"),
        ("pointer.parquet", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS pointer"),
    ],
)
def test_an_error_names_the_problem_and_its_position(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SnapshotError, match=message) as caught:
        load_snapshot(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"\x93\x00\x7f\xff" * 50, b"PAR1" + b"\x00" * 100, "item_id,ü\n".encode("utf-16")])
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
    with pytest.raises(SnapshotError, match=r"log.jsonl, line 1: the key 'correct' is in one object twice$"):
        load_snapshot(tmp_path / "log.jsonl")
    item = '{"id": "a", "task": "t", "prompt": "Q", "choices": ["x", "y"], "answer": 0, "answer": 1}'
    (tmp_path / "probe.jsonl").write_text(item)
    with pytest.raises(ProbeError, match="the key 'answer' is in one object twice"):
        load_probe(str(tmp_path / "probe.jsonl"))


def test_one_array_of_rows_is_read_as_lines_are(tmp_path: Path) -> None:
    rows = [{"item_id": str(n), "correct": n % 2, "remark": "x"} for n in range(5)]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=1))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert load_snapshot(tmp_path / "a.json").table == load_snapshot(tmp_path / "b.jsonl").table


@pytest.mark.parametrize(("spelled", "shown"), [("{}.0", "'1' and '1.0'"), ("00{}", "'1' and '001'")])
def test_ids_that_are_spelled_unlike_are_named(tmp_path: Path, spelled: str, shown: str) -> None:
    for side, name in (("a", "{}"), ("b", spelled)):
        rows = [f"{name.format(n)},1" for n in range(1, 4)]
        (tmp_path / f"{side}.csv").write_text("\n".join(["item_id,correct", *rows]))
    with pytest.raises(MismatchError, match=f"3 ids are spelled unlike, such as {shown}; write them alike"):
        compare(before=tmp_path / "a.csv", after=tmp_path / "b.csv")
