"""Questions by what they are like, and orders in which every beginning is like the whole.

    all 2,000 ──▶ two halves that are alike ──▶ each again ──▶ ...
                  first 1,000 | the rest       500 | 500

So the first 1,000, 500, 250, 125, ... are stratified samples of all, and so is, nearly, every other beginning.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from standard_probe.balance import Label, improve
from standard_probe.question import Question


def digest(*texts: str) -> str:
    """SHA-256 of the texts, 64 hex digits: an order that is nobody's choice, and a name."""
    return hashlib.sha256("\x1f".join(texts).encode()).hexdigest()


def content(question: Question) -> str:
    """What stands for a question, whatever the order of its options: 64 hex digits."""
    return digest(question.prompt, question.right, *sorted(question.wrong))


def options(question: Question) -> int:
    """The number of options."""
    return 1 + len(question.wrong)


def labels(question: Question) -> tuple[Label, ...]:
    """What a question counts towards."""
    category, topic = question.category, question.topic
    difficulty, k = f"difficulty {question.difficulty}", f"k {options(question)}"
    return (
        *((category,), (category, topic), (difficulty,), (k,), (difficulty, k)),
        *((category, difficulty), (category, k), (category, topic, difficulty), (category, topic, k)),
        (category, topic, difficulty, k),
    )


def stratum(question: Question) -> tuple[str, str, int, int, str]:
    """Sorts like questions beside each other; the content decides between equals."""
    return question.category, question.topic, question.difficulty, options(question), content(question)


def part(questions: Sequence[Question], sizes: dict[str, int]) -> tuple[list[Question], list[Question]]:
    """So many questions of each category that are like all of them, and the others; both in the order given.

    Args:
        questions: Like questions beside each other.
        sizes: How many of each category the part gets.
    """
    of_category = Counter(question.category for question in questions)
    total, size = len(questions), sum(sizes.values())
    begin, seen = [], Counter[str]()
    for place, question in enumerate(questions):
        category, number = question.category, seen[question.category]
        seen[category] += 1
        # Every n-th of a category: the point at which its share passes the next whole number.
        share, all_ = sizes[category], of_category[category]
        if (number + 1) * share // all_ > number * share // all_:
            begin.append(place)
    all_labels = [labels(question) for question in questions]
    there = Counter(label for one in all_labels for label in one)
    wanted = {label: count * size / total for label, count in there.items()}
    inside = set(improve(all_labels, begin, wanted, group=[question.category for question in questions]))
    first = [question for place, question in enumerate(questions) if place in inside]
    return first, [question for place, question in enumerate(questions) if place not in inside]


def ordered(questions: Sequence[Question]) -> list[Question]:
    """The questions so that each half of a half of ... from the beginning is like the whole."""
    if len(questions) < 2:
        return list(questions)
    first, rest = part(questions, _halves(questions))
    return ordered(first) + ordered(rest)


def _halves(questions: Sequence[Question]) -> dict[str, int]:
    """Half of each category; odd ones are rounded in turn, so that the sum is half of all."""
    sizes: dict[str, int] = {}
    before = taken = 0
    for category, count in sorted(Counter(question.category for question in questions).items()):
        before += count
        sizes[category] = (before + 1) // 2 - taken
        taken += sizes[category]
    return sizes
