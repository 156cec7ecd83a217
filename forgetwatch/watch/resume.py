"""A run that goes on from a checkpoint: where its baseline is looked for, and in which order.

1  the run folder, if it is the one that the trainer's state names
2  the checkpoint, which carries a copy
3  a snapshot or model that the user names
4  the model without its adapter, where that is bit for bit the model at the start
5  right and wrong, packed into the trainer's state

A run's baseline where its folder is gone: from the model without its adapter, or from bits in the trainer's state.

The trainer's state follows every checkpoint. Two bits an item, packed, say whether it was scored and whether it was
right; the chosen options and all probabilities are lost then.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping
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
from forgetwatch.scoring.scorer import Scorer
from forgetwatch.snapshot import Snapshot
from forgetwatch.watch.trainer import resume_checkpoint
from forgetwatch.watch.watch import Watch

STATE: Final = "forgetwatch"
"""What the run leaves in the trainer's state stands under this name."""


def remembered(watch: Watch, *, decided: bool, tripped: Any, completions: str | None) -> dict[str, Any]:
    """What a run leaves in the trainer's state, and so in every checkpoint, as JSON values.

    Args:
        watch: The run; it has a baseline.
        decided: Whether it is decided how many items its looks ask.
        tripped: What the guard told.
        completions: Checksum of what the base wrote; None where it wrote nothing.

    Raises:
        WatchError: If there is no baseline yet.
    """
    if watch.baseline is None:
        raise WatchError("there is no baseline to remember yet; call look() first")
    return {
        "baseline": watch.baseline.checksum,
        "fingerprint": watch.probe.fingerprint,
        "items": watch.items,
        "decided": decided,
        "writes": watch.writes,
        "tripped": tripped,
        "completions": completions,
        "packed": packed(watch.baseline),
    }


def go_on(
    watch: Watch,
    model: Any,
    tokenizer: Any,
    saved: Mapping[str, Any] | None,
    *,
    step: int,
    named: Callable[[], Snapshot | None],
) -> list[str]:
    """Give the watch the baseline of its run, and the looks up to `step`; what is to be said about it.

    Args:
        watch: Of the run; it has no baseline yet.
        model: The model that goes on.
        tokenizer: Its tokenizer.
        saved: What the run left in the trainer's state; None if it left nothing.
        step: The step from which it goes on.
        named: Gives the baseline that the user names, if there is one.

    Raises:
        WatchError: If there is no baseline to be had, or it is one of another probe.
    """
    watch.check_fingerprint((saved or {}).get("packed", {}).get("meta", {"probe": {"fingerprint": None}}))
    going_on: dict[str, Any] = {
        "step": step,
        "carried": carried_places(watch, step),
        "items": (saved or {}).get("items"),
    }
    lines = []
    try:
        if saved is None:
            raise LostBaselineError("the checkpoint knows no baseline")
        watch.resume(checksum=saved["baseline"], **going_on)
    except LostBaselineError as error:
        found, how = _elsewhere(watch, model, tokenizer, saved, named, error, step=step)
        lines.append(f"the run's own baseline is gone; it is now {how}")
        watch.resume(baseline=found, **going_on)
    return lines + [f"{path} cannot be read, and its look is left out of the table" for path in watch.damaged]


def carried_places(watch: Watch, step: int) -> list[Path]:
    """Where checkpoints carry the run's history: the one at `step`, and the one that the trainer goes on from."""
    places = [watch.folder.carried(step)]
    if (checkpoint := resume_checkpoint()) is not None and checkpoint / CARRIED not in places:
        places.append(checkpoint / CARRIED)
    return places


def _elsewhere(
    watch: Watch,
    model: Any,
    tokenizer: Any,
    saved: Mapping[str, Any] | None,
    named: Callable[[], Snapshot | None],
    error: LostBaselineError,
    *,
    step: int,
) -> tuple[Snapshot, str]:
    """The baseline from elsewhere, and where that is."""
    if (found := named()) is not None:
        return replace(found, meta={**found.meta, "step": -1}), "the one that was named"  # no look of this run
    if saved is None:
        raise WatchError(
            f"the run goes on at step {step}, and its checkpoint knows no baseline: it was begun without forgetwatch; "
            "name the model that it began with (baseline=...), start it anew, or go on without the callback"
        )
    if can_take_off(model):
        made = saved.get("packed", {}).get("meta", {})
        scorer = Scorer(
            watch.probe,
            tokenizer,
            model,
            layout=made.get("way"),
            noise=made.get("noise"),
            token_budget=(made.get("batch") or {}).get("tokens") or watch.token_budget,
        )
        with without_adapter(model):
            found = scorer.score(model, step=0)
        if "packed" not in saved or agrees(found, saved["packed"]):
            return found, "the model without its adapter, scored now"
    if "packed" not in saved:
        raise error
    return (
        unpacked(saved["packed"], watch.probe),
        "right and wrong as the checkpoint remembers them; chosen options and probabilities are lost, and with them "
        "known and lost, and what guessing would make",
    )


def stateful(state: TrainerState) -> dict[str, Any]:
    """What callbacks leave in the trainer's state: a dict once the state is made, whatever its annotation says."""
    return cast(dict[str, Any], state.stateful_callbacks)


_EXACT: Final = (True, "gaussian", "orthogonal", "eva")
"""Ways to begin an adapter that leave the weights beneath it as they were; PiSSA, OLoRA and others change them."""


def packed(baseline: Snapshot) -> dict[str, Any]:
    """What of a baseline fits into the trainer's state: JSON values only, a third of a byte an item."""
    right = baseline.floats("correct")
    return {
        "rows": len(baseline),
        "right": _pack(right == 1.0),
        "scored": _pack(np.isfinite(right)),
        "meta": {
            name: baseline.meta.get(name)
            for name in ("model", "step", "way", "noise", "batch", "probe", "seconds", "written_seconds")
        },
    }


def unpacked(bits: Mapping[str, Any], probe: Probe) -> Snapshot:
    """The baseline that `packed` put away, as far as it goes.

    Raises:
        LostBaselineError: If the bits are no baseline of this probe.
    """
    try:
        right, scored = (_unpack(bits[name], int(bits["rows"])) for name in ("right", "scored"))
        meta = dict(bits["meta"])
    except (KeyError, TypeError, ValueError) as error:
        raise LostBaselineError(f"the checkpoint's trainer_state.json holds no usable baseline ({error!r})") from error
    samples = Decoding.of(probe.decoding).samples
    if len(right) != len(probe) * samples:
        raise LostBaselineError(
            f"the checkpoint knows a baseline of {len(right):,} answers, the probe has {len(probe) * samples:,}"
        )
    asked = [item for item in probe for _ in range(samples)]
    columns = {
        "sample": list(range(samples)) * len(probe),
        "item_id": [item.id for item in asked],
        "content_hash": [item.content_hash for item in asked],
        "task": [item.task for item in asked],
        "category": [item.category for item in asked],
        "cluster": [item.cluster for item in asked],
        "k": [item.k for item in asked],
        "gold": [item.answers[0] if item.choices else None for item in asked],
        "golds": [list(item.answers) if len(item.answers) > 1 and item.choices else None for item in asked],
        "correct": [bool(one) if known else None for one, known in zip(right, scored, strict=True)],
        "outcome": ["ok" if known else "unscored: not known any more" for known in scored],
    }
    return Snapshot.from_columns(columns, {**meta, "rescued": "right and wrong only"})


_NOISE: Final = 0.01


@contextmanager
def without_adapter(model: Any) -> Iterator[None]:
    """The model as it was before its adapter; which weights are trained is as before afterwards."""
    trained = {name: weight.requires_grad for name, weight in model.named_parameters()}
    try:
        with model.disable_adapter():
            yield
    finally:
        for name, weight in model.named_parameters():
            weight.requires_grad_(trained[name])


def can_take_off(model: Any) -> bool:
    """Whether the model without its adapter is, bit for bit, the model that the adapter was put on."""
    configs = getattr(model, "peft_config", None)
    if not configs or not hasattr(model, "disable_adapter"):
        return False
    return all(
        str(getattr(config.peft_type, "value", config.peft_type)) == "LORA"
        and getattr(config, "init_lora_weights", True) in _EXACT
        and getattr(config, "bias", "none") == "none"
        for config in configs.values()
    )


def agrees(baseline: Snapshot, bits: Mapping[str, Any]) -> bool:
    """Whether a baseline is right and wrong where the bits remember it, but for one answer in a hundred (noise)."""
    right = baseline.floats("correct") == 1.0
    remembered = _unpack(bits["right"], int(bits["rows"]))
    return len(right) == len(remembered) and bool(np.mean(right != remembered) <= _NOISE)


def _pack(bits: NDArray[np.bool_]) -> str:
    return base64.b64encode(np.packbits(bits).tobytes()).decode()


def _unpack(text: str, rows: int) -> NDArray[np.bool_]:
    data = np.frombuffer(base64.b64decode(text, validate=True), np.uint8)
    if len(data) != -(-rows // 8):
        raise ValueError(f"needed {rows} bits, got {8 * len(data)}")
    return np.unpackbits(data, count=rows).astype(bool)
