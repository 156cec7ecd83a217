"""A sweep between two models: each point is merged, scored, compared with both ends, and deleted.

    A, B ─▶ plan (headers, tokenizers) ─▶ room on the disk ─▶ ends scored ─▶ each point: write ─▶ score ─▶ delete
                                                                                  └ only if its outcomes are not cached

The outcomes of a point are cached under what determines its weights: the files of A and B, the method and alpha. A
sweep that was killed resumes with the first point that has no outcomes, and writes none of the others again. Points at
0 and 1 are the ends themselves: they are written only to be kept.

Nothing here prefers a point. One that is chosen on a probe because it looks best there owes a part of that to chance;
the same numbers on a second probe, on which nothing was chosen, do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from forgetwatch.comparing import (
    Comparison,
    ModelComparison,
    Target,
    compare,
    rank_models,
    read_target,
    transition_matrix,
)
from forgetwatch.errors import ScoringError
from forgetwatch.probe import Probe
from forgetwatch.progress import Progress
from forgetwatch.scoring import on_main_process, score_derived
from forgetwatch.snapshot import Snapshot
from forgetwatch.study.merging.ends import Ends, WeightDistance, own_folder, point_name, temporary_name, weight_distance
from forgetwatch.study.merging.scaled_adapters import AdapterPlan

Shown = Callable[[str, Probe], AbstractContextManager[Progress | None]]


@dataclass(frozen=True, kw_only=True)
class MergedPoint:
    """One model between the ends, or an end, on one probe: its share of B, and its comparisons after A and after B."""

    alpha: float
    from_a: Comparison
    from_b: Comparison

    @property
    def ends(self) -> tuple[Comparison, Comparison]:
        """Both comparisons, that with A first."""
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


def run_sweep(
    ends: Ends,
    probe: Probe,
    *,
    confirmation: Probe | None,
    target: str | Probe | None,
    shown: Shown,
    device_map: str | None = None,
) -> MergeSweep:
    """Score the points between two models, and compare each with both.

    Args:
        ends: The two models and the points.
        probe: The items.
        confirmation: Items of a second probe; None for none.
        target: What the points are also ranked by: a probe, for the accuracy on it, or the path of a table of values.
        shown: Context that shows the progress of scoring a model of a name on a probe.
        device_map: See `scoring.load_model`.

    Raises:
        ScoringError: If the models cannot be merged, or a point cannot be scored.
        SnapshotError: If a table has no value for a point.
        MismatchError: If the two models read unlike prompts.
    """
    on_main_process(ends.check)
    probes = [probe, *([confirmation] if confirmation else []), *([target] if isinstance(target, Probe) else [])]
    scoring = _Scoring(ends, probes, shown, device_map)
    of_a, of_b = (scoring.end(given, weights) for given, weights in zip((ends.a, ends.b), ends.weights, strict=True))
    # Unlike prompts, a probe without outcomes and a table without values are told before a model is written.
    for one, before, after in zip(probes, of_a, of_b, strict=True):
        if not compare(before=before, after=after).all.n:
            raise ScoringError(f"{one.name}: needed a probe with answers that can be right or wrong, got none scored")
    table: Target | None = None
    if isinstance(target, str):
        table = read_target(target, [(f"{alpha:g}", _named(of_a[0], alpha)) for alpha in ends.alphas])
    rows: dict[float, list[Snapshot]] = {}
    for alpha in ends.alphas:
        if ends.keep is not None:
            on_main_process(partial(ends.store, alpha))
        found = {0.0: of_a, 1.0: of_b}.get(alpha) or scoring.point(alpha)
        rows[alpha] = [_named(snapshot, alpha) for snapshot in found]
    sweeps = [
        _compared(one.name, of_a[at], of_b[at], {alpha: found[at] for alpha, found in rows.items()})
        for at, one in enumerate(probes)
    ]
    on_target = sweeps[-1] if isinstance(target, Probe) else None
    if on_target is not None:
        values = tuple(point.from_a.all.accuracy_after for point in on_target.points)
        table = Target(name=f"right on {on_target.probe}", values=values)
    distance = on_main_process(partial(weight_distance, ends))
    return MergeSweep(
        ends=(of_a[0].label, of_b[0].label),
        method="adapter" if isinstance(ends.plan, AdapterPlan) else ends.method,
        chosen_on=sweeps[0],
        confirmed_on=None if confirmation is None else sweeps[1],
        target_on=on_target,
        ranking=ModelComparison(
            matrix=transition_matrix([of_a[0], *(found[0] for found in rows.values())]),
            ranking=rank_models([point.from_a for point in sweeps[0].points], table),
            target=table,
        ),
        distance=distance,
        notes=tuple(_notes(ends, distance, [both for one in sweeps for point in one.points for both in point.ends])),
        kept=ends.keep,
    )


class _Scoring:
    """Scoring of the ends and of the points between them, on all probes."""

    def __init__(self, ends: Ends, probes: Sequence[Probe], shown: Shown, device_map: str | None) -> None:
        self._ends, self._probes, self._shown, self._device_map = ends, probes, shown, device_map

    def end(self, given: str, weights: Sequence[str]) -> list[Snapshot]:
        """Outcomes of A or B on each probe; shared with all other uses of the model."""
        return self._scored(given, given, weights, lambda: given)

    def point(self, alpha: float) -> list[Snapshot]:
        """Outcomes of a point between the ends on each probe; its files are there while it is scored."""
        ends = self._ends
        with ExitStack() as stack:

            def write() -> str:
                if (kept := ends.kept(alpha)) is not None:
                    ends.store(alpha)
                    return str(kept)
                folder = stack.enter_context(own_folder(temporary_name()))
                ends.write(alpha, folder)
                return str(folder)

            # Written for the first probe whose outcomes are not cached; of several processes the first one writes.
            files = cache(lambda: on_main_process(write))
            name = point_name(alpha)
            return self._scored(f"{ends.method} merge, {name}", name, ends.recipe(alpha), files)

    def _scored(self, label: str, name: str, weights: Sequence[Any], files: Callable[[], str]) -> list[Snapshot]:
        """Outcomes on each probe of the model that some JSON values determine, and whose folder `files` gives."""
        found = []
        for probe in self._probes:
            with self._shown(label, probe) as progress:
                snapshot = score_derived(
                    name,
                    weights,
                    lambda: nullcontext(files()),
                    probe,
                    trust_remote_code=self._ends.trust_remote_code,
                    device_map=self._device_map,
                    progress=progress,
                )
            found.append(snapshot)
        return found


def _compared(probe: str, a: Snapshot, b: Snapshot, points: Mapping[float, Snapshot]) -> ProbeSweep:
    """All points on one probe, each compared with both ends."""
    pairs = {at: (compare(before=a, after=one), compare(before=b, after=one)) for at, one in points.items()}
    merged = [MergedPoint(alpha=alpha, from_a=first, from_b=second) for alpha, (first, second) in pairs.items()]
    return ProbeSweep(probe=probe, points=tuple(merged))


def _named(snapshot: Snapshot, alpha: float) -> Snapshot:
    return replace(snapshot, meta={**snapshot.meta, "model": point_name(alpha)})


def _notes(ends: Ends, distance: WeightDistance, comparisons: Sequence[Comparison]) -> list[str]:
    """Notes of the merge and, once each, of the comparisons."""
    notes = []
    if isinstance(ends.plan, AdapterPlan):
        notes.append("an adapter is scaled: the points are the base with a share of what the adapter adds")
        if math.isnan(distance.overall):
            notes.append(
                "the base is quantized, or stored under other names than the adapter's: the distance is unknown"
            )
    else:
        if wide := ends.plan.widened:
            notes.append(f"{len(wide)} tensors are stored in two dtypes; the points have the wider one")
        if left := ends.plan.left_out:
            notes.append(
                f"{len(left)} tensors are stored on one side only and are made of others when loaded: {left[0]}"
            )
    return [*notes, *dict.fromkeys(note for one in comparisons for note in one.notes)]
