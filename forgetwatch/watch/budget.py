"""Items and looks of a run: those for which the time suffices.

    Trial     seconds of a few items, before anything is measured
    Clock     seconds of the first steps, and of a look outside evaluating the probe
    Cost      seconds of the looks and of the training, from one or the other
    Decision  the items that are evaluated, and the number of looks
    Budget    makes the decision before the baseline, and corrects it once

The training is predicted from the tokens of its examples, a step being three forward passes. After ten steps, or at the
first look if that is earlier, the decision is corrected downwards if the looks take half as much again as they may, or
if the training could not be predicted. A resumed run keeps it, because looks over different items cannot be compared.
Generated answers are left out first, then items, down to 500; then looks of the default schedule are dropped. The items
are the first of the probe: see `comparing.subset`.
"""

from __future__ import annotations

import math
import statistics
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, Final, Self

from forgetwatch.comparing import Subset
from forgetwatch.probe import Probe
from forgetwatch.scoring import on_main_process
from forgetwatch.watch.schedule import Schedule

FEWEST_ITEMS: Final = 500
"""Minimum number of items of a look, also if they exceed the budget: with fewer most verdicts are NOT CLEAR."""

TIMED_STEPS: Final = 10
"""Steps after which the decision on the budget is corrected."""

CHECKED_ITEMS: Final = 50
"""Items of the second measurement of a baseline; what flips is the noise of the measurement."""

TWICE_ITEMS: Final = 500
"""Its items if one of the first flips."""

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
    """Return the step after which a budget is decided in a training that begins or resumes at a step.

    The tenth, not the last.

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
        """Return the seconds of so many looks at so many items; of none for looks at nothing."""
        if not self.items:
            return 0.0
        return looks * (self.look * items / self.items + self.extra)

    def share(self, *, items: float, looks: int) -> float:
        """Return the share of looks in the time of looks and training, 0 to 1; 0 where both take none."""
        seconds = self.seconds(items=items, looks=looks)
        whole = seconds + self.step * self.steps
        return seconds / whole if whole else 0.0

    def without_generation(self) -> Cost:
        """Return the cost of looks that generate no answers."""
        look = max(self.look - self.generation, 0.0)
        return replace(self, items=self.items - self.generated, look=look, generated=0, generation=0.0)

    def is_over(self, overhead: float, probe: Probe, decision: Decision) -> bool:
        """Return True if the looks take at least half as much again as their share of the time, 0 to 1."""
        cost = self.kept(decision)
        looks = cost.looks if decision.looks is None else min(decision.looks, cost.looks)
        seconds = cost.seconds(items=evaluated_worth(probe, decision), looks=looks)
        return seconds > _OFF * overhead * self.step * self.steps

    def kept(self, decision: Decision) -> Cost:
        """Return the cost of the looks that a decision leaves."""
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
        """Return the decision in the memory or in the description of a run; None if none was made."""
        if not stored.get("decided"):
            return None
        return cls(
            step=int(stored.get("decided_after") or 0),
            items=stored.get("items"),
            generates=bool(stored.get("writes", True)),
            looks=stored.get("kept_looks"),
        )


def stored_decision(decision: Decision | None) -> dict[str, Any]:
    """Return the entries of the memory and of the description of a run that hold its decision, as JSON values."""
    made = decision or Decision()
    return {
        "items": made.items,
        "writes": made.generates,
        "decided": decision is not None,
        "decided_after": made.step,
        "kept_looks": made.looks,
    }


class Budget:
    """Items and looks of one training, decided before its baseline and corrected once, after its first steps.

    Attributes:
        overhead: Share of the training's time that the looks may take, 0 to 1; None for any.
        schedule: The looks that are taken.
        clock: Times the first steps.
        is_final: True once the decision is corrected, or needs no correction.
        is_predicted: True if the decision was made from a prediction of the training.
        began_at: Step at which this training began or resumed.
        corrected_at: Step after which the decision is corrected.

    Args:
        planned: All looks of the training.
        overhead: As the attribute.
        items: Number of items that the user names, at most that of the probe counts; None for none.
    """

    def __init__(self, planned: Schedule, *, overhead: float | None, items: int | None) -> None:
        self.overhead = overhead
        self.schedule = self._planned = planned
        self.clock = Clock()
        self.is_final = self.is_predicted = False
        self.began_at = self.corrected_at = 0
        self._items = items

    def needs_trial(self, probe: Probe) -> bool:
        """Return whether `decide` needs the seconds of a few items."""
        return self.overhead is not None and len(probe) > FEWEST_ITEMS

    def decide(self, probe: Probe, trial: Trial | None, step_tokens: float | None, *, after: int) -> Decision:
        """Return the items and looks of a training that begins after a step, and follow them.

        Args:
            probe: The probe.
            trial: Seconds of a few items; None if they were not timed.
            step_tokens: Tokens of a training step in one process; None if they are not known.
            after: The step.
        """
        fixed, decision, first = self._fixed(probe), Decision(), self.first_look(after)
        schedule, overhead = self._planned.starting_after(first), self.overhead
        if overhead is not None and trial is not None:
            # Clocks differ between processes, and every process must come to the same items and looks.
            decision = on_main_process(
                lambda: decide_start(
                    trial,
                    overhead,
                    probe=probe,
                    step_tokens=step_tokens,
                    steps=schedule.max_steps,
                    looks=schedule.looks_after(0),
                    fewest_looks=schedule.fewest,
                    items=fixed,
                )
            )
            self.is_predicted = step_tokens is not None
        elif fixed is not None and fixed < len(probe):
            decision = Decision(items=fixed)
        decision = replace(decision, step=first)
        self.follow(decision)
        return decision

    def first_look(self, after: int) -> int:
        """Return the step up to which looks wait for the correction: a look that stays in any case, or a timed step."""
        timed = last_timed_step(after, max_steps=self._planned.max_steps)
        return 0 if self.overhead is None else min(self._planned.first_kept(after=after), timed)

    def set_out(self, step: int) -> None:
        """Begin to time the training at a step."""
        self.began_at, self.corrected_at = step, last_timed_step(step, max_steps=self._planned.max_steps)
        self.is_final |= self.overhead is None

    def planned_from(self, step: int) -> int:
        """Return the number of looks from a step on that the training has if none is left out."""
        return self._planned.starting_after(step).looks_after(max(step - 1, 0))

    def correct(self, cost: Cost | None, decision: Decision, *, probe: Probe, step: int) -> Decision:
        """Return the decision, corrected downwards if it was far off or the training was not predicted.

        Args:
            cost: Cost of `planned_from` the step; None if no step was timed.
            decision: The decision so far.
            probe: The probe.
            step: The step.
        """
        overhead = self.overhead
        if cost is None or overhead is None:
            return decision
        schedule = self._planned.starting_after(step)
        planned = self.schedule.looks_after(max(step - 1, 0))

        def corrected() -> Decision:
            if self.is_predicted and not cost.is_over(overhead, probe, decision):
                return decision
            made = decide_budget(
                cost,
                overhead,
                probe=probe,
                step=step,
                fewest_looks=schedule.fewest,
                items=decision.items,
                fixed=self._fixed(probe),
            )
            left = min(made.looks or cost.looks, planned)
            if made.items == decision.items and made.generates and left == planned:
                return decision
            return replace(made, looks=left if left < cost.looks else None)  # never more than were planned

        return on_main_process(corrected)

    def follow(self, decision: Decision, *, evaluates: bool = True) -> None:
        """Take the looks of a decision, or none after the start if no item is evaluated."""
        schedule = self._planned.starting_after(decision.step)
        schedule = schedule if decision.looks is None else schedule.thinned(decision.looks)
        self.schedule = schedule if evaluates else schedule.without_looks()

    def _fixed(self, probe: Probe) -> int | None:
        return None if self._items is None else min(self._items, len(probe))


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
    """Return the items and looks of a run, decided before its baseline from the seconds of a few items.

    The number of items is 500, 1,000 and so on or the whole probe, so that it seldom depends on other work of the
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
    """Return the numbers of items that a baseline may have: 500, 1,000, 2,000, ..., and all."""
    sizes = [FEWEST_ITEMS]
    while sizes[-1] < items:
        sizes.append(2 * sizes[-1])
    return [*(size for size in sizes if size < items), items]


def start_worth(probe: Probe, items: int) -> float:
    """Return the worth of a baseline of so many items and of its second measurement, in questions of a look."""
    twice = Decision(items=min(items, CHECKED_ITEMS))
    return evaluated_worth(probe, Decision(items=items)) + HALVES * evaluated_worth(probe, twice)


def predicted_seconds(trial: Trial, step_tokens: float, *, steps: int) -> float:
    """Return the seconds of a training of so many steps, from the tokens of a step in one process."""
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
    """Decide items and looks after a step, for a share (`overhead`, 0 to 1) of the training's time.

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
    """Return the maximum number of items for which all looks take at most so many seconds; at least the minimum."""
    if not cost.looks or not cost.look:
        return len(worths)
    # What other costs leave for evaluating items.
    most = (seconds / cost.looks - cost.extra) / cost.look * cost.items
    # A sum of worths may miss a whole number by rounding.
    found = bisect_right([*accumulate(worth for _, worth in worths)], most * (1 + 1e-9))
    return min(len(worths), max(found, FEWEST_ITEMS))


def evaluated_items(probe: Probe, decision: Decision) -> int:
    """Return the number of items of a probe that the looks of a run evaluate."""
    return len(_worths(probe, decision))


def evaluated_worth(probe: Probe, decision: Decision) -> float:
    """Return the worth of the items of a probe that the looks of a run evaluate, in questions.

    The time of an item grows with its text. A question is worth 1, and a passage its length over the mean length of the
    questions, worked examples left out: these are read once for many questions.
    """
    return math.fsum(worth for _, worth in _worths(probe, decision))


def _worths(probe: Probe, decision: Decision) -> list[tuple[int, float]]:
    """Return the length of the prefix that ends in each evaluated item, and each item's worth in questions."""
    left_out = Subset.from_probe(probe, items=None, generates=decision.generates, regraded=decision.regraded).left_out
    questions = [len(str(item.prompt)) + sum(map(len, item.choices)) for item in probe if not item.is_passage]
    question = statistics.fmean(questions) if any(questions) else 1.0
    return [
        (length, len(item.choices[0]) / question if item.is_passage else 1.0)
        for length, item in enumerate(probe.items[: decision.items], start=1)
        if (item.task, item.id) not in left_out
    ]


def generated_items(probe: Probe) -> int:
    """Return the number of items of a probe whose answers may be left out; 0 unless it has answers of both kinds."""
    generated = [item for item in probe if probe.is_generated(item)]
    return 0 if len(generated) == len(probe) else sum(not item.must_pass for item in generated)
