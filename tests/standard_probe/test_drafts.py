from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from standard_probe.drafts import choose_wrong, decimal, near, numeric, topic, worded, yes_or_no


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
