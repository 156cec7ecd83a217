"""What a language model of transformers is underneath, and how far it can be trusted with shared rows."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig, modeling_utils

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.tensors import Keep

_KINDS: Final = {"full_attention", "sliding_attention", "chunked_attention"}
_UNLIMITED: Final = 10**9
_CHUNK: Final = 2**25
"""Weights of the head that are turned into fp32 at a time."""


def base_model(model: nn.Module) -> nn.Module:
    """The language model inside what training wrapped around it (torch.compile, data parallel, PEFT)."""
    model = getattr(model, "_orig_mod", model)  # torch.compile's own name for what it wraps
    wrapper: Any = model
    wrapped = isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel))
    if wrapped or type(model).__name__ == "FullyShardedDataParallel":
        model = wrapper.module
    inner = getattr(model, "get_base_model", None)  # PEFT's own accessor; peft need not be installed
    return inner() if callable(inner) else model


def unwrapped(model: nn.Module) -> nn.Module:
    """The model without what only training needs around it.

    A compiled model would be compiled anew for every length; a data-parallel one lets its processes wait for each other
    at every call.
    """
    model = getattr(model, "_orig_mod", model)
    return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model


def text_config(model: nn.Module) -> PreTrainedConfig:
    """The configuration of the language model: its vocabulary, and the positions it can read.

    Raises:
        ScoringError: If the model is none of transformers' language models.
    """
    config = getattr(base_model(model), "config", None)
    if not isinstance(config, PreTrainedConfig) or config.is_encoder_decoder:
        raise ScoringError(f"needed a causal language model of transformers, got {type(base_model(model)).__name__}")
    return config.get_text_config()


def vocabulary_size(model: nn.Module) -> int:
    """Numbers that the model's logits have: the rows of its output embedding, as far as they can be seen."""
    weight = getattr(_head(model), "weight", None)
    return len(weight) if isinstance(weight, Tensor) else int(text_config(model).vocab_size)


def virtual_tokens(model: nn.Module) -> int:
    """Tokens that prompt learning (PEFT) puts before every text; they shift all positions."""
    configs = getattr(getattr(model, "_orig_mod", model), "peft_config", None) or {}
    return max((int(getattr(config, "num_virtual_tokens", 0) or 0) for config in configs.values()), default=0)


def context_length(model: nn.Module, tokenizer: Any) -> int:
    """Tokens that model and tokenizer can read; a very large number where neither says."""
    config = text_config(model)
    named = [getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len", "seq_length")]
    limits = (*named, tokenizer.model_max_length)
    longest = min(int(limit) if limit and limit > 0 else _UNLIMITED for limit in limits)
    return longest - virtual_tokens(model)


def device_of(model: nn.Module) -> torch.device:
    """Where the model takes its input.

    Raises:
        ScoringError: If none of its weights is anywhere: it was made without them.
    """
    device = next((weight.device for weight in model.parameters() if weight.device.type != "meta"), None)
    if device is None:
        raise ScoringError(f"{type(base_model(model)).__name__} has no weights at hand (they are on the meta device)")
    return device


def has_weights(model: nn.Module) -> bool:
    """Whether any of its weights is anywhere: a model that was made without them can tell its sizes only."""
    return any(weight.device.type != "meta" for weight in model.parameters())


def is_sharded(model: nn.Module) -> bool:
    """Whether several processes hold parts of the model each, and must make the same calls: FSDP, ZeRO-3."""
    fsdp = any(type(module).__name__.startswith(("FullySharded", "FSDP")) for module in model.modules())
    return fsdp or any(hasattr(weight, "ds_id") or hasattr(weight, "device_mesh") for weight in model.parameters())


def keep_modes(model: nn.Module) -> list[Keep]:
    """How the model may be told which logits are needed, the most exact way first."""
    if virtual_tokens(model):
        return ["last", "all"]  # counted from the end: what stands before the text does not matter
    asked = inspect.signature(type(base_model(model)).forward).parameters.get("logits_to_keep")
    if asked is None:
        return ["all"]
    if "Tensor" not in str(asked.annotation):
        return ["last", "all"]
    first: list[Keep] = ["mask"] if hasattr(modeling_utils, "slice_logits_to_keep") else []
    return [*first, "positions", "last", "all"]


def tree_obstacle(model: nn.Module) -> str:
    """Why rows must not be shared between texts by a mask; empty if nothing is known against it.

    A layer that carries a state along the row mixes the branches, whatever the mask says.
    """
    config, inner = text_config(model), base_model(model)
    if virtual_tokens(model):
        return "prompt learning puts tokens before every row"
    if getattr(inner, "_is_stateful", False):
        return "its layers carry a state along the row"
    if other := sorted(set(getattr(config, "layer_types", None) or ()) - _KINDS):
        return f"it has layers of kind {other[0]}"
    if "position_ids" not in inspect.signature(type(inner).forward).parameters:
        return "it takes no position_ids"
    return ""


def attention_of(model: nn.Module) -> str:
    """The attention implementation that the language model is set to: sdpa, eager, flash_attention_2, ..."""
    return str(getattr(text_config(model), "_attn_implementation", None) or "eager")


def is_exact(model: nn.Module) -> bool:
    """Whether the model computes in fp32 or better, as far as its weights and accelerate's wrapper tell."""
    mixed = hasattr(base_model(model), "_original_forward") or hasattr(model, "_original_forward")
    mixed = mixed or any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda"))
    return next(model.parameters()).dtype in (torch.float32, torch.float64) and not mixed


@contextmanager
def head_in_fp32(model: nn.Module) -> Iterator[None]:
    """While inside, the output embedding multiplies in fp32: bf16 logits tie where the model does not.

    Also where adapters are part of it, or a copy of it is trained: each plain `nn.Linear` in it is taken over. A head
    whose weight is not at hand, or of another kind, stays as it is.
    """
    head = _head(model)
    plain = [part for part in head.modules() if isinstance(part, nn.Linear) and _is_plain(part)] if head else []
    if isinstance(head, nn.Linear) and head not in plain and not hasattr(head, "base_layer"):
        plain = []
    for part in plain:
        part.forward = partial(_linear_in_fp32, part)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for part in plain:
            del part.forward


def _is_plain(module: nn.Module) -> bool:
    return type(module) is nn.Linear and "forward" not in vars(module) and module.weight.is_floating_point()


def _linear_in_fp32(head: nn.Linear, hidden: Tensor) -> Tensor:
    with torch.autocast(hidden.device.type, enabled=False):
        hidden, bias = hidden.float(), None if head.bias is None else head.bias.float()
        if head.weight.dtype == torch.float32:
            return functional.linear(hidden, head.weight, bias)
        step = max(1, _CHUNK // head.weight.shape[1])
        parts = [functional.linear(hidden, weight.float()) for weight in head.weight.split(step)]
        logits = torch.cat(parts, dim=-1)
        return logits if bias is None else logits + bias


def _head(model: nn.Module) -> nn.Module | None:
    """The output embedding, if its weight is a whole matrix at hand (not sharded, not packed by quantisation)."""
    inner = base_model(model)
    getter = getattr(inner, "get_output_embeddings", None)
    head = getter() if callable(getter) else None
    weight = getattr(head, "weight", None)
    whole = isinstance(weight, Tensor) and weight.ndim == 2 and weight.is_floating_point() and weight.numel() > 0
    return head if whole else None
