"""The looks of one run, in order: each compared with the baseline, and the course of every item through them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from forgetwatch.compare import Comparison, compare
from forgetwatch.errors import SnapshotError
from forgetwatch.groups import Group
from forgetwatch.metrics.alarm import Verdict, alarm_level
from forgetwatch.metrics.trajectory import Course, Guessed, course, guessed
from forgetwatch.pairing import pair
from forgetwatch.readers import load_snapshot
from forgetwatch.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True)
class Alarm:
    """What the look at one step says of one group."""

    step: int
    group: Group
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The looks of one run, in order, each compared with the baseline.

    Attributes:
        steps: Optimizer step of each look, rising; the first is the baseline's.
        comparisons: Baseline against the look at each step; the first compares the baseline with itself.
        right: Right answers at each step in the order of the baseline's rows, 1, 0, or nan for unscored;
            float64 [steps, rows].
        k: Number of options of each row; -1 for an open answer; int64 [rows].
        planned: Looks planned after the baseline; None if unknown.
    """

    steps: tuple[int, ...]
    comparisons: tuple[Comparison, ...]
    right: NDArray[np.float64]
    k: NDArray[np.int64]
    planned: int | None = None

    @classmethod
    def of(cls, looks: Sequence[Snapshot], *, planned: int | None = None) -> Self:
        """The trajectory of some snapshots, ordered by the steps in their metadata; the first is the baseline.

        Raises:
            SnapshotError: If there is no look, or one does not say at which step it was taken.
            MismatchError: If a look does not hold the baseline's questions.
        """
        if not looks:
            raise SnapshotError("needed at least a baseline, got no look")
        for look in looks:
            if type(look.meta.get("step")) is not int:
                raise SnapshotError(f"{look.label}: its metadata name no step, got {look.meta.get('step')!r}")
        ordered = sorted(looks, key=lambda look: int(look.meta["step"]))
        steps = [look.meta["step"] for look in ordered]
        if twice := [step for step, after in pairwise(steps) if step == after]:
            raise SnapshotError(f"two looks were taken at step {twice[0]}; a run has one look per step")
        baseline = ordered[0]
        return cls(
            tuple(int(look.meta["step"]) for look in ordered),
            tuple(compare(before=baseline, after=look) for look in ordered),
            np.stack([aligned(baseline, look) for look in ordered]),
            baseline.ints("k"),
            planned,
        )

    @classmethod
    def from_run(cls, folder: str | Path) -> Self:
        """The looks in a run folder (``output_dir/_forgetwatch``).

        Raises:
            SnapshotError: If the folder holds no baseline, or a look cannot be read.
        """
        folder = Path(folder)
        if not (folder / "baseline.parquet").is_file():
            raise SnapshotError(f"{folder}: needed a run folder with baseline.parquet, found none there")
        baseline = load_snapshot(folder / "baseline.parquet")
        looks = [baseline, *map(load_snapshot, sorted(folder.glob("step-*.parquet")))]
        return cls.of(looks, planned=_planned(folder / "run.json"))

    def __len__(self) -> int:
        return len(self.steps)

    @cached_property
    def course(self) -> Course:
        """What was forgotten and came back, over the rows that were scored at every look."""
        return course(self.right[:, self._scored] == 1.0)

    @cached_property
    def guessed(self) -> Guessed:
        """What a model that only guesses would show, over the same rows as far as they have options."""
        return guessed(self.k[self._scored & (self.k >= 1)], looks=len(self) - 1)

    def alarms(self, *, alpha: float = 0.05) -> tuple[Alarm, ...]:
        """What each look says of the whole and of each category: is there a net loss beyond luck?

        One rule for the whole run, `metrics.alarm.alarm_level`: an unchanged model raises any alarm at all in at most
        `alpha` of runs. The looks are those planned; where more were taken than planned, or the plan is unknown, the
        rule that needs no plan is used.
        """
        looks = self.comparisons[1:]
        planned = self.planned if self.planned is not None and self.planned >= len(looks) else None
        found = []
        for look, (step, comparison) in enumerate(zip(self.steps[1:], looks, strict=True), start=1):
            watched = [group for group in comparison.groups if group.level != "task"]
            level = alarm_level(look, groups=len(watched), planned=planned, alpha=alpha)
            for group in watched:
                verdict = Verdict(p_value=group.loss_p_value, level=level, smallest_loss=group.smallest_loss(level))
                found.append(Alarm(step=step, group=group, verdict=verdict))
        return tuple(found)

    @property
    def _scored(self) -> NDArray[np.bool_]:
        scored: NDArray[np.bool_] = np.logical_and.reduce(np.isfinite(self.right), axis=0)
        return scored


def _planned(path: Path) -> int | None:
    """The looks that a run planned after its baseline, from its ``run.json``; None where that says nothing."""
    try:
        planned = json.loads(path.read_text(encoding="utf-8")).get("planned_looks")
    except (OSError, ValueError, AttributeError):
        return None
    return planned if type(planned) is int and planned > 0 else None


def aligned(baseline: Snapshot, look: Snapshot) -> NDArray[np.float64]:
    """Right answers of a look in the order of the baseline's rows: 1, 0, or nan where unscored; float64 [rows]."""
    pairing = pair(baseline, look)
    right = np.full(len(baseline), np.nan)
    right[pairing.before] = look.floats("correct")[pairing.after]
    return right
