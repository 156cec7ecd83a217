"""Steps of a run that have a look.

    every=None     the start, every save, the last step, and between them 2 %, 5 %, 10 % and every 10 % of the run
    every=200      every 200 steps;   every=[10, 50]   at those steps;   "save", "epoch"   at those events

The start and the last step always have a look. Looks that `every` names are required, and so are those at evaluations
by which the trainer chooses its best checkpoint. The other looks of the default schedule may be left out for want of
time (`budget`): first those between saves, so that each look has a checkpoint, then saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Final, Literal, Self, TypeGuard

from forgetwatch.errors import WatchError

Every = int | Sequence[int] | Literal["save", "epoch"] | None

_EARLY: Final = (0.02, 0.05, 0.10)

_FEWEST_LOOKS: Final = 3
"""Minimum number of looks after the start of a run that has as many steps."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Steps and events that have a look.

    Attributes:
        steps: Optimizer steps of all looks that are known beforehand, among them 0 and the last.
        required: Those of them that no budget leaves out.
        max_steps: Optimizer steps of the run.
        at_save: True for a look at every save too.
        at_epoch: True for a look at the end of every epoch too.
        saves: Steps of the saves that are known beforehand.
        is_default: True if the user named no schedule: looks that are not required may be left out.
        after: Events up to this step have no look.
    """

    steps: frozenset[int]
    required: frozenset[int]
    max_steps: int
    at_save: bool = False
    at_epoch: bool = False
    saves: frozenset[int] = frozenset()
    is_default: bool = False
    after: int = 0

    @classmethod
    def make(
        cls,
        every: Every,
        *,
        max_steps: int,
        saves: frozenset[int] = frozenset(),
        epochs: frozenset[int] = frozenset(),
        evaluations: frozenset[int] = frozenset(),
    ) -> Self:
        """Return the schedule of a run of `max_steps` optimizer steps.

        Args:
            every: The schedule as the user gave it.
            max_steps: Optimizer steps of the run.
            saves: Steps of the saves that are known beforehand.
            epochs: Last steps of the epochs.
            evaluations: Steps of the evaluations that need a look, because the best checkpoint is chosen by it.

        Raises:
            WatchError: If `every` describes no schedule.
        """
        ends = frozenset({0, max_steps})
        if every is None:
            shares = (*_EARLY, *(tenth / 10 for tenth in range(2, 10)))
            steps = ends | saves | evaluations | {max(1, round(share * max_steps)) for share in shares}
            return cls(
                steps=steps,
                required=ends | evaluations,
                max_steps=max_steps,
                at_save=True,
                saves=saves,
                is_default=True,
            )
        at_save, at_epoch = every == "save", every == "epoch"
        if isinstance(every, str) and (at_save or at_epoch):
            named = saves if at_save else epochs
        elif _is_step(every) and every > 0:
            named = frozenset(range(int(every), max_steps, int(every)))
        elif isinstance(every, Sequence) and not isinstance(every, str) and every and all(map(_is_step, every)):
            named = frozenset(int(step) for step in every if step <= max_steps)
        else:
            raise WatchError(
                f"every={every!r} is not a schedule; give a number of steps, a list of steps, 'save', 'epoch' or None"
            )
        steps = ends | named | evaluations
        return cls(steps=steps, required=steps, max_steps=max_steps, at_save=at_save, at_epoch=at_epoch, saves=saves)

    @property
    def fewest(self) -> int:
        """Minimum number of looks after the start that `thinned` keeps: the required ones, and at least three."""
        return min(max(len(self.required - {0}), _FEWEST_LOOKS), len(self.steps - {0}))

    def has_look(self, step: int, *, at_save: bool = False, at_epoch: bool = False) -> bool:
        """Return True if there is a look after so many steps, which are then saved, or end an epoch."""
        is_event = (at_save and self.at_save) or (at_epoch and self.at_epoch)
        return step in self.steps or (is_event and step > self.after)

    def looks_after(self, step: int) -> int:
        """Return the number of looks after a step that are known beforehand."""
        return sum(later > step for later in self.steps)

    def starting_after(self, step: int) -> Self:
        """Return the schedule without the looks up to a step that are neither required nor at a save."""
        if not self.is_default:
            return self
        kept = frozenset(look for look in self.steps if look > step or look in self.required | self.saves)
        # A run of a few steps would be left with too few.
        return replace(self, steps=kept if len(kept) > _FEWEST_LOOKS else self.thinned(0).steps, after=step)

    def thinned(self, looks: int, *, after: int = 0) -> Self:
        """Return the schedule with at most so many looks after a step: the required ones, then saves, then others.

        Earlier looks stay, and at least three in all. Of saves the first and the last stay, and of the others those
        farthest from the looks that are kept. Events that are not known beforehand have no look.
        """
        kept = {0, *self.required, *(step for step in self.steps if step <= after)}
        saves = sorted((self.saves & self.steps) - kept)
        for group in (saves[:1], saves[1:], sorted(self.steps - kept - set(saves))):
            left = list(group)

            def distances(step: int) -> list[int]:
                """Return the steps to the kept looks before and after a step, the smaller first; the ends are kept."""
                before, after = max(look for look in kept if look < step), min(look for look in kept if look > step)
                return sorted((step - before, after - step))

            while left and (sum(step > after for step in kept) < looks or len(kept) - 1 < self.fewest):
                chosen = max(left, key=distances)  # of equal ones the earliest
                kept.add(chosen)
                left.remove(chosen)
        return replace(self, steps=frozenset(kept), at_save=self.at_save and kept >= self.steps)

    @property
    def unwatched(self) -> list[int]:
        """Steps of the saves that have no look, rising."""
        return sorted(self.saves - self.steps)


def event_steps(strategy: str, *, every: float | None, epoch: int | None, max_steps: int) -> frozenset[int]:
    """Return the steps of an event of the trainer that are known beforehand: its saves, evaluations or epochs.

    The strategy is ``steps``, with `every` steps between two events, ``epoch``, with an `epoch` of so many steps, or
    another, whose steps are not known.
    """
    period = {"steps": every, "epoch": epoch}.get(strategy)
    return frozenset(range(int(period), max_steps, int(period))) if period else frozenset()


def _is_step(value: object) -> TypeGuard[int]:
    # True is an Integral too.
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0
