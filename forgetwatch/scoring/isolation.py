"""Measure a model that is being trained, and leave no trace: its mode and all random states come back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn


@contextmanager
def isolated(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards each module's mode and all random states are as before.

    Random states: python, numpy, torch, and every CUDA device that is in use. Also when an exception passes through.
    """
    training = [module for module in model.modules() if module.training]
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 (the user's global state)
    torch_state = torch.get_rng_state()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_rng_state(torch_state)
        if cuda_states is not None:
            torch.cuda.set_rng_state_all(cuda_states)
