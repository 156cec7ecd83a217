"""Averages of continual learning, against their papers' formulas written out in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forgetwatch.metrics import continual_averages

ACCURACY = np.array(
    [
        [0.30, 0.20, 0.25, 0.50],  # the base
        [0.90, 0.25, 0.20, 0.45],
        [0.60, 0.85, 0.30, 0.40],
        [0.65, 0.55, 0.95, 0.30],
    ]
)
TAUGHT = [1, 2, 3, None]


def test_taught_tasks_are_those_of_the_papers() -> None:
    a, stages = ACCURACY.tolist(), 3
    found = continual_averages(ACCURACY, taught=TAUGHT)
    assert found.average_accuracy == pytest.approx(sum(a[stages][task] for task in range(stages)) / stages)
    fell = [max(a[stage][task] for stage in range(1, stages)) - a[stages][task] for task in range(stages - 1)]
    assert found.forgetting == pytest.approx(sum(fell) / (stages - 1))
    since = [a[stages][task] - a[task + 1][task] for task in range(stages - 1)]
    assert found.backward_transfer == pytest.approx(sum(since) / (stages - 1))
    assert found.tasks == 2


def test_abilities_of_the_base_count_from_the_base_on() -> None:
    a = ACCURACY.tolist()
    found = continual_averages(ACCURACY, taught=None)
    fell = [max(a[stage][task] for stage in range(3)) - a[3][task] for task in range(4)]
    assert found.forgetting == pytest.approx(sum(fell) / 4)
    assert found.average_accuracy == pytest.approx(sum(a[3]) / 4)
    assert math.isnan(found.backward_transfer)


def test_what_was_not_measured_is_in_no_mean() -> None:
    a = ACCURACY.copy()
    a[0, 1] = a[1, 1] = math.nan
    a[3, 0] = math.nan
    found = continual_averages(a, taught=TAUGHT)
    assert found.tasks == 1
    assert found.forgetting == pytest.approx(0.85 - 0.55)
    assert found.average_accuracy == pytest.approx((0.55 + 0.95) / 2)


def test_one_stage_has_no_earlier_task() -> None:
    found = continual_averages(ACCURACY[:2], taught=[1, None, None, None])
    assert (found.tasks, found.average_accuracy) == (0, pytest.approx(0.9))
    assert math.isnan(found.forgetting)
    assert math.isnan(found.backward_transfer)
