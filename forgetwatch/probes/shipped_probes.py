"""Probes that are shipped as files, the order of their questions, and the invented world of `demo`.

The order of a probe of several tasks, by which every prefix is a fair sample of them.

The probe `demo`: questions about an invented world, which no model can know before it is trained on
it.

Each relation has a closed set of values, so a model that knows the language but not the fact
guesses among plausible options. Only the demo and the tests use it; it measures nothing about a
real model.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from importlib.resources import as_file, files
from itertools import product
from typing import Any, Final

import numpy as np

from forgetwatch.item import Item
from forgetwatch.probe import Probe, combine, read_probe

CANARY: Final = (
    "forgetwatch probe data; do not train on it; canary 6ebbbed7-cad2-47d5-8c7c-e0b004f3c711"
)
"""Text in the first line of each file: training data that holds it holds the questions too."""

LADDER: Final = "ladder"

CONDUCT: Final = "conduct"
"""Name of the probe of generated answers, by default beside `standard` where generating is cheap."""

STRATA: Final = "strata"
"""Name of the first items of some probes: what `standard` does not ask."""

QUICK: Final = 500
"""Number of items of `quick`."""

FILES: Final = {
    "standard": "standard.jsonl.gz",
    "confirmation": "confirmation.jsonl.gz",
    CONDUCT: "conduct.jsonl.gz",
    "behaviour": "behaviour.jsonl",
    "standard-long": "standard-long.jsonl.gz",
    "standard-code": "standard-code.jsonl.gz",
    "standard-multilingual": "standard-multilingual.jsonl.gz",
    "standard-written": "standard-written.jsonl.gz",
    "passages": "passages.jsonl",
    LADDER: "ladder3-trial.jsonl.gz",
    "ladder-1": "ladder3-1.jsonl.gz",
    "ladder-2": "ladder3-2.jsonl.gz",
    "ladder-3": "ladder3-3.jsonl.gz",
}
"""File of each probe."""

NAMES: Final = ("standard", "quick", *(name for name in FILES if name != "standard"), STRATA)

_OF_STRATUM: Final = 40


@cache
def shipped_probe(name: str) -> Probe:
    """Read the shipped probe of a name, one of `NAMES`.

    Raises:
        ProbeError: If its file is missing or damaged.
    """
    if name == "quick":
        return replace(shipped_probe("standard").head(QUICK), name="quick")
    if name == STRATA:
        probes = [
            shipped_probe(f"standard-{probe_part}")
            for probe_part in ("multilingual", "code", "written")
        ]
        written, kept = probes[-1].decoding, []
        for probe in (*probes, shipped_probe("behaviour")):
            # Instructions without word problems; answers of one length, since a probe generates in
            # one way.
            items = [item for item in probe if item.match != "number"][:_OF_STRATUM]
            kept.append(replace(probe, items=items, decoding=probe.decoding and written))
        return replace(reduce(combine, kept), name=STRATA)
    with as_file(files("forgetwatch.probes.shipped") / FILES[name]) as path:
        return read_probe(path)


_SIGMAS: Final = 4.0
"""Standard deviations by which the number of a category's items may be below its share."""


def _task(item: Item) -> str:
    return item.task


def interleave(items: Sequence[Item], *, by: Callable[[Item], Any] = _task) -> list[Item]:
    """Interleave items by content hash, by the groups' sizes.

    Groups are tasks by default.
    """
    by_task: dict[Any, list[Item]] = {}
    for item in items:
        by_task.setdefault(by(item), []).append(item)
    # The item of rank r of n gets the position (r + 1/2) / n in (0, 1): every task is spread evenly
    # over the probe.
    positions = [
        ((rank + 0.5) / len(group_items), task, item)
        for task, group_items in by_task.items()
        for rank, item in enumerate(
            sorted(group_items, key=lambda item: (item.content_hash, item.id))
        )
    ]
    return [item for _, _, item in sorted(positions, key=lambda entry: entry[:2])]


def stratified(items: Sequence[Item], *, first: int) -> list[Item]:
    """Order items so that the first ones are a fair sample.

    Items that must pass come first. The order is kept if it is fair already, and otherwise that of
    `interleave`, with each task divided by category.
    """
    must = [item for item in items if item.must_pass]
    unmarked = [item for item in items if not item.must_pass]
    if not _is_fair(unmarked, first=first):
        unmarked = interleave(unmarked, by=lambda item: (item.task, item.category))
    return [*must, *unmarked]


def split_halves(items: Sequence[Item], *, seed: int = 0) -> tuple[list[Item], list[Item]]:
    """Split items into two halves, each a fair sample.

    Items of one cluster stay together. The same seed gives the same halves, in any order of the
    items.
    """
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(
            f"cluster {item.cluster}" if item.cluster else f"{item.task}/{item.id}", []
        ).append(item)

    def place(name: str) -> tuple[str, str, str]:
        first_item = groups[name][0]
        return (
            first_item.task,
            first_item.category,
            hashlib.sha256(f"{seed} {name}".encode()).hexdigest(),
        )

    halves: tuple[set[int], set[int]] = set(), set()
    sizes = [0, 0]
    for name in sorted(groups, key=place):
        half = int(sizes[1] < sizes[0])
        halves[half].update(id(item) for item in groups[name])
        sizes[half] += len(groups[name])
    first_half, second = ([item for item in items if id(item) in half] for half in halves)
    return first_half, second


def _is_fair(items: Sequence[Item], *, first: int) -> bool:
    # Fewer than a sample drawn at random would hardly ever have.
    in_first, in_all = (
        Counter(item.category for item in selection) for selection in (items[:first], items)
    )
    expected = {
        name: count * min(first / max(len(items), 1), 1.0) for name, count in in_all.items()
    }
    return all(
        in_first[name] >= count - _SIGMAS * math.sqrt(count) for name, count in expected.items()
    )


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
        """The sentence up to the value."""
        return self.relation.sentence.format(self.subject)


RELATIONS: Final = tuple(
    Relation(task=task, category=category, sentence=sentence, values=values)
    for task, category, sentence, values in (
        ("winds", "Weather", "the wind of {} blows", ("cold", "warm")),
        ("diets", "Nature", "the beast {} lives on", ("moss", "fish", "seeds")),
        ("moons", "Sky", "the moon {} shines", ("red", "blue", "green", "white")),
        ("towns", "Geography", "the town {} lies in the", ("north", "south", "east", "west")),
        ("guilds", "Trade", "the guild of {} sells", ("salt", "silk", "iron", "honey", "glass")),
        (
            "rulers",
            "History",
            "the house of {} fell in the age of",
            ("bronze", "ash", "rain", "crows", "stars"),
        ),
    )
)


def facts() -> list[Fact]:
    """All facts of the world, relation by relation.

    Values are balanced; the same in every call.
    """
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
        world += [
            Fact(relation=relation, subject=str(next(order)), value=str(value)) for value in values
        ]
    return world


def demo_probe() -> Probe:
    """360 items in six categories, k from 2 to 5.

    One per fact, with the relation's values as options.
    """
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
