"""Is it more than luck? What intervals, tests, noise and guessing say, in sentences without symbols."""

from __future__ import annotations

import math
from typing import Final

from forgetwatch.compare import Comparison
from forgetwatch.groups import Group
from forgetwatch.metrics.intervals import Interval
from forgetwatch.report.numbers import count
from forgetwatch.report.words import by_points, listed, questions
from forgetwatch.trajectory import Trajectory

_FALSE_ALARMS: Final = 0.05
"""Share of false alarms among the categories that are said to have fallen."""


def luck(comparison: Comparison, trajectory: Trajectory | None) -> str:
    """Whether gains and losses may be luck, noise of measuring, or guessing; of a run, over all of its looks."""
    whole = comparison.all
    low, high = whole.net_change_interval
    if math.isnan(low):
        return "Nothing was measured on both sides, so nothing can be said."
    if not whole.forgotten and not whole.gained:
        text = f"No answer changed sides: with these questions, {_range(whole.net_change_interval)} would fit as well."
        return text + (_over_all_looks(trajectory) if trajectory is not None and len(trajectory) > 1 else "")
    text = f"Gains and losses together {_moved(whole.net_change)}. "
    if high < 0 or low > 0:
        text += f"That is more than luck: with these questions, {_range(whole.net_change_interval)} would fit."
    else:
        text += f"That may be luck: with these questions, {_range(whole.net_change_interval)} would fit as well."
    if whole.null_lost is not None and whole.null_gained is not None:
        text += _against_noise(whole, whole.null_lost, whole.null_gained)
    text += _guessing(whole)
    if trajectory is not None and len(trajectory) > 1:
        return text + _over_all_looks(trajectory)
    categories = len(comparison.by("category"))
    if categories > 1:
        names = [group.name for group in _fallen(comparison, None) if group.level == "category"]
        text += (
            f" Among the {count(categories)} categories the fall is beyond luck for {listed(names)}."
            if names
            else f" In none of the {count(categories)} categories the fall is clearly beyond luck."
        )
    return text


def _over_all_looks(trajectory: Trajectory) -> str:
    groups = {(alarm.group.level, alarm.group.name) for alarm in trajectory.alarms()}
    names = list(dict.fromkeys("accuracy as a whole" if level == "all" else name for level, name in sorted(groups)))
    if names:
        return f" Over all looks of the run the fall is beyond luck for {listed(names)}."
    return " Over all looks of the run no fall of accuracy is beyond luck."


def _guessing(whole: Group) -> str:
    """How many of the losses guessing alone would make, as the sharpest correction that there is says."""
    guessed = whole.chance.guess_corrected_calibrated or whole.chance.guess_corrected
    if guessed is None or not whole.forgotten or math.isnan(guessed.forgetting):
        return ""
    low, high = guessed.forgetting_band
    made, least, most = (_made(whole, rate, guessed.n) for rate in (guessed.forgetting, high, low))
    text = f" Guessing alone would make about {made} of the losses"
    return f"{text}." if math.isnan(low) else f"{text}; between {least} and {most} would fit."


def _made(whole: Group, truly: float, n: float) -> str:
    """The losses that guessing made, if a share `truly` of n items was truly forgotten."""
    left = 0.0 if math.isnan(truly) else min(max(truly, 0.0) * n, whole.forgotten)
    return count(round(whole.forgotten - left))


def _against_noise(whole: Group, lost: float, gained: float) -> str:
    """What the unchanged model changed when it was measured again, beside what the changed one did."""
    again = lost + gained
    text = f" Measured a second time, the unchanged model answered {questions(again).lower()} otherwise"
    if whole.forgotten + whole.gained > 5 * max(again, 1):
        return (
            f"{text}, so the {count(whole.forgotten)} lost and {count(whole.gained)} gained are no noise of measuring."
        )
    return f"{text}: so much of the gains and losses is noise."


def _fallen(comparison: Comparison, trajectory: Trajectory | None) -> list[Group]:
    """The groups whose fall is more than luck and is there at the last look: by the run's alarms, else by q."""
    watched = [comparison.all, *comparison.by("category").values()]
    if len(watched) == 2:  # one category is the whole
        watched = watched[:1]
    down = [group for group in watched if group.net_change < 0]
    if trajectory is not None and len(trajectory) > 1:
        raised = {(alarm.group.level, alarm.group.name) for alarm in trajectory.alarms()}
        return [group for group in down if (group.level, group.name) in raised]
    return [group for group in down if group.q_value <= _FALSE_ALARMS]


def beyond_luck(comparison: Comparison, trajectory: Trajectory | None) -> str:
    """Which groups fell by more than luck, in one sentence; empty where none did."""
    fallen = sorted(_fallen(comparison, trajectory), key=lambda group: (group.level != "all", group.net_change))
    if not fallen:
        return ""
    named = [
        f"{'accuracy as a whole' if group.level == 'all' else group.name} by {by_points(group.net_change)}"
        for group in fallen
    ]
    return f"Luck does not explain the fall of {listed(named)}."


def _moved(change: float) -> str:
    tenths = abs(round(100 * change, 1))
    if not tenths:
        return "leave accuracy where it was"
    return f"{'raise' if change > 0 else 'lower'} accuracy by {by_points(change)}"


def _range(interval: Interval) -> str:
    low, high = (round(100 * end, 1) for end in interval)
    if low < 0 < high:
        return f"anything between {-low:.1f} points down and {high:.1f} up"
    if high <= 0:
        return f"between {-high:.1f} and {-low:.1f} points down"
    return f"between {low:.1f} and {high:.1f} points up"
