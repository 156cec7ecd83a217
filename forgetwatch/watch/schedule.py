"""When to look during a run.

    every=None     steps 0, 2 %, 5 %, 10 %, then every 10 % of the run, at every save, and at the last step
    every=200      every 200 steps;   every=[10, 50]   at those steps;   "save", "epoch"   at those events

The start and the last step are always looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Self

from forgetwatch.errors import WatchError

Every = int | Sequence[int] | Literal["save", "epoch"] | None

_EARLY: Final = (0.02, 0.05, 0.10)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Steps and events at which to look.

    Attributes:
        steps: Optimizer steps that are known beforehand, the first and the last among them.
        at_save: Whether to look at every save too.
        at_epoch: Whether to look at the end of every epoch too.
    """

    steps: frozenset[int]
    at_save: bool
    at_epoch: bool

    @classmethod
    def make(cls, every: Every, *, max_steps: int) -> Self:
        """The schedule of a run of `max_steps` optimizer steps.

        Raises:
            WatchError: If `every` is no schedule.
        """
        ends = {0, max_steps}
        if every is None:
            shares = (*_EARLY, *(tenth / 10 for tenth in range(2, 10)))
            return cls(
                steps=frozenset(ends | {max(1, round(s * max_steps)) for s in shares}), at_save=True, at_epoch=False
            )
        if isinstance(every, str) and every in ("save", "epoch"):
            return cls(steps=frozenset(ends), at_save=every == "save", at_epoch=every == "epoch")
        if isinstance(every, int) and not isinstance(every, bool) and every > 0:
            return cls(steps=frozenset(ends | set(range(every, max_steps, every))), at_save=False, at_epoch=False)
        listed = every if isinstance(every, Sequence) and not isinstance(every, str) else ()
        if listed and all(isinstance(step, int) and step >= 0 for step in listed):
            return cls(steps=frozenset(ends | {s for s in listed if s <= max_steps}), at_save=False, at_epoch=False)
        raise WatchError(
            f"every={every!r} is no schedule; give a number of steps, a list of steps, 'save', 'epoch' or None"
        )

    def count(self, *, save_steps: int | None, epochs: int, max_steps: int) -> int:
        """How many looks are planned.

        Args:
            save_steps: Steps between two saves; None if saves are not made by steps.
            epochs: Epochs of the run.
            max_steps: Optimizer steps of the run.
        """
        steps = set(self.steps)
        if self.at_save and save_steps:
            steps |= set(range(save_steps, max_steps, save_steps))
        if self.at_epoch:
            steps |= {round(max_steps * (epoch + 1) / epochs) for epoch in range(epochs)}
        return len(steps)
