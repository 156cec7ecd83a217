"""Runs whose model is sharded over GPUs: FSDP, FSDP compiled, and ZeRO-3, in transformers' own Trainer.

    python3 -m pytest tests/gpu/test_sharded.py                               two CUDA devices, accelerate
    FORGETWATCH_TEST_DEVICE=cpu python3 -m pytest tests/gpu/test_sharded.py   the plain case, in two processes

The same rules are tested on the CPU with FSDP itself, in tests/scoring/test_devices.py. Not yet run on two devices.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from devices import ON_CUDA

from forgetwatch import Trajectory

_RUN = """
import json, sys
from pathlib import Path
from devices import DEVICE, ON_CUDA, Texts, soft_capped, text_tokenizer
from support import model, probe, tokenizer
from transformers import Trainer, TrainingArguments
from forgetwatch import ForgetWatchCallback
from forgetwatch.probes.named import load_probe

output, case = Path(sys.argv[1]), json.loads(sys.argv[2])
items = probe(case["items"]) if case["items"] else None
tok = tokenizer() if items else text_tokenizer(load_probe("standard"))
network = soft_capped().float().cpu() if case["model"] == "soft-capped" else model(tok, positions=512)
if case["attention"]:
    network.set_attn_implementation(case["attention"])
settings = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "max_steps": 4, "seed": 3}
settings |= {"use_cpu": not ON_CUDA, "bf16": ON_CUDA, "per_device_train_batch_size": 2, **case["options"]}
made = Trainer(
    model=network,
    args=TrainingArguments(output_dir=str(output), **settings),
    train_dataset=Texts(tokenizer()),
    processing_class=tok,
    callbacks=[ForgetWatchCallback(items, every=2, max_overhead=None)],
)
made.train()
"""


def fsdp(layer: str = "Qwen3DecoderLayer") -> dict[str, Any]:
    return {
        "fsdp": "full_shard auto_wrap",
        "fsdp_config": {"transformer_layer_cls_to_wrap": [layer]},
    }


ZERO = {
    "deepspeed": {
        "zero_optimization": {"stage": 3},
        "train_micro_batch_size_per_gpu": "auto",
        "bf16": {"enabled": "auto"},
    }
}
CASES: dict[str, dict[str, Any]] = {
    "fsdp": {"options": fsdp()},
    "fsdp, default probe": {"options": fsdp(), "items": 0},
    "fsdp, compiled": {"options": {**fsdp(), "torch_compile": True}},
    "fsdp, soft-capped": {"options": fsdp("Gemma2DecoderLayer"), "model": "soft-capped"},
    "fsdp, soft-capped, flash": {
        "options": fsdp("Gemma2DecoderLayer"),
        "model": "soft-capped",
        "attention": "flash_attention_2",
    },
    "zero-3": {"options": ZERO},
    "zero-3, default probe": {"options": ZERO, "items": 0},
}


def run(case: dict[str, Any], folder: Path) -> Trajectory:
    """The looks of a run in two processes."""
    pytest.importorskip("accelerate")
    tests = Path(__file__).parents[1]
    script = folder / "run.py"
    script.write_text(_RUN, encoding="utf-8")
    whole = {"items": 37, "model": "plain", "attention": "", **case}
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc_per_node=2",
        "--standalone",
        str(script),
    ]
    done = subprocess.run(
        [*command, str(folder / "out"), json.dumps(whole)],
        # torchrun puts the folder of the script on the path, and not this one.
        env={**os.environ, "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent}"},
        timeout=600,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    trajectory = Trajectory.from_run(folder / "out")
    assert trajectory.steps == (0, 2, 4)
    return trajectory


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
@pytest.mark.parametrize("name", CASES)
def test_a_sharded_run_takes_its_looks_and_ends(name: str, tmp_path: Path) -> None:
    if "zero" in name:
        pytest.importorskip("deepspeed")
    if "flash" in name:
        pytest.importorskip("flash_attn")
    trajectory = run(CASES[name], tmp_path)
    # Where a model is sharded, nothing can be generated: of the default probe `standard` is measured.
    assert trajectory.comparisons[-1].all.n == (CASES[name].get("items", 37) or 2_000)


@pytest.mark.skipif(
    ON_CUDA or "FORGETWATCH_TEST_DEVICE" not in os.environ,
    reason="needs FORGETWATCH_TEST_DEVICE=cpu",
)
@pytest.mark.parametrize("items", [37, 0], ids=["own probe", "default probe"])
def test_a_run_in_two_processes_on_the_cpu_takes_its_looks_and_ends(
    items: int, tmp_path: Path
) -> None:
    trajectory = run({"options": {"ddp_backend": "gloo"}, "items": items}, tmp_path)
    assert trajectory.comparisons[-1].all.n == (items or 2_000)
