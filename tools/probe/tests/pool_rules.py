"""Second solution of a question of the standard probe.

A solver is a list of patterns with functions: exactly one pattern may fit a question, and its function gets the
pattern's groups, as numbers where they are numbers. It computes the answer in another way than the generator.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from standard_probe.question import Question

SEEDS = (0, 1, 2, 3, 7)
Solver = Sequence[tuple[str, Callable[..., Any]]]


def number(text: str) -> Fraction | None:
    """The number that an option is, without its unit; None for words."""
    try:
        return Fraction(text.removesuffix("%").removesuffix("°").removesuffix("π"))
    except ValueError:
        return None


def solve(question: Question, solver: Solver) -> Any:
    """The answer that the one fitting pattern's function gives."""
    found = [(match, work) for pattern, work in solver if (match := re.search(pattern, question.prompt))]
    assert len(found) == 1, (question.prompt, [match.re.pattern for match, _ in found])
    match, work = found[0]
    return work(*(int(text) if text is not None and re.fullmatch(r"-?\d+", text) else text for text in match.groups()))


def assert_solved(question: Question, answer: Any) -> None:
    """The right option is this answer, and no wrong one is."""
    if isinstance(answer, bool):
        answer = "Yes" if answer else "No"

    def agrees(option: str) -> bool:
        return option == answer if isinstance(answer, str) else number(option) == answer

    assert agrees(question.right), (question, answer)
    assert not any(agrees(option) for option in question.wrong), (question, answer)


def by_source(pool: Callable[[random.Random], list[Question]], source: str) -> list[Question]:
    """The questions of some draws of a pool that have one source."""
    return [question for seed in SEEDS for question in pool(random.Random(seed)) if question.source == source]
