"""Groups of items (all, kinds, categories, tasks), each with what the measures show for it.

A `Group` is a row of every table and of the JSON document. This module decides which rows each
measure counts.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeVar, cast, overload

import numpy as np

from forgetwatch.measures.base import GroupMeasure, Rows
from forgetwatch.measures.chance import CHANCE, Chance
from forgetwatch.measures.estimate import margin_rule
from forgetwatch.measures.flip_counts import FLIPS, VANISHED, Flips, Vanished
from forgetwatch.measures.option_columns import Labels
from forgetwatch.measures.quantities import MEASURE_OF, MEASURES, document
from forgetwatch.measures.scores import PASSAGES

Level = Literal["all", "kind", "wording", "category", "task"]
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Group(Flips):
    """The four cells of one group of items, and the results of all other measures.

    ``group[KNOWN]`` is the result of a measure, and ``group["retention"]`` a number or an interval
    by its name in the JSON document.

    Attributes:
        level: ``all``, ``kind``, ``item``, ``category`` or ``task``; there are kinds if some
            answers were scored by log-likelihood (``scored``) and others generated (``written``),
            and wordings if questions have several.
        name: The category's or task's name; ``all`` for the whole.
        found: Results of the measures, by their keys.
    """

    level: Level
    name: str
    found: Mapping[str, object] = field(repr=False)

    @overload
    def __getitem__(self, key: GroupMeasure[R]) -> R | None: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: GroupMeasure[Any] | str) -> Any:
        """Result of a measure, a quantity, or an interval.

        Raises:
            KeyError: If no measure has a quantity of this name.
        """
        if isinstance(key, str):
            measure, quantity = MEASURE_OF[key]
            result = self[measure]
            return None if result is None else quantity.read(result)
        return self if key.key == FLIPS.key else self.found.get(key.key)

    def having(self, measure: GroupMeasure[R], result: R | None) -> Self:
        """Group with another result of a measure."""
        return replace(self, found={**self.found, measure.key: result})

    @property
    def outcomes(self) -> Vanished:
        """Items without an outcome, or scored on one side alone."""
        return cast(Vanished, self[VANISHED])

    @property
    def vanished_share(self) -> float:
        """Share of items scored on one side alone, 0 to 1."""
        vanished = self.outcomes.vanished
        return vanished / (self.n + vanished) if vanished else 0.0

    @property
    def passages(self) -> float | None:
        """Number of passages.

        Returns:
            The number, or None without any.
        """
        texts = self[PASSAGES]
        return None if texts is None else texts.passages

    @property
    def chance(self) -> Chance:
        """Corrections for guessing."""
        return cast(Chance, self[CHANCE])


def group_values(group: Group) -> dict[str, Any]:
    """Nested mapping of all numbers of a group, in JSON types.

    None where undefined.
    """
    return {"level": group.level, "name": group.name, **document(group.__getitem__)}


def count_groups(rows: Rows) -> Iterator[Group]:
    """Yield the groups of every level.

    All, kinds, wordings, categories, tasks, in the order of first rows.

    Groups without an answer that was scored on both sides come after the others of their level: of
    unscored items, then of passages, which are of no kind.
    """
    rows = replace(rows, margin_rule=margin_rule(rows.pairs))
    yield from _level("all", [("all", rows)])
    paired, unscored, passages = rows.pairs, rows.unscored, rows.passages
    levels: list[tuple[Level, Labels, Labels, Labels | None]] = [
        ("category", paired.category, unscored.category, passages.category if passages else None),
        ("task", paired.task, unscored.task, passages.task if passages else None),
    ]
    if len(np.unique(paired.wording.code)) > 1:
        levels.insert(0, ("wording", paired.wording, unscored.wording, None))
    if len(np.unique(paired.kind.code)) > 1:
        levels.insert(
            0, ("kind", paired.kind, unscored.kind, None)
        )  # one kind alone would repeat the whole
    for level, *labels in levels:
        yield from _level(level, _split(rows, *labels))


def _split(rows: Rows, *labels: Labels | None) -> list[tuple[str, Rows]]:
    # The rows of the pairs, of the unscored, and of the passages.
    passages, nothing = rows.passages, np.zeros(0, np.int64)
    scored, missing, texts = (dict(of.split()) if of else {} for of in (*labels, None)[:3])
    return [
        (
            name,
            replace(
                rows,
                pairs=rows.pairs.take(scored.get(name, nothing)),
                unscored=rows.unscored.take(missing.get(name, nothing)),
                passages=passages.take(texts[name]) if passages and name in texts else None,
                passages_not_finite=0,
            ),
        )
        for name in dict.fromkeys((*scored, *missing, *texts))
    ]


def _level(level: Level, groups: Sequence[tuple[str, Rows]]) -> Iterator[Group]:
    for name, rows in groups:
        results = {measure.key: measure.of(rows) for measure in MEASURES}
        flips = cast(Flips, results.pop(FLIPS.key))
        yield Group(**vars(flips), level=level, name=name, found=results)
