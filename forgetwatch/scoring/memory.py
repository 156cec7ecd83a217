"""Errors where the memory of a device ends: what was needed, what is free, and the remedy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import torch
from torch import nn

from forgetwatch.errors import ScoringError

_GIB: Final = 2**30


@contextmanager
def memory_explained(doing: str, *, weights: Callable[[], int], remedy: str) -> Iterator[None]:
    """Context in which the end of a device's memory is an error with its remedy.

    Args:
        doing: What is done with which model, for the error.
        weights: Gives the bytes of the model's weights; called after the failure only.
        remedy: What the user can do.

    Raises:
        ScoringError: If memory ends.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        needed = "weights of unknown size"
        with suppress(Exception):  # the failure must not be hidden by one of its description
            needed = f"{weights() / _GIB:,.1f} GiB of weights"
        raise ScoringError(f"{doing}: out of memory with {needed}; {free_memory()}; {remedy}") from error


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all weights of a model, wherever they are."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def free_memory() -> str:
    """Free and whole memory of each GPU, or of the machine if there is none."""
    if torch.cuda.is_available():
        pairs = ((f"cuda:{index}", *torch.cuda.mem_get_info(index)) for index in range(torch.cuda.device_count()))
        return ", ".join(
            f"{name} has {free / _GIB:,.1f} of {whole / _GIB:,.1f} GiB free" for name, free, whole in pairs
        )
    try:
        free, whole = (os.sysconf(name) * os.sysconf("SC_PAGE_SIZE") for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"))
    except (ValueError, OSError, AttributeError):  # not on every system
        return "the free memory of this machine is unknown"
    return f"this machine has {free / _GIB:,.1f} of {whole / _GIB:,.1f} GiB free"
