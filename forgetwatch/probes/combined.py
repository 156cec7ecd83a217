"""Two probes as one: the second's written answers are asked as it asks them, whatever the first does."""

from __future__ import annotations

from dataclasses import replace

from forgetwatch.errors import ProbeError
from forgetwatch.probe import Probe


def combined(first: Probe, second: Probe) -> Probe:
    """The items of both, those of the first in front; asked like the first, but for how the second's are rendered.

    Raises:
        ProbeError: If both write answers in unlike ways, the second scores its choices otherwise, or an item stands in
            both.
    """
    name = f"{first.name}+{second.name}"
    if any(item.choices for item in second) and (first.scoring, first.norm) != (second.scoring, second.norm):
        raise ProbeError(f"{name}: needed choices that are scored in one way, got {first.scoring} and {second.scoring}")
    written = [probe.decoding for probe in (first, second) if probe.decoding is not None]
    if len(written) == 2 and written[0] != written[1]:
        raise ProbeError(f"{name}: needed answers that are written in one way, got {written[0]} and {written[1]}")
    own = [
        item if second.rendering_of(item) == first.rendering else replace(item, rendering=second.rendering_of(item))
        for item in second
    ]
    decoding = written[0] if written else None
    return replace(first, items=(*first, *own), name=name, decoding=decoding, canary=first.canary or second.canary)
