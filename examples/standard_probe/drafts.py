"""Drafts of computed questions, and the choice of their wrong answers.

    draft: prompt, right, mistakes  ──▶  question: prompt, right, wrong

The mistakes are the results of typical errors: a carry forgotten, the wrong operation, a step left out. Where they are
numbers, the position of the right answer among the sorted options is drawn first, so that taking the smallest, the
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
        lower: Wrong answers below the right one, the likeliest mistake first; empty for words.
        higher: Wrong answers above it, or words.
        uses: Description of the computation; the same text means the same question.
    """

    prompt: str
    right: str
    lower: tuple[str, ...]
    higher: tuple[str, ...]
    uses: str


Difficulty: TypeAlias = Literal[1, 2, 3]

Maker: TypeAlias = Callable[[random.Random, int], Draft]
"""Function that makes a draft; the integer counts its questions, so that yes and no can alternate."""

Plan: TypeAlias = Sequence[tuple[Maker, Difficulty, int]]
"""Makers with the difficulty and the number of their questions."""

WEIGHTS = (14, 38, 36)
"""Weights of two, three and four wrong answers; many drafts have fewer than four."""


def decimal(value: Number) -> str:
    """The exact value in decimal digits; a fraction such as 1/3 if they do not end.

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
    """The values one step above and below, for each step in turn."""
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
        mistakes: Results of errors, the likeliest first; one that equals the right number is left out.
        uses: Description of the computation.
        form: Function that writes a number.
        signed: True if zero and negative numbers can be options.
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


def choose_wrong(rng: random.Random, draft: Draft, *, number: int) -> tuple[str, ...]:
    """Choose `number` of the draft's wrong answers, after drawing the right one's position among them.

    If one side has too few for that position there are fewer wrong answers, so that no position is likelier.
    """
    if not draft.lower or not draft.higher:
        return (draft.lower + draft.higher)[:number]
    # The draw ignores the number of mistakes on each side: a short side must not move the right answer.
    below = rng.randint(0, number)
    return draft.lower[:below] + draft.higher[: number - below]


def finish(
    rng: random.Random,
    draft: Draft,
    *,
    category: Category,
    topic: str,
    difficulty: Difficulty,
    uses: str,
    source: str,
) -> Question:
    """Make the question of a draft, with one to four wrong answers, mostly three."""
    return Question(
        prompt=draft.prompt,
        right=draft.right,
        wrong=choose_wrong(rng, draft, number=rng.choices((2, 3, 4), WEIGHTS)[0]),
        category=category,
        topic=topic,
        difficulty=difficulty,
        uses=frozenset({uses}),
        source=source,
    )


def topic(rng: random.Random, name: str, plan: Plan, *, category: Category) -> list[Question]:
    """The questions of one computed topic, maker by maker, no two of them alike.

    Args:
        rng: Source of all randomness.
        name: The topic.
        plan: The makers, with difficulty and number.
        category: The category.
    """
    questions: list[Question] = []
    seen: set[str] = set()
    for maker, difficulty, count in plan:
        for turn in range(count):
            draft = maker(rng, turn)
            while draft.uses in seen:  # the same computation again: draw another
                draft = maker(rng, turn)
            seen.add(draft.uses)
            questions.append(
                finish(
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
