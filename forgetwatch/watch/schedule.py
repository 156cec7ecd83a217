"""Looks of a run: the steps that have one, and the items for which the time suffices.

    every=None     steps 0, 2 %, 5 %, 10 %, then every 10 % of the run, at every save, and at the last step
    every=200      every 200 steps;   every=[10, 50]   at those steps;   "save", "epoch"   at those events

The start and the last step always have a look. Looks that `every` names are required, and so are those at evaluations
by which the trainer chooses its best checkpoint. The other looks of the default schedule may be left out: those up to
the step of the budget's decision, and those for which the budget has no time.

    Schedule       steps and events that have a look
    Clock          measures the seconds of the first steps, and of a look outside evaluating the probe
    Cost           predicts from them the seconds of the looks after the baseline
    decide_budget  decides which items the looks evaluate, and how many looks there are, as a Decision

The budget is decided once, after ten steps, or at the first look that is required if that is earlier. A resumed run
keeps it, because looks over different items cannot be compared. The drift from the base is measured only where it takes
a small part of the time and costs no look and no generated answer, unless it is demanded. Then generated answers are
left out, then items, down to 250; then looks of the default schedule are dropped. The items are the first of the probe:
see `comparing.subset`.
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

_KEPT: Final = (0.10, 0.50)
"""Shares of the run whose nearest looks are kept, with the last, if fewer than three are required."""


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
        """True if there is a look after so many steps, which are then saved, or end an epoch."""
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

        def distances(step: int) -> list[int]:
            """Steps to the kept looks before and after a step, the smaller first; the start and the end are kept."""
            before, after = max(look for look in kept if look < step), min(look for look in kept if look > step)
            return sorted((step - before, after - step))

        while left and len(kept) - 1 < looks:
            chosen = max(left, key=distances)  # the look farthest from its neighbours; of equal ones the earliest
            kept.add(chosen)
            left.remove(chosen)
        return replace(self, steps=frozenset(kept), at_save=self.at_save and not left)

    def without_looks(self) -> Self:
        """The schedule with no look after the start."""
        return replace(self, steps=frozenset({0}), required=frozenset({0}), at_save=False, at_epoch=False)

    def _never_dropped(self) -> set[int]:
        """Steps after the start that stay in every thinned schedule: the required ones, and at least three."""
        later, required = self.steps - {0}, set(self.required - {0})
        if len(required) <= len(_KEPT):
            required |= {min(sorted(later), key=lambda step: abs(step - share * self.max_steps)) for share in _KEPT}
        return required


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

DRIFT_SHARE: Final = 0.25
"""Largest share of the looks' time that the drift may take where it is not demanded, 0 to 1."""

TIMED_STEPS: Final = 10
"""Steps after which the budget is decided."""


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
        extra: Seconds of a look outside evaluating the items.
        generated: Number of items whose answers may be left out because they are generated; 0 if none may.
        generation: Seconds of `look` that generate answers; 0 if none may be left out.
        drift: Seconds of a look's drift from the base; 0 if none is measured. One that is demanded is in `extra`.
    """

    items: float
    look: float
    step: float
    steps: int
    looks: int
    extra: float = 0.0
    generated: int = 0
    generation: float = 0.0
    drift: float = 0.0

    def seconds(self, *, items: float, looks: int) -> float:
        """Seconds of so many looks at so many items; of none for looks at nothing."""
        if not self.items:
            return 0.0
        return looks * (self.look * items / self.items + self.extra + self.drift)

    def share(self, *, items: float, looks: int) -> float:
        """Share of looks in the time of looks and training, 0 to 1; 0 where both take none."""
        seconds = self.seconds(items=items, looks=looks)
        whole = seconds + self.step * self.steps
        return seconds / whole if whole else 0.0

    def without_generation(self) -> Cost:
        """Cost of looks that generate no answers."""
        look = max(self.look - self.generation, 0.0)
        return replace(self, items=self.items - self.generated, look=look, generated=0, generation=0.0)

    def kept(self, decision: Decision) -> Cost:
        """Cost of what a decision leaves of a look."""
        cost = self if decision.drift else replace(self, drift=0.0)
        return cost if decision.generates else cost.without_generation()


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Items and looks of a run, decided once.

    Attributes:
        step: Step after which it was decided; 0 for before the first.
        items: Length of the prefix of the probe that the looks evaluate; None for the whole probe.
        generates: False if the looks leave out items whose answers are generated, other than `must_pass` ones.
        looks: Number of looks after the baseline that are kept; None for all that are planned.
        drift: False if the looks leave out the drift from the base.
        regraded: True if `must_pass` items are left out too, because this version would grade their answers by other
            rules than the baseline's. It is not stored: a resume finds it out from the baseline.
    """

    step: int = 0
    items: int | None = None
    generates: bool = True
    looks: int | None = None
    drift: bool = True
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
            drift=bool(stored.get("drift", True)),
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
        "drift": made.drift,
    }


def decide_budget(cost: Cost, overhead: float, *, probe: Probe, step: int, fewest_looks: int) -> Decision:
    """Items and looks for which a share (`overhead`, 0 to 1) of the training's time suffices, decided after a step.

    In a probe with answers of both kinds, generated ones are left out before any other: they take longest by far.
    `cost` is that of the planned looks at all items, of which `fewest_looks` are kept in any case.
    """
    seconds = overhead * cost.step * cost.steps
    drift = _has_room_for_drift(cost, seconds)
    cost = cost if drift else replace(cost, drift=0.0)
    generates = not cost.generation or cost.seconds(items=cost.items, looks=cost.looks) <= seconds
    if not generates:
        cost = cost.without_generation()
    worths = _worths(probe, Decision(generates=generates))
    items, looks = _affordable_items(cost, seconds, worths), cost.looks
    if items <= FEWEST_ITEMS:
        each = cost.seconds(items=math.fsum(worth for _, worth in worths[:items]), looks=1)
        looks = min(looks, max(fewest_looks, math.floor(seconds / each) if each else looks))
    return Decision(
        step=step,
        items=worths[items - 1][0] if items < len(worths) else None,
        generates=generates,
        looks=looks if looks < cost.looks else None,
        drift=drift,
    )


def _has_room_for_drift(cost: Cost, seconds: float) -> bool:
    """True if the drift takes a small part of the time, and leaves all looks, and generated answers if they fit."""
    without = replace(cost, drift=0.0)
    if without.generation and without.seconds(items=cost.items, looks=cost.looks) <= seconds:
        fewest, looks = cost.items, cost
    else:
        looks = cost.without_generation()
        fewest = min(FEWEST_ITEMS, looks.items)
    return cost.looks * cost.drift <= DRIFT_SHARE * seconds and (
        not cost.drift or looks.seconds(items=fewest, looks=cost.looks) <= seconds
    )


def _affordable_items(cost: Cost, seconds: float, worths: Sequence[tuple[int, float]]) -> int:
    """Maximum number of items for which all looks take at most so many seconds; at least the minimum."""
    if not cost.looks or not cost.look:
        return len(worths)
    # What other costs leave for evaluating items.
    most = (seconds / cost.looks - cost.extra - cost.drift) / cost.look * cost.items
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
