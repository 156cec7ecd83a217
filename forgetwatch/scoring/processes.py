"""Several processes that score one model together: which batches each reads, and how all get the same rows.

Batches of scored options are planned first and then sharded, so that their outcomes do not depend
on the number of processes. Prompts that are answered freely are sharded first: in low precision a
text may differ with that number. Where each process holds a part of the model (FSDP, ZeRO-3), all
make the same number of calls; where each layer is split over processes (tensor parallel), all make
the same calls.

A failure in one process becomes a failure in all, at the same point: otherwise the others would
wait for it. (A failure within a call of a model in parts cannot be shared: the others wait in the
model's own exchange until that times out.)

A trainer begins the group of its processes itself. A command that torchrun or accelerate started in
several processes enters `joined_group`.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
from torch import distributed, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from forgetwatch.errors import ForgetwatchError, ReportedElsewhereError, ScoringError
from forgetwatch.progress import launched_count, log
from forgetwatch.scoring.model import is_sharded, is_tensor_parallel

T = TypeVar("T")

_LAUNCHER: Final = ("RANK", "MASTER_ADDR", "MASTER_PORT")
"""Variables that a launcher sets beside WORLD_SIZE."""
_LIMIT: Final = timedelta(hours=4)
"""Time that a process waits for the others: one may score a long shard. A process that ends is noticed at once."""
_MEETING: Final = timedelta(minutes=10)
"""Time in which all processes of a launcher must have begun; a shell may have its variables from one that is gone."""
_UNHEARD: Final = 15.0
"""Seconds after which a process that waits for the others to begin logs a line."""
_LINGER: Final = 10.0
"""Seconds for which the process that holds the group's store waits after a failure, so that the others hear of it."""
_FAILED: Final = "failed"
"""Name under which the store counts the processes that failed."""
_ALONE: Final = 120.0
"""Seconds for which a process that failed, and wants to continue, waits for the others to fail too."""

_store: Final = ContextVar[Store | None]("store", default=None)
"""Store of the group of a launcher, for reports of failures."""


class _FailedElsewhereError(ScoringError):
    """A failure of another process, as `all_gather` raises it in this one."""


def world_size() -> int:
    """Number of processes that work together; 1 without a group."""
    return (
        distributed.get_world_size()
        if distributed.is_available() and distributed.is_initialized()
        else 1
    )


def rank() -> int:
    """Index of this process; 0 for the main process."""
    return distributed.get_rank() if world_size() > 1 else 0


@contextmanager
def joined_group() -> Iterator[None]:
    """Let the launcher's processes work together in the block.

    Outside of a launcher, and inside a group that a trainer began, nothing changes. In the group
    objects are exchanged by gloo; NCCL is for what a model itself sends between GPUs.

    A process that raises inside leaves the group, so that the others do not wait for it. The first
    of them raises its own error, all others `ReportedElsewhereError`: so that one message is
    printed.

    Raises:
        ScoringError: If a launcher's variable is missing, the group cannot begin, or a process was
            killed.
        ReportedElsewhereError: If another process failed before this one.
    """
    if launched_count() == 1 or world_size() > 1:
        yield
        return
    store = _begin_group()
    token = _store.set(store)
    try:
        yield
        all_gather(lambda: None)  # a process that is done must not end while another may still fail
    except Exception as error:  # whatever this process raises: the others must not wait for it
        number, is_first = rank(), True
        with suppress(
            RuntimeError
        ):  # the process that holds the store was killed: it reports nothing
            is_first = store.add(_FAILED, 1) == 1
        _end_group()
        # Rank 0 may hold the store: it waits until all processes have counted their failures.
        until = time.monotonic() + _LINGER
        while number == 0 and store.add(_FAILED, 0) < launched_count() and time.monotonic() < until:
            time.sleep(0.05)
        if not is_first:
            raise ReportedElsewhereError(str(error)) from error
        if "gloo" in str(error) and not isinstance(error, ForgetwatchError):
            raise ScoringError(
                f"process {number}: another process of the group no longer answers; was it "
                "killed, is memory full, or does it hang?"
            ) from error
        raise
    finally:
        _store.reset(token)
        _end_group()


def failed_together(error: Exception, *, number: int) -> None:
    """Return when all processes failed in this piece of work.

    They can then continue together.

    Other than a failure that `all_gather` shares, one between two exchanges may be that of a single
    process, for which the others wait in their next exchange: then it is an error, and the group
    cannot continue.
    """
    if (store := _store.get()) is None:
        return
    key, until = f"work-{number}", time.monotonic() + _ALONE
    store.add(key, 1)
    while store.add(key, 0) < world_size():
        if time.monotonic() > until:
            raise ScoringError(
                f"process {rank()} failed alone, and the others wait for it: {error}"
            ) from error
        time.sleep(0.05)


def _begin_group() -> Store:
    # Each process has its GPU; the store is for reports of failures.
    if missing := [name for name in _LAUNCHER if name not in os.environ]:
        raise ScoringError(
            f"WORLD_SIZE is {launched_count()}, and {', '.join(missing)} is not set; start "
            "several processes with torchrun or accelerate launch, or unset WORLD_SIZE for one"
        )
    backend = "gloo"
    if torch.cuda.is_available():
        backend = "cpu:gloo,cuda:nccl"
        # Where each process sees its own GPU only, that one is GPU 0.
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    address = f"at {os.environ['MASTER_ADDR']}, port {os.environ['MASTER_PORT']}"
    line = f"waiting for all {launched_count()} processes of the launcher {address}; without one, unset WORLD_SIZE"
    waiting = threading.Timer(_UNHEARD, log, [line])
    waiting.daemon = True
    try:
        waiting.start()
        store, number, count = next(rendezvous("env://", timeout=_MEETING))
        store.set_timeout(_LIMIT)
        group = PrefixStore("forgetwatch", store)
        distributed.init_process_group(
            backend, store=group, rank=number, world_size=count, timeout=_LIMIT
        )
    except (RuntimeError, ValueError) as error:
        why = str(error).strip().splitlines()[0]
        raise ScoringError(
            f"the group of {launched_count()} processes cannot begin {address} ({why}); were all "
            "of them started? Unset WORLD_SIZE for one process"
        ) from error
    finally:
        waiting.cancel()
    return PrefixStore("forgetwatch-failures", store)


def _end_group() -> None:
    # Processes that wait for this one fail at once.
    if distributed.is_initialized():
        distributed.destroy_process_group()


def shard(batches: Sequence[T], model: nn.Module) -> list[T]:
    """Select the batches that this process reads.

    The same number in each process where each holds a part of the model.
    """
    count = world_size()
    if count == 1 or is_tensor_parallel(model) or not batches:
        return list(batches)
    own_batches = list(batches[rank() :: count])
    if is_sharded(
        model
    ):  # filled up with a batch that another process reads too, which gives the same rows twice
        own_batches += [batches[0]] * (-(-len(batches) // count) - len(own_batches))
    return own_batches


def all_gather(function: Callable[[], T]) -> list[T]:
    """Gather the results of a function from all processes, by rank.

    If it failed in another process, that one and the reason are named; in a process in which it
    failed the error itself is raised.
    """
    if world_size() == 1:
        return [function()]
    value, failed = None, None
    try:
        value = function()
    except Exception as error:  # sent to all before it is raised, because the others wait
        failed = error
    gathered: list[Any] = [None] * world_size()
    distributed.all_gather_object(
        gathered, (value, None if failed is None else f"{type(failed).__name__}: {failed}")
    )
    if failed is not None:
        raise failed
    if reasons := [
        (number, reason) for number, (_, reason) in enumerate(gathered) if reason is not None
    ]:
        raise _FailedElsewhereError(f"process {reasons[0][0]} failed: {reasons[0][1]}")
    return [value for value, _ in gathered]


def first_reason(error: Exception, reason: str) -> str:
    """Reason of the first process that failed, in all processes.

    That of the first process that failed itself, in all of them.

    Each process gives the error that was raised in it, and the reason that it would state.
    """
    own_reason = None if isinstance(error, _FailedElsewhereError) else reason
    return next(
        (
            reason_of_rank
            for reason_of_rank in all_gather(lambda: own_reason)
            if reason_of_rank is not None
        ),
        reason,
    )


def on_all_processes(function: Callable[[], T]) -> T:
    """Run a function in all processes.

    Else an error as of `all_gather`.

    Unlike there, the result is not sent, and may be an object that cannot be.

    Returns:
        The result in this process, once the function has returned in every process.
    """
    results: list[T] = []
    all_gather(lambda: results.append(function()))
    return results[0]


def on_main_process(function: Callable[[], T]) -> T:
    """Run a function in the main process.

    Returns:
        The result, in all processes.

    Raises:
        ForgetwatchError: If it failed in the main process; there the error itself is raised.
    """
    if world_size() == 1:
        return function()
    sent: list[Any] = [None, None]  # the result, the error
    failed = None
    if rank() == 0:
        try:
            sent[0] = function()
        except Exception as error:
            # The package's own errors can be pickled; others may not.
            is_ours = isinstance(error, ForgetwatchError)
            failed, sent[1] = (
                error,
                error if is_ours else ForgetwatchError(f"{type(error).__name__}: {error}"),
            )
    distributed.broadcast_object_list(sent, src=0)
    if failed is not None:
        raise failed
    if sent[1] is not None:
        raise sent[1]
    value: T = sent[0]
    return value
