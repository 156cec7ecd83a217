"""Contexts in which a model under training is measured without a trace: mode, settings and random states come back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from forgetwatch.scoring.model import attention_of, text_config

MASKABLE = frozenset({"sdpa", "eager"})
"""Attention implementations that take a mask for each pair of tokens."""


@contextmanager
def random_states() -> Iterator[None]:
    """Restore the random states afterwards: python, numpy, torch, and every CUDA device in use."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 (the user's global state)
    torch_state = torch.get_rng_state()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_rng_state(torch_state)
        if cuda_states is not None:
            torch.cuda.set_rng_state_all(cuda_states)


@contextmanager
def isolated(model: nn.Module) -> Iterator[None]:
    """Switch to evaluation mode without gradients; afterwards restore each module's mode and all random states.

    Inside, modules that were compiled in place run as they are written: each shape of a batch would be compiled anew,
    and after a few of them torch would no longer compile the training step's own code either.

    All is restored after an exception too. Autocast, default dtype, generation config and tokenizer are not touched.
    """
    training = [module for module in model.modules() if module.training]
    for module in training:
        # Not eval(): layers that merge weights in it would unmerge them only in train().
        module.training = False
    try:
        with random_states(), torch.no_grad(), torch.compiler.set_stance("force_eager"):
            yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def maskable(model: nn.Module) -> Iterator[None]:
    """Switch to an attention implementation that takes a mask for each pair of tokens; afterwards restore the own one.

    Flash kernels take causal rows only. Layers read the implementation from the configuration at every call, so that it
    is enough to set it there.
    """
    config, own = text_config(model), attention_of(model)
    if own in MASKABLE:
        yield
        return
    config._attn_implementation = "sdpa"
    try:
        yield
    finally:
        config._attn_implementation = own
