"""Science: facts from tables, each with its source.

science.csv        whole questions, their wrong answers separated by |
science_pairs.csv  pairs such as force and newton: the answers of one kind are each other's wrong answers
elements.csv, planets.csv, reactions.csv   tables of which matter.py computes questions
"""

from __future__ import annotations

import random
from typing import Final

from standard_probe.drafts import finish, worded
from standard_probe.fact_tables import similar
from standard_probe.question import Question
from standard_probe.written import difficulty, read_rows

ASKED = {
    "unit": (
        "measurement",
        ("What is the SI unit of {}?", "In which SI unit is {} measured?"),
    ),
    "prefix": (
        "measurement",
        (
            'For which power of ten does the prefix "{}" stand?',
            'Which power of ten does the prefix "{}" mean?',
        ),
    ),
    "instrument": (
        "measurement",
        (
            "Which instrument measures {}?",
            "What is an instrument for measuring {} called?",
        ),
    ),
    "specialist": (
        "medicine",
        (
            "What is a physician called who specializes in the {}?",
            "Which specialist treats diseases of the {}?",
        ),
    ),
    "inflammation": (
        "medicine",
        (
            "Which part of the body is inflamed in {}?",
            "What is inflamed in a person with {}?",
        ),
    ),
}
"""Topic of each kind of pair, and the wordings that ask for its second half."""

WEIGHTS: Final = (17, 33, 50)
"""Weights of two, three and four wrong answers; half of the rows have three, so that most questions do."""


def written(rng: random.Random) -> list[Question]:
    """Questions that the table holds whole."""
    questions = []
    for row in read_rows("facts/science"):
        wrong = row["wrong"].split("|")
        number = min(len(wrong), rng.choices((2, 3, 4), WEIGHTS)[0])
        questions.append(
            finish(
                rng,
                worded(row["prompt"], row["right"], (), uses=row["uses"]),
                category="Science/Tech",
                topic=row["topic"],
                difficulty=difficulty(row),
                uses=f"{row['topic']}:{row['uses']}",
                source=row["source"],
                wrong=tuple(rng.sample(wrong, number)),
            )
        )
    return questions


def _distance(one: str, two: str) -> int:
    """Distance of two answers: powers of ten by their exponents, words by their lengths."""
    if one.startswith("10^"):
        return abs(int(one[3:]) - int(two[3:]))
    return abs(len(one) - len(two))


def paired(rng: random.Random) -> list[Question]:
    """Questions for the second half of a pair."""
    rows = read_rows("facts/science_pairs")
    questions = []
    for row in rows:
        topic, ways = ASKED[row["kind"]]
        asked = rng.choice(ways).format(row["asked"])
        others = [other["answer"] for other in rows if other["kind"] == row["kind"] and other != row]
        nearest = sorted(others, key=lambda answer: _distance(answer, row["answer"]))[:6]
        wrong = similar(row["answer"], [(answer, int(answer not in nearest)) for answer in others], rng, count=4)
        questions.append(
            finish(
                rng,
                worded(asked[0].upper() + asked[1:], row["answer"], wrong, uses=row["asked"]),
                category="Science/Tech",
                topic=topic,
                difficulty=difficulty(row),
                uses=f"{row['kind']}:{row['asked']}",
                source=row["source"],
            )
        )
    return questions
