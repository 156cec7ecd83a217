"""Snapshots of checkpoints, adapters and model ids; each is scored once and cached.

The name of a cached file is a hash of everything that determines the rows: weights and tokenizer (contents of the
files, or the hub's commit), the probe's fingerprint and labels, the scorer and the grading rules with their versions,
and the device.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from forgetwatch.errors import ForgetwatchError, ScoringError, SnapshotError
from forgetwatch.grading import RULES
from forgetwatch.probe import Probe
from forgetwatch.progress import Progress
from forgetwatch.scoring.processes import on_main_process, world_size
from forgetwatch.scoring.scorer import SCORER, Scorer, versions
from forgetwatch.scoring.vllm import VllmGenerator, check_installed
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot

_ADAPTER: Final = "adapter_config.json"
_DECIDES: Final = (".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".tiktoken")
"""Suffixes of files with weights, configuration or tokenizer: their contents determine the rows."""
_IRRELEVANT: Final = frozenset({"trainer_state.json", "training_args.bin", "optimizer.bin", "scheduler.bin"})
"""Files of a training run with such a suffix that change no row."""


def load_model(given: str, *, trust_remote_code: bool = False) -> tuple[nn.Module, Any]:
    """Model and tokenizer of a checkpoint folder, adapter folder or model id; on the GPU if there is one.

    Raises:
        ScoringError: If it cannot be loaded; the message has the cause.
    """
    path = Path(given)
    is_adapter = (path / _ADAPTER).is_file()
    if is_adapter and find_spec("peft") is None:
        raise ScoringError(f"{given} is an adapter, and loading one needs the package peft")
    try:
        if is_adapter:
            from peft import PeftModel

            base = _base_of_adapter(path)
            model, tokenizer = load_model(base, trust_remote_code=trust_remote_code)
            with warnings.catch_warnings():
                # PEFT only warns about weights that are missing in the adapter's files, and continues without them.
                warnings.filterwarnings("error", message="Found missing adapter keys")
                model = PeftModel.from_pretrained(model, given)
            if (path / "tokenizer_config.json").is_file():
                tokenizer = AutoTokenizer.from_pretrained(given, trust_remote_code=trust_remote_code)
        else:
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                given, dtype="auto", trust_remote_code=trust_remote_code, output_loading_info=True
            )
            model, loading = loaded
            _check_complete(given, loading)
            tokenizer = AutoTokenizer.from_pretrained(given, trust_remote_code=trust_remote_code)
    except ScoringError:
        raise
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(
            f"{given}: cannot be loaded as a causal language model with its tokenizer ({error})"
        ) from error
    return model.to("cuda" if torch.cuda.is_available() else "cpu").eval(), tokenizer


def load_outline(given: str, *, trust_remote_code: bool = False) -> tuple[nn.Module, Any]:
    """Model without weights, which has its sizes only, and tokenizer of a checkpoint folder or model id.

    Raises:
        ScoringError: If it cannot be loaded; the message has the cause.
    """
    try:
        config = AutoConfig.from_pretrained(given, trust_remote_code=trust_remote_code)
        with torch.device("meta"):
            model: Any = AutoModelForCausalLM.from_config(
                config, dtype=config.dtype, trust_remote_code=trust_remote_code
            )
        tokenizer = AutoTokenizer.from_pretrained(given, trust_remote_code=trust_remote_code)
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
    given: str, probe: Probe, *, trust_remote_code: bool = False, progress: Progress | None = None
) -> Snapshot:
    """Outcomes of a checkpoint, from the cache if these weights were scored on this probe before.

    The cache is the folder ``$FORGETWATCH_CACHE``, else ``forgetwatch`` in ``$XDG_CACHE_HOME`` or ``~/.cache``.

    Raises:
        ScoringError: If the model cannot be loaded or scored.
    """
    kept = _cache_file(given, probe, trust_remote_code=trust_remote_code)
    # The main process decides for all: its disk may be the only one with a cache.
    if (cached := on_main_process(lambda: _read_cached(kept))) is not None:
        # The same weights may have been scored under another path.
        return replace(cached, meta={**cached.meta, "model": given})
    model, tokenizer = load_model(given, trust_remote_code=trust_remote_code)
    snapshot = Scorer(probe, tokenizer, model).score(model, name=given, progress=progress)
    try:
        on_main_process(lambda: save_snapshot(snapshot, kept))
    except (OSError, ForgetwatchError) as error:
        warnings.warn(
            f"the snapshot could not be cached in {kept.parent} ({error}); set FORGETWATCH_CACHE to a folder that can "
            "be written",
            stacklevel=2,
        )
    return snapshot


def score_with_vllm(
    given: str,
    probe: Probe,
    *,
    tensor_parallel: int = 1,
    data_parallel: int = 1,
    trust_remote_code: bool = False,
    progress: Progress | None = None,
) -> Snapshot:
    """Outcomes of a checkpoint whose answers vLLM generates; never two copies of the model are on a GPU.

        generated answers only   model without weights ─▶ prompts ─▶ vLLM ─▶ snapshot
        also choices to score    model ─▶ scores ─▶ weights freed ─▶ vLLM ─▶ snapshot

    Args:
        given: A checkpoint folder or model id.
        probe: The items; some of them with generated answers.
        tensor_parallel: GPUs that share one engine's weights.
        data_parallel: Engines that share the prompts.
        trust_remote_code: Run code that comes with the model.
        progress: Called after each batch with what is done.

    Raises:
        ScoringError: If vLLM is not installed, cannot generate for this probe or checkpoint, or has too few GPUs.
    """
    check_installed()
    _check_for_vllm(given, probe)
    scored = any(item.choices or not probe.is_generated(item) for item in probe)
    load = load_model if scored else load_outline
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
        return Scorer(probe, tokenizer, model).score(model, name=given, progress=progress, generator=generator)


def _check_for_vllm(given: str, probe: Probe) -> None:
    """Refuse a checkpoint or probe that vLLM cannot score here, before it is started."""
    if (Path(given) / "adapter_config.json").is_file():
        raise ScoringError(
            f"{given} is an adapter, and vLLM generates with whole models here; merge it into its base first"
        )
    if not any(probe.is_generated(item) for item in probe):
        raise ScoringError(
            f"vLLM generates answers, and probe {probe.name!r} has none to generate; score it without vLLM"
        )
    if world_size() > 1:
        raise ScoringError(
            f"needed one process to start vLLM from, got {world_size()}; --data-parallel starts several engines"
        )


def _read_cached(kept: Path) -> Snapshot | None:
    if not kept.is_file():
        return None
    try:
        return read_snapshot(kept)
    except SnapshotError:
        kept.unlink()  # damaged: it is scored again
        return None


def _cache_file(given: str, probe: Probe, *, trust_remote_code: bool) -> Path:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    labels = [[item.task, item.id, item.category, item.cluster] for item in probe]
    weights = _identity(given, trust_remote_code=trust_remote_code)
    key = json.dumps(
        [weights, probe.name, probe.fingerprint, labels, SCORER, RULES, device, versions()], sort_keys=True
    )
    name = f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.parquet"
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("FORGETWATCH_CACHE") or caches / "forgetwatch") / name


def _identity(given: str, *, trust_remote_code: bool) -> list[str]:
    """Identity of weights and tokenizer: digests of the files that determine them, or the hub's commit."""
    path = Path(given)
    if not path.is_dir():
        try:
            config = AutoConfig.from_pretrained(given, trust_remote_code=trust_remote_code)
        except (OSError, ValueError) as error:
            raise ScoringError(f"{given}: no folder here, and as a model id it cannot be loaded ({error})") from error
        return [given, str(getattr(config, "_commit_hash", None))]
    digests = []
    for file in sorted(path.iterdir()):
        if file.suffix in _DECIDES and file.name not in _IRRELEVANT:
            with file.open("rb") as stream:
                digests.append(f"{file.name} {hashlib.file_digest(stream, 'sha256').hexdigest()}")
    if (path / _ADAPTER).is_file():
        digests += _identity(_base_of_adapter(path), trust_remote_code=trust_remote_code)
    return digests


def _base_of_adapter(path: Path) -> str:
    try:
        config = json.loads((path / _ADAPTER).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ScoringError(f"{path / _ADAPTER}: cannot be read ({error})") from error
    base = config.get("base_model_name_or_path") if isinstance(config, dict) else None
    if not base or Path(str(base)).resolve() == path.resolve():
        raise ScoringError(f"{path / _ADAPTER}: names no base model but itself (base_model_name_or_path: {base!r})")
    return str(base)


def silence_loading() -> None:
    """Turn off transformers' own progress bars of loading weights; for commands, which own their process."""
    logging.disable_progress_bar()
