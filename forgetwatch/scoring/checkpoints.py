"""Snapshots of checkpoints, adapters and model ids; each is scored once and cached (`snapshot_cache`)."""

from __future__ import annotations

import json
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations import deepspeed
from transformers.utils import logging

from forgetwatch.errors import ForgetwatchError, NotFiniteError, ScoringError, did_you_mean_path
from forgetwatch.grading import RULES
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress, log
from forgetwatch.scoring.encoding import has_tokenizer, pretrained_tokenizer
from forgetwatch.scoring.memory import memory_explained, weight_bytes
from forgetwatch.scoring.processes import (
    on_all_processes,
    on_main_process,
    on_main_process_alone,
    process_count,
    world_size,
)
from forgetwatch.scoring.scorer import SCORER, Scorer, versions
from forgetwatch.scoring.snapshot_cache import CacheEntry, file_digests
from forgetwatch.scoring.vllm import VllmGenerator, VllmLetters
from forgetwatch.scoring.vllm_engines import check_installed
from forgetwatch.snapshot import Snapshot

ADAPTER: Final = "adapter_config.json"
"""File that makes a folder one of an adapter."""
_FSDP: Final = "ACCELERATE_USE_FSDP"
"""The variable by which transformers sees a training with FSDP."""
_PATIENCE: Final = 4 * 3600.0
"""Seconds for which another process that scores the same model is waited for."""
_PATIENCE_TOGETHER: Final = 300.0
"""The same where several processes score together: the others wait in a collective call, which has a time limit."""


def load_model(
    given: str, *, trust_remote_code: bool = False, device_map: str | None = None, tokenizer_of: str | None = None
) -> tuple[nn.Module, Any]:
    """Model and tokenizer of a checkpoint folder, adapter folder or model id; on the GPU if there is one.

    It is whole in this process, also inside a training with FSDP or DeepSpeed's ZeRO-3.

    Args:
        given: The checkpoint folder, adapter folder or model id.
        trust_remote_code: Run code that comes with the model.
        device_map: ``auto`` to spread the layers over all GPUs, then the CPU and the disk; None for one device. Weights
            that are not in the model's files as it computes with them (those of experts) are written to a folder for
            temporary files, which TMPDIR chooses; it is removed with the model.
        tokenizer_of: Folder or id of the tokenizer that a model saved without one gets; None to refuse it.

    Raises:
        ScoringError: If it cannot be loaded, or does not fit into memory; the message has the cause.
    """
    _check_path(given)
    remedy = (
        f"spread it over all GPUs and the CPU (`forgetwatch score {given} --device-map auto`), or free memory; a "
        "training takes the snapshot as its baseline"
    )
    if device_map is not None:
        remedy = "free memory, or take a smaller or quantized model"
        if find_spec("accelerate") is None:
            raise ScoringError("--device-map needs the package accelerate: pip install accelerate")
    size = partial(_size, given, trust_remote_code=trust_remote_code)
    # One process spreads a model over all GPUs; of several processes each has the current one.
    gpus = [] if device_map is None else [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    explained = memory_explained(f"{given}: loading it", weights=size, devices=lambda: gpus, remedy=remedy)
    # The size is computed inside the first context too: a model without weights would also be divided.
    with _loading_whole(), explained, ExitStack() as stack:
        spread: dict[str, Any] = {}
        if device_map is not None:
            folder = stack.enter_context(TemporaryDirectory(prefix="forgetwatch-", ignore_cleanup_errors=True))
            spread = {"device_map": device_map, "offload_folder": folder}
        model, tokenizer = _load(
            given, trust_remote_code=trust_remote_code, spread=spread, tokenizer_of=tokenizer_of or given
        )
        if device_map is None:
            model = model.to("cuda" if torch.cuda.is_available() else "cpu")
        weakref.finalize(model, stack.pop_all().close)
    return model.eval(), tokenizer


def _load(given: str, *, trust_remote_code: bool, spread: dict[str, Any], tokenizer_of: str) -> tuple[nn.Module, Any]:
    """Model and tokenizer; on the CPU without options of transformers that spread it over devices."""
    path = Path(given)
    is_adapter = (path / ADAPTER).is_file()
    if is_adapter and find_spec("peft") is None:
        raise ScoringError(f"{given} is an adapter, and loading one needs the package peft")
    try:
        if is_adapter:
            from peft import PeftModel

            base = base_of_adapter(path)
            has_own = (path / "tokenizer_config.json").is_file()
            model, tokenizer = _load(
                base,
                trust_remote_code=trust_remote_code,
                spread=spread,
                tokenizer_of=given if has_own else tokenizer_of,
            )
            with warnings.catch_warnings():
                # PEFT only warns about weights that are missing in the adapter's files, and continues without them.
                warnings.filterwarnings("error", message="Found missing adapter keys")
                model = PeftModel.from_pretrained(model, given, **spread)
            if has_own:
                tokenizer = pretrained_tokenizer(given, trust_remote_code=trust_remote_code)
        else:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                given,
                dtype="auto",
                trust_remote_code=trust_remote_code,
                output_loading_info=True,
                **spread,
            )
            model, loading = loaded
            _check_complete(given, loading)
            source = given if has_tokenizer(given) else tokenizer_of
            tokenizer = pretrained_tokenizer(source, trust_remote_code=trust_remote_code)
    except (ScoringError, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(
            f"{given}: cannot be loaded as a causal language model with its tokenizer ({error})"
        ) from error
    return model, tokenizer


@contextmanager
def _loading_whole() -> Iterator[None]:
    """Context in which transformers loads whole models, in each process that does.

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


def _size(given: str, *, trust_remote_code: bool) -> int:
    """Bytes of the weights of a model, without those of adapters."""
    while (Path(given) / ADAPTER).is_file():
        given = base_of_adapter(Path(given))
    return weight_bytes(load_outline(given, trust_remote_code=trust_remote_code)[0])


def load_outline(given: str, *, trust_remote_code: bool = False) -> tuple[nn.Module, Any]:
    """Model without weights, which has its sizes only, and tokenizer of a checkpoint folder or model id.

    Raises:
        ScoringError: If it cannot be loaded; the message has the cause.
    """
    _check_path(given)
    try:
        config = AutoConfig.from_pretrained(given, trust_remote_code=trust_remote_code)
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(
                config, dtype=config.dtype, trust_remote_code=trust_remote_code
            )
        tokenizer = pretrained_tokenizer(given, trust_remote_code=trust_remote_code)
    except ScoringError:
        raise
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(
            f"{given}: cannot be loaded as a causal language model with its tokenizer ({error})"
        ) from error
    return model.eval(), tokenizer


def _check_complete(given: str, loading: dict[str, Any]) -> None:
    """Refuse a model with weights that are not in its files: transformers initialises those at random."""
    for kind in ("missing_keys", "mismatched_keys"):
        if names := sorted(map(str, loading[kind])):
            raise ScoringError(
                f"{given}: {len(names)} weights of the language model are not in its files, {names[0]} among them "
                f"({kind.replace('_keys', '')}); needed a whole causal language model with its head"
            )


def score_checkpoint(
    given: str,
    probe: Probe,
    *,
    trust_remote_code: bool = False,
    device_map: str | None = None,
    progress: Progress | None = None,
) -> Snapshot:
    """Outcomes of a checkpoint, from the cache if these weights were scored on this probe before.

    Programs that need the same outcomes at once wait for the first of them to score, and log one line.

    Args:
        given: A checkpoint folder, adapter folder or model id.
        probe: The items.
        trust_remote_code: Run code that comes with the model.
        device_map: See `load_model`.
        progress: Called with what is done, before the model is loaded, while items are encoded and after each batch;
            never if the outcomes are cached.

    Raises:
        ScoringError: If the model cannot be loaded or scored.
    """
    weights = weights_identity(given, trust_remote_code=trust_remote_code)
    return score_derived(
        given,
        weights,
        lambda: nullcontext(given),
        probe,
        trust_remote_code=trust_remote_code,
        device_map=device_map,
        progress=progress,
    )


def score_derived(
    name: str,
    weights: Sequence[Any],
    files: Callable[[], AbstractContextManager[str]],
    probe: Probe,
    *,
    trust_remote_code: bool = False,
    device_map: str | None = None,
    progress: Progress | None = None,
) -> Snapshot:
    """Outcomes of a model whose files are made when they are needed, such as a merged one; cached as others are.

    Args:
        name: Name of the model, for messages and the snapshot.
        weights: JSON values that determine its weights and tokenizer.
        files: Context of the folder with its files; entered, in every process, if the outcomes are not cached.
        probe: The items.
        trust_remote_code: See `score_checkpoint`.
        device_map: See `load_model`.
        progress: See `score_checkpoint`.

    Raises:
        ScoringError: If the model cannot be loaded or scored.
    """
    entry = _entry(weights, probe, trust_remote_code=trust_remote_code, device_map=device_map)

    def waiting() -> None:
        log(f"another process is scoring {name} on {probe.name}; waiting for its result")

    with ExitStack() as stack:

        def cached() -> Snapshot | None:
            if (found := entry.read()) is None:
                patience = _PATIENCE if process_count() == 1 else _PATIENCE_TOGETHER
                stack.enter_context(entry.locked(patience=patience, on_wait=waiting))
                found = entry.read()  # another process may have written it in the meantime
            return found

        # The main process decides for all: its disk may be the only one with a cache.
        if (found := on_main_process(cached)) is not None:
            # The same weights may have been scored under another path.
            return replace(found, meta={**found.meta, "model": name})
        if progress:
            progress(Done(count=0, total=len(probe), share=0.0))
        folder = stack.enter_context(files())
        load = partial(load_model, folder, trust_remote_code=trust_remote_code, device_map=device_map)
        model, tokenizer = on_all_processes(load)
        with not_finite_explained(model, name):
            snapshot = Scorer(probe, tokenizer, model, progress=progress).score(model, name=name, progress=progress)
        try:
            on_main_process(lambda: entry.write(snapshot))
        except (OSError, ForgetwatchError) as error:
            warnings.warn(
                f"the snapshot could not be cached in {entry.path.parent} ({error}); set FORGETWATCH_CACHE to a folder "
                "that can be written",
                stacklevel=2,
            )
        return snapshot


@contextmanager
def not_finite_explained(model: nn.Module, name: str) -> Iterator[None]:
    """Context of scoring a saved model, in which logits that are not finite are an error that names it.

    Raises:
        ScoringError: In place of a `NotFiniteError`, whose sentence is for a model in training.
    """
    try:
        yield
    except NotFiniteError as error:
        raise ScoringError(f"{name}: the model's logits are not finite; {_reason(model)}") from error


def non_finite(parts: Iterable[torch.Tensor]) -> str:
    """Text on the values of a tensor that are not finite, such as ``NaN (3 of 4,096 values)``; empty if all are.

    Args:
        parts: The tensor, in one or several parts.
    """
    nans = infinities = size = 0
    for part in parts:
        nans, infinities = nans + int(part.isnan().sum()), infinities + int(part.isinf().sum())
        size += part.numel()
    kinds = " and ".join(name for name, number in (("NaN", nans), ("infinity", infinities)) if number)
    return kinds and f"{kinds} ({nans + infinities:,} of {size:,} values)"


def _reason(model: nn.Module) -> str:
    """Reason why the logits of a loaded model are not finite, with the remedy."""
    for name, weight in model.named_parameters():
        # Weights that are on no device of this process have no values here.
        if not weight.is_meta and (found := non_finite([weight])):
            return f"its tensor {name} holds {found}; take a checkpoint from before that"
    return "its weights are finite, so it overflows in its dtype; save it in bfloat16 or float32"


def score_by_main_process(given: str, probe: Probe, *, progress: Progress | None = None) -> Snapshot:
    """Outcomes of a checkpoint, loaded and scored by the main process alone, and sent to the others.

    For a checkpoint beside a training, where memory does not suffice for a copy in each process. The others wait, and
    fail if loading takes longer than the time limit of their process group (`ddp_timeout` of a trainer, 30 minutes by
    default).

    Args:
        given: See `score_checkpoint`.
        probe: The items.
        progress: See `score_checkpoint`; None in processes that show nothing.

    Raises:
        ScoringError: If the model cannot be loaded or scored.
    """

    def alone(beat: Callable[[], None]) -> Snapshot:
        def report(done: Done) -> None:
            beat()
            if progress:
                progress(done)

        return score_checkpoint(given, probe, progress=report)

    return on_main_process_alone(alone)


def score_with_vllm(
    given: str,
    probe: Probe,
    *,
    tensor_parallel: int = 1,
    data_parallel: int = 1,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Snapshot:
    """Outcomes of a checkpoint by vLLM; never two copies of the model are on a GPU.

        generated answers only   model without weights ─▶ prompts ─▶ vLLM ─▶ snapshot
        also choices to score    model ─▶ scores ─▶ weights freed ─▶ vLLM ─▶ snapshot
        choices only             model without weights ─▶ prompts ─▶ vLLM ─▶ snapshot, of single tokens such as letters

    Args:
        given: A checkpoint folder or model id.
        probe: The items. If none is generated, vLLM scores the choices; items with one of several tokens are unscored.
        tensor_parallel: GPUs that share one engine's weights.
        data_parallel: Engines that share the prompts.
        trust_remote_code: Run code that comes with the model.
        progress: Called after each batch with what is done.

    Raises:
        ScoringError: If vLLM is not installed, cannot generate for this probe or checkpoint, or has too few GPUs.
    """
    check_installed()
    _check_for_vllm(given)
    generates = any(map(probe.is_generated, probe))
    scored = any(item.choices or not probe.is_generated(item) for item in probe)
    load = load_model if scored and generates else load_outline
    model, tokenizer = load(given, trust_remote_code=trust_remote_code)

    def make_room() -> None:
        # The scorer still refers to the model, so the weights are freed in place.
        model.to("meta")
        torch.cuda.empty_cache()

    with closing(
        VllmGenerator(
            given,
            tokenizer,
            tensor_parallel=tensor_parallel,
            data_parallel=data_parallel,
            trust_remote_code=trust_remote_code,
            make_room=make_room,
        )
    ) as generator:
        reader = None if generates else VllmLetters(generator)
        scorer = Scorer(probe, tokenizer, model, reader=reader, progress=progress)
        return scorer.score(model, name=given, progress=progress, generator=generator if generates else None)


def _check_for_vllm(given: str) -> None:
    """Refuse a checkpoint that vLLM cannot score here, before it is started."""
    if (Path(given) / ADAPTER).is_file():
        raise ScoringError(f"{given} is an adapter, and vLLM takes whole models here; merge it into its base first")
    if world_size() > 1:
        raise ScoringError(
            f"needed one process to start vLLM from, got {world_size()}; --data-parallel starts several engines"
        )


def _entry(weights: Sequence[Any], probe: Probe, *, trust_remote_code: bool, device_map: str | None) -> CacheEntry:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    labels = [[item.task, item.id, item.category, item.cluster] for item in probe]
    settings = [SCORER, RULES, device, versions(), trust_remote_code]
    # Layers on other devices compute with other kernels.
    settings += [] if device_map is None else [device_map]
    return CacheEntry.of([list(weights), probe.name, probe.fingerprint, labels, *settings])


def weights_identity(given: str, *, trust_remote_code: bool = False, adapters: tuple[Path, ...] = ()) -> list[str]:
    """Identity of weights and tokenizer: digests of the files that determine them, or the hub's commit.

    Args:
        given: A checkpoint folder, adapter folder or model id.
        trust_remote_code: Run code that comes with the model.
        adapters: Folders of the adapters that have this model as their base.

    Raises:
        ScoringError: If there is no such model, a file cannot be read, or adapters are each other's base.
    """
    path = Path(given)
    if not path.is_dir():
        _check_path(given)
        try:
            config = AutoConfig.from_pretrained(given, trust_remote_code=trust_remote_code)
        except (OSError, ValueError) as error:
            raise ScoringError(f"{given}: no folder here, and as a model id it cannot be loaded ({error})") from error
        return [given, str(getattr(config, "_commit_hash", None))]
    digests = file_digests(path)
    if (path / ADAPTER).is_file():
        if path.resolve() in adapters:
            raise ScoringError(f"{path / ADAPTER}: this adapter is the base of its own base; needed a model as base")
        base = base_of_adapter(path)
        digests += weights_identity(base, trust_remote_code=trust_remote_code, adapters=(*adapters, path.resolve()))
    return digests


def _check_path(given: str) -> None:
    """Refuse a path at which there is nothing: transformers would look it up as a model id."""
    if given.startswith((".", "/")) and not Path(given).exists():
        raise ScoringError(f"{given}: no such folder{did_you_mean_path(Path(given))}")


def base_of_adapter(path: Path) -> str:
    """Base that an adapter names, a folder or a model id.

    Raises:
        ScoringError: If its configuration cannot be read, or names no base but itself.
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
    """Folder of the base of an adapter, if it is gone; None if it is there, or the id of a model, or no adapter is.

    Args:
        path: Folder of the model.

    Raises:
        ScoringError: If the adapter's configuration cannot be read.
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
