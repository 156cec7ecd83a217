"""A checkpoint is complete when every file of its model is there and final, and not before."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import numpy as np
import pytest
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from safetensors.numpy import save_file

from forgetwatch.errors import WatchError
from forgetwatch.run import CheckpointGoneError, CheckpointQueue, CheckpointStore, SavedCheckpoint, follow


def write(folder: Path, *names: str) -> Path:
    """Make the files of a checkpoint: weights, an index, JSON, or a byte."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".safetensors":
            save_file({"a": np.ones(100, np.float32)}, path)
        elif name.endswith(".index.json"):
            path.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}))
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


def queue_of(given: Path | CheckpointStore, *, idle: float | None = None, once: bool = False) -> CheckpointQueue:
    store = given if isinstance(given, CheckpointStore) else CheckpointStore(str(given))
    return CheckpointQueue(store, looks=dict, stop=threading.Event(), poll=0.05, idle=idle, once=once)


def test_folders_are_found_in_the_order_of_their_steps(tmp_path: Path) -> None:
    names = ["checkpoint-100", "checkpoint-20", "checkpoint-0", "global_step_30", "global_step40", "global_step40_hf"]
    others = ["checkpoint-best", "runs", "_forgetwatch_follow", "checkpoint-20.tmp", "tmp-checkpoint-70", "step_50"]
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
    links = {10: disk / "saved", 20: disk / "gone", 30: disk / "file", 40: out / "checkpoint-40", 50: out}
    for step, target in links.items():
        (out / f"checkpoint-{step}").symlink_to(target)
    os.mkfifo(out / "checkpoint-60")
    assert CheckpointStore(str(out)).names() == {10: "checkpoint-10", 50: "checkpoint-50"}
    assert read(out, "checkpoint-10").problem == ""
    assert read(out, "checkpoint-50").problem == "it has no weights"  # it leads back to the folder itself


def test_folders_of_a_remote_file_system_are_listed_by_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
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
        (["config.json", "model.safetensors.index.json", "model-1.safetensors", "model-2.safetensors"], ""),
        (["actor/huggingface/config.json", "actor/huggingface/model.safetensors", "data.pt"], ""),
    ],
)
def test_every_file_of_the_model_must_be_there(tmp_path: Path, files: list[str], problem: str) -> None:
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
    folder = write(tmp_path / "checkpoint-20", "config.json", "model.safetensors", "trainer_state.json")
    before = read(tmp_path).signature
    write(folder, "optimizer.pt", "rng_state.pth", "forgetwatch/run.json")
    assert read(tmp_path).signature == before
    os.utime(folder / "model.safetensors", (1, 1))
    assert read(tmp_path).signature != before


def test_the_parts_of_an_optimizer_alone_are_no_model(tmp_path: Path) -> None:
    write(tmp_path / "checkpoint-20", "config.json", "optimizer_0/__0_0.distcp", "optimizer_0/.metadata")
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
def saved(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[str, bytes], None]]:
    """A training's folder with a checkpoint, and a function that writes a file of it."""
    folder = write(tmp_path / "run/checkpoint-20", "config.json", "model.safetensors", "trainer_state.json")
    if request.param == "local":
        return str(tmp_path / "run"), lambda name, text: folder.joinpath(name).write_bytes(text) and None
    fsspec.register_implementation("kept", KeptListings, clobber=True)
    files = fsspec.filesystem("memory")  # as another machine writes
    if files.exists("/saved"):
        files.rm("/saved", recursive=True)
    files.put(f"{folder.parent}/", "/saved/", recursive=True)
    return request.param, lambda name, text: files.pipe_file(os.path.normpath(f"/saved/checkpoint-20/{name}"), text)


def test_a_checkpoint_that_is_written_again_is_not_held(saved: tuple[str, Callable[[str, bytes], None]]) -> None:
    store, write_file = CheckpointStore(saved[0]), saved[1]
    assert store.names() == {20: "checkpoint-20"}
    made = store.read(20, "checkpoint-20")
    assert made is not None
    with store.held(made) as held:
        assert (held / "model.safetensors").is_file()
    write_file("config.json", b"{ }")
    held_again = store.held(made)
    with pytest.raises(CheckpointGoneError, match="checkpoint-20 is being written again"), held_again:
        pytest.fail("held")


def test_a_folder_is_listed_as_it_is_now(saved: tuple[str, Callable[[str, bytes], None]]) -> None:
    store, write_file = CheckpointStore(saved[0]), saved[1]
    assert store.names() == {20: "checkpoint-20"}
    (Path(saved[0]) / "checkpoint-30").mkdir() if store.path else write_file("../checkpoint-30/config.json", b"{}")
    assert list(store.names()) == [20, 30]


def test_without_the_trainers_state_a_checkpoint_must_be_the_same_at_two_listings(tmp_path: Path) -> None:
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


def test_the_end_waits_for_a_folder_that_has_just_been_made_and_for_one_that_grows(tmp_path: Path) -> None:
    folder = write(tmp_path / "checkpoint-20", "config.json", "model.safetensors", "trainer_state.json")
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
    monkeypatch.setattr(follow, "_ROUND", 0.1)
    queue = queue_of(tmp_path, idle=5)
    assert queue.next() is None


@pytest.mark.parametrize("brief", [True, False])
def test_reading_once_ends_although_a_checkpoint_is_not_complete(
    tmp_path: Path, brief: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where every wait is as long as the main process keeps the others waiting."""
    monkeypatch.setattr(follow, "_ROUND", 0.0)
    (tmp_path / "checkpoint-10").mkdir()
    queue = queue_of(tmp_path, once=True)
    assert [queue.next(brief=brief) for _ in range(2)] == [None, "once"]
    assert queue.waiting == ["checkpoint-10"]


def test_a_brief_wait_ends_after_one_listing(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, idle=5)
    assert queue.next(brief=True) is None


@pytest.mark.parametrize("saved", ["local", "kept://saved"], indirect=True)
def test_a_remote_checkpoint_that_was_dealt_with_is_read_again_after_a_while_only(
    saved: tuple[str, Callable[[str, bytes], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reads = CheckpointStore(saved[0]), list[int]()
    queue = queue_of(store, idle=5)
    found = queue.next()
    assert isinstance(found, SavedCheckpoint)
    queue.deal_with(found)
    monkeypatch.setattr(CheckpointStore, "read", lambda *_: reads.append(1))
    queue._scan()
    assert bool(reads) is (store.path is not None)
    monkeypatch.setattr(follow, "_REVISIT", 0.0)
    queue._scan()
    assert reads


def test_a_file_in_place_of_the_trainings_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("a file")
    with pytest.raises(WatchError, match="needed the folder of a training, got a file"):
        CheckpointStore(str(tmp_path / "log.txt"))


@pytest.mark.parametrize("given", ["nonsense://bucket/run", "s3://bucket/run"])
def test_an_address_that_cannot_be_read_is_one_sentence(given: str) -> None:
    if given.startswith("s3") and pytest.importorskip("importlib.util").find_spec("s3fs") is not None:
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
    with pytest.raises(WatchError, match="v0-day/checkpoint-3 and v1-day/checkpoint-3 have one step"):
        CheckpointStore(str(tmp_path), "v*/checkpoint-{N}").names()
    for name in ("step", "../{N}", "{N}{N}"):
        with pytest.raises(WatchError, match=r"needed a name with \{N\} for the step"):
            CheckpointStore(str(tmp_path), name)
