from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from forgetwatch.errors import WatchError
from forgetwatch.run.schedule import Schedule, event_steps, last_timed_step


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
    ("every", "save", "epoch"),
    [(None, True, False), (10, False, False), ("save", True, False), ("epoch", False, True)],
)
def test_events_that_are_looked_at(every: Any, save: bool, epoch: bool) -> None:
    made = Schedule.make(every, max_steps=100)
    assert (made.at_save, made.at_epoch) == (save, epoch)


def test_planned_looks_count_saves_and_epochs_once() -> None:
    saves = event_steps("steps", every=25, epoch=30, max_steps=100)
    assert Schedule.make(None, max_steps=100, saves=saves).steps == Schedule.make(
        None, max_steps=100
    ).steps | {25, 75}
    epochs = event_steps("epoch", every=7, epoch=32, max_steps=90)  # the last is cut short
    assert epochs == {32, 64}
    assert Schedule.make("epoch", max_steps=90, epochs=epochs).steps == {0, *epochs, 90}
    assert Schedule.make("save", max_steps=90, saves=epochs).steps == {0, *epochs, 90}
    assert Schedule.make(10, max_steps=90, saves=frozenset({7}), epochs=epochs).steps == set(
        range(0, 91, 10)
    )
    assert event_steps("best", every=10, epoch=30, max_steps=90) == frozenset()
    assert event_steps("epoch", every=10, epoch=None, max_steps=90) == frozenset()


def test_default_looks_up_to_the_decision_are_left_out_and_required_ones_and_saves_stay() -> None:
    made = Schedule.make(
        None, max_steps=60, saves=frozenset({5, 10, 20}), evaluations=frozenset({4, 40})
    )
    later = made.starting_after(10)
    assert sorted(later.steps) == [0, 4, 5, 10, 12, 18, 20, 24, 30, 36, 40, 42, 48, 54, 60]
    assert not later.has_look(9, at_save=True)
    assert later.has_look(11, at_save=True)
    named = Schedule.make([3, 30], max_steps=60)
    assert named.starting_after(10) == named


@pytest.mark.parametrize(
    ("looks", "steps"),
    [
        (1, [0, 20, 50, 100]),
        (3, [0, 20, 50, 100]),
        (4, [0, 20, 50, 70, 100]),
        (6, [0, 20, 30, 50, 70, 80, 100]),
        (9, [0, *range(20, 101, 10)]),
        (99, [0, *range(20, 101, 10)]),
    ],
)
def test_a_thinned_schedule_without_saves_keeps_looks_far_from_each_other(
    looks: int, steps: list[int]
) -> None:
    made = Schedule.make(None, max_steps=100).starting_after(10)
    assert made.fewest == 3
    assert sorted(made.thinned(looks).steps) == steps


def test_a_look_that_is_dropped_is_not_taken_at_its_save_either() -> None:
    made = Schedule.make(None, max_steps=100, saves=frozenset({25, 50, 75})).starting_after(10)
    thinned = made.thinned(3)
    assert sorted(thinned.steps) == [0, 25, 50, 100]
    assert thinned.unwatched == [75]
    assert not thinned.has_look(75, at_save=True)
    assert thinned.has_look(50, at_save=True)
    assert made.thinned(99).has_look(33, at_save=True)


@pytest.mark.parametrize(
    ("looks", "steps"),
    [
        (8, [0, 10, 20, 30, 40, 50, 70, 90, 100]),  # all saves, then those between them
        (6, [0, 10, 30, 50, 70, 90, 100]),
        (5, [0, 10, 30, 50, 70, 100]),
        (3, [0, 10, 50, 100]),
    ],
)
def test_looks_between_saves_are_dropped_before_saves(looks: int, steps: list[int]) -> None:
    saves = frozenset(range(10, 100, 20))
    thinned = Schedule.make(None, max_steps=100, saves=saves).thinned(looks)
    assert sorted(thinned.steps) == steps
    assert thinned.unwatched == sorted(saves - set(steps))


def test_no_look_that_the_user_named_is_dropped() -> None:
    for every, events in ((10, {}), ([3, 7], {}), ("save", {"saves": frozenset({30, 60})})):
        made = Schedule.make(every, max_steps=90, **events)
        assert made.thinned(0) == made
        assert made.fewest == len(made.steps) - 1
    chosen = Schedule.make(None, max_steps=100, evaluations=frozenset({20, 40, 60, 80})).thinned(0)
    assert {20, 40, 60, 80, 100} < chosen.steps


@pytest.mark.parametrize("max_steps", [1, 2, 3, 5])
def test_a_run_of_a_few_steps_keeps_three_looks(max_steps: int) -> None:
    made = Schedule.make(None, max_steps=max_steps)
    later = made.starting_after(last_timed_step(0, max_steps=max_steps))
    assert {0, max_steps} <= later.steps <= made.steps
    assert len(later.steps) - 1 == later.fewest == min(max_steps, 3)
    assert later.thinned(0) == replace(later, at_save=True)


def test_numpy_numbers_are_numbers() -> None:
    assert Schedule.make(np.int64(300), max_steps=1000) == Schedule.make(300, max_steps=1000)
    assert Schedule.make([np.int64(3)], max_steps=9).steps == {0, 3, 9}


@pytest.mark.parametrize("every", [0, -5, 2.5, True, "step", [], [1.5], [-1], [True]])
def test_a_value_that_is_no_schedule_is_refused(every: Any) -> None:
    with pytest.raises(WatchError, match="is not a schedule"):
        Schedule.make(every, max_steps=100)
