from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from forgetwatch.errors import WatchError
from forgetwatch.watch.schedule import Schedule


@pytest.mark.parametrize(
    ("every", "steps"),
    [
        (None, [0, 20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]),
        (300, [0, 300, 600, 900, 1000]),
        (500, [0, 500, 1000]),
        (5000, [0, 1000]),
        ([10, 20, 5000], [0, 10, 20, 1000]),
        ("save", [0, 1000]),
        ("epoch", [0, 1000]),
    ],
)
def test_steps_that_are_known_beforehand(every: Any, steps: list[int]) -> None:
    assert sorted(Schedule.make(every, max_steps=1000).steps) == steps


def test_a_short_run_has_no_step_twice_and_none_at_a_fraction() -> None:
    assert sorted(Schedule.make(None, max_steps=3).steps) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("every", "save", "epoch"), [(None, True, False), (10, False, False), ("save", True, False), ("epoch", False, True)]
)
def test_events_that_are_looked_at(every: Any, save: bool, epoch: bool) -> None:
    made = Schedule.make(every, max_steps=100)
    assert (made.at_save, made.at_epoch) == (save, epoch)


def test_planned_looks_count_saves_and_epochs_once() -> None:
    by_epoch = {"save_steps": None, "save_epochs": True, "epochs": 3, "max_steps": 90}
    by_steps = {"save_epochs": False, "epochs": 1, "max_steps": 100}
    made = Schedule.make(None, max_steps=100)
    assert made.looks(save_steps=25, **by_steps) == made.steps | {25, 75}
    assert Schedule.make("epoch", max_steps=90).looks(**by_epoch) == {0, 30, 60, 90}
    assert Schedule.make("save", max_steps=90).looks(**by_epoch) == {0, 30, 60, 90}
    assert Schedule.make(10, max_steps=90).looks(save_steps=7, save_epochs=False, epochs=3, max_steps=90) == set(
        range(0, 91, 10)
    )


def test_numpy_numbers_are_numbers() -> None:
    assert Schedule.make(np.int64(300), max_steps=1000) == Schedule.make(300, max_steps=1000)
    assert Schedule.make([np.int64(3)], max_steps=9).steps == {0, 3, 9}


@pytest.mark.parametrize("every", [0, -5, 2.5, True, "step", [], [1.5], [-1], [True]])
def test_a_value_that_is_no_schedule_is_refused(every: Any) -> None:
    with pytest.raises(WatchError, match="is not a schedule"):
        Schedule.make(every, max_steps=100)
