"""Runs a script in several processes of one group (gloo), as a training on several devices would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_BEGIN = """
import json, sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
store, rank, world = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
folder = sys.argv[4]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=world)
found = {}

def sharded(network, root=None):
    mesh = init_device_mesh("cpu", (world,))
    for layer in [*network.model.layers, root if root is not None else network]:
        fully_shard(layer, mesh=mesh)
    return root if root is not None else network

def error(act):
    try:
        act()
    except Exception as raised:
        return f"{type(raised).__name__}: {raised}"
"""

_END = """
print(json.dumps(found))
dist.destroy_process_group()
"""


def in_processes(script: str, folder: Path, *, world: int = 2) -> list[dict[str, Any]]:
    """`found` of each process, by rank, and what it logged as ``stderr``.

    The script is given `rank`, `world`, `folder`, the function `sharded`, which splits a model over the processes by
    FSDP2, and the function `error`, which returns the error of an action as a text.

    Args:
        script: Python code that fills the dict `found` with JSON values.
        folder: Folder of the test.
        world: Number of processes.
    """
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _BEGIN + script + _END, str(folder / "store"), str(rank), str(world), str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(world)
    ]
    found = []
    try:
        for process in running:
            out, err = process.communicate(timeout=240)
            assert process.returncode == 0, err[-3000:]
            found.append({**json.loads(out.splitlines()[-1]), "stderr": err})
    finally:
        for process in running:  # the others of a process that failed wait for it
            process.kill()
    return found
