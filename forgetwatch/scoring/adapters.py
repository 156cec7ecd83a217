"""Adapters of PEFT: switched off, what they change, and which of the two a run begins with.

    changes nothing (LoRA's second factor is zero)       either: both are the base
    PiSSA, OLoRA, LoftQ, CorDA                           with the adapter, which holds a part of the base's weights
    that of the training which this one continues        with the adapter
    changes something, and its kind starts as identity   with the adapter: it was trained, or rounds otherwise
    any other (prompt and prefix tuning, random starts)  the base without the adapter: what the
                                                         adapter changes before step 1 is lost

Whether an adapter changes anything is measured, with a short text and with the embedding of every
token.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

from forgetwatch.scoring.model import (
    device_of,
    is_sharded,
    is_tensor_parallel,
    isolated,
    output_embedding,
    unwrapped,
    vocabulary_size,
    without_wrappers,
)

_SPLIT: Final = ("pissa", "olora", "loftq", "corda", "lora_ga")
"""Ways to make an adapter that take its start out of the base's weights."""
_RANDOM: Final = ("C3A", "UNILORA", "VBLORA")
"""Kinds that start at random, also where their settings ask for no random start."""
_INIT: Final = ("init_lora_weights", "init_weights", "init_ia3_weights")
_OVERRULED: Final = "baseline=... names another reference"

_TOKENS: Final = 12
"""Tokens of the text in which a model is compared with and without its adapters."""
_ROWS: Final = 4096
"""Embeddings that are compared at a time."""
_ROUNDING: Final = 1e-5
"""Largest difference by rounding, as a share of the largest value; a fresh orthogonal LoRA in fp32 differs by 3e-6."""


@dataclass(frozen=True, kw_only=True)
class AdapterStart:
    """What a run with adapters begins with.

    Attributes:
        is_off: True if the baseline is measured with the adapters switched off.
        line: What is taken, and why; empty if adapters make no difference, or there are none.
    """

    is_off: bool = False
    line: str = ""


def adapter_start(model: nn.Module, *, continued: str | None = None) -> AdapterStart:
    """Find what a run begins with: base or continued adapter.

    Every process calls this, before the first step.

    Args:
        model: The model.
        continued: Kind of the adapter of the earlier training that this one continues, as PEFT
            names it; empty if the kind is unknown, None if there is no earlier training, or it
            trained no adapter.
    """
    peft: Any = without_wrappers(model)
    if not callable(getattr(peft, "disable_adapter", None)) or not changes_its_base(model):
        return AdapterStart()
    config = peft.active_peft_config
    kind = str(getattr(config.peft_type, "value", config.peft_type))
    init = next(
        (value for setting in _INIT if (value := getattr(config, setting, None)) is not None), None
    )
    if isinstance(init, str) and init.startswith(_SPLIT):
        why = f": {init} takes it out of the base's weights, and both together are the base"
    elif continued in ("", kind):
        why = f" ({kind}), which the earlier training left"
    elif not config.is_prompt_learning and init is not False and kind not in _RANDOM:
        why = f" ({kind}), which changes its outputs before step 1"
    elif holds_its_base(model) or not (
        is_sharded(model) or is_tensor_parallel(model) or not config.is_prompt_learning
    ):
        why = "if it was trained before, lineage=... names that training"
        line = (
            f"the baseline is the base with its adapter ({kind}) switched off; {why}; {_OVERRULED}"
        )
        return AdapterStart(is_off=True, line=line)
    else:
        why = f" ({kind}): it cannot be switched off here, and what it changes before step 1 is not counted"
    return AdapterStart(line=f"the baseline is the model with its adapter{why}; {_OVERRULED}")


def _layers(model: nn.Module) -> list[Any]:
    # PEFT need not be there.
    return [module for module in model.modules() if getattr(module, "adapter_layer_names", None)]


def _tensors(module: nn.Module) -> Iterable[Tensor]:
    return (*module.parameters(), *module.buffers())


def adapter_tensors(model: nn.Module) -> set[int]:
    """Ids of the weights and buffers that adapters add."""
    ids = set[int]()
    for layer in _layers(model):
        inner = layer._modules.get("base_layer") or layer._modules.get("original_module")
        base = set() if inner is None else set(map(id, _tensors(inner)))
        ids |= {id(tensor) for tensor in _tensors(layer)} - base
    return ids


def changes_its_base(model: nn.Module) -> bool:
    """Do the adapters change what the model computes?

    Every process calls this.

    A short text is read and each token embedded, with and without. True where that is not possible:
    the adapters are merged, put tokens before the text, or are none of a `PeftModel`.
    """
    peft: Any = without_wrappers(model)
    if not hasattr(peft, "peft_config") or getattr(peft, "_adapters_disabled", False):
        return False
    if (
        not callable(getattr(peft, "disable_adapter", None))
        or peft.active_peft_config.is_prompt_learning
    ):
        return True
    if any(getattr(layer, "merged", False) for layer in _layers(peft)):
        return True
    size, embedding = vocabulary_size(model), peft.get_input_embeddings()
    tokens = torch.arange(_TOKENS, device=device_of(model)) * size // _TOKENS

    def is_alike(module: Any, tokens: Tensor) -> bool:
        now = module(tokens)
        with adapters_off(model):
            base = module(tokens)
        now, base = getattr(now, "logits", now), getattr(base, "logits", base)
        return bool((now - base).abs().max() <= _ROUNDING * base.abs().max())

    with isolated(model):
        if not is_alike(unwrapped(model), tokens[None]):
            return True
        # A row of the embedding is seen where its token is; alone it cannot be called where
        # processes share it.
        if embedding not in _layers(peft) or is_sharded(model):
            return False
        rows = torch.arange(embedding.weight.shape[0], device=tokens.device)
        return not all(is_alike(embedding, chunk) for chunk in rows.split(_ROWS))


def holds_its_base(model: nn.Module) -> bool:
    """Can the base be read by switching the adapters off here?"""
    peft: Any = without_wrappers(model)
    layers = _layers(peft)
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
    ids = adapter_tensors(peft)
    return all(id(weight) in ids for weight in peft.parameters() if weight.requires_grad)


@contextmanager
def adapters_off(model: nn.Module) -> Iterator[None]:
    """Switch the adapters off within the block.

    The model is then the base if it `holds_its_base`.
    """
    peft: Any = without_wrappers(model)
    # PEFT freezes the adapters meanwhile, and afterwards trains all that are active.
    trained = [(weight, weight.requires_grad) for weight in peft.parameters()]
    try:
        with peft.disable_adapter():
            yield
    finally:
        for weight, is_trained in trained:
            weight.requires_grad_(is_trained)
