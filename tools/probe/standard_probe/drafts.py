"""Drafts of computed questions, and the choice of their wrong answers.

    draft: prompt, right  ──▶  right answers of other drafts of the same maker  ──▶  question: prompt, right, wrong

A number without listed mistakes gets the nearest right answers of other drafts as its wrong ones. So right and wrong
numbers come from one distribution: nothing in a number alone (its roundness, length or frequency) shows that it is
right. No such option is a number of the prompt, since models tend to copy one. Mistakes are listed where typical errors
are known: a carry forgotten, the wrong operation.

The position of the right answer among the sorted numbers is drawn first, so that taking the smallest, the largest or
the middle number is no better than guessing. All options are alike in length.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from standard_probe.question import YES_NO, Category, Level, Question, alike_in_length

Number: TypeAlias = int | Fraction


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A question whose wrong answers are still to be chosen.

    Attributes:
        prompt: The question.
        right: The right answer.
        lower: Wrong answers below the right one, the likeliest mistake first; empty for words.
        higher: Wrong answers above it, or words. If both are empty, they are right answers of other drafts.
        uses: Description of the computation; the same text means the same question.
        value: The right number; None for words.
        like: Kind of number; only drafts of the same kind give each other wrong answers.
    """

    prompt: str
    right: str
    lower: tuple[str, ...]
    higher: tuple[str, ...]
    uses: str
    value: Number | None = None
    like: str = ""


Maker: TypeAlias = Callable[[random.Random, int], Draft]
"""Function that makes a draft; the integer counts its questions, so that yes and no can alternate."""

Plan: TypeAlias = Sequence[tuple[Maker, Level, int]]
"""Makers with the difficulty and the number of their questions."""

WEIGHTS: Final = (11, 62, 27)
"""Weights of two, three and four wrong answers; drafts of words can have fewer than four."""

_OTHERS: Final = 200
"""Number of other drafts from which wrong numbers are chosen."""

_WINDOW: Final = 16
"""Number of the nearest of them on each side of the right number from which wrong ones are drawn."""

_TRIES: Final = 2000
"""Maximum number of drafts drawn for one question."""


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
    mistakes: Iterable[Number] = (),
    *,
    uses: str,
    form: Callable[[Number], str] = decimal,
    signed: bool = False,
    like: str = "",
) -> Draft:
    """A draft whose options are numbers.

    Args:
        prompt: The question.
        right: The right number.
        mistakes: Results of errors, the likeliest first; one that equals the right number is left out. Empty for right
            answers of other drafts.
        uses: Description of the computation.
        form: Function that writes a number.
        signed: True if zero and negative numbers can be mistakes.
        like: See `Draft`.
    """
    kept = dict.fromkeys(value for value in mistakes if value != right and (signed or value > 0))
    return Draft(
        prompt=prompt,
        right=form(right),
        lower=tuple(form(value) for value in kept if value < right),
        higher=tuple(form(value) for value in kept if value > right),
        uses=uses,
        value=right,
        like=like,
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
    """Choose up to `number` of the draft's wrong answers, such that all options are alike in length.

    The position of the right number among them is drawn first. If one side has too few for that position there are
    fewer wrong answers, so that no position is likelier.
    """
    if not draft.lower or not draft.higher:
        listed = draft.lower + draft.higher
        return _alike(draft.right, (), listed, number)
    # The draw ignores the number of mistakes on each side: a short side must not move the right answer.
    below = rng.randint(0, number)
    lower = _alike(draft.right, (), draft.lower, below)
    return lower + _alike(draft.right, lower, draft.higher, number - below)


def _alike(right: str, chosen: Sequence[str], candidates: Sequence[str], number: int) -> tuple[str, ...]:
    """The first `number` candidates that are alike in length with the options chosen before them."""
    added: list[str] = []
    for candidate in candidates:
        if len(added) == number:
            break
        if candidate not in (right, *chosen, *added) and alike_in_length((right, *chosen, *added, candidate)):
            added.append(candidate)
    return tuple(added)


def _from_others(rng: random.Random, draft: Draft, others: Sequence[Draft], *, number: int) -> tuple[str, ...]:
    """Wrong numbers for a draft: the nearest right ones of other drafts; empty if the draft is to be dropped."""
    assert draft.value is not None
    value, given = draft.value, _numbers(draft.prompt)
    if _numbers(draft.right) <= given:
        return ()
    usable = [
        (abs(other.value - value), other.value > value, other.right)
        for other in others
        if other.value is not None and other.value != value
        if other.like == draft.like and not _numbers(other.right) <= given
    ]
    # With repetitions, and in random order within a window: a number that is right more often is wrong more often.
    sides: list[list[str]] = []
    for is_above in (False, True):
        near_first = [text for _, above, text in sorted(usable) if above == is_above]
        sides.append(rng.sample(near_first[:_WINDOW], len(near_first[:_WINDOW])) + near_first[_WINDOW:])
    below = rng.randint(0, number)
    lower = _alike(draft.right, (), sides[0], below)
    wrong = lower + _alike(draft.right, lower, sides[1], number - below)
    return wrong if len(wrong) == number else ()


def _numbers(text: str) -> set[str]:
    """The numbers in a text, as they are written."""
    return set(re.findall(r"\d+(?:[.:/]\d+)*", text))


def finish(
    rng: random.Random,
    draft: Draft,
    *,
    category: Category,
    topic: str,
    difficulty: Level,
    uses: str,
    source: str,
    wrong: tuple[str, ...] = (),
) -> Question:
    """Make the question of a draft, with one to four wrong answers, mostly three.

    Args:
        rng: Source of all randomness.
        draft: The draft.
        category: The category.
        topic: The topic.
        difficulty: The judged difficulty.
        uses: Name of the fact.
        source: Source of the fact.
        wrong: The wrong answers; empty to choose them from the draft's.
    """
    return Question(
        prompt=draft.prompt,
        right=draft.right,
        wrong=wrong or choose_wrong(rng, draft, number=_how_many(rng)),
        category=category,
        topic=topic,
        difficulty=difficulty,
        uses=frozenset({uses}),
        source=source,
    )


def _how_many(rng: random.Random) -> int:
    return rng.choices((2, 3, 4), WEIGHTS)[0]


def topic(rng: random.Random, name: str, plan: Plan, *, category: Category) -> list[Question]:
    """The questions of one computed topic, maker by maker, no two of them alike.

    Args:
        rng: Source of all randomness.
        name: The topic.
        plan: The makers, with difficulty and number.
        category: The category.

    Raises:
        ValueError: If a maker has too few different questions with options of like length.
    """
    questions: list[Question] = []
    seen: set[str] = set()
    for maker, difficulty, count in plan:
        for turn in range(count):
            draft, wrong = _new(rng, maker, turn, seen)
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
                    wrong=wrong,
                )
            )
    return questions


def _new(rng: random.Random, maker: Maker, turn: int, seen: set[str]) -> tuple[Draft, tuple[str, ...]]:
    """A draft that is not among the seen ones, and its wrong answers."""
    others: list[Draft] = []
    for _ in range(_TRIES):
        draft, number = maker(rng, turn), _how_many(rng)
        if draft.uses in seen:
            continue
        if draft.lower or draft.higher:
            wrong = choose_wrong(rng, draft, number=number)
        else:
            others = others or [maker(rng, turn) for _ in range(_OTHERS)]
            wrong = _from_others(rng, draft, others, number=number)
        if len(wrong) > 1 or {draft.right.casefold(), *map(str.casefold, wrong)} == YES_NO:
            return draft, wrong
    raise ValueError(
        f"{maker.__name__}, turn {turn}: needed a new question with options of like length, got none in {_TRIES} drafts"
    )
