"""How many items the looks of a run may ask, so that they take no more than a share of its time.

    Clock   what steps and looks took      Cost   what all of it makes of the run      decided   what is asked from here

Decided once, after ten steps, from what a look and a step have taken so far; the looks before ask all items. The run
keeps to it, also after a resume: a probe that changed its size on the way would compare unlike things.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, replace
from typing import Final

from forgetwatch.probe import Probe

FEWEST_ITEMS: Final = 100
"""Fewer items see nothing: where even these take too long, it is said and they are asked."""

TIMED_STEPS: Final = 10
"""Steps after which it is decided."""


class Clock:
    """What the first steps of a training took, and its looks so far.

    Attributes:
        spent: All looks so far, seconds.
        extra: What the latest look took beside asking the probe, seconds: counting, the guard, logging, the drift.
    """

    def __init__(self) -> None:
        self.spent = 0.0
        self.extra = 0.0
        self._steps: list[float] = []
        self._since = 0.0

    def begin_step(self) -> None:
        """A step begins, unless it began already: one of several micro-batches counts once."""
        self._since = self._since or time.perf_counter()

    def end_step(self) -> bool:
        """A step ends; whether it was the last that is timed."""
        if len(self._steps) >= TIMED_STEPS:
            return False
        self._steps.append(time.perf_counter() - self._since)
        return len(self._steps) == TIMED_STEPS

    def go_on(self) -> None:
        """What a step's end brought is over: the next step begins here."""
        self._since = time.perf_counter()

    def looked(self, seconds: float, *, asking: float) -> None:
        """A look was taken, of which so much went into asking the probe."""
        self.spent += seconds
        self.extra = max(0.0, seconds - asking)

    @property
    def step(self) -> float:
        """Median of the steps so far, seconds."""
        return statistics.median(self._steps)


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What looks and steps have taken, seconds.

    Attributes:
        items: Items of the probe.
        look: Asking all of them once.
        extra: What a look takes beside.
        step: One optimizer step.
        steps: Optimizer steps of the run.
        spent: All looks so far.
        left: Looks that are still planned.
        written: What of `look` goes into writing answers, where others are scored.
    """

    items: int
    look: float
    step: float
    steps: int
    spent: float
    left: int
    extra: float = 0.0
    written: float = 0.0

    def share(self, items: int) -> float:
        """Share of the run's time that looks take, if the remaining ones ask so many items; 0 to 1."""
        looks = self.spent + self.left * (self.look * items / self.items + self.extra)
        return looks / (looks + self.step * self.steps)

    def fits(self, overhead: float) -> bool:
        """Whether the remaining looks may ask all items."""
        return self.spent + self.left * (self.look + self.extra) <= overhead * self.step * self.steps

    def affordable(self, overhead: float) -> int:
        """Items that the remaining looks may ask, so that all looks take at most `overhead` of the training's time."""
        if not self.left or not self.look:
            return self.items
        seconds = overhead * self.step * self.steps - self.spent - self.left * self.extra
        most = math.floor(seconds / self.left / self.look * self.items)
        return min(self.items, max(most, FEWEST_ITEMS))


def decided(cost: Cost, overhead: float) -> tuple[Cost, int, bool]:
    """What the remaining looks cost, how many items they may ask, and whether answers that are written are among them.

    Where writing answers is what takes too long, and others are scored, written ones are left out before any other.
    """
    if cost.fits(overhead) or not cost.written:
        return cost, cost.affordable(overhead), True
    scored = replace(cost, look=max(cost.look - cost.written, 0.0), written=0.0)
    return scored, scored.affordable(overhead), False


def is_mixed(probe: Probe) -> bool:
    """Whether a probe has both, answers that are written and answers that are scored."""
    return len({probe.is_generated(item) for item in probe}) > 1
