"""The category Science/Tech: ten topics, from the cell to the solar system.

Its modules:

    facts.py       questions and pairs from tables, with sources
    matter.py      computed: elements, planets, formulas, reactions
    machines.py    computed: laws of physics, bits, bytes
"""

from __future__ import annotations

import random

from standard_probe.drafts import topic
from standard_probe.question import Question
from standard_probe.science import machines, matter
from standard_probe.science.facts import paired, written


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category: written questions, pairs, then the computed topics."""
    computed = [
        question
        for topics in (matter.TOPICS, machines.TOPICS)
        for name, plan in topics.items()
        for question in topic(rng, name, plan, category="Science/Tech")
    ]
    return [*written(rng), *paired(rng), *computed]
