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


def test_a_metric_is_read_at_each_checkpoints_own_step(tmp_path: Path) -> None:
    models = [(checkpoint(tmp_path, step), scored()) for step in (10, 20)]
    assert read_target("eval_accuracy", models).values == (0.6, 0.7)
    assert read_target("eval_loss", models).less_is_better


def test_a_snapshot_leads_to_the_checkpoint_that_it_names_and_a_look_to_that_of_its_step(tmp_path: Path) -> None:
    named = checkpoint(tmp_path, 20)
    assert read_target("eval_loss", [("somewhere/s.parquet", scored(named))]).values == (1.2,)
    look = tmp_path / "_forgetwatch" / "step-000020.parquet"
    assert read_target("eval_loss", [(str(look), scored("Qwen/base", 20))]).values == (1.2,)


@pytest.mark.parametrize(
    ("metric", "history", "says"),
    [
        ("eval_f1", HISTORY, "no eval_f1 was ever logged; there are eval_accuracy, eval_loss, loss"),
        ("loss", HISTORY, "was not logged at step 20, that of the checkpoint, but at 10"),
        ("eval_loss", [{"eval_loss": float("nan"), "step": 20}], "needed a number, got nan"),
        ("eval_loss", [{"eval_loss": True, "step": 20}], "needed a number, got True"),
        ("eval_loss", None, "cannot be read"),
        ("eval_loss", [], "there are no metrics"),
    ],
)
def test_a_missing_metric_is_one_clear_error(tmp_path: Path, metric: str, history: object, says: str) -> None:
    with pytest.raises(SnapshotError, match=says):
        read_target(metric, [(checkpoint(tmp_path, 20, history), scored())])


def test_a_model_without_a_trainers_state_is_named_with_the_places(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=r"a\.csv: needed the trainer_state\.json .* none in .*a\.csv"):
        read_target("eval_loss", [(str(tmp_path / "a.csv"), scored())])


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
