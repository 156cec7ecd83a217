"""Science: facts from tables, each with its source.

science.csv        whole questions, their wrong answers separated by |
science_pairs.csv  pairs such as force and newton: the answers of one kind are each other's wrong answers
elements.csv, planets.csv, reactions.csv   tables of which matter.py computes questions
"""

from __future__ import annotations

import random

from standard_probe.drafts import finish, worded
from standard_probe.question import Question
from standard_probe.written import difficulty, read_rows

ASKED = {
    "unit": (
        "measurement",
        ("What is the SI unit of {}?", "In which SI unit is {} measured?", "Which SI unit belongs to {}?"),
    ),
    "prefix": (
        "measurement",
        (
            'For which power of ten does the prefix "{}" stand?',
            'By which factor does the prefix "{}" multiply a unit?',
            'Which power of ten is meant by "{}" before a unit?',
        ),
    ),
    "instrument": (
        "measurement",
        (
            "Which instrument measures {}?",
            "What is the name of an instrument for measuring {}?",
            "With what instrument does one measure {}?",
        ),
    ),
    "specialist": (
        "medicine",
        (
            "What is a physician called who specializes in the {}?",
            "Which specialist treats diseases of the {}?",
            "Diseases of the {} are the field of which specialist?",
        ),
    ),
    "inflammation": (
        "medicine",
        (
            "Which part of the body is inflamed in {}?",
            "{} is an inflammation of which part of the body?",
            "What is inflamed in a person with {}?",
        ),
    ),
}
"""Topic of each kind of pair, and three wordings that ask for its second half."""


def written(rng: random.Random) -> list[Question]:
    """Questions that the table holds whole."""
    questions = []
    for row in read_rows("facts/science"):
        wrong = row["wrong"].split("|")
        questions.append(
            finish(
                rng,
                worded(row["prompt"], row["right"], rng.sample(wrong, len(wrong)), uses=row["uses"]),
                category="Science/Tech",
                topic=row["topic"],
                difficulty=difficulty(row),
                uses=f"{row['topic']}:{row['uses']}",
                source=row["source"],
            )
        )
    return questions


def _unlike(one: str, two: str) -> int:
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
        others = [other["answer"] for other in rows if other["kind"] == row["kind"]]
        rng.shuffle(others)
        others.sort(key=lambda answer: _unlike(answer, row["answer"]))
        wrong = [answer for answer in others if answer != row["answer"]][:5]
        questions.append(
            finish(
                rng,
                worded(asked[0].upper() + asked[1:], row["answer"], rng.sample(wrong, len(wrong)), uses=row["asked"]),
                category="Science/Tech",
                topic=topic,
                difficulty=difficulty(row),
                uses=f"{row['kind']}:{row['asked']}",
                source=row["source"],
            )
        )
    return questions
