"""The pairs of a study, one after the other: both sides are read or scored, compared, and dropped.

Only counts stay in memory. A pair that cannot be compared is a result with a sentence, and the next one follows.

Beside the counts stands what averages show of them:

    task A   right before 60 of 100   after 62   lost 9, gained 11      an average shows no forgetting
    task B   right before 40 of 100   after 37   lost 8, gained  5      an average shows 3 of the 8

Conventional forgetting of a task is max(0, accuracy before - accuracy after), averaged over tasks. Questions lost and
gained cancel in it, within each task. It is never above the mean over tasks of the share 1->0: that share less the
share 0->1 is the accuracy lost. Neither is corrected for guessing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from forgetwatch.comparing import CategoryMeans, Comparison, compare
from forgetwatch.errors import ForgetwatchError, SnapshotError
from forgetwatch.probes import Categories
from forgetwatch.study.plan import Pair, Plan
from forgetwatch.study.sources import Sources

_KEYS: Final = {
    "pass --allow-prompt-mismatch to compare": "set allow_prompt_mismatch: true",
    "with --on-mismatch intersect": "with on_mismatch: intersect",
    "--metric": "metric",
    "--match": "match",
}
"""Keys of a study that do what options of other commands do."""


@dataclass(frozen=True, kw_only=True)
class Averages:
    """Forgetting of one pair that averages show, and that they hide.

    Attributes:
        tasks: Number of tasks; items without a task are one.
        conventional: Mean over tasks of max(0, accuracy lost), 0 to 1; nan without an item.
        forgetting: Mean over tasks of the share 1->0, 0 to 1; nan likewise.
        forgotten: Questions 1->0, over all tasks.
        in_tasks_that_fell: Those of them in tasks whose accuracy fell.
    """

    tasks: int
    conventional: float
    forgetting: float
    forgotten: float
    in_tasks_that_fell: float

    @classmethod
    def of(cls, comparison: Comparison) -> Averages:
        """The averages of a comparison."""
        tasks = _tasks(comparison)
        lost = np.array([(forgotten - gained) / n for n, forgotten, gained in tasks])
        return cls(
            tasks=len(tasks),
            conventional=float(np.maximum(lost, 0).mean()) if tasks else math.nan,
            forgetting=float(np.mean([forgotten / n for n, forgotten, _ in tasks])) if tasks else math.nan,
            forgotten=comparison.all.forgotten,
            in_tasks_that_fell=sum(forgotten for (_, forgotten, _), fell in zip(tasks, lost > 0, strict=True) if fell),
        )


def _tasks(comparison: Comparison) -> list[tuple[float, float, float]]:
    """Items, forgotten and gained of each task; items without a task are one of their own."""
    whole = comparison.all
    tasks = [(group.n, group.forgotten, group.gained) for group in comparison.by("task").values() if group.n]
    # Rounded, because means over samples carry errors, and no loss may come from one.
    n, forgotten, gained = (
        round(of_all - sum(of_tasks), 9)
        for of_all, *of_tasks in zip((whole.n, whole.forgotten, whole.gained), *tasks, strict=True)
    )
    return [*tasks, (n, forgotten, gained)] if n else tasks


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A pair that was compared.

    Attributes:
        pair: The pair.
        comparison: Its counts.
        means: The paper's means, by the rule of the study.
        averages: What averages show of it.
    """

    pair: Pair
    comparison: Comparison
    means: CategoryMeans
    averages: Averages


@dataclass(frozen=True, kw_only=True)
class Failed:
    """A pair that could not be compared, and the sentence that says why."""

    pair: Pair
    reason: str


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study and the results of its pairs.

    Attributes:
        plan: The study as its file describes it.
        results: One for each pair, in the order of the plan.
    """

    plan: Plan
    results: tuple[Compared | Failed, ...]

    @property
    def compared(self) -> tuple[Compared, ...]:
        """The pairs that were compared."""
        return tuple(one for one in self.results if isinstance(one, Compared))

    @property
    def failed(self) -> tuple[Failed, ...]:
        """The pairs that could not be compared."""
        return tuple(one for one in self.results if isinstance(one, Failed))

    def of_stage(self, stage: str) -> tuple[Compared, ...]:
        """The pairs of one stage that were compared."""
        return tuple(one for one in self.compared if one.pair.stage == stage)


def run_study(plan: Plan, sources: Sources, *, on_pair: Callable[[int, Pair], None]) -> Study:
    """Compare all pairs of a study.

    Args:
        plan: The study.
        sources: Reads and scores the sides.
        on_pair: Called before each pair with its number, from 1.

    Raises:
        ForgetwatchError: If a probe or the map of categories cannot be loaded.
    """
    categories = None if plan.categories is None else Categories.read(plan.categories)
    return Study(plan=plan, results=tuple(_results(plan, sources, categories, on_pair)))


def _results(
    plan: Plan, sources: Sources, categories: Categories | None, on_pair: Callable[[int, Pair], None]
) -> Iterator[Compared | Failed]:
    for number, pair in enumerate(plan.pairs, 1):
        on_pair(number, pair)
        if number == 1:  # after the first line: a probe of the hub takes a while
            sources.load_probes(source for one in plan.pairs for source in (*one.before, *one.after))
        try:
            comparison = _compare(plan, pair, sources, categories)
        except (ForgetwatchError, OSError) as error:
            yield Failed(pair=pair, reason=f"{pair.name}: {_in_keys(str(error))}")
            continue
        means = comparison.paper_compat or comparison.macro
        yield Compared(pair=pair, comparison=comparison, means=means, averages=Averages.of(comparison))


def _in_keys(message: str) -> str:
    """Message that names the keys of a study where it names options of `compare`."""
    for option, key in _KEYS.items():
        message = message.replace(option, key)
    return message


def _compare(plan: Plan, pair: Pair, sources: Sources, categories: Categories | None) -> Comparison:
    before, after = sources.sides(
        pair.before, pair.after, on_mismatch=pair.on_mismatch, ignore_examples=pair.allow_prompt_mismatch
    )
    comparison = compare(
        before=before,
        after=after,
        on_mismatch=pair.on_mismatch,
        allow_prompt_mismatch=pair.allow_prompt_mismatch,
        categories=categories,
        chance=plan.chance,
    )
    if not comparison.items.compared:
        raise SnapshotError(f"none of the {comparison.items.unscored:,} items was scored on both sides")
    return comparison
