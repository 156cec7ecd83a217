"""A run's baseline where its folder is gone: from the model without its adapter, or from bits in the trainer's state.

The trainer's state follows every checkpoint. Two bits an item, packed, say whether it was scored and whether it was
right; the chosen options and all probabilities are lost then.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.decoding import Decoding
from forgetwatch.errors import LostBaselineError
from forgetwatch.probe import Probe
from forgetwatch.snapshot import Snapshot

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
