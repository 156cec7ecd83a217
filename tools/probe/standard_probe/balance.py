"""Balance a part of a list in every label at once, by swaps.

    labels of a question    category, topic, difficulty, k, and some of them together
    wanted                  number of each label in the part
    method                  swap one inside for one outside of the part, until no swap brings it closer

The distance is the sum of (count - wanted)^2 over all labels. With x = count - wanted, removing one question with a
label changes it by 1 - 2x, adding one by 1 + 2x, and a swap of two that share the label by 0. All numbers are integers,
in thousandths of an item: the same list gives the same part on every machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

Label = tuple[str, ...]

_ONE: Final = 1000
"""One item, in the unit of all distances."""


def improve(
    labels: Sequence[tuple[Label, ...]],
    inside: Sequence[int],
    wanted: Mapping[Label, float],
    *,
    group: Sequence[str],
    allowed: Callable[[int, int], bool] | None = None,
) -> list[int]:
    """Indices of the part after all swaps that bring it closer, ascending.

    Args:
        labels: Labels of each question; the n-th of all are of one kind, such as topics.
        inside: Indices of the part at the beginning; their number does not change.
        wanted: Number of each label that the part should have.
        group: Group of each question. Only questions of one group are swapped, so that groups keep their size.
        allowed: True if the question of the first index may be swapped for that of the second. It is called once for
            each swap that is about to be made, and may record it; None allows all.
    """
    names = sorted({label for own in labels for label in own})
    number = {label: index for index, label in enumerate(names)}
    kinds = np.array([[number[label] for label in own] for own in labels], dtype=np.int64)  # (questions, kinds)
    counts = Counter(label for index in inside for label in labels[index])
    # (labels,) count - wanted, in thousandths: the x of the module's docstring.
    excess = np.array([_ONE * counts[name] - round(_ONE * wanted[name]) for name in names], dtype=np.int64)
    is_inside = np.zeros(len(labels), dtype=bool)
    is_inside[list(inside)] = True
    members = {name: np.flatnonzero(np.array(group) == name) for name in sorted(set(group))}

    def swap(leaves: int) -> bool:
        own = members[group[leaves]]
        others = own[~is_inside[own]]
        # Minus the change of the distance, summed over the labels and divided by _ONE. A label that both share has
        # the same excess in both sums and cancels; every other one costs the two 1s of 1 - 2x and 1 + 2x.
        shared = (kinds[others] == kinds[leaves]).sum(axis=1)
        closer = 2 * excess[kinds[leaves]].sum() - 2 * excess[kinds[others]].sum(axis=1)
        gain = closer - 2 * _ONE * (kinds.shape[1] - shared)
        # The best swap that is allowed; stable, so that ties go to the earlier question on every machine.
        for position in np.argsort(-gain, kind="stable"):
            if gain[position] <= 0:
                return False
            comes = int(others[position])
            if allowed is None or allowed(leaves, comes):
                is_inside[leaves], is_inside[comes] = False, True
                excess[kinds[leaves]] -= _ONE
                excess[kinds[comes]] += _ONE
                return True
        return False

    # Every swap lowers an integer distance, so the loop ends.
    swapped = True
    while swapped:
        swapped = False
        for index in range(len(labels)):
            if is_inside[index] and swap(index):
                swapped = True
    return [int(index) for index in np.flatnonzero(is_inside)]
