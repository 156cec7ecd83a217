"""Two models and the points between them: the recipe of each point, its folder, and how far apart the ends are.

A point is determined by the files of both models, the method and alpha: its recipe. Points that are kept hold theirs
in `RECIPE`, so that a point is never taken for that of other models. The others are deleted, also after a kill:

    forgetwatch-merge-3f0c41d0           a model, in the folder for temporary files
    forgetwatch-merge-3f0c41d0.lock      locked as long as the process that writes it lives

The system frees the lock of a process that ends, in whatever way. A folder with a lock that is free is abandoned: the
next merge removes it. Where a file system has no locks, there is no lock file, and nothing is taken for abandoned.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from tempfile import gettempdir
from typing import Any, Final

from forgetwatch.errors import ScoringError
from forgetwatch.files import LocksUnsupportedError, lock_file, unlock_file
from forgetwatch.progress import Done, log, shown
from forgetwatch.scoring import ADAPTER, weights_identity
from forgetwatch.study.merging.checkpoints import DTYPES
from forgetwatch.study.merging.scaled_adapters import AdapterPlan, adapter_squares, plan_adapter, write_scaled
from forgetwatch.study.merging.weights import (
    Geometry,
    MergePlan,
    Method,
    check_finite,
    check_point,
    geometry_of,
    plan_merge,
    squares_of,
    write_merged,
)

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
_LAYER: Final = re.compile(r"(.*?\.\d+)\..+")


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
        """Plan of the files that are written for a point; ScoringError if the two cannot be merged."""
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
        a, b = (weights_identity(one, trust_remote_code=self.trust_remote_code) for one in (self.a, self.b))
        return a, b

    def recipe(self, alpha: float) -> list[Any]:
        """JSON values that determine the weights of a point."""
        return ["merged", _VERSION, self.method, alpha, "first", *self.weights[0], "second", *self.weights[1]]

    def write(self, alpha: float, folder: Path) -> None:
        """Write a point; raise ScoringError if the disk is full."""
        try:
            if isinstance(self.plan, AdapterPlan):
                write_scaled(self.plan, folder, alpha=alpha)
                return
            geometry = self.geometry if self.method == "slerp" else {}
            with _tensors_shown(f"merging {point_name(alpha)}", self.plan) as beat:
                write_merged(self.plan, folder, alpha=alpha, method=self.method, geometry=geometry, beat=beat)
        except OSError as error:
            if error.filename is not None or error.strerror is None:  # it names a file
                raise
            raise ScoringError(f"{folder}: cannot be written ({error.strerror}); {_MORE_ROOM}") from error

    def check(self) -> None:
        """Remove what merges that were killed had left, and raise if the points cannot be made; nothing is written.

        Raises:
            ScoringError: If the ends cannot be merged, the points would not fit onto the disk, a folder that keeps
                points holds something else, or a weight of an end or of a point is not finite.
        """
        needed, where = self.plan.bytes, Path(gettempdir())
        models = int(any(0 < alpha < 1 for alpha in self.alphas))  # the ends are scored where they are
        for folder in remove_abandoned(self.keep):
            log(f"removed {folder}, which a merge that was killed had left")
        if self.keep is not None:
            missing = [alpha for alpha in self.alphas if not self._is_kept(alpha)]
            models, where = len(missing), self.keep.absolute()
            where = next(one for one in (where, *where.parents) if one.exists())
            if not where.is_dir():
                raise ScoringError(f"{self.keep}: needed a folder to keep the merged models in, and {where} is a file")
        check_disk(where, needed, models=models)
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


def point_name(alpha: float) -> str:
    """Name of a point, by which it is shown."""
    return f"alpha {alpha:g}"


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
        """The distance from the sums of squares of A and of B - A, by the tensor's name."""
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


def weight_distance(ends: Ends) -> WeightDistance:
    """Distance of the weights of the two models, relative to those of A; nan where those cannot be measured."""
    if isinstance(ends.plan, MergePlan):
        squares = {name: (one.aa, one.dd) for name, one in ends.geometry.items()}
        return WeightDistance.of(squares, turned=sum(not one.is_parallel for one in ends.geometry.values()))
    added = adapter_squares(ends.plan)
    squares = {name: (of_base, added.pop(name, 0.0)) for name, of_base in ends.base_squares.items()}
    # What is added to weights that are quantized, or stored under other names, has no norm to be compared with.
    return WeightDistance.of({**squares, **dict.fromkeys(added, (math.nan, math.nan))}, turned=0)


@contextmanager
def _tensors_shown(label: str, plan: MergePlan) -> Iterator[Callable[[], None]]:
    """Context that shows the progress of work on the tensors of a plan; yields what is called after each."""
    sizes = enumerate(accumulate(pair.bytes for pair in plan.pairs), 1)
    with shown(label, delay=_DELAY) as progress:

        def beat() -> None:
            count, size = next(sizes)
            if progress:
                progress(Done(count=count, total=len(plan.pairs), share=size / plan.bytes, unit="tensors"))

        yield beat


def temporary_name() -> Path:
    """Path of a new folder for a point that is deleted."""
    return Path(gettempdir(), f"{_TEMPORARY}{secrets.token_hex(8)}")


def partial_name(kept: Path) -> Path:
    """Path of a new folder next to that of a point that is kept, in which the point is written."""
    return kept.with_name(f".{kept.name}.{secrets.token_hex(6)}{_PARTIAL}")


@contextmanager
def own_folder(path: Path) -> Iterator[Path]:
    """Context of a new folder that belongs to this process; it is removed at the end, unless it was renamed."""
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
    locks = [*Path(gettempdir()).glob(f"{_TEMPORARY}*{_LOCK}")]
    locks += [] if keep is None else keep.glob(f".*{_PARTIAL}{_LOCK}")
    removed = []
    for lock in locks:
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
    """Descriptor of a lock file that no process holds; None if one does, or it cannot be locked."""
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
