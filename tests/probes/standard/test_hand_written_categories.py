"""What holds for the pools of Language, Common Sense and Safety/Truth, whatever the generator draws."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType

import pytest

from forgetwatch.probes.standard import common_sense, language, safety
from forgetwatch.probes.standard.question import Question

SEEDS = (0, 1, 2, 3)
EVERYWHERE = pytest.mark.parametrize(
    "module", [language, common_sense, safety], ids=lambda m: m.__name__.split(".")[-1]
)


def pools(module: ModuleType) -> list[list[Question]]:
    return [module.questions(random.Random(seed)) for seed in SEEDS]


def gain(pool: list[Question], key: Callable[[str], object]) -> float:
    """How much oftener than by chance the option with the least key is right; ties share."""
    total = 0.0
    for question in pool:
        options = (question.right, *question.wrong)
        least = min(key(option) for option in options)  # type: ignore[type-var]
        ties = [option for option in options if key(option) == least]
        total += (question.right in ties) / len(ties) - 1 / len(options)
    return total / len(pool)


@EVERYWHERE
def test_three_hundred_can_be_chosen_that_share_no_fact(module: ModuleType) -> None:
    for pool in pools(module):
        used: set[str] = set()
        chosen = 0
        for question in pool:
            if not used & question.uses:
                used |= question.uses
                chosen += 1
        assert chosen >= 300


@EVERYWHERE
def test_length_and_alphabet_do_not_give_the_answer_away(module: ModuleType) -> None:
    for pool in pools(module):
        for key in (
            len,
            lambda option: -len(option),
            str.casefold,
            lambda option: [-ord(c) for c in option.casefold()],
        ):
            assert abs(gain(pool, key)) < 0.05


def test_a_telling_length_would_be_noticed() -> None:
    pool = safety.questions(random.Random(0))
    told = [
        Question(
            prompt=question.prompt,
            right=question.right + ", which is the careful thing to say",
            wrong=question.wrong,
            category=question.category,
            topic=question.topic,
            difficulty=question.difficulty,
            uses=question.uses,
            source=question.source,
        )
        for question in pool
    ]
    assert gain(told, lambda option: -len(option)) > 0.5


@EVERYWHERE
def test_yes_is_right_as_often_as_no(module: ModuleType) -> None:
    for pool in pools(module):
        two = [question for question in pool if len(question.wrong) == 1]
        assert all({question.right, *question.wrong} == {"yes", "no"} for question in two)
        answers = Counter(question.right for question in two)
        assert abs(answers["yes"] - answers["no"]) <= 1
        assert 0.1 <= len(two) / len(pool) <= 0.24


@EVERYWHERE
def test_numbers_of_options_and_difficulties_are_mixed(module: ModuleType) -> None:
    for pool in pools(module):
        sizes = Counter(1 + len(question.wrong) for question in pool)
        assert min(sizes[size] for size in (3, 4, 5)) >= 0.13 * len(pool)
        levels = Counter(question.difficulty for question in pool)
        assert min(levels[1], levels[2], levels[3]) >= 0.22 * len(pool)


@EVERYWHERE
def test_topics_are_of_like_size(module: ModuleType) -> None:
    for pool in pools(module):
        topics = Counter(question.topic for question in pool)
        assert 5 <= len(topics) <= 12
        assert min(topics.values()) >= 20
        assert max(topics.values()) <= len(pool) / 4


@EVERYWHERE
def test_nothing_is_asked_twice(module: ModuleType) -> None:
    for pool in pools(module):
        assert max(Counter(question.prompt for question in pool).values()) == 1


@EVERYWHERE
def test_questions_stand_alone(module: ModuleType) -> None:
    for pool in pools(module):
        for question in pool:
            options = (question.right, *question.wrong)
            assert not any(phrase in question.prompt.casefold() for phrase in ("the following", "answer:", "option"))
            assert not any("of the above" in option or option != option.strip() for option in options)
            assert question.prompt[-1] in '?."', question.prompt
            assert len({option.endswith(".") for option in options}) == 1


@EVERYWHERE
def test_every_process_makes_the_same_pool(module: ModuleType) -> None:
    code = (
        f"import random, hashlib; from {module.__name__} import questions;"
        "pool = [(q.prompt, q.right, q.wrong) for q in questions(random.Random(5))];"
        "print(hashlib.sha256(repr(pool).encode()).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
