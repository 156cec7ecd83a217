"""Alarms of whole runs: simulated runs have the alarms of a trajectory, and unchanged ones are silent."""

from __future__ import annotations

import numpy as np
import pytest
from looks import CATEGORIES, damaged_run, fall_p_value, null_run, raised, run_tests, skewed
from numpy.typing import NDArray
from scipy import stats
from scipy.special import softmax
from support import decided

from forgetwatch import Snapshot, Trajectory
from forgetwatch.metrics import alarm_level
from forgetwatch.metrics.margin_change import FEWEST_TESTED


def as_look(scores: NDArray[np.float64], step: int) -> Snapshot:
    """Snapshot of a look with the scores of the options [items, k]; option 0 is right."""
    return decided(
        scores - scores.max(),
        category=np.repeat([f"c{i}" for i in range(len(CATEGORIES))], CATEGORIES).tolist(),
        gold_share=softmax(scores, axis=1)[:, 0].tolist(),
        meta={"step": step},
    )


@pytest.mark.parametrize("damage", [False, True])
def test_simulated_runs_have_the_alarms_of_a_trajectory(damage: bool) -> None:
    rng = np.random.default_rng(11)
    scores = damaged_run(rng, noise=4.0, lost=0.3) if damage else null_run(rng, noise=1.0, factor=2.0)
    chosen = [1, 10, 20]  # a trajectory of all looks would take seconds
    trajectory = Trajectory.of([as_look(scores[look], look) for look in [0, *chosen]], planned=20)
    found = run_tests(scores)
    alarms = raised(found)
    names = ["all", *(f"c{i}" for i in range(len(CATEGORIES)))]
    verdicts = [one for one in trajectory.verdicts() if one.kind == "net"]
    assert len(verdicts) == len(chosen) * len(names)
    for test in verdicts:
        at = test.step - 1, names.index(test.group.name)
        assert test.by == ("margins" if test.group.n >= FEWEST_TESTED else "flips")
        if test.by == "flips":
            assert test.p_value == pytest.approx(found[at], rel=1e-9)
            assert test.raised == alarms[at]
    assert any(test.raised for test in verdicts) == damage


def test_of_margins_the_same_p_values() -> None:
    scores = damaged_run(np.random.default_rng(11), noise=2.0)
    trajectory = Trajectory.of([as_look(scores[look], look) for look in (0, 20)], planned=20)
    found = run_tests(scores)[19]
    whole, *categories = (one for one in trajectory.verdicts() if one.kind == "net")
    assert whole.p_value == pytest.approx(found[0], rel=1e-6)
    assert categories[0].p_value == pytest.approx(found[1], rel=1e-6)


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_unchanged_runs_of_twenty_looks_are_silent(factor: float) -> None:
    """At most 5 % of runs have an alarm: 60 runs, a bound that more than 5 % would break in time."""
    rng = np.random.default_rng(12)
    alarmed = sum(raised(run_tests(null_run(rng, noise=0.7, factor=factor))).any() for _ in range(60))
    assert stats.binom.sf(alarmed - 1, 60, 0.05) > 1e-3


@pytest.mark.parametrize("few_rises", [True, False])
@pytest.mark.parametrize("items", [50, 250])
def test_changes_that_are_skewed_and_0_on_average_raise_no_alarm(few_rises: bool, items: int) -> None:
    rng, level = np.random.default_rng(13), alarm_level(1, groups=1, planned=20, alpha=0.025)
    alarmed = sum(
        any(fall_p_value(look) <= level for look in skewed(rng, (20, items), mean=0.0, right=few_rises))
        for _ in range(60)
    )
    assert stats.binom.sf(alarmed - 1, 60, 0.05) > 1e-3
