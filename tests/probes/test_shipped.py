"""The shipped probes: frozen, balanced, and packed with their cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib.resources import files

import pytest

from forgetwatch import Probe, load_probe
from forgetwatch.probes.shipped import CANARY, FILES

SHIPPED = files("forgetwatch.probes.shipped")
STANDARD, CONFIRMATION = load_probe("standard"), load_probe("confirmation")
ITEMS = [*STANDARD, *CONFIRMATION]
FINGERPRINTS = {
    "standard": "31032ad1aaadc05f",
    "confirmation": "88a1ea1aa4da8f15",
    "behaviour": "a622228c14a92a1e",
    "standard-long": "869a5ef8c6c1b805",
    "standard-code": "4d87cd7d6d97170f",
    "standard-multilingual": "72242ad43085bf28",
    "standard-written": "9fdd391bc689f1fa",
    "passages": "f969a5b4fc4f9e3c",
}


@pytest.mark.parametrize("name", FILES)
def test_the_shipped_probes_are_frozen(name: str) -> None:
    """Runs of one version compare with each other: a probe that changes gets another version."""
    assert load_probe(name).fingerprint[:16] == FINGERPRINTS[name]


def test_options_are_decided_by_the_sum() -> None:
    assert {probe.norm for probe in (STANDARD, CONFIRMATION)} == {"sum"}


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
