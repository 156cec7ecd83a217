"""How the frozen files are written, with invented questions in the place of the nine modules'."""

from __future__ import annotations

import gzip
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pools import pool

from forgetwatch.probe import read_probe
from forgetwatch.probes.shipped import CANARY
from forgetwatch.probes.standard.assemble import NAMES
from forgetwatch.probes.standard.card import figures
from forgetwatch.probes.standard.make import MODULES, pools, write_shipped
from forgetwatch.probes.standard.question import Category, Question


@pytest.fixture
def _invented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules whose questions depend on what they are handed."""

    def questions(category: Category) -> SimpleNamespace:
        def drawn(rng: random.Random) -> list[Question]:
            return pool(category, size=400, seed=rng.randrange(10**6))

        return SimpleNamespace(questions=drawn)

    for name, category in zip(MODULES, sorted(NAMES), strict=True):
        monkeypatch.setitem(sys.modules, f"forgetwatch.probes.standard.{name}", questions(category))  # type: ignore[arg-type]


@pytest.mark.usefixtures("_invented")
def test_the_files_and_the_card_are_written_the_same_each_time(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_shipped(tmp_path / folder)
    for name, items in (("standard", 2000), ("confirmation", 500)):
        one, two = ((tmp_path / folder / f"{name}.jsonl.gz").read_bytes() for folder in ("one", "two"))
        assert one == two
        assert len(one) < 250_000
        read = read_probe(tmp_path / "one" / f"{name}.jsonl.gz")
        assert (read.name, len(read), read.canary) == (name, items, CANARY)
        assert gzip.decompress(one).decode() == read.to_jsonl()
        assert f"<!-- figures: {name} -->\n{figures(read)}<!-- end -->" in (tmp_path / "one" / "CARD.md").read_text(
            "utf-8"
        )


@pytest.mark.usefixtures("_invented")
def test_what_a_category_draws_does_not_depend_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    before = pools()
    monkeypatch.setattr("forgetwatch.probes.standard.make.MODULES", MODULES[::-2])
    fewer = pools()
    assert len(fewer) == 5
    assert all(before[category] == own for category, own in fewer.items())
