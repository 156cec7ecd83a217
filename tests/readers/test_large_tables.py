"""Parquet files with the rows of many models: only the rows, columns and groups of rows that are wanted are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from forgetwatch.errors import SnapshotError
from forgetwatch.readers import ColumnMap, mapping, read_mapped

MODELS, ITEMS = 6, 50


def written(path: Path, *, group: int = ITEMS, order: Any = None, **columns: Any) -> Path:
    """Rows of several models, sorted by model unless an order is given."""
    rows = MODELS * ITEMS
    table = pa.table(
        {
            "model": np.repeat([f"m{n}" for n in range(MODELS)], ITEMS),
            "size": pa.array(np.repeat(np.arange(MODELS), ITEMS)),
            "tuned": np.repeat(np.arange(MODELS) % 2 == 1, ITEMS),
            "id": [f"q{n % ITEMS}" for n in range(rows)],
            "right": np.arange(rows) % 7 < 3,
            "text": ["x" * 100] * rows,
            **columns,
        }
    )
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


def test_only_groups_of_rows_that_may_hold_the_model_are_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read = written(tmp_path / "all.parquet"), []
    batches = mapping.parquet_batches

    def recorded(*given: Any, **named: Any) -> Any:
        read.append((named["groups"], set(named["columns"])))
        return batches(*given, **named)

    monkeypatch.setattr(mapping, "parquet_batches", recorded)
    read_mapped(path, ColumnMap(fields=FIELDS, where={"model": "m3"}))
    assert read == [([3], {"id", "right", "model"})]


def test_a_model_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    path = written(tmp_path / "all.parquet")
    with pytest.raises(SnapshotError, match=r"none of its 300 rows has model=m9; in the file model is 'm0', 'm1'"):
        read_mapped(path, ColumnMap(fields=FIELDS, where={"model": "m9"}))
    for where in ({"size": "03"}, {"size": "x"}, {"tuned": "yes"}):
        with pytest.raises(SnapshotError, match="none of its 300 rows has"):
            read_mapped(path, ColumnMap(fields=FIELDS, where=where))


def test_without_a_map_columns_keep_their_names(tmp_path: Path) -> None:
    path = written(tmp_path / "all.parquet").rename(tmp_path / "named.parquet")
    table = pq.read_table(path).rename_columns(["model", "size", "tuned", "item_id", "correct", "text"])
    pq.write_table(table, path)
    (tmp_path / "named.jsonl").write_text(
        "\n".join(f'{{"model": "m{n // 2}", "item_id": "q{n % 2}", "correct": {n % 2}}}' for n in range(4))
    )
    for file, rows in ((path, ITEMS), (tmp_path / "named.jsonl", 2)):
        found = read_mapped(file, ColumnMap(where={"model": "m1"}))
        assert len(found) == rows
        assert found.texts("item_id")[1] == "q1"
