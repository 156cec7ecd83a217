"""Groups of items (all, kinds, categories, tasks), each with what the measures show for it.

A `Group` is a row of every table and of the JSON document. This module decides which rows each measure counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Self, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from forgetwatch.measures import (
    CHANCE,
    FLIPS,
    LOG_SCORE,
    MEASURE_OF,
    MEASURES,
    NOISE_FLOOR,
    SOFT,
    VANISHED,
    Chance,
    Flips,
    GroupMeasure,
    Rows,
    Vanished,
    document,
)
from forgetwatch.metrics import DELTA, Interval, NoiseFloor, Soft
from forgetwatch.pairing import AlignedPairs, AlignedPassages, Labels

Ints = NDArray[np.int64]
Level = Literal["all", "kind", "category", "task"]
R = TypeVar("R")
V = TypeVar("V")


class _Read(Generic[V]):
    """A number or an interval of a measure, as an attribute of the same name; None where it is undefined."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, group: None, owner: type) -> Self: ...
    @overload
    def __get__(self, group: Group, owner: type) -> V | None: ...
    def __get__(self, group: Group | None, owner: type) -> Self | V | None:
        if group is None:
            return self
        measure, one = MEASURE_OF[self.name]
        found = group[measure]
        return None if found is None else cast(V | None, one.read(found))


@dataclass(frozen=True, kw_only=True)
class Group(Flips):
    """The four cells of one group of items, and the results of all other measures.

    ``group[KNOWN]`` is the result of a measure. The numbers of the documented measures are attributes, too, under their
    names in the JSON document; they are None where they are undefined.

    Attributes:
        level: ``all``, ``kind``, ``category`` or ``task``; there are kinds if some answers were scored by
            log-likelihood (``scored``) and others generated (``written``).
        name: The category's or task's name; ``all`` for the whole.
        found: Results of the measures, by their keys.
    """

    level: Level
    name: str
    found: Mapping[str, object] = field(repr=False)

    known = _Read[float]()
    known_lost = _Read[float]()
    newly_known = _Read[float]()
    known_by_luck = _Read[float]()
    known_lost_by_luck = _Read[float]()
    known_net = _Read[float]()
    known_lost_net = _Read[float]()
    known_lost_net_share = _Read[float]()
    known_lost_net_interval = _Read[Interval]()
    known_lost_interval = _Read[Interval]()
    log_score_before = _Read[float]()
    log_score_after = _Read[float]()
    log_score_change = _Read[float]()
    log_score_change_interval = _Read[Interval]()
    log_score_change_clipped = _Read[float]()
    log_score_change_clipped_interval = _Read[Interval]()
    log_score_change_calibrated = _Read[float]()
    log_score_change_calibrated_interval = _Read[Interval]()
    log_score_p_value = _Read[float]()
    log_score_q_value = _Read[float]()
    temperature_before = _Read[float]()
    temperature_after = _Read[float]()
    forgotten_log_score_change = _Read[float]()
    log_mass_change = _Read[float]()
    log_mass_change_interval = _Read[Interval]()
    log_conditional_change = _Read[float]()
    log_conditional_change_interval = _Read[Interval]()
    forgotten_log_mass_change = _Read[float]()
    forgotten_log_mass_change_interval = _Read[Interval]()
    forgotten_log_conditional_change = _Read[float]()
    forgotten_log_conditional_change_interval = _Read[Interval]()
    mass_kl = _Read[float]()
    conditional_kl = _Read[float]()
    weighted_conditional_kl = _Read[float]()
    forgotten_at_constant_mass = _Read[float]()
    format_lost = _Read[float]()
    knowledge_lost = _Read[float]()
    null_n = _Read[float]()
    null_lost = _Read[float]()
    null_gained = _Read[float]()
    known_vanished = _Read[float]()
    passages = _Read[float]()
    bits_per_byte_before = _Read[float]()
    bits_per_byte_after = _Read[float]()
    bits_per_byte_change = _Read[float]()
    bits_per_byte_change_interval = _Read[Interval]()
    bits_per_byte_p_value = _Read[float]()
    bits_per_byte_q_value = _Read[float]()

    def __getitem__(self, measure: GroupMeasure[R]) -> R | None:
        """Result of a measure; None where it is undefined."""
        return cast(R | None, self if measure.key == FLIPS.key else self.found.get(measure.key))

    def having(self, measure: GroupMeasure[R], result: R | None) -> Self:
        """The group with another result of one measure."""
        return replace(self, found={**self.found, measure.key: result})

    @property
    def outcomes(self) -> Vanished:
        """Unscored items, and those that were scored on one side alone."""
        return cast(Vanished, self[VANISHED])

    @property
    def net_change_interval_worst(self) -> Interval:
        """Interval of the net change in the worst case of the outcomes that vanished."""
        return self.outcomes.net_change_interval_worst

    @property
    def unscored_before(self) -> int:
        """Items without an outcome before."""
        return self.outcomes.unscored_before

    @property
    def unscored_after(self) -> int:
        """Items without an outcome after."""
        return self.outcomes.unscored_after

    @property
    def newly_unscored(self) -> int:
        """Items that were scored before and are unscored after."""
        return self.outcomes.newly_unscored

    @property
    def vanished(self) -> int:
        """Items that were scored on one side alone."""
        return self.outcomes.vanished

    @property
    def chance(self) -> Chance:
        """Corrections for guessing."""
        return cast(Chance, self[CHANCE])

    @property
    def soft(self) -> Soft | None:
        """Loss and gain of gold's probability share; None without option probabilities."""
        return self[SOFT]

    @property
    def noise_floor(self) -> NoiseFloor | None:
        """Flips that sampled decoding makes by itself; None for one sample an item."""
        return self[NOISE_FLOOR]

    def fading_p_value(self, delta: float = DELTA) -> float:
        """One-sided p-value of "the calibrated log score did not fall by more than delta"; nan where it is undefined.

        Args:
            delta: The tolerated fall, nats an item.
        """
        scores = self[LOG_SCORE]
        return math.nan if scores is None or scores.calibrated is None else scores.calibrated.fading_p_value(delta)


def group_values(group: Group) -> dict[str, Any]:
    """Nested mapping of all numbers of one group, in JSON types, with its level and name; None where undefined."""
    return {"level": group.level, "name": group.name, **document(group.__getitem__)}


def count_groups(
    paired: AlignedPairs,
    unscored: AlignedPairs,
    passages: AlignedPassages | None = None,
    *,
    rng: np.random.Generator | None = None,
    replications: int = 2000,
) -> Iterator[Group]:
    """Yield the groups of every level: all, kinds, categories, tasks, each in the order of their first rows.

    Groups without an answer that was scored on both sides come after the others of their level: of unscored items, then
    of passages, which are of no kind.

    Args:
        paired: The pairs of answers that were scored on both sides.
        unscored: The pairs of the items that were not.
        passages: The passages; None for none.
        rng: Generator of bootstrap draws; None leaves out the intervals that need them.
        replications: Draws of each interval.
    """
    whole = Rows(pairs=paired, unscored=unscored, passages=passages, rng=rng, replications=replications)
    yield from _level("all", [("all", whole)])
    nothing, no_rows = np.zeros(0, np.int64), dict[str, Ints]()
    levels: list[tuple[Level, Labels, Labels, dict[str, Ints]]] = [
        ("category", paired.category, unscored.category, dict(passages.category.split()) if passages else no_rows),
        ("task", paired.task, unscored.task, dict(passages.task.split()) if passages else no_rows),
    ]
    if len(np.unique(paired.kind.code)) > 1:
        levels.insert(0, ("kind", paired.kind, unscored.kind, no_rows))  # one kind alone would repeat the whole
    for level, labels, of_unscored, texts in levels:
        scored, missing = dict(labels.split()), dict(of_unscored.split())
        rows = [
            (
                name,
                replace(
                    whole,
                    pairs=paired.take(scored.get(name, nothing)),
                    unscored=unscored.take(missing.get(name, nothing)),
                    passages=passages.take(texts[name]) if passages and name in texts else None,
                ),
            )
            for name in dict.fromkeys((*scored, *missing, *texts))
        ]
        yield from _level(level, rows)


def _level(level: Level, groups: Sequence[tuple[str, Rows]]) -> Iterator[Group]:
    """Yield the groups of one level; q-values are over those that have a test."""
    results = {measure.key: measure.corrected([measure.of(rows) for _, rows in groups]) for measure in MEASURES}
    flips = cast(Sequence[Flips], results.pop(FLIPS.key))
    for at, (name, _) in enumerate(groups):
        found = {key: of_groups[at] for key, of_groups in results.items()}
        yield Group(**vars(flips[at]), level=level, name=name, found=found)
