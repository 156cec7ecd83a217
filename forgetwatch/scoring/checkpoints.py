"""Snapshots of checkpoints, adapters and model ids; each is scored once and cached (`forgetwatch.cache`).

The key is a digest of everything that determines the rows: the model's files (or the hub's commit), the probe's
fingerprint and labels, the scorer and the grading rules with their versions, and the device. A snapshot holds its key
in its metadata, under the checksum: a model is scored again where the file is damaged or that of another model.

Processes that want the same snapshot at once wait for the first of them to score it. The system frees the lock of a
process that ends, in whatever way. Where a file system has no locks, or the folder cannot be written, each process
scores for itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn
from transformers import AutoConfig

from forgetwatch.cache import CacheEntry
from forgetwatch.errors import ForgetwatchError, NotFiniteError, ScoringError
from forgetwatch.grading import RULES
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress, log
from forgetwatch.scoring.pretrained import ADAPTER, base_of_adapter, check_path, load_model
from forgetwatch.scoring.processes import on_all_processes, on_main_process, world_size
from forgetwatch.scoring.scorer import SCORER, Scorer, versions
from forgetwatch.snapshot import Snapshot

_PATIENCE: Final = 4 * 3600.0
"""Seconds for which another process that scores the same model is waited for."""
_PATIENCE_TOGETHER: Final = 300.0
"""The same where several processes score together: the others wait in a collective call, which has a time limit."""

DECIDING: Final = (".safetensors", ".bin", ".json", ".model", ".txt", ".jinja", ".tiktoken", ".py")
"""Suffixes of files with weights, configuration, tokenizer, templates or code: their contents determine the rows."""
_IRRELEVANT: Final = re.compile(r"(trainer_state|training_args|optimizer|scheduler|rng_state).*")
"""Files of a training run with such a suffix that change no row."""
_OTHER_FOLDERS: Final = re.compile(r"\..*|checkpoint-\d+|_?forgetwatch(_follow)?(\.held)?(-\d+)?|__pycache__")
"""Folders beside a model that are no part of it: other checkpoints of its run, records, caches."""


def score_checkpoint(
    given: str,
    probe: Probe,
    *,
    loading: Loading = Loading(),
    progress: Progress | None = None,
) -> Snapshot:
    """Return the outcomes of a checkpoint, from the cache if these weights were scored on this probe before.

    Args:
        given: A checkpoint folder, adapter folder or model id.
        probe: The items.
        loading: How it is loaded.
        progress: Called with what is done, before the model is loaded, while items are encoded and after each batch;
            never if the outcomes are cached.

    Raises:
        ScoringError: If the model cannot be loaded or scored.
    """
    weights = weights_identity(given, loading=loading)
    return score_derived(
        given,
        weights,
        partial(load_model, given, loading=loading),
        probe,
        loading=loading,
        progress=progress,
    )


def score_derived(
    name: str,
    weights: Sequence[Any],
    load: Callable[[], tuple[nn.Module, Any]],
    probe: Probe,
    *,
    loading: Loading = Loading(),
    progress: Progress | None = None,
) -> Snapshot:
    """Return the outcomes of a model that is made when it is needed, such as a merged one.

    As `score_checkpoint`.

    Programs that need the same outcomes at once wait for the first of them to score, and log one line. The values
    `weights` determine its weights and tokenizer. `load` returns both; it is called, in every process, if the outcomes
    are not cached.
    """
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    labels = [[item.task, item.id, item.category, item.cluster] for item in probe]
    settings = [SCORER, RULES, device, versions(), loading.trust_remote_code]
    # Layers on other devices compute with other kernels.
    settings += [] if loading.device_map is None else [loading.device_map]
    entry = CacheEntry.of([list(weights), probe.name, probe.fingerprint, labels, *settings])

    def waiting() -> None:
        log(f"another process is scoring {name} on {probe.name}; waiting for its result")

    with ExitStack() as stack:

        def cached() -> Snapshot | None:
            if (found := entry.read()) is None:
                patience = _PATIENCE if world_size() == 1 else _PATIENCE_TOGETHER
                stack.enter_context(entry.locked(patience=patience, on_wait=waiting))
                found = entry.read()  # another process may have written it in the meantime
            return found

        # The main process decides for all: its disk may be the only one with a cache.
        if (found := on_main_process(cached)) is not None:
            # The same weights may have been scored under another path.
            return replace(found, meta={**found.meta, "model": name})
        if progress:
            progress(Done(count=0, total=len(probe), share=0.0))
        model, tokenizer = on_all_processes(load)
        with not_finite_explained(model, name):
            scorer = Scorer(probe, tokenizer, model, progress=progress)
            snapshot = scorer.score(model, name=name, progress=progress)
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
    """Provide scoring a saved model, in which logits that are not finite are an error that names it.

    It is a `ScoringError` in place of a `NotFiniteError`, whose sentence is for a model in training.
    """
    try:
        yield
    except NotFiniteError as error:
        reason = "its weights are finite, so it overflows in its dtype; save it in bfloat16 or float32"
        for tensor, weight in model.named_parameters():
            # Weights that are on no device of this process have no values here.
            if not weight.is_meta and (found := non_finite([weight])):
                reason = f"its tensor {tensor} holds {found}; take a checkpoint from before that"
                break
        raise ScoringError(f"{name}: the model's logits are not finite; {reason}") from error


def non_finite(parts: Iterable[torch.Tensor]) -> str:
    """Return the text on the values in parts of a tensor that are not finite: ``NaN (3 of 4,096 values)``.

    Empty if all are.
    """
    nans = infinities = size = 0
    for part in parts:
        nans, infinities = nans + int(part.isnan().sum()), infinities + int(part.isinf().sum())
        size += part.numel()
    kinds = " and ".join(name for name, number in (("NaN", nans), ("infinity", infinities)) if number)
    return kinds and f"{kinds} ({nans + infinities:,} of {size:,} values)"


def weights_identity(given: str, *, loading: Loading = Loading(), adapters: tuple[Path, ...] = ()) -> list[str]:
    """Return the identity of weights and tokenizer of a folder or model id: digests of the files, or the hub's commit.

    `adapters` are folders of those that have this model as their base.

    Raises:
        ScoringError: If there is no such model, a file cannot be read, or adapters are each other's base.
    """
    path = Path(given)
    if not path.is_dir():
        check_path(given)
        try:
            config = AutoConfig.from_pretrained(given, trust_remote_code=loading.trust_remote_code)
        except (OSError, ValueError) as error:
            raise ScoringError(f"{given}: no folder here, and as a model id it cannot be loaded ({error})") from error
        return [given, str(getattr(config, "_commit_hash", None))]
    digests = file_digests(path)
    if (path / ADAPTER).is_file():
        if path.resolve() in adapters:
            raise ScoringError(f"{path / ADAPTER}: this adapter is the base of its own base; needed a model as base")
        base = base_of_adapter(path)
        digests += weights_identity(base, loading=loading, adapters=(*adapters, path.resolve()))
    return digests


def is_deciding(relative: str) -> bool:
    """Return True if a file of a model, by its path in the model's folder with ``/``, can decide the rows."""
    *folders, name = relative.split("/")
    return (
        Path(name).suffix in DECIDING
        and not _IRRELEVANT.fullmatch(name)
        and not any(_OTHER_FOLDERS.fullmatch(folder) for folder in folders)
    )


def file_digests(folder: Path) -> list[str]:
    """Return the relative path and SHA-256 of each file of a model that can decide its rows, sorted.

    Those are the files below the folder with weights, configuration, tokenizer, templates or code, and those that an
    index of shards names, wherever they are. One that cannot be read is an error.
    """
    digests = []
    for file in sorted({*deciding_files(folder), *_indexed(folder)}):
        try:
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise ScoringError(f"{file}: cannot be read ({error.strerror})") from error
        digests.append(f"{Path(os.path.relpath(file, folder)).as_posix()} {digest}")
    return digests


def deciding_files(folder: Path) -> Iterator[Path]:
    """Yield the files below a model's folder whose suffix says that they can decide; links to folders are followed."""
    seen: set[str] = set()
    for path, folders, names in os.walk(folder, followlinks=True):
        # A link may lead back to a folder above.
        if (real := os.path.realpath(path)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not _OTHER_FOLDERS.fullmatch(name)]
        for name in names:
            file = Path(path, name)
            if is_deciding(name) and file.is_file():
                yield file


def _indexed(folder: Path) -> Iterator[Path]:
    """Yield the shards that the folder's indices name."""
    for index in folder.glob("*.index.json"):
        try:
            named = json.loads(index.read_bytes())["weight_map"].values()
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
            continue  # the loader refuses it
        for name in set(map(str, named)):
            with suppress(OSError, ValueError):  # a name too long, or with a null byte
                if (file := folder / name).is_file():
                    yield file
