"""A transformers language model: its facts, contexts that leave it as it was, and errors where its memory ends.

Facts are its sizes, its wrappers from training, and the inputs that it takes. A model under
training is measured without a trace: mode, settings and random states come back.
"""

import inspect
import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final, Self, TypeGuard

import numpy as np
import torch
from torch import Tensor, distributed, nn

from forgetwatch.errors import ScoringError
from forgetwatch.scoring.kept_state import kept_state
from forgetwatch.scoring.transformers_versions import PreTrainedConfig

CPU_TOKENS: Final = 1024


CUDA_TOKENS: Final = 16384
"""Tokens of a batch that keep the device busy; longer batches only take more memory."""


_MASKABLE_KINDS: Final = {"full_attention", "sliding_attention", "chunked_attention"}
"""Kinds of layers for which `layout.tree_options` makes masks."""


UNLIMITED: Final = 10**9
"""Length in tokens of a model or tokenizer that gives no limit."""


_SOFT_CAPS: Final = ("attn_logit_softcapping", "attn_logit_softcap", "attention_logit_cap")
"""Settings of configurations that limit the attention scores by a hyperbolic tangent."""


_SINKS: Final = ("sinks", "attention_sink_bias")
"""Parameters that take a share of the attention to no token."""


_GIB: Final = 2**30


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """Facts of a model that stay the same during a run, read once for each scorer.

    Facts that a trainer may change between two looks are read from the model at each call instead:
    its device and dtype, autocast, the attention implementation, and the distribution of its
    weights over processes.
    """

    vocabulary: int  # number of logits at each position
    max_tokens: (
        int  # longest text by the model's configuration, in tokens; `UNLIMITED` if it gives none
    )
    virtual_tokens: int  # tokens that prompt learning puts before every text
    hidden_size: int  # width of its layers; 0 if its configuration gives none
    token_budget: int  # tokens of a batch that suit its device
    in_parts: (
        bool  # True if every process has a part of it, so that all have to make the same calls
    )

    @classmethod
    def of(cls, model: nn.Module) -> Self:
        """Facts of a model.

        Raises:
            ScoringError: If it is not a causal language model of transformers.
        """
        config = text_config(model)
        limits = (
            getattr(config, name, None)
            for name in ("max_position_embeddings", "max_seq_len", "seq_length")
        )
        return cls(
            vocabulary=vocabulary_size(model),
            max_tokens=min(map(_limit, limits)),
            virtual_tokens=virtual_tokens(model),
            hidden_size=int(getattr(config, "hidden_size", 0) or 0),
            token_budget=default_token_budget(model),
            in_parts=is_sharded(model) or is_tensor_parallel(model),
        )

    def context_length(self, tokenizer: Any) -> int:
        """Number of tokens that model and tokenizer can read.

        Those of prompt learning are not among them.
        """
        return min(self.max_tokens, _limit(tokenizer.model_max_length)) - self.virtual_tokens


def _limit(tokens: Any) -> int:
    return int(tokens) if tokens and tokens > 0 else UNLIMITED


def check_arguments(model: object, tokenizer: object) -> None:
    """Refuse what is no model, and what is no tokenizer."""
    is_tokenizer = callable(tokenizer) and not isinstance(tokenizer, (nn.Module, type))
    for name, argument, needed, fits in (
        ("model", model, "a causal language model of transformers", isinstance(model, nn.Module)),
        ("tokenizer", tokenizer, "the model's tokenizer", is_tokenizer),
    ):
        if not fits:
            got = "None" if argument is None else f"an object of type {type(argument).__name__}"
            raise ScoringError(f"{name}: needed {needed}, got {got}")


def base_model(model: nn.Module) -> nn.Module:
    """Language model inside the wrappers of training.

    torch.compile, data parallel, FSDP, PEFT.
    """
    model = without_wrappers(model)
    inner = getattr(
        model, "get_base_model", None
    )  # PEFT's own accessor; peft need not be installed
    return without_wrappers(inner()) if callable(inner) else model


def unwrapped(model: nn.Module) -> nn.Module:
    """Model without the wrappers that only training needs.

    The processes of a data-parallel model would wait for each other at every call, and the replicas
    of `DataParallel` would read with the settings of one. A wrapper of FSDP stays, also one that is
    compiled: its hooks bring the weights together.
    """
    while (inner := _wrapped(model)) is not None and not _is_fsdp(model):
        model = inner
    return model


def without_wrappers(model: nn.Module) -> nn.Module:
    """Model inside all wrappers of training, with adapters."""
    while (inner := _wrapped(model)) is not None:
        model = inner
    return model


def _wrapped(model: nn.Module) -> nn.Module | None:
    # None if the module is no wrapper.
    # torch.compile's own name. Not getattr: other wrappers pass the names of their inner modules
    # on.
    if (compiled := model._modules.get("_orig_mod")) is not None:
        return compiled
    wrapper: Any = model
    is_parallel = isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel))
    return (
        wrapper.module
        if is_parallel or type(model).__name__ == "FullyShardedDataParallel"
        else None
    )


def _is_fsdp(module: nn.Module) -> bool:
    # In either form, FSDP brings weights together at calls of this module.
    # FSDP 2 replaces the module's class by one with this prefix.
    return type(module).__name__.startswith(("FullySharded", "FSDP"))


def text_config(model: nn.Module) -> PreTrainedConfig:
    """Configuration of the language model.

    Raises:
        ScoringError: If it is not a causal one of transformers.
    """
    config = getattr(base_model(model), "config", None)
    if not isinstance(config, PreTrainedConfig) or config.is_encoder_decoder:
        raise ScoringError(
            "needed a causal language model of transformers, got "
            f"{type(base_model(model)).__name__}"
        )
    return config.get_text_config()


def vocabulary_size(model: nn.Module) -> int:
    """Number of logits at each position.

    The rows of the output embedding, else the configuration's number.
    """
    weight = getattr(output_embedding(model), "weight", None)
    if is_matrix(weight):
        return len(weight)
    if (size := getattr(text_config(model), "vocab_size", None)) is None:
        raise ScoringError(
            f"{type(base_model(model)).__name__} has no vocabulary; needed a causal language model"
        )
    return int(size)


def virtual_tokens(model: nn.Module) -> int:
    """Number of tokens that prompt learning puts before a text.

    They shift all positions.
    """
    configs = getattr(without_wrappers(model), "peft_config", None) or {}
    return max(
        (int(getattr(config, "num_virtual_tokens", 0) or 0) for config in configs.values()),
        default=0,
    )


def default_token_budget(model: nn.Module) -> int:
    """Tokens of a batch that suit the model's device.

    A model without weights is taken for a model on a GPU.
    """
    device = _device(model)
    return CPU_TOKENS if device is not None and device.type == "cpu" else CUDA_TOKENS


def device_of(model: nn.Module) -> torch.device:
    """Device on which the model takes input.

    Raises:
        ScoringError: If the model was made without weights.
    """
    device = _device(model)
    if device is None:
        raise ScoringError(
            f"{type(base_model(model)).__name__} has no weights at hand (they are on the meta "
            "device)"
        )
    return device


def _device(model: nn.Module) -> torch.device | None:
    for weight in model.parameters():
        if weight.device.type != "meta":
            return weight.device
    # All weights are on the disk: accelerate's hooks load them to this device.
    hooks = (getattr(module, "_hf_hook", None) for module in model.modules())
    device = next(
        (
            device_of_hook
            for hook in hooks
            if (device_of_hook := getattr(hook, "execution_device", None)) is not None
        ),
        None,
    )
    # A GPU may be named by its number.
    return (
        torch.device("cuda", device) if isinstance(device, int) else device and torch.device(device)
    )


def is_sharded(model: nn.Module) -> bool:
    """Do several processes hold parts of the model each?

    They must make the same number of calls: FSDP, ZeRO-3.
    """
    fsdp = any(map(_is_fsdp, model.modules()))
    # ZeRO-3 marks its weights with `ds_id`; those of FSDP 2 and of tensor parallelism are DTensors.
    return fsdp or any(
        hasattr(weight, "ds_id") or hasattr(weight, "device_mesh") for weight in model.parameters()
    )


def is_tensor_parallel(model: nn.Module) -> bool:
    """Is each layer split over processes?

    They must read the same tokens at the same time.
    """
    return int(getattr(base_model(model), "tp_size", None) or 1) > 1


def tree_obstacle(model: nn.Module) -> str:
    """Reason why several texts must not share a row.

    A layer that carries a state along the row mixes the branches of a tree, whatever the mask.

    Returns:
        The reason, or an empty text if none is known.
    """
    config, inner = text_config(model), base_model(model)
    if virtual_tokens(model):
        return "prompt learning puts tokens before every row"
    if getattr(inner, "_is_stateful", False):
        return "its layers carry a state along the row"
    if unknown_kinds := sorted(set(getattr(config, "layer_types", None) or ()) - _MASKABLE_KINDS):
        return f"it has layers of kind {unknown_kinds[0]}"
    if "position_ids" not in inspect.signature(type(inner).forward).parameters:
        return "it takes no position_ids"
    return ""


def attention_of(model: nn.Module) -> str:
    """Attention of the language model: sdpa, eager, ..."""
    return str(getattr(text_config(model), "_attn_implementation", None) or "eager")


def is_exact(model: nn.Module) -> bool:
    """Does the model compute in fp32 or better?

    By its weights, accelerate's wrapper and torch.
    """
    # accelerate's mixed precision replaces `forward` and keeps the model's own under this name.
    mixed = hasattr(base_model(model), "_original_forward") or hasattr(model, "_original_forward")
    mixed = mixed or any(torch.is_autocast_enabled(device) for device in ("cpu", "cuda"))
    weight = next(model.parameters())
    # TF32 multiplies fp32 numbers with 10 bits of their mantissas, on CUDA.
    mixed = mixed or (weight.is_cuda and weight.dtype == torch.float32 and _is_tf32_allowed())
    return weight.dtype in (torch.float32, torch.float64) and not mixed


def _is_tf32_allowed() -> bool:
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:  # torch refuses to name one precision where several settings disagree
        return True


def output_embedding(model: nn.Module) -> nn.Module | None:
    """Module that turns hidden states into logits.

    Returns:
        The module, or None if the model names none.
    """
    getter = getattr(base_model(model), "get_output_embeddings", None)
    head = getter() if callable(getter) else None
    return getattr(
        head, "_fsdp_wrapped_module", head
    )  # FSDP's first version wraps modules of their own, too


def is_matrix(weight: object) -> TypeGuard[Tensor]:
    """Is an output embedding's weight a whole matrix here?

    Not sharded and not packed.
    """
    return (
        isinstance(weight, Tensor)
        and weight.ndim == 2
        and weight.is_floating_point()
        and weight.numel() > 0
    )


@contextmanager
def random_states() -> Iterator[None]:
    """Restore the random states after the block.

    Python, numpy, torch, and every CUDA device in use.
    """
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
    """Evaluate without gradients, and restore the model afterwards.

    That is each module's mode, its buffers and plain attributes (see above), and all random states.

    Inside, modules that were compiled in place run as they are written: each shape of a batch would
    be compiled anew, and after a few of them torch would no longer compile the training step's own
    code either. Weights that FSDP 2 has brought together are split again.

    All is restored after an exception too, `return_dict` of the configuration included, which is
    set meanwhile. Autocast, default dtype, generation config and tokenizer are not touched.
    """
    training = [module for module in model.modules() if module.training]
    for module in training:
        # Not eval(): layers that merge weights in it would unmerge them only in train().
        module.training = False
    try:
        eager = torch.compiler.set_stance("force_eager")
        # Flex attention is a fast kernel only where it is compiled, for each shape of a batch.
        is_flex = attention_of(model) == "flex_attention"
        flex = maskable(model, mask_attentions(model)[0]) if is_flex else nullcontext()
        with (
            kept_state(model),
            random_states(),
            torch.no_grad(),
            eager,
            flex,
            _named_outputs(model),
        ):
            yield
    finally:
        for module in training:
            module.training = True
        _reshard(model)


def _reshard(model: nn.Module) -> None:
    # The weights of the root stay together after a call, until a backward pass. Meanwhile
    # `model.parameters()` are other tensors, and `zero_grad()` leaves the gradients of the split
    # ones.
    if (
        not distributed.is_available() or not distributed.is_initialized()
    ):  # torch may be built without
        return
    from torch.distributed.fsdp import FSDPModule

    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


@contextmanager
def _named_outputs(model: nn.Module) -> Iterator[None]:
    # A configuration with `return_dict=False` makes the outputs a tuple.
    configs = [getattr(module, "config", None) for module in model.modules()]
    tuples = [
        config
        for config in configs
        if isinstance(config, PreTrainedConfig) and not config.return_dict
    ]
    try:
        for config in tuples:
            config.return_dict = True
        yield
    finally:
        for config in tuples:
            config.return_dict = False


@contextmanager
def maskable(model: nn.Module, attention: str) -> Iterator[None]:
    """Switch to an attention of `mask_attentions` in the block.

    Layers read the implementation from the configuration at every call, so that it is enough to set
    it there.
    """
    config, own_attention = text_config(model), attention_of(model)
    if attention == own_attention:  # nothing is written: some configurations warn
        yield
        return
    config._attn_implementation = attention
    try:
        yield
    finally:
        config._attn_implementation = own_attention


def mask_attentions(model: nn.Module) -> tuple[str, ...]:
    """Attentions for shared rows, the fastest first.

    Flash kernels, and others of their kind, take causal rows only. ``sdpa`` leaves out the sinks of
    gpt-oss and refuses Gemma 2's soft cap of the attention scores; ``eager`` is the model's own
    code and does all. Where the model itself runs on ``sdpa``, that is tried first in any case.
    """
    own_attention, config, inner = attention_of(model), text_config(model), base_model(model)
    if own_attention in ("eager", "sdpa"):
        return ("eager",) if own_attention == "eager" else ("sdpa", "eager")
    capped = any(getattr(config, name, None) for name in _SOFT_CAPS)
    has_sinks = any(name.rsplit(".", 1)[-1] in _SINKS for name, _ in inner.named_parameters())
    suits_sdpa = getattr(inner, "_supports_sdpa", False) and not capped and not has_sinks
    return ("sdpa", "eager") if suits_sdpa else ("eager",)


@contextmanager
def explain_out_of_memory(
    doing: str,
    *,
    weights: Callable[[], int],
    remedy: str,
    devices: Callable[[], Iterable[torch.device]] = tuple,
) -> Iterator[None]:
    """Turn the end of a device's memory into a `ScoringError`.

    It names what is done with which model (`doing`), the bytes of its weights and the devices that
    hold them, by default the current one. The functions that give both are called after the failure
    only.
    """
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        needed = "weights of unknown size"
        with suppress(Exception):  # the failure must not be hidden by one of its description
            needed = f"{weights() / _GIB:,.1f} GiB of weights"
        raise ScoringError(
            f"{doing}: out of memory with {needed}; {_free_memory(devices())}; {remedy}"
        ) from error


def weight_bytes(model: nn.Module) -> int:
    """Bytes of all weights of a model, wherever they are."""
    return sum(weight.numel() * weight.element_size() for weight in model.parameters())


def _free_memory(devices: Iterable[torch.device]) -> str:
    # GPUs among the devices are named, and the machine for the CPU. Without either it is the
    # current GPU, or the machine. Asking another GPU would take some of its memory, once in each
    # process.
    used = {device for device in devices if device.type in ("cuda", "cpu")}
    if not used:
        used = {torch.device("cuda" if torch.cuda.is_available() else "cpu")}
    indices = (device.index for device in used if device.type == "cuda")
    gpus = sorted({torch.cuda.current_device() if index is None else index for index in indices})
    lines = [_line(f"cuda:{index}", *torch.cuda.mem_get_info(index)) for index in gpus]
    if torch.device("cpu") in used:
        try:
            sizes = [
                os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
                for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES")
            ]
            lines.append(_line("this machine", *sizes))
        except (ValueError, OSError, AttributeError):  # not on every system
            lines.append("the free memory of this machine is unknown")
    return ", ".join(lines)


def _line(name: str, free: int, total: int) -> str:
    return f"{name} has {free / _GIB:,.1f} of {total / _GIB:,.1f} GiB free"
