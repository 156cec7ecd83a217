"""Assemble pools of questions to the two forms of the probe: 2,000 items and 500 others.

    pools ──▶ selection.py: no fact twice ──▶ worked examples ──▶ strata.py: two forms ──▶ positions.py ──▶ items

Before each question stand five worked examples of its category, the same in both forms. They come from a third part of
the pools, so that no form gives away a fact of the other.

The forms are alike in category, topic, difficulty and number of options. They share no question and no fact, so that a
finding with one can be confirmed with the other. The same pools give the same items, byte for byte: nothing is drawn at
random, and ties are broken by a hash of the content.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from forgetwatch.errors import ProbeError
from forgetwatch.grading import collapse_spaces, fold
from forgetwatch.item import Item
from standard_probe.alike import tie
from standard_probe.positions import gold_positions, options_in_order
from standard_probe.question import YES_NO, Question, alike_in_length
from standard_probe.selection import select
from standard_probe.strata import content, options, ordered, part

STANDARD: Final = 2000
CONFIRMATION: Final = 500

SMALLER: Final = {"Logic": 0.62, "Math": 0.62}
"""Categories that get this much of an equal share: most small models answer them no better than by chance."""

SHOTS: Final = 5
"""Number of worked examples before each question."""

_PLAIN: Final = (1, 2)
"""Difficulties of the worked examples."""

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
        standard: Number of items of the first form; category sizes differ by at most one, but for `SMALLER`.
        confirmation: Number of items of the second form.

    Raises:
        ProbeError: If a question occurs twice, is of another category than its pool, or has two equal options, or if a
            pool is too small.
    """
    check(pools)
    names = sorted(pools)
    sizes = _sizes(standard, names)
    # Counted from the other end, so that no category gives one more to both forms.
    others = _sizes(confirmation, names[::-1])
    chosen = select(tie(pools), {name: sizes[name] + others[name] + SHOTS for name in names})
    examples = {name: _examples([one for one in chosen if one.category == name]) for name in names}
    shown = {content(one) for own in examples.values() for one in own}
    second, first = part([one for one in chosen if content(one) not in shown], others)
    shots = {name: "".join(f"{one.asked} {one.right}\n\n" for one in own) for name, own in examples.items()}
    forms = _items(ordered(first), shots), _items(ordered(second), shots)
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
            texts = [_read(option) for option in (question.right, *question.wrong)]
            if len(set(texts)) < len(texts):
                raise ProbeError(f"{question.prompt!r}: two of the options read the same: {', '.join(texts)}")
            if len(texts) == 2 and not set(texts) == YES_NO:
                raise ProbeError(
                    f"{question.prompt!r}: needed three to five options, or yes and no, got {', '.join(texts)}"
                )
            if len(texts) > 2 and not alike_in_length(texts):
                raise ProbeError(f"{question.prompt!r}: the options are of unlike length: {', '.join(texts)}")


def _read(text: str) -> str:
    """The text as a reader compares it: without case, width and spacing."""
    return collapse_spaces(fold(text).casefold())


def _sizes(total: int, names: Sequence[str]) -> dict[str, int]:
    """Number of questions of each category, which sum to the total; the first names get what rounding leaves."""
    weights = [SMALLER.get(name, 1.0) for name in names]
    sizes = {name: int(total * weight / sum(weights)) for name, weight in zip(names, weights, strict=True)}
    for name in sorted(names, key=lambda name: name in SMALLER)[: total - sum(sizes.values())]:
        sizes[name] += 1
    return sizes


def _examples(questions: Sequence[Question]) -> list[Question]:
    """Worked examples of a category: short and plain questions of as many topics as there are."""
    plain = [
        one
        for one in questions
        if one.difficulty in _PLAIN and one.form == "question" and options(one) > 2 and "\n" not in one.prompt
    ]
    plain.sort(key=lambda one: (len(one.prompt) + len(one.right), content(one)))
    seen = Counter[str]()
    by_turn: list[tuple[int, int, Question]] = []
    for number, question in enumerate(plain):
        by_turn.append((seen[question.topic], number, question))
        seen[question.topic] += 1
    # The shortest of each topic first.
    found = [question for _, _, question in sorted(by_turn, key=lambda one: one[:2])[:SHOTS]]
    if len(found) < SHOTS:
        raise ProbeError(f"{questions[0].category}: needed {SHOTS} short, plain questions to show, got {len(found)}")
    return sorted(found, key=content)


def _items(questions: Sequence[Question], shots: Mapping[str, str]) -> list[Item]:
    return [
        _item(question, gold, shots[question.category])
        for question, gold in zip(questions, gold_positions(questions), strict=True)
    ]


def _item(question: Question, gold: int, shots: str) -> Item:
    name = NAMES[question.category]
    return Item(
        id=f"{name}-{content(question)[:_ID]}",
        task=f"{name}:{question.topic}",
        category=question.category,
        shots="" if question.form == "continuation" else shots,
        prompt=question.asked,
        choices=options_in_order(question, gold),
        answer=gold,
        cluster="yes or no" if options(question) == 2 else None,
        tags=(f"difficulty:{question.difficulty}",),
        meta={"source": question.source},
    )
