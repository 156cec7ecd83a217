"""Open answers as people write them: several in a cell, with quotes and articles, yes and no."""

from typing import Any

import pytest

from forgetwatch import Probe
from forgetwatch.grading.grader import grade
from forgetwatch.item import Item
from forgetwatch.probes.answer_key import bare_answer
from forgetwatch.probes.question_table import probe_from


def made(*answers: Any) -> Probe:
    return probe_from(
        [{"question": f"Question {n}?", "answer": answer} for n, answer in enumerate(answers)]
    )


@pytest.mark.parametrize(
    ("answers", "right", "wrong", "words"),
    [
        (
            ("Paris|Paris City", "Rome|Roma", "Lima"),
            ("Paris.", "in Paris City"),
            ("Rome",),
            "several between '|'",
        ),
        (("the Seine; Seine", "a; b"), ("The Seine.",), ("a",), "several between ';'"),
        (("Santu / the Santu", "x / y"), ("Santu",), ("x",), "several between '/'"),
        (("3 or 4", "5 or 6"), ("4", "It is 3"), ("5",), "several between 'or'"),
        (('"Santu"', "«Lima»"), ("It is Santu, of course",), ("Lima",), "answer: answer"),
        (("Santu.", "Lima."), ("Santu, I think",), ("Lima",), "answer: answer"),
        (("the Santu", "an ox"), ("Santu",), ("ox",), "answer: answer"),
        (("Mercury (planet)", "Mars"), ("Mercury",), ("planet",), "answer: answer"),
        (("The Who", "Blur"), ("It was The Who",), ("Who knows",), "answer: answer"),
        (("U.S.", "C++"), ("the U.S.",), ("us",), "answer: answer"),
        (("1/2 or so", "x"), ("1/2 or so",), (), "answer: answer"),
    ],
)
def test_an_answer_is_what_its_cell_means(
    answers: tuple[str, ...], right: tuple[str, ...], wrong: tuple[str, ...], words: str
) -> None:
    probe = made(*answers)
    assert words in probe.plan
    assert [grade(probe[0], output).correct for output in right] == [True] * len(right)
    assert [grade(probe[0], output).correct for output in wrong] == [False] * len(wrong)


@pytest.mark.parametrize(
    ("answers", "options", "keys"),
    [
        (("Yes.", "no", "NO"), (" yes", " no"), [0, 1, 1]),
        (("True", "false"), (" true", " false"), [0, 1]),
        ((True, False), (" yes", " no"), [0, 1]),
    ],
)
def test_yes_and_no_are_options(
    answers: tuple[Any, ...], options: tuple[str, ...], keys: list[int]
) -> None:
    probe = made(*answers)
    assert {item.choices for item in probe} == {options}
    assert [item.answers[0] for item in probe] == keys
    assert "the right one in answer" in probe.plan


def test_a_word_is_not_found_in_a_sentence_that_begins_with_its_opposite() -> None:
    item = Item(id="1", task="t", prompt="p", answer="No", match="contains")
    assert grade(item, "No, it is dry.").correct is True
    assert grade(item, "Yes, no doubt about it.").correct is False
    assert grade(item, "There is no water.").correct is True


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("'x'", "x"),
        ("(x)", "(x)"),
        ("The", "The"),
        ("...", "..."),
        ("x (y) z", "x (y) z"),
        ("A b!", "b"),
    ],
)
def test_a_bare_answer_is_never_empty(text: str, bare: str) -> None:
    assert bare_answer(text) == bare
