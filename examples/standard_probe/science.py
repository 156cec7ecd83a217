"""Science/Tech: ten topics, from the cell to the solar system; facts from tables, and quantities worked out."""

from __future__ import annotations

import random

from standard_probe import science_machines, science_matter
from standard_probe.drafts import topic
from standard_probe.question import Question
from standard_probe.science_facts import paired, written


def questions(rng: random.Random) -> list[Question]:
    """The pool of the category Science/Tech: written questions, pairs, then what is worked out."""
    worked_out = [
        question
        for topics in (science_matter.TOPICS, science_machines.TOPICS)
        for name, plan in topics.items()
        for question in topic(rng, name, plan, category="Science/Tech")
    ]
    return [*written(rng), *paired(rng), *worked_out]
