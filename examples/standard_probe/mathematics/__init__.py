"""The category Math: twelve topics, all computed, from sums at school to chances and number bases.

    arithmetic.py     sums, products, fractions
    percentages.py    shares, prices that change
    integers.py       primes, divisors, sequences
    bases.py          binary and other bases
    shapes.py         lengths, areas, angles, volumes
    units.py          conversion of units
    chance.py         chances, means and medians
    algebra.py        equations, values, lines, powers
    stories.py        stories that end in numbers

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
    percentages,
    shapes,
    stories,
    units,
)
from standard_probe.question import Question

# The order decides what each topic draws from the generator: a new topic goes to the end.
TOPICS = {
    **arithmetic.TOPICS,
    **percentages.TOPICS,
    **integers.TOPICS,
    **bases.TOPICS,
    **shapes.TOPICS,
    **units.TOPICS,
    **chance.TOPICS,
    **algebra.TOPICS,
    **stories.TOPICS,
}


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category, topic by topic."""
    return [question for name, plan in TOPICS.items() for question in topic(rng, name, plan, category="Math")]
