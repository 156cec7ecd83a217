"""A part of a list that is like the whole, or spread as asked, in every label at once.

    labels of a question:  category, topic, difficulty, k, and some of them together
    wanted:                so many of each label in the part
    found:                 by swaps of one inside for one outside, until none brings it closer

The distance is the sum of squares of (there - wanted) over all labels. With x = there - wanted, taking one with a label
out changes it by 1 - 2x, putting one in by 1 + 2x, and a swap of two that share the label by nothing. All in whole
numbers, thousandths of an item: the same list gives the same part on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

Label = tuple[str, ...]

_ONE: Final = 1000
"""One item, in the unit of all distances here."""


def improve(
    labels: Sequence[tuple[Label, ...]],
    inside: Sequence[int],
    wanted: Mapping[Label, float],
    *,
    group: Sequence[str],
    allowed: Callable[[int, int], bool] | None = None,
) -> list[int]:
    """The places of the part after all swaps that help, rising.

    Args:
        labels: Of each place of the list; the n-th of all are of one kind, such as topics.
        inside: The places that the part begins with; their number stays.
        wanted: How many of each label the part should have.
        group: Only places of one group are swapped, so that each group keeps its number.
        allowed: Whether the first place may leave for the second; a swap that it allows is made.
    """
    names = sorted({label for one in labels for label in one})
    number = {label: at for at, label in enumerate(names)}
    kinds = np.array([[number[label] for label in one] for one in labels], dtype=np.int64)
    there = Counter(label for place in inside for label in labels[place])
    excess = np.array([_ONE * there[name] - round(_ONE * wanted[name]) for name in names], dtype=np.int64)
    is_inside = np.zeros(len(labels), dtype=bool)
    is_inside[list(inside)] = True
    members = {name: np.flatnonzero(np.array(group) == name) for name in sorted(set(group))}

    def swap(leaves: int) -> bool:
        own = members[group[leaves]]
        others = own[~is_inside[own]]
        shared = (kinds[others] == kinds[leaves]).sum(axis=1)
        closer = 2 * excess[kinds[leaves]].sum() - 2 * excess[kinds[others]].sum(axis=1)
        gain = closer - 2 * _ONE * (kinds.shape[1] - shared)
        for at in np.argsort(-gain, kind="stable"):
            if gain[at] <= 0:
                return False
            comes = int(others[at])
            if allowed is None or allowed(leaves, comes):
                is_inside[leaves], is_inside[comes] = False, True
                excess[kinds[leaves]] -= _ONE
                excess[kinds[comes]] += _ONE
                return True
        return False

    swapped = True
    while swapped:
        swapped = False
        for place in range(len(labels)):
            if is_inside[place] and swap(place):
                swapped = True
    return [int(place) for place in np.flatnonzero(is_inside)]
