"""Item budget of a run: how many items its looks evaluate, so that they take at most a share of the training time.

    Clock          measures the seconds of the steps and looks so far
    Cost           predicts from them the seconds of the whole run
    decide_budget  chooses the number of items and whether answers are generated

The decision is made once, after ten steps; earlier looks evaluate all items. A resumed run keeps it, because looks over
different items cannot be compared. The items are the first ones of the probe: see `comparing.subset`.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, replace
from typing import Final

from forgetwatch.probe import Probe

FEWEST_ITEMS: Final = 100
"""Minimum number of items of a look, also if they exceed the budget: fewer items detect nothing."""

TIMED_STEPS: Final = 10
"""Steps after which the budget is decided."""


class Clock:
    """Seconds of the first steps of a training, and of its looks so far.

    Attributes:
        spent: Seconds of all looks so far.
        extra: Seconds of the latest look outside evaluating the probe: counting, the guard, logging, the drift.

    Args:
        spent: Seconds of the looks before the first step.
        extra: Seconds of the latest of them outside evaluating the probe.
    """

    def __init__(self, *, spent: float = 0.0, extra: float = 0.0) -> None:
        self.spent = spent
        self.extra = extra
        self._steps: list[float] = []
        self._since = 0.0

    def begin_step(self) -> None:
        """Start timing a step, unless it runs already: the micro-batches of a step count once."""
        self._since = self._since or time.perf_counter()

    def end_step(self) -> bool:
        """Stop timing a step, and return True if it was the last one that is timed."""
        if len(self._steps) >= TIMED_STEPS:
            return False
        self._steps.append(time.perf_counter() - self._since)
        return len(self._steps) == TIMED_STEPS

    def restart_step(self) -> None:
        """Start timing the next step now, after the looks at the end of the last one."""
        self._since = time.perf_counter()

    def add_look(self, seconds: float, *, evaluation: float) -> None:
        """Count a look.

        Args:
            seconds: Seconds of the whole look.
            evaluation: Seconds of it that went into evaluating the probe.
        """
        self.spent += seconds
        self.extra = max(0.0, seconds - evaluation)

    @property
    def step(self) -> float:
        """Median seconds of the steps so far."""
        # Not the mean: the first steps are slower than all later ones.
        return statistics.median(self._steps)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of looks and steps, and their numbers.

    Attributes:
        items: Items of the probe.
        look: Seconds of evaluating all of them once.
        step: Seconds of one optimizer step.
        steps: Optimizer steps of the run.
        spent: Seconds of all looks so far.
        left: Looks that are still planned.
        extra: Seconds of a look outside evaluating the items.
        generation: Seconds of `look` that generate answers; 0 unless the probe has answers of both kinds.
    """

    items: int
    look: float
    step: float
    steps: int
    spent: float
    left: int
    extra: float = 0.0
    generation: float = 0.0

    def share(self, items: int) -> float:
        """Share of looks in the time of looks and training if the remaining looks evaluate `items` items, 0 to 1."""
        looks = self.spent + self.left * (self.look * items / self.items + self.extra)
        return looks / (looks + self.step * self.steps)

    def fits(self, overhead: float) -> bool:
        """True if the remaining looks can evaluate all items within `overhead` of the training's time."""
        return self.spent + self.left * (self.look + self.extra) <= overhead * self.step * self.steps

    def affordable(self, overhead: float) -> int:
        """Maximum number of items for which all looks take at most `overhead` of the training; at least the minimum."""
        if not self.left or not self.look:
            return self.items
        # What other costs leave for evaluating items, spread over the remaining looks.
        seconds = overhead * self.step * self.steps - self.spent - self.left * self.extra
        most = math.floor(seconds / self.left / self.look * self.items)
        return min(self.items, max(most, FEWEST_ITEMS))


def decide_budget(cost: Cost, overhead: float) -> tuple[Cost, int, bool]:
    """Cost of the remaining looks, number of items that they evaluate, and True if they generate answers.

    In a probe with answers of both kinds, generated ones are left out before any other: they take longest by far.

    Args:
        cost: Cost of looks over all items.
        overhead: Share of the training's time that looks may take, 0 to 1.
    """
    if cost.fits(overhead) or not cost.generation:
        return cost, cost.affordable(overhead), True
    scored = replace(cost, look=max(cost.look - cost.generation, 0.0), generation=0.0)
    return scored, scored.affordable(overhead), False


def is_mixed(probe: Probe) -> bool:
    """True if a probe has both generated and log-likelihood answers."""
    return len({probe.is_generated(item) for item in probe}) > 1
