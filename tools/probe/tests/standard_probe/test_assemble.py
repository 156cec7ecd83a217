from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pools import pool, pools
from standard_probe.assemble import NAMES, SHOTS, assemble
from standard_probe.question import Question
from standard_probe.selection import K_SHARES, LEVEL_SHARES

from forgetwatch import Item, Probe
from forgetwatch.errors import ProbeError

POOLS = pools()
STANDARD, CONFIRMATION = assemble(POOLS)
BY_PROMPT = {one.asked: one for own in POOLS.values() for one in own}


def kinds(item: Item) -> dict[str, Hashable]:
    """Groups that an item is one of, from coarse to fine."""
    difficulty = item.tags[0]
    return {
        "category": item.category,
        "task": item.task,
        "difficulty": difficulty,
        "k": item.k,
        "category and difficulty": (item.category, difficulty),
        "category and k": (item.category, item.k),
        "task and difficulty": (item.task, difficulty),
        "task and k": (item.task, item.k),
        "stratum": (item.task, difficulty, item.k),
        "place": (item.k, item.answer),
        "category and place": (item.category, item.k, item.answer),
    }


def farthest(items: Sequence[Item], count: int) -> dict[str, float]:
    """Of each kind, how many items the first `count` are at most away from their share."""
    whole = Counter(pair for item in items for pair in kinds(item).items())
    there = Counter(pair for item in items[:count] for pair in kinds(item).items())
    away: dict[str, float] = {}
    for pair, number in whole.items():
        away[pair[0]] = max(away.get(pair[0], 0.0), abs(there[pair] - number * count / len(items)))
    return away


def test_two_forms_with_equal_categories() -> None:
    assert (len(STANDARD), len(CONFIRMATION)) == (2000, 500)
    for form, small, large in ((STANDARD, 150, {242, 243}), (CONFIRMATION, 37, {60, 61})):
        sizes = Counter(item.category for item in form)
        assert sizes.pop("Math") == sizes.pop("Logic") == small
        assert set(sizes.values()) == large


def test_worked_examples_are_of_the_category_and_in_no_form() -> None:
    asked = {item.prompt for item in (*STANDARD, *CONFIRMATION)}
    facts = {fact for prompt in asked for fact in BY_PROMPT[prompt].uses}
    for category in NAMES:
        (shots,) = {item.shots for item in (*STANDARD, *CONFIRMATION) if item.category == category}
        *shown, end = shots.split("\n\n")
        assert (len(shown), end) == (SHOTS, "")
        examples = [BY_PROMPT[shot[: shot.index("Answer:") + len("Answer:")]] for shot in shown]
        assert [f"{one.asked} {one.right}" for one in examples] == shown
        assert {one.category for one in examples} == {category}
        assert len({one.topic for one in examples}) == SHOTS
        assert not facts & {fact for one in examples for fact in one.uses}


def test_yes_or_no_is_one_cluster_and_a_continuation_has_no_worked_examples() -> None:
    assert all((item.cluster == "yes or no") == (item.k == 2) for item in (*STANDARD, *CONFIRMATION))
    maths = [replace(one, form="continuation") if n % 3 == 0 else one for n, one in enumerate(pool("Math", size=60))]
    first, second = assemble({"Math": maths}, standard=20, confirmation=4)
    continued = [item for item in (*first, *second) if not str(item.prompt).startswith("Question: ")]
    assert continued
    assert {item.shots for item in continued} == {""}


def test_no_question_or_fact_is_in_both_forms() -> None:
    items = [*STANDARD, *CONFIRMATION]
    assert len({item.prompt for item in items}) == 2500
    assert len({item.id for item in items}) == 2500
    facts = Counter(fact for item in items for fact in BY_PROMPT[item.prompt].uses)
    assert max(facts.values()) == 1


def test_no_fact_is_shared_between_categories() -> None:
    shared = {
        category: [
            replace(one, uses=frozenset({f"{number}" if number < 5 else f"{category} {number}"}))
            for number, one in enumerate(pool(category, size=20))
        ]
        for category in ("Math", "Logic")
    }
    uses = {one.asked: one.uses for own in shared.values() for one in own}
    used = Counter(
        fact for form in assemble(shared, standard=16, confirmation=8) for item in form for fact in uses[item.prompt]
    )
    assert (sum(used.values()), max(used.values())) == (24, 1)


@pytest.mark.parametrize(("form", "count"), [(STANDARD, 250), (STANDARD, 500), (STANDARD, 1000), (CONFIRMATION, 250)])
def test_prefixes_are_stratified_samples(form: list[Item], count: int) -> None:
    away = farthest(form, count)
    assert max(away[kind] for kind in ("category", "task", "difficulty", "k")) < 1.5
    assert max(away.values()) <= 2


@pytest.mark.parametrize("count", [100, 333, 777, 1500])
def test_every_other_prefix_is_nearly_a_stratified_sample(count: int) -> None:
    assert max(farthest(STANDARD, count).values()) <= 3


def test_the_forms_are_alike() -> None:
    both = farthest([*CONFIRMATION, *STANDARD], len(CONFIRMATION))
    assert max(both[kind] for kind in ("category", "task", "difficulty", "k")) <= 1
    assert max(both.values()) <= 2


def test_kinds_are_even_where_the_pools_allow_it() -> None:
    for category in NAMES:
        own = [item for item in [*STANDARD, *CONFIRMATION] if item.category == category]
        topics = Counter(item.task for item in own)
        assert max(topics.values()) - min(topics.values()) <= 16
        difficulties = Counter(item.tags for item in own)
        for level, share in LEVEL_SHARES[category].items():
            # The worked examples are taken out of the plain ones.
            assert abs(difficulties[(f"difficulty:{level}",)] - share * len(own)) <= 6
        ks = Counter(item.k for item in own)
        assert all(abs(ks[k] - share * len(own)) <= 8 for k, share in K_SHARES.items())


@pytest.mark.parametrize("form", [STANDARD, CONFIRMATION])
def test_gold_positions_are_equally_frequent(form: list[Item]) -> None:
    for k in K_SHARES:
        of_k = [item for item in form if item.k == k]
        for items in (of_k, *([item for item in of_k if item.category == name] for name in NAMES)):
            there = Counter(item.answer for item in items)
            assert max(there[place] for place in range(k)) - min(there[place] for place in range(k)) <= 1


def test_items_hold_the_content_of_the_questions() -> None:
    for item in (*STANDARD, *CONFIRMATION):
        question = BY_PROMPT[item.prompt]
        right = item.choices[int(item.answer)]  # type: ignore[call-overload]
        assert right == f" {question.right}"
        assert set(item.choices) - {right} == {f" {one}" for one in question.wrong}
        assert (item.category, item.tags) == (question.category, (f"difficulty:{question.difficulty}",))
        assert item.task == f"{NAMES[question.category]}:{question.topic}"


def test_ids_depend_on_the_content_and_not_on_the_position() -> None:
    small = pools(size=40)
    made = assemble(small, standard=90, confirmation=18)
    assert assemble({name: own[::-1] for name, own in small.items()}, standard=90, confirmation=18) == made
    ids = {item.prompt: item.id for form in made for item in form}
    others = assemble({name: own[5:] for name, own in small.items()}, standard=90, confirmation=18)
    again = [item for form in others for item in form if item.prompt in ids]
    assert len(again) > 50
    assert all(ids[item.prompt] == item.id for item in again)
    assert all(item.id.startswith(f"{NAMES[item.category]}-") for item in again)


def test_another_process_makes_the_same_bytes() -> None:
    tests = Path(__file__).parents[1]
    code = (
        "from pools import pools\n"
        "from standard_probe.assemble import assemble\n"
        "from forgetwatch import Probe\n"
        "print(*(Probe(form).to_jsonl() for form in assemble(pools())), sep='', end='')"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": ":".join(map(str, (tests, tests.parent, tests.parents[2])))},
    )
    assert made.stdout.decode() == Probe(STANDARD).to_jsonl() + Probe(CONFIRMATION).to_jsonl()


@pytest.mark.parametrize("seed", [2, 3])
def test_small_forms_are_made_of_small_pools(seed: int) -> None:
    first, second = assemble(pools(size=60, seed=seed), standard=90, confirmation=37)
    assert (len(first), len(second)) == (90, 37)
    assert farthest(first, 45)["category"] <= 1


def bad(pools: dict[str, list[Question]], **changes: Any) -> dict[str, list[Question]]:
    return pools | {"Math": [*pools["Math"], replace(pools["Math"][0], **changes)]}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"prompt": "WHAT does  the 0. riddle of Math mean?"}, "occurs twice, as Math, topic"),
        ({"prompt": "New?", "category": "Logic"}, "needed category 'Math', got 'Logic'"),
        ({"prompt": "New?", "right": "１２", "wrong": ("12",)}, "two of the options read the same: 12, 12"),
        (
            {"prompt": "New?", "right": "up", "wrong": ("to",)},
            "needed three to five options, or yes and no, got up, to",
        ),
        ({"prompt": "New?", "right": "up", "wrong": ("to", "beyond")}, "options are of unlike length: up, to, beyond"),
    ],
)
def test_a_question_that_no_probe_may_hold_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        assemble(bad(pools(size=40), **changes), standard=90, confirmation=9)


def test_an_unknown_category_is_named() -> None:
    maths = pool("Math", size=10)
    with pytest.raises(ProbeError, match=r"needed one of the categories Common Sense, .*, got 'Maths'"):
        assemble({"Maths": maths})


def test_a_pool_that_is_too_small_is_named() -> None:
    same = [replace(one, uses=frozenset({f"{number % 5}"})) for number, one in enumerate(pool("Logic", size=100))]
    with pytest.raises(ProbeError, match=r"category 'Logic': needed 15 questions .*, got 5 of 100"):
        assemble({"Logic": same}, standard=8, confirmation=2)


def test_selection_from_a_pool_with_many_conflicts_is_maximal() -> None:
    rng = random.Random(5)
    # Chains: each fact is shared by neighbours; every other question is the most that goes together.
    chain = [replace(one, uses=frozenset({f"{n}", f"{n + 1}"})) for n, one in enumerate(pool("Math", size=61))]
    rng.shuffle(chain)
    assert [len(form) for form in assemble({"Math": chain}, standard=20, confirmation=6)] == [20, 6]
