"""Mean scores before and after, of answers between wrong and right. See `metrics.mean_score`."""

import math
from dataclasses import dataclass
from typing import Final

from forgetwatch.measures.base import GroupMeasure, Quantity, Rows, mean_change, with_interval
from forgetwatch.metrics.log_score import Change
from forgetwatch.metrics.mean_score import graded_change, sampling_share


@dataclass(frozen=True, kw_only=True)
class Graded:
    """Scores of a group before and after.

    Attributes:
        before: Mean score before, 0 to 1; nan where answers are right or wrong alone.
        after: The same, after.
        change: Change of the mean; None where answers are right or wrong alone.
        sampling_share: Share of the variance of the change that more samples of the items would
            remove, 0 to 1; nan where an item has one sample on a side.
    """

    before: float
    after: float
    change: Change | None
    sampling_share: float

    @property
    def words(self) -> str:
        """Scores as ``score 0.71 -> 0.66, -0.05 (-0.08 to -0.02)``; empty without scores."""
        if self.change is None:
            return ""
        return f"score {self.before:.2f} -> {self.after:.2f}, {with_interval(self.change, 'share')}"

    @property
    def narrower(self) -> float:
        """Share of the interval's width that more samples would remove at most, 0 to 1."""
        return 1 - math.sqrt(1 - self.sampling_share)


def _of(rows: Rows) -> Graded | None:
    pairs, scores = rows.pairs, rows.pairs.scores
    if scores is None or not len(pairs):
        return None
    by_sampling = sampling_share(scores, pairs.item, pairs.cluster)
    if not scores.graded.any():
        return Graded(before=math.nan, after=math.nan, change=None, sampling_share=by_sampling)
    return Graded(
        before=float(scores.before.mean()),
        after=float(scores.after.mean()),
        change=graded_change(scores, pairs.item, pairs.cluster),
        sampling_share=by_sampling,
    )


GRADED: Final = GroupMeasure[Graded](
    key="graded",
    of=_of,
    quantities=(
        Quantity("score_before", lambda r: r.before, "share"),
        Quantity("score_after", lambda r: r.after, "share", tracked="all", tracker="score"),
        *mean_change("score_change", "change", unit="share", heading="score"),
        Quantity("score_sampling_share", lambda r: r.sampling_share, "share"),
    ),
)
