"""What a run is asked where nothing else is named: `standard`, and `behaviour` where writing answers is cheap."""

from __future__ import annotations

from typing import Any

from forgetwatch.probe import Probe
from forgetwatch.probes import load_probe
from forgetwatch.probes.combined import combined


def default_probe(tokenizer: Any, *, fast: bool, saved: str | None = None) -> tuple[Probe, str]:
    """The probe, and why it is that one.

    Args:
        tokenizer: Answers are written behind its chat template.
        fast: Whether writing is cheap: the trainer has an engine for it, or the model is on a GPU.
        saved: Fingerprint of the probe of a run that goes on; it keeps its probe, whatever this machine has.
    """
    scored = load_probe("standard")
    both = combined(scored, load_probe("behaviour"))
    if saved in (scored.fingerprint, both.fingerprint):
        return (both if saved == both.fingerprint else scored), "the run's own"
    if not getattr(tokenizer, "chat_template", None):
        return scored, "without behaviour, which needs a chat template"
    if not fast:
        return scored, "without behaviour, whose answers take too long to write on this machine"
    return both, "behaviour is written where max_overhead allows it"
