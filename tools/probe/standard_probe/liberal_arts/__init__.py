"""The category Liberal Arts: history, philosophy, the social sciences, religions, art history, business.

Its tables and modules:

    facts/liberal_arts.csv    facts, most of the category
    facts/events.csv          years of events, from which their order is computed
    sums.py                   sums of economists and accountants
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from standard_probe.fact_tables import Fact, ask_all, read_facts
from standard_probe.liberal_arts.sums import sums
from standard_probe.question import Level, Question, alike_in_length

_SIZES: Final = (4, 4, 3, 4, 5)
"""Number of events that are put in order, question by question."""

_APART: Final = 8
"""Minimum number of years between two of them."""

_FIRST: Final = ("Which came first: {}?", "What happened first: {}?")
_LAST: Final = ("Which came last: {}?", "What happened last: {}?")


def questions(rng: random.Random) -> list[Question]:
    """Pool of the category: a question for each fact, orders of events, and sums."""
    asked = ask_all(read_facts("liberal_arts"), category="Liberal Arts", rng=rng)
    return [*asked, *_orders(rng), *sums(rng)]


def _orders(rng: random.Random) -> list[Question]:
    """Questions for the first or last of a group of events; each event is in at most one group."""
    left = read_facts("events")
    rng.shuffle(left)
    made: list[Question] = []
    while left:
        group = _group(left, size=_SIZES[len(made) % len(_SIZES)])
        left = [event for event in left[1:] if event not in group]
        if len(group) > 2:
            made.append(_order(group, rng))
    return made


def _group(left: Sequence[Fact], *, size: int) -> list[Fact]:
    """The first event left, and the next ones that are far enough apart in time and alike in length."""
    group = [left[0]]
    for event in left[1:]:
        apart = min(abs(_year(event) - _year(other)) for other in group)
        alike = alike_in_length([other.subject for other in (*group, event)])
        if len(group) < size and apart >= _APART and alike:
            group.append(event)
    return group


def _order(group: list[Fact], rng: random.Random) -> Question:
    """Question for the first or the last of the named events."""
    texts, pick = rng.choice(((_FIRST, min), (_LAST, max)))
    right = pick(group, key=_year)
    names = [event.subject for event in group]
    gap = min(abs(_year(right) - _year(event)) for event in group if event is not right)
    difficulty: Level = 1 if gap > 200 else 2 if gap > 70 else 3 if gap > 20 else 4
    return Question(
        prompt=rng.choice(texts).format(f"{', '.join(names[:-1])} or {names[-1]}"),
        right=right.subject,
        wrong=tuple(name for name in names if name != right.subject),
        category="Liberal Arts",
        topic="order of events",
        difficulty=difficulty,
        uses=frozenset(f"event:{name}" for name in names),
        source=right.source,
    )


def _year(event: Fact) -> int:
    """Year of an event; negative before Christ."""
    return int(event.answer)
