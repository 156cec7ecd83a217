"""What computed topics share: a draft of a question, and how its wrong answers are chosen.

    draft: prompt, right, mistakes  ──▶  question: prompt, right, wrong

The mistakes are what typical errors give: a carry forgotten, the wrong operation, a step left out. Where they are
numbers, the place of the right answer among the sorted options is drawn first, so that taking the smallest, the
largest or the middle number is no better than guessing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeAlias

from standard_probe.question import Category, Question

Number: TypeAlias = int | Fraction


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A question whose wrong answers are still to be chosen.

    Attributes:
        prompt: The question.
        right: The right answer.
        lower: Wrong answers that stand below the right one, the likeliest mistake first; empty for words.
        higher: Wrong answers that stand above it, or words.
        uses: What is worked out; the same text means the same question.
    """

    prompt: str
    right: str
    lower: tuple[str, ...]
    higher: tuple[str, ...]
    uses: str


Difficulty: TypeAlias = Literal[1, 2, 3]

Maker: TypeAlias = Callable[[random.Random, int], Draft]
"""Makes a draft; the integer counts its questions, so that yes and no can take turns."""

Plan: TypeAlias = Sequence[tuple[Maker, Difficulty, int]]
"""Makers with the difficulty and the number of their questions."""


WEIGHTS = (14, 38, 36)
"""How often two, three and four wrong answers are wanted; four are often not to be had."""


def decimal(value: Number) -> str:
    """The value in decimal digits, exact; a fraction such as 3/4 where they never end.

    >>> decimal(Fraction(5, 2)), decimal(12), decimal(Fraction(1, 3))
    ('2.5', '12', '1/3')
    """
    fraction = Fraction(value)
    for digits in range(7):
        scaled = fraction * 10**digits
        if scaled.denominator == 1:
            sign, text = "-" if scaled < 0 else "", str(abs(scaled.numerator)).zfill(digits + 1)
            return sign + (f"{text[:-digits]}.{text[-digits:]}" if digits else text)
    return str(fraction)


def near(value: Number, *steps: Number) -> list[Number]:
    """The values one step above and below, step by step."""
    return [value + sign * step for step in steps for sign in (1, -1)]


def numeric(
    prompt: str,
    right: Number,
    mistakes: Iterable[Number],
    *,
    uses: str,
    form: Callable[[Number], str] = decimal,
    signed: bool = False,
) -> Draft:
    """A draft whose options are numbers.

    Args:
        prompt: The question.
        right: The right number.
        mistakes: What errors give, the likeliest first; what equals the right number is left out.
        uses: What is worked out.
        form: How a number is written.
        signed: Whether zero and negative numbers can stand among the options.
    """
    kept = dict.fromkeys(value for value in mistakes if value != right and (signed or value > 0))
    return Draft(
        prompt=prompt,
        right=form(right),
        lower=tuple(form(value) for value in kept if value < right),
        higher=tuple(form(value) for value in kept if value > right),
        uses=uses,
    )


def worded(prompt: str, right: str, wrong: Iterable[str], *, uses: str) -> Draft:
    """A draft whose options are words."""
    return Draft(
        prompt=prompt, right=right, lower=(), higher=tuple(dict.fromkeys(w for w in wrong if w != right)), uses=uses
    )


def yes_or_no(prompt: str, truth: bool, *, uses: str) -> Draft:
    """A draft whose options are Yes and No."""
    return worded(prompt, "Yes" if truth else "No", ("Yes", "No"), uses=uses)


def chosen(rng: random.Random, draft: Draft, *, number: int) -> tuple[str, ...]:
    """So many of the draft's wrong answers; the right one's place among them is drawn first.

    Where one side has too few for that place there are fewer wrong answers, rather than a place that is likelier.
    """
    if not draft.lower or not draft.higher:
        return (draft.lower + draft.higher)[:number]
    below = rng.randint(0, number)
    return draft.lower[:below] + draft.higher[: number - below]


def finished(
    rng: random.Random,
    draft: Draft,
    *,
    category: Category,
    topic: str,
    difficulty: Difficulty,
    uses: str,
    source: str,
) -> Question:
    """The question of a draft, with one to four wrong answers, mostly three."""
    return Question(
        prompt=draft.prompt,
        right=draft.right,
        wrong=chosen(rng, draft, number=rng.choices((2, 3, 4), WEIGHTS)[0]),
        category=category,
        topic=topic,
        difficulty=difficulty,
        uses=frozenset({uses}),
        source=source,
    )


def topic(rng: random.Random, name: str, plan: Plan, *, category: Category) -> list[Question]:
    """The questions of one computed topic, maker by maker, no two of them alike.

    Args:
        rng: Where all randomness comes from.
        name: The topic.
        plan: Who makes how many.
        category: The category.
    """
    questions: list[Question] = []
    seen: set[str] = set()
    for maker, difficulty, count in plan:
        for turn in range(count):
            draft = maker(rng, turn)
            while draft.uses in seen:
                draft = maker(rng, turn)
            seen.add(draft.uses)
            questions.append(
                finished(
                    rng,
                    draft,
                    category=category,
                    topic=name,
                    difficulty=difficulty,
                    uses=f"{name}:{draft.uses}",
                    source="computed",
                )
            )
    return questions
