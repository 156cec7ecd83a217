"""Snapshots of checkpoints, adapters and model ids; each is scored once and cached (`forgetwatch.cache`).

The key is a digest of everything that determines the rows: the model's files (or the hub's commit),
the probe's fingerprint and labels, the scorer and the grading rules with their versions, and the
device. A snapshot holds its key in its metadata, under the checksum: a model is scored again where
the file is damaged or that of another model.

Processes that want the same snapshot at once wait for the first of them to score it. The system
frees the lock of a process that ends, in whatever way. Where a file system has no locks, or the
folder cannot be written, each process scores for itself.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch
from torch import nn

from forgetwatch.cache import CacheEntry
from forgetwatch.errors import ForgetwatchError, ScoringError
from forgetwatch.grading.grader import RULES
from forgetwatch.kept_answers import KeptAnswers
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress, log
from forgetwatch.scoring.model_loading import load_model, non_finite
from forgetwatch.scoring.processes import on_all_processes, on_main_process, world_size
from forgetwatch.scoring.scorer import SCORER, Scorer, versions
from forgetwatch.scoring.weights_identity import weights_identity
from forgetwatch.snapshot import Snapshot

_PATIENCE: Final = 4 * 3600.0
"""Seconds for which another process that scores the same model is waited for."""

_PATIENCE_TOGETHER: Final = 300.0
"""The same where several processes score together: the others wait in a collective call, which has a time limit."""


def score_checkpoint(
    name_or_path: str,
    probe: Probe,
    *,
    loading: Loading = Loading(),
    progress: Progress | None = None,
    answers: Path | None = None,
) -> Snapshot:
    """Score a checkpoint, or take its outcomes from the cache.

    Args:
        name_or_path: A checkpoint folder, adapter folder or model id.
        probe: The items.
        loading: How it is loaded.
        progress: Called with what is done, before the model is loaded, while items are encoded and
            after each batch; never if the outcomes are cached.
        answers: File in which generated answers are kept, for a measurement that is interrupted; it
            stays. None for one in the cache, which goes at the end.

    Raises:
        ScoringError: If the model cannot be loaded or scored.
    """
    weights = weights_identity(name_or_path, loading=loading)
    return score_derived(
        name_or_path,
        weights,
        partial(load_model, name_or_path, loading=loading),
        probe,
        loading=loading,
        progress=progress,
        answers=answers,
    )


def score_derived(
    name: str,
    weights: Sequence[Any],
    load: Callable[[], tuple[nn.Module, Any]],
    probe: Probe,
    *,
    loading: Loading = Loading(),
    progress: Progress | None = None,
    answers: Path | None = None,
) -> Snapshot:
    """Score a model that is made when needed, such as a merge.

    As `score_checkpoint`.

    Programs that need the same outcomes at once wait for the first of them to score, and log one
    line. The values `weights` determine its weights and tokenizer. `load` returns both; it is
    called, in every process, if the outcomes are not cached.
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
            if (snapshot := entry.read()) is None:
                patience = _PATIENCE if world_size() == 1 else _PATIENCE_TOGETHER
                stack.enter_context(entry.locked(patience=patience, on_wait=waiting))
                snapshot = entry.read()  # another process may have written it in the meantime
            return snapshot

        # The main process decides for all: its disk may be the only one with a cache.
        if (found := on_main_process(cached)) is not None:
            # The same weights may have been scored under another path.
            return replace(found, meta={**found.meta, "model": name})
        if progress:
            progress(Done(count=0, total=len(probe), share=0.0))
        model, tokenizer = on_all_processes(load)
        scorer = Scorer(probe, tokenizer, model, progress=progress)
        # Several processes would need a file each.
        path = answers or entry.path.with_suffix(".answers")
        kept = KeptAnswers(path, entry.key) if world_size() == 1 else None
        with nullcontext() if kept is None else kept.named_at_an_end():
            snapshot = scorer.score(model, name=name, progress=progress, kept=kept)
        check_finite(snapshot, model, name)
        try:
            on_main_process(lambda: entry.write(snapshot))
        except (OSError, ForgetwatchError) as error:
            warnings.warn(
                f"the snapshot could not be cached in {entry.path.parent} ({error}); set "
                "FORGETWATCH_CACHE to a folder that can be written",
                stacklevel=2,
            )
        if kept is not None and answers is None:
            kept.remove()
        return snapshot


def check_finite(snapshot: Snapshot, model: nn.Module, name: str) -> None:
    """Refuse a saved model whose outputs are not finite.

    The reason in the weights is named.

    Raises:
        ScoringError: If more than `MOST_NOT_FINITE` of its outputs are not.
    """
    if not (line := snapshot.not_finite_line):
        return
    reason = "its weights are finite, so it overflows in its dtype; save it in bfloat16 or float32"
    for tensor, weight in model.named_parameters():
        # Weights that are on no device of this process have no values here.
        if not weight.is_meta and (bad_values := non_finite([weight])):
            reason = f"its tensor {tensor} holds {bad_values}; take a checkpoint from before that"
            break
    raise ScoringError(f"{name}: {line}; {reason}")
