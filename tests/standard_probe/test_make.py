"""Pools are drawn with a seed for each category, tested with invented questions."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from pools import pool
from standard_probe.assemble import NAMES
from standard_probe.make import GENERATORS, pools
from standard_probe.question import Category, Question


def invented(category: Category) -> Callable[[random.Random], list[Question]]:
    """Questions that depend on the generator."""

    def questions(rng: random.Random) -> list[Question]:
        return pool(category, size=400, seed=rng.randrange(10**6))

    return questions


def test_the_draws_of_a_category_do_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    generators = {name: invented(category) for name, category in zip(GENERATORS, sorted(NAMES), strict=True)}  # type: ignore[arg-type]
    monkeypatch.setattr("standard_probe.make.GENERATORS", generators)
    before = pools()
    monkeypatch.setattr("standard_probe.make.GENERATORS", {name: generators[name] for name in [*generators][::-2]})
    fewer = pools()
    assert len(fewer) == 5
    assert all(before[category] == own for category, own in fewer.items())
