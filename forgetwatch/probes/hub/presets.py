"""The table of presets: every benchmark of the hub that can be loaded by name.

presets.toml        sources, licence and settings of each preset; a table for each
_ROW_FUNCTIONS      the functions of its rows, from multiple_choice.py, reasoning.py and selections.py
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from forgetwatch.probes.categories import subjects
from forgetwatch.probes.hub import multiple_choice, reasoning, selections
from forgetwatch.probes.hub.preset import Preset, Question, Row, Source

_ROW_FUNCTIONS: Final[Mapping[str, Callable[[Row, Source], Question | None]]] = {
    function.__name__: function
    for function in (
        *(multiple_choice.arc, multiple_choice.csqa, multiple_choice.global_mmlu, multiple_choice.gpqa),
        *(multiple_choice.hellaswag, multiple_choice.mmlu, multiple_choice.mmlu_pro, multiple_choice.mmlu_redux),
        *(multiple_choice.openbookqa, multiple_choice.piqa, multiple_choice.salad, multiple_choice.siqa),
        *(multiple_choice.truthfulqa, multiple_choice.winogrande),
        *(reasoning.bbh, reasoning.belebele, reasoning.gsm8k, reasoning.ifeval, reasoning.mctest, reasoning.musr),
        *(selections.metabench, selections.tiny),
    )
}

_PARTS: Final[Mapping[str, Sequence[str]]] = {
    "subjects": subjects(),
    "bbh": sorted([*reasoning.BBH_LISTED, *reasoning.BBH_WORDS]),
    "bbh-open": sorted(reasoning.BBH_OPEN),
}
"""Lists of parts by the names that the table uses for them."""


def _presets() -> Iterator[Preset]:
    """The presets of the table, in its order."""
    text = files(__package__).joinpath("presets.toml").read_text(encoding="utf-8")
    for name, row in tomllib.loads(text).items():
        parts, row_function = row.pop("parts", ()), _ROW_FUNCTIONS[row.pop("row")]
        if isinstance(parts, str):
            parts = _PARTS.get(parts, parts.split())
        shared = row.pop("shared", {})
        sources = tuple(source for fields in row.pop("sources") for source in _sources({**shared, **fields}, parts))
        yield Preset(name=name, question=row_function, sources=sources, **row.pop("data"), **row)


def _sources(fields: Mapping[str, Any], parts: Sequence[str]) -> Iterator[Source]:
    """One source of some fields, or one for each part that these name."""
    if not any("{part}" in text for text in fields.values()):
        yield Source(**fields)
        return
    for part in parts:
        # Not format(): the names of files also hold a {split}.
        yield Source(part=part, **{name: text.replace("{part}", part) for name, text in fields.items()})


PRESETS: Final[Mapping[str, Preset]] = {preset.name: preset for preset in _presets()}
"""All presets of the hub, by name."""

ALIASES: Final = {
    "social-iqa": "siqa",
    "commonsense-qa": "csqa",
    "truthfulqa": "truthfulqa-mc1",
    "gpqa": "gpqa-diamond",
    "salad-bench": "salad-mrq",
}
"""Other names of presets."""

PAPER: Final = "paper"
"""Name of the paper's benchmarks as one probe."""

PAPER_PRESETS: Final = (
    *("mmlu", "bbh", "gpqa-diamond", "musr", "arc-easy", "arc-challenge", "hellaswag", "truthfulqa-mc1", "siqa"),
    *("mctest", "piqa", "csqa", "salad-mrq", "ifeval"),
)
"""The paper's twelve benchmarks, ARC's two parts being one of them, and IFEval for its tenth category."""

PAPER_DECODING: Final[Mapping[str, int]] = {"tokens": 1280}
"""Decoding of IFEval's answers in `paper`."""
