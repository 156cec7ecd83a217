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

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from importlib.resources import as_file, files
from typing import Any, Final

from forgetwatch.errors import ProbeError
from forgetwatch.probe import Probe, combine, read_probe

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

FIRST: Final = {
    "standard": (
        *("5223aa395240fbd9", "de63d25bf8286b9f", "e10566b47302d3dc", "2926eb6e440e13d6", "21c5504de6c95809"),
        *("28af87ef92e5a322", "d058ce6fe811a969", "5b41d7c46adf7afb", "f0a6789b900f3291", "9e5632fdd4e3269a"),
        *("9605e57f66e99483", "744f9fb5abccc1aa", "07e5b005fcac6a49", "36662a92181c7595", "273710f25b8f4aa4"),
    ),
    "quick": (*("d4ff4a6f8121ff51", "641d3d593f12d643", "cfd45d78159125a9", "b9ca0e31fa45af44", "1cc183c2355ac7ba"),),
    "confirmation": (
        *("a31c608add5124fe", "e54c6a4f216f57fd", "e343c5206a5e94af", "d20beda1be25092c", "34046d41d16d5e16"),
    ),
    "behaviour": ("76dfa12e3fb40ac6",),
    "standard+behaviour": (
        *("2c5f9efad30571c7", "e0d9cf9d718054f0", "c7ffcbefa04c17e5", "dae9adbdac10ed5b", "f4f346211590ca77"),
    ),
    "quick+behaviour": (
        *("f00378087da4fd77", "84ae915126a11aeb", "e172bb5f962aca4f", "7df785a63becccc2", "b7e1d8522c17da59"),
    ),
}
"""Fingerprints of version 1 of the shipped probes and of their beginnings, under each norm, 16 digits of each."""

_LATEST: Final = 2
"""Version of the shipped probes whose fingerprints are not in `FIRST`."""


def shipped_version(described: Mapping[str, Any]) -> int | None:
    """Return the version of the shipped probe that the entry ``probe`` of a snapshot's metadata describes.

    None for another.
    """
    name, fingerprint = str(described.get("name")), str(described.get("fingerprint"))
    if fingerprint[:16] in FIRST.get(name, ()):
        return 1
    if not set(name.split("+")) <= set(NAMES):
        return None
    parts = [shipped_probe(part) for part in name.split("+")]
    try:
        whole = reduce(combine, parts)
    except ProbeError:  # a probe of the user's own may have a name whose parts do not combine
        return None
    items = described.get("items")
    heads = (whole, whole.head(items)) if isinstance(items, int) and 0 < items < len(whole) else (whole,)
    return _LATEST if any(head.with_fingerprint(fingerprint) is not None for head in heads) else None


def shipped_probe(name: str) -> Probe:
    """Read the shipped probe of a name, one of `NAMES`.

    Raises:
        ProbeError: If its file is missing or damaged.
    """
    if name == "quick":
        return replace(shipped_probe("standard").head(QUICK), name="quick")
    with as_file(files(__name__) / FILES[name]) as path:
        return read_probe(path)
