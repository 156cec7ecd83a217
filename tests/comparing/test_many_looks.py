"""Alarms of whole runs: simulated runs have the alarms of a trajectory, and unchanged ones are silent."""

from __future__ import annotations

import numpy as np
import pytest
from looks import CATEGORIES, damaged_run, null_run, run_tests
from numpy.typing import NDArray
from scipy import stats
from scipy.special import softmax
from support import decided

from forgetwatch import Snapshot, Trajectory


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
    alarms = found.raised()
    names = ["all", *(f"c{i}" for i in range(len(CATEGORIES)))]
    verdicts = trajectory.verdicts()
    assert len(verdicts) == len(chosen) * (len(names) + 1 + sum(size >= 50 for size in CATEGORIES))
    for test in verdicts:
        at = test.step - 1, names.index(test.group.name)
        p_values = found.net if test.kind == "net" else found.fading
        # The temperatures agree to 1e-6, which shows in the last digits of a small p-value.
        assert test.p_value == pytest.approx(p_values[at], rel=1e-3, abs=1e-12)
        assert test.raised == alarms[test.kind == "fading"][at]
    assert any(test.raised for test in verdicts) == damage


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_unchanged_runs_of_twenty_looks_are_silent(factor: float) -> None:
    """At most 5 % of runs have an alarm of any kind: 60 runs, a bound that more than 5 % would break in time."""
    rng = np.random.default_rng(12)
    alarmed = sum(
        any(kind.any() for kind in run_tests(null_run(rng, noise=0.7, factor=factor)).raised()) for _ in range(60)
    )
    assert stats.binom.sf(alarmed - 1, 60, 0.05) > 1e-3
