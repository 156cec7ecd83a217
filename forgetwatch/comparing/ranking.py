"""Several models against one base: the answers lost from one model to another, and a ranking by what is kept.

The kept share alone (`comparing.kept_share`) ranks first the model that was trained least. The
front contains the models that remain once the target counts too. Values of a target come by the
name of their model and never by their order: one value that slips by a row would put the wrong
model first, and no output would show it.

    results.csv      a table of two columns: the model as it was given, or its short name, and the metric
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetwatch.comparing.comparison import Comparison
from forgetwatch.comparing.decision import decide
from forgetwatch.comparing.kept_share import Kept, kept, kept_of
from forgetwatch.comparing.trajectory import right_answers
from forgetwatch.comparing.verdict import TOLERANCE, Tolerance, estimated
from forgetwatch.errors import SnapshotError
from forgetwatch.files.reading import file_errors, read_text
from forgetwatch.measures.pairing import item_codes
from forgetwatch.metrics.intervals import Interval
from forgetwatch.snapshot import Snapshot


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelComparison:
    """Matrix and ranking of several models that are compared with one base.

    Attributes:
        matrix: The base first, then the models in the order of the comparisons.
        ranking: The models by what they keep, most first.
        target: The metric that they are ranked against; None without one.
    """

    matrix: TransitionMatrix
    ranking: tuple[RankedModel, ...]
    target: Target | None


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
        """The counts in items, means if items have several samples."""
        counts: list[list[float]] = self.answers.tolist()
        return (
            counts
            if self.samples == 1
            else [[count / self.samples for count in row] for row in counts]
        )


@dataclass(frozen=True, kw_only=True)
class RankedModel:
    """One model in the ranking.

    Attributes:
        number: Its number among the models after the base, from 1, in the order in which they were
            given.
        label: Its short name.
        place: Its rank by kept share, from 1; equal shares share a rank, in the order of the
            estimated change. None if nothing was right before.
        kept: What it keeps of what the base knew; shares of the same for all models.
        net_change: Accuracy after minus before, -1 to 1.
        net_change_interval: 95 %.
        forgotten: Items right before and wrong after; means if items have several samples.
        gained: Items wrong before and right after.
        change: The estimated net change on which the verdict rests, -1 to 1.
        change_interval: 95 %.
        verdict: Word of the verdict.
        target: Value of the target metric; None without one.
        on_front: True if no other model is better in one of kept share and target and at least as
            good in the other; None without a target. Models that are equal in both are on the front
            together.
    """

    number: int
    label: str
    place: int | None
    kept: Kept
    net_change: float
    net_change_interval: Interval
    forgotten: float
    gained: float
    change: float
    change_interval: Interval
    verdict: str
    target: float | None
    on_front: bool | None


@dataclass(frozen=True, kw_only=True)
class Target:
    """Metric that the models were trained for, with its value for each model after the base.

    Attributes:
        name: The metric's name. Less is better if it ends in ``loss``, as in transformers' Trainer.
        values: Its values, in the order of the comparisons.
    """

    name: str
    values: tuple[float, ...]

    @property
    def less_is_better(self) -> bool:
        """Is a smaller value better?"""
        return self.name.lower().endswith("loss")


def transition_matrix(snapshots: Sequence[Snapshot]) -> TransitionMatrix:
    """Count the answers lost between each pair of models.

    Only items of the first model that all models were scored on are counted.
    """
    base = snapshots[0]
    right = np.stack([right_answers(base, snapshot) for snapshot in snapshots])
    item = item_codes(base)
    scored = np.isfinite(right).all(axis=0)
    kept = (
        np.bincount(item, weights=~scored) == 0
    )  # an item with one unscored answer is left out as a whole
    rows = right[:, kept[item]]
    items = int(kept.sum())
    return TransitionMatrix(
        labels=tuple(snapshot.label for snapshot in snapshots),
        answers=np.rint(rows @ (1 - rows).T).astype(
            np.int64
        ),  # [i, j]: rows right in i and wrong in j
        items=items,
        left_out=len(kept) - items - int(base.is_passage.sum()),
        samples=rows.shape[1] // items if items else 1,
    )


def rank_models(
    comparisons: Sequence[Comparison],
    target: Target | None = None,
    *,
    tolerance: Tolerance = TOLERANCE,
) -> tuple[RankedModel, ...]:
    """Rank models by kept share, highest first.

    Ties are broken by estimated change, then by the target, then by the order. `tolerance` is what
    each verdict tolerates.

    Each comparison is that of the base against a model; `tolerance` is what the verdict on each
    tolerates.
    """
    groups = [comparison.all for comparison in comparisons]
    of = kept_of(groups)
    kept_shares = [kept(group, of) for group in groups]
    changes = [estimated(group) for group in groups]
    shares = [kept_share.share for kept_share in kept_shares]
    sign = -1 if target is not None and target.less_is_better else 1
    wanted = [0.0] * len(shares) if target is None else [sign * value for value in target.values]

    def worst_last(index: int) -> tuple[Any, ...]:
        undefined = math.isnan(shares[index])  # nan has no order, so it sorts by a flag of its own
        return (
            undefined,
            *((0.0, 0.0) if undefined else (-shares[index], -changes[index][0])),
            -wanted[index],
            index,
        )

    return tuple(
        RankedModel(
            number=index + 1,
            label=comparisons[index].labels[1],
            place=None
            if math.isnan(shares[index])
            else 1 + sum(share > shares[index] for share in shares),
            kept=kept_shares[index],
            net_change=groups[index].net_change,
            net_change_interval=groups[index].net_change_interval,
            forgotten=groups[index].forgotten,
            gained=groups[index].gained,
            change=changes[index][0],
            change_interval=changes[index][1],
            verdict=decide(comparisons[index], tolerance).word,
            target=None if target is None else target.values[index],
            on_front=None if target is None else _is_on_front(index, shares, wanted),
        )
        for index in sorted(range(len(comparisons)), key=worst_last)
    )


def _is_on_front(index: int, first: Sequence[float], second: Sequence[float]) -> bool:
    # nan is never on the front.
    point = first[index], second[index]
    return not math.isnan(point[0]) and not any(
        # A comparison with nan is false, so a model without a share dominates none.
        rival[0] >= point[0] and rival[1] >= point[1] and rival != point
        for rival in zip(first, second, strict=True)
    )


def read_target(path_text: str, models: Sequence[tuple[str, Snapshot]]) -> Target:
    """Read the values of a target metric, one for each model.

    Args:
        path_text: Path of a table with two columns, the model and its metric, which the first row
            names.
        models: Each model as it was named, and its outcomes.

    Raises:
        SnapshotError: If a model has no value.
    """
    path = Path(path_text)
    with file_errors(path, "a table of the target in CSV"):
        rows = [
            row
            for row in csv.reader(io.StringIO(read_text(path, "a table of the target in CSV")))
            if row
        ]
    if not rows or any(len(row) != 2 for row in rows):
        line, got = next(
            ((number, len(row)) for number, row in enumerate(rows, 1) if len(row) != 2), (1, 0)
        )
        raise SnapshotError(
            f"{path}, row {line}: needed two columns, the model and its metric, got {got}; the "
            "first row names them"
        )
    values: dict[str, float] = {}
    for number, (name, cell) in enumerate(rows[1:], 2):
        if name in values:
            raise SnapshotError(
                f"{path}, row {number}: {name!r} is there twice; give each model one row"
            )
        values[name] = _number(cell, f"{path}, row {number} ({name!r:.80})")
    found = []
    for name_given, outcomes in models:
        # In the order of how exactly each names the model: two models may share a label.
        keys = [
            key for key in (name_given, name_given.rstrip("/"), outcomes.label) if key in values
        ]
        if not keys:
            raise SnapshotError(
                f"{path}: no row for {name_given}; add one whose first column is {name_given!r}"
            )
        found.append(values[keys[0]])
    return Target(name=rows[0][1], values=tuple(found))


def _number(value: Any, where: str) -> float:
    try:
        # float(True) is 1.0, but a flag is no metric.
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SnapshotError(f"{where}: needed a number, got {value!r}")
    return number
