"""Adapters of PEFT: whether a model is its base once they are switched off, and which of the two a run begins with.

identity at the start (LoRA's second factor is zero)      either: both are the base
made just now, and no identity (prompt and prefix         the base without the adapter: what the adapter itself
tuning, ``init_lora_weights=False``)                       changes before step 1 is lost by the training
PiSSA, OLoRA, LoftQ, CorDA                                 with the adapter, which holds a part of the base's weights
an adapter that was trained before                         with the adapter: the training continues it
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from torch import nn

from forgetwatch.scoring import is_sharded, is_tensor_parallel, output_embedding, without_wrappers

_SPLIT: Final = ("pissa", "olora", "loftq", "corda", "lora_ga")
"""Ways to make an adapter that take its start out of the base's weights."""
_INIT: Final = ("init_lora_weights", "init_weights", "init_ia3_weights")
_OVERRULED: Final = "baseline=... names another reference"


@dataclass(frozen=True, kw_only=True)
class AdapterStart:
    """What a run with adapters begins with.

    Attributes:
        is_off: True if the baseline is measured with the adapters switched off.
        line: What is taken, and why; empty if adapters make no difference, or there are none.
    """

    is_off: bool = False
    line: str = ""


def adapter_start(model: nn.Module) -> AdapterStart:
    """Return what a run with this model begins with, before its first step."""
    peft: Any = without_wrappers(model)
    configs = getattr(peft, "peft_config", None)
    if not configs or not callable(getattr(peft, "disable_adapter", None)):
        return AdapterStart()
    name = peft.active_adapter if isinstance(peft.active_adapter, str) else peft.active_adapter[0]
    config = configs[name]
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    init = next((value for part in _INIT if (value := getattr(config, part, None)) is not None), None)
    if isinstance(init, str) and init.startswith(_SPLIT):
        why = f"{init} takes it out of the base's weights, and both together are the base"
        return AdapterStart(line=f"the baseline is the model with its adapter: {why}; {_OVERRULED}")
    if config.is_prompt_learning or getattr(config, "is_adaption_prompt", False) or init is False:
        if _can_switch_off(model):
            line = f"the baseline is the base with its adapter ({kind}) switched off; {_OVERRULED}"
            return AdapterStart(is_off=True, line=line)
        why = "it cannot be switched off here, and what it changes before step 1 is not counted"
        return AdapterStart(line=f"the baseline is the model with its adapter ({kind}): {why}; {_OVERRULED}")
    second = [weight for name, weight in peft.named_parameters() if "lora_B" in name or "lora_embedding_B" in name]
    if any(bool(weight.any()) for weight in second if not weight.is_meta):
        line = f"the baseline is the model with its adapter, which was trained before; {_OVERRULED}"
        return AdapterStart(line=line)
    return AdapterStart()


def _can_switch_off(model: nn.Module) -> bool:
    peft: Any = without_wrappers(model)
    is_whole = not is_sharded(model) and not is_tensor_parallel(model)
    return is_whole and (peft.active_peft_config.is_prompt_learning or holds_its_base(model))


def holds_its_base(model: nn.Module) -> bool:
    """Return True if the model is its base once its adapters are switched off, and can be read as such here."""
    peft: Any = without_wrappers(model)
    # Modules that hold a layer of the base and its adapters or trained copies; peft need not be installed.
    layers: list[Any] = [module for module in peft.modules() if getattr(module, "adapter_layer_names", None)]
    if not callable(getattr(peft, "disable_adapter", None)) or not layers:
        return False
    if is_sharded(model) or is_tensor_parallel(model):  # several processes hold parts of it
        return False
    for layer in layers:
        is_copy = "base_layer" not in layer._modules  # of a whole module, trained
        if is_copy or layer.merged or layer.disable_adapters or layer is output_embedding(model):
            return False
    if any(getattr(config, "bias", "none") != "none" for config in peft.peft_config.values()):
        return False
    held = [getattr(layer, name, None) for layer in layers for name in layer.adapter_layer_names]
    own = {id(weight) for part in held if isinstance(part, nn.Module) for weight in part.parameters()}
    return all(id(weight) in own for weight in peft.parameters() if weight.requires_grad)


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Switch the adapters off inside this context; only for a model that `holds_its_base`."""
    peft: Any = without_wrappers(model)
    # PEFT freezes the adapters meanwhile, and afterwards trains all that are active.
    trained = [(weight, weight.requires_grad) for weight in peft.parameters()]
    try:
        with peft.disable_adapter():
            yield
    finally:
        for weight, is_trained in trained:
            weight.requires_grad_(is_trained)
