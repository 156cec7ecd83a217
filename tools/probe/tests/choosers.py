"""Rules that choose an option without knowing the answer; each must be right about as often as by chance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from forgetwatch.item import Item

Chooser: TypeAlias = Callable[[Item, str], float]
"""Value of an option of an item; the option with the greatest value is chosen."""

BLIND: Final[Mapping[str, Chooser]] = {
    "longest": lambda item, option: len(option),
    "shortest": lambda item, option: -len(option),
    "first by the alphabet": lambda item, option: -sorted(item.choices).index(option),
    "last by the alphabet": lambda item, option: sorted(item.choices).index(option),
}
"""Choosers that look at the options alone."""


def share_right(items: Sequence[Item], value: Chooser) -> float:
    """Share of right answers of a chooser, which takes any of those with the greatest value."""
    right = 0.0
    for item in items:
        values = [value(item, option) for option in item.choices]
        best = [number for number, own in enumerate(values) if own == max(values)]
        right += (item.answer in best) / len(best)
    return right / len(items)
