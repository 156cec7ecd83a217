"""The category Common Sense: things, other people and an ordinary day.

Most of it is written by hand (``facts/common_sense.csv``). Comparisons are made from ``facts/common_sense_scales.csv``,
whose rows list things in ascending order with a typical value each, at least twice the one before:

    mass   kilograms   a feather=0.0001|a grape=0.005|an apple=0.15|a brick=3|a car=1300
      ──▶  "Which weighs least: a brick, a grape or a car?"   a grape
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
    more: str
    less: str


SCALES: Final = {
    "mass": Scale("weighs most", "weighs least", "Does {} weigh more than {}?", "Does {} weigh less than {}?"),
    "height": Scale("is tallest", "is least tall", "Is {} taller than {}?", "Is {} less tall than {}?"),
    "length": Scale("is longest", "is shortest", "Is {} longer than {}?", "Is {} shorter than {}?"),
    "speed": Scale("is fastest", "is slowest", "Is {} faster than {}?", "Is {} slower than {}?"),
    "temperature": Scale("is hottest", "is coldest", "Is {} hotter than {}?", "Is {} colder than {}?"),
    "duration": Scale(
        "lasts longest",
        "lasts the shortest time",
        "Does {} last longer than {}?",
        "Does {} last a shorter time than {}?",
    ),
}

PHRASES: Final = (
    "Which {end}: {things} or {last}?",
    "One of these {end}: {things} and {last}. Which one?",
    "Compare {things} and {last}. Which of them {end}?",
)

_SIZES: Final = (2, 3, 4, 5)
_SIZE_WEIGHTS: Final = (3, 3, 5, 4)


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category: the written questions, then one comparison a row.

    Args:
        rng: Source of the things that are compared, their order, and the wording.
    """
    return [*written("common_sense", category="Common Sense"), *_comparisons(rng)]


def _comparisons(rng: random.Random) -> list[Question]:
    """One comparison for each row of the scales; the answers yes and no alternate."""
    made: list[Question] = []
    truth = True
    for row in read_rows("facts/common_sense_scales"):
        ascending = [entry.split("=")[0] for entry in entries(row["things"])]
        size = min(rng.choices(_SIZES, weights=_SIZE_WEIGHTS)[0], len(ascending))
        chosen = sorted(rng.sample(range(len(ascending)), size))
        things = [ascending[index] for index in chosen]
        scale = SCALES[row["scale"]]
        if size == 2:
            prompt, right, options = _pair(rng, things, scale, truth=truth), "yes" if truth else "no", ["yes", "no"]
            truth = not truth
        else:
            prompt, right = _many(rng, things, scale)
            options = things
        made.append(
            Question(
                prompt=prompt,
                right=right,
                wrong=tuple(option for option in options if option != right),
                category="Common Sense",
                topic="comparisons",
                difficulty=difficulty(row),
                uses=frozenset({f"sense:{row['scale']}:{row['things']}"}),
                source="computed",
            )
        )
    return made


def _pair(rng: random.Random, ascending: list[str], scale: Scale, *, truth: bool) -> str:
    """A question about two things whose answer is yes if ``truth``, else no."""
    upward = rng.random() < 0.5
    # "Is A taller than B?" with the larger first is true, "Is A less tall than B?" with it first is false.
    first, second = reversed(ascending) if upward == truth else ascending
    return (scale.more if upward else scale.less).format(first, second)


def _many(rng: random.Random, ascending: list[str], scale: Scale) -> tuple[str, str]:
    """A question that names three or more things, and its answer."""
    upward = rng.random() < 0.5
    named = rng.sample(ascending, len(ascending))
    prompt = rng.choice(PHRASES).format(
        end=scale.most if upward else scale.least, things=", ".join(named[:-1]), last=named[-1]
    )
    return prompt, ascending[-1] if upward else ascending[0]
