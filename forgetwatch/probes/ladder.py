"""The probe `ladder`: one of three fixed lists of questions, the one that suits a model.

    ladder-1, -2, -3    400 questions of `standard` and 800 harder ones each, from easy to hard
    ladder              30 other questions of each list, which choose, and are compared nowhere

A model near its ceiling has nothing to lose that a question would show. The list whose trial
questions are right most nearly in `WANTED` is taken. Those that chose a list were luckily right or
wrong, and so are in none. The name of the list is that of the probe: a resumed run, a file of
outcomes, and another machine know it.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from forgetwatch.errors import ProbeError
from forgetwatch.probe import Probe
from forgetwatch.probes.shipped_probes import LADDER, shipped_probe
from forgetwatch.snapshot import Snapshot

LISTS: Final = ("ladder-1", "ladder-2", "ladder-3")

WANTED: Final = 0.7
"""Share of right answers that a list should have at the start."""


def is_trial(probe: Probe) -> bool:
    """Is the probe the trial, by which a list is chosen for a model?"""
    return probe.name == LADDER and probe.fingerprint == shipped_probe(LADDER).fingerprint


def is_list(name: str) -> bool:
    """Is it the name of a list, alone or beside other probes?"""
    return name.split("+")[0] in LISTS


def without_trial(probe: Probe) -> Probe:
    """Refuse the trial where no model is at hand.

    Raises:
        ProbeError: If the probe is the trial. Any other is returned.
    """
    if is_trial(probe):
        raise ProbeError(
            f"ladder: needed one of its lists here, {', '.join(LISTS)}; score a model with it to "
            "see which suits the model"
        )
    return probe


def suitable_list(trial: Probe, answers: Callable[[Probe], Snapshot]) -> str:
    """Name of the list that suits a model.

    Args:
        trial: The questions that choose.
        answers: Measures the model that comparisons begin with; it may leave some out.
    """
    outcomes = answers(trial)
    right, lists = outcomes.floats("correct"), outcomes.texts("task")
    is_scored = np.isfinite(right)
    shares = {name: right[is_scored & (lists == name)] for name in LISTS}
    # No list whose questions are all too long for the model.
    return min(
        (name for name, of_list in shares.items() if of_list.size),
        key=lambda name: abs(shares[name].mean() - WANTED),
        default=LISTS[0],
    )
