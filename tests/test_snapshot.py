import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import snapshot

from forgetwatch import Snapshot, load_snapshot, save_snapshot
from forgetwatch.errors import SnapshotError
from forgetwatch.snapshot import NONE, codes, read_snapshot

FULL: dict[str, Any] = {
    "k": [3, 2, None],
    "gold": [0, 1, None],
    "golds": [[0, 2], None, None],
    "chosen": [1, None, None],
    "choice_logprobs": [[-1.5, -2.0, -3.25], [-0.1, -4.0], None],
    "choice_bytes": [[1, 2, 3], [4, 5], None],
    "margin": [0.5, 3.9, None],
    "unstable": [False, True, None],
    "output": ["é\n", "", None],
}


def test_a_file_returns_the_snapshot_that_was_saved(tmp_path: Path) -> None:
    made = snapshot([True, False, None], meta={"model": "m", "step": 7}, **FULL)
    save_snapshot(made, tmp_path / "s.parquet")
    read = load_snapshot(tmp_path / "s.parquet")
    assert read.table.equals(made.table)
    assert read.checksum == made.checksum
    assert (read.meta["model"], read.meta["step"]) == ("m", 7)


def test_columns_are_arrays_with_documented_nulls() -> None:
    made = snapshot([True, False, None], **FULL)
    assert made.ints("k").tolist() == [3, 2, NONE]
    assert made.floats("correct")[:2].tolist() == [1.0, 0.0]
    assert math.isnan(made.floats("correct")[2])
    assert made.texts("output").tolist() == ["é\n", "", None]
    assert made.missing("free_correct")
    assert not made.missing("margin")


@pytest.mark.parametrize("column", sorted(FULL))
def test_the_checksum_covers_every_column(column: str) -> None:
    made = snapshot([True, False, None], **FULL)
    without = {name: values for name, values in FULL.items() if name != column}
    assert snapshot([True, False, None], **without).checksum != made.checksum


def test_the_checksum_distinguishes_null_empty_and_zero() -> None:
    values = ([None, None], ["", None], [None, ""])
    assert len({snapshot([True, True], output=v).checksum for v in values}) == 3
    assert snapshot([True], margin=[0.0]).checksum != snapshot([True], margin=[None]).checksum
    lists = ([[1, 2], [3]], [[1], [2, 3]])
    assert len({snapshot([True, True], choice_bytes=v).checksum for v in lists}) == 2


def test_a_file_that_was_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    save_snapshot(snapshot([True, False]), path)
    table = pq.read_table(path)
    flipped = table.set_column(
        table.column_names.index("correct"), "correct", pa.array([True, True])
    )
    pq.write_table(flipped.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(SnapshotError, match="changed after it was written"):
        read_snapshot(path)


META = {
    "model": "m",
    "step": 7,
    "probe": {"items": 2, "of": 4},
    "noise": 0.1,
    "batch": {"2": 1, "10": 2},
}


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"step": 70},
            {"step": "7"},
            {"probe": {"items": 1, "of": 4}},
            {"noise": 0.2},
            {"batch": {"2": 1, "10": 3}},
        ),
        *({"model": None}, {"run": "f00d"}, {"checksum": "0" * 32}),
    ],
)
def test_metadata_that_were_changed_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "s.parquet"
    save_snapshot(snapshot([True, False], meta=META), path)
    assert read_snapshot(path).meta["step"] == 7
    table = pq.read_table(path)
    meta = {**json.loads(table.schema.metadata[b"forgetwatch"]), **change}
    pq.write_table(table.replace_schema_metadata({b"forgetwatch": json.dumps(meta).encode()}), path)
    with pytest.raises(SnapshotError, match="changed after it was written"):
        read_snapshot(path)


def test_the_checksum_does_not_depend_on_the_place_of_the_file(tmp_path: Path) -> None:
    made = snapshot(
        [True, False], meta={**META, "batch": {2: 1, 10: 2}}
    )  # a file holds keys as texts
    save_snapshot(made, tmp_path / "one.parquet")
    read = read_snapshot(tmp_path / "one.parquet")
    save_snapshot(read, tmp_path / "two.parquet")
    again = read_snapshot(tmp_path / "two.parquet")
    assert again.meta["source"] != read.meta["source"]
    assert again.full_checksum == read.full_checksum == made.full_checksum
    assert replace(made, meta={**made.meta, "step": 8}).full_checksum != made.full_checksum


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    save_snapshot(snapshot([True]), path)
    table = pq.read_table(path)
    for version in (3, 9):
        meta = f'{{"format": "forgetwatch/snapshot@{version}"}}'.encode()
        pq.write_table(table.replace_schema_metadata({b"forgetwatch": meta}), path)
        with pytest.raises(
            SnapshotError, match=rf"snapshot@{version}.*reads 'forgetwatch/snapshot@5'"
        ):
            read_snapshot(path)
    pq.write_table(table.replace_schema_metadata(None), path)
    with pytest.raises(SnapshotError, match="not a snapshot that forgetwatch wrote"):
        read_snapshot(path)
    for meta in (
        b"[]",
        b"null",
        b'{"format": "forgetwatch/snapshot@4", "probe": null}',
        b"{",
        b"[" * 100_000,
    ):
        pq.write_table(table.replace_schema_metadata({b"forgetwatch": meta}), path)
        with pytest.raises(SnapshotError):
            read_snapshot(path)
    with pytest.raises(SnapshotError, match="no such file"):
        read_snapshot(tmp_path / "none.parquet")


def test_a_rewrite_with_wider_text_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    made = snapshot([True, False])
    save_snapshot(made, path)
    table = pq.read_table(path)
    wide = [
        pa.field(f.name, pa.large_string()) if pa.types.is_string(f.type) else f
        for f in table.schema
    ]
    pq.write_table(table.cast(pa.schema(wide, metadata=table.schema.metadata)), path)
    assert read_snapshot(path).checksum == made.checksum


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"item_id": ["a", "a"]}, "'a' is twice in task 't'"),
        ({"k": [3, 0]}, r"row 2 \(item '1'\): needed k from 1 to 10,000, got 0"),
        (
            {"k": [3, 3], "gold": [0, 3]},
            r"row 2 \(item '1'\): needed one of its 3 options as gold, got 3",
        ),
        ({"k": [3, -1]}, "needed k from 1 to 10,000, got -1"),
        ({"k": [3, 3], "gold": [0, -1]}, "row 2 .*needed one of its 3 options as gold, got -1"),
        (
            {"k": [4, 4], "golds": [[0, 1], [0, 9]]},
            r"row 2 .*needed one of its 4 options as golds, each once, got \[0, 9\]",
        ),
        ({"k": [4, 4], "golds": [[0, 0], None]}, r"each once, got \[0, 0\]"),
        (
            {"sample": [0, -1]},
            "needed sample from 0 to 1,000,000, got -1; samples are numbered from 0",
        ),
        ({"item_id": ["a", ""]}, "row 2: item_id is empty"),
        ({"colour": [1, 2]}, "unknown column 'colour'"),
        ({"choosen": [1, 2]}, "unknown column 'choosen', did you mean 'chosen'"),
        ({"k": ["x", 1]}, "column 'k' must be int32"),
        ({"item_id": ["a", None]}, "'item_id' has 1 empty"),
    ],
)
def test_invalid_rows_are_refused_by_row_and_value(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(SnapshotError, match=says):
        snapshot([True, False], **columns)


def test_an_empty_snapshot_is_refused() -> None:
    with pytest.raises(SnapshotError, match="no rows"):
        Snapshot.from_columns({"item_id": [], "correct": []}, {})


def test_an_id_may_repeat_in_another_task_or_sample() -> None:
    assert len(snapshot([True, True], item_id=["a", "a"], task=["t", "u"])) == 2
    assert len(snapshot([True, True], item_id=["a", "a"], sample=[0, 1])) == 2


def test_codes_are_equal_exactly_where_rows_are() -> None:
    one = pa.chunked_array([["a", "b", "a"], ["a", None, None]])
    other = pa.chunked_array([[1, 1, 1], [2, 2, 2]])
    code = codes(one, other)
    assert [[bool(x == y) for y in code] for x in code] == [
        [(a, b) == (c, d) for c, d in zip(one.to_pylist(), other.to_pylist(), strict=True)]
        for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)
    ]


def test_codes_of_large_columns_do_not_overflow() -> None:
    rng = np.random.default_rng(0)
    columns = [pa.chunked_array([rng.integers(0, 10**6, 20_000)]) for _ in range(6)]
    rows = set(zip(*(column.to_pylist() for column in columns), strict=True))
    assert len(set(codes(*columns).tolist())) == len(rows)


@pytest.mark.parametrize(
    ("meta", "label"),
    [
        ({"model": "org/model", "step": None}, "model"),
        ({"model": "run/checkpoint-7/"}, "checkpoint-7"),
        ({"model": "m", "step": 3}, "m at step 3"),
        ({"source": "logs/Llama-3.1-8B.parquet"}, "Llama-3.1-8B"),
        ({}, "snapshot"),
    ],
)
def test_the_label_is_short(meta: dict[str, Any], label: str) -> None:
    assert snapshot([True], meta=meta).label == label


def test_the_head_is_the_first_items_with_all_their_samples() -> None:
    made = snapshot([True] * 6, item_id=["b", "b", "a", "a", "c", "c"], sample=[0, 1] * 3)
    assert made.head(2).texts("item_id").tolist() == ["b", "b", "a", "a"]
    assert made.head(3) is made
    assert snapshot([True, False]).head(1).floats("correct").tolist() == [1.0]
