"""Models and tokenizers of checkpoint folders, adapters and model ids, loaded whole in each process."""

from __future__ import annotations

import json
import os
import re
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from safetensors import safe_open
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoTokenizer
from transformers.integrations import deepspeed
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
)
from transformers.utils import logging

from forgetwatch.errors import ScoringError, did_you_mean_path
from forgetwatch.extras import install
from forgetwatch.loading import Loading, weights_problem
from forgetwatch.scoring.compatibility import PreTrainedConfig
from forgetwatch.scoring.model import UNLIMITED, explain_out_of_memory, weight_bytes

ADAPTER: Final = "adapter_config.json"
"""File that makes a folder one of an adapter."""
_FSDP: Final = "ACCELERATE_USE_FSDP"
"""The variable by which transformers sees a training with FSDP."""
_VOCABULARY: Final = re.compile(r"tokenizer(\.[\d.]+)?\.json|vocab\..+|.+\.(model|tiktoken)|tekken\.json")
"""Files with the words of a tokenizer."""
_SETTINGS: Final = re.compile(r"tokenizer_config\.json|tokenization_.+\.py")
"""Files of a tokenizer that may need none with words, since it reads bytes or has code of its own."""
_NOT_USED: Final = re.compile(r"rotary_emb\.|\.attn\.(masked_)?bias$|position_ids$|^v_head\.|^value_head\.")
"""Weights that a language model needs not: constants that older versions stored, and the value head of a policy."""
_NO_TOKENIZER: Final = (
    "it has no tokenizer; copy the files of its base's tokenizer into it (tokenizer.json and tokenizer_config.json)"
)


def load_model(given: str, *, loading: Loading = Loading(), tokenizer_of: str | None = None) -> tuple[nn.Module, Any]:
    """Return the model and tokenizer of a checkpoint folder, adapter folder or model id; on the GPU if there is one.

    It is whole in this process, also inside a training with FSDP or DeepSpeed's ZeRO-3.

    Args:
        given: The checkpoint folder, adapter folder or model id.
        loading: How it is loaded.
        tokenizer_of: Folder or id of the tokenizer that a model saved without one gets; None to refuse it.

    Raises:
        ScoringError: If it cannot be loaded, or does not fit into memory; the message has the cause.
    """
    check_path(given)
    remedy = (
        f"spread it over all GPUs and the CPU (`forgetwatch score {given} --device-map auto`), or free memory; a "
        "training takes the snapshot as its baseline"
    )
    if spreads := loading.device_map is not None:
        remedy = "free memory, or take a smaller or quantized model"
        if find_spec("accelerate") is None:
            raise ScoringError(f"--device-map needs the package accelerate: {install('accelerate')}")
    size = partial(size_of, given, loading=loading)
    # One process spreads a model over all GPUs; of several processes each has the current one.
    gpus = [torch.device("cuda", index) for index in range(torch.cuda.device_count())] if spreads else []
    explained = explain_out_of_memory(f"{given}: loading it", weights=size, devices=lambda: gpus, remedy=remedy)
    # The size is computed inside the first context too: a model without weights would also be divided.
    with _loading_whole(), explained, ExitStack() as stack:
        spread: dict[str, Any] = {}
        if spreads:
            folder = stack.enter_context(TemporaryDirectory(prefix="forgetwatch-", ignore_cleanup_errors=True))
            spread = {"device_map": loading.device_map, "offload_folder": folder}
        model, tokenizer = _load(given, loading=loading, spread=spread, tokenizer_of=tokenizer_of or given)
        if not spreads:
            model = model.to("cuda" if torch.cuda.is_available() else "cpu")
        weakref.finalize(model, stack.pop_all().close)
    return model.eval(), tokenizer


def _load(given: str, *, loading: Loading, spread: dict[str, Any], tokenizer_of: str) -> tuple[nn.Module, Any]:
    """Return the model and tokenizer; on the CPU without options of transformers that spread it over devices."""
    path = Path(given)
    is_adapter = (path / ADAPTER).is_file()
    if is_adapter and find_spec("peft") is None:
        raise ScoringError(f"{given} is an adapter, and loading one needs the package peft: {install('peft')}")
    with _explained(given, passed=(ScoringError, torch.OutOfMemoryError, MemoryError)):
        if is_adapter:
            from peft import PeftModel

            has_own = (path / "tokenizer_config.json").is_file()
            model, tokenizer = _load(
                base_of_adapter(path),
                loading=loading,
                spread=spread,
                tokenizer_of=given if has_own else tokenizer_of,
            )
            with warnings.catch_warnings():
                # PEFT only warns about weights that are missing in the adapter's files, and continues without them.
                warnings.filterwarnings("error", message="Found missing adapter keys")
                model = PeftModel.from_pretrained(model, given, **spread)
            _check_adapter(model, path)
            if has_own:
                tokenizer = pretrained_tokenizer(given, loading=loading)
        else:
            config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
            loaded: Any = _auto_class(config).from_pretrained(
                given, dtype="auto", trust_remote_code=loading.trust_remote_code, output_loading_info=True, **spread
            )
            model, report = loaded
            _check_complete(given, report)
            source = given if has_tokenizer(given) else tokenizer_of
            tokenizer = pretrained_tokenizer(source, loading=loading)
    return model, tokenizer


@contextmanager
def _explained(given: str, *, passed: tuple[type[Exception], ...]) -> Iterator[None]:
    """Name the files in whatever error a loader of foreign files raises in this context, but for those passed."""
    try:
        yield
    except passed:
        raise
    except Exception as error:
        raise ScoringError(
            f"{given}: cannot be loaded as a causal language model with its tokenizer ({error})"
        ) from error


@contextmanager
def _loading_whole() -> Iterator[None]:
    """Provide a context in which transformers loads whole models, in each process that does.

    The settings of a training with ZeRO-3 would divide their weights over the processes; those of one with FSDP would
    leave them empty in all but the main process.
    """
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


def size_of(given: str, *, loading: Loading) -> int:
    """Return the bytes of the weights of a model, without those of adapters."""
    while (Path(given) / ADAPTER).is_file():
        given = base_of_adapter(Path(given))
    return weight_bytes(load_outline(given, loading=loading)[0])


def load_outline(given: str, *, loading: Loading = Loading()) -> tuple[nn.Module, Any]:
    """Return the model without weights, which has its sizes only, and tokenizer of a checkpoint folder or model id."""
    check_path(given)
    with _explained(given, passed=(ScoringError,)):
        config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
        with torch.device("meta"):
            model: Any = _auto_class(config).from_config(
                config, dtype=config.dtype, trust_remote_code=loading.trust_remote_code
            )
        tokenizer = pretrained_tokenizer(given, loading=loading)
    return model.eval(), tokenizer


def _auto_class(config: PreTrainedConfig) -> Any:
    """Return the class that loads a model with a language head; texts are put to one that also takes images, too.

    A type that has classes for both is loaded by the one that its files were written by.
    """
    # The code that comes with a model, which is only read here if it is trusted, names the class that it is for.
    for own in (AutoModelForCausalLM, AutoModelForImageTextToText):
        if own.__name__ in (getattr(config, "auto_map", None) or {}):
            return own
    kind = str(config.model_type)
    written_by = set(config.architectures or ())
    takes_images = MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.get(kind)
    of_text = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(kind)
    is_for_images = takes_images is not None and (of_text is None or takes_images in written_by)
    return AutoModelForImageTextToText if is_for_images else AutoModelForCausalLM


def _check_complete(given: str, loading: dict[str, Any]) -> None:
    """Refuse a model with weights that are not in its files, which get random values, or that it does not use."""
    for kind in ("missing_keys", "mismatched_keys"):
        if names := sorted(map(str, loading[kind])):
            raise ScoringError(
                f"{given}: {len(names)} weights of the language model are not in its files, {names[0]} among them "
                f"({kind.replace('_keys', '')}); needed a whole causal language model with its head"
            )
    if names := sorted(name for name in map(str, loading["unexpected_keys"]) if not _NOT_USED.search(name)):
        remedy = "a config.json of another model or of fewer layers leaves them out"
        if any(".lora_" in name for name in names):
            remedy = "merge the adapter (merge_and_unload) and save the model, or save the adapter alone"
        raise ScoringError(f"{given}: {_unused(names)}; {remedy}")


def _unused(names: Sequence[str]) -> str:
    return f"{len(names)} weights in its files are not used by its model, {names[0]} among them (unexpected)"


def _check_adapter(model: nn.Module, path: Path) -> None:
    """Refuse an adapter with weights that its base has no place for: PEFT leaves them out."""
    from peft import get_peft_model_state_dict

    file = path / "adapter_model.safetensors"
    if file.is_file():
        with safe_open(file, framework="pt") as stored:
            names = {name for name in stored.keys() if ".lora_" in name}  # noqa: SIM118  # no mapping
        if names := names - get_peft_model_state_dict(model).keys():
            raise ScoringError(f"{path}: {_unused(sorted(names))}; needed the base that it was trained on")


def check_path(given: str) -> None:
    """Refuse a path at which there is nothing: transformers would look it up as a model id."""
    if given.startswith((".", "/")) and not Path(given).exists():
        raise ScoringError(f"{given}: no such folder{did_you_mean_path(Path(given))}")
    if Path(given).is_dir() and (problem := weights_problem(Path(given))):
        raise ScoringError(f"{given}: {problem}")
    for index in sorted(Path(given).glob("*.index.json")) if Path(given).is_dir() else ():
        try:
            named = sorted(set(map(str, json.loads(index.read_bytes())["weight_map"].values())))
        except (OSError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
            continue  # the loader refuses it
        if outside := [name for name in named if Path(name).is_absolute() or ".." in Path(name).parts]:
            raise ScoringError(f"{index}: names {outside[0]!r:.80}; needed names of files in the same folder")


def base_of_adapter(path: Path) -> str:
    """Return the base that an adapter names, a folder or a model id.

    An error if it names none but itself, or cannot be read.
    """
    try:
        config = json.loads((path / ADAPTER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ScoringError(f"{path / ADAPTER}: cannot be read ({error})") from error
    base = config.get("base_model_name_or_path") if isinstance(config, dict) else None
    if not base or Path(str(base)).resolve() == path.resolve():
        raise ScoringError(f"{path / ADAPTER}: names no base model but itself (base_model_name_or_path: {base!r})")
    return str(base)


def missing_base(path: Path) -> str | None:
    """Return the folder of the base of an adapter, if it is gone.

    None if it is there, or the id of a model, or no adapter is.
    """
    if not (path / ADAPTER).is_file():
        return None
    base = base_of_adapter(path)
    is_path = base.startswith((".", "~", os.sep)) or base.count("/") > 1
    return base if is_path and not Path(base).is_dir() else None


def silence_loading() -> None:
    """Turn off what libraries print of their own when they load a model; for commands, which own their process."""
    logging.disable_progress_bar()
    # PEFT calls it at each adapter.
    warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated", category=FutureWarning)


@dataclass(frozen=True)
class LoadedTokenizer:
    """A tokenizer without its model."""

    tokenize: Callable[[str], Sequence[int]]  # from a text to its token ids, without special tokens
    context: int | None  # longest text that its model can read, in tokens; None if unknown
    chats: bool  # True if it has a chat template


def has_tokenizer(given: str) -> bool:
    """Return True if a folder has files of a tokenizer; also for what is no folder here, such as the id of a model."""
    return not Path(given).is_dir() or _has(given, _VOCABULARY) or _has(given, _SETTINGS)


def pretrained_tokenizer(given: str, *, loading: Loading) -> Any:
    """Return the tokenizer of a checkpoint folder or model id, with a vocabulary; a folder without one is refused.

    The class of some models, such as Qwen's, would be made without words, and Gemma's with an unknown word for every
    text. Whatever transformers raises is passed on.
    """
    if not has_tokenizer(given):
        raise ScoringError(f"{given}: {_NO_TOKENIZER}")
    tokenizer: Any = AutoTokenizer.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
    # The names are those of the class; one that reads bytes has none.
    named = set((getattr(tokenizer, "vocab_files_names", None) or {}).values())
    if named and Path(given).is_dir() and not (_has(given, _VOCABULARY) or named & set(os.listdir(given))):
        raise ScoringError(f"{given}: {_NO_TOKENIZER}")
    return tokenizer


def load_tokenizer(given: str, *, loading: Loading = Loading()) -> LoadedTokenizer:
    """Return the tokenizer of a checkpoint folder or model id; an error with the cause if it cannot be loaded."""
    try:
        tokenizer = pretrained_tokenizer(given, loading=loading)
    except ScoringError:
        raise
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(
            f"{given}: no tokenizer can be loaded from it; needed a folder with its files, or a model id "
            f"({' '.join(str(error).split())})"
        ) from error
    try:
        config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
        context = getattr(config, "max_position_embeddings", None)
    except Exception:  # a folder with a tokenizer and no model
        context = None
    # Larger numbers are transformers' value for a tokenizer without a limit.
    bound = int(tokenizer.model_max_length) if tokenizer.model_max_length < UNLIMITED else None
    known = [length for length in (context, bound) if length]

    def tokenize(text: str) -> Sequence[int]:
        return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return LoadedTokenizer(tokenize, min(known) if known else None, bool(tokenizer.chat_template))


def _has(folder: str, pattern: re.Pattern[str]) -> bool:
    return any(pattern.fullmatch(name) for name in os.listdir(folder))
