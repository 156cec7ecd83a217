"""Models between two ends: what each has lost of the one and of the other, and how far apart the ends' weights are.

    A ──────────●──────────── B          A the base, B its fine-tuned version, a point at each alpha
      from_a: A before, the point after: what of the base is lost
      from_b: B before, the point after: what of the fine-tuning is lost

Nothing here prefers a point. One that is chosen on a probe because it looks best there owes a part of that to chance;
the same numbers on a second probe, on which nothing was chosen, do not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.ranking import ModelComparison

_LAYER: Final = re.compile(r"(.*?\.\d+)\..+")


@dataclass(frozen=True, kw_only=True)
class MergedPoint:
    """One model between the ends, or an end, on one probe.

    Attributes:
        alpha: Share of B, 0 to 1.
        from_a: A before, the point after.
        from_b: B before, the point after.
    """

    alpha: float
    from_a: Comparison
    from_b: Comparison

    @property
    def ends(self) -> tuple[Comparison, Comparison]:
        """Both comparisons, that with A first."""
        return self.from_a, self.from_b


@dataclass(frozen=True, kw_only=True)
class ProbeSweep:
    """All points on one probe.

    Attributes:
        probe: Name of the probe.
        points: The points, in the order of alpha.
    """

    probe: str
    points: tuple[MergedPoint, ...]

    @property
    def n(self) -> float:
        """Number of items that were compared."""
        return self.points[0].from_a.all.n


@dataclass(frozen=True, kw_only=True)
class WeightDistance:
    """Distance of the weights of B from those of A, relative to the norm of A.

    Attributes:
        overall: Of all weights as one vector.
        layers: The same of each layer, and of each tensor outside of layers, by name, in order.
        tensors: Number of tensors.
        turned: Number of tensors in which slerp is not linear.
    """

    overall: float
    layers: Mapping[str, float]
    tensors: int
    turned: int

    @classmethod
    def of(cls, squares: Mapping[str, tuple[float, float]], *, turned: int) -> WeightDistance:
        """The distance from the sums of squares of each tensor.

        Args:
            squares: By the tensor's name, those of A and those of B - A.
            turned: Number of tensors in which slerp is not linear.
        """
        layers: dict[str, list[float]] = {}
        for name, both in squares.items():
            found = _LAYER.fullmatch(name)
            sums = layers.setdefault(found[1] if found else name.removesuffix(".weight"), [0.0, 0.0])
            sums[0], sums[1] = sums[0] + both[0], sums[1] + both[1]
        whole = [sum(both[side] for both in squares.values()) for side in (0, 1)]
        return cls(
            overall=_relative(*whole),
            layers={name: _relative(*layers[name]) for name in sorted(layers, key=_by_number)},
            tensors=len(squares),
            turned=turned,
        )


def _by_number(name: str) -> list[tuple[bool, int, str]]:
    """Key by which layer 2 comes before layer 10."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in name.split(".")]


def _relative(norm: float, difference: float) -> float:
    """Distance relative to a norm, from their squares; nan if the norm is 0."""
    return math.sqrt(difference / norm) if norm else math.nan


@dataclass(frozen=True, kw_only=True)
class MergeSweep:
    """Points between two models, on the probe by which one may be chosen and on one that confirms.

    Attributes:
        ends: Names of A and B.
        method: How the weights were averaged: ``linear``, ``slerp``, or ``adapter`` where an adapter was scaled.
        chosen_on: The points on the probe.
        confirmed_on: The same points on the second probe; None without one.
        target_on: The same points on the target, if that is a probe.
        ranking: Matrix and ranking of the points against A, with the front if there is a target.
        distance: Distance of the ends' weights.
        notes: Sentences about the merge that a reader should know.
        kept: Folder with the merged models; None if they were deleted.
    """

    ends: tuple[str, str]
    method: str
    chosen_on: ProbeSweep
    confirmed_on: ProbeSweep | None
    target_on: ProbeSweep | None
    ranking: ModelComparison
    distance: WeightDistance
    notes: tuple[str, ...] = ()
    kept: Path | None = None

    @property
    def sweeps(self) -> list[ProbeSweep]:
        """The points on the probe, and on the one that confirms."""
        return [one for one in (self.chosen_on, self.confirmed_on) if one is not None]

    @property
    def everywhere(self) -> dict[str, ProbeSweep]:
        """The points on each probe, by its part: ``chosen``, ``confirmed``, ``target``."""
        found = {"chosen": self.chosen_on, "confirmed": self.confirmed_on, "target": self.target_on}
        return {part: one for part, one in found.items() if one is not None}

    @property
    def targets(self) -> dict[float, tuple[float, bool]]:
        """Value of the target and whether the point is on the front, by alpha; empty without a target."""
        alphas = [point.alpha for point in self.chosen_on.points]
        return {
            alphas[one.number - 1]: (one.target, bool(one.on_front))
            for one in self.ranking.ranking
            if one.target is not None
        }
