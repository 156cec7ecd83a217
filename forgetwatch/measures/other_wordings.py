"""Lost, or only lost in one wording? Lost items asked again in other wordings.

    item        short    right        lost elsewhere: right before and wrong after in every other wording
    lost   1    1 -> 0   1 -> 0       yes
    lost   2    1 -> 0   1 -> 1       no
    kept   1    1 -> 1   1 -> 1       no

Items that were kept are lost elsewhere too, by chance or because they are damaged: the excess of
the lost ones is what their list says beyond that. Interval of a difference of two independent
shares: Newcombe 1998, method 10.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError
from forgetwatch.metrics.intervals import Interval, wilson
from forgetwatch.text import count

AGAIN_KEY: Final = "again"
"""Key of the metadata of the last snapshot of a run that hold what became of the lost in other wordings."""


Bools = NDArray[np.bool_]


Status = Literal["lost in every wording", "right when asked otherwise", "not clear"]
"""What became of a lost item that was asked again in other wordings."""


@dataclass(frozen=True, kw_only=True)
class LostElsewhere:
    """How many of the items lost in one wording are lost in all others too.

    Attributes:
        lost: Items that were lost in the first wording.
        lost_elsewhere: Those of them that are right before and wrong after in every other wording.
        kept: Items that were kept in the first wording.
        kept_elsewhere: Those of them that are lost in every other wording.
    """

    lost: int
    lost_elsewhere: int
    kept: int
    kept_elsewhere: int

    @property
    def excess(self) -> float:
        """Share of the lost that are lost elsewhere, less the kept.

        nan without both.
        """
        if not self.lost or not self.kept:
            return math.nan
        return self.lost_elsewhere / self.lost - self.kept_elsewhere / self.kept

    @property
    def interval(self) -> Interval:
        """95 % interval of the excess; (nan, nan) without both."""
        if not self.lost or not self.kept:
            return math.nan, math.nan
        lost_share, kept_share = self.lost_elsewhere / self.lost, self.kept_elsewhere / self.kept
        (low, high), (start, end) = (
            wilson(self.lost_elsewhere, self.lost),
            wilson(self.kept_elsewhere, self.kept),
        )
        return (
            self.excess - math.hypot(lost_share - low, end - kept_share),
            self.excess + math.hypot(high - lost_share, kept_share - start),
        )

    @property
    def in_every_wording(self) -> float:
        """Lost items that are lost in every wording, net of noise.

        Kept items show the noise. nan without both.
        """
        return self.excess * self.lost


@dataclass(frozen=True, kw_only=True)
class Again:
    """What became of the lost when they were asked otherwise.

    Attributes:
        wordings: Names of the other wordings.
        counts: Lost and kept items, and how many of each are lost in every other wording.
        by_wording: Number of the lost items that are right before and wrong after in each other
            wording, by its name.
        left_out: Lost items that have no other wording, whose wordings the tokenizer spells alike,
            or that a model could not be scored on.
        status: What became of each lost item, by (task, id).
    """

    wordings: tuple[str, ...]
    counts: LostElsewhere
    by_wording: Mapping[str, int]
    left_out: int
    status: Mapping[tuple[str, str], Status]

    def __str__(self) -> str:
        """The result in one sentence."""
        counts = self.counts
        if not counts.lost:
            return "none of the clearly known answers that were lost could be asked in other words"
        low, high = (100 * end for end in counts.interval)
        beyond = f"; beyond chance {100 * counts.excess:.0f} % ({low:.0f} to {high:.0f})"
        still = sum(status == "right when asked otherwise" for status in self.status.values())
        by_wording = ", ".join(f"{name} {count(lost)}" for name, lost in self.by_wording.items())
        return (
            f"of {count(counts.lost)} clearly known answers that were lost, "
            f"{count(counts.lost_elsewhere)} are lost in every wording ({by_wording}), and "
            f"{count(still)} are right in every other one; of {count(counts.kept)} kept ones "
            f"{count(counts.kept_elsewhere)} are lost in every other "
            f"wording{'' if math.isnan(low) else beyond}"
        )


def stored_again(again: Again) -> dict[str, Any]:
    """The result as metadata of a snapshot."""
    return {
        "wordings": list(again.wordings),
        "counts": dict(vars(again.counts)),
        "by_wording": dict(again.by_wording),
        "left_out": again.left_out,
        "status": [[task, item, status] for (task, item), status in again.status.items()],
    }


def read_again(meta: Mapping[str, Any], *, label: str) -> Again | None:
    """Read the result in the metadata of a snapshot.

    Returns:
        The result, or None without one.

    Raises:
        SnapshotError: If it is none; names the snapshot by its label.
    """
    stored = meta.get(AGAIN_KEY)
    if stored is None:
        return None
    try:
        return Again(
            wordings=tuple(stored["wordings"]),
            counts=LostElsewhere(**stored["counts"]),
            by_wording=dict(stored["by_wording"]),
            left_out=stored["left_out"],
            status={(task, item): status for task, item, status in stored["status"]},
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        needed = (
            f"needed what became of the lost in other wordings under {AGAIN_KEY!r} in its metadata"
        )
        raise SnapshotError(f"{label}: {needed} ({error})") from error


def lost_elsewhere(before: Bools, after: Bools) -> Bools:
    """Which items are lost in all wordings, bool [items]?

    Args:
        before: True where right, bool [items, wordings].
        after: The same, after.

    Raises:
        ValueError: If the shapes differ, or there is no wording.
    """
    if before.shape != after.shape or before.ndim != 2 or not before.shape[1]:
        raise ValueError(
            f"needed outcomes [items, wordings] of both sides, got {before.shape} and {after.shape}"
        )
    is_lost: Bools = np.logical_and.reduce(before & ~after, axis=1)
    return is_lost
