"""A sweep between two models: each point is merged, scored, compared with both ends, and deleted.

    A, B ─▶ plan (headers, tokenizers) ─▶ room on the disk ─▶ ends scored ─▶ each point: write ─▶ score ─▶ delete
                                                                                  └ only if its outcomes are not cached

The outcomes of a point are cached under what determines its weights: the files of A and B, the method and alpha. A
sweep that was killed resumes with the first point that has no outcomes, and writes none of the others again. Points at
0 and 1 are the ends themselves: they are written only to be kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

from forgetwatch.comparing.comparison import Comparison, compare
from forgetwatch.comparing.merge_sweep import MergedPoint, MergeSweep, ProbeSweep, WeightDistance
from forgetwatch.comparing.ranking import ModelComparison, Target, rank_models, read_target, transition_matrix
from forgetwatch.errors import ScoringError
from forgetwatch.probe import Probe
from forgetwatch.progress import Progress, log
from forgetwatch.scoring.checkpoints import ADAPTER, score_checkpoint, score_derived, weights_identity
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.snapshot import Snapshot
from forgetwatch.study.merging.point_folders import (
    check_disk,
    own_folder,
    partial_name,
    remove_abandoned,
    temporary_name,
)
from forgetwatch.study.merging.scaled_adapters import AdapterPlan, adapter_squares, plan_adapter, write_scaled
from forgetwatch.study.merging.weight_files import DTYPES, model_folder, stored_tensors
from forgetwatch.study.merging.weights import (
    Geometry,
    MergePlan,
    Method,
    geometry_of,
    plan_merge,
    squares_of,
    write_merged,
)

RECIPE: Final = "forgetwatch_merge.json"
"""File of a kept point that says what it was made of."""
_VERSION: Final = 1
"""Number of the arithmetic of a merge; another one makes outcomes that are scored again."""

Shown = Callable[[str, Probe], AbstractContextManager[Progress | None]]
"""Context that shows the progress of scoring a model of a name on a probe."""


@dataclass(frozen=True, kw_only=True)
class Ends:
    """Two models and the points between them.

    Attributes:
        a: The base: checkpoint folder or model id.
        b: A checkpoint of the same architecture, or an adapter of A.
        method: How weights are averaged.
        alphas: Shares of B, 0 to 1, ascending.
        keep: Folder in which the points are kept; None deletes each once it is scored.
        trust_remote_code: Run code that comes with the models.
    """

    a: str
    b: str
    method: Method
    alphas: tuple[float, ...]
    keep: Path | None = None
    trust_remote_code: bool = False

    @cached_property
    def plan(self) -> MergePlan | AdapterPlan:
        """Plan of the files that are written for a point.

        Raises:
            ScoringError: If the two cannot be merged; see `plan_merge` and `plan_adapter`.
        """
        options = {"trust_remote_code": self.trust_remote_code}
        if (Path(self.a) / ADAPTER).is_file():
            raise ScoringError(f"{self.a}: an adapter; needed a whole model as A, such as the adapter's base")
        if not (Path(self.b) / ADAPTER).is_file():
            return plan_merge(self.a, self.b, **options)
        if self.method == "slerp":
            raise ScoringError(f"{self.b}: an adapter is scaled, which is linear; needed --method linear, got slerp")
        return plan_adapter(self.a, self.b, **options)

    @cached_property
    def geometry(self) -> dict[str, Geometry]:
        """Norms and angles of the tensors of two whole models; empty for an adapter."""
        return geometry_of(self.plan) if isinstance(self.plan, MergePlan) else {}

    @cached_property
    def weights(self) -> list[str]:
        """Digests of the files of both models."""
        found = [weights_identity(one, trust_remote_code=self.trust_remote_code) for one in (self.a, self.b)]
        return ["first", *found[0], "second", *found[1]]

    def recipe(self, alpha: float) -> list[Any]:
        """JSON values that determine the weights of a point."""
        return ["merged", _VERSION, self.method, alpha, *self.weights]

    def write(self, alpha: float, folder: Path) -> None:
        """Write a point."""
        if isinstance(self.plan, AdapterPlan):
            write_scaled(self.plan, folder, alpha=alpha)
        else:
            write_merged(self.plan, folder, alpha=alpha, method=self.method, geometry=self.geometry)

    def check(self) -> None:
        """Raise if the ends cannot be merged, or the points would not fit onto the disk; nothing is written.

        Raises:
            ScoringError: If so, or if a folder of points that are kept holds something else.
        """
        needed, models, where = self.plan.bytes, 1, Path(gettempdir())
        for folder in remove_abandoned(self.keep):
            log(f"removed {folder}, which a merge that was killed had left")
        if self.keep is not None:
            missing = [alpha for alpha in self.alphas if not self._is_kept(alpha)]
            models, where = (
                len(missing),
                next(one for one in (self.keep, *self.keep.absolute().parents) if one.exists()),
            )
            if not where.is_dir():
                raise ScoringError(f"{self.keep}: needed a folder to keep the merged models in, and {where} is a file")
        check_disk(where, needed, models=models)

    def _is_kept(self, alpha: float) -> bool:
        """True if a point is in the folder already."""
        folder = self.kept(alpha)
        if folder is None or not folder.exists():
            return False
        try:
            found = json.loads((folder / RECIPE).read_text(encoding="utf-8"))["recipe"]
        except (OSError, ValueError, KeyError, TypeError):
            found = None
        if found != self.recipe(alpha):
            raise ScoringError(
                f"{folder}: is there, and was not merged from {self.a} and {self.b}; name another folder"
            )
        return True

    def kept(self, alpha: float) -> Path | None:
        """Folder of a point that is kept; None if points are deleted."""
        return None if self.keep is None else self.keep / f"{self.method}-{alpha:g}"

    def store(self, alpha: float) -> None:
        """Write a point into the folder that keeps it, whole or not at all, unless it is there."""
        folder = self.kept(alpha)
        if folder is None or self._is_kept(alpha):
            return
        with own_folder(partial_name(folder)) as written:
            self.write(alpha, written)
            document = {"a": self.a, "b": self.b, "method": self.method, "alpha": alpha, "recipe": self.recipe(alpha)}
            (written / RECIPE).write_text(json.dumps(document, indent=1), encoding="utf-8")
            try:
                written.rename(folder)
            except OSError:
                if not self._is_kept(alpha):  # another merge may have kept the same point in the meantime
                    raise


@dataclass
class _Point:
    """Files of one point, written when the first probe needs them, and removed with the context of the point."""

    ends: Ends
    alpha: float
    stack: ExitStack
    folder: str | None = field(default=None, init=False)

    @contextmanager
    def files(self) -> Iterator[str]:
        """Context of the folder; in several processes the first one writes."""
        if self.folder is None:
            self.folder = on_main_process(self._write)
        yield self.folder

    def _write(self) -> str:
        if (kept := self.ends.kept(self.alpha)) is not None:
            self.ends.store(self.alpha)
            return str(kept)
        folder = self.stack.enter_context(own_folder(temporary_name()))
        self.ends.write(self.alpha, folder)
        return str(folder)


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
        shown: Shows the progress of scoring.
        device_map: See `checkpoints.load_model`.

    Raises:
        ScoringError: If the models cannot be merged, or a point cannot be scored.
        SnapshotError: If a table has no value for a point.
        MismatchError: If the two models read unlike prompts.
    """
    on_main_process(ends.check)
    probes = [probe, *([confirmation] if confirmation else []), *([target] if isinstance(target, Probe) else [])]
    once = partial(score_checkpoint, trust_remote_code=ends.trust_remote_code, device_map=device_map)

    def scored(given: str, one: Probe) -> Snapshot:
        with shown(given, one) as progress:
            return once(given, one, progress=progress)

    of_a, of_b = ([scored(given, one) for one in probes] for given in (ends.a, ends.b))
    for before, after in zip(of_a, of_b, strict=True):
        compare(before=before, after=after)  # unlike prompts are refused before a model is written
    rows: dict[float, list[Snapshot]] = {}
    for alpha in ends.alphas:
        if ends.keep is not None:
            on_main_process(partial(ends.store, alpha))
        found = {0.0: of_a, 1.0: of_b}.get(alpha) or _score_point(ends, alpha, probes, shown, device_map)
        rows[alpha] = [replace(snapshot, meta={**snapshot.meta, "model": _name(alpha)}) for snapshot in found]
    return _sweep(ends, probes, of_a, of_b, rows, confirmation=confirmation, target=target)


def _score_point(
    ends: Ends, alpha: float, probes: Sequence[Probe], shown: Shown, device_map: str | None
) -> list[Snapshot]:
    """Outcomes of a point between the ends on each probe; its files are there while it is scored."""
    found = []
    with ExitStack() as stack:
        point = _Point(ends, alpha, stack)
        for probe in probes:
            with shown(f"{ends.method} merge, {_name(alpha)}", probe) as progress:
                found.append(
                    score_derived(
                        _name(alpha),
                        ends.recipe(alpha),
                        point.files,
                        probe,
                        trust_remote_code=ends.trust_remote_code,
                        device_map=device_map,
                        progress=progress,
                    )
                )
    return found


def _name(alpha: float) -> str:
    return f"alpha {alpha:g}"


def _sweep(
    ends: Ends,
    probes: Sequence[Probe],
    of_a: Sequence[Snapshot],
    of_b: Sequence[Snapshot],
    rows: Mapping[float, Sequence[Snapshot]],
    *,
    confirmation: Probe | None,
    target: str | Probe | None,
) -> MergeSweep:
    """The comparisons of all points, and their ranking."""
    sweeps = [
        ProbeSweep(
            probe=one.name,
            points=tuple(
                MergedPoint(
                    alpha=alpha,
                    from_a=compare(before=of_a[at], after=found[at]),
                    from_b=compare(before=of_b[at], after=found[at]),
                )
                for alpha, found in rows.items()
            ),
        )
        for at, one in enumerate(probes)
    ]
    if not sweeps[0].n:
        raise ScoringError(f"{probes[0].name}: needed a probe with answers that can be right or wrong, got none scored")
    comparisons = [point.from_a for point in sweeps[0].points]
    points = [found[0] for found in rows.values()]
    ranking = ModelComparison(
        matrix=transition_matrix([of_a[0], *points]),
        ranking=rank_models(comparisons, wanted := _target(target, sweeps[-1], rows)),
        target=wanted,
    )
    return MergeSweep(
        ends=(of_a[0].label, of_b[0].label),
        method="adapter" if isinstance(ends.plan, AdapterPlan) else ends.method,
        chosen_on=sweeps[0],
        confirmed_on=None if confirmation is None else sweeps[1],
        target_on=sweeps[-1] if isinstance(target, Probe) else None,
        ranking=ranking,
        distance=on_main_process(lambda: weight_distance(ends)),
        notes=tuple(_notes(ends, comparisons)),
        kept=ends.keep,
    )


def _target(target: str | Probe | None, last: ProbeSweep, rows: Mapping[float, Sequence[Snapshot]]) -> Target | None:
    """The target's value at each point."""
    if target is None:
        return None
    if isinstance(target, Probe):
        values = tuple(point.from_a.all.accuracy_after for point in last.points)
        return Target(name=f"right on {target.name}", values=values)
    return read_target(target, [(f"{alpha:g}", found[0]) for alpha, found in rows.items()])


def weight_distance(ends: Ends) -> WeightDistance:
    """Distance of the weights of the two models, relative to those of A."""
    if isinstance(ends.plan, MergePlan):
        squares = {name: (one.aa, one.dd) for name, one in ends.geometry.items()}
        return WeightDistance.of(squares, turned=sum(not one.is_parallel for one in ends.geometry.values()))
    base, added = stored_tensors(ends.a, model_folder(ends.a)), adapter_squares(ends.plan)
    norms = {name: squares_of(tensor) for name, tensor in base.items() if tensor.dtype in DTYPES}
    return WeightDistance.of({name: (norm, added.get(name, 0.0)) for name, norm in norms.items()}, turned=0)


def _notes(ends: Ends, comparisons: Sequence[Comparison]) -> list[str]:
    """Notes of the merge and, once each, of the comparisons."""
    notes = []
    if isinstance(ends.plan, AdapterPlan):
        notes.append("an adapter is scaled: the points are the base with a share of what the adapter adds")
    else:
        if wide := ends.plan.widened:
            notes.append(f"{len(wide)} tensors are stored in two dtypes; the points have the wider one")
        if left := ends.plan.left_out:
            notes.append(
                f"{len(left)} tensors are stored on one side only and are made of others when loaded: {left[0]}"
            )
    return [*notes, *dict.fromkeys(note for one in comparisons for note in one.notes)]
