"""Which questions of the pools are taken: none shares a fact with another, and all kinds have their share.

    pools ──▶ as many as go together ──▶ the number needed of each category ──▶ swaps towards an even spread
              (fewest conflicts first)

Two questions that use the same fact may give each other away, or be lost together and be counted twice. So none of both
forms does, whatever its category.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from forgetwatch.errors import ProbeError
from standard_probe.balance import Label, improve
from standard_probe.question import Question
from standard_probe.strata import content, labels, options, stratum

K_SHARES: Final = {2: 0.15, 3: 0.20, 4: 0.45, 5: 0.20}
"""How many options are wanted, as shares of each category."""

_DIFFICULTIES: Final = 3


def select(pools: Mapping[str, Sequence[Question]], needed: Mapping[str, int]) -> list[Question]:
    """So many questions of each category, like ones beside each other.

    Args:
        pools: The questions of each category.
        needed: How many of each category.

    Raises:
        ProbeError: If the pool of a category does not hold so many that share no fact with others taken.
    """
    questions = sorted((question for pool in pools.values() for question in pool), key=stratum)
    together = compatible(questions)
    begin: list[int] = []
    for category, count in sorted(needed.items()):
        own = [place for place in together if questions[place].category == category]
        if len(own) < count:
            raise ProbeError(
                f"category {category!r}: needed {count} questions that share no fact with another, got {len(own)} of "
                f"{len(pools[category])}; add questions on facts of their own"
            )
        begin += sorted(own, key=lambda place: content(questions[place]))[:count]
    return _evened(questions, begin, needed)


def compatible(questions: Sequence[Question]) -> list[int]:
    """Places of questions that share no fact; those that exclude the fewest others are taken first."""
    users: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        for fact in question.uses:
            users.setdefault(fact, []).append(place)
    conflicts = [
        {other for fact in question.uses for other in users[fact]} - {place} for place, question in enumerate(questions)
    ]
    keys = [content(question) for question in questions]
    queue = [(len(conflicts[place]), keys[place], place) for place in range(len(questions))]
    heapq.heapify(queue)
    taken, open_ = [], [True] * len(questions)
    while queue:
        count, _, place = heapq.heappop(queue)
        if not open_[place] or count != len(conflicts[place]):
            continue  # settled, or an entry from before some of its conflicts were
        taken.append(place)
        open_[place] = False
        for excluded in conflicts[place]:
            open_[excluded] = False
        touched = {near for excluded in conflicts[place] for near in conflicts[excluded] if open_[near]}
        for near in sorted(touched):
            conflicts[near] -= conflicts[place]
            heapq.heappush(queue, (len(conflicts[near]), keys[near], near))
    return taken


def _evened(questions: Sequence[Question], begin: Sequence[int], needed: Mapping[str, int]) -> list[Question]:
    """As many questions of each category, with topics, difficulties and numbers of options as even as they can be."""
    used = Counter(fact for place in begin for fact in questions[place].uses)

    def allowed(leaves: int, comes: int) -> bool:
        left, come = questions[leaves].uses, questions[comes].uses
        if any(used[fact] > (fact in left) for fact in come):
            return False
        used.subtract(left)
        used.update(come)
        return True

    found = improve(
        [labels(question) for question in questions],
        begin,
        _even(questions, needed),
        group=[question.category for question in questions],
        allowed=allowed,
    )
    return [questions[place] for place in found]


def _even(questions: Sequence[Question], needed: Mapping[str, int]) -> dict[Label, float]:
    """How many of each label there should be: topics and difficulties alike, options by their shares."""
    topics = Counter(category for category, _ in {(question.category, question.topic) for question in questions})
    wanted = {}
    for question in questions:
        shares = {
            question.topic: 1 / topics[question.category],
            f"difficulty {question.difficulty}": 1 / _DIFFICULTIES,
            f"k {options(question)}": K_SHARES[options(question)],
        }
        for label in labels(question):
            count = needed[question.category] if question.category in label else sum(needed.values())
            wanted[label] = count * math.prod(shares.get(name, 1.0) for name in label)
    return wanted
