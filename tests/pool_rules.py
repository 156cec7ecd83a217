"""What every pool of questions of the standard probe must keep, and how a question is solved a second time.

A solver is a list of patterns with functions: exactly one pattern may fit a question, and its function gets what the
pattern's brackets hold, as numbers where they are numbers. It works the answer out by another way than the package.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from forgetwatch.probes.standard.question import Question

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


def chosen_apart(questions: list[Question]) -> int:
    """How many questions a greedy choice takes so that no two share a fact."""
    taken: set[str] = set()
    count = 0
    for question in questions:
        if not question.uses & taken:
            taken |= question.uses
            count += 1
    return count


def _edge(questions: list[Question], key: Callable[[str], Any]) -> float:
    """How much more often than by chance the option that is first by this key is right."""
    edge = 0.0
    for question in questions:
        options = (question.right, *question.wrong)
        first = min(map(key, options))
        ties = [option for option in options if key(option) == first]
        edge += (question.right in ties) / len(ties) - 1 / len(options)
    return edge / len(questions)


def _zeros(option: str) -> int:
    return len(option) - len(option.rstrip("0"))


CHOOSERS: dict[str, Callable[[str], Any]] = {
    "longest": lambda option: -len(option),
    "shortest": len,
    "first by the alphabet": str,
    "smallest": lambda option: number(option) or 0,
    "largest": lambda option: -(number(option) or 0),
    "roundest": lambda option: -_zeros(option),
    "least round": _zeros,
}


def assert_pool(make: Callable[[random.Random], list[Question]], category: str) -> None:
    """The rules that hold for every category."""
    pools = [make(random.Random(seed)) for seed in SEEDS]
    assert make(random.Random(SEEDS[0])) == pools[0]
    for pool in pools:
        assert {question.category for question in pool} == {category}
        assert chosen_apart(pool) >= 300
        assert len({question.prompt for question in pool}) == len(pool)
        sizes = Counter(question.topic for question in pool)
        assert 5 <= len(sizes) <= 14
        assert min(sizes.values()) >= 20
        assert max(sizes.values()) <= len(pool) / 4
        options = Counter(len(question.wrong) + 1 for question in pool)
        for k, share in {2: 0.15, 3: 0.20, 4: 0.45, 5: 0.20}.items():
            assert abs(options[k] / len(pool) - share) < 0.11, (k, options)
        levels = Counter(question.difficulty for question in pool)
        assert min(levels.values()) / len(pool) > 0.2, levels
        answers = Counter(q.right for q in pool if {q.right, *q.wrong} == {"Yes", "No"})
        assert answers["Yes"] == answers["No"] > 0
        for question in pool:
            assert question.prompt.strip() == question.prompt
            assert "None" not in question.prompt
    every = [question for pool in pools for question in pool]
    for name, key in CHOOSERS.items():
        assert abs(_edge(every, key)) < 0.08, name
        assert max(abs(_edge(pool, key)) for pool in pools) < 0.12, name
