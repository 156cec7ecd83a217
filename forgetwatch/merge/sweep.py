"""A sweep between two models: each point is made in memory, scored, and compared with both ends.

    A, B ─▶ loaded, checked ─▶ ends scored ─▶ each point: made ─▶ scored        only if its outcomes are not cached

The outcomes of a point are cached under what determines its weights: the files of A and B, the
method and alpha. A sweep that was killed resumes with the first point that has no outcomes. Points
at 0 and 1 are the ends themselves.

Nothing here prefers a point. One that is chosen on a probe because it looks best there owes a part
of that to chance; the same numbers on a second probe, on which nothing was chosen, do not.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from forgetwatch.comparing.comparison import Comparison, compare
from forgetwatch.comparing.ranking import (
    ModelComparison,
    Target,
    rank_models,
    read_target,
    transition_matrix,
)
from forgetwatch.errors import ScoringError
from forgetwatch.merge.weights import ModelPair, WeightDistance
from forgetwatch.probe import Probe
from forgetwatch.progress import Progress
from forgetwatch.scoring.cached_score import score_derived
from forgetwatch.scoring.model_loading import load_model
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
        """Both comparisons, first with A."""
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
        method: How the weights were averaged: ``linear``, ``slerp``, or ``adapter`` where an
            adapter was scaled.
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
        """The points on the probe, and on the confirming probe."""
        return [
            probe_sweep
            for probe_sweep in (self.chosen_on, self.confirmed_on)
            if probe_sweep is not None
        ]

    @property
    def everywhere(self) -> dict[str, ProbeSweep]:
        """The points on each probe, by part.

        Parts are ``chosen``, ``confirmed`` and ``target``.
        """
        by_part = {
            "chosen": self.chosen_on,
            "confirmed": self.confirmed_on,
            "target": self.target_on,
        }
        return {
            probe_part: probe_sweep
            for probe_part, probe_sweep in by_part.items()
            if probe_sweep is not None
        }

    @property
    def targets(self) -> dict[float, tuple[float, bool]]:
        """Value of the target, and whether on the front, by alpha.

        Empty without a target.
        """
        points, ranked = self.chosen_on.points, self.ranking.ranking
        known_ends = [
            (points[ranked_model.number - 1].alpha, ranked_model.target, ranked_model.on_front)
            for ranked_model in ranked
            if ranked_model.target is not None
        ]
        return {alpha: (target, bool(on_front)) for alpha, target, on_front in known_ends}


def run_sweep(
    ends: ModelPair,
    probe: Probe,
    *,
    confirmation: Probe | None,
    target: str | Probe | None,
    progress_of: Shown,
) -> MergeSweep:
    """Score the points between two models, and compare with both.

    All are scored on a probe, and on a second one that confirms.

    The target, by which points are also ranked, is a probe, for the accuracy on it, or the path of
    a table of values.

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
        scoring.end(path, weights)
        for path, weights in zip((ends.a, ends.b), ends.weights, strict=True)
    )
    # Unlike prompts, a probe without outcomes and a table without values are told before a point is
    # made.
    for each_probe, before, after in zip(probes, of_a, of_b, strict=True):
        if not compare(before=before, after=after).all.n:
            raise ScoringError(
                f"{each_probe.name}: needed a probe with answers that can be right or wrong, "
                "got none scored"
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
        snapshots = {0.0: of_a, 1.0: of_b}.get(alpha) or scoring.point(alpha)
        rows[alpha] = [_named(snapshot, alpha) for snapshot in snapshots]
    sweeps = []
    for each_probe, a, b, *points in zip(probes, of_a, of_b, *rows.values(), strict=True):
        pairs = [
            (compare(before=a, after=point), compare(before=b, after=point)) for point in points
        ]
        merged = [
            MergedPoint(alpha=at, from_a=x, from_b=y)
            for at, (x, y) in zip(rows, pairs, strict=True)
        ]
        sweeps.append(ProbeSweep(probe=each_probe.name, points=tuple(merged)))
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
            matrix=transition_matrix([of_a[0], *(row[0] for row in rows.values())]),
            ranking=rank_models([point.from_a for point in sweeps[0].points], table),
            target=table,
        ),
        distance=distance,
        notes=tuple(
            _notes(
                ends,
                distance,
                [end for sweep in sweeps for point in sweep.points for end in point.ends],
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

    def end(self, path: str, weights: Sequence[str]) -> list[Snapshot]:
        """Outcomes of A or B on each probe.

        Shared with all other uses of the model.
        """
        return self._scored(
            path, path, weights, partial(load_model, path, loading=self.ends.loading)
        )

    def point(self, alpha: float) -> list[Snapshot]:
        """Outcomes of a point between the ends on each probe."""
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
        # JSON values determine the model; `load` gives the model and the tokenizer.
        snapshots, loading = [], self.ends.loading
        for probe in self.probes:
            with self.progress_of(label, probe) as progress:
                snapshots.append(
                    score_derived(name, weights, load, probe, loading=loading, progress=progress)
                )
        return snapshots


def _named(snapshot: Snapshot, alpha: float) -> Snapshot:
    return replace(snapshot, meta={**snapshot.meta, "model": f"alpha {alpha:g}"})


def _notes(
    ends: ModelPair, distance: WeightDistance, comparisons: Sequence[Comparison]
) -> list[str]:
    notes = []
    if ends.is_adapter:
        notes += [
            "an adapter is scaled: the points are the base with a share of what the adapter adds"
        ]
        if math.isnan(distance.overall):
            notes += ["the base is quantized: the distance is unknown"]
    return [*notes, *dict.fromkeys(note for comparison in comparisons for note in comparison.notes)]
