"""The order of a probe of several tasks, by which every prefix is a fair sample of them."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from forgetwatch.item import Item

_SIGMAS: Final = 4.0
"""Standard deviations by which the number of a category's items may be below its share."""


def _task(item: Item) -> str:
    return item.task


def interleave(items: Sequence[Item], *, by: Callable[[Item], Any] = _task) -> list[Item]:
    """Return the items by content hash within their groups, the tasks by default, interleaved by the groups' sizes."""
    by_task: dict[Any, list[Item]] = {}
    for item in items:
        by_task.setdefault(by(item), []).append(item)
    # The item of rank r of n gets the position (r + 1/2) / n in (0, 1): every task is spread evenly over the probe.
    positions = [
        ((rank + 0.5) / len(own), task, item)
        for task, own in by_task.items()
        for rank, item in enumerate(sorted(own, key=lambda item: (item.content_hash, item.id)))
    ]
    return [item for _, _, item in sorted(positions, key=lambda entry: entry[:2])]


def stratified(items: Sequence[Item], *, first: int) -> list[Item]:
    """Return items in an order in which the first ones are a fair sample of the categories.

    Items that must pass come first. The order is kept if it is fair already, and otherwise that of `interleave`, with
    each task divided by category.
    """
    must = [item for item in items if item.must_pass]
    others = [item for item in items if not item.must_pass]
    if not _is_fair(others, first=first):
        others = interleave(others, by=lambda item: (item.task, item.category))
    return [*must, *others]


def split_halves(items: Sequence[Item], *, seed: int = 0) -> tuple[list[Item], list[Item]]:
    """Return two halves of some items, each a fair sample of tasks and categories, in the order of the items.

    Items of one cluster stay together. The same seed gives the same halves, in any order of the items.
    """
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(f"cluster {item.cluster}" if item.cluster else f"{item.task}/{item.id}", []).append(item)

    def place(name: str) -> tuple[str, str, str]:
        first = groups[name][0]
        return first.task, first.category, hashlib.sha256(f"{seed} {name}".encode()).hexdigest()

    halves: tuple[set[int], set[int]] = set(), set()
    sizes = [0, 0]
    for name in sorted(groups, key=place):
        half = int(sizes[1] < sizes[0])
        halves[half].update(id(item) for item in groups[name])
        sizes[half] += len(groups[name])
    first, second = ([item for item in items if id(item) in half] for half in halves)
    return first, second


def _is_fair(items: Sequence[Item], *, first: int) -> bool:
    """Return True if no category has fewer of the first items than a sample drawn at random would hardly ever have."""
    part, whole = (Counter(item.category for item in some) for some in (items[:first], items))
    expected = {name: count * min(first / max(len(items), 1), 1.0) for name, count in whole.items()}
    return all(part[name] >= count - _SIGMAS * math.sqrt(count) for name, count in expected.items())
