from __future__ import annotations

import random
import re
from collections import Counter
from fractions import Fraction
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standard_probe import logic, mathematics
from standard_probe.drafts import Draft, choose_wrong, decimal, near, numeric, topic, worded, yes_or_no
from standard_probe.question import alike_in_length


@given(st.integers(-(10**6), 10**6), st.integers(0, 4))
def test_decimal_digits_are_exact(n: int, places: int) -> None:
    value = Fraction(n, 10**places)
    assert Fraction(decimal(value)) == value
    assert "/" not in decimal(value)


@given(st.integers(1, 50), st.lists(st.integers(-60, 60)))
def test_numeric_mistakes_are_positive_and_wrong(right: int, mistakes: list[int]) -> None:
    draft = numeric("?", right, mistakes, uses="x")
    assert all(0 < int(option) < right for option in draft.lower)
    assert all(int(option) > right for option in draft.higher)
    assert set(map(int, draft.lower + draft.higher)) == {m for m in mistakes if m > 0 and m != right}


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 5), st.integers(0, 5))
def test_choose_wrong_takes_wrong_answers_of_the_draft(seed: int, number: int, below: int, above: int) -> None:
    mistakes = [10 - n for n in range(1, below + 1)] + [10 + n for n in range(1, above + 1)]
    draft = numeric("?", 10, mistakes, uses="x")
    wrong = choose_wrong(random.Random(seed), draft, number=number)
    assert len(set(wrong)) == len(wrong) <= number
    assert set(wrong) <= set(draft.lower + draft.higher)
    assert wrong or not mistakes


@given(st.integers(0, 10**6), st.integers(2, 4), st.lists(st.text("ab", min_size=1, max_size=12), min_size=1))
def test_chosen_words_are_alike_in_length(seed: int, number: int, words: list[str]) -> None:
    draft = worded("?", "right", ["wrong", *words], uses="x")
    assert alike_in_length(("right", *choose_wrong(random.Random(seed), draft, number=number)))


def test_every_position_of_the_right_answer_is_equally_likely() -> None:
    rng = random.Random(0)
    draft = numeric("?", 10, near(10, 1, 2, 3, 4), uses="x")
    places = Counter(sum(int(option) < 10 for option in choose_wrong(rng, draft, number=3)) for _ in range(4000))
    assert all(abs(places[place] / 4000 - 1 / 4) < 0.03 for place in range(4))


def test_worded_and_yes_or_no_drop_the_right_answer_from_the_wrong() -> None:
    assert worded("?", "a", ("a", "b", "b", "c"), uses="x").higher == ("b", "c")
    assert (yes_or_no("?", False, uses="x").right, yes_or_no("?", False, uses="x").higher) == ("No", ("Yes",))


def test_a_maker_is_called_again_until_its_question_is_new() -> None:
    plan = ((lambda rng, turn: numeric("?", n := rng.randint(5, 9), near(n, 1), uses=str(n)), 1, 5),)
    questions = topic(random.Random(0), "sums", plan, category="Math")
    assert {fact for question in questions for fact in question.uses} == {f"sums:{n}" for n in range(5, 10)}


def doubled(rng: random.Random, turn: int) -> Draft:
    n = rng.randint(10, 40)
    return numeric(f"What is twice {n}?", 2 * n, uses=f"twice {n}", like="even")


def test_wrong_numbers_are_near_right_answers_of_other_drafts_and_not_in_the_prompt() -> None:
    for question in topic(random.Random(0), "doubles", ((doubled, 1, 25),), category="Math"):
        given = re.findall(r"\d+", question.prompt)
        assert len(question.wrong) >= 2
        for option in map(int, question.wrong):
            assert option % 2 == 0
            assert str(option) not in given
            assert abs(option - int(question.right)) <= 12


def test_drafts_of_another_kind_give_no_wrong_answers() -> None:
    def mixed(rng: random.Random, turn: int) -> Draft:
        n, unit = rng.randint(1, 60), rng.choice((1, 100))
        return numeric(f"What is {n} times {unit} + 0?", n * unit, uses=f"{n}*{unit}", like=str(unit))

    questions = topic(random.Random(0), "kinds", ((mixed, 1, 20),), category="Math")
    for question in questions:
        if "times 100 " in question.prompt:
            assert all(int(option) % 100 == 0 for option in question.wrong)


def test_a_maker_without_enough_questions_is_reported() -> None:
    with pytest.raises(ValueError, match="doubled, turn 31: needed a new question"):
        topic(random.Random(0), "doubles", ((doubled, 1, 40),), category="Math")


@pytest.mark.parametrize("module", [logic, mathematics])
def test_a_number_of_the_question_is_right_as_often_as_by_chance(module: ModuleType) -> None:
    for seed in range(3):
        excess, copied = 0.0, 0
        for question in module.questions(random.Random(seed)):
            given = set(re.findall(r"\d+(?:[.:/]\d+)*", question.prompt))
            options = (question.right, *question.wrong)
            shown = [option for option in options if re.fullmatch(r"[\d.:/]+", option) and option in given]
            if shown:
                copied += 1
                excess += (question.right in shown) / len(shown) - 1 / len(options)
        assert copied >= 8
        assert abs(excess) / copied < 0.06
