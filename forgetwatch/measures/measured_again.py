"""Flips without forgetting, and losses of form: a second measurement, lost formats.

Also the share of the right answers that is lost beyond guessing and noise. See `metrics.noise`, `metrics.known` and
`metrics.guessing`.

**Asked again.** Lost, or only asked otherwise? Lost items of one wording, asked again in others, beside as many that
were kept.

    item        short    right        lost elsewhere: right before and wrong after in every other wording
    lost   1    1 -> 0   1 -> 0       yes
    lost   2    1 -> 0   1 -> 1       no
    kept   1    1 -> 1   1 -> 1       no

Items that were kept are lost elsewhere too, by chance or because they are damaged: the excess of the lost ones is what
their list says beyond that. Interval of a difference of two independent shares: Newcombe 1998, method 10.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError
from forgetwatch.measures.base import Bounds, GroupMeasure, Quantity, Rows, numbers
from forgetwatch.metrics.guessing import RightLost, right_lost
from forgetwatch.metrics.intervals import Interval, wilson
from forgetwatch.metrics.known import Losses, count_losses
from forgetwatch.metrics.noise import Null, noise_floor, null
from forgetwatch.text import count


def _losses(rows: Rows) -> Losses | None:
    pairs = rows.pairs
    if not (np.isfinite(pairs.form_before) & np.isfinite(pairs.form_after)).any():
        return None
    return count_losses(pairs.before, pairs.after, pairs.lost_form, samples=pairs.samples)


FORM: Final = GroupMeasure[Losses](
    key="form",
    of=_losses,
    quantities=(*numbers("count", "format_lost", "knowledge_lost"),),
)


def _null(rows: Rows) -> Null | None:
    pairs = rows.pairs
    return None if pairs.again is None else null(pairs.before, pairs.again, samples=pairs.samples)


NULL: Final = GroupMeasure[Null](
    key="null",
    of=_null,
    quantities=(
        Quantity("null_n", lambda r: r.measured, "count"),
        Quantity("null_lost", lambda r: r.null_lost, "count"),
        Quantity("null_gained", lambda r: r.null_gained, "count"),
    ),
)


def _right_lost(rows: Rows) -> RightLost | None:
    answers, used = rows.pairs.open_or_correctable()
    pairs = rows.pairs.take(used)
    return right_lost(
        answers,
        pairs.chosen_again,
        np.full(len(pairs), np.nan) if pairs.again is None else pairs.again,
        holds=float(pairs.before.sum() / max(rows.pairs.before.sum(), 1)),
        floor=noise_floor(pairs.before, pairs.after, pairs.item, samples=pairs.samples),
    )


RIGHT_LOST: Final = GroupMeasure[RightLost](
    key="right_lost",
    of=_right_lost,
    quantities=(
        Quantity("right_lost_share", lambda r: r.share, "share", low=-math.inf, high=math.inf),
        Bounds(
            "right_lost_share_interval", lambda r: r.interval, "share", low=-math.inf, high=math.inf
        ),
    ),
)


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
        """Share of the lost that are lost elsewhere, less that of the kept; nan without both."""
        if not self.lost or not self.kept:
            return math.nan
        return self.lost_elsewhere / self.lost - self.kept_elsewhere / self.kept

    @property
    def interval(self) -> Interval:
        """95 % interval of the excess; (nan, nan) without both."""
        if not self.lost or not self.kept:
            return math.nan, math.nan
        one, other = self.lost_elsewhere / self.lost, self.kept_elsewhere / self.kept
        (low, high), (start, end) = (
            wilson(self.lost_elsewhere, self.lost),
            wilson(self.kept_elsewhere, self.kept),
        )
        return (
            self.excess - math.hypot(one - low, end - other),
            self.excess + math.hypot(high - one, other - start),
        )

    @property
    def in_every_wording(self) -> float:
        """Number of the lost items that are lost in every wording, beyond what kept ones show; nan without both."""
        return self.excess * self.lost


@dataclass(frozen=True, kw_only=True)
class Again:
    """What became of the lost when they were asked otherwise.

    Attributes:
        wordings: Names of the other wordings.
        counts: Lost and kept items, and how many of each are lost in every other wording.
        by_wording: Number of the lost items that are right before and wrong after in each other wording, by its name.
        left_out: Lost items that have no other wording, whose wordings the tokenizer spells alike, or that a model
            could not be scored on.
        status: What became of each lost item, by (task, id).
    """

    wordings: tuple[str, ...]
    counts: LostElsewhere
    by_wording: Mapping[str, int]
    left_out: int
    status: Mapping[tuple[str, str], Status]

    def __str__(self) -> str:
        """Return the result in one sentence."""
        found = self.counts
        if not found.lost:
            return "none of the clearly known answers that were lost could be asked in other words"
        low, high = (100 * end for end in found.interval)
        beyond = f"; beyond chance {100 * found.excess:.0f} % ({low:.0f} to {high:.0f})"
        still = sum(one == "right when asked otherwise" for one in self.status.values())
        each = ", ".join(f"{name} {count(lost)}" for name, lost in self.by_wording.items())
        return (
            f"of {count(found.lost)} clearly known answers that were lost, {count(found.lost_elsewhere)} are lost in "
            f"every wording ({each}), and {count(still)} are right in every other one; of {count(found.kept)} kept "
            f"ones {count(found.kept_elsewhere)} are lost in every other wording{'' if math.isnan(low) else beyond}"
        )


def stored_again(found: Again) -> dict[str, Any]:
    """Return the values of the metadata of a snapshot that hold the result."""
    return {
        "wordings": list(found.wordings),
        "counts": dict(vars(found.counts)),
        "by_wording": dict(found.by_wording),
        "left_out": found.left_out,
        "status": [[task, item, status] for (task, item), status in found.status.items()],
    }


def read_again(meta: Mapping[str, Any], *, label: str) -> Again | None:
    """Return the result in the metadata of a snapshot; None without one.

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
            status={(task, item): text for task, item, text in stored["status"]},
        )
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = (
            f"needed what became of the lost in other wordings under {AGAIN_KEY!r} in its metadata"
        )
        raise SnapshotError(f"{label}: {what} ({error})") from error


def lost_elsewhere(before: Bools, after: Bools) -> Bools:
    """Return which items are right before and wrong after in all wordings, bool [items].

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
    found: Bools = np.logical_and.reduce(before & ~after, axis=1)
    return found
