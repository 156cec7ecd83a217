"""Checkpoints, adapters and model ids to snapshots; each is scored once and kept.

The kept file is named after everything that decides the rows: the weights and tokenizer (file contents, or the hub's
commit), the probe's fingerprint, and the scorer with its dtype, device and versions.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from forgetwatch.errors import ScoringError, SnapshotError
from forgetwatch.probe import Probe
from forgetwatch.scoring.forward import Progress
from forgetwatch.scoring.scorer import SCORER, Scorer, versions
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot

_ADAPTER: Final = "adapter_config.json"
_DECIDES: Final = (".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".tiktoken")
_IRRELEVANT: Final = frozenset(
    {"trainer_state.json", "training_args.bin", "optimizer.bin", "scheduler.bin", "generation_config.json"}
)


def load_model(given: str, *, trust_remote_code: bool = False) -> tuple[nn.Module, Any]:
    """The model and tokenizer of a checkpoint folder, adapter folder or model id, on the GPU if there is one.

    Raises:
        ScoringError: If it cannot be loaded; the cause is named.
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
            model = PeftModel.from_pretrained(model, given)
            if (path / "tokenizer_config.json").is_file():
                tokenizer = AutoTokenizer.from_pretrained(given, trust_remote_code=trust_remote_code)
        else:
            model = AutoModelForCausalLM.from_pretrained(given, dtype="auto", trust_remote_code=trust_remote_code)
            tokenizer = AutoTokenizer.from_pretrained(given, trust_remote_code=trust_remote_code)
    except ScoringError:
        raise
    except Exception as error:  # whatever a loader of foreign files raises
        raise ScoringError(
            f"{given}: cannot be loaded as a causal language model with its tokenizer ({error})"
        ) from error
    loaded: nn.Module = model
    return loaded.to("cuda" if torch.cuda.is_available() else "cpu").eval(), tokenizer


def score_checkpoint(
    given: str, probe: Probe, *, trust_remote_code: bool = False, progress: Progress | None = None
) -> Snapshot:
    """The outcomes of a checkpoint, from the cache if these weights were scored on this probe before.

    The cache is the folder ``$FORGETWATCH_CACHE``, else ``~/.cache/forgetwatch``.

    Raises:
        ScoringError: If the model cannot be loaded or scored.
    """
    kept = _cache_file(given, probe, trust_remote_code=trust_remote_code)
    if kept.is_file():
        try:
            snapshot = read_snapshot(kept)
            return replace(snapshot, meta={**snapshot.meta, "model": given})
        except SnapshotError:
            kept.unlink()  # damaged: score again
    model, tokenizer = load_model(given, trust_remote_code=trust_remote_code)
    snapshot = Scorer(probe, tokenizer, model).score(model, name=given, progress=progress)
    save_snapshot(snapshot, kept)
    return snapshot


def _cache_file(given: str, probe: Probe, *, trust_remote_code: bool) -> Path:
    folder = os.environ.get("FORGETWATCH_CACHE")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    labels = [[item.task, item.id, item.category, item.cluster] for item in probe]
    weights = _identity(given, trust_remote_code=trust_remote_code)
    key = json.dumps([weights, probe.name, probe.fingerprint, labels, SCORER, device, versions()], sort_keys=True)
    name = f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.parquet"
    return (Path(folder) if folder else Path.home() / ".cache" / "forgetwatch") / name


def _identity(given: str, *, trust_remote_code: bool) -> list[str]:
    """What stands for the weights and the tokenizer: digests of the files that decide, or the hub's commit."""
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
        base = json.loads((path / _ADAPTER).read_text(encoding="utf-8")).get("base_model_name_or_path")
    except (OSError, ValueError) as error:
        raise ScoringError(f"{path / _ADAPTER}: cannot be read ({error})") from error
    if not base:
        raise ScoringError(f"{path / _ADAPTER}: names no base model (base_model_name_or_path)")
    return str(base)
