"""IFEval's instructions: each check with an output that follows it and one that does not."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import growth

from forgetwatch import Item
from forgetwatch.errors import ProbeError
from forgetwatch.grading.grader import check_item, grade, ungradable_reason
from forgetwatch.grading.instructions import _CHECKS, UNCHECKED

CASES: list[tuple[str, dict[str, Any], str, str]] = [
    ("keywords:existence", {"keywords": ["Sun", "c++"]}, "the sun and C++", "the sun and C"),
    (
        "keywords:frequency",
        {"keyword": "la", "frequency": 2, "relation": "at least"},
        "La la",
        "la",
    ),
    (
        "keywords:frequency",
        {"keyword": "la", "frequency": 2, "relation": "less than"},
        "la",
        "la la",
    ),
    ("keywords:forbidden_words", {"forbidden_words": ["cat"]}, "concatenate", "A Cat."),
    (
        "keywords:letter_frequency",
        {"letter": "A", "let_frequency": 2, "let_relation": "at least"},
        "Aa",
        "a",
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", "a\n\nb"),
    (
        "length_constraints:number_paragraphs",
        {"num_paragraphs": 2},
        "***\na\n***\nb\n***",
        "a\n***\n***\nb",
    ),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "a b c", "a b"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "well"},
        "a\n\n'Well, so.",
        "a\n\nso well",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a] and [b c]", "[a]"),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.S."},
        "Hi\np. s. more",
        "Hi\nPS more",
    ),
    (
        "detectable_content:postscript",
        {"postscript_marker": "P.P.S"},
        "Hi\nP.P.S more",
        "Hi\nP.S. more",
    ),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n- b", "* a\n** b"),
    ("detectable_format:constrained_response", {}, "My answer is no.", "no."),
    (
        "detectable_format:number_highlighted_sections",
        {"num_highlights": 2},
        "*a* and **b**",
        "*a* and b",
    ),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "PART ", "num_sections": 2},
        "PART 1\na\nPART 2\nb",
        "PART 1\na\npart 2\nb",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{a: 1}"),
    ("detectable_format:title", {}, "<<A title>>\ntext", "<< >>\ntext"),
    ("combination:two_responses", {}, "a\n******\nb", "a\n******\na"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it."}, " say it. It.", "It. Say it."),
    ("startend:end_checker", {"end_phrase": "The end."}, 'So "the end."', "The end. Or not"),
    ("startend:quotation", {}, '"a"', '"'),
    ("punctuation:no_comma", {}, "a b", "a, b"),
]


def item(*instruction: tuple[str, dict[str, Any]]) -> Item:
    return Item(
        id="1", task="ifeval", prompt="Do.", answer=json.dumps(instruction), match="instructions"
    )


@pytest.mark.parametrize(("name", "values", "right", "wrong"), CASES)
def test_an_instruction_is_followed_or_not(
    name: str, values: dict[str, Any], right: str, wrong: str
) -> None:
    instruction = item((name, values))
    check_item(instruction)
    assert grade(instruction, right).correct is True
    assert grade(instruction, wrong).correct is False


def test_every_instruction_has_a_tested_check_or_is_listed_as_unchecked() -> None:
    assert {name for name, *_ in CASES} == set(_CHECKS)
    assert not set(_CHECKS) & set(UNCHECKED)
    assert len(_CHECKS) + len(UNCHECKED) == 25


def test_all_instructions_of_a_prompt_must_be_followed() -> None:
    both = item(("punctuation:no_comma", {}), ("startend:quotation", {}))
    assert grade(both, '"a"').correct is True
    assert grade(both, '"a, b"').correct is False
    assert grade(both, " ").outcome == "no answer"


@pytest.mark.parametrize(
    ("instruction", "why"),
    [
        (("language:response_language", {"language": "de"}), "needs a language detector"),
        (
            ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}),
            "a sentence splitter",
        ),
        (("keywords:colour", {}), "is not known"),
        (("keywords:existence", {}), "comes without keywords"),
    ],
)
def test_an_instruction_without_exact_check_is_unscored_with_its_reason(
    instruction: tuple[str, dict[str, Any]], why: str
) -> None:
    open_item = item(("punctuation:no_comma", {}), instruction)
    assert why in ungradable_reason(open_item)
    graded = grade(open_item, "a, b")
    assert graded.correct is None
    assert graded.outcome.startswith(f"unscored: {instruction[0]}")


@pytest.mark.parametrize("answer", ["x", "[]", "{}", '["a"]', '[["a"]]', '[["a", 1]]'])
def test_an_answer_that_is_no_instruction_list_is_refused(answer: str) -> None:
    wrong = Item(id="1", task="t", prompt="Do.", answer=answer, match="instructions")
    with pytest.raises(ProbeError, match="needs a list of"):
        check_item(wrong)


@given(st.text(), st.sampled_from([case[:2] for case in CASES]))
def test_any_output_is_graded(output: str, instruction: tuple[str, dict[str, Any]]) -> None:
    assert grade(item(instruction), output).correct in (True, False)


PLAIN = {
    "detectable_content:number_placeholders": lambda text: len(re.findall(r"\[.*?\]", text)),
    "detectable_format:number_bullet_lists": lambda text: (
        len(re.findall(r"^\s*\*[^\*].*$", text, re.MULTILINE))
        + len(re.findall(r"^\s*-.*$", text, re.MULTILINE))
    ),
    "detectable_format:title": lambda text: any(
        found.lstrip("<").rstrip(">").strip() for found in re.findall(r"<<[^\n]+>>", text)
    ),
}
"""The checks as the paper's code has them, in one pattern each, which takes quadratic time."""


@given(st.text(st.sampled_from("[]<>*- \n\r\x0ba"), max_size=30), st.integers(0, 4))
def test_a_check_without_its_pattern_decides_as_with_it(text: str, number: int) -> None:
    for name, count in PLAIN.items():
        values = {"num_placeholders": number, "num_bullets": number}
        found = count(text)
        wanted = (
            found
            if name.endswith("title")
            else found >= number
            if "place" in name
            else found == number
        )
        assert _CHECKS[name][0](text, values) == wanted


@pytest.mark.parametrize("piece", ["[", "<<", "\n", " \n", "* ", "-", "*\n", "> "])
def test_the_time_of_no_check_grows_with_the_square_of_the_output(piece: str) -> None:
    for name, values, *_ in CASES:
        assert (
            growth(
                lambda size, name=name, values=values: _CHECKS[name][0](piece * size, values),
                to=10_000,
            )
            < 10
        ), name
