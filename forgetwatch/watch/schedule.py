"""Schedule of the looks of a run.

    every=None     steps 0, 2 %, 5 %, 10 %, then every 10 % of the run, at every save, and at the last step
    every=200      every 200 steps;   every=[10, 50]   at those steps;   "save", "epoch"   at those events

The start and the last step always have a look. Looks that `every` names are required, and so are those at evaluations
by which the trainer chooses its best checkpoint. The other looks of the default schedule may be left out: those up to
the step of the budget's decision, and those for which the budget has no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Final, Literal, Self, TypeGuard

from forgetwatch.errors import WatchError

Every = int | Sequence[int] | Literal["save", "epoch"] | None

_EARLY: Final = (0.02, 0.05, 0.10)

_KEPT: Final = (0.10, 0.50)
"""Shares of the run whose nearest looks are kept, with the last, if no others are required."""

_FEWEST_LOOKS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Steps and events that have a look.

    Attributes:
        steps: Optimizer steps of all looks that are known beforehand, among them 0 and the last.
        required: Those of them that no budget leaves out.
        max_steps: Optimizer steps of the run.
        at_save: True for a look at every save too.
        at_epoch: True for a look at the end of every epoch too.
        is_default: True if the user named no schedule: looks that are not required may be left out.
        after: Events up to this step have no look.
    """

    steps: frozenset[int]
    required: frozenset[int]
    max_steps: int
    at_save: bool = False
    at_epoch: bool = False
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
        """Schedule of a run of `max_steps` optimizer steps.

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
            return cls(steps=steps, required=ends | evaluations, max_steps=max_steps, at_save=True, is_default=True)
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
        return cls(steps=steps, required=steps, max_steps=max_steps, at_save=at_save, at_epoch=at_epoch)

    def first_required(self, *, after: int) -> int:
        """Step of the first required look after a step."""
        return min((step for step in self.required if step > after), default=self.max_steps)

    @property
    def fewest(self) -> int:
        """Minimum number of looks after the start that `thinned` keeps."""
        return len(self._never_dropped())

    def has_look(self, step: int, *, at_save: bool = False, at_epoch: bool = False) -> bool:
        """True if there is a look at a step or at an event of that step.

        Args:
            step: Optimizer steps taken.
            at_save: True if the step is saved.
            at_epoch: True at the end of an epoch.
        """
        is_event = (at_save and self.at_save) or (at_epoch and self.at_epoch)
        return step in self.steps or (is_event and step > self.after)

    def looks_after(self, step: int) -> int:
        """Number of looks after a step that are known beforehand."""
        return sum(later > step for later in self.steps)

    def starting_after(self, step: int) -> Self:
        """The schedule without the looks up to a step that are not required."""
        if not self.is_default:
            return self
        kept = frozenset(look for look in self.steps if look > step or look in self.required)
        return replace(self, steps=kept, after=step)

    def thinned(self, looks: int) -> Self:
        """The schedule with at most so many looks after the start: the required ones, and others far from each other.

        The looks nearest to a tenth and to half of the run stay. Events that are not known beforehand have no look.
        """
        kept = {0} | self._never_dropped()
        left = sorted(self.steps - kept)
        while left and len(kept) - 1 < looks:
            # The look farthest from its neighbours; of equal ones the earliest.
            chosen = max(left, key=lambda step: _distances(step, kept))
            kept.add(chosen)
            left.remove(chosen)
        return replace(self, steps=frozenset(kept), at_save=self.at_save and not left)

    def without_looks(self) -> Self:
        """The schedule with no look after the start."""
        return replace(self, steps=frozenset({0}), required=frozenset({0}), at_save=False, at_epoch=False)

    def _never_dropped(self) -> set[int]:
        """Steps after the start that stay in every thinned schedule: the required ones, and at least three."""
        later, required = self.steps - {0}, set(self.required - {0})
        if len(required) < _FEWEST_LOOKS:
            required |= {min(sorted(later), key=lambda step: abs(step - share * self.max_steps)) for share in _KEPT}
        return required


def event_steps(strategy: str, *, every: float | None, epoch: int | None, max_steps: int) -> frozenset[int]:
    """Steps of an event of the trainer that are known beforehand: its saves, evaluations or epochs.

    Args:
        strategy: ``steps``, ``epoch``, or another whose steps are not known.
        every: Steps between two events, for the strategy ``steps``.
        epoch: Steps of an epoch; None if unknown.
        max_steps: Optimizer steps of the run.
    """
    period = {"steps": every, "epoch": epoch}.get(strategy)
    return frozenset(range(int(period), max_steps, int(period))) if period else frozenset()


def _distances(step: int, kept: set[int]) -> tuple[int, int]:
    """Steps to the kept looks before and after a step, the smaller first; the start and the end are kept."""
    before, after = max(look for look in kept if look < step), min(look for look in kept if look > step)
    smaller, larger = sorted((step - before, after - step))
    return smaller, larger


def _is_step(value: object) -> TypeGuard[int]:
    # True is an Integral too.
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0
