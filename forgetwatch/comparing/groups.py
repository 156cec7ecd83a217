"""Groups of items (all, kinds, categories, tasks), each with what the measures show for it.

A `Group` is a row of every table and of the JSON document. This module decides which rows each measure counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Self, TypeVar, cast, overload

import numpy as np

from forgetwatch.measures import (
    CHANCE,
    FLIPS,
    MEASURE_OF,
    MEASURES,
    NOISE_FLOOR,
    SOFT,
    VANISHED,
    Chance,
    Flips,
    GroupMeasure,
    Rows,
    document,
    margin_rule,
)
from forgetwatch.metrics import Interval, NoiseFloor, Soft
from forgetwatch.pairing import Labels

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
    def __get__(self, group: Group, owner: type) -> V: ...
    def __get__(self, group: Group | None, owner: type) -> Self | V:
        return self if group is None else cast(V, self.value(group))

    def value(self, group: Group) -> object:
        measure, one = MEASURE_OF[self.name]
        found = group[measure]
        return None if found is None else one.read(found)


class _Outcome(_Read[V]):
    """An attribute of `Vanished`, which every group has: a count of 0 also where there is no answer."""

    def value(self, group: Group) -> object:
        return getattr(group[VANISHED], self.name)


_Number = _Read[float | None]
_Interval = _Read[Interval | None]


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

    known = _Number()
    known_lost = _Number()
    newly_known = _Number()
    known_by_luck = _Number()
    known_lost_by_luck = _Number()
    known_net = _Number()
    known_lost_net = _Number()
    known_lost_net_share = _Number()
    known_lost_net_share_interval = _Interval()
    newly_known_net = _Number()
    newly_known_net_interval = _Interval()
    margin_change = _Number()
    margin_change_interval = _Interval()
    net_change_estimate = _Number()
    net_change_estimate_interval = _Interval()
    detectable_change_estimate = _Number()
    known_lost_net_interval = _Interval()
    known_lost_interval = _Interval()
    log_score_before = _Number()
    log_score_after = _Number()
    log_score_change = _Number()
    log_score_change_interval = _Interval()
    log_score_change_clipped = _Number()
    log_score_change_clipped_interval = _Interval()
    log_score_change_calibrated = _Number()
    log_score_change_calibrated_interval = _Interval()
    log_score_p_value = _Number()
    log_score_q_value = _Number()
    temperature_before = _Number()
    temperature_after = _Number()
    forgotten_log_score_change = _Number()
    log_mass_change = _Number()
    log_mass_change_interval = _Interval()
    log_conditional_change = _Number()
    log_conditional_change_interval = _Interval()
    forgotten_log_mass_change = _Number()
    forgotten_log_mass_change_interval = _Interval()
    forgotten_log_conditional_change = _Number()
    forgotten_log_conditional_change_interval = _Interval()
    mass_kl = _Number()
    conditional_kl = _Number()
    weighted_conditional_kl = _Number()
    forgotten_at_constant_mass = _Number()
    format_lost = _Number()
    knowledge_lost = _Number()
    null_n = _Number()
    null_lost = _Number()
    null_gained = _Number()
    known_vanished = _Number()
    passages = _Number()
    bits_per_byte_before = _Number()
    bits_per_byte_after = _Number()
    bits_per_byte_change = _Number()
    bits_per_byte_change_interval = _Interval()
    bits_per_byte_p_value = _Number()
    bits_per_byte_q_value = _Number()
    net_change_interval_worst = _Outcome[Interval]()
    unscored_before = _Outcome[int]()
    unscored_after = _Outcome[int]()
    newly_unscored = _Outcome[int]()
    vanished = _Outcome[int]()

    def __getitem__(self, measure: GroupMeasure[R]) -> R | None:
        """Return the result of a measure; None where it is undefined."""
        return cast(R | None, self if measure.key == FLIPS.key else self.found.get(measure.key))

    def having(self, measure: GroupMeasure[R], result: R | None) -> Self:
        """Return the group with another result of one measure."""
        return replace(self, found={**self.found, measure.key: result})

    @property
    def vanished_share(self) -> float:
        """Share of the items that were scored on one side alone, 0 to 1; 0 for no items."""
        return self.vanished / (self.n + self.vanished) if self.vanished else 0.0

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


def group_values(group: Group) -> dict[str, Any]:
    """Return the nested mapping of all numbers of one group, in JSON types, with its level and name.

    None where undefined.
    """
    return {"level": group.level, "name": group.name, **document(group.__getitem__)}


def count_groups(whole: Rows) -> Iterator[Group]:
    """Yield the groups of every level: all, kinds, categories, tasks, each in the order of their first rows.

    Groups without an answer that was scored on both sides come after the others of their level: of unscored items, then
    of passages, which are of no kind.
    """
    whole = replace(whole, margin_rule=margin_rule(whole.pairs))
    yield from _level("all", [("all", whole)])
    paired, unscored, passages = whole.pairs, whole.unscored, whole.passages
    nothing = np.zeros(0, np.int64)
    levels: list[tuple[Level, Labels, Labels, Labels | None]] = [
        ("category", paired.category, unscored.category, passages.category if passages else None),
        ("task", paired.task, unscored.task, passages.task if passages else None),
    ]
    if len(np.unique(paired.kind.code)) > 1:
        levels.insert(0, ("kind", paired.kind, unscored.kind, None))  # one kind alone would repeat the whole
    for level, *labels in levels:
        scored, missing, texts = (dict(of.split()) if of else {} for of in labels)
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
