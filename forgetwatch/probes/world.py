"""The probe `demo`: questions about an invented world, which no model can know before it is trained on it.

Each relation has a closed set of values, so a model that knows the language but not the fact guesses among plausible
options. Only the demo and the tests use it; it measures nothing about a real model.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from forgetwatch.item import Item
from forgetwatch.probe import Probe

_SEED: Final = 20260314
_FACTS: Final = 60
"""Number of facts of each relation."""


@dataclass(frozen=True, kw_only=True)
class Relation:
    """One kind of fact: a sentence with a subject, and the values that can end it."""

    task: str
    category: str
    sentence: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One fact: `text` up to the value, and the value that is true."""

    relation: Relation
    subject: str
    value: str

    @property
    def text(self) -> str:
        """The sentence up to its value."""
        return self.relation.sentence.format(self.subject)


RELATIONS: Final = tuple(
    Relation(task=task, category=category, sentence=sentence, values=values)
    for task, category, sentence, values in (
        ("winds", "Weather", "the wind of {} blows", ("cold", "warm")),
        ("diets", "Nature", "the beast {} lives on", ("moss", "fish", "seeds")),
        ("moons", "Sky", "the moon {} shines", ("red", "blue", "green", "white")),
        ("towns", "Geography", "the town {} lies in the", ("north", "south", "east", "west")),
        ("guilds", "Trade", "the guild of {} sells", ("salt", "silk", "iron", "honey", "glass")),
        ("rulers", "History", "the house of {} fell in the age of", ("bronze", "ash", "rain", "crows", "stars")),
    )
)


def facts() -> list[Fact]:
    """Return all facts of the world, relation by relation, with balanced values; the same in every call."""
    rng = np.random.default_rng(_SEED)
    heads, tails = (
        ("ba", "del", "fi", "gor", "hu", "ka", "lo", "mir", "ne", "ost"),
        ("da", "lin", "mak", "nor", "ru", "sha", "tel", "vi"),
    )
    names = ["".join(parts) for parts in product(heads, ("ra", "so", "ti", "wen", "yu"), tails)]
    order = iter(rng.permutation(names))
    world = []
    for relation in RELATIONS:
        # Repeated in turn before the permutation, so that every value is equally often right.
        values = rng.permutation(np.resize(relation.values, _FACTS))
        world += [Fact(relation=relation, subject=str(next(order)), value=str(value)) for value in values]
    return world


def demo_probe() -> Probe:
    """Return 360 items in six categories, k from 2 to 5: one per fact, its relation's values as options."""
    items = [
        Item(
            id=f"{fact.relation.task}-{fact.subject}",
            task=fact.relation.task,
            category=fact.relation.category,
            prompt=fact.text,
            choices=tuple(f" {value}" for value in fact.relation.values),
            answer=fact.relation.values.index(fact.value),
        )
        for fact in facts()
    ]
    return Probe(items, name="demo", norm="sum")
