"""Several processes that score one model together: who reads which batch, and how all come to the same rows.

Batches are made first and then dealt, so that no result depends on the number of processes. Where each process holds
only a part of the model (FSDP, ZeRO-3), all make the same number of calls; where they split every layer (tensor
parallel), all make the same calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import distributed, nn

from forgetwatch.errors import ForgetwatchError, ScoringError
from forgetwatch.scoring.model import base_model, is_sharded

T = TypeVar("T")


def world_size() -> int:
    """Number of processes; 1 outside of a process group."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def rank() -> int:
    """Number of this process."""
    return distributed.get_rank() if world_size() > 1 else 0


def is_tensor_parallel(model: nn.Module) -> bool:
    """Whether each layer is split over processes: they must read the same tokens at the same time."""
    return int(getattr(base_model(model), "tp_size", None) or 1) > 1


def shard(batches: Sequence[T], model: nn.Module) -> list[T]:
    """The batches that this process reads; where parts of the model are elsewhere, as many as every other reads."""
    count = world_size()
    if count == 1 or is_tensor_parallel(model) or not batches:
        return list(batches)
    own = list(batches[rank() :: count])
    if is_sharded(model):  # a batch that is read twice gives the same rows twice
        own += [batches[0]] * (-(-len(batches) // count) - len(own))
    return own


def all_gather(own: Callable[[], T]) -> list[T]:
    """What `own` gives in each process, in order of rank. If it fails in one, it fails in all, with that reason.

    Raises:
        ScoringError: If it failed in another process.
    """
    if world_size() == 1:
        return [own()]
    value, failed = None, None
    try:
        value = own()
    except Exception as error:  # told to all before it is raised: the others wait
        failed = error
    everyone: list[Any] = [None] * world_size()
    distributed.all_gather_object(everyone, (value, None if failed is None else f"{type(failed).__name__}: {failed}"))
    if failed is not None:
        raise failed
    if reasons := [(number, reason) for number, (_, reason) in enumerate(everyone) if reason is not None]:
        raise ScoringError(f"process {reasons[0][0]} failed: {reasons[0][1]}")
    return [value for value, _ in everyone]


def on_all_processes(own: Callable[[], T]) -> T:
    """What `own` gives here, once it has worked in every process. If it fails in one, it fails in all.

    Raises:
        ScoringError: If it failed in another process.
    """
    made: list[T] = []
    all_gather(lambda: made.append(own()))
    return made[0]


def on_main_process(decide: Callable[[], T]) -> T:
    """What `decide` gives in the first process, in all of them. If it fails there, it fails in all.

    Raises:
        ForgetwatchError: If it failed in the first process; there the error itself is raised.
    """
    if world_size() == 1:
        return decide()
    told: list[Any] = [None, None]
    failed = None
    if rank() == 0:
        try:
            told[0] = decide()
        except Exception as error:
            # The package's own errors travel as they are; others may not survive the way.
            own = isinstance(error, ForgetwatchError)
            failed, told[1] = error, error if own else ForgetwatchError(f"{type(error).__name__}: {error}")
    distributed.broadcast_object_list(told, src=0)
    if failed is not None:
        raise failed
    if told[1] is not None:
        raise told[1]
    value: T = told[0]
    return value
