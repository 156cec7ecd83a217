"""The category Math: twelve topics, all computed, from sums at school to chances and number bases.

    small_numbers.py  one step in every topic: level 0
    arithmetic.py     sums, products, fractions
    percentages.py    shares, prices that change
    integers.py       primes, divisors, sequences
    bases.py          binary and other bases
    shapes.py         lengths, areas, angles, volumes
    units.py          conversion of units
    chance.py         chances, means and medians
    algebra.py        equations, values, lines, powers
    stories.py        stories that end in numbers
    long_sums.py      two or three steps in every topic: level 4

Each module has `TOPICS`: a topic to its plan, as drafts.py defines it.
"""

from __future__ import annotations

import random

from standard_probe.drafts import topic
from standard_probe.mathematics import (
    algebra,
    arithmetic,
    bases,
    chance,
    integers,
    long_sums,
    percentages,
    shapes,
    small_numbers,
    stories,
    units,
)
from standard_probe.question import Question

_MODULES = (arithmetic, percentages, integers, bases, shapes, units, chance, algebra, stories)

TOPICS = {
    name: (*small_numbers.TOPICS[name], *plan, *long_sums.TOPICS[name])
    for module in _MODULES
    for name, plan in module.TOPICS.items()
}


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category, topic by topic."""
    return [question for name, plan in TOPICS.items() for question in topic(rng, name, plan, category="Math")]
