"""The category Logic: fourteen topics, all computed, from syllogisms and orders to dates, grids and code.

    classes.py     syllogisms and conditionals
    places.py      orders, directions, changing hands
    rules.py       truth values, liars, invented rules
    dates.py       weekdays, dates, clocks
    grids.py       grids with one solution
    groups.py      overlapping groups, families
    programs.py    the output of some lines of Python

Each module has `TOPICS`: a topic to its plan, as drafts.py defines it.
"""

from __future__ import annotations

import random

from standard_probe.drafts import topic
from standard_probe.logic import classes, dates, grids, groups, places, programs, rules
from standard_probe.question import Question

# The order decides what each topic draws from the generator: a new topic goes to the end.
TOPICS = {
    **classes.TOPICS,
    **places.TOPICS,
    **rules.TOPICS,
    **dates.TOPICS,
    **grids.TOPICS,
    **groups.TOPICS,
    **programs.TOPICS,
}


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category, topic by topic."""
    return [question for name, plan in TOPICS.items() for question in topic(rng, name, plan, category="Logic")]
