"""The frozen files are reproduced by the generators, and agree with their card."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import pytest
from standard_probe.card import with_figures
from standard_probe.make import pools, write_shipped

from forgetwatch import Probe, load_probe
from forgetwatch.probes.shipped import CANARY, FILES

SHIPPED = files("forgetwatch.probes.shipped")
STANDARD, CONFIRMATION = load_probe("standard"), load_probe("confirmation")
ITEMS = [*STANDARD, *CONFIRMATION]


def test_make_reproduces_the_frozen_files_and_the_card(tmp_path: Path) -> None:
    write_shipped(tmp_path)
    for name in ("standard", "confirmation"):
        made = gzip.decompress((tmp_path / FILES[name]).read_bytes())
        assert made == gzip.decompress(SHIPPED.joinpath(FILES[name]).read_bytes()), name
    assert (tmp_path / "CARD.md").read_text("utf-8") == SHIPPED.joinpath("CARD.md").read_text("utf-8")


@pytest.mark.parametrize(
    ("probe", "lines", "decided_by_bytes"),
    [(STANDARD, "6b119f9e65c029af", "de63d25bf8286b9f"), (CONFIRMATION, "78ccf15946ae540c", "e54c6a4f216f57fd")],
    ids=lambda value: getattr(value, "name", ""),
)
def test_options_are_decided_by_the_sum_over_the_items_of_the_first_version(
    probe: Probe, lines: str, decided_by_bytes: str
) -> None:
    content = gzip.decompress(SHIPPED.joinpath(FILES[probe.name]).read_bytes())
    assert sha256(content.split(b"\n", 1)[1]).hexdigest()[:16] == lines
    assert probe.norm == "sum"
    assert replace(probe, norm="bytes").fingerprint[:16] == decided_by_bytes


def test_the_card_has_the_figures_of_the_probes() -> None:
    card = SHIPPED.joinpath("CARD.md").read_text(encoding="utf-8")
    assert with_figures(card, [STANDARD, CONFIRMATION]) == card


def test_the_forms_are_disjoint_in_questions_and_facts() -> None:
    assert (len(STANDARD), len(CONFIRMATION)) == (2000, 500)
    assert len({item.content_hash for item in ITEMS}) == len({item.id for item in ITEMS}) == 2500
    uses = {f"Question: {one.prompt}\nAnswer:": one.uses for pool in pools().values() for one in pool}
    assert max(Counter(fact for item in ITEMS for fact in uses[item.prompt]).values()) == 1


@pytest.mark.parametrize("probe", [STANDARD, CONFIRMATION], ids=lambda probe: probe.name)
def test_categories_and_gold_positions_are_balanced(probe: Probe) -> None:
    sizes = Counter(item.category for item in probe)
    assert len(sizes) == 9
    assert max(sizes.values()) - min(sizes.values()) <= 1
    for k in (2, 3, 4, 5):
        there = Counter(item.answer for item in probe if item.k == k)
        assert max(there[place] for place in range(k)) - min(there[place] for place in range(k)) <= 1


@pytest.mark.parametrize("count", [250, 500, 1000])
def test_prefixes_are_stratified_samples(count: int) -> None:
    for kind in (lambda item: item.category, lambda item: item.task, lambda item: item.tags, lambda item: item.k):
        whole, there = Counter(map(kind, STANDARD)), Counter(map(kind, STANDARD.head(count)))
        assert all(abs(there[name] - number * count / 2000) <= 1 for name, number in whole.items())


def test_quick_is_a_prefix_of_standard() -> None:
    quick = load_probe("quick")
    assert (quick.name, list(quick), quick.settings) == ("quick", list(STANDARD[:500]), STANDARD.settings)
    assert {probe.canary for probe in (quick, STANDARD, CONFIRMATION)} == {CANARY}


@pytest.mark.parametrize("choose", [max, min])
@pytest.mark.parametrize("key", [len, str], ids=["length", "alphabet"])
def test_a_chooser_without_the_question_is_near_chance(
    choose: Callable[..., str], key: Callable[[str], object]
) -> None:
    right = sum(choose(item.choices, key=key) == item.choices[item.answer] for item in ITEMS) / len(ITEMS)
    assert right == pytest.approx(sum(1 / len(item.choices) for item in ITEMS) / len(ITEMS), abs=0.03)


def test_the_files_are_small() -> None:
    assert sum(len(SHIPPED.joinpath(name).read_bytes()) for name in FILES.values()) < 500_000
