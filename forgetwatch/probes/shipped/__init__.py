"""Probes that are shipped with the package as files: they load without a network, and never change.

    standard        2,000 questions in nine categories; its first 250, 500 and 1,000 are stratified samples of it
    quick           the first 500 of them
    confirmation    500 others of the same kinds, on other facts
    behaviour       180 open questions with short answers, graded by rules
    standard-long   200 questions about 50 texts of 300 to 800 words
    standard-code   200 questions about small programs
    passages        60 texts, scored as bits per byte: no questions
    standard-multilingual    600 questions about plain facts in six languages
    standard-written         100 word problems and 80 requests with instructions, generated and graded by rules

`CARD.md` next to this file describes how they were made, what they cover and what they cannot show; a probe of one
ability has a card of its own, `cards/NAME.md`.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files
from typing import Final

from forgetwatch.probe import Probe, read_probe

CANARY: Final = "forgetwatch probe data; do not train on it; canary 6ebbbed7-cad2-47d5-8c7c-e0b004f3c711"
"""Text in the first line of each file: training data that holds it holds the questions too."""

QUICK: Final = 500
"""Number of items of `quick`."""

FILES: Final = {
    "standard": "standard.jsonl.gz",
    "confirmation": "confirmation.jsonl.gz",
    "behaviour": "behaviour.jsonl",
    "standard-long": "standard-long.jsonl.gz",
    "standard-code": "standard-code.jsonl.gz",
    "standard-multilingual": "standard-multilingual.jsonl.gz",
    "standard-written": "standard-written.jsonl.gz",
    "passages": "passages.jsonl",
}
"""File of each probe."""

NAMES: Final = ("standard", "quick", *(name for name in FILES if name != "standard"))


def shipped_probe(name: str) -> Probe:
    """Read the shipped probe of a name, one of `NAMES`.

    Raises:
        ProbeError: If its file is missing or damaged.
    """
    if name == "quick":
        return replace(shipped_probe("standard").head(QUICK), name="quick")
    with as_file(files(__name__) / FILES[name]) as path:
        return read_probe(path)
