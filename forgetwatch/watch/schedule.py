"""Looks of a run: the steps that have one, and the items for which the time suffices.

    every=None     the start, every save, the last step, and between them 2 %, 5 %, 10 % and every 10 % of the run
    every=200      every 200 steps;   every=[10, 50]   at those steps;   "save", "epoch"   at those events

The start and the last step always have a look. Looks that `every` names are required, and so are those at evaluations
by which the trainer chooses its best checkpoint. The other looks of the default schedule may be left out for want of
time: first those between saves, so that each look has a checkpoint, then saves.

    Schedule       steps and events that have a look
    Trial          seconds of a few items, before anything is measured
    decide_start   decides from them which items the baseline and the looks evaluate, and how many looks there are
    Clock          measures the seconds of the first steps, and of a look outside evaluating the probe
    Cost           predicts from them the seconds of the looks after the baseline
    decide_budget  corrects the decision, downwards

Items and looks are decided before the baseline, as a Decision: the training is predicted from the tokens of its
examples, a step being three forward passes. After ten steps, or at the first look if that is earlier, the decision is
corrected if the looks take half as much again as they may, or if the training could not be predicted. A resumed run
keeps it, because looks over different items cannot be compared. Generated answers are left out first, then items, down
to 250; then looks of the default schedule are dropped. The items are the first of the probe: see `comparing.subset`.
"""

from __future__ import annotations

import math
import statistics
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from numbers import Integral
from typing import Any, Final, Literal, Self, TypeGuard

from forgetwatch.comparing import Subset
from forgetwatch.errors import WatchError
from forgetwatch.probe import Probe

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

    def first_kept(self, *, after: int) -> int:
        """Step of the first look after a step that is required or at a save."""
        return min((step for step in self.steps & (self.required | self.saves) if step > after), default=self.max_steps)

    @property
    def fewest(self) -> int:
        """Minimum number of looks after the start that `thinned` keeps: the required ones, and at least three."""
        return min(max(len(self.required - {0}), _FEWEST_LOOKS), len(self.steps - {0}))

    def has_look(self, step: int, *, at_save: bool = False, at_epoch: bool = False) -> bool:
        """True if there is a look after so many steps, which are then saved, or end an epoch."""
        is_event = (at_save and self.at_save) or (at_epoch and self.at_epoch)
        return step in self.steps or (is_event and step > self.after)

    def looks_after(self, step: int) -> int:
        """Number of looks after a step that are known beforehand."""
        return sum(later > step for later in self.steps)

    def starting_after(self, step: int) -> Self:
        """The schedule without the looks up to a step that are neither required nor at a save."""
        if not self.is_default:
            return self
        kept = frozenset(look for look in self.steps if look > step or look in self.required | self.saves)
        # A run of a few steps would be left with too few.
        return replace(self, steps=kept if len(kept) > _FEWEST_LOOKS else self.thinned(0).steps, after=step)

    def thinned(self, looks: int) -> Self:
        """The schedule with at most so many looks after the start: the required ones, then saves, then others.

        Of saves the first and the last stay, and of the others those farthest from the looks that are kept. Events that
        are not known beforehand have no look.
        """
        looks, kept = max(looks, self.fewest), {0, *self.required}
        saves = sorted((self.saves & self.steps) - kept)
        for group in (saves[:1], saves[1:], sorted(self.steps - kept - set(saves))):
            left = list(group)

            def distances(step: int) -> list[int]:
                """Steps to the kept looks before and after a step, the smaller first; the ends are kept."""
                before, after = max(look for look in kept if look < step), min(look for look in kept if look > step)
                return sorted((step - before, after - step))

            while left and len(kept) - 1 < looks:
                chosen = max(left, key=distances)  # of equal ones the earliest
                kept.add(chosen)
                left.remove(chosen)
        return replace(self, steps=frozenset(kept), at_save=self.at_save and kept >= self.steps)

    @property
    def unwatched(self) -> list[int]:
        """Steps of the saves that have no look, rising."""
        return sorted(self.saves - self.steps)

    def without_looks(self) -> Self:
        """The schedule with no look after the start."""
        return replace(self, steps=frozenset({0}), required=frozenset({0}), at_save=False, at_epoch=False)


def event_steps(strategy: str, *, every: float | None, epoch: int | None, max_steps: int) -> frozenset[int]:
    """Steps of an event of the trainer that are known beforehand: its saves, evaluations or epochs.

    The strategy is ``steps``, with `every` steps between two events, ``epoch``, with an `epoch` of so many steps, or
    another, whose steps are not known.
    """
    period = {"steps": every, "epoch": epoch}.get(strategy)
    return frozenset(range(int(period), max_steps, int(period))) if period else frozenset()


def _is_step(value: object) -> TypeGuard[int]:
    # True is an Integral too.
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


FEWEST_ITEMS: Final = 250
"""Minimum number of items of a look, also if they exceed the budget: fewer detect only changes of many points."""

TIMED_STEPS: Final = 10
"""Steps after which the decision on the budget is corrected."""

TWICE_ITEMS: Final = 500
"""Number of items of the second measurement of the baseline."""

HALVES: Final = 1.15
"""Seconds of an item in batches of half the size, as a multiple of those in whole ones; measured on a CPU."""

_START_SECONDS: Final = 60.0
_START_SHARE: Final = 0.02
"""The baseline and its second measurement take at most so many seconds, or this share of the predicted training."""

_FORWARDS: Final = 3.0
"""Forward passes that take as long as one training step on the same tokens."""

_OFF: Final = 1.5
"""Multiple of `max_overhead` from which on a decision is corrected."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Seconds of a few items of a probe, before anything is measured.

    Attributes:
        question: Seconds of a question; see `evaluated_worth`.
        token: Seconds of a token in one process.
    """

    question: float
    token: float


def last_timed_step(step: int, *, max_steps: int) -> int:
    """Step after which a budget is decided in a training that begins or resumes at a step: the tenth, not the last.

    A training that resumes later than that times ten steps of its own.
    """
    last = max_steps - 1
    return min(TIMED_STEPS if step < TIMED_STEPS else step + TIMED_STEPS, last)


class Clock:
    """Seconds of the first steps of a training.

    Attributes:
        extra: Seconds of the latest look outside evaluating the probe: counting, the guard, logging, the drift.
    """

    def __init__(self, *, extra: float = 0.0) -> None:
        self.extra = extra
        self._steps: list[float] = []
        self._since = 0.0

    def begin_step(self) -> None:
        """Start timing a step, unless it runs already: the micro-batches of a step count once."""
        self._since = self._since or time.perf_counter()

    def end_step(self) -> None:
        """Stop timing a step; those after the first ten are not counted."""
        if len(self._steps) < TIMED_STEPS:
            self._steps.append(time.perf_counter() - self._since)

    def restart_step(self) -> None:
        """Start timing the next step now, after the looks at the end of the last one."""
        self._since = time.perf_counter()

    def add_look(self, seconds: float, *, evaluation: float) -> None:
        """Count a look of so many seconds, of which `evaluation` went into evaluating the probe."""
        self.extra = max(0.0, seconds - evaluation)

    @property
    def step(self) -> float | None:
        """Median seconds of the steps so far; None if none was timed."""
        # Not the mean: the first steps are slower than all later ones.
        return statistics.median(self._steps) if self._steps else None


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of looks and steps, and their numbers.

    Attributes:
        items: Items that a look evaluates, in questions; see `evaluated_worth`.
        look: Seconds of evaluating all of them once.
        step: Seconds of one optimizer step.
        steps: Optimizer steps of the training.
        looks: Looks after the baseline.
        extra: Seconds of a look outside evaluating the items, such as those of the drift.
        generated: Number of items whose answers may be left out because they are generated; 0 if none may.
        generation: Seconds of `look` that generate answers; 0 if none may be left out.
    """

    items: float
    look: float
    step: float
    steps: int
    looks: int
    extra: float = 0.0
    generated: int = 0
    generation: float = 0.0

    def seconds(self, *, items: float, looks: int) -> float:
        """Seconds of so many looks at so many items; of none for looks at nothing."""
        if not self.items:
            return 0.0
        return looks * (self.look * items / self.items + self.extra)

    def share(self, *, items: float, looks: int) -> float:
        """Share of looks in the time of looks and training, 0 to 1; 0 where both take none."""
        seconds = self.seconds(items=items, looks=looks)
        whole = seconds + self.step * self.steps
        return seconds / whole if whole else 0.0

    def without_generation(self) -> Cost:
        """Cost of looks that generate no answers."""
        look = max(self.look - self.generation, 0.0)
        return replace(self, items=self.items - self.generated, look=look, generated=0, generation=0.0)

    def is_over(self, overhead: float, probe: Probe, decision: Decision) -> bool:
        """True if the looks of a decision take half as much again as their share of the time, 0 to 1, or more."""
        cost = self.kept(decision)
        looks = cost.looks if decision.looks is None else min(decision.looks, cost.looks)
        seconds = cost.seconds(items=evaluated_worth(probe, decision), looks=looks)
        return seconds > _OFF * overhead * self.step * self.steps

    def kept(self, decision: Decision) -> Cost:
        """Cost of the looks that a decision leaves."""
        return self if decision.generates else self.without_generation()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Items and looks of a run, decided once.

    Attributes:
        step: Step up to which the looks of the default schedule are left out: it was corrected there, or is to be.
        items: Length of the prefix of the probe that the looks evaluate; None for the whole probe.
        generates: False if the looks leave out items whose answers are generated, other than `must_pass` ones.
        looks: Number of looks after the baseline that are kept; None for all that are planned.
        regraded: True if `must_pass` items are left out too, because this version would grade their answers by other
            rules than the baseline's. It is not stored: a resume finds it out from the baseline.
    """

    step: int = 0
    items: int | None = None
    generates: bool = True
    looks: int | None = None
    regraded: bool = False

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self | None:
        """The decision in the memory or in the description of a run; None if none was made."""
        if not stored.get("decided"):
            return None
        return cls(
            step=int(stored.get("decided_after") or 0),
            items=stored.get("items"),
            generates=bool(stored.get("writes", True)),
            looks=stored.get("kept_looks"),
        )


def stored_decision(decision: Decision | None) -> dict[str, Any]:
    """Entries of the memory and of the description of a run that hold its decision, as JSON values."""
    made = decision or Decision()
    return {
        "items": made.items,
        "writes": made.generates,
        "decided": decision is not None,
        "decided_after": made.step,
        "kept_looks": made.looks,
    }


def decide_start(
    trial: Trial,
    overhead: float,
    *,
    probe: Probe,
    step_tokens: float | None,
    steps: int,
    looks: int,
    fewest_looks: int,
    items: int | None = None,
) -> Decision:
    """Items and looks of a run, decided before its baseline from the seconds of a few items.

    The number of items is 250, 500, 1,000 and so on or the whole probe, so that it seldom depends on other work of the
    machine, and a baseline that was measured before can be used again.

    Args:
        trial: Seconds of a few items.
        overhead: Share of the training's time that the looks may take, 0 to 1.
        probe: The probe.
        step_tokens: Tokens of a training step in one process; None if they are not known.
        steps: Optimizer steps of the training.
        looks: Looks that are planned after the start.
        fewest_looks: Those of them that are kept in any case.
        items: Number of items that the user names; None for none.
    """
    training = None if step_tokens is None else predicted_seconds(trial, step_tokens, steps=steps)
    worths = [*accumulate(worth for _, worth in _worths(probe, Decision()))]
    bound = max(_START_SECONDS, _START_SHARE * (training or 0.0))
    sizes = [size for size in start_sizes(len(probe)) if trial.question * start_worth(probe, size) <= bound]
    found = items or max(sizes, default=min(FEWEST_ITEMS, len(probe)))
    if training is None:
        return Decision(items=found if found < len(probe) else None)
    cost = Cost(
        items=worths[found - 1],
        look=trial.question * worths[found - 1],
        step=training / steps,
        steps=steps,
        looks=looks,
    )
    made = decide_budget(cost, overhead, probe=probe, step=0, fewest_looks=fewest_looks, items=found, fixed=items)
    kept = items or max(size for size in start_sizes(len(probe)) if size <= (made.items or found))
    return replace(made, items=kept if kept < len(probe) else None)


def start_sizes(items: int) -> list[int]:
    """Return the numbers of items that a baseline may have: 250, 500, 1,000, ..., and all."""
    sizes = [FEWEST_ITEMS]
    while sizes[-1] < items:
        sizes.append(2 * sizes[-1])
    return [*(size for size in sizes if size < items), items]


def start_worth(probe: Probe, items: int) -> float:
    """Worth of a baseline of so many items and of its second measurement, in questions of a look."""
    twice = Decision(items=min(items, TWICE_ITEMS))
    return evaluated_worth(probe, Decision(items=items)) + HALVES * evaluated_worth(probe, twice)


def predicted_seconds(trial: Trial, step_tokens: float, *, steps: int) -> float:
    """Seconds of a training of so many steps, from the tokens of a step in one process."""
    return _FORWARDS * trial.token * step_tokens * steps


def decide_budget(
    cost: Cost,
    overhead: float,
    *,
    probe: Probe,
    step: int,
    fewest_looks: int,
    items: int | None = None,
    fixed: int | None = None,
) -> Decision:
    """Items and looks for which a share (`overhead`, 0 to 1) of the training's time suffices, decided after a step.

    In a probe with answers of both kinds, generated ones are left out before any other: they take longest by far.

    Args:
        cost: That of the planned looks at all items.
        overhead: The share.
        probe: The probe.
        step: The step.
        fewest_looks: Looks that are kept in any case.
        items: Number of items that are evaluated so far, a prefix of the probe; None for all.
        fixed: Number of items that the user names; None for none.
    """
    seconds = overhead * cost.step * cost.steps
    generates = not cost.generation or cost.seconds(items=cost.items, looks=cost.looks) <= seconds
    if not generates:
        cost = cost.without_generation()
    worths = _worths(probe, Decision(items=items, generates=generates))
    looks, kept = cost.looks, len(worths) if fixed else _affordable_items(cost, seconds, worths)
    if fixed or kept <= FEWEST_ITEMS:
        each = cost.seconds(items=math.fsum(worth for _, worth in worths[:kept]), looks=1)
        looks = min(looks, max(fewest_looks, math.floor(seconds / each) if each else looks))
    return Decision(
        step=step,
        items=worths[kept - 1][0] if kept < len(worths) else items,
        generates=generates,
        looks=looks if looks < cost.looks else None,
    )


def _affordable_items(cost: Cost, seconds: float, worths: Sequence[tuple[int, float]]) -> int:
    """Maximum number of items for which all looks take at most so many seconds; at least the minimum."""
    if not cost.looks or not cost.look:
        return len(worths)
    # What other costs leave for evaluating items.
    most = (seconds / cost.looks - cost.extra) / cost.look * cost.items
    # A sum of worths may miss a whole number by rounding.
    found = bisect_right([*accumulate(worth for _, worth in worths)], most * (1 + 1e-9))
    return min(len(worths), max(found, FEWEST_ITEMS))


def evaluated_items(probe: Probe, decision: Decision) -> int:
    """Number of items of a probe that the looks of a run evaluate."""
    return len(_worths(probe, decision))


def evaluated_worth(probe: Probe, decision: Decision) -> float:
    """Worth of the items of a probe that the looks of a run evaluate, in questions.

    The time of an item grows with its text. A question is worth 1, and a passage its length over the mean length of the
    questions, worked examples left out: these are read once for many questions.
    """
    return math.fsum(worth for _, worth in _worths(probe, decision))


def _worths(probe: Probe, decision: Decision) -> list[tuple[int, float]]:
    """Length of the prefix of the probe that ends in each evaluated item, and the item's worth in questions."""
    left_out = Subset.of_probe(probe, items=None, generates=decision.generates, regraded=decision.regraded).left_out
    questions = [len(str(item.prompt)) + sum(map(len, item.choices)) for item in probe if not item.is_passage]
    question = statistics.fmean(questions) if any(questions) else 1.0
    return [
        (length, len(item.choices[0]) / question if item.is_passage else 1.0)
        for length, item in enumerate(probe.items[: decision.items], start=1)
        if (item.task, item.id) not in left_out
    ]


def generated_items(probe: Probe) -> int:
    """Number of items of a probe whose answers may be left out; 0 unless it has answers of both kinds."""
    generated = [item for item in probe if probe.is_generated(item)]
    return 0 if len(generated) == len(probe) else sum(not item.must_pass for item in generated)
