"""Names of presets: ``NAME[:PART[+PART ...]][:FORM]``, and the paper's twelve benchmarks as one.

mmlu                    arc_easy                   names are those of lm-evaluation-harness where it has one;
mmlu:anatomy+virology   bbh:navigate:cot           - and _ are the same
paper                   paper:cot
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from forgetwatch.errors import ProbeError
from forgetwatch.probe import Norm
from forgetwatch.probes.hub import bbh, everyday, languages, mmlu, reading, science, small, truth, written
from forgetwatch.probes.hub.preset import FORMS, Form, Preset

PRESETS: Final[Mapping[str, Preset]] = {
    preset.name: preset
    for family in (mmlu, science, everyday, truth, bbh, reading, written, languages, small)
    for preset in family.PRESETS
}
"""All presets of the hub, by name."""

_ALIASES: Final = {
    "social-iqa": "siqa",
    "commonsense-qa": "csqa",
    "truthfulqa": "truthfulqa-mc1",
    "gpqa": "gpqa-diamond",
    "salad-bench": "salad-mrq",
}
_OF_PAPER: Final = (
    *("mmlu", "bbh", "gpqa-diamond", "musr", "arc-easy", "arc-challenge", "hellaswag", "truthfulqa-mc1", "siqa"),
    *("mctest", "piqa", "csqa", "salad-mrq", "ifeval"),
)
"""ARC's two parts are one of the twelve; IFEval is the tenth category, beside them."""

PAPER: Final = "paper"
_TOKENS: Final = 1280
"""Of IFEval's answers."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """What a name stands for: presets with their parts, and the form in which they are asked."""

    presets: tuple[tuple[Preset, str], ...]
    form: Form
    norm: Norm
    written: Mapping[str, Any] | None


def is_preset(name: str) -> bool:
    """Whether the first part of a name is that of a preset."""
    return _plain(name.split(":")[0]) in (*PRESETS, PAPER)


def named(name: str) -> Named:
    """What a name stands for.

    Raises:
        ProbeError: If there is no such preset, or the name has too many parts.
    """
    first, *rest = name.split(":")
    form = next((known for known in FORMS if rest[-1:] == [known]), None)
    rest = rest[:-1] if form else rest
    form = form or "scored"
    if not is_preset(first):
        raise ProbeError(f"{name}: no such preset; there are {PAPER}, {', '.join(PRESETS)}")
    if len(rest) > 1:
        raise ProbeError(f"{name}: needed NAME[:PART[+PART ...]][:FORM]; forms are {', '.join(FORMS)}")
    part = rest[0] if rest else ""
    if first == PAPER and part:
        raise ProbeError(f"{name}: {PAPER} has no parts; forms are {', '.join(FORMS)}")
    if first == PAPER:
        wanted = tuple((PRESETS[one], "") for one in _OF_PAPER)
        return Named(presets=wanted, form=form, norm="chars", written={"tokens": _TOKENS})
    preset = PRESETS[_plain(first)]
    preset.chosen(part)
    return Named(presets=((preset, part),), form=form, norm=preset.norm, written=preset.written)


def _plain(name: str) -> str:
    plain = name.lower().replace("_", "-")
    return _ALIASES.get(plain, plain)
