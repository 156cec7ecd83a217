"""How the pools are drawn, with invented questions in the place of the nine modules'."""

from __future__ import annotations

import random
import sys
from types import SimpleNamespace

import pytest
from pools import pool
from standard_probe.assemble import NAMES
from standard_probe.make import MODULES, pools
from standard_probe.question import Category, Question


@pytest.fixture
def _invented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules whose questions depend on what they are handed."""

    def questions(category: Category) -> SimpleNamespace:
        def drawn(rng: random.Random) -> list[Question]:
            return pool(category, size=400, seed=rng.randrange(10**6))

        return SimpleNamespace(questions=drawn)

    for name, category in zip(MODULES, sorted(NAMES), strict=True):
        monkeypatch.setitem(sys.modules, f"standard_probe.{name}", questions(category))  # type: ignore[arg-type]


@pytest.mark.usefixtures("_invented")
def test_what_a_category_draws_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pools()
    monkeypatch.setattr("standard_probe.make.MODULES", MODULES[::-2])
    fewer = pools()
    assert len(fewer) == 5
    assert all(before[category] == own for category, own in fewer.items())
