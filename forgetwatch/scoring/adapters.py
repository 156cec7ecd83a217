"""The base of a model with adapters: the same weights with the adapters switched off, where nothing else is trained.

    trained: adapters only                              the base can be read in the same look
    also biases, embeddings, modules that are saved     not: without the adapters it is neither the base nor the model

Only what shows on the model itself is tested here. Adapters that were trained before the run are a part of its base:
whoever reads the model without them compares it with what the base gave (`base_texts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from forgetwatch.scoring.model import is_sharded, is_tensor_parallel, output_embedding, without_wrappers


def adapter_obstacle(model: nn.Module) -> str:
    """Reason why the base cannot be read from the model; empty if it can, with its adapters switched off."""
    peft: Any = without_wrappers(model)
    layers = _layers(peft)
    if not callable(getattr(peft, "disable_adapter", None)) or not layers:
        return "it has no adapters"
    if is_sharded(model) or is_tensor_parallel(model):
        return "several processes hold parts of it"
    if any("base_layer" not in layer._modules for layer in layers):
        return "it trains copies of whole modules"
    if any(layer.merged or layer.disable_adapters for layer in layers):
        return "its adapters are merged or switched off"
    if any(layer is output_embedding(model) for layer in layers):
        return "its output embedding has an adapter"
    if any(getattr(config, "bias", "none") != "none" for config in peft.peft_config.values()):
        return "it also trains biases"
    own = {id(weight) for layer in layers for weight in _adapter_weights(layer)}
    other = [name for name, weight in peft.named_parameters() if weight.requires_grad and id(weight) not in own]
    return f"it also trains {other[0]}" if other else ""


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Switch the adapters off inside this context; call it only without an `adapter_obstacle`."""
    peft: Any = without_wrappers(model)
    # PEFT freezes the adapters meanwhile, and afterwards trains all that are active.
    trained = [(weight, weight.requires_grad) for weight in peft.parameters()]
    try:
        with peft.disable_adapter():
            yield
    finally:
        for weight, is_trained in trained:
            weight.requires_grad_(is_trained)


def _layers(model: nn.Module) -> list[Any]:
    """Modules of PEFT that hold a layer of the base and its adapters or trained copies; peft need not be installed."""
    return [module for module in model.modules() if getattr(module, "adapter_layer_names", None)]


def _adapter_weights(layer: Any) -> Iterator[nn.Parameter]:
    for name in layer.adapter_layer_names:
        held = getattr(layer, name, None)
        if isinstance(held, nn.Module):
            yield from held.parameters()
