"""Where the right option stands: each place equally often among items with as many options.

Some models favour the first option, or the second. Within each category, and over all, the places of the items with k
options are used equally often, give or take one; nearly so in every beginning of the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from standard_probe.question import Question
from standard_probe.strata import content, digest, options


def gold_positions(questions: Sequence[Question]) -> list[int]:
    """The place of each question's right option, in the order of the questions."""
    own, of_all = Counter[tuple[str, int, int]](), Counter[tuple[int, int]]()
    golds = []
    for question in questions:
        category, k, key = question.category, options(question), content(question)
        gold = min(range(k), key=lambda at: (own[category, k, at], of_all[k, at], digest(key, str(at))))
        own[category, k, gold] += 1
        of_all[k, gold] += 1
        golds.append(gold)
    for k in sorted({k for k, _ in of_all}):
        _even_out([place for place, question in enumerate(questions) if options(question) == k], k, questions, golds)
    return golds


def _even_out(places: Sequence[int], k: int, questions: Sequence[Question], golds: list[int]) -> None:
    """Move right options until no place is used two times more often than another among these questions.

    Where it is, some category uses it once more often too, and its last such question is moved: that keeps the category
    even.
    """
    while True:
        of_all = Counter(golds[place] for place in places)
        much, little = max(range(k), key=lambda at: of_all[at]), min(range(k), key=lambda at: of_all[at])
        if of_all[much] - of_all[little] < 2:
            return
        own = Counter((questions[place].category, golds[place]) for place in places)
        moved = next(
            place
            for place in reversed(places)
            if golds[place] == much and own[questions[place].category, much] > own[questions[place].category, little]
        )
        golds[moved] = little


def options_in_order(question: Question, gold: int) -> tuple[str, ...]:
    """The options as they are appended to the prompt, the right one in its place."""
    wrong = sorted(question.wrong, key=lambda option: digest(content(question), option))
    return tuple(f" {option}" for option in (*wrong[:gold], question.right, *wrong[gold:]))
