"""The category Logic: thirteen topics, all computed, from syllogisms and orders to dates, grids and code.

    first_steps.py  one step in every topic: level 0
    classes.py      syllogisms and conditionals
    places.py       orders, directions, changing hands
    rules.py        truth values, liars, invented rules
    dates.py        weekdays, dates, clocks
    grids.py        grids with one solution
    groups.py       overlapping groups, families
    programs.py     the output of some lines of Python
    long_chains.py  three premises or steps and more in every topic: level 4

Each module has `TOPICS`: a topic to its plan, as drafts.py defines it.
"""

from __future__ import annotations

import random

from standard_probe.drafts import topic
from standard_probe.logic import classes, dates, first_steps, grids, groups, long_chains, places, programs, rules
from standard_probe.question import Question

_MODULES = (classes, places, rules, dates, grids, groups, programs)

TOPICS = {
    name: (*first_steps.TOPICS[name], *plan, *long_chains.TOPICS[name])
    for module in _MODULES
    for name, plan in module.TOPICS.items()
}


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category, topic by topic."""
    return [question for name, plan in TOPICS.items() for question in topic(rng, name, plan, category="Logic")]
