"""Steps of a run that have a look, and the items and looks for which the time suffices.

    every=None     the start, every save, the last step, and between them 2 %, 5 %, 10 % and every 10 % of the run
    every=200      every 200 steps;   every=[10, 50]   at those steps;   "save", "epoch"   at those events

The start and the last step always have a look. Looks that `every` names are required, and so are
those at evaluations by which the trainer chooses its best checkpoint. The other looks of the
default schedule may be left out for want of time (`Budget`): first those between saves, so that
each look has a checkpoint, then saves.

    Trial     seconds of a few items, before anything is measured
    Clock     seconds of the first steps, and of a look outside evaluating the probe
    LookPlan  the items that are evaluated, and the number of looks
    Budget    decides both before the baseline, and drops looks after the first steps if they take too long

The training is predicted from the tokens of its examples, a step being three forward passes. All
looks together may take a minute, or their share of the training if that is more. Generated answers
are left out first, then items, down to 500, by what 12 looks cost; then looks of the default
schedule are dropped. The items are never changed again, because looks over different items cannot
be compared; they are the first of the probe: see `comparing.checks`. If the training could not be
predicted, looks are dropped after ten steps if all of them would take longer than they may.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Final, Literal, Self, TypeGuard

from forgetwatch.comparing.subset import Subset
from forgetwatch.errors import WatchError
from forgetwatch.item import Item
from forgetwatch.probe import Probe
from forgetwatch.run.state import LookPlan
from forgetwatch.scoring.processes import on_main_process

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
        """Make the schedule of a run of `max_steps` optimizer steps.

        Args:
            every: The schedule as the user gave it.
            max_steps: Optimizer steps of the run.
            saves: Steps of the saves that are known beforehand.
            epochs: Last steps of the epochs.
            evaluations: Steps of the evaluations that need a look, because the best checkpoint is
                chosen by it.

        Raises:
            WatchError: If `every` describes no schedule.
        """
        ends = frozenset({0, max_steps})
        if every is None:
            shares = (*_EARLY, *(tenth / 10 for tenth in range(2, 10)))
            steps = (
                ends | saves | evaluations | {max(1, round(share * max_steps)) for share in shares}
            )
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
            look_steps = saves if at_save else epochs
        elif _is_step(every) and every > 0:
            look_steps = frozenset(range(int(every), max_steps, int(every)))
        elif (
            isinstance(every, Sequence)
            and not isinstance(every, str)
            and every
            and all(map(_is_step, every))
        ):
            look_steps = frozenset(int(step) for step in every if step <= max_steps)
        else:
            raise WatchError(
                f"every={every!r} is not a schedule; give a number of steps, a list of steps, "
                "'save', 'epoch' or None"
            )
        steps = ends | look_steps | evaluations
        return cls(
            steps=steps,
            required=steps,
            max_steps=max_steps,
            at_save=at_save,
            at_epoch=at_epoch,
            saves=saves,
        )

    @property
    def fewest(self) -> int:
        """Minimum number of looks that `thinned` keeps.

        The required ones, and at least three; after the start.
        """
        return min(max(len(self.required - {0}), _FEWEST_LOOKS), len(self.steps - {0}))

    def has_look(self, step: int, *, at_save: bool = False, at_epoch: bool = False) -> bool:
        """Is there a look after a number of steps?

        The steps are then saved, or end an epoch.
        """
        is_event = (at_save and self.at_save) or (at_epoch and self.at_epoch)
        return step in self.steps or (is_event and step > self.after)

    def looks_after(self, step: int) -> int:
        """Number of looks after a step that are known beforehand."""
        return sum(later > step for later in self.steps)

    def starting_after(self, step: int) -> Self:
        """Schedule without the looks up to a step.

        Required looks, and looks at a save, stay.
        """
        if not self.is_default:
            return self
        kept = frozenset(
            look for look in self.steps if look > step or look in self.required | self.saves
        )
        # A run of a few steps would be left with too few.
        return replace(
            self, steps=kept if len(kept) > _FEWEST_LOOKS else self.thinned(0).steps, after=step
        )

    def thinned(self, looks: int, *, after: int = 0) -> Self:
        """Schedule with a limited number of looks after a step.

        Earlier looks stay, and at least three in all. Of saves the first and the last stay, and of
        the others those farthest from the looks that are kept. Events that are not known beforehand
        have no look.
        """
        kept = {0, *self.required, *(step for step in self.steps if step <= after)}
        saves = sorted((self.saves & self.steps) - kept)
        for group in (saves[:1], saves[1:], sorted(self.steps - kept - set(saves))):
            left = list(group)

            def distances(step: int) -> list[int]:
                """Return the steps to the kept looks before and after a step, the smaller first; the ends are kept."""
                # The smaller first; the ends are kept.
                before, after = (
                    max(look for look in kept if look < step),
                    min(look for look in kept if look > step),
                )
                return sorted((step - before, after - step))

            while left and (
                sum(step > after for step in kept) < looks or len(kept) - 1 < self.fewest
            ):
                chosen = max(left, key=distances)  # of equal ones the earliest
                kept.add(chosen)
                left.remove(chosen)
        return replace(self, steps=frozenset(kept), at_save=self.at_save and kept >= self.steps)

    @property
    def unwatched(self) -> list[int]:
        """Steps of the saves that have no look, rising."""
        return sorted(self.saves - self.steps)


def event_steps(
    strategy: str, *, every: float | None, epoch: int | None, max_steps: int
) -> frozenset[int]:
    """Steps of a trainer's event that are known beforehand.

    Saves, evaluations or epochs.

    The strategy is ``steps``, with `every` steps between two events, ``epoch``, with an `epoch` of
    so many steps, or another, whose steps are not known.
    """
    period = {"steps": every, "epoch": epoch}.get(strategy)
    return frozenset(range(int(period), max_steps, int(period))) if period else frozenset()


def _is_step(value: object) -> TypeGuard[int]:
    # True is an Integral too.
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


FEWEST_ITEMS: Final = 500
"""Minimum number of items of a look, also if they exceed the budget: with fewer most verdicts are NOT CLEAR."""

TIMED_STEPS: Final = 10
"""Steps after which looks may be dropped."""

CHECKED_ITEMS: Final = 50
"""Items of the second measurement of a baseline; what flips is the noise of the measurement."""

TWICE_ITEMS: Final = 500
"""Its items if one of the first flips."""

FEWEST_OF_SLICE: Final = 100
_SLICE_SECONDS: Final = 15.0
"""A baseline is measured in slices of at least so many items, and of so many seconds as they are told."""

LATE: Final = 2.0
"""A baseline ends with the finished slices after so many times the seconds that were told."""

HALVES: Final = 1.15
"""Seconds of an item in batches of half the size, as a multiple of those in whole ones; measured on a CPU."""

_START_SECONDS: Final = 60.0
_START_SHARE: Final = 0.02
"""The baseline and its second measurement take at most so many seconds, or this share of the predicted training."""

LOOKS_SECONDS: Final = 60.0
"""Seconds that all looks after the start may take in any training."""

_FORWARDS: Final = 3.0
"""Forward passes that take as long as one training step on the same tokens."""

_ENOUGH: Final = 12
"""Looks for which items are left out; for more than these, looks are."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Seconds of a few items of a probe, before anything is measured.

    Attributes:
        question: Seconds of a question; see `evaluated_worth`.
        token: Seconds of a token in one process.
        answer: Seconds of a generated answer; 0 if none was timed.
        begin: Seconds of the tests with which each measurement begins, but a look.
        known: Baselines in the cache, by their items and whether answers are generated: they are
            only checked.
    """

    question: float
    token: float
    answer: float = 0.0
    begin: float = 0.0
    known: tuple[tuple[int, bool], ...] = ()


def last_timed_step(step: int, *, max_steps: int) -> int:
    """Step after which looks may be dropped.

    The tenth, not the last.

    A training that resumes later than that times ten steps of its own.
    """
    last_before_end = max_steps - 1
    return min(TIMED_STEPS if step < TIMED_STEPS else step + TIMED_STEPS, last_before_end)


class Clock:
    """Seconds of the first steps of a training.

    Attributes:
        extra: Seconds of the latest look outside evaluating the probe: counting, the guard,
            logging, the drift.
    """

    def __init__(self, *, extra: float = 0.0) -> None:
        self.extra = extra
        self._steps: list[float] = []
        self._since = 0.0

    def begin_step(self) -> None:
        """Start timing a step, unless that runs already.

        The micro-batches of a step count once.
        """
        self._since = self._since or time.perf_counter()

    def end_step(self) -> None:
        """Stop timing a step; only the first ten count."""
        if len(self._steps) < TIMED_STEPS:
            self._steps.append(time.perf_counter() - self._since)

    def restart_step(self) -> None:
        """Start timing the next step now, after the looks."""
        self._since = time.perf_counter()

    def add_look(self, seconds: float, *, evaluation: float) -> None:
        """Count a look's seconds, and how many went into evaluating."""
        self.extra = max(0.0, seconds - evaluation)

    @property
    def step(self) -> float | None:
        """Median seconds of the steps so far.

        Returns:
            The seconds, or None if none was timed.
        """
        # Not the mean: the first steps are slower than all later ones.
        return statistics.median(self._steps) if self._steps else None


class Budget:
    """Items and looks of one training, decided before its baseline; after its first steps looks may be dropped.

    Attributes:
        overhead: Share of the training's time that the looks may take, 0 to 1; None for any.
        schedule: The looks that are taken.
        clock: Times the first steps.
        is_final: True once no look is dropped any more.
        training: Predicted seconds of the training, by which the looks were decided; None if it
            cannot be predicted.

    Args:
        planned: All looks of the training.
        overhead: As the attribute.
        items: Number of items that the user names; None for none.
    """

    def __init__(self, planned: Schedule, *, overhead: float | None, items: int | None) -> None:
        self.overhead = overhead
        self.schedule = self._planned = planned
        self.clock = Clock()
        self.is_final = False
        self.training: float | None = None
        self._began_at = self._checked_at = 0
        self._items = items

    def decide(
        self, probe: Probe, trial: Trial | None, step_tokens: float | None, *, after: int
    ) -> LookPlan:
        """Decide items and looks of a training after a step.

        Args:
            probe: The probe.
            trial: Seconds of a few items; None if they were not timed.
            step_tokens: Tokens of a training step in one process; None if they are not known.
            after: The step.
        """
        items_set = self._items if self._items is not None and self._items < len(probe) else None
        decision, overhead = LookPlan(items=items_set), self.overhead
        step_tokens = (
            step_tokens if trial is not None and trial.token else None
        )  # answers alone predict no training
        if overhead is not None and trial is not None:
            # Clocks differ between processes, and every process must come to the same items and
            # looks.
            decision = on_main_process(
                lambda: decide_start(
                    trial,
                    overhead,
                    probe=probe,
                    step_tokens=step_tokens,
                    schedule=self._planned,
                    items=items_set if self._items is None else min(self._items, len(probe)),
                )
            )
            if step_tokens is not None:
                self.training = predicted_seconds(trial, step_tokens, steps=self._planned.max_steps)
        if overhead is not None and self.training is None:
            decision = replace(
                decision, step=last_timed_step(after, max_steps=self._planned.max_steps)
            )
        self.follow(decision)
        return decision

    def set_out(self, step: int, *, is_final: bool = False, before: Budget | None = None) -> None:
        """Begin to time the training at a step.

        `is_final` if the looks were decided for good, by a budget `before`.
        """
        self.training = self.training if before is None else before.training
        self._began_at, self._checked_at = (
            step,
            last_timed_step(step, max_steps=self._planned.max_steps),
        )
        self.is_final = (
            is_final
            or self.training is not None
            or self.overhead is None
            or self._checked_at <= step
        )

    def is_to_check(self, step: int) -> bool:
        """May looks still be dropped at this last timed step?"""
        return step == self._checked_at and not self.is_final

    def check(self, decision: LookPlan, *, step: int, each: float, spent: float) -> LookPlan:
        """Drop looks from a step on, if all together take too long.

        Args:
            decision: The decision so far.
            step: The step.
            each: Seconds of a look.
            spent: Seconds of the looks so far, without the baseline.

        Returns:
            The decision, which is final then.
        """
        self.is_final, seconds, overhead = True, self.clock.step, self.overhead
        if seconds is None or overhead is None:
            return decision

        def checked() -> LookPlan:
            most = (
                looks_seconds(overhead, seconds * (self._planned.max_steps - self._began_at))
                - spent
            )
            if self.schedule.looks_after(step) * each <= most:
                return decision
            checked_decision = replace(decision, step=step, looks=max(0, math.floor(most / each)))
            return (
                checked_decision
                if self._planned_for(checked_decision).looks_after(step)
                < self.schedule.looks_after(step)
                else decision
            )

        shared_decision = on_main_process(checked)
        self.follow(shared_decision)
        return shared_decision

    def follow(self, decision: LookPlan) -> None:
        """Take the looks of a decision."""
        self.schedule = self._planned_for(decision)

    def _planned_for(self, decision: LookPlan) -> Schedule:
        schedule = self._planned.starting_after(decision.step) if decision.step else self._planned
        return (
            schedule
            if decision.looks is None
            else schedule.thinned(decision.looks, after=decision.step)
        )


def looks_seconds(overhead: float, training: float) -> float:
    """Seconds that all looks may take beside the training.

    A share of the training's seconds, or a minute.
    """
    return max(LOOKS_SECONDS, overhead * training)


def decide_start(
    trial: Trial,
    overhead: float,
    *,
    probe: Probe,
    step_tokens: float | None,
    schedule: Schedule,
    items: int | None = None,
) -> LookPlan:
    """Decide items and looks from the seconds of a few items.

    The number of items is 500, 1,000 and so on or the whole probe, so that it seldom depends on
    other work of the machine, and a baseline that was measured before can be used again.

    Args:
        trial: Seconds of a few items.
        overhead: Share of the training's time that the looks may take, 0 to 1.
        probe: The probe.
        step_tokens: Tokens of a training step in one process; None if they are not known.
        schedule: The looks that are planned.
        items: Number of items that the user names; None for none.
    """
    training = (
        0.0
        if step_tokens is None
        else predicted_seconds(trial, step_tokens, steps=schedule.max_steps)
    )
    bound, looks = max(_START_SECONDS, _START_SHARE * training), schedule.looks_after(0)
    most = math.inf if step_tokens is None else looks_seconds(overhead, training)
    sizes = start_sizes(len(probe)) if items is None else [items]
    choices = [LookPlan(items=size if size < len(probe) else None) for size in reversed(sizes)]
    if generated_items(probe):
        without = [replace(without_generated, generates=False) for without_generated in choices]
        enough = [
            enough_items
            for enough_items in without
            if len(evaluated(probe, enough_items)) >= FEWEST_ITEMS
        ]
        choices = [choices[0], *(enough or without[:1])]
    choices = [
        choice for choice in choices if start_seconds(trial, probe, choice) <= bound
    ] or choices[-1:]
    # Many saves cost looks and no items: a verdict is about two looks, and all their items.
    counted = min(looks, max(schedule.fewest, _ENOUGH))
    chosen = next(
        (choice for choice in choices if counted * look_seconds(trial, probe, choice) <= most),
        choices[-1],
    )
    each = look_seconds(trial, probe, chosen)
    return (
        chosen
        if looks * each <= most
        else replace(chosen, looks=max(schedule.fewest, math.floor(most / each)))
    )


def start_sizes(items: int) -> list[int]:
    """Numbers of items of a baseline: 500, 1,000, ..., and all."""
    sizes = [FEWEST_ITEMS]
    while sizes[-1] < items:
        sizes.append(2 * sizes[-1])
    return [*(size for size in sizes if size < items), items]


def look_seconds(trial: Trial, probe: Probe, decision: LookPlan) -> float:
    """Seconds of a look at the items of a decision."""
    kept = evaluated(probe, decision)
    answers = sum(probe.is_generated(item) for item, _ in kept)
    return (
        trial.question * (math.fsum(worth for _, worth in kept) - answers) + trial.answer * answers
    )


def start_seconds(trial: Trial, probe: Probe, decision: LookPlan, *, again: int = 1) -> float:
    """Seconds of a baseline and the second measurement.

    Of the latter alone if the baseline is cached.

    `again` is the number of times that its first items are measured after it.
    """
    items = decision.items or len(probe)
    few = look_seconds(trial, probe, replace(decision, items=min(items, CHECKED_ITEMS)))
    seconds = again * (trial.begin + HALVES * few)
    is_known = (items, decision.generates) in trial.known
    return seconds + (0.0 if is_known else trial.begin + look_seconds(trial, probe, decision))


def slice_size(items: int, seconds: float) -> int | None:
    """Items of a slice of a baseline.

    Returns:
        The number, or None if there is one slice.
    """
    slices = min(items // FEWEST_OF_SLICE, int(seconds / _SLICE_SECONDS))
    return None if slices < 2 else math.ceil(items / slices)


def predicted_seconds(trial: Trial, step_tokens: float, *, steps: int) -> float:
    """Seconds of a training, from the tokens of a step."""
    return _FORWARDS * trial.token * step_tokens * steps


def evaluated_worth(probe: Probe, decision: LookPlan) -> float:
    """Worth of the items that looks evaluate, in questions."""
    return math.fsum(worth for _, worth in evaluated(probe, decision))


def evaluated(probe: Probe, decision: LookPlan) -> list[tuple[Item, float]]:
    """Items that looks evaluate, and the worth of each in questions.

    The time of an item grows with its text. A question is worth 1, and a passage its length over
    the mean length of the questions, worked examples left out: these are read once for many
    questions.
    """
    left_out = Subset.from_probe(probe, items=None, generates=decision.generates).left_out
    questions = [
        len(str(item.prompt)) + sum(map(len, item.choices)) for item in probe if not item.is_passage
    ]
    question = statistics.fmean(questions) if any(questions) else 1.0
    return [
        (item, len(item.choices[0]) / question if item.is_passage else 1.0)
        for item in probe.items[: decision.items]
        if (item.task, item.id) not in left_out
    ]


def generated_items(probe: Probe) -> int:
    """Number of items whose generated answers may be left out.

    0 unless the probe has answers of both kinds.
    """
    generated = [item for item in probe if probe.is_generated(item)]
    return 0 if len(generated) == len(probe) else sum(not item.must_pass for item in generated)
