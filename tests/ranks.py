"""Several processes of one group (gloo), as those of a training or of a command on several devices."""

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from forked import Forked, finish_all

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

def fsdp1(network):
    return FullyShardedDataParallel(network, device_id=torch.device("cpu"), use_orig_params=True)

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

    The script is given `rank`, `world`, `folder`, the functions `sharded` and `fsdp1`, which split a model over the
    processes by FSDP2 and by its first version, and the function `error`, which returns the error of an action as a
    text.

    Args:
        script: Python code that fills the dict `found` with JSON values.
        folder: Folder of the test.
        world: Number of processes.
    """
    code = _BEGIN + script + _END
    running = [
        Forked(
            ["-c", code, str(folder / "store"), str(rank), str(world), str(folder)],
            cwd=Path.cwd(),
            environment=os.environ,
        )
        for rank in range(world)
    ]
    found = []
    try:
        for process in running:
            done = process.finish(timeout=240)
            assert done.returncode == 0, done.stderr[-3000:]
            found.append({**json.loads(done.stdout.splitlines()[-1]), "stderr": done.stderr})
    finally:
        for process in running:  # the others of a process that failed wait for it
            process.kill()
    return found


def launched(
    arguments: Sequence[str], *, cwd: Path, world: int = 2, **variables: str
) -> list[CompletedProcess[str]]:
    """Exit status and output of each process as torchrun starts it, without its agent, which ends all if one fails.

    Args:
        arguments: Those of the interpreter.
        cwd: Working folder.
        world: Number of processes.
        variables: Added to the environment.
    """
    group = {
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
        **variables,
    }
    environment = {**os.environ, **group}
    return finish_all(
        [
            Forked(
                arguments,
                cwd=cwd,
                environment={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            )
            for rank in range(world)
        ],
        timeout=400,
    )


def free_port() -> str:
    """Number of a port of this machine that is free at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])
