"""Turn questions into the items of a probe: their order, the position of each right option, and the ids.

    groups of questions ──▶ two halves that are alike ──▶ each again ──▶ ... ──▶ items

A group is what must stay together, such as the questions about one text: the scorer reads their common beginning
once. Any other question is a group of its own. Every prefix of the order is nearly a stratified sample of the whole,
and among the items with k options every k in a row have their right options at k different positions.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from standard_probe.balance import Label, improve
from standard_probe.question import digest

from forgetwatch.errors import ProbeError
from forgetwatch.item import Item

_ID: Final = 6
"""Number of hex digits of an id."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """Content of an item, without its position, its id and the order of its options.

    Attributes:
        prompt: The prompt as the model reads it, to the last character before an option.
        right: The right option without its leading space.
        wrong: The wrong options, of the same kind.
        task: Task of the item.
        category: Category of the item.
        tags: Labels, such as ``difficulty:2``; the order of the items is balanced in them.
        source: Source of the answer, or ``computed``.
        cluster: Questions of one cluster share a text.
    """

    prompt: str
    right: str
    wrong: tuple[str, ...]
    task: str
    category: str
    tags: tuple[str, ...] = ()
    source: str = "computed"
    cluster: str | None = None

    @property
    def k(self) -> int:
        """Number of options."""
        return 1 + len(self.wrong)


class Balance:
    """Sums over the questions taken so far, by which the next is chosen such that all stay near zero.

    A credit is, for a chooser that does not read the question, one if it is right (a share of one if it would have to
    guess among several), less what a guess is worth.
    """

    def __init__(self) -> None:
        self.excess: defaultdict[str, float] = defaultdict(float)

    def cost(self, credits: Mapping[str, float]) -> float:
        """Growth of the sum of squares that taking a question causes."""
        return sum((self.excess[name] + credit) ** 2 - self.excess[name] ** 2 for name, credit in credits.items())

    def take(self, credits: Mapping[str, float]) -> None:
        """Add a question."""
        for name, credit in credits.items():
            self.excess[name] += credit


def credits(
    right: str, options: Sequence[str], more: Mapping[str, Callable[[str], float]] | None = None
) -> dict[str, float]:
    """Credits of choosers by length, alphabet and number, and of `more`, whose greatest value is taken."""
    choosers: dict[str, Callable[[str], float]] = {
        "longest": len,
        "shortest": lambda option: -len(option),
        "first by the alphabet": lambda option: -sorted(options).index(option),
        "last by the alphabet": lambda option: sorted(options).index(option),
        **(more or {}),
    }
    if all(re.fullmatch(r"-?\d+(\.\d+)?", option) for option in options):
        choosers |= {"smallest": lambda option: -float(option), "largest": float}
    found = {}
    for name, value in choosers.items():
        best = [option for option in options if value(option) == max(map(value, options))]
        found[name] = (right in best) / len(best) - 1 / len(options)
    return found


def items(groups: Sequence[Sequence[Ask]], *, prefix: str) -> list[Item]:
    """The items of a probe, in their order.

    Args:
        groups: The questions; those of one group stay next to each other.
        prefix: Beginning of each id.

    Raises:
        ProbeError: If two questions have one id, or two options of a question are equal.
    """
    asks = [ask for group in ordered(groups) for ask in group]
    made = [_item(ask, gold, prefix) for ask, gold in zip(asks, gold_positions(asks), strict=True)]
    for item in made:
        if len(set(item.choices)) < len(item.choices):
            raise ProbeError(f"{item.prompt!r}: two of the options are equal: {', '.join(item.choices)}")
    if repeated := [one for one, count in Counter(item.id for item in made).items() if count > 1]:
        raise ProbeError(f"id {repeated[0]!r} stands for two questions; change a word of one of them")
    return made


def ordered(groups: Sequence[Sequence[Ask]]) -> list[Sequence[Ask]]:
    """The groups in an order whose first half, first quarter, ... are each like the whole."""
    groups = sorted(groups, key=lambda group: (_labels(group), digest(*(ask.prompt for ask in group))))
    if len(groups) < 2:
        return list(groups)
    labels = [_labels(group) for group in groups]
    counts = Counter(label for own in labels for label in own)
    wanted = {label: count / 2 for label, count in counts.items()}
    inside = {*improve(labels, range(0, len(groups), 2), wanted, group=[""] * len(groups))}
    first = [group for index, group in enumerate(groups) if index in inside]
    rest = [group for index, group in enumerate(groups) if index not in inside]
    return ordered(first) + ordered(rest)


def gold_positions(asks: Sequence[Ask]) -> list[int]:
    """Position of each right option: a permutation for every k items in a row that have k options."""
    seen, golds = Counter[int](), []
    for ask in asks:
        block, within = divmod(seen[ask.k], ask.k)
        seen[ask.k] += 1
        golds.append(sorted(range(ask.k), key=lambda p: digest(str(ask.k), str(block), str(p)))[within])
    return golds


def _labels(group: Sequence[Ask]) -> tuple[Label, ...]:
    """Labels by which the order is balanced: tasks, tags, numbers of options, and tasks with tags."""
    tasks, tags = tuple(sorted({ask.task for ask in group})), tuple(tag for ask in group for tag in ask.tags)
    return tasks, tags, tuple(f"k {ask.k}" for ask in group), (*tasks, *tags)


def _item(ask: Ask, gold: int, prefix: str) -> Item:
    wrong = sorted(ask.wrong, key=lambda option: digest(ask.prompt, option))
    return Item(
        id=f"{prefix}-{digest(ask.prompt, ask.right, *sorted(ask.wrong))[:_ID]}",
        task=ask.task,
        category=ask.category,
        prompt=ask.prompt,
        choices=tuple(f" {option}" for option in (*wrong[:gold], ask.right, *wrong[gold:])),
        answer=gold,
        cluster=ask.cluster,
        tags=ask.tags,
        meta={"source": ask.source},
    )
