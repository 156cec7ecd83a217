"""Logic: fourteen topics, all worked out by a program, from syllogisms and orders to dates, grids and code."""

from __future__ import annotations

import random

from standard_probe import logic_classes, logic_code, logic_grids, logic_groups, logic_places, logic_rules, logic_time
from standard_probe.drafts import topic
from standard_probe.question import Question

TOPICS = {
    **logic_classes.TOPICS,
    **logic_places.TOPICS,
    **logic_rules.TOPICS,
    **logic_time.TOPICS,
    **logic_grids.TOPICS,
    **logic_groups.TOPICS,
    **logic_code.TOPICS,
}


def questions(rng: random.Random) -> list[Question]:
    """The pool of the category Logic, topic by topic."""
    return [question for name, plan in TOPICS.items() for question in topic(rng, name, plan, category="Logic")]
