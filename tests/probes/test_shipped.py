"""The frozen files are reproduced by the generators, and agree with their card."""

from __future__ import annotations

import gzip
import math
import tomllib
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatch
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from standard_probe import measured
from standard_probe.card import with_figures
from standard_probe.make import pools, write_shipped
from standard_probe.question import alike_in_length

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


def test_the_wheel_takes_in_every_card() -> None:
    """The wheel holds what is under its packages, less what it leaves out and what git ignores."""
    root = Path(__file__).parents[2]
    wheel = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    left_out = [*wheel.get("exclude", ()), *(root / ".gitignore").read_text("utf-8").split()]
    taken = {path for package in wheel["packages"] for path in (root / package).rglob("*") if path.is_file()}
    folder = root / "forgetwatch" / "probes" / "shipped"
    cards = {folder / "CARD.md", *(folder / "cards").glob("*.md")}
    assert {path.stem for path in cards} >= {"CARD", "passages", *(name for name in FILES if "-" in name)}
    assert cards <= taken
    assert set(wheel) <= {"packages", "exclude"}
    names = [name for card in cards for name in (card.name, *card.relative_to(root).parts, str(card.relative_to(root)))]
    assert not any(fnmatch(name, pattern.strip("/")) for name in names for pattern in left_out)


def test_options_are_decided_by_the_sum() -> None:
    assert {probe.norm for probe in (STANDARD, CONFIRMATION)} == {"sum"}


def test_options_are_alike_in_length_and_two_are_yes_and_no() -> None:
    for item in ITEMS:
        options = [choice.strip() for choice in item.choices]
        assert alike_in_length(options) if len(options) > 2 else sorted(options) == ["No", "Yes"], item.prompt
    two = [item for item in STANDARD if item.k == 2]
    assert len(two) <= 60
    assert {item.cluster for item in two} == {"yes or no"}
    assert {item.cluster for item in ITEMS if item.k != 2} == {None}


def test_there_is_a_floor_for_small_models_and_a_tail_for_large_ones() -> None:
    levels = Counter((item.category in ("Logic", "Math"), item.tags[0]) for item in STANDARD)
    assert 60 <= levels[True, "difficulty:0"] <= 65
    assert levels[False, "difficulty:0"] == 0
    assert abs(levels[False, "difficulty:4"] + levels[False, "difficulty:5"] - 150) <= 5


def test_each_category_has_five_worked_examples_that_are_asked_nowhere() -> None:
    asked = {item.prompt for item in ITEMS}
    for category in {item.category for item in ITEMS}:
        (shots,) = {item.shots for item in ITEMS if item.category == category} - {""}
        shown = shots.removesuffix("\n\n").split("\n\n")
        assert len(shown) == 5
        assert all(shot.startswith("Question: ") and "\nAnswer: " in shot for shot in shown)
        assert not asked & {shot[: shot.index("Answer:") + len("Answer:")] for shot in shown}


def test_the_card_has_the_figures_of_the_probes() -> None:
    card = SHIPPED.joinpath("CARD.md").read_text(encoding="utf-8")
    assert with_figures(card, [STANDARD, CONFIRMATION]) == card


def test_the_forms_are_disjoint_in_questions_and_facts() -> None:
    assert (len(STANDARD), len(CONFIRMATION)) == (2000, 500)
    assert len({item.content_hash for item in ITEMS}) == len({item.id for item in ITEMS}) == 2500
    uses = {one.asked: one.uses for pool in pools().values() for one in pool}
    assert max(Counter(fact for item in ITEMS for fact in uses[item.prompt]).values()) == 1


@pytest.mark.parametrize("probe", [STANDARD, CONFIRMATION], ids=lambda probe: probe.name)
def test_categories_and_gold_positions_are_balanced(probe: Probe) -> None:
    sizes = Counter(item.category for item in probe)
    assert len(sizes) == 9
    small = {sizes.pop(category) for category in ("Logic", "Math")}
    assert small == {150 if probe is STANDARD else 37}
    assert max(sizes.values()) - min(sizes.values()) <= 1
    for k in (2, 3, 4, 5):
        there = Counter(item.answer for item in probe if item.k == k)
        assert max(there[place] for place in range(k)) - min(there[place] for place in range(k)) <= 1


@pytest.mark.parametrize("count", [250, 500, 1000])
def test_prefixes_are_stratified_samples(count: int) -> None:
    for kind in (lambda item: item.category, lambda item: item.task, lambda item: item.tags, lambda item: item.k):
        whole, there = Counter(map(kind, STANDARD)), Counter(map(kind, STANDARD.head(count)))
        assert all(abs(there[name] - number * count / 2000) < 1.5 for name, number in whole.items())


@pytest.mark.parametrize("count", [250, 500, 1000])
def test_beginnings_are_as_hard_as_the_whole_for_a_small_model(count: int) -> None:
    rows = measured.read()
    for column in ("trained_right", "trained_log_share"):
        values = np.array([rows[item.id][column] for item in STANDARD])
        # The error of a sample of a finite number of items.
        error = values.std() / math.sqrt(count) * math.sqrt(1 - count / len(values))
        assert abs(values[:count].mean() - values.mean()) < 2 * error


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
