"""Share that a model keeps of what its base knew, by which models are ranked and checkpoints chosen.

    known      of 36 clearly known items or more, less luck: 1 - (lost + h)/(K + h), h those that vanished, less luck
    right      else of the right answers, beyond guessing:   1 - (lost + v)/(R + v), v the right answers that vanished
    answers    where neither is measured:                    retained / (all that were right before)

The base decides which of the three it is, once a run and once a ranking. The last counts lucky
answers that flip as lost: by it a model that gained 1.5 points of accuracy kept .876, and one that
lost a point .923. Each is highest for a model that was not trained at all.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.trajectory import FEWEST_TO_KEEP
from forgetwatch.measures.known_items import KNOWN
from forgetwatch.measures.measured_again import RIGHT_LOST
from forgetwatch.metrics.intervals import Interval, flip_interval

KeptOf = Literal["known", "right", "answers"]

KEPT_OF: Final[dict[KeptOf, str]] = {
    "known": "what the base clearly knew",
    "right": "what the base had right beyond guessing",
    "answers": "what the base had right",
}
"""What a kept share is a share of, in words."""

HALF: Final = 0.5
"""Share of the right answers that must be open or choices among three or more, for their loss to be measured."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Share of what the base knew that a model keeps.

    Attributes:
        of: What it is a share of.
        share: At most 1 but for luck, which may take more off than was lost; nan if nothing was
            right before.
        interval: Its 95 % interval.
    """

    of: KeptOf
    share: float
    interval: Interval

    @property
    def shown(self) -> tuple[float, Interval]:
        """The share and the interval, at most 1."""
        low, high = self.interval
        return min(self.share, 1.0), (min(low, 1.0), min(high, 1.0))


def kept_of(wholes: Iterable[Group]) -> KeptOf:
    """Find what is measured in all comparisons of a base.

    Kept shares are shares of this.
    """
    return max(
        (_measured(group) for group in wholes), key=get_args(KeptOf).index, default="answers"
    )


def _measured(group: Group) -> KeptOf:
    known_items, right = group[KNOWN], group[RIGHT_LOST]
    if (
        known_items is not None
        and known_items.lost_net_share is not None
        and (known_items.known_net or 0.0) >= FEWEST_TO_KEEP
    ):
        return "known"
    return (
        "right"
        if right is not None and right.share is not None and right.holds >= HALF
        else "answers"
    )


def kept(group: Group, of: KeptOf | None = None) -> Kept:
    """Share that is kept.

    Args:
        group: The group of all items of a comparison with the base.
        of: What it is a share of; by default what this comparison measures.
    """
    of = of or _measured(group)
    gone, known_items, right = group.vanished_right, group[KNOWN], group[RIGHT_LOST]
    if of == "answers":
        # Counts are scaled to independent items; the design effect of the whole group stands in for
        # that of its part.
        worth, lost = group.effective_n / group.n if group.n else 0.0, group.forgotten + gone
        low, high = flip_interval(lost * worth, (group.retained + lost) * worth)
        return Kept(of=of, share=group.retention, interval=(1 - high, 1 - low))
    had, lost, ends = 0.0, 0.0, None
    if of == "known":
        gone = hidden_known(group)
        if known_items is not None:
            had, lost = (
                known_items.known - (known_items.known_by_luck or 0.0),
                known_items.known_lost - (known_items.known_lost_by_luck or 0.0),
            )
            ends = known_items.lost_net_interval
    elif right is not None:
        had, lost = right.right, min(group.forgotten, right.right)
        if right.share is not None and right.interval is not None:
            lost, ends = right.share * had, (right.interval[0] * had, right.interval[1] * had)
    low, high = ends or (lost, lost)
    share, end, start = (
        1 - (x + gone) / (had + gone) if had + gone > 0 else math.nan for x in (lost, low, high)
    )
    return Kept(of=of, share=share, interval=(start, end))


def hidden_known(group: Group) -> float:
    """Clearly known items that vanished, net of luck."""
    return max((group.outcomes.known_vanished or 0.0) - group.outcomes.known_vanished_by_luck, 0.0)
