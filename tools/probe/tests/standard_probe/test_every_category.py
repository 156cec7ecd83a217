"""Properties of the pools of all nine categories, for several seeds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import standard_probe
from pool_rules import SEEDS, number
from standard_probe import common_sense, culture, knowledge, language, liberal_arts, logic, mathematics, safety, science
from standard_probe.assemble import NAMES
from standard_probe.make import GENERATORS
from standard_probe.question import YES_NO, Question, alike_in_length
from standard_probe.selection import LEVEL_SHARES

MODULES = (common_sense, culture, knowledge, language, liberal_arts, logic, mathematics, safety, science)
EVERYWHERE = pytest.mark.parametrize("module", MODULES)
CATEGORIES = {name: name for name in GENERATORS} | {
    "common_sense": "sense",
    "liberal_arts": "arts",
    "mathematics": "math",
}
HAND_WRITTEN = pytest.mark.parametrize("module", [language, common_sense, safety])


@cache
def pools(module: ModuleType) -> list[list[Question]]:
    return [module.questions(random.Random(seed)) for seed in SEEDS]


def edge(pool: list[Question], key: Callable[[str], Any]) -> float:
    """Excess over chance of how often the option that is first by this key is right; ties share."""
    total = 0.0
    for question in pool:
        options = (question.right, *question.wrong)
        first = min(map(key, options))
        ties = [option for option in options if key(option) == first]
        total += (question.right in ties) / len(ties) - 1 / len(options)
    return total / len(pool)


def test_every_category_is_tested() -> None:
    assert [module.questions for module in MODULES] == [*GENERATORS.values()]


def _zeros(option: str) -> int:
    return len(option) - len(option.rstrip("0"))


CHOOSERS: dict[str, Callable[[str], Any]] = {
    "longest": lambda option: -len(option),
    "shortest": len,
    "first by the alphabet": str.casefold,
    "last by the alphabet": lambda option: (*(-ord(letter) for letter in option.casefold()), 0),
    "smallest": lambda option: number(option) or 0,
    "largest": lambda option: -(number(option) or 0),
    "roundest": lambda option: -_zeros(option),
    "least round": _zeros,
}


@EVERYWHERE
def test_the_same_seed_gives_the_same_pool(module: ModuleType) -> None:
    assert module.questions(random.Random(SEEDS[0])) == pools(module)[0]
    if module is not safety:  # where nothing is drawn
        assert pools(module)[0] != pools(module)[1]


@EVERYWHERE
def test_every_pool_has_enough_questions_without_a_shared_fact(module: ModuleType) -> None:
    for pool in pools(module):
        used: set[str] = set()
        chosen = 0
        for question in pool:
            if not used & question.uses:
                used |= question.uses
                chosen += 1
        assert chosen >= (220 if module in (logic, mathematics) else 320)


@pytest.mark.parametrize("module", [culture, knowledge, liberal_arts])
def test_every_fact_of_a_table_is_used_once(module: ModuleType) -> None:
    for pool in pools(module):
        assert max(Counter(fact for question in pool for fact in question.uses).values()) == 1


@EVERYWHERE
def test_prompts_are_unique_and_of_one_category(module: ModuleType) -> None:
    for pool in pools(module):
        assert len({question.prompt for question in pool}) == len(pool)
        assert {NAMES[question.category] for question in pool} == {CATEGORIES[module.__name__.split(".")[-1]]}
        assert all(question.prompt.strip() == question.prompt and "None" not in question.prompt for question in pool)


@EVERYWHERE
@pytest.mark.parametrize("name", CHOOSERS)
def test_options_alone_do_not_reveal_the_answer(module: ModuleType, name: str) -> None:
    limit = 0.05 if module in (language, common_sense, safety) else 0.08
    assert max(abs(edge(pool, CHOOSERS[name])) for pool in pools(module)) < limit


def test_a_revealing_length_is_detected() -> None:
    pool = pools(safety)[0]
    told = [replace(question, right=question.right + ", which is the careful thing to say") for question in pool]
    assert edge(told, CHOOSERS["longest"]) > 0.5


@EVERYWHERE
def test_yes_is_right_as_often_as_no(module: ModuleType) -> None:
    for pool in pools(module):
        two = [{question.right.casefold(), *map(str.casefold, question.wrong)} for question in pool]
        asked = [question for question, options in zip(pool, two, strict=True) if options == {"yes", "no"}]
        answers = Counter(question.right.casefold() for question in asked)
        assert abs(answers["yes"] - answers["no"]) <= (1 if module is language else 0)
        assert answers["no"] > 0


@EVERYWHERE
def test_numbers_of_options_and_difficulties_are_mixed(module: ModuleType) -> None:
    for pool in pools(module):
        sizes = Counter(1 + len(question.wrong) for question in pool)
        assert 0.02 < sizes[2] / len(pool) < 0.06
        for size, share in {3: 0.17, 4: 0.60, 5: 0.20}.items():
            assert abs(sizes[size] / len(pool) - share) < 0.10
        levels = Counter(question.difficulty for question in pool)
        for level, share in LEVEL_SHARES[pool[0].category].items():
            assert abs(levels[level] / len(pool) - share) < 0.08


@EVERYWHERE
def test_options_are_alike_in_length_and_two_are_yes_and_no(module: ModuleType) -> None:
    for question in (question for pool in pools(module) for question in pool):
        options = [question.right.casefold(), *map(str.casefold, question.wrong)]
        assert alike_in_length(options) or len(options) == 2, (question.prompt, options)
        assert len(options) > 2 or set(options) == YES_NO, (question.prompt, options)


@EVERYWHERE
def test_topics_are_of_like_size(module: ModuleType) -> None:
    for pool in pools(module):
        topics = Counter(question.topic for question in pool)
        assert 5 <= len(topics) <= 13
        assert min(topics.values()) >= 20
        assert max(topics.values()) <= len(pool) / 4


@HAND_WRITTEN
def test_questions_stand_alone(module: ModuleType) -> None:
    for pool in pools(module):
        for question in pool:
            options = (question.right, *question.wrong)
            assert not any(phrase in question.prompt.casefold() for phrase in ("the following", "answer:", "option"))
            assert not any("of the above" in option or option != option.strip() for option in options)
            assert question.form == "continuation" or question.prompt[-1] in '?."', question.prompt
            assert len({option.endswith(".") for option in options}) == 1
            assert len(options) > 2 or {option.casefold() for option in options} == YES_NO


@EVERYWHERE
def test_every_process_makes_the_same_pool(module: ModuleType) -> None:
    code = (
        f"import random, hashlib; from {module.__name__} import questions;"
        "pool = [(q.prompt, q.right, q.wrong) for q in questions(random.Random(5))];"
        "print(hashlib.sha256(repr(pool).encode()).hexdigest())"
    )
    folder = str(Path(standard_probe.__file__).parent.parent)
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": folder, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
