"""The target metric: from what a trainer logged, or from a table; every model has one value or there is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import snapshot

from forgetwatch import Snapshot
from forgetwatch.comparing import read_target
from forgetwatch.errors import SnapshotError
from forgetwatch.run_folder import TRAINER_STATE

HISTORY = [
    {"loss": 2.0, "step": 10, "epoch": 0.1},
    {"eval_loss": 1.5, "eval_accuracy": 0.6, "step": 10, "epoch": 0.1},
    {"eval_loss": 1.2, "eval_accuracy": 0.7, "step": 20, "epoch": 0.2},
]


def checkpoint(folder: Path, step: int, history: object = HISTORY) -> str:
    path = folder / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / TRAINER_STATE).write_text(json.dumps({"global_step": step, "log_history": history}))
    return str(path)


def scored(model: str | None = None, step: int | None = None) -> Snapshot:
    return snapshot([True], meta={} if model is None else {"model": model, "step": step})


def test_a_table_gives_each_model_its_value_by_name_whatever_their_order(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("after,pass@1\nb.parquet,0.7\nother,0.1\nm,0.6\n")
    target = read_target(str(table), [("a.parquet", scored("org/m")), ("b.parquet", scored())])
    assert (target.name, target.values, target.less_is_better) == ("pass@1", (0.6, 0.7), False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("after,x\nb,1\n", "no row for a; add one whose first column is 'a'"),
        ("after,x\na,1\na,2\n", "row 3: 'a' is there twice"),
        ("after,x\na,\n", r"row 2 \('a'\): needed a number, got ''"),
        ("after,x\na,inf\n", "needed a number, got 'inf'"),
        ("after,x,y\na,1,2\n", "row 1: needed two columns, the model and its metric, got 3"),
        ("after,x\na\n", "row 2: needed two columns"),
        ("", "needed two columns"),
        (None, "no such file; needed a table of the target in CSV"),
    ],
)
def test_a_malformed_table_is_one_clear_error(tmp_path: Path, text: str | None, says: str) -> None:
    table = tmp_path / "t.csv"
    if text is not None:
        table.write_text(text)
    with pytest.raises(SnapshotError, match=says):
        read_target(str(table), [("a", scored())])
