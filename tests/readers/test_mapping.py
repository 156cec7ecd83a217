"""Tables with column names of their own, and several files as one snapshot."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import snapshot, write_jsonl, write_table
from typer.testing import CliRunner

from forgetwatch import compare, load_snapshot
from forgetwatch.cli import app
from forgetwatch.errors import SnapshotError
from forgetwatch.files import parquet_batches
from forgetwatch.grading import patterns
from forgetwatch.readers import ColumnMap, concatenate, read_mapped
from forgetwatch.readers import table as mapping

ROWS: list[dict[str, Any]] = [
    {"q": f"Is {number} prime?", "truth": truth, "who": who, "reply": reply, "marks": {"small.model": {"ok": ok}}}
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
        tmp_path / f"log{suffix}", [{name: row[name] for name in row if name != "marks"} for row in ROWS]
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
    rows = [{"id": n, "truth": "ab", "reply": reply} for n, reply in enumerate(["c", *["a" * 60 + "b"] * 2])]
    path = write_jsonl(tmp_path / "log.jsonl", rows)
    read = read_mapped(
        path,
        ColumnMap(fields={"item_id": "id", "gold": "truth", "output": "reply"}, match="regex:(a|aa)+$"),
    )
    assert read.table["correct"].to_pylist() == [False, None, None]
    assert read.texts("outcome").tolist() == ["ok", *["unscored: its pattern took longer than 0.2 s"] * 2]


def test_a_field_path_enters_objects_whose_names_have_dots(tmp_path: Path) -> None:
    path = write_table(tmp_path / "log.jsonl", ROWS)
    read = read_mapped(
        path, ColumnMap(fields={"item_id": "reply", "correct": "marks.small.model.ok"}, where={"who": "a"})
    )
    assert read.table["correct"].to_pylist() == [True, False]
    listed = write_jsonl(tmp_path / "l.jsonl", [{"id": 1, "runs": [{"ok": 0}, {"ok": 1}]}])
    assert read_mapped(listed, ColumnMap(fields={"item_id": "id", "correct": "runs.1.ok"})).table["correct"][0].as_py()


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
            "row 1: correct must be 0, 1, true, false or empty, got 'yes'",
        ),
        (
            {"fields": {"question": "q", "gold": "truth", "output": "reply"}, "match": "regex:(a"},
            "regular expression",
        ),
        ({"fields": {"question": "q", "gold": "truth", "output": "reply"}, "match": "number"}, "needs a number"),
    ],
)
def test_a_field_or_value_that_does_not_fit_is_named(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    path = write_table(tmp_path / "log.jsonl", ROWS)
    with pytest.raises(SnapshotError) as caught:
        read_mapped(path, ColumnMap(**columns))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"fields": {"right": "q"}}, "unknown column 'right'"),
        ({"fields": {"k": "q"}, "constants": {"k": "2"}}, "both mapped and set"),
        ({"fields": {"output": "q"}, "match": "number"}, "grades output by gold, and gold is not mapped"),
    ],
)
def test_unknown_or_contradictory_columns_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(SnapshotError, match=message):
        ColumnMap(**columns)


@pytest.mark.parametrize(
    "text", ['{"a": 1}\n{"a": ', "a,b\n1,2,3\n", "[1, 2]", '{"a": 1}\n[2]\n', '[{"a": 1}', "a\n\0\n"]
)
def test_cut_and_malformed_files_are_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(SnapshotError, match="log"):
        read_mapped(path, ColumnMap(fields={"item_id": "a", "correct": "a"}))


def test_the_line_that_is_no_object_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": 1}\n\n[2]\n')
    with pytest.raises(SnapshotError, match="line 3: needed a JSON object of named values, got list"):
        read_mapped(path, ColumnMap(fields={"item_id": "a", "correct": "a"}))


def test_a_column_that_occurs_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("id,ok,ok\n1,0,1\n")
    with pytest.raises(SnapshotError, match="the column 'ok' occurs twice in the header"):
        read_mapped(path, ColumnMap(fields={"item_id": "id", "correct": "ok"}))


def test_files_without_ids_are_joined_by_their_questions(tmp_path: Path) -> None:
    columns = ColumnMap(fields={"question": "q", "correct": "ok"}, by_order=True)
    one, other = (
        read_mapped(write_jsonl(tmp_path / f"{name}.jsonl", [{"q": q, "ok": 1} for q in questions]), columns)
        for name, questions in (("one", "aab"), ("other", "cd"))
    )
    assert len(concatenate([one, other])) == 5
    assert one.texts("item_id")[1] == f"{one.texts('item_id')[0]}#2"
    with pytest.raises(SnapshotError, match="is twice"):
        concatenate([one, one])
    again = read_mapped(write_jsonl(tmp_path / "again.jsonl", [{"q": q, "ok": 0} for q in "baa"]), columns)
    samples = compare(
        before=concatenate([one, again], as_samples=True), after=concatenate([again, one], as_samples=True)
    )
    assert (samples.all.n, samples.all.forgotten, samples.all.gained) == (3, 1.5, 1.5)


def test_a_question_that_recurs_is_told_apart_by_what_belongs_to_it(tmp_path: Path) -> None:
    """Equal outcomes in another order of rows: nothing flips."""
    rows = [
        {"query": "Which is true?", "options": [f"{at}a", f"{at}b"], "passage": f"p{at % 3}", "ok": at % 4 > 0}
        for at in range(40)
    ]
    columns = ColumnMap(fields={"question": "query", "correct": "ok"})
    one, other = (
        read_mapped(write_jsonl(tmp_path / f"{name}.jsonl", given), columns)
        for name, given in (("one", rows), ("other", rows[::-1]))
    )
    found = compare(before=one, after=other).all
    assert (found.n, found.forgotten, found.gained) == (40, 0, 0)


def test_equal_questions_are_not_paired_by_their_order_unless_it_is_asked_for(tmp_path: Path) -> None:
    rows = [{"q": "Which is true?", "note": f"n{at}", "ok": 1} for at in range(5)]
    path = write_jsonl(tmp_path / "log.jsonl", rows)
    fields = {"question": "q", "correct": "ok"}
    with pytest.raises(SnapshotError, match=r"4 of 5 rows have the question of another one.*--pair-by order"):
        read_mapped(path, ColumnMap(fields=fields))
    assert len(read_mapped(path, ColumnMap(fields=fields, by_order=True))) == 5
    assert len(read_mapped(path, ColumnMap(fields={**fields, "item_id": "note"}))) == 5


def test_files_of_several_models_get_a_note() -> None:
    files = [snapshot([True], item_id=[name], meta={"model": name}) for name in "ba"]
    assert concatenate(files).notes == ("its files are of several models: a, b",)
    assert concatenate([files[0], snapshot([True], item_id=["c"])]).notes == ()


def test_files_of_several_seeds_are_samples_of_one_item(tmp_path: Path) -> None:
    seeds = [
        load_snapshot(write_jsonl(tmp_path / f"{seed}.jsonl", [{"item_id": "1", "correct": seed % 2}]))
        for seed in range(3)
    ]
    read = concatenate(seeds, as_samples=True)
    assert (read.ints("sample").tolist(), read.table["correct"].to_pylist()) == ([0, 1, 2], [False, True, False])
    with pytest.raises(SnapshotError, match="is twice"):
        concatenate(seeds)
    with pytest.raises(SnapshotError, match="several samples already"):
        concatenate([read, read], as_samples=True)


def test_the_command_writes_what_compare_reads(tmp_path: Path) -> None:
    path = write_table(tmp_path / "log.jsonl", ROWS)
    for who in "ab":
        given = ["--map", "question=q", "--map", "correct=marks.small.model.ok", "--where", f"who={who}"]
        done = CliRunner().invoke(app, ["convert", str(path), *given, "-o", str(tmp_path / f"{who}.parquet")])
        assert done.exit_code == 0, done.output
    assert "2 rows, 100.0 % right, 1 unscored" in done.output
    whole = compare(before=tmp_path / "a.parquet", after=tmp_path / "b.parquet")
    assert (whole.all.n, whole.all.retained, whole.items.unscored) == (1, 1, 1)


def test_real_tables_of_four_systems(real_data: Path, tmp_path: Path) -> None:
    gsm8k = real_data / "gsm8k" / "example_model_solutions.jsonl"
    sides = [
        read_mapped(
            gsm8k,
            ColumnMap(fields={"question": "question", "correct": f"{name}.is_correct", "output": f"{name}.solution"}),
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
                fields={"item_id": "id", "question": "query", "output": "answer", "gold": "ref_answer"},
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
    read = read_mapped(path, ColumnMap(where={"model": "bb", "seed": "1"}, constants={"task": "own"}))
    assert read.texts("item_id").tolist() == ["q0", "q1", "q2", "q3"]
    assert read.table["correct"].to_pylist() == [True, False, True, False]
    assert (set(read.texts("task")), set(read.ints("k"))) == ({"own"}, {4})
    with pytest.raises(SnapshotError, match=r"none of its 24 rows has model=d; in the file model is 'a', 'bb', 'c'"):
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
    found = read_mapped(tmp_path / "all.parquet", ColumnMap(fields=fields, where={"model": "bb", "seed": "2"}))
    # Of seeds, which are numbers, any group may have a wanted row.
    assert decoded == [([1], read)]
    assert len(found) == 4


def test_a_selection_without_rows_names_what_all_row_groups_have(tmp_path: Path) -> None:
    rows = [{"item_id": f"q{n}", "correct": "1", "model": "abcz"[n // 4] if n % 4 else None} for n in range(16)]
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
    columns = {name: [row[name] for row in SEVERAL * 50] for name in ("item_id", "correct", "model")}
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
        with pytest.raises(SnapshotError, match=r"whole\.parquet: needed a table in CSV, JSON or Parquet"):
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
        assert read_mapped(path, ColumnMap(where={"field": wanted})).texts("item_id").tolist() == ["q0"]
        if others is not None:
            assert read_mapped(path, ColumnMap(where={"field": others})).texts("item_id").tolist() == ["q1"]


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


@pytest.mark.parametrize("where", [{"model": "m3"}, {"size": "3"}, {"tuned": "true", "model": "m3"}])
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


@pytest.mark.parametrize("where", [{"model": "m9"}, {"size": "03"}, {"size": "x"}, {"tuned": "yes"}])
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
def test_rows_within_a_document_are_read(tmp_path: Path, document: Any, rows: str, indent: int | None) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document, indent=indent))
    with pytest.raises(SnapshotError, match=f"7 rows in '{rows}', each with prompt, right; .* --rows {rows}, and"):
        load_snapshot(path)
    columns = ColumnMap(fields={"question": "prompt", "correct": "right"}, rows=rows)
    assert read_mapped(path, columns).table["correct"].to_pylist() == [n % 3 == 0 for n in range(7)]
    with pytest.raises(SnapshotError, match="no rows at 'elsewhere'; the document has "):
        read_mapped(path, replace(columns, rows="elsewhere"))


def test_rows_of_each_line_and_the_names_of_members_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"of": {f"{half}{n}": {"right": n} for n in (0, 1)}}) + "\n" for half in "xy"))
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
    path = write_jsonl(tmp_path / "a.jsonl", [{"q": f"Q{n}?", "a": "A", "pred": "A" if n else None} for n in range(4)])
    arguments = ["convert", str(path), "--map", "question=q", "--map", "gold=a", "--map", "output=pred"]
    arguments += ["--match", "exact", "-o", str(tmp_path / "a.parquet")]
    for null, correct in (("unscored", [None, True, True, True]), ("wrong", [False, True, True, True])):
        done = CliRunner().invoke(app, [*arguments, "--null", null])
        read = load_snapshot(tmp_path / "a.parquet")
        assert read.table["correct"].to_pylist() == correct
    assert read.texts("outcome").tolist() == ["no answer", "ok", "ok", "ok"]
    assert "note: answers without a score that count as wrong (--null wrong): 1 of 4" in done.output
