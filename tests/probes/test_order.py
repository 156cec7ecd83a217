"""The first items of a probe are a fair sample of it, in whatever order it was given."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from forgetwatch import Item
from forgetwatch.probes import load_probe, stratified


def items(*categories: tuple[str, int], must: frozenset[str] = frozenset()) -> list[Item]:
    made = []
    for name, number in categories:
        for n in range(number):
            own = f"{name}-{n}"
            made.append(
                Item(id=own, task="t", category=name, prompt=own, choices=("a", "b"), answer=0, must_pass=own in must)
            )
    return made


@pytest.mark.parametrize("seed", range(5))
def test_a_probe_in_the_order_of_its_categories_is_mixed_and_one_in_any_other_order_stays(seed: int) -> None:
    sorted_ones = items(("a", 600), ("b", 300), ("c", 100))
    mixed = stratified(sorted_ones, first=250)
    assert sorted(item.id for item in mixed) == sorted(item.id for item in sorted_ones)
    found = Counter(item.category for item in mixed[:250])
    assert all(abs(found[name] - share) <= 2 for name, share in (("a", 150), ("b", 75), ("c", 25)))
    shuffled = random.Random(seed).sample(sorted_ones, len(sorted_ones))
    assert stratified(shuffled, first=250) == shuffled
    assert stratified(mixed, first=250) == mixed


def test_items_that_must_pass_come_first_and_a_short_probe_keeps_its_order() -> None:
    made = items(("a", 400), ("b", 400), must=frozenset({"b-399", "a-3"}))
    assert [item.id for item in stratified(made, first=250)[:2]] == ["a-3", "b-399"]
    short = items(("a", 20), ("b", 20))
    assert stratified(short, first=250) == short


def test_the_shipped_probes_keep_their_order() -> None:
    for name in ("standard", "quick", "confirmation"):
        probe = load_probe(name)
        assert stratified(probe.items, first=250) == list(probe.items)
