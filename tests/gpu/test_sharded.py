"""Runs with a model that is sharded over GPUs: FSDP and ZeRO-3 through accelerate. Not yet run on any.

The same rules are tested on the CPU with FSDP itself, in tests/scoring/test_processes.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from forgetwatch import Trajectory

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")

_RUN = """
import json, sys
from pathlib import Path
from forgetwatch import ForgetWatchCallback
from support import probe, trainer

output, options = Path(sys.argv[1]), json.loads(sys.argv[2])
watch = ForgetWatchCallback(probe(37), every=2, max_overhead=None)
made = trainer(output, callbacks=[watch], steps=4, use_cpu=False, **options)
made.train()
"""
FSDP = {"fsdp": "full_shard auto_wrap", "fsdp_config": {"transformer_layer_cls_to_wrap": ["Qwen3DecoderLayer"]}}
ZERO = {
    "deepspeed": {
        "zero_optimization": {"stage": 3},
        "train_micro_batch_size_per_gpu": "auto",
        "bf16": {"enabled": "auto"},
    }
}


@pytest.mark.parametrize("options", [FSDP, ZERO], ids=["fsdp", "zero-3"])
def test_a_sharded_run_takes_its_looks_and_ends(options: dict[str, Any], tmp_path: Path) -> None:
    if "deepspeed" in options:
        pytest.importorskip("deepspeed")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    script = tmp_path / "run.py"
    script.write_text(_RUN, encoding="utf-8")
    done = subprocess.run(
        [*command, str(script), str(tmp_path / "out"), json.dumps(options)],
        cwd=Path(__file__).parents[1],
        timeout=600,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    trajectory = Trajectory.from_run(tmp_path / "out")
    assert trajectory.steps == (0, 2, 4)
    assert trajectory.comparisons[-1].all.n == 37
