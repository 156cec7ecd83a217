"""Assemble pools of questions to the two forms of the probe: 2,000 items and 500 others.

    pools ──▶ selection.py: no fact twice ──▶ strata.py: two forms, in order ──▶ positions.py ──▶ items

The forms are alike in category, topic, difficulty and number of options. They share no question and no fact, so that a
finding with one can be confirmed with the other. The same pools give the same items, byte for byte: nothing is drawn at
random, and ties are broken by a hash of the content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.grading.text import collapse_spaces, fold
from forgetwatch.item import Item
from standard_probe.alike import tie
from standard_probe.positions import gold_positions, options_in_order
from standard_probe.question import Question
from standard_probe.selection import select
from standard_probe.strata import content, ordered, part

STANDARD: Final = 2000
CONFIRMATION: Final = 500

NAMES: Final = {
    "Common Sense": "sense",
    "Culture": "culture",
    "Knowledge/QA": "knowledge",
    "Language": "language",
    "Liberal Arts": "arts",
    "Logic": "logic",
    "Math": "math",
    "Safety/Truth": "safety",
    "Science/Tech": "science",
}
"""Categories, and their prefix in ids and tasks."""

_ID: Final = 6
"""Number of hex digits of an id."""


def assemble(
    pools: Mapping[str, Sequence[Question]], *, standard: int = STANDARD, confirmation: int = CONFIRMATION
) -> tuple[list[Item], list[Item]]:
    """The items of both forms, each in its order.

    Args:
        pools: The questions of each category.
        standard: Number of items of the first form; category sizes differ by at most one.
        confirmation: Number of items of the second form.

    Raises:
        ProbeError: If a question occurs twice, is of another category than its pool, or has two equal options, or if a
            pool is too small.
    """
    check(pools)
    names = sorted(pools)
    sizes = dict(zip(names, _shares(standard, len(names)), strict=True))
    # Counted from the other end, so that no category gives one more to both forms.
    others = dict(zip(reversed(names), _shares(confirmation, len(names)), strict=True))
    chosen = select(tie(pools), {name: sizes[name] + others[name] for name in names})
    second, first = part(chosen, others)
    forms = _items(ordered(first)), _items(ordered(second))
    ids = [item.id for form in forms for item in form]
    if len(set(ids)) < len(ids):
        twice = next(one for one in ids if ids.count(one) > 1)
        raise ProbeError(f"id {twice!r} stands for two questions; change a word of one of them")
    return forms


def check(pools: Mapping[str, Sequence[Question]]) -> None:
    """Raise ProbeError for pools with a question that no probe may contain.

    Raises:
        ProbeError: See `assemble`.
    """
    seen: dict[str, Question] = {}
    for name, pool in sorted(pools.items()):
        if name not in NAMES:
            raise ProbeError(f"needed one of the categories {', '.join(NAMES)}, got {name!r}")
        for question in pool:
            if question.category != name:
                raise ProbeError(f"{question.prompt!r}: needed category {name!r}, got {question.category!r}")
            read = _read(question.prompt)
            if read in seen and seen[read].category == name:
                raise ProbeError(
                    f"{question.prompt!r} occurs twice, as {name}, {seen[read].topic} and as {name}, {question.topic}; "
                    "take one out"
                )
            seen[read] = question
            options = [_read(option) for option in (question.right, *question.wrong)]
            if len(set(options)) < len(options):
                raise ProbeError(f"{question.prompt!r}: two of the options read the same: {', '.join(options)}")


def _read(text: str) -> str:
    """The text as a reader compares it: without case, width and spacing."""
    return collapse_spaces(fold(text).casefold())


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (index < total % parts) for index in range(parts)]


def _items(questions: Sequence[Question]) -> list[Item]:
    return [_item(question, gold) for question, gold in zip(questions, gold_positions(questions), strict=True)]


def _item(question: Question, gold: int) -> Item:
    name = NAMES[question.category]
    return Item(
        id=f"{name}-{content(question)[:_ID]}",
        task=f"{name}:{question.topic}",
        category=question.category,
        prompt=f"Question: {question.prompt}\nAnswer:",
        choices=options_in_order(question, gold),
        answer=gold,
        tags=(f"difficulty:{question.difficulty}",),
        meta={"source": question.source},
    )
