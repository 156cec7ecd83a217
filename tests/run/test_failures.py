"""Failures outside the training: the run ends with the weights that it would have had, and the user is warned."""

import dataclasses
import errno
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from saved_runs import At, log_lines, losses, weights
from support import probe, trained, trainer
from transformers import TrainerCallback

import forgetwatch.files.table_files
import forgetwatch.run_folder.description
import forgetwatch.run_folder.folder
from forgetwatch import ForgetWatchCallback, Probe, Trajectory, load_snapshot
from forgetwatch.errors import ProbeError
from forgetwatch.files.writing import write_atomically
from forgetwatch.scoring.scorer import Scorer

pytestmark = pytest.mark.usefixtures("without_pictures")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[float]]:
    """Weights and losses of the run without the callback."""
    run = trained(tmp_path_factory.mktemp("undisturbed"))
    return weights(run), losses(run)


class Chokes(TrainerCallback):
    """A tracker that cannot take our rows."""

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if "eval_forget/all/forgotten" in logs:
            raise RuntimeError("the tracker is down")


def broken_scorer(patch: pytest.MonkeyPatch, folder: Path) -> list[TrainerCallback]:
    score = Scorer.score

    def broken(self: Scorer, model: Any, *, step: int | None = None, **named: Any) -> Any:
        if step:
            raise RuntimeError("out of memory")
        return score(self, model, step=step, **named)

    patch.setattr(Scorer, "score", broken)
    return []


def full_disk(patch: pytest.MonkeyPatch, folder: Path) -> list[TrainerCallback]:
    def full(path: Path, write: Callable[[Path], object]) -> None:
        def cut(partial: Path) -> None:
            partial.write_bytes(b"PAR1")
            raise OSError(errno.ENOSPC, "No space left on device")

        write_atomically(
            path, cut if path.name.startswith("step-") or "checkpoint" in str(path) else write
        )

    patch.setattr(forgetwatch.files.table_files, "write_atomically", full)
    patch.setattr(forgetwatch.run_folder.folder, "write_atomically", full)
    patch.setattr(forgetwatch.run_folder.description, "write_atomically", full)
    return []


def file_in_its_place(patch: pytest.MonkeyPatch, folder: Path) -> list[TrainerCallback]:
    def replace(_: object) -> None:
        shutil.rmtree(folder / "_forgetwatch")
        (folder / "_forgetwatch").touch()

    return [At(1, replace)]


def broken_tracker(patch: pytest.MonkeyPatch, folder: Path) -> list[TrainerCallback]:
    return [Chokes()]


def nothing(patch: pytest.MonkeyPatch, folder: Path) -> list[TrainerCallback]:
    return []


TROUBLE = [
    (
        broken_scorer,
        {},
        RuntimeError,
        "the look at step 2 failed, training continues: out of memory",
    ),
    (full_disk, {}, OSError, "step 2: scored, and not stored: disk full at "),
    (file_in_its_place, {}, OSError, "step 2: scored, and not stored: "),
    (
        broken_tracker,
        {},
        RuntimeError,
        "logging the look at step 0 failed, training continues: the tracker is down",
    ),
    (
        nothing,
        {"on_look": "no-such-command {step}"},
        FileNotFoundError,
        "starting the command at step 0 failed",
    ),
]


@pytest.mark.parametrize(("trouble", "options", "error", "line"), TROUBLE)
def test_a_failure_is_logged_once_and_leaves_the_weights_untouched(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    undisturbed: tuple[str, list[float]],
    trouble: Callable[..., list[TrainerCallback]],
    options: dict[str, Any],
    error: type[Exception],
    line: str,
) -> None:
    watch = ForgetWatchCallback(probe(), every=2, max_overhead=None, **options)
    run = trained(tmp_path, callbacks=[*trouble(monkeypatch, tmp_path), watch])
    assert (weights(run), losses(run)) == undisturbed
    lines = log_lines(capfd)
    assert [line in one for one in lines].count(True) == 1
    is_kept = "not stored" in line  # until there is room, and no failure
    assert sum("training continues" in one for one in lines) == (0 if is_kept else 1)
    assert sum("times in this run" in one for one in lines) == (0 if is_kept else 1)
    assert not list((tmp_path / "_forgetwatch").glob(".*"))


@pytest.mark.parametrize(("trouble", "options", "error", "line"), TROUBLE)
def test_a_strict_run_stops_at_the_same_failure(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[..., list[TrainerCallback]],
    options: dict[str, Any],
    error: type[Exception],
    line: str,
) -> None:
    watch = ForgetWatchCallback(probe(), every=2, max_overhead=None, strict=True, **options)
    run = trainer(tmp_path, callbacks=[*trouble(monkeypatch, tmp_path), watch])
    with pytest.raises(error):
        run.train()
    assert run.state.global_step == (0 if "step 0" in line else 2)


def test_a_failed_copy_of_the_history_leaves_the_checkpoint_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    full_disk(monkeypatch, tmp_path)
    watch = ForgetWatchCallback(probe(), every=[3], max_overhead=None)
    trainer(tmp_path, callbacks=[watch], save_strategy="steps", save_steps=2).train()
    monkeypatch.undo()
    lines = log_lines(capfd)
    assert (
        sum(
            "storing the history in the checkpoint at step 2 failed, training continues" in one
            for one in lines
        )
        == 1
    )
    assert (
        sum(
            "storing the history in the checkpoint failed 3 times in this run" in one
            for one in lines
        )
        == 1
    )
    assert not list((tmp_path / "checkpoint-4" / "forgetwatch").iterdir())
    again = trainer(tmp_path, callbacks=[watch], steps=8)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    assert again.state.global_step == 8


def test_a_deleted_run_folder_is_made_again(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], undisturbed: tuple[str, list[float]]
) -> None:
    watch = ForgetWatchCallback(probe(), every=2, max_overhead=None)
    run = trained(
        tmp_path, callbacks=[At(3, lambda _: shutil.rmtree(tmp_path / "_forgetwatch")), watch]
    )
    assert (weights(run), losses(run)) == undisturbed
    assert sum("has disappeared; it is made again" in line for line in log_lines(capfd)) == 1
    assert Trajectory.from_run(tmp_path).steps == (0, 4, 6)
    assert watch.watch is not None
    assert sorted(watch.watch.run.comparisons) == [0, 2, 4, 6]


def test_a_read_only_run_folder_is_logged_once(
    capfd: pytest.CaptureFixture[str], undisturbed: tuple[str, list[float]]
) -> None:
    def shut(folder: Path) -> None:
        folder.chmod(0o555)
        if os.geteuid() == 0:  # who may do everything
            os.seteuid(65534)

    owner = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        watch = ForgetWatchCallback(probe(), every=2, max_overhead=None)
        run = trainer(
            Path(name), callbacks=[At(3, lambda _: shut(Path(name) / "_forgetwatch")), watch]
        )
        try:
            run.train()
        finally:
            os.seteuid(owner)
            (Path(name) / "_forgetwatch").chmod(0o755)
        assert Trajectory.from_run(name).steps == (0, 2)
    assert (weights(run), losses(run)) == undisturbed
    assert [row["step"] for row in run.state.log_history if "eval_forget/all/forgotten" in row] == [
        0,
        2,
        4,
        6,
    ]
    lines = log_lines(capfd)
    (told,) = (line for line in lines if "step 4: scored, and not stored: " in line)
    assert "Permission denied at " in told
    # The report cannot be written either; and where nobody else may read the environment, more fails under this user.
    what = [line.partition(" at step ")[0] for line in lines if "training continues" in line]
    assert len(set(what)) == len(what) >= 1


def test_a_baseline_that_cannot_be_written_fails_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = trainer(tmp_path, callbacks=[ForgetWatchCallback(probe())])
    run.args.output_dir = str(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        run.train()
    assert run.state.global_step == 0


def test_a_probe_without_items_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").touch()
    for given in (lambda: Probe([]), lambda: tmp_path / "empty.jsonl"):
        with pytest.raises(ProbeError):
            ForgetWatchCallback(given())
    with pytest.raises(ProbeError, match=r"gone\.jsonl"):
        ForgetWatchCallback(tmp_path / "gone.jsonl")


@pytest.mark.full("None", reason="further resumes")
@pytest.mark.parametrize("step", [None, 6])
def test_a_named_baseline_is_no_look_of_the_resumed_run_whatever_its_step(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], step: int | None
) -> None:
    options = {"save_strategy": "steps", "save_steps": 4}
    trainer(tmp_path, callbacks=[ForgetWatchCallback(probe(), every=2)], steps=4, **options).train()
    named = load_snapshot(tmp_path / "_forgetwatch" / "baseline.parquet")
    named = dataclasses.replace(
        named, meta={name: named.meta[name] for name in ("model", "probe")} | {"step": step}
    )
    for gone in (tmp_path / "_forgetwatch", tmp_path / "checkpoint-4" / "forgetwatch"):
        shutil.rmtree(gone)
    watch = ForgetWatchCallback(probe(), every=2, baseline=named)
    run = trained(tmp_path, callbacks=[watch], steps=8, **options, resume=True)
    assert (
        sum(
            "baseline is gone; it is replaced by the one that was named" in line
            for line in log_lines(capfd)
        )
        == 1
    )
    logged = [row["step"] for row in run.state.log_history if "eval_forget/all/forgotten" in row]
    assert logged == [0, 2, 4, 6, 8]
    assert Trajectory.from_run(tmp_path).steps == (-1, 4, 6, 8)


def test_a_terminal_that_cannot_show_the_table_does_not_lose_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    items = [dataclasses.replace(item, category=f"数学 {item.category}") for item in probe()]
    run = trainer(tmp_path, callbacks=[ForgetWatchCallback(Probe(items, name="数学"), every=3)])
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
        run.train()
    assert run.state.global_step == 6
    assert (
        sum(
            "showing the table at step 6 failed, training continues" in line
            for line in log_lines(capfd)
        )
        == 1
    )
