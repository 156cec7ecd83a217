"""Probes by name or by file.

standard, quick, confirmation, behaviour    shipped with the package; shipped/CARD.md tells what they are
demo                                        questions about an invented world, for the demo and the tests
"""

from __future__ import annotations

from pathlib import Path

from forgetwatch.errors import ProbeError
from forgetwatch.probe import Probe, read_probe
from forgetwatch.probes.few_shot import few_shot
from forgetwatch.probes.shipped import NAMES, shipped_probe
from forgetwatch.probes.world import demo_probe

__all__ = ["demo_probe", "few_shot", "load_probe"]


def load_probe(name: str | Path) -> Probe:
    """The probe of that name, or in that JSONL file.

    Raises:
        ProbeError: If there is neither, or the file holds no probe.
    """
    path = Path(name)
    if path.is_file():
        return read_probe(path)
    if str(name) in NAMES:
        return shipped_probe(str(name))
    if str(name) == "demo":
        return demo_probe()
    raise ProbeError(
        f"{name}: no such file, and no such shipped probe; needed a JSONL file of items, or {', '.join(NAMES)} or demo"
    )
