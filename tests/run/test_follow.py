"""A follower scores each checkpoint once, as soon as it is complete, whatever happens to the training's folder.

A follower in a second process measures what the callback measures inside the training, bit for bit.

A checkpoint is complete when every file of its model is there and final, and not before.
"""

import errno
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pytest
import saved_runs as runs
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from ranks import in_processes
from safetensors.numpy import save_file
from support import WORDS, probe, trainer
from transformers import TrainerCallback

from forgetwatch import ForgetWatchCallback, Trajectory, load_snapshot
from forgetwatch.errors import WatchError
from forgetwatch.follow import folders as saved_checkpoints
from forgetwatch.follow import follower as module
from forgetwatch.follow import queue as checkpoint_queue
from forgetwatch.follow.folders import CheckpointGoneError, CheckpointStore, SavedCheckpoint
from forgetwatch.follow.queue import CheckpointQueue
from forgetwatch.loading import Loading
from forgetwatch.run import run_files
from forgetwatch.run.guard import Guard
from forgetwatch.run_folder.description import GuardFinding
from forgetwatch.scoring import model_loading as checkpoints

pytestmark = pytest.mark.usefixtures("without_pictures")

FOLDER = "_forgetwatch_follow"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training's folder with the checkpoints 10 and 20 of 30 steps; copied by the tests that use it."""
    folder = tmp_path_factory.mktemp("saved")
    for step in (10, 20):
        runs.save(folder, step)
    return folder


@pytest.fixture
def out(saved: Path, tmp_path: Path) -> Path:
    """The same folder, to be changed."""
    return Path(shutil.copytree(saved, tmp_path / "out"))


def before_loading(monkeypatch: pytest.MonkeyPatch, act: Callable[[str], object]) -> None:
    """Let something happen when a model is about to be loaded; it is given the folder."""

    def load(given: str, **options: Any) -> Any:
        act(given)
        return checkpoints.load_model(given, **options)

    monkeypatch.setattr(module, "load_model", load)


def test_checkpoints_that_are_there_are_scored_in_order(out: Path, base: Path) -> None:
    lines: list[str] = []
    runs.save(out, 100)
    made = runs.follower(out, base, on_look=lines.append)
    assert made.follow() == "once"
    assert made.scored == [10, 20, 100]
    assert Trajectory.from_run(out).steps == (0, 10, 20, 100)
    assert [line.split()[1] for line in lines] == ["10", "20", "100"]
    assert all(word in lines[0] for word in ("of 30", "forgotten", "gained", "net", " s"))
    assert (out / FOLDER / "report.html").is_file()
    saved = [f"checkpoint-{step}" for step in (10, 100, 20)]
    assert sorted(path.name for path in out.iterdir()) == [FOLDER, f"{FOLDER}.lock", *saved]


def test_started_again_it_scores_no_checkpoint_twice(
    out: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.follower(out, base).follow()
    rows = (out / FOLDER / "step-000010.parquet").read_bytes()
    runs.save(out, 30)
    made = runs.follower(out, base, once=False)
    assert made.follow() == "last checkpoint"
    assert made.scored == [30]
    assert Trajectory.from_run(out).steps == (0, 10, 20, 30)
    assert (out / FOLDER / "step-000010.parquet").read_bytes() == rows
    made.show()
    assert ", step 30: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "moment", ["while the second is scored", "when its file is written and not listed"]
)
def test_killed_and_started_again_it_scores_no_checkpoint_twice(
    out: Path, base: Path, moment: str
) -> None:
    def die(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    if (child := os.fork()) == 0:
        made = runs.follower(out, base)
        folder = made.run.folder
        describe = folder.describe
        if moment.startswith("while"):
            look = made._looks._evaluate
            made._looks._evaluate = lambda *a, step, **b: (
                die() if step == 20 else look(*a, step=step, **b)
            )  # type: ignore[method-assign]
        else:
            folder.describe = lambda run: die() if 20 in folder.looks() else describe(run)  # type: ignore[method-assign]
        made.follow()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    made = runs.followed(out, base)
    assert made.scored == ([20] if moment.startswith("while") else [])
    assert Trajectory.from_run(out).steps == (0, 10, 20)


def test_a_half_written_checkpoint_waits(
    out: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = (out / "checkpoint-20/model.safetensors").read_bytes()
    (out / "checkpoint-20/model.safetensors").write_bytes(whole[:-5])
    (out / "checkpoint-20/trainer_state.json").unlink()
    made = runs.followed(out, base)
    assert made.scored == [10]
    assert "checkpoint-20 could not be scored: " in capsys.readouterr().err
    (out / "checkpoint-20/model.safetensors").write_bytes(whole)
    made = runs.followed(out, base)
    assert made.scored == [20]


def test_a_checkpoint_that_is_written_in_place_while_it_is_loaded_is_not_scored_before_that_ends(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other, again = runs.save(out.with_name("other"), 10, of=11), list[int]()

    def write_again(given: str) -> None:
        if "checkpoint-10" in given and not again:
            again.append(1)
            (out / "checkpoint-10/model.safetensors").write_bytes(
                (other / "model.safetensors").read_bytes()
            )

    before_loading(monkeypatch, write_again)
    made = runs.followed(out, base)
    assert (sorted(made.scored), made.queue.failed) == ([10, 20], [])
    assert capsys.readouterr().err.count("forgetwatch: checkpoint-10 is being written again\n") == 1
    assert not list(out.glob(f"{FOLDER}-*"))


def test_one_deleted_under_the_reader_is_named_and_the_next_is_scored(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before_loading(
        monkeypatch,
        lambda given: runs.delete(out / "checkpoint-10") if "checkpoint-10" in given else None,
    )
    made = runs.followed(out, base)
    assert (made.scored, made.queue.failed) == ([20], ["checkpoint-10"])
    assert "forgetwatch: checkpoint-10 was deleted while it was read\n" in capsys.readouterr().err


def test_a_checkpoint_that_cannot_be_read_is_named_and_the_next_is_scored(
    out: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "checkpoint-10/trainer_state.json").unlink()
    (out / "checkpoint-10/trainer_state.json").symlink_to("trainer_state.json")
    made = runs.followed(out, base)
    assert (made.scored, made.queue.waiting) == ([20], ["checkpoint-10"])
    assert (
        capsys.readouterr().err.count(
            "checkpoint-10 cannot be read now, and is read again: [Errno 40]"
        )
        == 1
    )


def test_checkpoints_behind_links_are_scored(out: Path, base: Path, tmp_path: Path) -> None:
    for step in (10, 20):
        moved = shutil.move(out / f"checkpoint-{step}", tmp_path / f"disk-{step}")
        (out / f"checkpoint-{step}").symlink_to(moved)
    made = runs.followed(out, base)
    assert made.scored == [10, 20]
    assert Trajectory.from_run(out).steps == (0, 10, 20)


def test_a_look_that_met_a_full_disk_is_stored_when_there_is_room_and_not_scored_again(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded, polled, wait = list[str](), list[int](), CheckpointQueue.next

    def following(queue: CheckpointQueue, **options: Any) -> Any:
        if len(loaded) == 3:  # the base and both checkpoints
            polled.append(1)
        if len(polled) == 2:
            runs.delete(out / "checkpoint-20")
            disk.undo()
        return "idle" if len(polled) == 3 else wait(queue, **options)

    before_loading(monkeypatch, loaded.append)
    monkeypatch.setattr(CheckpointQueue, "next", following)
    with pytest.MonkeyPatch.context() as disk:
        runs.fill_disk(disk, "step-000020")
        made = runs.follower(out, base, once=False)
        assert made.follow() == "idle"
    assert (made.scored, made.queue.failed, made.unstored, len(loaded)) == ([10, 20], [], [], 3)
    assert Trajectory.from_run(out).steps == (0, 10, 20)
    told = capsys.readouterr().err
    file = out / FOLDER / "step-000020.parquet"
    assert (
        told.count(
            f"step 20: scored, and not stored: disk full at {file}; it is stored when there is room\n"
        )
        == 1
    )
    assert told.count("what was not stored is stored now\n") == 1
    assert "could not be scored" not in told


@pytest.mark.parametrize(
    ("number", "why"),
    [(errno.EFBIG, "disk full"), (errno.EIO, "Input/output error")],
    ids=["full", "broken"],
)
def test_a_base_that_cannot_be_stored_is_no_base_that_cannot_be_scored(
    out: Path,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    why: str,
) -> None:
    runs.fill_disk(monkeypatch, "baseline", number=number)
    made = runs.follower(out, base)
    assert made.follow() == "once"
    assert (made.scored, made.unstored) == ([10, 20], ["the base", "step 10", "step 20"])
    told = capsys.readouterr().err
    assert (
        told.count(
            f"step 0: scored, and not stored: {why} at {out / FOLDER / 'baseline.parquet'}; it is"
        )
        == 1
    )
    assert "cannot be scored" not in told
    assert not list(out.glob(f"{FOLDER}-*"))


def test_a_limit_on_the_size_of_files_is_met_like_a_full_disk(out: Path, base: Path) -> None:
    if (child := os.fork()) == 0:
        lines: list[str] = []
        run_files.log = lines.append  # type: ignore[assignment]
        made = runs.follower(out, base)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
        made.follow()
        met = [
            line
            for line in lines
            if f": scored, and not stored: disk full at {out / FOLDER}" in line
        ]
        os._exit(0 if (len(met), len(made.unstored)) == (1, 3) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_damaged_checkpoint_is_named_with_the_reason_and_the_next_is_scored(
    out: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (out / "checkpoint-10/config.json").write_text("{")
    runs.write_state(out / "checkpoint-10", 10)
    made = runs.followed(out, base)
    assert (made.scored, made.queue.failed) == ([20], ["checkpoint-10"])
    assert "checkpoint-10 could not be scored: " in capsys.readouterr().err


def test_one_that_failed_and_is_saved_again_is_scored_and_no_longer_named(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (out / "checkpoint-10/config.json").read_text()
    (out / "checkpoint-10/config.json").write_text("{")
    runs.write_state(out / "checkpoint-10", 10)

    def mend(given: str) -> None:
        if "checkpoint-20" in given:
            (out / "checkpoint-10/config.json").write_text(settings)
            runs.write_state(out / "checkpoint-10", 10)

    before_loading(monkeypatch, mend)
    made = runs.followed(out, base)
    assert (made.scored, made.queue.failed) == ([20, 10], [])


@pytest.mark.full(reason="further ways to follow")
def test_checkpoints_without_a_tokenizer_get_that_of_the_base(
    out: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.follower(out, base, run=out / "first").follow()
    for path in out.glob("checkpoint-*/token*"):
        path.unlink()
    for step in (10, 20):
        runs.write_state(out / f"checkpoint-{step}", step)
    made = runs.followed(out, base, run=out / "second")
    assert made.scored == [10, 20]
    assert (
        capsys.readouterr().err.count("are saved without a tokenizer; that of the base is used")
        == 1
    )
    rows = [load_snapshot(out / name / "step-000020.parquet").table for name in ("first", "second")]
    assert rows[0].equals(rows[1])
    # A snapshot has none to give.
    made = runs.followed(out, out / "first/baseline.parquet", run=out / "third")
    assert (made.scored, made.queue.failed) == ([], ["checkpoint-10", "checkpoint-20"])
    assert "checkpoint-10: it has no tokenizer; copy the files of its base's tokenizer into it" in (
        capsys.readouterr().err
    )


def test_it_ends_when_nothing_new_is_saved(out: Path, base: Path) -> None:
    made = runs.follower(out, base, once=False, idle=0.2)
    assert made.follow() == "idle"
    assert made.scored == [10, 20]


def test_a_training_that_was_stopped_early_is_over(out: Path, base: Path) -> None:
    control = {"TrainerControl": {"args": {"should_training_stop": True}}}
    runs.write_state(out / "checkpoint-20", 20, max_steps=1000, stateful_callbacks=control)
    assert runs.follower(out, base, once=False).follow() == "last checkpoint"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_all_that_was_scored(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    before = signal.getsignal(number)
    before_loading(
        monkeypatch,
        lambda given: os.kill(os.getpid(), number) if "checkpoint-10" in given else None,
    )
    made = runs.follower(out, base, once=False)
    assert made.follow() == "stopped"
    assert made.scored == [10]  # the look is finished
    assert Trajectory.from_run(out).steps == (0, 10)
    assert (out / FOLDER / "report.html").is_file()
    assert signal.getsignal(number) is before


def test_two_followers_of_one_folder_are_refused(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready, done = os.pipe(), os.pipe()
    if (child := os.fork()) == 0:
        made = runs.follower(out, base)
        made.run.folder.claim()
        os.write(ready[1], b".")
        os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    monkeypatch.setattr(module, "_PATIENCE", 0.1)
    with pytest.raises(
        WatchError, match=r"another process follows into this folder; stop it, or .* --run"
    ):
        runs.follower(out, base).follow()
    # Another run folder is free, and so is the training's own.
    assert runs.follower(out, base, run=out / "mine").follow() == "once"
    os.write(done[1], b".")
    os.waitpid(child, 0)


def test_a_base_of_another_tokenizer_is_refused(out: Path, base: Path, tmp_path: Path) -> None:
    from support import tokenizer

    tok = tokenizer()
    vocabulary = tok.get_vocab()
    text = tok.backend_tokenizer.to_str()
    # The same words with two ids exchanged.
    one, other = vocabulary[WORDS[0]], vocabulary["Answer"]
    swapped = text.replace(f'"{WORDS[0]}":{one}', '"@":0').replace(
        f'"Answer":{other}', f'"Answer":{one}'
    )
    swapped = swapped.replace('"@":0', f'"{WORDS[0]}":{other}')
    unlike = Path(shutil.copytree(base, tmp_path / "unlike"))
    (unlike / "tokenizer.json").write_text(swapped)
    with pytest.raises(
        WatchError, match=r"checkpoint-10 cannot be compared with the base .*another tokenizer"
    ):
        runs.follower(out, unlike).follow()


def test_another_base_than_before_is_refused(out: Path, base: Path, tmp_path: Path) -> None:
    runs.follower(out, base).follow()
    other = Path(shutil.copytree(base, tmp_path / "other"))
    with pytest.raises(
        WatchError, match=r"its looks are compared with .*, and --base is .*; give --run another"
    ):
        runs.follower(out, other).follow()
    assert Trajectory.from_run(out).steps == (0, 10, 20)


@pytest.mark.full(reason="further ways to follow")
def test_a_snapshot_serves_as_the_base(out: Path, base: Path) -> None:
    runs.follower(out, base, run=out / "first").follow()
    made = runs.followed(out, out / "first/baseline.parquet")
    both = [load_snapshot(out / name / "step-000020.parquet") for name in ("first", FOLDER)]
    assert both[0].table["choice_logprobs"].equals(both[1].table["choice_logprobs"])
    # Started again it continues; with other rows under the same name it does not.
    runs.save(out, 30)
    made = runs.followed(out, out / "first/baseline.parquet")
    assert made.scored == [30]
    shutil.copy(out / "first/step-000010.parquet", out / "first/baseline.parquet")
    with pytest.raises(
        WatchError,
        match=r"its looks are compared with other rows, and --base is .*baseline.parquet",
    ):
        runs.follower(out, out / "first/baseline.parquet").follow()


def test_a_base_that_is_an_adapter_without_its_base_is_refused_before_any_waiting(
    tmp_path: Path, base: Path
) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(
        json.dumps({"base_model_name_or_path": str(tmp_path / "gone")})
    )
    with pytest.raises(
        WatchError,
        match=r"--base .*adapter is an adapter of .*gone, which is not there; put it back",
    ):
        runs.follower(tmp_path / "out", adapter)


@pytest.mark.full(reason="further ways to follow")
def test_a_folder_that_cannot_be_read_for_a_while_is_read_again(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names, listed = CheckpointStore.names, list[int]()

    def fail(store: CheckpointStore) -> dict[int, str]:
        listed.append(1)
        if len(listed) in (2, 3):
            raise RuntimeError("no network")
        return names(store)

    monkeypatch.setattr(CheckpointStore, "names", fail)
    made = runs.follower(out, base, once=False, idle=0.5)
    assert (made.follow(), made.scored) == ("idle", [10, 20])
    assert (
        capsys.readouterr().err.count(f"{out} cannot be read now, and is read again: no network")
        == 1
    )
    listed[:] = [1]
    with pytest.raises(WatchError, match=r"out: cannot be listed \(no network\)"):
        runs.follower(out, base, once=False, run=out / "other").follow()


@pytest.mark.full(reason="further ways to follow")
def test_shards_are_read_when_all_are_there(
    out: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = runs.save(out, 30, max_shard_size="20KB")
    shards = sorted(folder.glob("model-*.safetensors"))
    assert len(shards) > 1
    moved = shards[-1].rename(out / "elsewhere")
    runs.follower(out, base).follow()
    assert f"checkpoint-30 is not complete yet: {shards[-1].name}, which" in capsys.readouterr().err
    moved.rename(shards[-1])
    made = runs.followed(out, base)
    assert made.scored == [30]


def test_an_adapter_is_scored_and_one_whose_base_is_gone_is_refused(
    tmp_path: Path, base: Path
) -> None:
    own = Path(shutil.copytree(base, tmp_path / "own"))
    out = tmp_path / "out"
    runs.save_adapter(out, 10, base=own)
    made = runs.followed(out, base)
    assert made.scored == [10]
    assert made.run.comparisons[10].all.forgotten + made.run.comparisons[10].all.gained > 0
    shutil.copytree(out / "checkpoint-10", out / "checkpoint-20")
    shutil.rmtree(own)
    with pytest.raises(
        WatchError, match=r"checkpoint-20 is an adapter of .*own, which is not there; put it back"
    ):
        runs.follower(out, base).follow()
    assert Trajectory.from_run(out).steps == (0, 10)


@pytest.mark.full(reason="further ways to follow")
def test_the_base_of_several_adapters_is_read_once(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, out, read = Path(shutil.copytree(base, tmp_path / "own")), tmp_path / "out", list[str]()

    def identity(given: str, **options: Any) -> list[str]:
        read.append(given)
        return checkpoints.weights_identity(given, **options)

    monkeypatch.setattr(saved_checkpoints, "weights_identity", identity)
    for step in (10, 20, 30):
        runs.save_adapter(out, step, base=own)
    made = runs.followed(out, base)
    assert (made.scored, read) == ([10, 20, 30], [str(own)])
    # What is put beside its weights is no other model.
    (own / "eval_results.json").write_text("{}")
    shutil.copytree(out / "checkpoint-10", own / "adapter")
    runs.save_adapter(out, 40, base=own)
    made = runs.followed(out, base)
    assert (made.scored, sorted(made.run.comparisons)) == ([40], [0, 10, 20, 30, 40])


@pytest.mark.full(reason="further ways to follow")
def test_looks_of_adapters_over_a_base_that_was_replaced_are_kept_apart_from_new_ones(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, out = Path(shutil.copytree(base, tmp_path / "own")), tmp_path / "out"
    replacement = runs.save(tmp_path / "other", 7) / "model.safetensors"
    runs.save_adapter(out, 10, base=own)
    runs.follower(out, own).follow()
    runs.save_adapter(out, 20, base=own)
    made = runs.followed(out, own)
    assert (made.scored, sorted(made.run.comparisons)) == (
        [20],
        [0, 10, 20],
    )  # an unchanged base changes nothing
    shutil.copy(replacement, own / "model.safetensors")
    runs.delete(out / "checkpoint-10")
    capsys.readouterr()
    made = runs.followed(out, own)
    assert (made.scored, sorted(made.run.comparisons)) == ([20], [0, 20])
    line = f"the looks in {out / FOLDER} are of adapters of {own}, which has other weights now; they are kept aside"
    assert capsys.readouterr().err.count(line) == 1
    assert Trajectory.from_run(out / f"{FOLDER}-1").steps == (0, 10, 20)
    for name in ("baseline.parquet", "step-000020.parquet"):
        both = [
            load_snapshot(folder / name).table for folder in (out / FOLDER, out / f"{FOLDER}-1")
        ]
        assert not both[0]["choice_logprobs"].equals(both[1]["choice_logprobs"])


def test_a_base_that_is_replaced_while_its_adapters_are_followed_ends_that(
    tmp_path: Path, base: Path
) -> None:
    own, out = Path(shutil.copytree(base, tmp_path / "own")), tmp_path / "out"
    replacement = runs.save(tmp_path / "other", 7) / "model.safetensors"
    runs.save_adapter(out, 10, base=own)
    runs.save_adapter(out, 20, base=own)
    made = runs.follower(
        out, base, on_look=lambda _: shutil.copy(replacement, own / "model.safetensors")
    )
    with pytest.raises(
        WatchError,
        match=r"checkpoint-20 is an adapter of .*own, which has other weights now .*again",
    ):
        made.follow()
    assert Trajectory.from_run(out).steps == (0, 10)


def test_weights_in_parts_are_named(
    out: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = out / "checkpoint-30/pytorch_model_fsdp_0"
    parts.mkdir(parents=True)
    (parts / "__0_0.distcp").write_bytes(b"weights")
    runs.write_state(out / "checkpoint-30", 30)
    made = runs.follower(out, base, once=False)
    assert made.follow() == "last checkpoint"
    assert made.scored == [10, 20]
    assert (
        capsys.readouterr().err.count(
            "checkpoint-30 has its weights in parts, as the processes had them"
        )
        == 1
    )


def test_a_step_that_is_saved_again_is_named_and_its_look_stays(
    out: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.follower(out, base).follow()
    rows = (out / FOLDER / "step-000020.parquet").read_bytes()
    runs.delete(out / "checkpoint-20")
    runs.save(out, 20, of=21)
    assert runs.followed(out, base).scored == []
    assert (
        capsys.readouterr().err.count(
            "checkpoint-20 was saved again after it was scored; its look stays"
        )
        == 1
    )
    assert (out / FOLDER / "step-000020.parquet").read_bytes() == rows


def test_a_remote_folder_is_copied_first(saved: Path, base: Path, tmp_path: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(f"{saved}/", "/run-1/", recursive=True)
    with pytest.raises(
        WatchError, match=r"needed a folder of this machine for the looks; name it with --run"
    ):
        runs.follower("memory://run-1", base)
    made = runs.followed("memory://run-1", base, run=tmp_path / "looks")
    assert made.scored == [10, 20]
    local = runs.followed(shutil.copytree(saved, tmp_path / "local"), base)
    folders = tmp_path / "looks", local.run.folder.path
    both = [load_snapshot(folder / "step-000020.parquet") for folder in folders]
    assert both[0].table["choice_logprobs"].equals(both[1].table["choice_logprobs"])


@pytest.mark.full(reason="further ways to follow")
def test_a_remote_checkpoint_that_is_written_while_it_is_copied_is_copied_again(
    saved: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    memory, made_again = fsspec.filesystem("memory"), list[int]()
    memory.put(f"{saved}/", "/run-2/", recursive=True)
    other = runs.save(tmp_path, 20, of=21)
    whole = memory.get_file

    def save_again() -> None:
        if not made_again:
            made_again.append(1)
            memory.put(f"{other}/", "/run-2/checkpoint-20/", recursive=True)

    def get(path: str, *rest: Any, **options: Any) -> Any:
        done = whole(path, *rest, **options)
        if "checkpoint-20/config.json" in path:
            save_again()
        return done

    monkeypatch.setattr(memory, "get_file", get)
    monkeypatch.setattr("forgetwatch.follow.follower._REVISIT", 0.0)
    made = runs.followed("memory://run-2", base, run=tmp_path / "looks")
    assert made.scored == [10, 20]
    expected = runs.followed(shutil.copytree(other, tmp_path / "local/checkpoint-20").parent, base)
    both = [load_snapshot(one.run.folder.path / "step-000020.parquet") for one in (made, expected)]
    assert both[0].table["choice_logprobs"].equals(both[1].table["choice_logprobs"])
    memory.rm("/run-2", recursive=True)


@pytest.mark.full(reason="further ways to follow")
def test_a_model_that_is_spread_over_devices_gives_the_same_rows(
    out: Path, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    runs.follower(out, base, run=out / "one").follow()
    runs.follower(out, base, run=out / "spread", loading=Loading(device_map="auto")).follow()
    rows = [load_snapshot(out / name / "step-000020.parquet").table for name in ("one", "spread")]
    assert rows[0]["choice_logprobs"].equals(rows[1]["choice_logprobs"])
    assert not list((tmp_path / "temporary").iterdir())


def test_no_two_models_are_in_memory(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[weakref.ref[Any]] = []

    def load(given: str, **options: Any) -> Any:
        assert not any(one() for one in loaded)
        model, tokenizer = checkpoints.load_model(given, **options)
        loaded.append(weakref.ref(model))
        return model, tokenizer

    monkeypatch.setattr(module, "load_model", load)
    runs.follower(out, base).follow()
    assert len(loaded) == 3


@pytest.mark.full(reason="further numbers of processes")
def test_several_processes_score_together_and_the_first_one_writes(
    out: Path, base: Path, tmp_path: Path
) -> None:
    runs.follower(out, base, run=tmp_path / "alone").follow()
    script = f"""
import saved_runs as runs
lines = []
made = runs.follower({str(out)!r}, {str(base)!r}, on_look=lines.append, once=False, idle=0)
found["end"], found["lines"], found["scored"] = made.follow(), len(lines), made.scored
"""
    found = in_processes(script, tmp_path)
    assert [one["lines"] for one in found] == [2, 0]
    assert [one["scored"] for one in found] == [[10, 20]] * 2
    assert [one["end"] for one in found] == ["idle"] * 2
    assert found[0]["stderr"].count("checkpoint-20 is complete") == 1
    assert "forgetwatch: " not in found[1]["stderr"]
    for name in ("baseline.parquet", "step-000020.parquet"):
        both = [load_snapshot(folder / name).table for folder in (tmp_path / "alone", out / FOLDER)]
        assert both[0]["choice_logprobs"].equals(both[1]["choice_logprobs"])


def test_a_second_signal_ends_the_process(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def signals(given: str) -> None:
        if "checkpoint-10" in given:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)

    before_loading(monkeypatch, signals)
    if (child := os.fork()) == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        runs.follower(out, base).follow()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


def test_of_several_processes_all_finish_the_look_when_one_gets_a_signal(
    out: Path, base: Path, tmp_path: Path
) -> None:
    script = f"""
import os, signal
import saved_runs as runs
from forgetwatch.follow import follower
kept = follower.load_model
def load(given, **options):
    if rank == 0 and "checkpoint-10" in given:
        os.kill(os.getpid(), signal.SIGTERM)
    return kept(given, **options)
follower.load_model = load
made = runs.follower({str(out)!r}, {str(base)!r}, once=False)
found["end"], found["scored"] = made.follow(), made.scored
"""
    found = in_processes(script, tmp_path)
    assert [(one["end"], one["scored"]) for one in found] == [("stopped", [10])] * 2


def test_the_guard_stops_it_once(out: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = GuardFinding("policy", "all accuracy", 10, "fell")
    monkeypatch.setattr(
        Guard, "findings", lambda self, run, lost=(): [found] if run.steps[-1] == 10 else []
    )
    made = runs.follower(out, base, guard=Guard("stop"))
    assert (made.follow(), made.scored) == ("guard", [10])
    assert Trajectory.from_run(out).findings == (found,)
    # Started again it follows on: what it was stopped for is known.
    made = runs.follower(out, base, guard=Guard("stop"))
    assert (made.follow(), made.scored) == ("once", [20])
    assert Trajectory.from_run(out).findings == (found,)


def test_an_empty_folder_is_an_error_with_once_and_awaited_without(
    tmp_path: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(
        WatchError, match=r"needed checkpoints \(checkpoint-N or global_step_N\), found none$"
    ):
        runs.follower(tmp_path / "typo", base).follow()
    assert runs.follower(tmp_path / "later", base, once=False, idle=0.1).follow() == "idle"
    assert "no checkpoint yet, nor that folder; waiting for checkpoint-N" in capsys.readouterr().err
    with pytest.raises(
        WatchError, match=r"found none; it is itself a checkpoint, give the folder above"
    ):
        runs.follower(base, base).follow()
    capsys.readouterr()
    assert runs.follower(base, base, once=False, idle=0.1).follow() == "idle"
    assert (
        "global_step_N; it is itself a checkpoint, give the folder above\n"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("run", ["file/looks", "file"])
def test_a_run_folder_that_cannot_be_written_is_refused_before_anything_is_scored(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    before_loading(monkeypatch, lambda _: pytest.fail("loaded"))
    (out / "file").write_text("a file")
    with pytest.raises(
        WatchError,
        match=r"looks cannot be stored there, since .*file is a file; name another folder",
    ):
        runs.follower(out, base, run=out / run).follow()
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(
        WatchError, match=r"since .*out cannot be written to; name another folder with --run"
    ):
        runs.follower(out, base).follow()


@pytest.mark.full("the run", reason="further ways to follow")
@pytest.mark.parametrize("named_by", ["the checkpoint", "the run folder"])
def test_the_batches_are_those_of_the_watched_run(
    out: Path, base: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
) -> None:
    from support import probe

    if named_by == "the run folder":
        monkeypatch.setattr(module, "watched_budget", lambda *_: 96)
        runs.follower(out, base, run=out / "_forgetwatch").follow()
        monkeypatch.undo()
    watched = {
        "fingerprint": probe(40, norm="bytes").fingerprint,
        "made": {"batch": {"tokens": 96}},
    }
    if named_by == "the checkpoint":
        runs.write_state(
            out / "checkpoint-10", 10, stateful_callbacks={"forgetwatch": {"attributes": watched}}
        )
    made = runs.followed(out, base)
    assert made.run.baseline is not None
    assert made.run.baseline.meta["batch"]["tokens"] == 96


def test_checkpoints_of_another_training_begin_a_new_run(
    out: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.follower(out, base).follow()
    for step in (10, 20, 30):
        runs.save(out, step, of=step + 7)
    made = runs.follower(out, base)
    made.follow()
    assert "are of another training, whose checkpoints were here" in capsys.readouterr().err
    assert made.scored == [10, 20, 30]
    assert Trajectory.from_run(out).steps == (0, 10, 20, 30)


def test_weights_that_were_exchanged_with_size_and_time_are_seen(out: Path, base: Path) -> None:
    shutil.rmtree(out / "checkpoint-10")
    runs.follower(out, base).follow()
    file = out / "checkpoint-20" / "model.safetensors"
    times, content = file.stat(), file.read_bytes()
    file.write_bytes(content[:-400] + bytes(255 - byte for byte in content[-400:]))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    made = runs.follower(out, base)
    made.follow()
    assert made.scored == [20]


def test_another_training_while_it_is_followed_ends_that(out: Path, base: Path) -> None:
    made = runs.follower(out, base)
    made.follow()
    for step in (10, 20, 30):
        runs.save(out, step, of=step + 7)
    made.queue.fail = lambda _: None  # type: ignore[method-assign]
    with pytest.raises(WatchError, match="are of two trainings; start again"):
        made._score(made._store.read(30, "checkpoint-30"))  # type: ignore[arg-type]


def test_a_base_that_was_replaced_in_place_is_named(
    out: Path, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Path(shutil.copytree(base, tmp_path / "own"))
    runs.follower(out, own).follow()
    shutil.copy(out / "checkpoint-10" / "model.safetensors", own / "model.safetensors")
    made = runs.follower(out, own)
    made.follow()
    assert f"are compared with {own}, which has other weights now" in capsys.readouterr().err
    assert made.scored == [10, 20]


def test_a_first_checkpoint_that_is_not_the_base_is_scored(out: Path, base: Path) -> None:
    shutil.copytree(out / "checkpoint-10", out / "checkpoint-0")
    made = runs.follower(out, base)
    made.follow()
    assert made.scored == [0, 10, 20]
    run = Trajectory.from_run(out)
    assert run.steps == (-1, 0, 10, 20)
    assert run.comparisons[1].all.forgotten == run.comparisons[2].all.forgotten


def test_checkpoints_of_another_name_are_scored_and_named_where_none_fits(
    out: Path, base: Path
) -> None:
    for step in (10, 20):
        (out / f"checkpoint-{step}").rename(out / f"step_{step}")
    with pytest.raises(
        WatchError, match=r"found none; there are step_10, step_20; --name 'step_\{N\}'"
    ):
        runs.follower(out, base).follow()
    made = runs.follower(out, base, name="step_{N}")
    made.follow()
    assert made.scored == [10, 20]


STEPS = (4, 8, 12, 16)


class _Unhurried(TrainerCallback):
    """Lets each checkpoint stand for several polls of the follower: one that comes and goes between two is not seen."""

    def on_save(self, *_: Any, **__: Any) -> None:
        time.sleep(0.5)


def followed(out: Path, base: Path, result: Path, **training: Any) -> dict[str, Any]:
    """Train with the callback inside while another process follows; the steps that it scored, and those it named."""
    if (child := os.fork()) == 0:
        try:
            os.dup2(os.open(result.with_suffix(".log"), os.O_WRONLY | os.O_CREAT), 2)
            made = runs.follower(out, base, once=False, idle=120)
            end = made.follow()
            result.write_text(
                json.dumps({"end": end, "scored": made.scored, "failed": made.queue.failed})
            )
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(0)
    watch = ForgetWatchCallback(
        probe(40, norm="bytes"), every="save", max_overhead=None, drift=False
    )
    options = {"save_strategy": "steps", "save_steps": 4, "save_total_limit": 2, **training}
    trainer(out, steps=16, callbacks=[watch, _Unhurried()], **options).train()
    os.waitpid(child, 0)
    return dict(json.loads(result.read_text()))


@pytest.mark.full("full", reason="further ways to follow")
@pytest.mark.parametrize("kind", ["full", "adapter"])
def test_counts_and_scores_are_those_of_the_callback_in_a_training_that_rotates(
    tmp_path: Path, kind: str
) -> None:
    from transformers import AutoModelForCausalLM

    out, base, options = tmp_path / "out", runs.base(tmp_path / "base"), dict[str, Any]()
    if kind == "adapter":
        peft = pytest.importorskip("peft")
        options["peft_config"] = peft.LoraConfig(
            r=4, target_modules="all-linear", task_type="CAUSAL_LM", lora_alpha=64
        )
    network = AutoModelForCausalLM.from_pretrained(base)
    found = followed(out, base, tmp_path / "result.json", network=network, **options)
    assert found["end"] == "last checkpoint"
    named = [int(name.removeprefix("checkpoint-")) for name in found["failed"]]
    seen = sorted(found["scored"] + named)
    # While one is read, others may come and go: those are not seen. None is seen twice.
    assert [step for step in STEPS if step in seen] == seen
    assert len(seen) >= len(STEPS) - 1
    assert {12, 16} <= set(found["scored"])  # these two stay
    inside, beside = (
        Trajectory.from_run(out / name) for name in ("_forgetwatch", "_forgetwatch_follow")
    )
    for step in (0, *found["scored"]):
        name = f"step-{step:06d}.parquet" if step else "baseline.parquet"
        rows = [
            load_snapshot(out / folder / name).table
            for folder in ("_forgetwatch", "_forgetwatch_follow")
        ]
        assert rows[0]["choice_logprobs"].equals(rows[1]["choice_logprobs"])
        assert rows[0]["correct"].equals(rows[1]["correct"])
        batches = [
            load_snapshot(out / folder / name).meta["batch"]
            for folder in ("_forgetwatch", "_forgetwatch_follow")
        ]
        assert batches[0] == batches[1]
        ours, theirs = (run.comparisons[run.steps.index(step)].all for run in (inside, beside))
        assert (ours.forgotten, ours.gained) == (theirs.forgotten, theirs.gained)
    assert any(each.all.forgotten for each in beside.comparisons)


def write(folder: Path, *names: str) -> Path:
    """Make the files of a checkpoint: weights, an index, JSON, or a byte."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".safetensors":
            save_file({"a": np.ones(100, np.float32)}, path)
        elif name.endswith(".index.json"):
            path.write_text(
                json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}})
            )
        elif name.endswith("trainer_state.json"):
            path.write_text(json.dumps({"global_step": 20, "max_steps": 20}))
        else:
            path.write_text("{}")
    return folder


def read(out: Path, name: str = "checkpoint-20") -> SavedCheckpoint:
    store = CheckpointStore(str(out))
    found = {each: step for step, each in store.names().items()}
    made = store.read(found[name], name)
    assert made is not None
    return made


def queue_of(
    given: Path | CheckpointStore, *, idle: float | None = None, once: bool = False
) -> CheckpointQueue:
    store = given if isinstance(given, CheckpointStore) else CheckpointStore(str(given))
    return CheckpointQueue(
        store, looks=dict, stop=threading.Event(), poll=0.05, idle=idle, once=once
    )


def test_folders_are_found_in_the_order_of_their_steps(tmp_path: Path) -> None:
    names = [
        "checkpoint-100",
        "checkpoint-20",
        "checkpoint-0",
        "global_step_30",
        "global_step40",
        "global_step40_hf",
    ]
    others = [
        "checkpoint-best",
        "runs",
        "_forgetwatch_follow",
        "checkpoint-20.tmp",
        "tmp-checkpoint-70",
        "step_50",
    ]
    for name in [*names, *others, "checkpoint-020"]:
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint-80").write_text("a file")
    expected = {0: names[2], 20: names[1], 30: names[3], 40: names[5], 100: names[0]}
    found = CheckpointStore(str(tmp_path)).names()
    assert found == expected
    assert list(found) == sorted(found)


def test_digits_of_other_scripts_are_no_step(tmp_path: Path) -> None:
    for name in ("checkpoint-٣", "checkpoint-२०", "checkpoint-２０"):
        (tmp_path / name).mkdir()
    assert CheckpointStore(str(tmp_path)).names() == {}


def test_links_to_folders_are_checkpoints_and_no_other_links(tmp_path: Path) -> None:
    disk, out = tmp_path / "disk", tmp_path / "run"
    write(disk / "saved", "config.json", "model.safetensors", "trainer_state.json")
    (disk / "file").write_text("a file")
    out.mkdir()
    links = {
        10: disk / "saved",
        20: disk / "gone",
        30: disk / "file",
        40: out / "checkpoint-40",
        50: out,
    }
    for step, target in links.items():
        (out / f"checkpoint-{step}").symlink_to(target)
    os.mkfifo(out / "checkpoint-60")
    assert CheckpointStore(str(out)).names() == {10: "checkpoint-10", 50: "checkpoint-50"}
    assert read(out, "checkpoint-10").problem == ""
    assert (
        read(out, "checkpoint-50").problem == "it has no weights"
    )  # it leads back to the folder itself


def test_folders_of_a_remote_file_system_are_listed_by_one_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = fsspec.filesystem("memory")
    for name in ("checkpoint-10/config.json", "checkpoint-20/config.json", "checkpoint-30"):
        files.pipe_file(f"/listed/{name}", b"{}")
    monkeypatch.setattr(MemoryFileSystem, "isdir", lambda *_: pytest.fail("another request"))
    assert list(CheckpointStore("memory://listed").names()) == [10, 20]


def test_a_folder_that_is_not_there_has_no_checkpoints(tmp_path: Path) -> None:
    assert CheckpointStore(str(tmp_path / "later")).names() == {}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (["config.json"], "it has no weights"),
        (["model.safetensors"], "config.json is missing"),
        (["config.json", "model.safetensors"], ""),
        (["adapter_config.json", "adapter_model.safetensors"], ""),
        (["adapter_config.json", "adapter_model.bin"], ""),
        (["config.json", "pytorch_model.bin"], ""),
        (["config.json", "optimizer.bin", "scheduler.bin"], "it has no weights"),
        (
            ["config.json", "model.safetensors.index.json", "model-1.safetensors"],
            "model-2.safetensors, which model.safetensors.index.json names, is missing",
        ),
        (
            [
                "config.json",
                "model.safetensors.index.json",
                "model-1.safetensors",
                "model-2.safetensors",
            ],
            "",
        ),
        (["actor/huggingface/config.json", "actor/huggingface/model.safetensors", "data.pt"], ""),
    ],
)
def test_every_file_of_the_model_must_be_there(
    tmp_path: Path, files: list[str], problem: str
) -> None:
    write(tmp_path / "checkpoint-20", *files)
    assert read(tmp_path).problem == problem


def test_the_trainers_state_settles_a_checkpoint_unless_files_are_newer(tmp_path: Path) -> None:
    folder = write(tmp_path / "checkpoint-20", "config.json", "model.safetensors")
    assert not read(tmp_path).settled
    write(folder, "trainer_state.json")
    made = read(tmp_path)
    assert (made.settled, made.max_steps, made.is_last) == (True, 20, True)
    # Saved again: the state is that of the first save.
    later = os.stat(folder / "trainer_state.json").st_mtime + 5
    os.utime(folder / "model.safetensors", (later, later))
    assert not read(tmp_path).settled
    # What a callback adds to the checkpoint is no part of the model.
    os.utime(folder / "model.safetensors", (1, 1))
    late = write(folder, "forgetwatch/run.json") / "forgetwatch/run.json"
    os.utime(late, (later, later))
    assert read(tmp_path).settled
    (folder / "trainer_state.json").write_text('{"global_step": 2')
    assert not read(tmp_path).settled


def test_the_signature_changes_with_the_model_and_with_nothing_else(tmp_path: Path) -> None:
    folder = write(
        tmp_path / "checkpoint-20", "config.json", "model.safetensors", "trainer_state.json"
    )
    before = read(tmp_path).signature
    write(folder, "optimizer.pt", "rng_state.pth", "forgetwatch/run.json")
    assert read(tmp_path).signature == before
    os.utime(folder / "model.safetensors", (1, 1))
    assert read(tmp_path).signature != before


def test_the_parts_of_an_optimizer_alone_are_no_model(tmp_path: Path) -> None:
    write(
        tmp_path / "checkpoint-20",
        "config.json",
        "optimizer_0/__0_0.distcp",
        "optimizer_0/.metadata",
    )
    assert (read(tmp_path).in_parts, read(tmp_path).problem) == (False, "it has no weights")


@pytest.mark.parametrize(
    "part", ["pytorch_model_fsdp_0/__0_0.distcp", "model_world_size_2_rank_0.pt", "w/__0_0.distcp"]
)
def test_weights_of_the_processes_of_a_training_are_parts(tmp_path: Path, part: str) -> None:
    folder = write(tmp_path / "checkpoint-20", part)
    assert read(tmp_path).in_parts
    write(folder, "config.json", "model.safetensors")
    assert (read(tmp_path).in_parts, read(tmp_path).problem) == (False, "")


class KeptListings(MemoryFileSystem):  # type: ignore[misc]
    """A remote file system that lists a folder once, as those of fsspec do."""

    protocol = "kept"
    listings: ClassVar[dict[str, Any]] = {}
    find = AbstractFileSystem.find  # by listings

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.replace("kept://", "memory://")))

    def ls(self, path: str, detail: bool = True, **_: Any) -> Any:
        if path not in self.listings:
            self.listings[path] = super().ls(path, detail=True)
        return self.listings[path] if detail else [one["name"] for one in self.listings[path]]

    def invalidate_cache(self, path: str | None = None) -> None:
        self.listings.clear()


@pytest.fixture(params=["local", "kept://saved"])
def saved_of_saved_checkpoints(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[str, Callable[[str, bytes], None]]:
    """A training's folder with a checkpoint, and a function that writes a file of it."""
    folder = write(
        tmp_path / "run/checkpoint-20", "config.json", "model.safetensors", "trainer_state.json"
    )
    if request.param == "local":
        return str(
            tmp_path / "run"
        ), lambda name, text: folder.joinpath(name).write_bytes(text) and None
    fsspec.register_implementation("kept", KeptListings, clobber=True)
    files = fsspec.filesystem("memory")  # as another machine writes
    if files.exists("/saved"):
        files.rm("/saved", recursive=True)
    files.put(f"{folder.parent}/", "/saved/", recursive=True)
    return request.param, lambda name, text: files.pipe_file(
        os.path.normpath(f"/saved/checkpoint-20/{name}"), text
    )


def test_a_checkpoint_that_is_written_again_is_not_held(
    saved_of_saved_checkpoints: tuple[str, Callable[[str, bytes], None]],
) -> None:
    store, write_file = (
        CheckpointStore(saved_of_saved_checkpoints[0]),
        saved_of_saved_checkpoints[1],
    )
    assert store.names() == {20: "checkpoint-20"}
    made = store.read(20, "checkpoint-20")
    assert made is not None
    with store.held(made) as held:
        assert (held / "model.safetensors").is_file()
    write_file("config.json", b"{ }")
    held_again = store.held(made)
    with (
        pytest.raises(CheckpointGoneError, match="checkpoint-20 is being written again"),
        held_again,
    ):
        pytest.fail("held")


def test_a_folder_is_listed_as_it_is_now(
    saved_of_saved_checkpoints: tuple[str, Callable[[str, bytes], None]],
) -> None:
    store, write_file = (
        CheckpointStore(saved_of_saved_checkpoints[0]),
        saved_of_saved_checkpoints[1],
    )
    assert store.names() == {20: "checkpoint-20"}
    (Path(saved_of_saved_checkpoints[0]) / "checkpoint-30").mkdir() if store.path else write_file(
        "../checkpoint-30/config.json", b"{}"
    )
    assert list(store.names()) == [20, 30]


def test_without_the_trainers_state_a_checkpoint_must_be_the_same_at_two_listings(
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "checkpoint-20", "config.json", "pytorch_model.bin")
    queue = queue_of(tmp_path)
    assert queue._scan() is None
    (folder / "pytorch_model.bin").write_bytes(b"longer")
    assert queue._scan() is None
    found = queue._scan()
    assert found is not None
    assert found.step == 20
    write(folder, "trainer_state.json")
    (folder / "pytorch_model.bin").write_bytes(b"longer still")
    os.utime(folder / "pytorch_model.bin", (1, 1))
    assert queue._scan() is not None  # the state is newer


def test_the_end_waits_for_a_folder_that_has_just_been_made_and_for_one_that_grows(
    tmp_path: Path,
) -> None:
    folder = write(
        tmp_path / "checkpoint-20", "config.json", "model.safetensors", "trainer_state.json"
    )
    queue = queue_of(tmp_path, idle=0.5)
    found = queue.next()
    assert isinstance(found, SavedCheckpoint)
    assert found.is_last
    queue.deal_with(found)
    (tmp_path / "checkpoint-30").mkdir()
    assert queue.next() == "idle"
    (tmp_path / "checkpoint-30").rmdir()
    (folder / "model.safetensors").write_bytes(b"written again")
    queue._scan()
    assert queue._end(again=False) is None


def test_processes_that_wait_hear_from_the_main_one_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_queue, "_ROUND", 0.1)
    queue = queue_of(tmp_path, idle=5)
    assert queue.next() is None


@pytest.mark.parametrize("brief", [True, False])
def test_reading_once_ends_although_a_checkpoint_is_not_complete(
    tmp_path: Path, brief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where every wait is as long as the main process keeps the others waiting."""
    monkeypatch.setattr(checkpoint_queue, "_ROUND", 0.0)
    (tmp_path / "checkpoint-10").mkdir()
    queue = queue_of(tmp_path, once=True)
    assert [queue.next(brief=brief) for _ in range(2)] == [None, "once"]
    assert queue.waiting == ["checkpoint-10"]


def test_a_brief_wait_ends_after_one_listing(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, idle=5)
    assert queue.next(brief=True) is None


@pytest.mark.parametrize("saved_of_saved_checkpoints", ["local", "kept://saved"], indirect=True)
def test_a_remote_checkpoint_that_was_dealt_with_is_read_again_after_a_while_only(
    saved_of_saved_checkpoints: tuple[str, Callable[[str, bytes], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, reads = CheckpointStore(saved_of_saved_checkpoints[0]), list[int]()
    queue = queue_of(store, idle=5)
    found = queue.next()
    assert isinstance(found, SavedCheckpoint)
    queue.deal_with(found)
    monkeypatch.setattr(CheckpointStore, "read", lambda *_: reads.append(1))
    queue._scan()
    assert bool(reads) is (store.path is not None)
    monkeypatch.setattr(checkpoint_queue, "_REVISIT", 0.0)
    queue._scan()
    assert reads


def test_a_file_in_place_of_the_trainings_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("a file")
    with pytest.raises(WatchError, match="needed the folder of a training, got a file"):
        CheckpointStore(str(tmp_path / "log.txt"))


@pytest.mark.parametrize("given", ["nonsense://bucket/run", "s3://bucket/run"])
def test_an_address_that_cannot_be_read_is_one_sentence(given: str) -> None:
    if (
        given.startswith("s3")
        and pytest.importorskip("importlib.util").find_spec("s3fs") is not None
    ):
        pytest.skip("s3fs is installed")
    with pytest.raises(WatchError, match=r"this kind of address cannot be read here \(.+\)"):
        CheckpointStore(given)


def test_names_of_another_form_are_found_also_within_runs(tmp_path: Path) -> None:
    for name in ("step_5", "step_10", "step_x", "v0-day/checkpoint-3", "weights/step_7"):
        (tmp_path / name).mkdir(parents=True)
    assert CheckpointStore(str(tmp_path), "step_{N}").names() == {5: "step_5", 10: "step_10"}
    assert CheckpointStore(str(tmp_path), "v*/checkpoint-{N}").names() == {3: "v0-day/checkpoint-3"}
    assert CheckpointStore(str(tmp_path), "weights/step_{N}").names() == {7: "weights/step_7"}
    (tmp_path / "v1-day" / "checkpoint-3").mkdir(parents=True)
    with pytest.raises(
        WatchError, match="v0-day/checkpoint-3 and v1-day/checkpoint-3 have one step"
    ):
        CheckpointStore(str(tmp_path), "v*/checkpoint-{N}").names()
    for name in ("step", "../{N}", "{N}{N}"):
        with pytest.raises(WatchError, match=r"needed a name with \{N\} for the step"):
            CheckpointStore(str(tmp_path), name)
