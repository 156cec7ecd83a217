"""Makes the frozen files of the shipped probe `standard` and its second form, `confirmation`.

    nine modules ──▶ pools ──▶ assemble.py ──▶ standard.jsonl.gz, confirmation.jsonl.gz, CARD.md with its figures

The files are frozen: what people measured with them stays comparable. A test makes them again and compares.
"""

from __future__ import annotations

import random
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Final

from forgetwatch.files import write_atomically
from forgetwatch.probe import Probe
from forgetwatch.probes.shipped import CANARY, FILES, shipped_probe
from standard_probe.assemble import assemble
from standard_probe.card import with_figures
from standard_probe.question import Question

MODULES: Final = (
    *("common_sense", "culture", "knowledge", "language", "liberal_arts"),
    *("logic", "mathematics", "safety", "science"),
)
"""One a category; each has `questions(rng)`."""

SEED: Final = 20260601


def pools() -> dict[str, list[Question]]:
    """The questions of each category."""
    found: dict[str, list[Question]] = {}
    for name in MODULES:
        module = import_module(f"standard_probe.{name}")
        # A text as seed: what a category draws does not depend on the others.
        for question in module.questions(random.Random(f"{SEED} {name}")):
            found.setdefault(question.category, []).append(question)
    return found


def forms() -> tuple[Probe, Probe]:
    """`standard` and `confirmation`.

    Raises:
        ProbeError: If the pools do not make them.
    """
    standard, confirmation = assemble(pools())
    return (
        Probe(standard, name="standard", canary=CANARY),
        Probe(confirmation, name="confirmation", canary=CANARY),
    )


def write_shipped(folder: str | Path) -> None:
    """Write both files into a folder, and the card with their figures."""
    folder = Path(folder)
    made = forms()
    for probe in made:
        probe.save(folder / FILES[probe.name])
    card = files("forgetwatch.probes.shipped").joinpath("CARD.md").read_text(encoding="utf-8")
    text = with_figures(card, [*made, shipped_probe("behaviour")])
    write_atomically(folder / "CARD.md", lambda partial: partial.write_text(text, encoding="utf-8"))
