"""The point of a sweep that a limit chooses, and whether other questions confirm it.

The limit is a share of what A knew (`comparing.kept_share`), such as 98 %. Of the points that keep
as much on the first probe, and whose verdict there is not FORGOT, the one with the most of B is
chosen. It is the best of several, and so looks better than it is; its share on the second probe
does not.
"""

import math
from dataclasses import dataclass
from typing import Literal

from forgetwatch.comparing.decision import decide
from forgetwatch.comparing.kept_share import KEPT_OF, Kept, kept, kept_of
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.merge.sweep import MergeSweep, ProbeSweep

Confirmed = Literal["held", "not clear", "did not hold"]


@dataclass(frozen=True, kw_only=True)
class KeptShare:
    """What a point keeps of A, on one probe."""

    probe: str
    kept: Kept

    def __str__(self) -> str:
        share, ends = self.kept.shown
        low, high = (100 * end for end in ends)
        return f"{100 * share:.1f} % ({low:.1f} to {high:.1f}) on {self.probe}"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The point that a limit chooses.

    Attributes:
        limit: The share that is to be kept.
        alpha: Share of B of the point; None if each point keeps less or is FORGOT, or A had nothing
            right.
        chosen: What it keeps on the probe that chose it; without a point, what the smallest share
            of B keeps.
        confirmed: What it keeps on the second probe; None without one, or if A had nothing right
            there.
        smallest: Smallest share of B that was tried, other than 0; None if there is none.
    """

    limit: float
    alpha: float | None
    chosen: KeptShare | None
    confirmed: KeptShare | None = None
    smallest: float | None = None

    @property
    def outcome(self) -> Confirmed | None:
        """Does the second probe keep as much?

        Returns:
            The answer, or None if that is not measured.
        """
        if self.confirmed is None:
            return None
        if self.confirmed.kept.interval[1] < self.limit:
            return "did not hold"
        return "held" if self.confirmed.kept.share >= self.limit else "not clear"

    def __str__(self) -> str:
        """The choice in one sentence."""
        if self.chosen is None:
            why = (
                "nothing was merged"
                if self.smallest is None
                else "A had no question of the probe right"
            )
            return f"no share of B is chosen: {why}"
        limit = f"keeps {100 * self.limit:g} % of {KEPT_OF[self.chosen.kept.of].replace('the base', 'A')}"
        if self.alpha is None:
            return (
                f"no alpha that was tried {limit} without being FORGOT: {self.smallest:g} keeps "
                f"{self.chosen}; try smaller ones with --alpha, or ask for less with --keep-known"
            )
        sentence = (
            f"alpha {self.alpha:g} is the largest that {limit} and is not FORGOT: {self.chosen}"
        )
        if self.confirmed is None:
            return f"{sentence}; nothing confirms it"
        return f"{sentence}, and {self.confirmed}: {self.outcome}"


def choose(sweep: MergeSweep, limit: float, *, tolerance: Tolerance = TOLERANCE) -> Choice:
    """Choose the point with most of B that keeps enough of A.

    The point keeps a share of what A knew, and is not FORGOT.

    Args:
        sweep: The points.
        limit: The share, above 0 and at most 1.
        tolerance: Losses that the verdict tolerates.
    """
    alphas = [point.alpha for point in sweep.chosen_on.points if point.alpha > 0]
    measured = {
        alpha: kept_share
        for alpha in alphas
        if (kept_share := _kept(sweep.chosen_on, alpha)) is not None
    }
    if not measured:
        return Choice(limit=limit, alpha=None, chosen=None, smallest=min(alphas, default=None))
    smallest = min(measured)
    words = {point.alpha: decide(point.from_a, tolerance).word for point in sweep.chosen_on.points}
    enough = [
        alpha
        for alpha, kept_share in measured.items()
        if kept_share.kept.share >= limit and words[alpha] != "FORGOT"
    ]
    if not enough:
        return Choice(limit=limit, alpha=None, chosen=measured[smallest], smallest=smallest)
    alpha = max(enough)
    second = None if sweep.confirmed_on is None else _kept(sweep.confirmed_on, alpha)
    return Choice(
        limit=limit, alpha=alpha, chosen=measured[alpha], confirmed=second, smallest=smallest
    )


def _kept(probe_sweep: ProbeSweep, alpha: float) -> KeptShare | None:
    group = next(point.from_a.all for point in probe_sweep.points if point.alpha == alpha)
    kept_share = kept(group, kept_of(point.from_a.all for point in probe_sweep.points))
    return (
        None
        if math.isnan(kept_share.share)
        else KeptShare(probe=probe_sweep.probe, kept=kept_share)
    )
