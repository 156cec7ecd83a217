"""What holds for the questions of every category that is made from tables of facts."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence

from forgetwatch.probes.standard.question import Question

SEEDS = range(4)


def by_sources(pool: Callable[[random.Random], list[Question]], source: str) -> list[Question]:
    """The questions of some draws of a pool that have one source."""
    return [question for seed in SEEDS for question in pool(random.Random(seed)) if question.source == source]


def check_pool(pool: Callable[[random.Random], list[Question]]) -> None:
    """Enough questions without a shared fact, the same on every call, and of the shares that are wanted."""
    questions = pool(random.Random(7))
    assert questions == pool(random.Random(7))
    assert questions != pool(random.Random(8))
    assert len({question.prompt for question in questions}) == len(questions)
    used = Counter(fact for question in questions for fact in question.uses)
    assert max(used.values()) == 1
    assert len(questions) >= 300
    topics = Counter(question.topic for question in questions)
    assert 5 <= len(topics) <= 12
    assert min(topics.values()) >= 20
    assert max(topics.values()) <= len(questions) / 4
    difficulties = Counter(question.difficulty for question in questions)
    assert min(difficulties.values()) >= 0.23 * len(questions)
    options = Counter(1 + len(question.wrong) for question in questions)
    for k, low, high in ((2, 0.10, 0.20), (3, 0.15, 0.26), (4, 0.38, 0.52), (5, 0.15, 0.25)):
        assert low <= options[k] / len(questions) <= high


def check_options(pool: Callable[[random.Random], list[Question]]) -> None:
    """No chooser that sees the options alone does much better or worse than chance."""
    choosers: tuple[Callable[[str], object], ...] = (len, lambda text: -len(text), str.casefold, _backwards, _size)
    for seed in SEEDS:
        questions = pool(random.Random(seed))
        chance = sum(1 / (1 + len(question.wrong)) for question in questions) / len(questions)
        for chooser in choosers:
            assert abs(_rate(questions, chooser) - chance) < 0.08
        answers = Counter(question.right for question in questions if question.wrong in (("Yes",), ("No",)))
        assert answers["Yes"] == answers["No"] > 0


def _rate(questions: Sequence[Question], key: Callable[[str], object]) -> float:
    """How often the option with the least key is right; ties are broken evenly."""
    hits = 0.0
    for question in questions:
        options = (question.right, *question.wrong)
        best = min(map(key, options))  # type: ignore[type-var]
        chosen = [option for option in options if key(option) == best]
        hits += (question.right in chosen) / len(chosen)
    return hits / len(questions)


def _backwards(text: str) -> tuple[int, ...]:
    """A key by which the last in the alphabet comes first."""
    return (*(-ord(letter) for letter in text.casefold()), 0)


def _size(text: str) -> float:
    """The first number in a text, or nothing."""
    found = re.search(r"\d[\d,]*\.?\d*", text)
    return float(found.group().replace(",", "")) if found else 0.0
