"""Contexts in which a model under training is measured without a trace: mode, settings and random states come back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import torch
from torch import distributed, nn
from transformers import PreTrainedConfig

from forgetwatch.scoring.model import attention_of, base_model, text_config

_SOFT_CAPS: Final = ("attn_logit_softcapping", "attn_logit_softcap", "attention_logit_cap")
"""Settings of configurations that limit the attention scores by a hyperbolic tangent."""

_SINKS: Final = ("sinks", "attention_sink_bias")
"""Parameters that take a share of the attention to no token."""


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
    and after a few of them torch would no longer compile the training step's own code either. Weights that FSDP 2 has
    brought together are split again.

    All is restored after an exception too, `return_dict` of the configuration included, which is set meanwhile.
    Autocast, default dtype, generation config and tokenizer are not touched.
    """
    training = [module for module in model.modules() if module.training]
    for module in training:
        # Not eval(): layers that merge weights in it would unmerge them only in train().
        module.training = False
    try:
        eager = torch.compiler.set_stance("force_eager")
        with random_states(), torch.no_grad(), eager, _without_flex(model), _named_outputs(model):
            yield
    finally:
        for module in training:
            module.training = True
        _reshard(model)


def _reshard(model: nn.Module) -> None:
    """Split the weights of FSDP 2 again: those of the root stay together after a call, until a backward pass.

    Meanwhile `model.parameters()` are other tensors, and `zero_grad()` leaves the gradients of the split ones.
    """
    if not distributed.is_available() or not distributed.is_initialized():  # torch may be built without
        return
    from torch.distributed.fsdp import FSDPModule

    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


@contextmanager
def _without_flex(model: nn.Module) -> Iterator[None]:
    """Replace flex attention, which is a fast kernel only where it is compiled, for each shape of a batch."""
    if attention_of(model) == "flex_attention":
        with maskable(model, mask_attentions(model)[0]):
            yield
    else:
        yield


@contextmanager
def _named_outputs(model: nn.Module) -> Iterator[None]:
    """Let a model return its outputs by name: with `return_dict=False` in a configuration they are a tuple."""
    configs = [getattr(module, "config", None) for module in model.modules()]
    tuples = [config for config in configs if isinstance(config, PreTrainedConfig) and not config.return_dict]
    try:
        for config in tuples:
            config.return_dict = True
        yield
    finally:
        for config in tuples:
            config.return_dict = False


@contextmanager
def maskable(model: nn.Module, attention: str) -> Iterator[None]:
    """Switch to an attention implementation that takes a mask for each pair of tokens; afterwards restore the own one.

    Layers read the implementation from the configuration at every call, so that it is enough to set it there.

    Args:
        model: The model.
        attention: One of `mask_attentions`.
    """
    config, own = text_config(model), attention_of(model)
    if attention == own:  # nothing is written: some configurations warn
        yield
        return
    config._attn_implementation = attention
    try:
        yield
    finally:
        config._attn_implementation = own


def mask_attentions(model: nn.Module) -> tuple[str, ...]:
    """Attention implementations for shared rows, the fastest that computes all of the model's attention first.

    Flash kernels, and others of their kind, take causal rows only. ``sdpa`` leaves out the sinks of gpt-oss and refuses
    Gemma 2's soft cap of the attention scores; ``eager`` is the model's own code and does all. Where the model itself
    runs on ``sdpa``, that is tried first in any case.
    """
    own = attention_of(model)
    if own == "eager":
        return ("eager",)
    return ("sdpa", "eager") if own == "sdpa" or _suits_sdpa(model) else ("eager",)


def _suits_sdpa(model: nn.Module) -> bool:
    """True unless the model says that sdpa does not compute its attention."""
    config, inner = text_config(model), base_model(model)
    if not getattr(inner, "_supports_sdpa", False) or any(getattr(config, name, None) for name in _SOFT_CAPS):
        return False
    return not any(name.rsplit(".", 1)[-1] in _SINKS for name, _ in inner.named_parameters())
