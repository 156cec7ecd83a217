"""Questions that give each other away across categories."""

from __future__ import annotations

from standard_probe.question import Category, Question
from standard_probe.tied import tied


def question(category: Category, prompt: str, right: str) -> Question:
    return Question(
        prompt=prompt,
        right=right,
        wrong=("something else",),
        category=category,
        topic="t",
        difficulty=1,
        uses=frozenset({prompt}),
        source="computed",
    )


def shared(*questions: Question) -> bool:
    pools: dict[str, list[Question]] = {}
    for one in questions:
        pools.setdefault(one.category, []).append(one)
    made = [one for pool in tied(pools).values() for one in pool]
    assert [one.prompt for one in made] == [one.prompt for one in sorted(questions, key=lambda one: one.category)]
    return bool(frozenset.intersection(*(one.uses for one in made)))


def test_the_same_answer_and_a_rare_word() -> None:
    first = question("Knowledge/QA", "To whom do we owe the smallpox vaccine?", "Edward Jenner")
    assert shared(first, question("Science/Tech", "Who tested the first smallpox vaccine?", "Edward Jenner"))
    assert not shared(first, question("Science/Tech", "Who was born in Berkeley?", "Edward Jenner"))
    assert not shared(first, question("Science/Tech", "Who made the vaccine against rabies?", "Louis Pasteur"))


def test_each_names_the_answer_of_the_other() -> None:
    first = question("Culture", "Whose cooking is pad thai?", "Thailand")
    assert not shared(first, question("Language", "What belongs to Thailand?", "Siamese"))
    assert shared(first, question("Language", "What dish belongs to Thailand?", "pad thai"))


def test_one_question_under_two_categories_whatever_its_article() -> None:
    first = question("Knowledge/QA", "What is a group of sheep called?", "flock")
    assert shared(first, question("Language", "What is a group of sheep called?", "a flock"))


def test_yes_and_no_and_one_category_are_left_alone() -> None:
    first = question("Logic", "Is a tortoise a reptile?", "yes")
    assert not shared(first, question("Science/Tech", "Does a tortoise sleep?", "yes"))
    assert not shared(
        question("Logic", "Who tested the smallpox vaccine?", "Edward Jenner"),
        question("Logic", "Who made the smallpox vaccine?", "Edward Jenner"),
    )
