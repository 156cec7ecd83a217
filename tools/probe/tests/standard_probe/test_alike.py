"""Questions that give each other away across categories, and prompts that are nearly the same."""

from __future__ import annotations

from standard_probe.alike import near_duplicates, tie
from standard_probe.question import Category, Question


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
    made = [one for pool in tie(pools).values() for one in pool]
    assert [one.prompt for one in made] == [one.prompt for one in sorted(questions, key=lambda one: one.category)]
    return bool(frozenset.intersection(*(one.uses for one in made)))


def test_the_same_answer_and_a_rare_word_tie() -> None:
    first = question("Knowledge/QA", "To whom do we owe the smallpox vaccine?", "Edward Jenner")
    assert shared(first, question("Science/Tech", "Who tested the first smallpox vaccine?", "Edward Jenner"))
    assert not shared(first, question("Science/Tech", "Who was born in Berkeley?", "Edward Jenner"))
    assert not shared(first, question("Science/Tech", "Who made the vaccine against rabies?", "Louis Pasteur"))


def test_questions_that_name_each_others_answers_are_tied() -> None:
    first = question("Culture", "Whose cooking is pad thai?", "Thailand")
    assert not shared(first, question("Language", "What belongs to Thailand?", "Siamese"))
    assert shared(first, question("Language", "What dish belongs to Thailand?", "pad thai"))


def test_one_question_in_two_categories_is_tied_with_any_article() -> None:
    first = question("Knowledge/QA", "What is a group of sheep called?", "flock")
    assert shared(first, question("Language", "What is a group of sheep called?", "a flock"))


def test_yes_or_no_answers_and_one_category_are_not_tied() -> None:
    first = question("Logic", "Is a tortoise a reptile?", "yes")
    assert not shared(first, question("Science/Tech", "Does a tortoise sleep?", "yes"))
    assert not shared(
        question("Logic", "Who tested the smallpox vaccine?", "Edward Jenner"),
        question("Logic", "Who made the smallpox vaccine?", "Edward Jenner"),
    )


def test_near_duplicates_are_found_and_different_prompts_are_not() -> None:
    prompts = ["Which gas do plants take in?", "Which gas do plants take  in", "Who painted it?", "A", "B"]
    assert [pair[1:] for pair in near_duplicates(prompts)] == [(prompts[0], prompts[1])]


def test_the_most_alike_come_first_and_the_overlap_is_shared_over_all_pieces() -> None:
    found = near_duplicates(["abcdefgh", "abcdefgx", "abcdefgh "], least=0.1)
    assert [overlap for overlap, *_ in found] == [1.0, 0.67, 0.67]


def test_a_thousand_prompts_of_one_form_take_seconds() -> None:
    prompts = [f"What is {number} times {number * 7 % 83}?" for number in range(1000)]
    assert all(overlap >= 0.99 for overlap, *_ in near_duplicates(prompts, least=0.99))
