"""Models of checkpoint folders, adapters and model ids, loaded whole in each process."""

import json
import os
import re
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from safetensors import safe_open
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
)
from transformers.integrations import deepspeed
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)
from transformers.utils import logging

from forgetwatch.errors import ScoringError, did_you_mean_path
from forgetwatch.extras import install
from forgetwatch.loading import Loading, weights_problem
from forgetwatch.scoring.model import explain_out_of_memory, weight_bytes
from forgetwatch.scoring.tokenizer_loading import has_tokenizer, pretrained_tokenizer
from forgetwatch.scoring.transformers_versions import PreTrainedConfig

ADAPTER: Final = "adapter_config.json"
"""File that makes a folder one of an adapter."""


def base_of_adapter(path: Path) -> str:
    """Base that an adapter names, a folder or a model id.

    Raises:
        ScoringError: If none is named but the adapter itself, or the file cannot be read.
    """
    try:
        config = json.loads((path / ADAPTER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ScoringError(f"{path / ADAPTER}: cannot be read ({error})") from error
    base = config.get("base_model_name_or_path") if isinstance(config, dict) else None
    if not base or Path(str(base)).resolve() == path.resolve():
        raise ScoringError(
            f"{path / ADAPTER}: names no base model but itself (base_model_name_or_path: {base!r})"
        )
    return str(base)


def missing_base(path: Path) -> str | None:
    """Find the missing folder of an adapter's base.

    Returns:
        The folder, or None if it is there, or the base is a model id, or there is no adapter.
    """
    if not (path / ADAPTER).is_file():
        return None
    base = base_of_adapter(path)
    is_path = base.startswith((".", "~", os.sep)) or base.count("/") > 1
    return base if is_path and not Path(base).is_dir() else None


def silence_loading() -> None:
    """Silence libraries that print when they load a model.

    For commands, which own their process.
    """
    logging.disable_progress_bar()
    # PEFT calls it at each adapter.
    warnings.filterwarnings(
        "ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning
    )


_NOT_USED: Final = re.compile(
    r"rotary_emb\.|\.attn\.(masked_)?bias$|position_ids$|^v_head\.|^value_head\."
)
"""Weights that a language model needs not: constants that older versions stored, and the value head of a policy."""


_FSDP: Final = "ACCELERATE_USE_FSDP"
"""The variable by which transformers sees a training with FSDP."""


def load_model(
    name_or_path: str, *, loading: Loading = Loading(), tokenizer_of: str | None = None
) -> tuple[nn.Module, Any]:
    """Load the model and tokenizer of a folder or model id.

    On the GPU if there is one. Whole in this process, also inside a training with FSDP or
    DeepSpeed's ZeRO-3.

    It is whole in this process, also inside a training with FSDP or DeepSpeed's ZeRO-3.

    Args:
        name_or_path: The checkpoint folder, adapter folder or model id.
        loading: How it is loaded.
        tokenizer_of: Folder or id of the tokenizer that a model saved without one gets; None to
            refuse it.

    Raises:
        ScoringError: If it cannot be loaded, or does not fit into memory; the message has the
            cause.
    """
    check_path(name_or_path)
    remedy = (
        f"spread it over all GPUs and the CPU (`forgetwatch score {name_or_path} --device-map "
        "auto`), or free memory; a training takes the snapshot as its baseline"
    )
    if spreads := loading.device_map is not None:
        remedy = "free memory, or take a smaller or quantized model"
        if find_spec("accelerate") is None:
            raise ScoringError(
                f"--device-map needs the package accelerate: {install('accelerate')}"
            )
    size = partial(size_of, name_or_path, loading=loading)
    # One process spreads a model over all GPUs; of several processes each has the current one.
    gpus = (
        [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
        if spreads
        else []
    )
    explained = explain_out_of_memory(
        f"{name_or_path}: loading it", weights=size, devices=lambda: gpus, remedy=remedy
    )
    # The size is computed inside the first context too: a model without weights would also be
    # divided.
    with _loading_whole(), explained, ExitStack() as stack:
        spread: dict[str, Any] = {}
        if spreads:
            folder = stack.enter_context(
                TemporaryDirectory(prefix="forgetwatch-", ignore_cleanup_errors=True)
            )
            spread = {"device_map": loading.device_map, "offload_folder": folder}
        model, tokenizer = _load(
            name_or_path, loading=loading, spread=spread, tokenizer_of=tokenizer_of or name_or_path
        )
        if not spreads:
            model = model.to("cuda" if torch.cuda.is_available() else "cpu")
        weakref.finalize(model, stack.pop_all().close)
    return model.eval(), tokenizer


def _load(
    name_or_path: str, *, loading: Loading, spread: dict[str, Any], tokenizer_of: str
) -> tuple[nn.Module, Any]:
    # The model stays on the CPU unless options of transformers spread it over devices.
    path = Path(name_or_path)
    is_adapter = (path / ADAPTER).is_file()
    if is_adapter and find_spec("peft") is None:
        raise ScoringError(
            f"{name_or_path} is an adapter, and loading one needs the package peft: "
            f"{install('peft')}"
        )
    with _explained(name_or_path, passed=(ScoringError, torch.OutOfMemoryError, MemoryError)):
        if is_adapter:
            from peft import PeftModel

            has_own = (path / "tokenizer_config.json").is_file()
            model, tokenizer = _load(
                base_of_adapter(path),
                loading=loading,
                spread=spread,
                tokenizer_of=name_or_path if has_own else tokenizer_of,
            )
            with warnings.catch_warnings():
                # PEFT only warns about weights that are missing in the adapter's files, and
                # continues without them.
                warnings.filterwarnings("error", message="Found missing adapter keys")
                model = PeftModel.from_pretrained(model, name_or_path, **spread)
            _check_adapter(model, path)
            if has_own:
                tokenizer = pretrained_tokenizer(name_or_path, loading=loading)
        else:
            config = AutoConfig.from_pretrained(
                name_or_path, trust_remote_code=loading.trust_remote_code
            )
            loaded: Any = _auto_class(config).from_pretrained(
                name_or_path,
                dtype="auto",
                trust_remote_code=loading.trust_remote_code,
                output_loading_info=True,
                **spread,
            )
            model, report = loaded
            _check_complete(name_or_path, report)
            source = name_or_path if has_tokenizer(name_or_path) else tokenizer_of
            tokenizer = pretrained_tokenizer(source, loading=loading)
    return model, tokenizer


@contextmanager
def _explained(name_or_path: str, *, passed: tuple[type[Exception], ...]) -> Iterator[None]:
    # Loaders of foreign files raise whatever they like; `passed` errors go through.
    try:
        yield
    except passed:
        raise
    except Exception as error:
        if not Path(name_or_path).exists():
            raise no_model(name_or_path, error) from error
        raise ScoringError(
            f"{name_or_path}: cannot be loaded as a causal language model with its tokenizer "
            f"({error})"
        ) from error


def no_model(name_or_path: str, error: Exception) -> ScoringError:
    """Error for a name that is no folder and no model id."""
    near, reason = did_you_mean_path(Path(name_or_path)), re.split(r"\.\s", str(error))[0]
    return ScoringError(
        f"{name_or_path}: no folder here{near}, and as a model id it cannot be loaded ({reason})"
    )


@contextmanager
def _loading_whole() -> Iterator[None]:
    # The settings of a training with ZeRO-3 would divide weights over the processes; those of FSDP
    # would leave them empty in all but the main process.
    zero3, fsdp = deepspeed._hf_deepspeed_config_weak_ref, os.environ.get(_FSDP)
    deepspeed.unset_hf_deepspeed_config()
    os.environ[_FSDP] = "false"
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = zero3
        if fsdp is None:
            del os.environ[_FSDP]
        else:
            os.environ[_FSDP] = fsdp


def size_of(name_or_path: str, *, loading: Loading) -> int:
    """Bytes of the weights of a model, without adapters."""
    while (Path(name_or_path) / ADAPTER).is_file():
        name_or_path = base_of_adapter(Path(name_or_path))
    return weight_bytes(load_outline(name_or_path, loading=loading)[0])


def load_outline(name_or_path: str, *, loading: Loading = Loading()) -> tuple[nn.Module, Any]:
    """Load the tokenizer, and the model without weights.

    Such a model has its sizes only.
    """
    check_path(name_or_path)
    with _explained(name_or_path, passed=(ScoringError,)):
        config = AutoConfig.from_pretrained(
            name_or_path, trust_remote_code=loading.trust_remote_code
        )
        with torch.device("meta"):
            model: Any = _auto_class(config).from_config(
                config, dtype=config.dtype, trust_remote_code=loading.trust_remote_code
            )
        tokenizer = pretrained_tokenizer(name_or_path, loading=loading)
    return model.eval(), tokenizer


def _auto_class(config: PreTrainedConfig) -> Any:
    # Texts are put to a model that also takes images, too. A type that has classes for both is
    # loaded by the class that wrote its files.
    # The code that comes with a model, which is only read here if it is trusted, names the class
    # that it is for.
    for auto_class in (AutoModelForCausalLM, AutoModelForImageTextToText):
        if auto_class.__name__ in (getattr(config, "auto_map", None) or {}):
            return auto_class
    model_type = str(config.model_type)
    written_by = set(config.architectures or ())
    takes_images = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(model_type)
    of_text = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(model_type)
    is_for_images = takes_images is not None and (of_text is None or takes_images in written_by)
    return AutoModelForImageTextToText if is_for_images else AutoModelForCausalLM


def _check_complete(name_or_path: str, loading: dict[str, Any]) -> None:
    # Weights that are not in the files get random values.
    for key_list in ("missing_keys", "mismatched_keys"):
        if names := sorted(map(str, loading[key_list])):
            raise ScoringError(
                f"{name_or_path}: {len(names)} weights of the language model are not in its files, "
                f"{names[0]} among them ({key_list.replace('_keys', '')}); needed a whole causal "
                "language model with its head"
            )
    if names := sorted(
        name for name in map(str, loading["unexpected_keys"]) if not _NOT_USED.search(name)
    ):
        remedy = "a config.json of another model or of fewer layers leaves them out"
        if any(".lora_" in name for name in names):
            remedy = (
                "merge the adapter (merge_and_unload) and save the model, or save the adapter alone"
            )
        raise ScoringError(f"{name_or_path}: {_unused(names)}; {remedy}")


def _unused(names: Sequence[str]) -> str:
    return f"{len(names)} weights in its files are not used by its model, {names[0]} among them (unexpected)"


def _check_adapter(model: nn.Module, path: Path) -> None:
    # PEFT leaves out weights that the base has no place for.
    from peft import get_peft_model_state_dict

    file = path / "adapter_model.safetensors"
    if file.is_file():
        with safe_open(file, framework="pt") as stored:
            names = {name for name in stored.keys() if ".lora_" in name}  # noqa: SIM118  # no mapping
        if names := names - get_peft_model_state_dict(model).keys():
            raise ScoringError(
                f"{path}: {_unused(sorted(names))}; needed the base that it was trained on"
            )


def check_path(name_or_path: str) -> None:
    """Refuse a path at which there is nothing.

    transformers would look it up as a model id.
    """
    if name_or_path.startswith((".", "/")) and not Path(name_or_path).exists():
        raise ScoringError(f"{name_or_path}: no such folder{did_you_mean_path(Path(name_or_path))}")
    if Path(name_or_path).is_dir() and (problem := weights_problem(Path(name_or_path))):
        raise ScoringError(f"{name_or_path}: {problem}")
    for index in (
        sorted(Path(name_or_path).glob("*.index.json")) if Path(name_or_path).is_dir() else ()
    ):
        try:
            shards = sorted(set(map(str, json.loads(index.read_bytes())["weight_map"].values())))
        except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
            continue  # the loader refuses it
        if outside := [
            name for name in shards if Path(name).is_absolute() or ".." in Path(name).parts
        ]:
            raise ScoringError(
                f"{index}: names {outside[0]!r:.80}; needed names of files in the same folder"
            )


def non_finite(parts: Iterable[torch.Tensor]) -> str:
    """Describe the values of a tensor's parts that are not finite.

    As ``NaN (3 of 4,096 values)``; empty if all are finite.
    """
    nans = infinities = size = 0
    for part in parts:
        nans, infinities = nans + int(part.isnan().sum()), infinities + int(part.isinf().sum())
        size += part.numel()
    kinds = " and ".join(
        name for name, number in (("NaN", nans), ("infinity", infinities)) if number
    )
    return kinds and f"{kinds} ({nans + infinities:,} of {size:,} values)"
