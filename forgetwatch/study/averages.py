"""Forgetting that averages show, beside the forgetting of single questions.

    task A   right before 60 of 100   after 62   lost 9, gained 11      an average shows no forgetting
    task B   right before 40 of 100   after 37   lost 8, gained  5      an average shows 3 of the 8

Conventional forgetting of a task is max(0, accuracy before - accuracy after), averaged over tasks. Questions lost and
gained cancel in it, within each task. It is never above the mean over tasks of the share 1->0: that share less the
share 0->1 is the accuracy lost. Neither is corrected for guessing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from forgetwatch.comparing import Comparison


@dataclass(frozen=True, kw_only=True)
class Averages:
    """Forgetting of one pair that averages show, and that they hide.

    Attributes:
        tasks: Number of tasks; items without a task are one.
        conventional: Mean over tasks of max(0, accuracy lost), 0 to 1; nan without an item.
        forgetting: Mean over tasks of the share 1->0, 0 to 1; nan likewise.
        forgotten: Questions 1->0, over all tasks.
        in_tasks_that_fell: Those of them in tasks whose accuracy fell.
    """

    tasks: int
    conventional: float
    forgetting: float
    forgotten: float
    in_tasks_that_fell: float

    @classmethod
    def of(cls, comparison: Comparison) -> Averages:
        """The averages of a comparison."""
        tasks = _tasks(comparison)
        lost = np.array([(forgotten - gained) / n for n, forgotten, gained in tasks])
        return cls(
            tasks=len(tasks),
            conventional=float(np.maximum(lost, 0).mean()) if tasks else math.nan,
            forgetting=float(np.mean([forgotten / n for n, forgotten, _ in tasks])) if tasks else math.nan,
            forgotten=comparison.all.forgotten,
            in_tasks_that_fell=sum(forgotten for (_, forgotten, _), fell in zip(tasks, lost > 0, strict=True) if fell),
        )


def _tasks(comparison: Comparison) -> list[tuple[float, float, float]]:
    """Items, forgotten and gained of each task; items without a task are one of their own."""
    whole = comparison.all
    tasks = [(group.n, group.forgotten, group.gained) for group in comparison.by("task").values() if group.n]
    # Rounded, because means over samples carry errors, and no loss may come from one.
    n, forgotten, gained = (
        round(of_all - sum(of_tasks), 9)
        for of_all, *of_tasks in zip((whole.n, whole.forgotten, whole.gained), *tasks, strict=True)
    )
    return [*tasks, (n, forgotten, gained)] if n else tasks
