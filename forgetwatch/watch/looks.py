"""The looks of a run that goes on: each compared with the baseline and with whatever else is named."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.comparison import Comparison, compare, with_null
from forgetwatch.comparing.subset import Subset
from forgetwatch.comparing.trajectory import Trajectory, right_answers
from forgetwatch.errors import WatchError
from forgetwatch.probe import Probe
from forgetwatch.readers import load_snapshot
from forgetwatch.scoring.scorer import versions
from forgetwatch.snapshot import Snapshot

PREVIOUS: Final = "previous"
"""As a reference: the look before."""


class Looks:
    """What was measured so far, in memory; no model, no files.

    Attributes:
        probe: The items.
        baseline: The snapshot that everything is compared with; None before the first look.
        null: The baseline's weights measured again, in other batches; None if they were not.
        items: How many items the looks ask: the first of the probe; None means all of them.
        writes: Whether the looks ask the items whose answers are written.
        undecided: Whether `cut` may still be called.
        comparisons: Baseline against each look so far, by step.
        others: The same for each further reference, by its name and step.
        resumed: Looks that were measured again where a run went on, against what was stored, by step.
        planned: Looks planned after the baseline; None if unknown. It sets how strict an alarm is.

    Args:
        probe: The items.
        against: Further references by name: a snapshot, the path of one, or ``"previous"`` for the look before.

    Raises:
        WatchError: If a reference has a name that cannot stand in a tracker's key.
        SnapshotError: If a reference cannot be read.
    """

    def __init__(self, probe: Probe, *, against: Mapping[str, Snapshot | str | Path] | None = None) -> None:
        self.probe = probe
        self.baseline: Snapshot | None = None
        self.null: Snapshot | None = None
        self.items: int | None = None
        self.writes = True
        self.undecided = False
        self.comparisons: dict[int, Comparison] = {}
        self.others: dict[str, dict[int, Comparison]] = {}
        self.resumed: dict[int, Comparison] = {}
        self.planned: int | None = None
        self._references = references(against)
        self._snapshots: dict[int, Snapshot] = {}  # the latest look, and while it is undecided all
        self._described: dict[int, dict[str, Any]] = {}
        self._right: dict[int, NDArray[np.float64]] = {}

    def keep(self, snapshot: Snapshot, *, step: int) -> Comparison:
        """Take in a look: compare it with the baseline and the other references.

        Raises:
            WatchError: If there is no baseline yet.
            MismatchError: If a reference does not hold the same questions.
        """
        if self.baseline is None:
            raise WatchError("a look was kept before there was a baseline; call look() first")
        subset = self.subset
        baseline, look = subset.apply(self.baseline), subset.apply(snapshot)
        comparison = compare(before=baseline, after=look, null=None if self.null is None else subset.apply(self.null))
        if earlier := [other for other in self.resumed if other < step]:
            comparison = with_null(comparison, self.resumed[max(earlier)])
        previous = [other for other in self.comparisons if other < step]
        for name, reference in self._references.items():
            if isinstance(reference, Snapshot):
                before = subset.apply_to_reference(reference, baseline=self.baseline)
                self.others.setdefault(name, {})[step] = compare(before=before, after=look)
            elif previous and max(previous) in self._snapshots:
                before = subset.apply(self._snapshots[max(previous)])
                self.others.setdefault(name, {})[step] = compare(before=before, after=look)
        self.comparisons[step] = comparison
        if not self.undecided:
            self._snapshots.clear()
        self._snapshots[step] = snapshot
        self._right[step] = right_answers(baseline, look)
        self._described[step] = {"step": step, "checksum": snapshot.checksum, "seconds": snapshot.meta.get("seconds")}
        return comparison

    def compare_again(self, again: Snapshot, *, step: int) -> Comparison:
        """Take in a look that was measured again: later looks have what flipped as their noise."""
        before, after = map(self.subset.apply, (self._snapshots[step], again))
        self.resumed[step] = compare(before=before, after=after)
        return self.resumed[step]

    def cut(self, *, items: int | None, writes: bool) -> None:
        """Count over fewer items of the probe only, also at the looks so far; if that fails, all stays as it was.

        Args:
            items: The first so many; None for all.
            writes: Whether those whose answers are written are among them; those that must pass are.

        Raises:
            WatchError: If the looks so far are not at hand, since nothing was `undecided`.
        """
        if set(self._snapshots) != set(self.comparisons):
            raise WatchError("the looks so far cannot be cut to fewer items; set undecided before the first look")
        before = self.items, self.writes, dict(self.comparisons), dict(self._right)
        others = {name: dict(looks) for name, looks in self.others.items()}
        self.items, self.writes = items, writes
        try:
            for step, snapshot in sorted(self._snapshots.items()):
                self.keep(snapshot, step=step)
        except BaseException:
            self.items, self.writes, self.comparisons, self._right = before
            self.others = others
            raise
        self.undecided = False

    def drop_after(self, step: int) -> None:
        """Let go of the looks later than `step`."""
        kept: tuple[dict[int, Any], ...] = (self.comparisons, self.resumed, self._described, self._right)
        for looks in (*kept, self._snapshots, *self.others.values()):
            for later in [look for look in looks if look > step]:
                del looks[later]

    def has_snapshot(self, step: int) -> bool:
        """Whether the rows of the look at `step` are at hand."""
        return step in self._snapshots and step in self.comparisons

    def latest(self) -> Snapshot | None:
        """The latest look, over the items that all looks have."""
        found = self._snapshots.get(max(self._snapshots, default=0))
        return None if found is None else self.subset.apply(found)

    def trajectory(self) -> Trajectory:
        """All looks so far, in order.

        Raises:
            WatchError: If there is none yet.
        """
        if self.baseline is None:
            raise WatchError("there is no look yet; call look() first")
        steps = tuple(sorted(self.comparisons))
        right = np.stack([self._right[step] for step in steps])
        comparisons = tuple(self.comparisons[step] for step in steps)
        baseline = self.subset.apply(self.baseline)
        latest = self.latest()
        return Trajectory(steps, comparisons, right, baseline, baseline if latest is None else latest, self.planned)

    def retained_before(self) -> int:
        """Answers of the baseline that are right, and so could be retained."""
        return int((self._right[min(self._right)] == 1.0).sum()) if self._right else 0

    def lost_must_pass(self, step: int) -> list[str]:
        """Ids of the `must_pass` items that were right at the baseline and are wrong at `step`."""
        if self.baseline is None:
            return []
        must = {(item.task, item.id) for item in self.probe if item.must_pass}
        baseline = self.subset.apply(self.baseline)
        names = zip(baseline.texts("task"), baseline.texts("item_id"), strict=True)
        before, after = (self._right[look] for look in (min(self._right), step))
        lost = (
            name
            for (task, name), was, now in zip(names, before, after, strict=False)
            if was == 1.0 and now == 0.0 and (task, name) in must
        )
        return list(dict.fromkeys(lost))

    @property
    def subset(self) -> Subset:
        """Items that all looks of the run evaluate."""
        return Subset.of_probe(self.probe, items=self.items, generates=self.writes)

    def description(self) -> dict[str, Any]:
        """What the run is, for people and other programs."""
        if self.baseline is None:
            return {}
        whole = next(iter(self.comparisons.values())).all
        again = {step: each.all for step, each in self.resumed.items()}
        return {
            "probe": self.baseline.meta["probe"],
            "items": self.items,
            "writes": self.writes,
            "baseline": {"step": self.baseline.meta["step"], "checksum": self.baseline.checksum},
            "null": None if self.null is None else {"lost": whole.null_lost, "gained": whole.null_gained},
            "resumed": [{"step": step, "lost": all_.forgotten, "gained": all_.gained} for step, all_ in again.items()],
            "looks": [self._described[step] for step in sorted(self._described)],
            "planned_looks": self.planned,
            "versions": versions(),
        }


def references(against: Mapping[str, Snapshot | str | Path] | None) -> dict[str, Snapshot | str]:
    """References by name, those in files read: a snapshot each, or ``"previous"``.

    Raises:
        WatchError: If these are no names and references, or a name cannot stand in a tracker's key.
        SnapshotError: If a file cannot be read.
    """
    if against is not None and not isinstance(against, Mapping):
        raise WatchError(f"against={against!r}: needed names and references, such as {{'previous': 'previous'}}")
    for name in against or {}:
        if not re.fullmatch(r"[a-z0-9_]+", str(name)):
            raise WatchError(f"against: the name {name!r} stands in tracker keys; needed a-z, 0-9 and _ only")
    return {
        name: given if isinstance(given, Snapshot) else PREVIOUS if given == PREVIOUS else load_snapshot(given)
        for name, given in (against or {}).items()
    }
