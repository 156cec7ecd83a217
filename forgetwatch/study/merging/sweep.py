"""A sweep between two models: each point is merged, scored, compared with both ends, and deleted.

    A, B ─▶ plan (headers, tokenizers) ─▶ room on the disk ─▶ ends scored ─▶ each point: write ─▶ score ─▶ delete
                                                                                  └ only if its outcomes are not cached

The outcomes of a point are cached under what determines its weights: the files of A and B, the method and alpha. A
sweep that was killed resumes with the first point that has no outcomes, and writes none of the others again. Points at
0 and 1 are the ends themselves: they are written only to be kept.

A point that is kept holds its recipe in `RECIPE`, so that it is never taken for that of other models. The others are
deleted, also after a kill:

    forgetwatch-merge-3f0c41d0           a model, in the folder for temporary files
    forgetwatch-merge-3f0c41d0.lock      locked as long as the process that writes it lives

The system frees the lock of a process that ends, in whatever way. A folder with a lock that is free is abandoned: the
next merge removes it. Where a file system has no locks, there is no lock file, and nothing is taken for abandoned.

Nothing here prefers a point. One that is chosen on a probe because it looks best there owes a part of that to chance;
the same numbers on a second probe, on which nothing was chosen, do not.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import accumulate
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

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
from forgetwatch.files import LocksUnsupportedError, lock_file, unlock_file
from forgetwatch.loading import Loading
from forgetwatch.probe import Probe
from forgetwatch.progress import Done, Progress, log, shown
from forgetwatch.scoring import ADAPTER, on_main_process, score_derived, weights_identity
from forgetwatch.snapshot import Snapshot
from forgetwatch.study.merging.checkpoints import DTYPES
from forgetwatch.study.merging.weights import (
    AdapterPlan,
    Geometry,
    MergePlan,
    Method,
    WeightDistance,
    adapter_squares,
    check_finite,
    check_point,
    geometry_of,
    plan_adapter,
    plan_merge,
    squares_of,
    write_merged,
    write_scaled,
)

Shown = Callable[[str, Probe], AbstractContextManager[Progress | None]]
"""Function that makes a context, which shows the progress of scoring a model of a name on a probe."""

RECIPE: Final = "forgetwatch_merge.json"
"""File of a kept point that says what it was made of."""
_VERSION: Final = 1
"""Number of the arithmetic of a merge; another one makes outcomes that are scored again."""
_DELAY: Final = 5.0
"""Seconds of work on weights after which its progress is shown."""
_TEMPORARY: Final = "forgetwatch-merge-"
_PARTIAL: Final = ".partial"
_LOCK: Final = ".lock"
_MORE_ROOM: Final = "make room, or name a folder on another disk (TMPDIR, or --keep)"
"""Remedy for a disk that is full."""


@dataclass(frozen=True, kw_only=True)
class ModelPair:
    """Two models and the points between them.

    A point is determined by the files of both models, the method and alpha: its recipe.

    Attributes:
        a: The base: checkpoint folder or model id.
        b: A checkpoint of the same architecture, or an adapter of A.
        method: How weights are averaged.
        alphas: Shares of B, 0 to 1, ascending.
        keep: Folder in which the points are kept; None deletes each once it is scored.
        loading: How both, and the points between them, are loaded.
    """

    a: str
    b: str
    method: Method
    alphas: tuple[float, ...]
    keep: Path | None = None
    loading: Loading = Loading()

    @cached_property
    def plan(self) -> MergePlan | AdapterPlan:
        """Plan of the files that are written for a point; ScoringError if the two cannot be merged."""
        if (Path(self.a) / ADAPTER).is_file():
            raise ScoringError(f"{self.a}: an adapter; needed a whole model as A, such as the adapter's base")
        if not (Path(self.b) / ADAPTER).is_file():
            return plan_merge(self.a, self.b, loading=self.loading)
        if self.method == "slerp":
            raise ScoringError(f"{self.b}: an adapter is scaled, which is linear; needed --method linear, got slerp")
        return plan_adapter(self.a, self.b, loading=self.loading)

    @cached_property
    def geometry(self) -> dict[str, Geometry]:
        """Norms and angles of the tensors of two whole models; empty for an adapter."""
        if not isinstance(self.plan, MergePlan):
            return {}
        with _tensors_shown("reading the weights of both models", self.plan) as beat:
            return geometry_of(self.plan, beat=beat)

    @cached_property
    def base_squares(self) -> dict[str, float]:
        """Sums of the squares of the base of an adapter, by the tensor's name; empty for two whole models."""
        base = self.plan.base if isinstance(self.plan, AdapterPlan) else {}
        return {name: squares_of(one) for name, one in base.items() if one.dtype in DTYPES}

    @cached_property
    def weights(self) -> tuple[list[str], list[str]]:
        """Digests of the files of A and of B."""
        a, b = (weights_identity(one, loading=self.loading) for one in (self.a, self.b))
        return a, b

    def distance(self) -> WeightDistance:
        """Return the distance of the weights of the two models, relative to those of A.

        Nan where it cannot be measured.
        """
        if isinstance(self.plan, MergePlan):
            squares = {name: (one.aa, one.dd) for name, one in self.geometry.items()}
            return WeightDistance.of(squares, turned=sum(not one.is_parallel for one in self.geometry.values()))
        added = adapter_squares(self.plan)
        squares = {name: (of_base, added.pop(name, 0.0)) for name, of_base in self.base_squares.items()}
        # What is added to weights that are quantized, or stored under other names, has no norm to be compared with.
        return WeightDistance.of({**squares, **dict.fromkeys(added, (math.nan, math.nan))}, turned=0)

    def recipe(self, alpha: float) -> list[Any]:
        """Return the JSON values that determine the weights of a point."""
        return ["merged", _VERSION, self.method, alpha, "first", *self.weights[0], "second", *self.weights[1]]

    def write(self, alpha: float, folder: Path) -> None:
        """Write a point; raise ScoringError if the disk is full."""
        try:
            if isinstance(self.plan, AdapterPlan):
                write_scaled(self.plan, folder, alpha=alpha)
                return
            geometry = self.geometry if self.method == "slerp" else {}
            with _tensors_shown(f"merging alpha {alpha:g}", self.plan) as beat:
                write_merged(self.plan, folder, alpha=alpha, method=self.method, geometry=geometry, beat=beat)
        except OSError as error:
            if error.filename is not None or error.strerror is None:  # it names a file
                raise
            raise ScoringError(f"{folder}: cannot be written ({error.strerror}); {_MORE_ROOM}") from error

    def check(self) -> None:
        """Remove what merges that were killed had left; raise ScoringError if the points cannot be made."""
        where = Path(gettempdir())
        models = int(any(0 < alpha < 1 for alpha in self.alphas))  # the ends are scored where they are
        for folder in remove_abandoned(self.keep):
            log(f"removed {folder}, which a merge that was killed had left")
        if self.keep is not None:
            models = sum(not self._is_kept(alpha) for alpha in self.alphas)
            where = next(one for one in (self.keep.absolute(), *self.keep.absolute().parents) if one.exists())
            if not where.is_dir():
                raise ScoringError(f"{self.keep}: needed a folder to keep the merged models in, and {where} is a file")
        check_disk(where, self.plan.bytes, models=models)
        # What is read for the weights' own check is kept for the distance of the two models.
        if isinstance(self.plan, MergePlan):
            for alpha in self.alphas:
                check_point(self.plan, alpha=alpha, method=self.method, geometry=self.geometry)
            return
        for tensor in self.plan.tensors.values():
            check_finite(tensor, squares_of(tensor), f"B ({self.b})")
        for name, squares in self.base_squares.items():
            check_finite(self.plan.base[name], squares, f"A ({self.a})")

    def _is_kept(self, alpha: float) -> bool:
        """Return True if a point is in the folder already."""
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
        """Return the folder of a point that is kept; None if points are deleted."""
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


@contextmanager
def _tensors_shown(label: str, plan: MergePlan) -> Iterator[Callable[[], None]]:
    """Provide a context that shows the progress of work on the tensors of a plan; yields what is called after each."""
    sizes = enumerate(accumulate(pair.bytes for pair in plan.pairs), 1)
    with shown(label, delay=_DELAY) as progress:

        def beat() -> None:
            count, size = next(sizes)
            if progress:
                progress(Done(count=count, total=len(plan.pairs), share=size / plan.bytes, unit="tensors"))

        yield beat


def temporary_name() -> Path:
    """Return the path of a new folder for a point that is deleted."""
    return Path(gettempdir(), f"{_TEMPORARY}{secrets.token_hex(8)}")


def partial_name(kept: Path) -> Path:
    """Return the path of a new folder next to that of a point that is kept, in which the point is written."""
    return kept.with_name(f".{kept.name}.{secrets.token_hex(6)}{_PARTIAL}")


@contextmanager
def own_folder(path: Path) -> Iterator[Path]:
    """Provide a new folder that belongs to this process; it is removed at the end, unless it was renamed."""
    lock = path.with_name(path.name + _LOCK)
    file = _locked_at_once(lock)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Folders for temporary files are often open to all: what is made of private models stays private there.
        path.mkdir(mode=0o700 if path.name.startswith(_TEMPORARY) else 0o777)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
    finally:
        if file is not None:
            unlock_file(lock, file)


def remove_abandoned(keep: Path | None) -> list[Path]:
    """Remove the folders of processes that were killed, also half-written points in `keep`; return those now gone."""
    removed, in_keep = [], [] if keep is None else keep.glob(f".*{_PARTIAL}{_LOCK}")
    for lock in (*Path(gettempdir()).glob(f"{_TEMPORARY}*{_LOCK}"), *in_keep):
        folder = lock.with_name(lock.name.removesuffix(_LOCK))
        if (file := _locked_at_once(lock)) is None:
            continue
        was_there = folder.is_dir()
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            removed += [folder] if was_there else []
            unlock_file(lock, file)
        else:  # of another user, or on a disk that does not let it go
            os.close(file)
    return removed


def _locked_at_once(lock: Path) -> int | None:
    """Return the descriptor of a lock file that no process holds; None if one does, or it cannot be locked."""
    try:
        return lock_file(lock, patience=0, on_wait=lambda: None, by_process=False)
    except LocksUnsupportedError:
        return None


def check_disk(folder: Path, needed: int, *, models: int) -> None:
    """Raise ScoringError if merged models, each of `needed` bytes, would not fit onto the disk of a folder."""
    free, whole = shutil.disk_usage(folder).free, needed * models
    if whole > free:
        named = "one merged model" if models == 1 else f"{models} merged models"
        raise ScoringError(
            f"{folder}: needed {whole / 2**30:,.2f} GiB for {named}, {free / 2**30:,.2f} GiB are free; {_MORE_ROOM}"
        )


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
        known = [(points[one.number - 1].alpha, one.target, one.on_front) for one in ranked if one.target is not None]
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
    on_main_process(ends.check)
    probes = [probe, *([confirmation] if confirmation else []), *([target] if isinstance(target, Probe) else [])]
    scoring = _Scoring(ends, probes, progress_of)
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
    sweeps = []
    for one, a, b, *points in zip(probes, of_a, of_b, *rows.values(), strict=True):
        pairs = [(compare(before=a, after=point), compare(before=b, after=point)) for point in points]
        merged = [MergedPoint(alpha=at, from_a=x, from_b=y) for at, (x, y) in zip(rows, pairs, strict=True)]
        sweeps.append(ProbeSweep(probe=one.name, points=tuple(merged)))
    on_target = sweeps[-1] if isinstance(target, Probe) else None
    if on_target is not None:
        values = tuple(point.from_a.all.accuracy_after for point in on_target.points)
        table = Target(name=f"right on {on_target.probe}", values=values)
    distance = on_main_process(ends.distance)
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


@dataclass(frozen=True)
class _Scoring:
    """Scoring of the ends and of the points between them, on all probes."""

    ends: ModelPair
    probes: Sequence[Probe]
    progress_of: Shown

    def end(self, given: str, weights: Sequence[str]) -> list[Snapshot]:
        """Return the outcomes of A or B on each probe; shared with all other uses of the model."""
        return self._scored(given, given, weights, lambda: given)

    def point(self, alpha: float) -> list[Snapshot]:
        """Return the outcomes of a point between the ends on each probe; its files are there while it is scored."""
        ends = self.ends
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
            name = f"alpha {alpha:g}"
            return self._scored(f"{ends.method} merge, {name}", name, ends.recipe(alpha), files)

    def _scored(self, label: str, name: str, weights: Sequence[Any], files: Callable[[], str]) -> list[Snapshot]:
        """Score the model that some JSON values determine on each probe; `files` gives its folder."""
        found = []
        for probe in self.probes:
            with self.progress_of(label, probe) as progress:
                snapshot = score_derived(
                    name,
                    weights,
                    lambda: nullcontext(files()),
                    probe,
                    loading=self.ends.loading,
                    progress=progress,
                )
            found.append(snapshot)
        return found


def _named(snapshot: Snapshot, alpha: float) -> Snapshot:
    return replace(snapshot, meta={**snapshot.meta, "model": f"alpha {alpha:g}"})


def _notes(ends: ModelPair, distance: WeightDistance, comparisons: Sequence[Comparison]) -> list[str]:
    """Return the notes of the merge and, once each, of the comparisons."""
    notes = []
    if isinstance(ends.plan, AdapterPlan):
        notes += ["an adapter is scaled: the points are the base with a share of what the adapter adds"]
        if math.isnan(distance.overall):
            notes += ["the base is quantized, or stored under other names than the adapter's: the distance is unknown"]
    else:
        if wide := ends.plan.widened:
            notes += [f"{len(wide)} tensors are stored in two dtypes; the points have the wider one"]
        if left := ends.plan.left_out:
            notes += [f"{len(left)} tensors are stored on one side only and are made of others when loaded: {left[0]}"]
    return [*notes, *dict.fromkeys(note for one in comparisons for note in one.notes)]
