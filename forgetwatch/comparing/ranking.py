"""Several models against one base: who lost what another still has, and who kept most for what it learnt.

    matrix     a row for each model that is right, a column for each that is wrong: answers lost from one to the other
    ranking    by retention; with a target metric also the Pareto front: those that no other beats in both

Retention alone puts the model first that learnt least. The front is the choice that is left once the target counts too.

The target metric of several models: from what their trainers logged, or from a table.

    eval_accuracy    a name: read from each checkpoint's trainer_state.json, as it was logged at that checkpoint's step
    results.csv      a table of two columns: the model as it was given or its short name, and the metric, named on top

Values are never given by their order alone: one that slips by a place would crown the wrong model, and nothing would
tell.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.groups import Group
from forgetwatch.comparing.pairing import item_codes
from forgetwatch.comparing.trajectory import right_answers
from forgetwatch.errors import SnapshotError
from forgetwatch.metrics.intervals import Interval, flip_interval
from forgetwatch.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True, eq=False)
class TransitionMatrix:
    """Answers that one model has right and another wrong, over the items that all models were scored on.

    Attributes:
        labels: Short names of the models, in the order in which they were given.
        answers: Answers right in the row's model and wrong in the column's, int64 [models, models].
        items: Items that are counted.
        left_out: Items of the first model that some model lacks or could not be scored on.
        samples: Answers to each item.
    """

    labels: tuple[str, ...]
    answers: NDArray[np.int64]
    items: int
    left_out: int
    samples: int

    @property
    def lost(self) -> list[list[float]]:
        """The counts in items: whole numbers, means where items have several samples."""
        counts: list[list[float]] = self.answers.tolist()
        return counts if self.samples == 1 else [[count / self.samples for count in row] for row in counts]


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the models were trained for: a metric, with its value for each model after the base.

    Attributes:
        name: The metric's name. Of one that ends in ``loss`` less is better, as transformers' Trainer takes it.
        values: Its values, in the order of the comparisons.
    """

    name: str
    values: tuple[float, ...]

    @property
    def less_is_better(self) -> bool:
        """Whether a smaller value is the better one."""
        return self.name.lower().endswith("loss")


@dataclass(frozen=True, kw_only=True)
class RankedModel:
    """One model in the ranking.

    Attributes:
        number: Its number among the models after the base, from 1, in the order in which they were given.
        label: Its short name.
        place: Its place by retention, from 1; equal retention shares a place. None where retention is undefined.
        retention: Share of the items right before that are still right, 0 to 1; nan where none was right.
        retention_interval: 95 %, Wilson's; wider where items come in clusters.
        net_change: Accuracy after minus before, -1 to 1.
        net_change_interval: 95 %.
        target: Value of the target metric; None without one.
        on_front: Whether no other model is better in one of retention and target and as good in the other; None
            without a target. Models that are equal in both stand on it together.
    """

    number: int
    label: str
    place: int | None
    retention: float
    retention_interval: Interval
    net_change: float
    net_change_interval: Interval
    target: float | None
    on_front: bool | None


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelComparison:
    """What several comparisons with one base say together.

    Attributes:
        matrix: The base first, then the models in the order of the comparisons.
        ranking: The models by retention, most first.
        target: The metric that they are ranked against; None without one.
    """

    matrix: TransitionMatrix
    ranking: tuple[RankedModel, ...]
    target: Target | None


def transition_matrix(snapshots: Sequence[Snapshot]) -> TransitionMatrix:
    """The answers lost between each two models, over the items that all of them were scored on.

    Args:
        snapshots: At least one; items are those of the first.
    """
    first = snapshots[0]
    right = np.stack([right_answers(first, one) for one in snapshots])
    item = item_codes(first)
    scored = np.isfinite(right).all(axis=0)
    kept = np.bincount(item, weights=~scored) == 0  # an item with one unscored answer is left out as a whole
    rows = right[:, kept[item]]
    items = int(kept.sum())
    return TransitionMatrix(
        labels=tuple(one.label for one in snapshots),
        answers=np.rint(rows @ (1 - rows).T).astype(np.int64),
        items=items,
        left_out=len(kept) - items,
        samples=rows.shape[1] // items if items else 1,
    )


def rank_models(comparisons: Sequence[Comparison], target: Target | None = None) -> tuple[RankedModel, ...]:
    """The models of some comparisons with one base by retention, most first; equal ones by the target, then as given.

    Args:
        comparisons: The base against each model.
        target: The metric they are ranked against; None for retention alone.
    """
    groups = [one.all for one in comparisons]
    kept = [group.retention for group in groups]
    wanted = [0.0] * len(kept) if target is None else [_better_up(target, value) for value in target.values]
    front = _front(kept, wanted)

    def worst_last(at: int) -> tuple[Any, ...]:
        return math.isnan(kept[at]), -kept[at] if not math.isnan(kept[at]) else 0.0, -wanted[at], at

    return tuple(
        RankedModel(
            number=at + 1,
            label=comparisons[at].labels[1],
            place=None if math.isnan(kept[at]) else 1 + sum(other > kept[at] for other in kept),
            retention=kept[at],
            retention_interval=_kept_interval(groups[at]),
            net_change=groups[at].net_change,
            net_change_interval=groups[at].net_change_interval,
            target=None if target is None else target.values[at],
            on_front=None if target is None else front[at],
        )
        for at in sorted(range(len(comparisons)), key=worst_last)
    )


def _better_up(target: Target, value: float) -> float:
    return -value if target.less_is_better else value


def _front(one: Sequence[float], other: Sequence[float]) -> list[bool]:
    """Which points no point dominates; nan is on no front and dominates nothing."""

    def dominated(at: int) -> bool:
        return any(
            one[rival] >= one[at] and other[rival] >= other[at] and (one[rival], other[rival]) != (one[at], other[at])
            for rival in range(len(one))
        )

    return [not math.isnan(one[at]) and not dominated(at) for at in range(len(one))]


def _kept_interval(group: Group) -> Interval:
    """Of the items right before, the share that is still right; clusters count by the worth of the whole group."""
    worth = group.effective_n / group.n if group.n else 0.0
    low, high = flip_interval(group.forgotten * worth, (group.retained + group.forgotten) * worth)
    return 1 - high, 1 - low


STATE: Final = "trainer_state.json"


def read_target(given: str, models: Sequence[tuple[str, Snapshot]]) -> Target:
    """The values of a target metric, one for each model.

    Args:
        given: A metric's name, or the path of a table that ends in ``.csv``.
        models: Each model as it was named, and its outcomes.

    Raises:
        SnapshotError: If a model has no value.
    """
    if given.endswith(".csv"):
        return _from_table(Path(given), models)
    return Target(name=given, values=tuple(_logged(given, named, outcomes) for named, outcomes in models))


def _from_table(path: Path, models: Sequence[tuple[str, Snapshot]]) -> Target:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            rows = [row for row in csv.reader(stream) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SnapshotError(f"{path}: the table of the target cannot be read ({error})") from error
    if not rows or any(len(row) != 2 for row in rows):
        line, got = next(((at, len(row)) for at, row in enumerate(rows, 1) if len(row) != 2), (1, 0))
        raise SnapshotError(
            f"{path}, row {line}: needed two columns, the model and its metric, got {got}; the first row names them"
        )
    values: dict[str, float] = {}
    for at, (name, text) in enumerate(rows[1:], 2):
        if name in values:
            raise SnapshotError(f"{path}, row {at}: {name!r} stands there twice; give each model one row")
        values[name] = _number(text, f"{path}, row {at} ({name})")
    found = []
    for named, outcomes in models:
        keys = [key for key in (named, named.rstrip("/"), outcomes.label) if key in values]
        if not keys:
            raise SnapshotError(f"{path}: no row for {named}; add one whose first column is {named!r}")
        found.append(values[keys[0]])
    return Target(name=rows[0][1], values=tuple(found))


def _logged(metric: str, named: str, outcomes: Snapshot) -> float:
    """A metric as the trainer logged it at a checkpoint's step."""
    path = _state(named, outcomes)
    try:
        state: Any = json.loads(path.read_text(encoding="utf-8"))
        step, history = state["global_step"], [entry for entry in state["log_history"] if isinstance(entry, dict)]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SnapshotError(f"{path}: needed global_step and log_history, and they cannot be read ({error})") from error
    logged = {entry["step"]: entry[metric] for entry in history if metric in entry and "step" in entry}
    if step in logged:
        return _number(logged[step], f"{path}: {metric} at step {step}")
    if logged:
        raise SnapshotError(
            f"{path}: {metric} was not logged at step {step}, that of the checkpoint, but at "
            f"{', '.join(map(str, list(logged)[-5:]))}; evaluate where you save, or give --target FILE.csv"
        )
    names = sorted({name for entry in history for name in entry} - {"step", "epoch"})
    raise SnapshotError(
        f"{path}: no {metric} was ever logged; there are {', '.join(names[:20]) or 'no metrics'}; or give --target "
        "FILE.csv"
    )


def _state(named: str, outcomes: Snapshot) -> Path:
    """Where the trainer's state of a model lies: in its folder, in the one its metadata name, beside a run's look."""
    places = [Path(named)]
    if isinstance(outcomes.meta.get("model"), str):
        places.append(Path(outcomes.meta["model"]))
    if isinstance(outcomes.meta.get("step"), int):
        places.append(Path(named).absolute().parent.parent / f"checkpoint-{outcomes.meta['step']}")
    for place in places:
        if (place / STATE).is_file():
            return place / STATE
    raise SnapshotError(
        f"{named}: needed the {STATE} of its checkpoint, found none in {' or '.join(map(str, places))}; give the "
        "checkpoint's folder, or --target FILE.csv"
    )


def _number(value: Any, where: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SnapshotError(f"{where}: needed a number, got {value!r}")
    return number
