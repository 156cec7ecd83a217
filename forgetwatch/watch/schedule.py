"""Schedule of the looks of a run.

    every=None     steps 0, 2 %, 5 %, 10 %, then every 10 % of the run, at every save, and at the last step
    every=200      every 200 steps;   every=[10, 50]   at those steps;   "save", "epoch"   at those events

The start and the last step always have a look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Final, Literal, Self, TypeGuard

from forgetwatch.errors import WatchError

Every = int | Sequence[int] | Literal["save", "epoch"] | None

_EARLY: Final = (0.02, 0.05, 0.10)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Steps and events that have a look.

    Attributes:
        steps: Optimizer steps known beforehand, among them 0 and the last.
        at_save: True for a look at every save too.
        at_epoch: True for a look at the end of every epoch too.
    """

    steps: frozenset[int]
    at_save: bool
    at_epoch: bool

    @classmethod
    def make(cls, every: Every, *, max_steps: int) -> Self:
        """Schedule of a run of `max_steps` optimizer steps.

        Raises:
            WatchError: If `every` describes no schedule.
        """
        ends = {0, max_steps}
        if every is None:
            shares = (*_EARLY, *(tenth / 10 for tenth in range(2, 10)))
            return cls(
                steps=frozenset(ends | {max(1, round(s * max_steps)) for s in shares}), at_save=True, at_epoch=False
            )
        if isinstance(every, str) and every in ("save", "epoch"):
            return cls(steps=frozenset(ends), at_save=every == "save", at_epoch=every == "epoch")
        if _is_step(every) and every > 0:
            steps = set(range(int(every), max_steps, int(every)))
        elif isinstance(every, Sequence) and not isinstance(every, str) and every and all(map(_is_step, every)):
            steps = {int(step) for step in every if step <= max_steps}
        else:
            raise WatchError(
                f"every={every!r} is not a schedule; give a number of steps, a list of steps, 'save', 'epoch' or None"
            )
        return cls(steps=frozenset(ends | steps), at_save=False, at_epoch=False)

    def looks(self, *, save_steps: int | None, save_epochs: bool, epochs: int, max_steps: int) -> frozenset[int]:
        """Steps of all planned looks, as far as they are known beforehand.

        Args:
            save_steps: Steps between two saves; None if the trainer does not save by steps.
            save_epochs: True if it saves at the end of every epoch.
            epochs: Epochs of the run.
            max_steps: Optimizer steps of the run.
        """
        steps = set(self.steps)
        if self.at_save and save_steps:
            steps |= set(range(save_steps, max_steps, save_steps))
        if self.at_epoch or (self.at_save and save_epochs):
            steps |= {round(max_steps * (epoch + 1) / epochs) for epoch in range(epochs)}
        return frozenset(steps)


def _is_step(value: object) -> TypeGuard[int]:
    # True is an Integral too.
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0
