"""Averages of continual learning, from the accuracy of each task after each stage.

a[k, j] is the accuracy of task j after stage k; stage 0 is the model before the first. Answers lost and answers gained
within a task cancel here: with as many of both it has forgetting 0.

* Average accuracy: mean over j of a[T, j]. Lopez-Paz and Ranzato, "Gradient Episodic Memory for Continual Learning"
  (2017), their ACC.
* Forgetting: mean over j of max over k < T of a[k, j], minus a[T, j]. Chaudhry et al., "Riemannian Walk for Incremental
  Learning" (2018). The maximum over several measured accuracies is biased upwards, the more stages there are.
* Backward transfer: mean over j of a[T, j] - a[s(j), j], where stage s(j) taught task j. Lopez-Paz and Ranzato (2017),
  their BWT.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from forgetwatch.metrics.transitions import Floats


@dataclass(frozen=True, kw_only=True)
class ContinualAverages:
    """Averages over tasks; nan where no task counts.

    Attributes:
        average_accuracy: Mean accuracy after the last stage, 0 to 1.
        forgetting: Mean fall from the best earlier accuracy to the last, -1 to 1.
        backward_transfer: Mean change from the stage that taught a task to the last, -1 to 1; nan if none was taught.
        tasks: Number of tasks in `forgetting`.
    """

    average_accuracy: float
    forgetting: float
    backward_transfer: float
    tasks: int


def continual_averages(accuracy: Floats, *, taught: Sequence[int | None] | None) -> ContinualAverages:
    """Compute the averages of continual learning.

    Args:
        accuracy: a[k, j], nan where it was not measured; float64 [1 + stages, tasks].
        taught: Stage that teaches each task, from 1; None for a task that no stage teaches. Forgetting and backward
            transfer are then over the tasks taught before the last stage, from stage 1 on, and the average accuracy is
            over all that were taught. If the argument is None, no task is taught by a stage: all are abilities of the
            model before the first stage, which counts among the earlier ones.

    >>> found = continual_averages(np.array([[0.2, 0.1], [0.9, 0.1], [0.6, 0.8]]), taught=[1, 2])
    >>> round(found.average_accuracy, 3), round(found.forgetting, 3), round(found.backward_transfer, 3)
    (0.7, 0.3, -0.3)
    """
    last = accuracy[-1]
    stages = len(accuracy) - 1
    if taught is None:
        counted, earlier, averaged = np.ones(len(last), bool), accuracy[:-1], np.ones(len(last), bool)
        own = np.full(len(last), math.nan)
    else:
        counted = np.array([stage is not None and stage < stages for stage in taught], bool)
        averaged = np.array([stage is not None for stage in taught], bool)
        earlier = accuracy[1:-1]
        own = np.array([math.nan if stage is None else accuracy[stage, task] for task, stage in enumerate(taught)])
    best = np.full(len(last), math.nan)
    if len(earlier):
        measured = np.isfinite(earlier).any(axis=0)
        best[measured] = np.nanmax(earlier[:, measured], axis=0)
    fell = (best - last)[counted]
    return ContinualAverages(
        average_accuracy=_mean(last[averaged]),
        forgetting=_mean(fell),
        backward_transfer=_mean((last - own)[counted]),
        tasks=int(np.isfinite(fell).sum()),
    )


def _mean(values: Any) -> float:
    kept = values[np.isfinite(values)]
    return float(kept.mean()) if len(kept) else math.nan
