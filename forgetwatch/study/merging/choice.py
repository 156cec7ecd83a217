"""The point of a sweep that a limit chooses, and whether questions that chose nothing confirm it.

The limit is a share of what A clearly knew, such as 98 %. Of the points that keep as much on the first probe, and whose
verdict there is not FORGOT, the one with the most of B is chosen. It is the best of several, and so looks better than
it is; its share on the second probe does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from forgetwatch.comparing import TOLERANCE, Group, Tolerance, decide
from forgetwatch.measures import KNOWN
from forgetwatch.metrics import Interval
from forgetwatch.study.merging.sweep import MergeSweep, ProbeSweep

Confirmed = Literal["held", "not clear", "did not hold"]


@dataclass(frozen=True, kw_only=True)
class KeptShare:
    """Share of the clearly known, less luck, that a point keeps on one probe, with its 95 % interval."""

    probe: str
    share: float
    interval: Interval


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The point that a limit chooses.

    Attributes:
        limit: The share that is to be kept.
        alpha: Share of B of the point; None if each point keeps less or is FORGOT, or nothing is measured.
        chosen: What it keeps on the probe that chose it; without a point, what the smallest share of B keeps.
        confirmed: What it keeps on the second probe; None without one, or if too few questions are known there.
        smallest: Smallest share of B that was tried, other than 0; None if there is none.
    """

    limit: float
    alpha: float | None
    chosen: KeptShare | None
    confirmed: KeptShare | None = None
    smallest: float | None = None

    @property
    def outcome(self) -> Confirmed | None:
        """Whether the second probe keeps as much; None if that is not measured."""
        if self.confirmed is None:
            return None
        if self.confirmed.interval[1] < self.limit:
            return "did not hold"
        return "held" if self.confirmed.share >= self.limit else "not clear"

    def __str__(self) -> str:
        """Return the choice in one sentence."""
        limit = f"keeps {100 * self.limit:g} % of what was known"
        if self.chosen is None:
            return f"no share of B is chosen: {'nothing was merged' if self.smallest is None else _FEW}"
        if self.alpha is None:
            return (
                f"no alpha that was tried {limit} without being FORGOT: {self.smallest:g} keeps {_text(self.chosen)}; "
                "try smaller ones with --alpha, or ask for less with --keep-known"
            )
        text = f"alpha {self.alpha:g} is the largest that {limit} and is not FORGOT: {_text(self.chosen)}"
        if self.confirmed is None:
            return f"{text}; nothing confirms it"
        return f"{text}, and {_text(self.confirmed)}: {self.outcome}"


_FEW = "too few questions of the probe are clearly known to A, or luck among them is not measured"


def choose(sweep: MergeSweep, limit: float, *, tolerance: Tolerance = TOLERANCE) -> Choice:
    """Return the point with the most of B that keeps a share of what A clearly knew, and is not FORGOT.

    Args:
        sweep: The points.
        limit: The share, above 0 and at most 1.
        tolerance: Losses that the verdict tolerates.
    """
    alphas = [point.alpha for point in sweep.chosen_on.points if point.alpha > 0]
    kept = {alpha: _kept(sweep.chosen_on, alpha) for alpha in alphas}
    measured = {alpha: one for alpha, one in kept.items() if one is not None}
    if not measured:
        return Choice(limit=limit, alpha=None, chosen=None, smallest=min(alphas, default=None))
    smallest = min(measured)
    words = {point.alpha: decide(point.from_a, tolerance).word for point in sweep.chosen_on.points}
    enough = [alpha for alpha, one in measured.items() if one.share >= limit and words[alpha] != "FORGOT"]
    if not enough:
        return Choice(limit=limit, alpha=None, chosen=measured[smallest], smallest=smallest)
    alpha = max(enough)
    second = None if sweep.confirmed_on is None else _kept(sweep.confirmed_on, alpha)
    return Choice(limit=limit, alpha=alpha, chosen=measured[alpha], confirmed=second, smallest=smallest)


def _kept(one: ProbeSweep, alpha: float) -> KeptShare | None:
    group: Group = next(point.from_a.all for point in one.points if point.alpha == alpha)
    known = group[KNOWN]
    if known is None or known.lost_net_share is None or known.lost_net_share_interval is None:
        return None
    low, high = known.lost_net_share_interval
    return KeptShare(probe=one.probe, share=1 - known.lost_net_share, interval=(1 - high, 1 - low))


def _text(kept: KeptShare) -> str:
    low, high = (100 * min(end, 1.0) for end in kept.interval)
    return f"{100 * min(kept.share, 1.0):.1f} % ({low:.1f} to {high:.1f}) on {kept.probe}"
