"""Select questions of the pools such that no two share a fact and all kinds have their share.

    pools ──▶ as many as are compatible ──▶ the number needed of each category ──▶ swaps towards an even spread
              (fewest conflicts first)

Two questions that use the same fact may give each other away, or be lost together and be counted twice. So no two
questions of the two forms do, in any category.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from forgetwatch.errors import ProbeError
from standard_probe.balance import Label, improve
from standard_probe.commonness import rank
from standard_probe.question import Question
from standard_probe.strata import content, labels, options, stratum

K_SHARES: Final = {2: 0.028, 3: 0.172, 4: 0.60, 5: 0.20}
"""Wanted share of each number of options, within each category; two options are yes and no."""

_RAMP: Final = {0: 0.20, 1: 0.24, 2: 0.24, 3: 0.20, 4: 0.12}
_WITH_TAIL: Final = {1: 0.29, 2: 0.29, 3: 0.29, 4: 0.07, 5: 0.06}
_SHORT_TAIL: Final = {1: 0.30, 2: 0.31, 3: 0.30, 4: 0.05, 5: 0.04}
_EVERYDAY: Final = {1: 1 / 3, 2: 1 / 3, 3: 1 / 3}

LEVEL_SHARES: Final[Mapping[str, Mapping[int, float]]] = {
    "Common Sense": _EVERYDAY,
    "Culture": _WITH_TAIL,
    "Knowledge/QA": _WITH_TAIL,
    "Language": _SHORT_TAIL,
    "Liberal Arts": _WITH_TAIL,
    "Logic": _RAMP,
    "Math": _RAMP,
    "Safety/Truth": _EVERYDAY,
    "Science/Tech": _WITH_TAIL,
}
"""Wanted share of each judged difficulty: a small model needs questions that it can lose, a large one some that it does
not find easy. Everyday matters have no questions that only specialists can answer."""


def select(pools: Mapping[str, Sequence[Question]], needed: Mapping[str, int]) -> list[Question]:
    """Select a number of questions of each category, sorted by their strata.

    Args:
        pools: The questions of each category.
        needed: Number of questions of each category.

    Raises:
        ProbeError: If the pool of a category has too few questions that share no fact with others.
    """
    questions = sorted((question for pool in pools.values() for question in pool), key=stratum)
    together = compatible(questions)
    begin: list[int] = []
    for category, count in sorted(needed.items()):
        own = [index for index in together if questions[index].category == category]
        if len(own) < count:
            raise ProbeError(
                f"category {category!r}: needed {count} questions that share no fact with another, got {len(own)} of "
                f"{len(pools[category])}; add questions on facts of their own"
            )
        begin += sorted(own, key=lambda index: content(questions[index]))[:count]
    return _even_out(questions, begin, needed)


def compatible(questions: Sequence[Question]) -> list[int]:
    """Indices of questions that share no fact, by the greedy rule that those with the fewest conflicts go first."""
    users: dict[str, list[int]] = {}
    for index, question in enumerate(questions):
        for fact in question.uses:
            users.setdefault(fact, []).append(index)
    conflicts = [
        {other for fact in question.uses for other in users[fact]} - {index} for index, question in enumerate(questions)
    ]
    keys = [content(question) for question in questions]
    queue = [(len(conflicts[index]), keys[index], index) for index in range(len(questions))]
    heapq.heapify(queue)
    taken, is_open = [], [True] * len(questions)
    while queue:
        count, _, index = heapq.heappop(queue)
        # A heap cannot update an entry: a question with fewer conflicts is pushed again, and old entries are skipped.
        if not is_open[index] or count != len(conflicts[index]):
            continue
        taken.append(index)
        is_open[index] = False
        for excluded in conflicts[index]:
            is_open[excluded] = False
        touched = {near for excluded in conflicts[index] for near in conflicts[excluded] if is_open[near]}
        for near in sorted(touched):
            conflicts[near] -= conflicts[index]
            heapq.heappush(queue, (len(conflicts[near]), keys[near], near))
    return taken


def _even_out(questions: Sequence[Question], begin: Sequence[int], needed: Mapping[str, int]) -> list[Question]:
    """The same number of questions of each category, with topics, difficulties and k as even as swaps can make them."""
    used = Counter(fact for index in begin for fact in questions[index].uses)

    def allowed(leaves: int, comes: int) -> bool:
        # The number of uses allowed of a fact is 1 if the question that leaves uses it, else 0.
        left, come = questions[leaves].uses, questions[comes].uses
        if any(used[fact] > (fact in left) for fact in come):
            return False
        used.subtract(left)
        used.update(come)
        return True

    found = improve(
        [labels(question) for question in questions],
        begin,
        _wanted(questions, needed),
        group=[question.category for question in questions],
        allowed=allowed,
    )
    return [questions[index] for index in found]


def _wanted(questions: Sequence[Question], needed: Mapping[str, int]) -> dict[Label, float]:
    """Wanted number of each label: topics equally, the others by their shares."""
    topics = Counter(category for category, _ in {(question.category, question.topic) for question in questions})
    shares: dict[str, dict[str, float]] = {category: {category: 1.0} for category in needed}
    for question in questions:
        own = shares[question.category]
        own[question.topic] = 1 / topics[question.category]
        own[f"k {options(question)}"] = K_SHARES[options(question)]
        level = LEVEL_SHARES[question.category].get(question.difficulty, 0.0)
        own[f"difficulty {question.difficulty}"] = level
        own[f"k {options(question)}, rank {rank(question)}"] = 1 / options(question)
    return {
        label: sum(
            count * math.prod(shares[category].get(name, 0.0) for name in label) for category, count in needed.items()
        )
        for label in {label for question in questions for label in labels(question)}
    }
