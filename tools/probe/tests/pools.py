"""Invented questions in nine categories, for the tests of the assembler."""

from __future__ import annotations

import random

from standard_probe.assemble import NAMES
from standard_probe.question import Question
from standard_probe.selection import LEVEL_SHARES

WORDS = ("guess", "hunch", "reply")


def pool(category: str, *, size: int = 400, seed: int = 1) -> list[Question]:
    """Questions of one category: five to ten topics, yes or no or k from 3 to 5; one in five uses another's fact."""
    rng = random.Random(f"{seed} {category}")
    topics = rng.randint(5, 10)
    levels, shares = zip(*LEVEL_SHARES[category].items(), strict=True)
    made = []
    for number in range(size):
        k = rng.choices((2, 3, 4, 5), (3, 17, 60, 20))[0]
        right, *wrong = (f"{rng.choice(WORDS)} {number}.{other}" for other in rng.sample(range(9), k))
        fact = number if rng.random() < 0.8 else rng.randrange(size)
        made.append(
            Question(
                prompt=f"What does the {number}. riddle of {category} mean?",
                right="Yes" if k == 2 else right,
                wrong=("No",) if k == 2 else tuple(wrong),
                category=category,  # type: ignore[arg-type]
                topic=f"topic {rng.randrange(topics)}",
                difficulty=rng.choices(levels, shares)[0],
                uses=frozenset({f"{category}:{fact}"}),
                source="computed",
            )
        )
    return made


def pools(*, size: int = 400, seed: int = 1) -> dict[str, list[Question]]:
    """Questions of all nine."""
    return {category: pool(category, size=size, seed=seed) for category in NAMES}
