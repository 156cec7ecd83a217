"""Reading: generated texts of 300 to 800 words, with four questions each, of one, two and three hops.

    documents.py   texts of one kind, from a file of paragraphs and sentences
    *.toml         the kinds: article, diary, letter, minutes, notice, report, story, travel
    questions.py   the questions about the texts

All people, places and things are invented, and who belongs to what is drawn at random: without the text there is
nothing to know.
"""

from __future__ import annotations

import random
from typing import Final

from forgetwatch.probe import Probe
from forgetwatch.probes.shipped import CANARY
from standard_parts.assembly import items
from standard_parts.reading.documents import NAMES, documents, read_kind
from standard_parts.reading.questions import ask_all

TEXTS: Final = 50
"""Number of texts."""

SEED: Final = 20261101


def probe() -> Probe:
    """The probe `standard-long`."""
    share, more = divmod(TEXTS, len(NAMES))
    texts = [
        document
        for place, name in enumerate(NAMES)
        # Each kind has a seed of its own, so that its draws do not depend on the others.
        for document in documents(read_kind(name), share + (place < more), random.Random(f"{SEED} {name}"))
    ]
    groups = ask_all(texts, random.Random(f"{SEED} questions"))
    return Probe(items(groups, prefix="long"), name="standard-long", canary=CANARY)
