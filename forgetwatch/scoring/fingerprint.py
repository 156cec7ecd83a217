"""Fingerprint of a model in memory: equal for equal weights, on any device, in any process.

Two sums over the words of each tensor, each word times an odd number that depends on its place: a tensor that differs
in any bit, or of which two words changed places, has other sums. They are computed where the tensor is, in the time
that reading it takes. Parts that processes hold are each read by the process that holds it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.model import is_sharded, unwrapped
from forgetwatch.scoring.processes import all_gather

_CHUNK: Final = 2**20
"""Words of 8 bytes that are read at a time."""
_FACTORS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_WRITTEN: Final = ("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype")
"""Settings that loading or saving a model sets, and that change no outcome; each weight has its dtype."""
_OF_FILES: Final = (
    "auto_mapping",
    "base_model_name_or_path",
    "revision",
    "inference_mode",
    "peft_version",
)
"""Settings of an adapter on its files; a set of modules has another order in each process."""
_WRAP: Final = 2**64


def model_fingerprint(model: nn.Module) -> str:
    """Return the SHA-256 (64 hex digits) over the weights, buffers and configuration of a model.

    An adapter that changes nothing, because one of its two factors is zero or it is switched off, does not count: the
    model is its base.

    Raises:
        ScoringError: If weights are on no device of this process, so that they cannot be read.
    """
    model = unwrapped(model)
    parts = all_gather(lambda: _digest(model)) if is_sharded(model) else [_digest(model)]
    # What an adapter does beside its weights is in no setting of the model.
    adapters = _adapters(model) if parts[0][1] else []
    config = getattr(model, "config", None)
    settings: dict[str, Any] = {} if config is None else config.to_dict()
    named = {name: value for name, value in settings.items() if name not in _WRITTEN}
    whole = [
        [digest for digest, _ in parts],
        adapters,
        str(sorted(named.items(), key=str)),
        str(getattr(config, "_attn_implementation", "")),
    ]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()


def _adapters(model: nn.Module) -> list[str]:
    """Return the settings of the adapters that change what they do, in an order of their own."""
    found = []
    for name, config in sorted(getattr(model, "peft_config", {}).items()):
        values = config.to_dict() if hasattr(config, "to_dict") else {"config": str(config)}
        kept = {
            key: sorted(map(str, value)) if isinstance(value, (set, frozenset)) else str(value)
            for key, value in sorted(values.items())
            if key not in _OF_FILES
        }
        found.append(json.dumps([name, kept]))
    return [*found, str(getattr(model, "active_adapters", ""))]


@torch.no_grad()
def _digest(model: nn.Module) -> tuple[str, bool]:
    """Return the digest of the parts that this process holds, and whether an adapter changes anything."""
    found = hashlib.sha256()
    tensors = dict(_tensors(model))
    if any(tensor.is_meta for tensor in tensors.values()):
        raise ScoringError("some weights are on no device of this process; needed all of them for a fingerprint")
    second = [tensor for name, tensor in tensors.items() if "lora_B" in name or "lora_embedding_B" in name]
    is_idle = bool(second) and not any("lora_magnitude" in name for name in tensors)
    is_idle = is_idle and not any(bool(tensor.any()) for tensor in second)
    # Switched off they do not count either.
    is_idle = is_idle or bool(getattr(model, "_adapters_disabled", False))
    for name, tensor in tensors.items():
        if is_idle and "lora_" in name:
            continue
        plain = name.replace("base_model.model.", "").replace(".base_layer.", ".")
        found.update(f"{plain} {tuple(tensor.shape)} {tensor.dtype} {_sums(tensor)}\n".encode())
    return found.hexdigest(), hasattr(model, "peft_config") and not is_idle


def _tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, part that is here) of each weight and buffer, and of what a quantised weight keeps beside itself."""
    for name, weight in (*model.named_parameters(), *model.named_buffers()):
        part = getattr(weight, "ds_tensor", weight)  # ZeRO-3
        yield name, part.to_local() if hasattr(part, "to_local") else part  # FSDP 2
        state = getattr(weight, "quant_state", None)
        while state is not None:
            yield from ((f"{name}.{own}", value) for own, value in vars(state).items() if isinstance(value, Tensor))
            name, state = f"{name}.state2", getattr(state, "state2", None)  # its scales may be quantised too


def _sums(tensor: Tensor) -> tuple[int, ...]:
    data = tensor.detach().contiguous().reshape(-1)
    words = data.view(torch.uint8) if data.numel() else data.to(torch.uint8)
    if rest := -words.numel() % 8:
        words = torch.cat([words, words.new_zeros(rest)])
    if words.storage_offset() % 8:  # a slice of a flat buffer
        words = words.clone()
    whole = words.view(torch.int64)
    odd = 2 * torch.arange(min(_CHUNK, len(whole)), device=whole.device) + 1
    sums = [0] * len(_FACTORS)
    for start in range(0, len(whole), _CHUNK):
        part = whole[start : start + _CHUNK]
        mixed = part * odd[: len(part)]
        # The two sums see the low and the high bits of a product, and a chunk's place.
        for at, value in enumerate((mixed.sum(), (mixed ^ (mixed >> 29)).sum())):
            sums[at] = ((sums[at] + int(value)) * _FACTORS[at] + 1) % _WRAP
    return tuple(sums)
