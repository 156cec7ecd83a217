"""Is a change that of the wording? The net change in each wording in which questions were asked, and a test.

The test exchanges the wordings at random (`metrics.transitions`): between the questions of a
category where each was asked in one, as the hash had given them out; within each question where it
was asked in several. A change in one wording alone is a change of form. Where the wordings changed
unlike each other, part of the change is the wording. Questions that have no other wording take no
part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from forgetwatch.comparing.groups import Group
from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.estimate import NET_ESTIMATE, margin_rule
from forgetwatch.metrics.equal_change import equal_change_p_value
from forgetwatch.metrics.margin_change import FEWEST
from forgetwatch.text import points, probability

_SEED: Final = 0

DIFFERENT: Final = 0.05
"""p-value at which wordings changed unlike each other beyond chance."""


@dataclass(frozen=True, kw_only=True)
class WordingChanges:
    """Net changes by wording, and whether they are equal.

    Attributes:
        changes: Estimated net change in each wording, -1 to 1, by its name.
        p_value: Of "all wordings changed alike".
        asked_in: ``one`` if each question was asked in one wording, ``each`` if some were in
            several.
    """

    changes: Mapping[str, float]
    p_value: float
    asked_in: str

    @property
    def differ(self) -> bool:
        """Did the wordings change unlike each other beyond chance?"""
        return self.p_value <= DIFFERENT

    def __str__(self) -> str:
        """Changes in points and p-value: ``shipped -9.2, short -2.4 points, p .003``."""
        changed = ", ".join(f"{name} {points(change)}" for name, change in self.changes.items())
        return f"{changed} points, p {probability(self.p_value)}"


def wording_changes(groups: Sequence[Group], pairs: AlignedPairs) -> WordingChanges | None:
    """Test whether the wordings changed alike.

    Args:
        groups: All groups of the comparison.
        pairs: Its pairs.

    Returns:
        The changes by wording, or None unless two wordings have enough items.
    """
    found = [
        (group.name, estimate.change)
        for group in groups
        if group.level == "wording"
        and group.n >= FEWEST
        and (estimate := group[NET_ESTIMATE]) is not None
    ]
    if len(found) < 2:
        return None
    names = [name for name, _ in found]
    codes = np.array([names.index(name) if name in names else -1 for name in pairs.wording.names])[
        pairs.wording.code
    ]
    kept = pairs.take(codes >= 0)
    wording, rule = codes[codes >= 0], margin_rule(pairs)
    changes = kept.after.astype(np.float64) - kept.before
    if rule is not None and kept.has_margin.all():
        changes = rule.boundary.softened(kept.margin_before, kept.margin_after)
    asked_in = np.unique(np.stack([kept.question, wording]), axis=1)[0]
    several = len(np.unique(asked_in)) < len(asked_in)
    # Wordings are exchanged within a question, or between the questions of a category.
    stratum = kept.question if several else kept.category.code
    p_value = equal_change_p_value(changes, wording, stratum, np.random.default_rng(_SEED))
    return WordingChanges(
        changes={name: change.mean for name, change in found},
        p_value=p_value,
        asked_in="each" if several else "one",
    )
