"""A checkpoint is complete when every file of its model is there and final, and not before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from forgetwatch.errors import WatchError
from forgetwatch.watch.saved_checkpoints import CheckpointStore, SavedCheckpoint


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
    found = {name: step for step, name in store.names().items()}
    made = store.read(found[name], name)
    assert made is not None
    return made


def test_folders_of_several_trainers_are_found_in_the_order_of_their_steps(tmp_path: Path) -> None:
    names = ["checkpoint-100", "checkpoint-20", "global_step_30", "global_step40_hf", "step_50", "step-000060"]
    for name in [*names, "checkpoint-best", "runs", "_forgetwatch_follow", "checkpoint-20.tmp", "tmp-checkpoint-70"]:
        (tmp_path / name).mkdir()
    (tmp_path / "checkpoint-80").write_text("a file")
    expected = {20: names[1], 30: names[2], 40: names[3], 50: names[4], 60: names[5], 100: names[0]}
    found = CheckpointStore(str(tmp_path)).names()
    assert found == expected
    assert list(found) == sorted(found)


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


@pytest.mark.parametrize(
    ("kept", "problem"),
    [(0, "0 bytes, fewer than"), (7, "7 bytes, fewer than"), (20, "ends before its header"), (-1, "bytes")],
)
def test_a_safetensors_file_must_be_as_long_as_its_header_says(tmp_path: Path, kept: int, problem: str) -> None:
    path = write(tmp_path / "checkpoint-20", "config.json", "model.safetensors") / "model.safetensors"
    whole = path.read_bytes()
    assert read(tmp_path).problem == ""
    path.write_bytes(whole[:kept])
    assert problem in read(tmp_path).problem


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


@pytest.mark.parametrize(
    ("files", "command"),
    [
        (
            ["pytorch_model_fsdp_0/__0_0.distcp", "pytorch_model_fsdp_0/.metadata", "optimizer_0/__0_0.distcp"],
            "accelerate merge-weights {root}/pytorch_model_fsdp_0 {root}",
        ),
        (
            ["actor/model_world_size_2_rank_0.pt", "actor/huggingface/config.json", "actor/fsdp_config.json"],
            "python -m verl.model_merger merge --backend fsdp --local_dir {root}/actor/ --target_dir "
            "{root}/actor/huggingface",
        ),
        (
            ["actor/dist_ckpt/__0_0.distcp", "actor/huggingface/config.json", "actor/dist_ckpt/metadata.json"],
            "python -m verl.model_merger merge --backend megatron --local_dir {root}/actor/ --target_dir "
            "{root}/actor/huggingface",
        ),
        (
            ["optimizer/__0_0.distcp", "weights/__0_0.distcp", "weights/.metadata"],
            "python -m torch.distributed.checkpoint.format_utils dcp_to_torch {root}/weights/ {root}/pytorch_model.bin",
        ),
        (
            ["__0_0.distcp", ".metadata"],
            "python -m torch.distributed.checkpoint.format_utils dcp_to_torch {root}/ {root}/pytorch_model.bin",
        ),
        (
            ["zero_to_fp32.py", "global_step20/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "config.json"],
            "python {root}/zero_to_fp32.py {root} {root} --safe_serialization",
        ),
    ],
)
def test_weights_in_parts_have_the_command_that_merges_them(tmp_path: Path, files: list[str], command: str) -> None:
    folder = write(tmp_path / "checkpoint-20", *files)
    assert read(tmp_path).merge == command.format(root=folder)
    at = "actor/huggingface/" if "verl" in command else ""
    write(folder, f"{at}config.json", f"{at}model.safetensors")
    made = read(tmp_path)
    assert (made.merge, made.problem, made.model) == ("", "", at)


def test_the_parts_of_an_optimizer_alone_are_no_model(tmp_path: Path) -> None:
    write(tmp_path / "checkpoint-20", "config.json", "optimizer_0/__0_0.distcp", "optimizer_0/.metadata")
    assert (read(tmp_path).merge, read(tmp_path).problem) == ("", "it has no weights")


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize(("folder", "is_nested"), [("pytorch_model_fsdp_0", True), ("", False), ("weights", False)])
def test_the_command_makes_a_model_of_parts_that_is_found(tmp_path: Path, folder: str, is_nested: bool) -> None:
    import torch
    from support import model, tokenizer
    from torch.distributed import checkpoint
    from transformers import AutoModelForCausalLM

    network, out = model(tokenizer()), tmp_path / "run" / "checkpoint-20"
    network.config.save_pretrained(out)
    state = {"model": network.state_dict()} if is_nested else network.state_dict()
    checkpoint.save(state, checkpoint_id=str(out / folder), no_dist=True)
    made = read(out.parent)
    assert bool(made.merge_if) is not is_nested
    _, *arguments = made.merge.split()
    launcher = ["-m", "accelerate.commands.accelerate_cli"] if is_nested else []
    subprocess.run([sys.executable, *launcher, *arguments], check=True, capture_output=True)
    merged = read(out.parent)
    assert (merged.merge, merged.problem) == ("", "")
    loaded = AutoModelForCausalLM.from_pretrained(out)
    expected = network.state_dict()
    assert all(torch.equal(weight, expected[name]) for name, weight in loaded.state_dict().items())


def test_a_file_behind_a_symbolic_link_is_held_too(tmp_path: Path) -> None:
    folder = write(tmp_path / "run/checkpoint-20", "config.json", "model.safetensors")
    blob = (folder / "model.safetensors").rename(tmp_path / "blob")
    (folder / "model.safetensors").symlink_to(blob)
    store = CheckpointStore(str(tmp_path / "run"))
    made = store.read(20, "checkpoint-20")
    assert made is not None
    whole = blob.read_bytes()
    with store.held(made, tmp_path / "held", on_in_place=pytest.fail) as held:
        blob.unlink()
        assert (held / "model.safetensors").read_bytes() == whole
    assert not (tmp_path / "held").exists()


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
