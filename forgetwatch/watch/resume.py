"""Resuming a run from a checkpoint: the search for its baseline, and what the trainer's state keeps for it.

The baseline is looked for in this order:

1  the run folder, if it is the one that the trainer's state names
2  the checkpoint, which carries a copy
3  a snapshot or model that the user names
4  the model without its adapter, if that is bit for bit the model at the start
5  right and wrong, packed into the trainer's state

The trainer's state follows every checkpoint to any machine. It keeps two bits per item: scored or not, right or wrong.
The chosen options and all probabilities are lost then.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray
from transformers import TrainerState

from forgetwatch.decoding import Decoding
from forgetwatch.errors import LostBaselineError, WatchError
from forgetwatch.probe import Probe
from forgetwatch.run_folder import CARRIED
from forgetwatch.scoring import Scorer
from forgetwatch.snapshot import Snapshot
from forgetwatch.watch.schedule import Decision, stored_decision
from forgetwatch.watch.watch import Watch

STATE: Final = "forgetwatch"
"""Key of the run's memory in the trainer's state."""

_EXACT: Final = (True, "gaussian", "orthogonal", "eva")
"""Initialisations of an adapter that leave the base weights as they were; PiSSA, OLoRA and others change them."""

_NOISE: Final = 0.01
"""Largest share of answers that may differ between the packed baseline and its new measurement on another machine."""


def memory_of(watch: Watch, *, tripped: Any, stopped: int | None) -> dict[str, Any]:
    """Memory of a run that every checkpoint keeps in the trainer's state, as JSON values."""
    if watch.baseline is None:
        raise WatchError("a run's memory needs its baseline, and there is none yet; call look() first")
    return {
        "run": watch.folder.run,
        "baseline": watch.baseline.checksum,
        "looks": watch.taken,
        "fingerprint": watch.probe.fingerprint,
        **stored_decision(watch.decision),
        "tripped": tripped,
        "stopped": stopped,
        "completions": watch.drift.checksum,
        "packed": packed(watch.baseline),
    }


def resume(
    watch: Watch,
    model: Any,
    tokenizer: Any,
    memory: Mapping[str, Any] | None,
    *,
    step: int,
    carried: Sequence[Path],
    named: Callable[[], Snapshot | None],
) -> list[str]:
    """Restore the baseline of a run that resumes at `step`, and its looks until then, and return the lines to log.

    `memory` is that of the trainer's state, `carried` are the folders in which checkpoints carry copies, and `named`
    returns the baseline that the user names. A WatchError if none of them has the baseline.
    """
    known = memory or {}
    # Before any file is touched: restoring may move the folder of another run aside.
    watch.keep_norm(known.get("packed", {}).get("meta", {"probe": {"fingerprint": None}}))
    # Steps are texts in the JSON of the trainer's state.
    looks = known.get("looks")
    taken = {int(at): str(checksum) for at, checksum in looks.items()} if isinstance(looks, dict) else None
    run: dict[str, Any] = {
        "run": known.get("run"),
        "taken": taken,
        "step": step,
        "carried": carried,
        "decision": Decision.of(known),
        "completions": known.get("completions"),
    }
    lines = []
    try:
        if memory is None:
            raise LostBaselineError("the checkpoint names no baseline")
        watch.resume(checksum=memory["baseline"], **run)
    except LostBaselineError as error:
        found, origin = _rescue(watch, model, tokenizer, memory, named, error, step=step)
        lines.append(f"the run's own baseline is gone; it is replaced by {origin}")
        watch.resume(baseline=found, **run)
    return lines + list(watch.notes)


def carried_folders(watch: Watch, step: int, checkpoint: Path | None) -> list[Path]:
    """Folders in which checkpoints carry the run's history; that of the trainer may be on another path."""
    folders = [watch.folder.carried(step)]
    if checkpoint is not None and checkpoint / CARRIED not in folders:
        folders.append(checkpoint / CARRIED)
    return folders


def stateful(state: TrainerState) -> dict[str, Any]:
    """The part of the trainer's state that belongs to callbacks."""
    return cast(dict[str, Any], state.stateful_callbacks)  # annotated as a list, a dict from construction on


def _rescue(
    watch: Watch,
    model: Any,
    tokenizer: Any,
    memory: Mapping[str, Any] | None,
    named: Callable[[], Snapshot | None],
    error: LostBaselineError,
    *,
    step: int,
) -> tuple[Snapshot, str]:
    """A baseline from another source, and the name of that source."""
    if (found := named()) is not None:
        found = watch.in_norm(found)
        return replace(found, meta={**found.meta, "step": -1}), "the one that was named"  # -1: no look of this run
    if memory is None:
        raise WatchError(
            f"the run resumes at step {step}, and its checkpoint names no baseline: it was begun without forgetwatch; "
            "name the model that it began with (baseline=...), start it anew, or resume without the callback"
        )
    # Scored in the batches of the lost baseline, so that the outcomes are those that it had.
    if has_exact_base(model):
        made = memory.get("packed", {}).get("meta", {})
        scorer = Scorer(
            watch.probe,
            tokenizer,
            model,
            layout=made.get("way"),
            attention=made.get("attention"),
            noise=made.get("noise"),
            token_budget=(made.get("batch") or {}).get("tokens") or watch.measurer.token_budget,
        )
        with without_adapter(model):
            found = scorer.score(model, step=0)
        if "packed" not in memory or agrees(found, memory["packed"]):
            return found, "the model without its adapter, scored now"
    if "packed" not in memory:
        raise error
    return (
        unpacked(memory["packed"], watch.probe),
        "right and wrong answers from the checkpoint; chosen options and probabilities are lost, and with them "
        "known items and all corrections for guessing",
    )


def packed(baseline: Snapshot) -> dict[str, Any]:
    """Part of a baseline that fits into the trainer's state, as JSON values: a third of a byte per item."""
    right = baseline.floats("correct")
    return {
        "rows": len(baseline),
        "right": _pack(right == 1.0),
        "scored": _pack(np.isfinite(right)),
        "meta": {
            name: baseline.meta.get(name)
            for name in ("model", "step", "way", "attention", "noise", "batch", "probe", "seconds", "written_seconds")
        },
    }


def unpacked(bits: Mapping[str, Any], probe: Probe) -> Snapshot:
    """Baseline from what `packed` gave, if that is of this probe: outcomes without options and probabilities."""
    try:
        right, scored = (_unpack(bits[name], int(bits["rows"])) for name in ("right", "scored"))
        meta = dict(bits["meta"])
    except (KeyError, TypeError, ValueError) as error:
        raise LostBaselineError(
            f"the checkpoint's trainer_state.json contains no usable baseline ({error!r})"
        ) from error
    # The bits are in the order of the probe, with all samples of an item next to each other.
    samples = Decoding.of(probe.decoding).samples
    if len(right) != len(probe) * samples:
        raise LostBaselineError(
            f"the checkpoint has a baseline of {len(right):,} answers, the probe has {len(probe) * samples:,}"
        )
    items = [item for item in probe for _ in range(samples)]
    columns = {
        "sample": list(range(samples)) * len(probe),
        "item_id": [item.id for item in items],
        "content_hash": [item.content_hash for item in items],
        "task": [item.task for item in items],
        "category": [item.category for item in items],
        "cluster": [item.cluster for item in items],
        "k": [item.k for item in items],
        "gold": [item.answers[0] if item.choices and item.answers else None for item in items],
        "golds": [list(item.answers) if len(item.answers) > 1 and item.choices else None for item in items],
        "correct": [bool(is_right) if known else None for is_right, known in zip(right, scored, strict=True)],
        "outcome": ["ok" if known else "unscored: not known any more" for known in scored],
    }
    return Snapshot.from_columns(columns, {**meta, "rescued": "right and wrong only"})


@contextmanager
def without_adapter(model: Any) -> Iterator[None]:
    """Disable the adapter inside, and restore afterwards which weights are trained."""
    trained = {name: weight.requires_grad for name, weight in model.named_parameters()}
    try:
        with model.disable_adapter():
            yield
    finally:
        # peft makes all weights of the active adapters trainable when it enables them again.
        for name, weight in model.named_parameters():
            weight.requires_grad_(trained[name])


def has_exact_base(model: Any) -> bool:
    """True if the model without its adapter is bit for bit the model before training."""
    configs = getattr(model, "peft_config", None)
    if not configs or not hasattr(model, "disable_adapter"):
        return False
    return all(
        str(getattr(config.peft_type, "value", config.peft_type)) == "LORA"
        and getattr(config, "init_lora_weights", True) in _EXACT
        # Trained biases are those of the base, and stay changed without the adapter.
        and getattr(config, "bias", "none") == "none"
        for config in configs.values()
    )


def agrees(baseline: Snapshot, bits: Mapping[str, Any]) -> bool:
    """True if at most one answer in a hundred differs from the packed outcomes, which is within the noise."""
    right = baseline.floats("correct") == 1.0
    expected = _unpack(bits["right"], int(bits["rows"]))
    return len(right) == len(expected) and bool(np.mean(right != expected) <= _NOISE)


def _pack(bits: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(bits).tobytes()).decode()


def _unpack(text: str, rows: int) -> NDArray[np.bool_]:
    data = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    # Rounded up: the last byte is filled with zero bits.
    if len(data) != -(-rows // 8):
        raise ValueError(f"needed {rows} bits, got {8 * len(data)}")
    return np.unpackbits(data, count=rows).astype(bool)
