"""Probes that come with the package, as files: they load without a network, and never change.

    standard        2,000 questions in nine categories; its beginnings are stratified samples of it
    quick           the first 500 of them
    confirmation    500 others of the same kinds, on other facts
    behaviour       96 short answers in the model's own words, judged by rules

`CARD.md` beside this file says how they were made, what they cover and what they cannot show.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import as_file, files
from typing import Final

from forgetwatch.probe import Probe, read_probe

CANARY: Final = "forgetwatch probe data; do not train on it; canary 6ebbbed7-cad2-47d5-8c7c-e0b004f3c711"
"""Stands in the first line of each file: who has it in training data has the questions too."""

QUICK: Final = 500
"""Items of `quick`."""

FILES: Final = {
    "standard": "standard.jsonl.gz",
    "confirmation": "confirmation.jsonl.gz",
    "behaviour": "behaviour.jsonl",
}
"""Where each is kept."""

NAMES: Final = ("standard", "quick", "confirmation", "behaviour")


def shipped_probe(name: str) -> Probe:
    """The shipped probe of that name, one of `NAMES`.

    Raises:
        ProbeError: If its file is gone or damaged.
    """
    if name == "quick":
        return replace(shipped_probe("standard").head(QUICK), name="quick")
    with as_file(files(__name__) / FILES[name]) as path:
        return read_probe(path)
