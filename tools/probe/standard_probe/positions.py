"""Positions of the right option: each equally often among items with the same number of options.

Some models favour the first option, or the second. Within each category, and over all, the counts of the k positions
differ by at most one; in a prefix of the order they differ little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from standard_probe.question import Question, digest
from standard_probe.strata import content, options


def gold_positions(questions: Sequence[Question]) -> list[int]:
    """Position of each question's right option, in the order of the questions."""
    # Greedy: the position that is rarest in the category, then over all; the content breaks ties.
    own, of_all = Counter[tuple[str, int, int]](), Counter[tuple[int, int]]()
    golds = []
    for question in questions:
        category, k, key = question.category, options(question), content(question)
        gold = min(range(k), key=lambda p: (own[category, k, p], of_all[k, p], digest(key, str(p))))
        own[category, k, gold] += 1
        of_all[k, gold] += 1
        golds.append(gold)
    for k in sorted({k for k, _ in of_all}):
        _even_out([index for index, question in enumerate(questions) if options(question) == k], k, questions, golds)
    return golds


def _even_out(indices: Sequence[int], k: int, questions: Sequence[Question], golds: list[int]) -> None:
    """Move right options until the counts of the k positions differ by at most one among some questions.

    If the counts differ by two or more, some category uses the frequent position once more than the rare one. Its last
    such question is moved, which keeps the counts of the category within one of each other.
    """
    while True:
        of_all = Counter(golds[index] for index in indices)
        most, least = max(range(k), key=lambda p: of_all[p]), min(range(k), key=lambda p: of_all[p])
        if of_all[most] - of_all[least] < 2:
            return
        own = Counter((questions[index].category, golds[index]) for index in indices)
        moved = next(
            index
            for index in reversed(indices)
            if golds[index] == most and own[questions[index].category, most] > own[questions[index].category, least]
        )
        golds[moved] = least


def options_in_order(question: Question, gold: int) -> tuple[str, ...]:
    """The options as they are appended to the prompt, the right one at its position."""
    wrong = sorted(question.wrong, key=lambda option: digest(content(question), option))
    return tuple(f" {option}" for option in (*wrong[:gold], question.right, *wrong[gold:]))
