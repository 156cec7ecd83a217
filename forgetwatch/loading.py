"""Loading: how a model is loaded, as one value from a command to the loader in `scoring.pretrained`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Loading:
    """Settings with which a model is loaded.

    Attributes:
        trust_remote_code: Run code that comes with the model.
        device_map: ``auto`` to spread the layers over all GPUs, then the CPU and the disk; None for one device. Weights
            that are not in the model's files as it computes with them (those of experts) are written to a folder for
            temporary files, which TMPDIR chooses; it is removed with the model.
    """

    trust_remote_code: bool = False
    device_map: str | None = None
