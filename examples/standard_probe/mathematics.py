"""Math: twelve topics, all worked out by a program, from sums at school to chances and number bases."""

from __future__ import annotations

import random

from standard_probe import (
    mathematics_algebra,
    mathematics_arithmetic,
    mathematics_bases,
    mathematics_chance,
    mathematics_integers,
    mathematics_percentages,
    mathematics_shapes,
    mathematics_stories,
    mathematics_units,
)
from standard_probe.drafts import topic
from standard_probe.question import Question

TOPICS = {
    **mathematics_arithmetic.TOPICS,
    **mathematics_percentages.TOPICS,
    **mathematics_integers.TOPICS,
    **mathematics_bases.TOPICS,
    **mathematics_shapes.TOPICS,
    **mathematics_units.TOPICS,
    **mathematics_chance.TOPICS,
    **mathematics_algebra.TOPICS,
    **mathematics_stories.TOPICS,
}


def questions(rng: random.Random) -> list[Question]:
    """The pool of the category Math, topic by topic."""
    return [question for name, plan in TOPICS.items() for question in topic(rng, name, plan, category="Math")]
