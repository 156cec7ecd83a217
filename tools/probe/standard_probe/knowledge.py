"""The category Knowledge/QA: countries, animals, inventions, records, numbers and names of everyday life.

All facts are in ``facts/knowledge.csv``.
"""

from __future__ import annotations

import random

from standard_probe.fact_tables import ask_all, read_facts
from standard_probe.question import Question


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category: one question for each fact of its table."""
    return ask_all(read_facts("knowledge"), category="Knowledge/QA", rng=rng)
