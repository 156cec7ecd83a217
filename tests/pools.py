"""Invented questions in nine categories, for the tests of the assembler."""

from __future__ import annotations

import random

from standard_probe.assemble import NAMES
from standard_probe.question import Question


def pool(category: str, *, size: int = 400, seed: int = 1) -> list[Question]:
    """Questions of one category: five to ten topics, k from 2 to 5, and one in five uses a fact of another."""
    rng = random.Random(f"{seed} {category}")
    topics = rng.randint(5, 10)
    made = []
    for number in range(size):
        k = rng.choices((2, 3, 4, 5), (15, 20, 45, 20))[0]
        fact = number if rng.random() < 0.8 else rng.randrange(size)
        made.append(
            Question(
                prompt=f"What does the {number}. riddle of {category} mean?",
                right=f"answer {number}",
                wrong=tuple(f"guess {number}.{other}" for other in range(k - 1)),
                category=category,  # type: ignore[arg-type]
                topic=f"topic {rng.randrange(topics)}",
                difficulty=rng.choice((1, 2, 3)),
                uses=frozenset({f"{category}:{fact}"}),
                source="computed",
            )
        )
    return made


def pools(*, size: int = 400, seed: int = 1) -> dict[str, list[Question]]:
    """Questions of all nine."""
    return {category: pool(category, size=size, seed=seed) for category in NAMES}
