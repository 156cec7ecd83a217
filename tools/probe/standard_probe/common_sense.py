"""The category Common Sense: things, other people and an ordinary day.

Most of it is written by hand (``facts/common_sense.csv``). Comparisons are made from ``facts/common_sense_scales.csv``,
whose rows list things in ascending order with a typical value each, at least twice the one before. The names of a row
are alike in length:

    mass   kilograms   a grape=0.005|an apple=0.15|a brick=3|a piano=300|a truck=10000
      ──▶  "Which weighs least: a brick, a grape or a truck?"   a grape
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from standard_probe.question import Question
from standard_probe.written import difficulty, entries, read_rows, written


class Scale(NamedTuple):
    """Wordings for the two ends of a scale."""

    most: str
    least: str


SCALES: Final = {
    "mass": Scale("weighs most", "weighs least"),
    "height": Scale("is tallest", "is shortest"),
    "length": Scale("is longest", "is shortest"),
    "speed": Scale("is fastest", "is slowest"),
    "temperature": Scale("is hottest", "is coldest"),
    "duration": Scale("lasts longest", "lasts the shortest time"),
}

PHRASES: Final = (
    "Which {end}: {things} or {last}?",
    "One of these {end}: {things} and {last}. Which one?",
    "Compare {things} and {last}. Which of them {end}?",
)

_SIZES: Final = (3, 4, 5)
_SIZE_WEIGHTS: Final = (4, 4, 7)


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category: the written questions, then one comparison a row.

    Args:
        rng: Source of the things that are compared, their order, and the wording.
    """
    return [*written("common_sense", category="Common Sense"), *_comparisons(rng)]


def _comparisons(rng: random.Random) -> list[Question]:
    """One comparison for each row of the scales."""
    made: list[Question] = []
    for row in read_rows("facts/common_sense_scales"):
        ascending = [entry.split("=")[0] for entry in entries(row["things"])]
        size = min(rng.choices(_SIZES, weights=_SIZE_WEIGHTS)[0], len(ascending))
        things = [ascending[index] for index in sorted(rng.sample(range(len(ascending)), size))]
        prompt, right = _comparison(rng, things, SCALES[row["scale"]])
        made.append(
            Question(
                prompt=prompt,
                right=right,
                wrong=tuple(thing for thing in things if thing != right),
                category="Common Sense",
                topic="comparisons",
                difficulty=difficulty(row),
                uses=frozenset({f"sense:{row['scale']}:{row['things']}"}),
                source="computed",
            )
        )
    return made


def _comparison(rng: random.Random, ascending: list[str], scale: Scale) -> tuple[str, str]:
    """A question that names three or more things in any order, and its answer."""
    upward = rng.random() < 0.5
    named = rng.sample(ascending, len(ascending))
    prompt = rng.choice(PHRASES).format(
        end=scale.most if upward else scale.least, things=", ".join(named[:-1]), last=named[-1]
    )
    return prompt, ascending[-1] if upward else ascending[0]
