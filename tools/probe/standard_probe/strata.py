"""Strata of questions, and an order in which every prefix is like the whole.

    all 2,000 ──▶ two halves that are alike ──▶ each again ──▶ ...
                  first 1,000 | the rest       500 | 500

So the first 1,000, 500, 250, 125, ... are stratified samples of all, and every other prefix nearly is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from standard_probe.balance import Label, improve
from standard_probe.commonness import rank
from standard_probe.question import Question, digest


def content(question: Question) -> str:
    """Hash of a question that does not depend on the order of its wrong options, 64 hex digits."""
    return digest(question.prompt, question.right, *sorted(question.wrong))


def options(question: Question) -> int:
    """The number of options."""
    return 1 + len(question.wrong)


def labels(question: Question) -> tuple[Label, ...]:
    """Labels of a question, by which parts are balanced: its properties, and combinations of them."""
    category, topic = question.category, question.topic
    difficulty, k = f"difficulty {question.difficulty}", f"k {options(question)}"
    return (
        *((category,), (category, topic), (difficulty,), (k,), (difficulty, k)),
        *((category, difficulty), (category, k), (category, topic, difficulty), (category, topic, k)),
        (category, topic, difficulty, k),
        (category, k, f"{k}, rank {rank(question)}"),
    )


def stratum(question: Question) -> tuple[str, str, int, int, str]:
    """Sort key that puts similar questions next to each other; the content breaks ties."""
    return question.category, question.topic, question.difficulty, options(question), content(question)


def part(questions: Sequence[Question], sizes: dict[str, int]) -> tuple[list[Question], list[Question]]:
    """(part, rest) of the questions: a part of given sizes that is like the whole, both in the order given.

    Args:
        questions: The questions, sorted by `stratum`.
        sizes: Number of questions of each category in the part.
    """
    of_category = Counter(question.category for question in questions)
    total, size = len(questions), sum(sizes.values())
    begin, seen = [], Counter[str]()
    for index, question in enumerate(questions):
        category, number = question.category, seen[question.category]
        seen[category] += 1
        # Every n-th of a category: a question is taken when the share of those seen reaches the next integer.
        size_here, of_here = sizes[category], of_category[category]
        if (number + 1) * size_here // of_here > number * size_here // of_here:
            begin.append(index)
    all_labels = [labels(question) for question in questions]
    counts = Counter(label for own in all_labels for label in own)
    wanted = {label: count * size / total for label, count in counts.items()}
    inside = set(improve(all_labels, begin, wanted, group=[question.category for question in questions]))
    first = [question for index, question in enumerate(questions) if index in inside]
    return first, [question for index, question in enumerate(questions) if index not in inside]


def ordered(questions: Sequence[Question]) -> list[Question]:
    """The questions in an order whose first half, first quarter, ... are each like the whole."""
    if len(questions) < 2:
        return list(questions)
    first, rest = part(questions, _halves(questions))
    return ordered(first) + ordered(rest)


def _halves(questions: Sequence[Question]) -> dict[str, int]:
    """Half the size of each category; odd sizes are rounded up and down in turn, so that the sum is half of all."""
    sizes: dict[str, int] = {}
    before = taken = 0
    for category, count in sorted(Counter(question.category for question in questions).items()):
        before += count
        sizes[category] = (before + 1) // 2 - taken
        taken += sizes[category]
    return sizes
