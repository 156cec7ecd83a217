"""A sweep between two models: each point is made in memory, scored, and compared with both ends.

    A, B ─▶ loaded, checked ─▶ ends scored ─▶ each point: made ─▶ scored        only if its outcomes are not cached

The outcomes of a point are cached under what determines its weights: the files of A and B, the method and alpha. A
sweep that was killed resumes with the first point that has no outcomes. Points at 0 and 1 are the ends themselves.

Nothing here prefers a point. One that is chosen on a probe because it looks best there owes a part of that to chance;
the same numbers on a second probe, on which nothing was chosen, do not.

**Choice.** The point of a sweep that a limit chooses, and whether questions that chose nothing confirm it.

The limit is a share of what A knew (`comparing.kept_share`), such as 98 %. Of the points that keep as much on the first
probe, and whose verdict there is not FORGOT, the one with the most of B is chosen. It is the best of several, and so
looks better than it is; its share on the second probe does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from forgetwatch.comparing.comparison import Comparison, compare
from forgetwatch.comparing.decision import decide
from forgetwatch.comparing.kept_share import KEPT_OF, Kept, kept, kept_of
from forgetwatch.comparing.ranking import (
    ModelComparison,
    Target,
    rank_models,
    read_target,
    transition_matrix,
)
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance
from forgetwatch.errors import ScoringError
from forgetwatch.merge.weights import ModelPair, WeightDistance
from forgetwatch.probe import Probe
from forgetwatch.progress import Progress
from forgetwatch.scoring.model_loading import load_model, score_derived
from forgetwatch.scoring.processes import on_all_processes, on_main_process
from forgetwatch.snapshot import Snapshot

Shown = Callable[[str, Probe], AbstractContextManager[Progress | None]]
"""Function that makes a context, which shows the progress of scoring a model of a name on a probe."""


@dataclass(frozen=True, kw_only=True)
class MergedPoint:
    """A point on one probe: its share of B, and its comparisons after A and after B."""

    alpha: float
    from_a: Comparison
    from_b: Comparison

    @property
    def ends(self) -> tuple[Comparison, Comparison]:
        """Both comparisons, that after A first."""
        return self.from_a, self.from_b


@dataclass(frozen=True, kw_only=True)
class ProbeSweep:
    """All points on the probe of a name, in the order of alpha."""

    probe: str
    points: tuple[MergedPoint, ...]

    @property
    def n(self) -> float:
        """Number of items that were compared."""
        return self.points[0].from_a.all.n


@dataclass(frozen=True, kw_only=True)
class MergeSweep:
    """Points between two models, on the probe by which one may be chosen, one that confirms, and the target's.

    Attributes:
        ends: Names of A and B.
        method: How the weights were averaged: ``linear``, ``slerp``, or ``adapter`` where an adapter was scaled.
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
        points, ranked = self.chosen_on.points, self.ranking.ranking
        known = [
            (points[one.number - 1].alpha, one.target, one.on_front)
            for one in ranked
            if one.target is not None
        ]
        return {alpha: (target, bool(on_front)) for alpha, target, on_front in known}


def run_sweep(
    ends: ModelPair,
    probe: Probe,
    *,
    confirmation: Probe | None,
    target: str | Probe | None,
    progress_of: Shown,
) -> MergeSweep:
    """Score the points between two models on a probe and on one that confirms, and compare each with both models.

    The target, by which points are also ranked, is a probe, for the accuracy on it, or the path of a table of values.

    Raises:
        ScoringError: If the models cannot be merged, or a point cannot be scored.
        SnapshotError: If a table has no value for a point.
        MismatchError: If the two models read unlike prompts.
    """
    on_all_processes(ends.check)
    probes = [
        probe,
        *([confirmation] if confirmation else []),
        *([target] if isinstance(target, Probe) else []),
    ]
    scoring = _Scoring(ends, probes, progress_of)
    of_a, of_b = (
        scoring.end(given, weights)
        for given, weights in zip((ends.a, ends.b), ends.weights, strict=True)
    )
    # Unlike prompts, a probe without outcomes and a table without values are told before a point is made.
    for one, before, after in zip(probes, of_a, of_b, strict=True):
        if not compare(before=before, after=after).all.n:
            raise ScoringError(
                f"{one.name}: needed a probe with answers that can be right or wrong, got none scored"
            )
    table: Target | None = None
    if isinstance(target, str):
        table = read_target(
            target, [(f"{alpha:g}", _named(of_a[0], alpha)) for alpha in ends.alphas]
        )
    rows: dict[float, list[Snapshot]] = {}
    for alpha in ends.alphas:
        if ends.keep is not None:
            on_main_process(partial(ends.store, alpha))
        found = {0.0: of_a, 1.0: of_b}.get(alpha) or scoring.point(alpha)
        rows[alpha] = [_named(snapshot, alpha) for snapshot in found]
    sweeps = []
    for one, a, b, *points in zip(probes, of_a, of_b, *rows.values(), strict=True):
        pairs = [
            (compare(before=a, after=point), compare(before=b, after=point)) for point in points
        ]
        merged = [
            MergedPoint(alpha=at, from_a=x, from_b=y)
            for at, (x, y) in zip(rows, pairs, strict=True)
        ]
        sweeps.append(ProbeSweep(probe=one.name, points=tuple(merged)))
    on_target = sweeps[-1] if isinstance(target, Probe) else None
    if on_target is not None:
        values = tuple(point.from_a.all.accuracy_after for point in on_target.points)
        table = Target(name=f"right on {on_target.probe}", values=values)
    distance = on_main_process(ends.distance)
    return MergeSweep(
        ends=(of_a[0].label, of_b[0].label),
        method="adapter" if ends.is_adapter else ends.method,
        chosen_on=sweeps[0],
        confirmed_on=None if confirmation is None else sweeps[1],
        target_on=on_target,
        ranking=ModelComparison(
            matrix=transition_matrix([of_a[0], *(found[0] for found in rows.values())]),
            ranking=rank_models([point.from_a for point in sweeps[0].points], table),
            target=table,
        ),
        distance=distance,
        notes=tuple(
            _notes(
                ends,
                distance,
                [both for one in sweeps for point in one.points for both in point.ends],
            )
        ),
        kept=ends.keep,
    )


def score_point(ends: ModelPair, alpha: float, probe: Probe, *, progress_of: Shown) -> Snapshot:
    """Score one point between two models on a probe.

    Raises:
        ScoringError: If the models cannot be merged, or the point cannot be scored.
    """
    on_all_processes(ends.check)
    return _Scoring(ends, [probe], progress_of).point(alpha)[0]


@dataclass(frozen=True)
class _Scoring:
    """Scoring of the ends and of the points between them, on all probes."""

    ends: ModelPair
    probes: Sequence[Probe]
    progress_of: Shown

    def end(self, given: str, weights: Sequence[str]) -> list[Snapshot]:
        """Return the outcomes of A or B on each probe; shared with all other uses of the model."""
        return self._scored(
            given, given, weights, partial(load_model, given, loading=self.ends.loading)
        )

    def point(self, alpha: float) -> list[Snapshot]:
        """Return the outcomes of a point between the ends on each probe."""
        name = f"alpha {alpha:g}"
        with ExitStack() as stack:
            # Made for the first probe whose outcomes are not cached.
            load = cache(lambda: stack.enter_context(self.ends.at(alpha)))
            return self._scored(
                f"{self.ends.method} merge, {name}", name, self.ends.recipe(alpha), load
            )

    def _scored(
        self, label: str, name: str, weights: Sequence[Any], load: Callable[[], Any]
    ) -> list[Snapshot]:
        """Score the model that some JSON values determine on each probe; `load` gives it and its tokenizer."""
        found, loading = [], self.ends.loading
        for probe in self.probes:
            with self.progress_of(label, probe) as progress:
                found.append(
                    score_derived(name, weights, load, probe, loading=loading, progress=progress)
                )
        return found


def _named(snapshot: Snapshot, alpha: float) -> Snapshot:
    return replace(snapshot, meta={**snapshot.meta, "model": f"alpha {alpha:g}"})


def _notes(
    ends: ModelPair, distance: WeightDistance, comparisons: Sequence[Comparison]
) -> list[str]:
    """Return the notes of the merge and, once each, of the comparisons."""
    notes = []
    if ends.is_adapter:
        notes += [
            "an adapter is scaled: the points are the base with a share of what the adapter adds"
        ]
        if math.isnan(distance.overall):
            notes += ["the base is quantized: the distance is unknown"]
    return [*notes, *dict.fromkeys(note for one in comparisons for note in one.notes)]


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
        alpha: Share of B of the point; None if each point keeps less or is FORGOT, or A had nothing right.
        chosen: What it keeps on the probe that chose it; without a point, what the smallest share of B keeps.
        confirmed: What it keeps on the second probe; None without one, or if A had nothing right there.
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
        if self.confirmed.kept.interval[1] < self.limit:
            return "did not hold"
        return "held" if self.confirmed.kept.share >= self.limit else "not clear"

    def __str__(self) -> str:
        """Return the choice in one sentence."""
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
                f"no alpha that was tried {limit} without being FORGOT: {self.smallest:g} keeps {self.chosen}; "
                "try smaller ones with --alpha, or ask for less with --keep-known"
            )
        text = f"alpha {self.alpha:g} is the largest that {limit} and is not FORGOT: {self.chosen}"
        if self.confirmed is None:
            return f"{text}; nothing confirms it"
        return f"{text}, and {self.confirmed}: {self.outcome}"


def choose(sweep: MergeSweep, limit: float, *, tolerance: Tolerance = TOLERANCE) -> Choice:
    """Return the point with the most of B that keeps a share of what A knew, and is not FORGOT.

    Args:
        sweep: The points.
        limit: The share, above 0 and at most 1.
        tolerance: Losses that the verdict tolerates.
    """
    alphas = [point.alpha for point in sweep.chosen_on.points if point.alpha > 0]
    measured = {
        alpha: one for alpha in alphas if (one := _kept(sweep.chosen_on, alpha)) is not None
    }
    if not measured:
        return Choice(limit=limit, alpha=None, chosen=None, smallest=min(alphas, default=None))
    smallest = min(measured)
    words = {point.alpha: decide(point.from_a, tolerance).word for point in sweep.chosen_on.points}
    enough = [
        alpha
        for alpha, one in measured.items()
        if one.kept.share >= limit and words[alpha] != "FORGOT"
    ]
    if not enough:
        return Choice(limit=limit, alpha=None, chosen=measured[smallest], smallest=smallest)
    alpha = max(enough)
    second = None if sweep.confirmed_on is None else _kept(sweep.confirmed_on, alpha)
    return Choice(
        limit=limit, alpha=alpha, chosen=measured[alpha], confirmed=second, smallest=smallest
    )


def _kept(one: ProbeSweep, alpha: float) -> KeptShare | None:
    group = next(point.from_a.all for point in one.points if point.alpha == alpha)
    found = kept(group, kept_of(point.from_a.all for point in one.points))
    return None if math.isnan(found.share) else KeptShare(probe=one.probe, kept=found)
