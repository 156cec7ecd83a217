"""Make the frozen files of the shipped probe `standard` and its second form, `confirmation`.

    nine categories ──▶ pools ──▶ assemble.py ──▶ standard.jsonl.gz, confirmation.jsonl.gz, CARD.md with its figures

Run from the root of the repository, with an empty folder for the three files:

    PYTHONPATH=tools/probe python -m standard_probe.make FOLDER

The files are frozen so that measurements with them stay comparable. A test makes them again and compares.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

from forgetwatch.files import write_atomically
from forgetwatch.probe import Probe
from forgetwatch.probes.shipped import CANARY, FILES, shipped_probe
from standard_probe import common_sense, culture, knowledge, language, liberal_arts, logic, mathematics, safety, science
from standard_probe.assemble import assemble
from standard_probe.card import with_figures, with_measured
from standard_probe.question import Question

GENERATORS: Final[Mapping[str, Callable[[random.Random], list[Question]]]] = {
    "common_sense": common_sense.questions,
    "culture": culture.questions,
    "knowledge": knowledge.questions,
    "language": language.questions,
    "liberal_arts": liberal_arts.questions,
    "logic": logic.questions,
    "mathematics": mathematics.questions,
    "safety": safety.questions,
    "science": science.questions,
}
"""One function for each category, by the name that seeds its generator."""

SEED: Final = 20260601


def pools() -> dict[str, list[Question]]:
    """The questions of each category."""
    found: dict[str, list[Question]] = {}
    for name, questions in GENERATORS.items():
        # Each category has a seed of its own, so that its draws do not depend on the others.
        for question in questions(random.Random(f"{SEED} {name}")):
            found.setdefault(question.category, []).append(question)
    return found


def forms() -> tuple[Probe, Probe]:
    """The probes `standard` and `confirmation`.

    Raises:
        ProbeError: If the pools are too small or contain a question that no probe may contain.
    """
    standard, confirmation = assemble(pools())
    return (
        Probe(standard, name="standard", canary=CANARY),
        Probe(confirmation, name="confirmation", canary=CANARY),
    )


def write_shipped(folder: str | Path) -> None:
    """Write both probes and the card with their figures into a folder."""
    folder = Path(folder)
    made = forms()
    for probe in made:
        probe.save(folder / FILES[probe.name])
    card = files("forgetwatch.probes.shipped").joinpath("CARD.md").read_text(encoding="utf-8")
    text = with_measured(with_figures(card, [*made, shipped_probe("behaviour")]), made[0])
    write_atomically(folder / "CARD.md", lambda partial: partial.write_text(text, encoding="utf-8"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="standard_probe.make", description="Make the shipped probe and its card.")
    parser.add_argument("folder", type=Path, help="folder for the three files; made if it does not exist")
    target = parser.parse_args().folder
    target.mkdir(parents=True, exist_ok=True)
    write_shipped(target)
    print(f"written to {target}: {FILES['standard']}, {FILES['confirmation']}, CARD.md")
