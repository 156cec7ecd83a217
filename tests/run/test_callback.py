"""The callback inside TRL's trainer.

A callback that is given no probe.

The search for the probe in the training examples.

Edge cases of a run: options combined, a second training, events after the training.
"""

import dataclasses
import json
import math
import os
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from saved_runs import At, curve, interrupt, log_lines, losses, stop, weights
from support import model, probe, snapshot, tokenizer, trained, trainer
from transformers import TrainerCallback

from forgetwatch import (
    ForgetWatchCallback,
    Item,
    Probe,
    Trajectory,
    load_probe,
    load_snapshot,
    score,
)
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.errors import ForgetwatchError, ProbeError, WatchError
from forgetwatch.probe import combine
from forgetwatch.run import questions
from forgetwatch.run.look import LookScorer
from forgetwatch.run.look_rows import composite_row
from forgetwatch.run.questions import default_probe, held_out
from forgetwatch.run.run_output import checked_command
from forgetwatch.run.state import LookPlan, stored_plan
from forgetwatch.run.trainer import evaluation_weights, resume_checkpoint
from forgetwatch.run.trainer import token_budget as _token_budget
from forgetwatch.run_folder.folder import RunFolder
from forgetwatch.scoring.scorer import Scorer

pytestmark = pytest.mark.usefixtures("without_pictures")


def test_the_run_is_bitwise_what_it_would_have_been(tmp_path: Path) -> None:
    options = {
        "steps": 8,
        "gradient_accumulation_steps": 2,
        "save_strategy": "steps",
        "save_steps": 4,
    }
    without = trained(tmp_path / "a", **options)
    watched = trained(tmp_path / "b", callbacks=[ForgetWatchCallback(probe(), every=3)], **options)
    assert weights(watched) == weights(without)
    assert losses(watched) == losses(without)
    assert len(losses(watched)) == 4
    assert sorted(curve(watched)) == [0, 3, 6, 8]
    assert any(sum(counts) for counts in curve(watched).values())


def test_the_log_rows_are_our_own_and_hold_plain_numbers(tmp_path: Path) -> None:
    run = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)])
    rows = [row for row in run.state.log_history if "eval_forget/all/forgotten" in row]
    for row in rows:
        assert not {"loss", "entropy", "mean_token_accuracy"} & set(row)
        assert all(type(value) in (int, float) for value in row.values())
    assert {
        "eval_forget/a/forgotten",
        "eval_forget/b/net_change_points",
        "eval_forget/all/kept",
    } <= set(rows[-1])


@pytest.mark.parametrize(
    ("every", "options", "steps"),
    [
        ([1, 4], {}, [0, 1, 4, 6]),
        ("save", {"save_strategy": "steps", "save_steps": 2}, [0, 2, 4, 6]),
        (
            "epoch",
            {"max_steps": -1, "num_train_epochs": 2, "per_device_train_batch_size": 8},
            [0, 4, 8],
        ),
        (
            None,
            {"save_strategy": "steps", "save_steps": 5, "max_overhead": None},
            [0, 1, 2, 3, 4, 5, 6],
        ),
        (
            None,
            {"save_strategy": "steps", "save_steps": 5},
            [0, 2, 5, 6],
        ),  # at least three, among them the save
        (100, {}, [0, 6]),
    ],
)
def test_looks_follow_the_schedule(
    tmp_path: Path, every: Any, options: dict[str, Any], steps: list[int]
) -> None:
    watch = ForgetWatchCallback(
        probe(), every=every, max_overhead=options.pop("max_overhead", 0.02)
    )
    run = trained(tmp_path, callbacks=[watch], **options)
    assert sorted(curve(run)) == steps


def test_a_resumed_run_has_the_same_curve_and_weights(tmp_path: Path) -> None:
    options = {"steps": 9, "save_strategy": "steps", "save_steps": 4}
    whole = trained(tmp_path / "a", callbacks=[ForgetWatchCallback(probe(), every=3)], **options)
    with pytest.raises(KeyboardInterrupt):
        trained(
            tmp_path / "b",
            callbacks=[ForgetWatchCallback(probe(), every=3), At(7, interrupt)],
            **options,
        )
    again = trained(
        tmp_path / "b", callbacks=[ForgetWatchCallback(probe(), every=3)], **options, resume=True
    )
    assert weights(again) == weights(whole)
    assert curve(again) == curve(whole)
    names = sorted(path.name for path in (tmp_path / "b" / "_forgetwatch").glob("*.parquet"))
    assert names == [
        "baseline.parquet",
        "null.parquet",
        *(f"step-00000{step}.parquet" for step in (3, 6, 9)),
    ]


def test_a_longer_resume_plans_all_its_looks_and_keeps_its_items(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = {"save_strategy": "steps", "save_steps": 5}
    items = probe(260)
    trainer(
        tmp_path,
        callbacks=[ForgetWatchCallback(items, every=5, max_overhead=1e-6)],
        steps=10,
        **options,
    ).train()
    assert "toy: the first 250 of 260 items, " in capfd.readouterr().err
    callback = ForgetWatchCallback(items, every=[12, 16], max_overhead=1e-6)
    trainer(tmp_path, callbacks=[callback], steps=20, **options).train(resume_from_checkpoint=True)
    trajectory = callback.watch.trajectory()
    assert trajectory.steps == (0, 5, 10, 12, 16, 20)
    assert trajectory.planned == len(trajectory) - 1
    assert {one.all.n for one in trajectory.comparisons} == {250}


def test_a_checkpoint_carries_its_history_to_another_folder(tmp_path: Path) -> None:
    options = {"steps": 8, "save_strategy": "steps", "save_steps": 4}
    with pytest.raises(KeyboardInterrupt):
        trained(
            tmp_path, callbacks=[ForgetWatchCallback(probe(), every=3), At(7, interrupt)], **options
        )
    for path in (tmp_path / "_forgetwatch").iterdir():
        path.unlink()
    (tmp_path / "_forgetwatch").rmdir()
    again = trained(
        tmp_path, callbacks=[ForgetWatchCallback(probe(), every=3)], **options, resume=True
    )
    assert sorted(curve(again)) == [0, 3, 6, 8]
    # the checkpoint at 4 carried the baseline and its latest look
    names = sorted(path.name for path in (tmp_path / "_forgetwatch").glob("*.parquet"))
    assert names == [
        "baseline.parquet",
        "null.parquet",
        *(f"step-00000{step}.parquet" for step in (3, 6, 8)),
    ]


def test_a_look_that_is_taken_again_is_logged_once(tmp_path: Path) -> None:
    options = {"steps": 8, "save_strategy": "steps", "save_steps": 4}
    with pytest.raises(KeyboardInterrupt):
        trained(
            tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2), At(7, interrupt)], **options
        )
    (tmp_path / "_forgetwatch" / "step-000004.parquet").unlink()
    (tmp_path / "checkpoint-4" / "forgetwatch" / "step-000004.parquet").unlink()
    again = trained(
        tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)], **options, resume=True
    )
    assert sorted(curve(again)) == [
        0,
        2,
        4,
        6,
        8,
    ]  # the row of step 4 came back in the trainer's state
    assert (tmp_path / "_forgetwatch" / "step-000004.parquet").is_file()


def test_a_checkpoint_without_its_history_gets_it_at_the_resume(tmp_path: Path) -> None:
    class Interrupts(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            raise KeyboardInterrupt

    options = {"steps": 6, "save_strategy": "steps", "save_steps": 4}
    run = trainer(
        tmp_path, callbacks=[Interrupts(), ForgetWatchCallback(probe(), every=2)], **options
    )
    with pytest.raises(KeyboardInterrupt):
        run.train()
    assert not (tmp_path / "checkpoint-4" / "forgetwatch").exists()
    again = trainer(
        tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2), At(5, interrupt)], **options
    )
    with pytest.raises(KeyboardInterrupt):
        again.train(resume_from_checkpoint=True)
    carried = sorted(path.name for path in (tmp_path / "checkpoint-4" / "forgetwatch").iterdir())
    assert carried == ["baseline.parquet", "null.parquet", "run.json", "step-000004.parquet"]


def test_resume_with_another_probe_or_without_a_baseline_fails_before_the_first_step(
    tmp_path: Path,
) -> None:
    options = {"save_strategy": "steps", "save_steps": 2}
    trainer(tmp_path / "a", callbacks=[ForgetWatchCallback(probe())], **options).train()
    other = trainer(
        tmp_path / "a", callbacks=[ForgetWatchCallback(probe(20))], **{**options, "steps": 8}
    )
    with pytest.raises(WatchError, match="made with probe 'toy'"):
        other.train(resume_from_checkpoint=True)
    trainer(tmp_path / "b", **options).train()
    late = trainer(
        tmp_path / "b", callbacks=[ForgetWatchCallback(probe())], **{**options, "steps": 8}
    )
    with pytest.raises(WatchError, match="names no baseline"):
        late.train(resume_from_checkpoint=True)


def test_the_look_after_an_early_stop_goes_to_files_only(tmp_path: Path) -> None:
    callback = ForgetWatchCallback(probe(), every=100)
    run = trained(tmp_path, callbacks=[callback, At(4, stop)])
    assert sorted(curve(run)) == [0]
    assert sorted(callback.watch.run.comparisons) == [0, 4]
    assert (tmp_path / "_forgetwatch" / "step-000004.parquet").is_file()


def test_a_second_train_is_a_run_of_its_own_with_the_first_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    callback = ForgetWatchCallback(probe(), every=3)
    run = trained(tmp_path, callbacks=[callback], learning_rate=1e-2)
    assert callback.watch is not None
    first = callback.watch.run
    assert first.baseline is not None
    assert first.null is not None
    capsys.readouterr()
    for number in (1, 2):
        last = callback.watch.run.comparisons[6].all
        run.train()
        again = callback.watch.run
        assert again.folder.run != first.folder.run
        assert again.baseline is not None
        assert (
            again.baseline.floats("correct").tolist() == first.baseline.floats("correct").tolist()
        )
        assert again.null is not None
        assert sorted(again.comparisons) == [-1, 0, 3, 6]
        # The look at 0 is of the weights with which it begins: those that the training before it left.
        start = again.comparisons[0].all
        assert (start.forgotten, start.gained) == (last.forgotten, last.gained)
        assert start.forgotten > 0
        assert (
            "a run of its own, with the baseline of the first one's start"
            in capsys.readouterr().err
        )
        kept = Trajectory.from_run(tmp_path / f"_forgetwatch-{number}")
        assert (kept.comparisons[-1].all.forgotten, kept.comparisons[-1].all.gained) == (
            last.forgotten,
            last.gained,
        )


@pytest.mark.parametrize("moved", [False, True])
def test_a_retry_from_step_0_is_the_same_run_if_its_weights_are(
    tmp_path: Path, moved: bool
) -> None:
    """As after an out-of-memory, at which the trainer begins again with a smaller batch."""
    callback = ForgetWatchCallback(probe(), every=3)
    breaks = At(3, interrupt)
    run = trainer(tmp_path, callbacks=[callback, breaks], learning_rate=1e-2)
    with pytest.raises(KeyboardInterrupt):
        run.train()
    run.remove_callback(breaks)
    assert callback.watch is not None
    first, lost = callback.watch.run, callback.watch.run.comparisons[3].all
    if not moved:
        run.model.load_state_dict(model(tokenizer()).state_dict())
    run.train()
    again = callback.watch.run
    assert (again.folder.run == first.folder.run) == (not moved)
    assert sorted(again.comparisons) == ([-1] if moved else []) + [0, 3, 6]
    start = again.comparisons[0].all
    assert (start.forgotten, start.gained) == ((lost.forgotten, lost.gained) if moved else (0, 0))


def test_a_look_that_fails_is_logged_once_and_training_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    look = LookScorer.take

    def failing(self: LookScorer, network: Any, tok: Any, *, step: int, **options: Any) -> Any:
        if step:
            raise OSError("No space left on device")
        return look(self, network, tok, step=step, **options)

    monkeypatch.setattr(LookScorer, "take", failing)
    run = trained(tmp_path / "a", callbacks=[ForgetWatchCallback(probe(), every=2)])
    assert run.state.global_step == 6
    logged = capsys.readouterr().err
    assert logged.count("training continues: No space left on device") == 1
    assert "the look failed 3 times in this run" in logged
    strict = trainer(tmp_path / "b", callbacks=[ForgetWatchCallback(probe(), every=2, strict=True)])
    with pytest.raises(OSError, match="No space left"):
        strict.train()


@pytest.mark.full("KeyError", "MemoryError", "ValueError", reason="further failures of one kind")
@pytest.mark.parametrize("error", [ValueError, KeyError, MemoryError, OSError])
def test_no_failure_of_a_look_stops_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    look = LookScorer.take

    def failing(self: LookScorer, network: Any, tok: Any, *, step: int, **options: Any) -> Any:
        if step == 2:
            raise error("boom")
        return look(self, network, tok, step=step, **options)

    monkeypatch.setattr(LookScorer, "take", failing)
    run = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)])
    assert sorted(curve(run)) == [0, 4, 6]


def test_a_look_that_cannot_be_written_is_still_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(self: RunFolder, look: Any, *, step: int) -> Path:
        raise OSError("No space left on device")

    monkeypatch.setattr(RunFolder, "add", full)
    run = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)])
    assert sorted(curve(run)) == [0, 2, 4, 6]
    logged = capsys.readouterr().err
    assert (
        logged.count("step 2: scored, and not stored: No space left on device")
        == logged.count("not stored:")
        == 1
    )
    assert "looks that are not stored, and lost with this process: steps 2, 4, 6" in logged


@pytest.mark.parametrize("full_at", [4, 6])
def test_a_look_that_met_a_full_disk_is_stored_with_the_next_or_at_the_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    full_at: int,
) -> None:
    add, tried = RunFolder.add, []

    def full_once(self: RunFolder, look: Any, *, step: int) -> Path:
        tried.append(step)
        if tried.count(full_at) == 1 and step == full_at:
            raise OSError("No space left on device")
        return add(self, look, step=step)

    monkeypatch.setattr(RunFolder, "add", full_once)
    options = {"save_strategy": "steps", "save_steps": 6}
    trained(
        tmp_path,
        callbacks=[ForgetWatchCallback(probe(), every=2, guard=None, drift=False)],
        **options,
    )
    logged = capsys.readouterr().err
    line = f"step {full_at}: scored, and not stored: No space left on device"
    assert (
        logged.count(line)
        == logged.count("not stored: ")
        == logged.count("what was not stored is stored now")
        == 1
    )
    assert Trajectory.from_run(tmp_path).steps == (0, 2, 4, 6)
    trained(
        tmp_path,
        callbacks=[callback := ForgetWatchCallback(probe(), every=2)],
        steps=8,
        **options,
        resume=True,
    )
    assert sorted(callback.watch.run.comparisons) == [0, 2, 4, 6, 8]
    assert callback.watch.run.notes == ()


def test_another_callback_that_fails_on_our_row_does_not_stop_the_run(tmp_path: Path) -> None:
    class Narrow(TrainerCallback):
        def on_log(
            self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any
        ) -> None:
            if "train_loss" not in logs:
                logs["loss"]

    run = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2), Narrow()])
    assert run.state.global_step == 6


def test_one_callback_in_two_trainers_takes_two_baselines(tmp_path: Path) -> None:
    callback = ForgetWatchCallback(probe(), every=3)
    trained(tmp_path / "one", callbacks=[callback])
    before = load_snapshot(tmp_path / "one" / "_forgetwatch" / "step-000006.parquet").checksum
    second = trained(tmp_path / "two", callbacks=[callback], learning_rate=1e-3)
    assert (
        load_snapshot(tmp_path / "one" / "_forgetwatch" / "step-000006.parquet").checksum == before
    )
    assert sorted(path.name for path in (tmp_path / "two" / "_forgetwatch").glob("*.parquet")) == [
        "baseline.parquet", "null.parquet", "step-000003.parquet", "step-000006.parquet",
    ]  # fmt: skip
    assert sorted(curve(second)) == [0, 3, 6]


@pytest.mark.full("KeyboardInterrupt", reason="further failures of one kind")
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_baseline_that_is_tried_again_leaves_the_earlier_run_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    trainer(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)]).train()
    before = {path.name: path.read_bytes() for path in (tmp_path / "_forgetwatch").iterdir()}
    look, calls = LookScorer.take, []

    def failing_once(self: LookScorer, network: Any, tok: Any, *, step: int, **options: Any) -> Any:
        calls.append(step)
        if len(calls) == 1:
            raise error("boom")
        return look(self, network, tok, step=step, **options)

    monkeypatch.setattr(LookScorer, "take", failing_once)
    run = trainer(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=3)])
    with pytest.raises(SystemExit if error is KeyboardInterrupt else error):
        run.train()
    run.train()
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "_forgetwatch-1").iterdir()
    } == before
    assert sorted(curve(run)) == [0, 3, 6]


def test_a_resume_over_the_folder_of_another_run_keeps_the_two_apart(tmp_path: Path) -> None:
    options = {"steps": 6, "save_strategy": "steps", "save_steps": 2}
    with pytest.raises(KeyboardInterrupt):
        trained(
            tmp_path, callbacks=[ForgetWatchCallback(probe(), every=3), At(3, interrupt)], **options
        )
    other = trainer(
        tmp_path, callbacks=[ForgetWatchCallback(probe(), every=1), At(1, interrupt)], **options
    )
    with torch.no_grad():
        other.model.get_output_embeddings().weight.add_(1.0).mul_(
            torch.randn(other.model.config.vocab_size, 1)
        )
    with pytest.raises(KeyboardInterrupt):
        other.train()
    foreign = {path.name: path.read_bytes() for path in (tmp_path / "_forgetwatch").iterdir()}
    assert "step-000001.parquet" in foreign
    trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=3)], **options, resume=True)
    assert {
        path.name: path.read_bytes() for path in (tmp_path / "_forgetwatch-2").iterdir()
    } == foreign
    names = sorted(path.name for path in (tmp_path / "_forgetwatch").glob("*.parquet"))
    assert names == [
        "baseline.parquet",
        "null.parquet",
        "step-000003.parquet",
        "step-000006.parquet",
    ]


def test_a_callback_in_a_second_trainer_starts_anew(tmp_path: Path) -> None:
    callback = ForgetWatchCallback(probe(), every=[40])
    trainer(tmp_path / "one", callbacks=[callback], steps=3).train()
    trained(tmp_path / "two", callbacks=[callback, At(3, stop)])
    assert sorted(callback.watch.run.comparisons) == [0, 3]


def test_two_callbacks_in_one_trainer_are_refused_before_the_first_step(tmp_path: Path) -> None:
    run = trainer(
        tmp_path, callbacks=[ForgetWatchCallback(probe()), ForgetWatchCallback(probe(20))]
    )
    with pytest.raises(WatchError, match="2 ForgetWatchCallbacks"):
        run.train()


def test_a_baseline_that_fails_stops_the_run_before_its_first_step(tmp_path: Path) -> None:
    too_long = probe(rendering="chat")
    run = trainer(
        tmp_path, callbacks=[ForgetWatchCallback(too_long)], tok=tokenizer(template=False)
    )
    with pytest.raises(ForgetwatchError, match="no chat template"):
        run.train()
    assert run.state.global_step == 0


def test_cost_before_the_first_step_and_a_table_after_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)], steps=12).train()
    captured = capsys.readouterr()
    lines = [
        line
        for line in captured.err.splitlines()
        if line.startswith("forgetwatch: ") and "step" in line
    ]
    line = r"forgetwatch: toy: 30 items, none of them in the 32 training rows; about [\d.]+ s before the first step; "
    assert re.match(line + r"6 looks of [\d.]+ s, about [\d.]+ % of the run's time", lines[0]), (
        lines
    )
    assert lines[1].startswith("forgetwatch: step 2 of 12: ")
    shown = " ".join(captured.out.split())
    assert "step 12: " in shown
    assert re.search(r"NOT CLEAR|KEPT|FORGOT", shown)
    assert str(tmp_path / "_forgetwatch") in captured.out


def test_the_trainer_is_found_or_can_be_named(tmp_path: Path) -> None:
    callback = ForgetWatchCallback(probe(), every=3)
    run = trainer(tmp_path)
    run.add_callback(callback)
    run.train()
    assert sorted(curve(run)) == [0, 3, 6]
    attached = ForgetWatchCallback(probe(), every=3)
    attached.attach(run)
    other = trained(tmp_path / "other", callbacks=[attached])
    assert sorted(curve(other)) == [0, 3, 6]  # not those of the trainer that does not train
    assert (tmp_path / "other" / "_forgetwatch" / "baseline.parquet").is_file()
    lonely = ForgetWatchCallback(probe())
    with pytest.raises(WatchError, match="attach"):
        lonely.on_train_begin(
            run.args, run.state, run.control, model=run.model, processing_class=run.processing_class
        )


def test_an_attached_trainer_needs_no_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = ForgetWatchCallback(probe(), every=3)
    run = trainer(tmp_path, callbacks=[callback])
    callback.attach(run)

    def search() -> None:
        raise AssertionError("the trainer was searched for")

    monkeypatch.setattr("forgetwatch.run.callback.calling_trainer", search)
    run.train()
    assert sorted(curve(run)) == [0, 3, 6]


def test_a_restart_that_failed_loses_no_look_of_the_finished_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = ForgetWatchCallback(probe(), every=3)
    run = trained(tmp_path, callbacks=[callback])

    def full(self: RunFolder) -> Path:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "set_aside", full)
        with pytest.raises(OSError, match="No space"):
            run.train()
    run.train()
    looks = [path.name for path in sorted((tmp_path / "_forgetwatch-1").glob("step-*.parquet"))]
    assert looks == ["step-000003.parquet", "step-000006.parquet"]


@pytest.mark.parametrize("strict", [False, True])
def test_a_memory_that_cannot_be_stored_stops_only_a_strict_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    strict: bool,
) -> None:
    callback = ForgetWatchCallback(probe(), every=3, strict=strict)
    run = trainer(tmp_path, callbacks=[callback])

    def stored(plan: LookPlan | None) -> dict[str, Any]:
        if callback.watch is not None and len(callback.watch.run.comparisons) > 1:
            raise RuntimeError("no memory")
        return stored_plan(plan)

    monkeypatch.setattr("forgetwatch.run.training.stored_plan", stored)
    if strict:
        with pytest.raises(RuntimeError, match="no memory"):
            run.train()
    else:
        run.train()
        assert sorted(curve(run)) == [0, 3, 6]
        assert "storing the run's state at step 3 failed, training continues" in "".join(
            capsys.readouterr()
        )


@pytest.mark.parametrize(
    "arguments", [{"every": "step"}, {"every": 0}, {"max_overhead": 1.5}, {"guard": "halt"}]
)
def test_an_argument_out_of_range_fails_in_the_constructor(arguments: dict[str, Any]) -> None:
    with pytest.raises(WatchError):
        ForgetWatchCallback(probe(), **arguments)
    with pytest.raises(ProbeError):
        ForgetWatchCallback("no-such-probe")


def test_the_baseline_is_that_of_the_untrained_model(tmp_path: Path) -> None:
    trainer(tmp_path, callbacks=[ForgetWatchCallback(probe())]).train()
    baseline = load_snapshot(tmp_path / "_forgetwatch" / "baseline.parquet")
    tok = tokenizer()
    untrained = model(tok)
    # In the same batches: floats are equal bit for bit only where the kernels see tensors of the same shapes.
    scorer = Scorer(probe(), tok, untrained, token_budget=baseline.meta["batch"]["tokens"])
    assert baseline.checksum == scorer.score(untrained).checksum


def test_the_run_folder_knows_how_many_looks_were_planned(tmp_path: Path) -> None:
    callback = ForgetWatchCallback(probe(), every=2)
    trainer(tmp_path, callbacks=[callback], steps=6).train()
    assert json.loads((tmp_path / "_forgetwatch" / "run.json").read_text())["planned_looks"] == 3
    assert (
        callback.watch.trajectory().planned
        == Trajectory.from_run(tmp_path / "_forgetwatch").planned
        == 3
    )


def test_an_alarm_is_logged_once_when_it_rises(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A model whose weights are thrown away loses its known items; all groups are in one line, and once."""
    tok = tokenizer()
    known = self_answered(probe(400), tok)

    def ruin(model: Any) -> None:
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(torch.randn_like(weight))

    made = trainer(
        tmp_path,
        callbacks=[ForgetWatchCallback(known, every=2, max_overhead=None)],
        steps=6,
        tok=tok,
    )
    made.add_callback(At(1, lambda control: ruin(made.model)))
    made.train()
    logged = [line for line in capfd.readouterr().err.splitlines() if "ALARM" in line]
    assert len(logged) == 1
    assert re.search(r"ALARM: all -\d+ points \(step 2\), and 2 categories$", logged[0])


def self_answered(probe: Any, tok: Any) -> Any:
    """The probe with the untrained model's own answers as gold: it knows all of them."""
    chosen = score(model(tok), tok, probe).ints("chosen")
    items = [
        dataclasses.replace(item, answer=int(c)) for item, c in zip(probe, chosen, strict=True)
    ]
    return Probe(items, name="own")


def test_the_full_log_reaches_the_trainer(tmp_path: Path) -> None:
    made = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=3, log="full")])
    rows = [row for row in made.state.log_history if "eval_forget/all/forgotten" in row]
    assert "eval_forget/all/ever_forgotten" in rows[-1]
    assert "eval_forget/all/forgetting_paper" in rows[-1]
    with pytest.raises(WatchError, match="log='all'"):
        ForgetWatchCallback(probe(), log="all")  # type: ignore[arg-type]


def test_a_look_takes_no_more_tokens_than_a_micro_batch(tmp_path: Path) -> None:
    wide = {"max_length": 256, "per_device_train_batch_size": 3}
    for name, options, tokens in (("a", wide, 768), ("b", {"max_length": 32}, 512)):
        trained(
            tmp_path / name, callbacks=[ForgetWatchCallback(probe(), every=3)], steps=3, **options
        )
        looks = [
            load_snapshot(path)
            for path in sorted((tmp_path / name / "_forgetwatch").glob("*.parquet"))
        ]
        assert {look.meta["batch"]["tokens"] for look in looks} == {
            tokens,
            tokens // 2,
        }  # the null in other batches


def test_without_a_length_in_the_arguments_the_examples_give_it() -> None:
    args = SimpleNamespace(device=torch.device("cpu"), per_device_train_batch_size=2)
    examples = [{"input_ids": [1] * length} for length in (3, 400, 7)]
    for given, tokens in (
        (examples, 800),
        (iter(examples), None),
        ([{"text": "a"}], None),
        (None, None),
    ):
        assert _token_budget(args, given) == tokens  # type: ignore[arg-type]
    args.max_completion_length = 300
    assert _token_budget(args, None) == 600  # type: ignore[arg-type]


TEMPLATE = "{% for m in messages %}{{ m.content }} {% endfor %}"


def test_the_default_probe_is_standard_and_conduct_where_generating_is_cheap() -> None:
    chat, plain = tokenizer(), tokenizer()
    chat.chat_template, plain.chat_template = TEMPLATE, None
    assert default_probe(chat, fast=True)[0].name == "standard+conduct"
    assert (
        default_probe(chat, fast=False)[0].name
        == default_probe(plain, fast=True)[0].name
        == "standard"
    )
    assert "needs a chat template" in default_probe(plain, fast=True)[1]


def test_resume_keeps_the_probe() -> None:
    plain = tokenizer()
    plain.chat_template = None
    both = combine(load_probe("standard"), load_probe("conduct"))
    assert (
        default_probe(plain, fast=False, fingerprint=both.fingerprint)[0].name == "standard+conduct"
    )
    chat = tokenizer()
    chat.chat_template = TEMPLATE
    assert (
        default_probe(chat, fast=True, fingerprint=load_probe("standard").fingerprint)[0].name
        == "standard"
    )


def test_a_resume_with_another_norm_than_the_run_began_with_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(questions, "load_probe", lambda name: load_probe(name).head(40))
    options = {"save_strategy": "steps", "save_steps": 2}
    old = replace(load_probe("standard").head(40), norm="bytes")
    trainer(tmp_path, steps=2, callbacks=[ForgetWatchCallback(old, every=2)], **options).train()
    capfd.readouterr()
    resumed = trainer(tmp_path, steps=4, callbacks=[ForgetWatchCallback(every=2)], **options)
    with pytest.raises(
        WatchError,
        match=r"the run's baseline was made with probe .* resume with the probe in .*probe",
    ):
        resumed.train(resume_from_checkpoint=True)


def test_no_file_and_no_network_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "load_probe", lambda name: load_probe(name).head(40))
    trained(tmp_path, steps=2, callbacks=[ForgetWatchCallback(every=2, max_overhead=None)])
    described = json.loads((tmp_path / "_forgetwatch" / "run.json").read_text())
    assert (described["probe"]["name"], described["probe"]["items"]) == ("standard", 40)
    assert [look["step"] for look in described["looks"]] == [2]


ITEMS = [
    Item(
        id=str(n),
        task="t",
        prompt=f"w{n} w{n + 1} w{n + 2} w{n + 3} w{n + 4} w{n + 5}",
        choices=(" w1", " w2"),
        answer=0,
    )
    for n in range(0, 40, 8)
]


def test_questions_are_found_in_text_and_in_token_ids() -> None:
    tok, probe = tokenizer(), Probe(ITEMS)
    texts = [f"w50 {ITEMS[2].prompt} w51", "w7 w8"]
    for rows in (
        [{"text": text} for text in texts],
        [{"input_ids": tok(text)["input_ids"]} for text in texts],
    ):
        found = held_out(probe, Dataset.from_list(rows), tok)
        assert found is not None
        assert [name for _, name in found.exact] == ["16"]
        assert found.rows == found.of_rows


def test_a_stream_is_not_searched() -> None:
    assert (
        held_out(
            Probe(ITEMS), Dataset.from_list([{"text": "w1"}]).to_iterable_dataset(), tokenizer()
        )
        is None
    )
    assert held_out(Probe(ITEMS), None, tokenizer()) is None


def test_the_search_stops_in_time_and_reports_its_share() -> None:
    found = held_out(Probe(ITEMS), [{"text": "w1 " * 50}] * 200_000, tokenizer(), seconds=0.05)
    assert found is not None
    assert found.of_rows is not None
    assert found.rows < found.of_rows
    assert found.searched == f"{found.rows:,} of 200,000 training rows ({found.rows / 2000:.1f} %)"


def test_a_run_logs_the_search_for_its_probe(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run: Any = trainer(
        tmp_path, steps=1, callbacks=[ForgetWatchCallback(Probe(ITEMS), every=1, max_overhead=None)]
    )
    run.train()
    assert (
        f" {len(ITEMS)} items, none of them in the 32 training rows; about "
        in capfd.readouterr().err
    )
    texts = [f"w50 {ITEMS[2].prompt} w51"] * 32
    run = trainer(
        tmp_path / "b", steps=1, texts=texts, callbacks=[ForgetWatchCallback(Probe(ITEMS), every=1)]
    )
    run.train()
    lines = capfd.readouterr().err
    assert (
        f"not held out: 32 training rows: 1 of {len(ITEMS)} questions are in them word for word"
        in lines
    )
    assert "none of them" not in lines


TOK = tokenizer()


def choosing(steps: int = 4) -> dict[str, Any]:
    return {
        "steps": steps, "save_strategy": "steps", "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2,
        "metric_for_best_model": "forget/all/kept", "load_best_model_at_end": True,
    }  # fmt: skip


def test_a_look_that_fails_does_not_stop_a_run_that_chooses_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    look = LookScorer.take

    def failing(self: LookScorer, network: Any, tok: Any, *, step: int, **options: Any) -> Any:
        if step == 2:
            raise RuntimeError("once")
        return look(self, network, tok, step=step, **options)

    monkeypatch.setattr(LookScorer, "take", failing)
    run = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)], **choosing())
    assert run.state.global_step == 4
    assert any("no look at step 2" in line for line in log_lines(capfd))


def test_choosing_by_what_is_kept_where_nothing_can_be_kept_is_refused(tmp_path: Path) -> None:
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


def test_later_looks_do_not_change_the_alarm_level_of_a_look() -> None:
    looks = [snapshot([True] * 40, meta={"step": 0})]
    looks += [snapshot([n >= 9 for n in range(40)], meta={"step": step}) for step in (1, 2, 3, 4)]
    levels = [
        [verdict.alarm_level for verdict in trajectory_of(looks[:count], planned=2).verdicts()]
        for count in (2, 3, 4, 5)
    ]
    for shorter, longer in pairwise(levels):
        assert longer[: len(shorter)] == shorter


def test_a_started_command_gets_no_variables_of_the_process_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "TORCHELASTIC_RUN_ID",
        "ACCELERATE_USE_CPU",
    ):
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
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "TORCHELASTIC_RUN_ID"} & set(
        seen["env"]
    )
    assert os.environ["RANK"] == "1"


def test_a_new_baseline_removes_the_null_of_the_old_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    base = snapshot([True, False], meta={"step": 0})
    folder.start(probe(), base, base)
    folder.start(probe(), base)
    assert not (folder.path / "null.parquet").exists()


def test_resume_accepts_a_checkpoint_as_a_path_object(tmp_path: Path) -> None:
    trained(
        tmp_path / "a",
        callbacks=[ForgetWatchCallback(probe(), every=2)],
        steps=2,
        save_strategy="steps",
        save_steps=2,
    )
    again = trainer(tmp_path / "b", callbacks=[ForgetWatchCallback(probe(), every=2)], steps=4)
    again.train(resume_from_checkpoint=tmp_path / "a" / "checkpoint-2")
    own = load_snapshot(tmp_path / "a" / "_forgetwatch" / "baseline.parquet").checksum
    assert load_snapshot(tmp_path / "b" / "_forgetwatch" / "baseline.parquet").checksum == own
    assert resume_checkpoint() is None


def test_a_composite_of_a_metric_outside_0_to_1_is_refused() -> None:
    assert composite_row(0.8, {"eval_acc": 0.4}, "acc") == {
        "eval_forget/all/composite": pytest.approx(0.64 / 1.2)
    }
    assert composite_row(1.3, {"eval_acc": 0.4}, "acc") == composite_row(
        1.0, {"eval_acc": 0.4}, "acc"
    )
    assert composite_row(-0.4, {"eval_acc": 0.3}, "acc") == {"eval_forget/all/composite": 0.0}
    assert (
        composite_row(0.8, {"eval_acc": 0.4}, None)
        == composite_row(math.nan, {"eval_acc": 0.4}, "acc")
        == {}
    )
    with pytest.raises(
        WatchError, match=r"'loss' is 2\.5; needed a metric from 0 to 1, such as acc"
    ):
        composite_row(0.8, {"eval_acc": 0.4, "eval_loss": 2.5}, "loss")
    with pytest.raises(WatchError, match="not in the evaluation"):
        composite_row(0.8, {"eval_acc": 0.4}, "accuracy")


def test_a_look_uses_the_evaluation_weights_of_a_schedule_free_optimizer() -> None:
    seen: list[str] = []
    inner = SimpleNamespace(eval=lambda: seen.append("eval"), train=lambda: seen.append("train"))
    with evaluation_weights(SimpleNamespace(optimizer=inner)):
        seen.append("look")
    assert seen == ["eval", "look", "train"]
    # Of DeepSpeed, whose own wrapper stands within that of accelerate, and may have methods of these names.
    deeper = SimpleNamespace(optimizer=inner, eval=lambda: None, train=lambda: None)
    with evaluation_weights(SimpleNamespace(optimizer=SimpleNamespace(optimizer=deeper))):
        pass
    assert seen == ["eval", "look", "train", "eval", "train"]
    with evaluation_weights(torch.optim.SGD([torch.zeros(1)])):
        pass
