"""Edge cases of a run: options combined, a second training, events after the training."""

from __future__ import annotations

import math
import os
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from events import log_lines
from support import model, probe, snapshot, tokenizer, trained, trainer

from forgetwatch import ForgetWatchCallback, Probe, Trajectory, load_snapshot, score
from forgetwatch.errors import WatchError
from forgetwatch.run import (
    Watch,
    checked_command,
    composite_row,
    evaluation_weights,
    resume_checkpoint,
)
from forgetwatch.run_folder import RunFolder

TOK = tokenizer()


def choosing(steps: int = 4) -> dict[str, Any]:
    return {
        "steps": steps, "save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2,
        "metric_for_best_model": "forget/all/retention", "load_best_model_at_end": True,
    }  # fmt: skip


def test_a_look_that_fails_does_not_stop_a_run_that_chooses_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    look = Watch.take

    def failing(self: Watch, network: Any, tok: Any, *, step: int, **options: Any) -> Any:
        if step == 2:
            raise RuntimeError("once")
        return look(self, network, tok, step=step, **options)

    monkeypatch.setattr(Watch, "take", failing)
    run = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)], **choosing())
    assert run.state.global_step == 4
    assert any("no look at step 2" in line for line in log_lines(capfd))


def test_choosing_by_retention_where_nothing_can_be_retained_is_refused(tmp_path: Path) -> None:
    network = model(TOK)
    rows = score(network, TOK, probe()).table.to_pylist()
    wrong = {row["item_id"] for row in rows if not row["correct"]}
    items = Probe([item for item in probe() if item.id in wrong], name="all wrong")
    run = trainer(tmp_path, callbacks=[ForgetWatchCallback(items, every=2)], **choosing())
    with pytest.raises(WatchError, match="no answer of the baseline is right"):
        run.train()
    assert run.state.global_step == 0


def test_an_evaluation_after_the_training_is_no_look(tmp_path: Path) -> None:
    run = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=[2])], **choosing())
    before = sorted(path.name for path in (tmp_path / "_forgetwatch").iterdir())
    metrics = run.evaluate()
    assert not [name for name in metrics if "forget" in name]
    assert sorted(path.name for path in (tmp_path / "_forgetwatch").iterdir()) == before


def test_a_second_training_keeps_the_looks_of_the_first(tmp_path: Path) -> None:
    run = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)], steps=4)
    first = load_snapshot(tmp_path / "_forgetwatch" / "step-000004.parquet").checksum
    run.train()
    assert load_snapshot(tmp_path / "_forgetwatch-1" / "step-000004.parquet").checksum == first
    assert Trajectory.from_run(tmp_path).steps == (0, 2, 4)


def test_later_looks_do_not_change_the_alarm_level_of_a_look() -> None:
    looks = [snapshot([True] * 40, meta={"step": 0})]
    looks += [snapshot([n >= 9 for n in range(40)], meta={"step": step}) for step in (1, 2, 3, 4)]
    levels = [
        [verdict.alarm_level for verdict in Trajectory.of(looks[:count], planned=2).verdicts()]
        for count in (2, 3, 4, 5)
    ]
    for shorter, longer in pairwise(levels):
        assert longer[: len(shorter)] == shorter


def test_a_started_command_gets_no_variables_of_the_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TORCHELASTIC_RUN_ID", "ACCELERATE_USE_CPU"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("MINE", "kept")
    seen: dict[str, Any] = {}

    class Started:
        def __init__(self, words: list[str], **options: Any) -> None:
            seen.update(options)

        def wait(self) -> int:
            return 0

    monkeypatch.setattr("forgetwatch.run.run_output.subprocess.Popen", Started)
    command = checked_command("true {step}")
    assert command is not None
    command.start(step=1, output_dir=tmp_path, folder=tmp_path)
    assert seen["env"]["MINE"] == "kept"
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TORCHELASTIC_RUN_ID"} & set(seen["env"])
    assert os.environ["RANK"] == "1"


def test_a_new_baseline_removes_the_null_of_the_old_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    base = snapshot([True, False], meta={"step": 0})
    folder.start(probe(), base, base)
    folder.start(probe(), base)
    assert not (folder.path / "null.parquet").exists()


def test_resume_accepts_a_checkpoint_as_a_path_object(tmp_path: Path) -> None:
    trained(
        tmp_path / "a", callbacks=[ForgetWatchCallback(probe(), every=2)], steps=2, save_strategy="steps", save_steps=2
    )
    again = trainer(tmp_path / "b", callbacks=[ForgetWatchCallback(probe(), every=2)], steps=4)
    again.train(resume_from_checkpoint=tmp_path / "a" / "checkpoint-2")
    own = load_snapshot(tmp_path / "a" / "_forgetwatch" / "baseline.parquet").checksum
    assert load_snapshot(tmp_path / "b" / "_forgetwatch" / "baseline.parquet").checksum == own
    assert resume_checkpoint() is None


def test_a_composite_of_a_metric_outside_0_to_1_is_refused() -> None:
    assert composite_row(0.8, {"eval_acc": 0.4}, "acc") == {"eval_forget/all/composite": pytest.approx(0.64 / 1.2)}
    assert composite_row(0.8, {"eval_acc": 0.4}, None) == composite_row(math.nan, {"eval_acc": 0.4}, "acc") == {}
    with pytest.raises(WatchError, match=r"'loss' is 2\.5; needed a metric from 0 to 1, such as acc"):
        composite_row(0.8, {"eval_acc": 0.4, "eval_loss": 2.5}, "loss")
    with pytest.raises(WatchError, match="not in the evaluation"):
        composite_row(0.8, {"eval_acc": 0.4}, "accuracy")


def test_a_look_uses_the_evaluation_weights_of_a_schedule_free_optimizer() -> None:
    seen: list[str] = []
    inner = SimpleNamespace(eval=lambda: seen.append("eval"), train=lambda: seen.append("train"))
    with evaluation_weights(SimpleNamespace(optimizer=inner)):
        seen.append("look")
    assert seen == ["eval", "look", "train"]
    with evaluation_weights(torch.optim.SGD([torch.zeros(1)])):
        pass
