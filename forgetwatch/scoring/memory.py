"""Errors where the memory of a device ends: what was needed, what is free, and the remedy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import torch
from torch import nn

from forgetwatch.errors import ScoringError

_GIB: Final = 2**30


@contextmanager
def memory_explained(
    doing: str,
    *,
    weights: Callable[[], int],
    remedy: str,
    devices: Callable[[], Iterable[torch.device]] = tuple,
) -> Iterator[None]:
    """Context in which the end of a device's memory is an error with its remedy.

    Args:
        doing: What is done with which model, for the error.
        weights: Gives the bytes of the model's weights; called after the failure only.
        remedy: What the user can do.
        devices: Gives the devices that hold the weights; called after the failure only. By default the current one.

    Raises:
        ScoringError: If memory ends.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        needed = "weights of unknown size"
        with suppress(Exception):  # the failure must not be hidden by one of its description
            needed = f"{weights() / _GIB:,.1f} GiB of weights"
        raise ScoringError(f"{doing}: out of memory with {needed}; {free_memory(devices())}; {remedy}") from error


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all weights of a model, wherever they are."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def weight_devices(model: nn.Module) -> set[torch.device]:
    """Devices that hold weights of a model."""
    return {weight.device for weight in model.parameters()}


def free_memory(devices: Iterable[torch.device]) -> str:
    """Free and whole memory of devices: each GPU among them, and the machine for the CPU.

    No other GPU is asked, since that would take some of its memory, once in each process.

    Args:
        devices: The devices; without a GPU or the CPU among them, the current GPU, or the CPU if there is none.
    """
    used = {device for device in devices if device.type in ("cuda", "cpu")}
    if not used:
        used = {torch.device("cuda" if torch.cuda.is_available() else "cpu")}
    gpus = sorted({_index(device) for device in used if device.type == "cuda"})
    lines = [_line(f"cuda:{index}", *torch.cuda.mem_get_info(index)) for index in gpus]
    return ", ".join([*lines, _machine()] if torch.device("cpu") in used else lines)


def _index(gpu: torch.device) -> int:
    return torch.cuda.current_device() if gpu.index is None else gpu.index


def _line(name: str, free: int, whole: int) -> str:
    return f"{name} has {free / _GIB:,.1f} of {whole / _GIB:,.1f} GiB free"


def _machine() -> str:
    """Free and whole memory of the machine."""
    try:
        free, whole = (os.sysconf(name) * os.sysconf("SC_PAGE_SIZE") for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):  # not on every system
        return "the free memory of this machine is unknown"
    return _line("this machine", free, whole)
