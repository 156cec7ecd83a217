"""Properties of grading that hold for every text: no exception, one grade per text, a planted answer is extracted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch import Item
from forgetwatch.grading import Grade, after_thinking, find_numbers, fold, grade, normalise_numbers, tail

CALL = '{"name": "f", "arguments": {"x": 1}}'
ITEMS = [
    Item(id="choices", task="t", prompt="p", choices=(" x", " a dog", "5", "-"), answer=1),
    *(
        Item(id=match, task="t", prompt="p", answer=answer, match=match)
        for match, answer in {
            "exact": "Lima",
            "exact:fold": "Lima",
            "contains": "Lima",
            "number": "42",
            "letter": "B",
            "regex": r"li(ma)?\s*$",
            r"regex:is (\w+)": "Lima",
            "json": '{"a": 1}',
            "json:keys": '["a"]',
            "tool_call": CALL,
            "boxed": r"\frac12",
        }.items()
    ),
]
PIECES = st.sampled_from(
    [
        *("Answer:", "answer is", "\\boxed{", "}", "<think>", "</think>", "####", "```json\n", "```", "A", "b", "I"),
        *(
            "a",
            "or",
            "not",
            ",",
            ".",
            "\n",
            " ",
            "42",
            "1,5",
            "-",
            "½",
            "1/2",
            "%",
            "{",
            "[",
            '"',
            "a",
            ":",
            "(",
            ")",
            "²",
        ),
        *("<tool_call>", "</tool_call>", "f(x=", "Lima", "is", "\\", "\u200f", "А", "10^", "e5", "\x00", "字", "🅱️"),
    ]
)
TEXTS = st.one_of(
    st.text(), st.lists(PIECES).map("".join), st.lists(st.one_of(PIECES, st.text(max_size=5))).map(" ".join)
)
PROSE = st.lists(st.one_of(PIECES, st.text()), max_size=20).map(" ".join)


@pytest.mark.parametrize("item", ITEMS, ids=[item.id for item in ITEMS])
@given(output=TEXTS, truncated=st.booleans())
def test_no_text_raises_and_grading_is_deterministic(item: Item, output: str, truncated: bool) -> None:
    graded = grade(item, output, truncated=truncated)
    assert graded == grade(item, output, truncated=truncated)
    assert graded.outcome in ("ok", "no answer", "ambiguous", "truncated", "truncated in thinking")
    assert isinstance(graded.correct, bool)
    if graded.outcome != "ok":
        assert graded == Grade(False, outcome=graded.outcome)
    if item.choices and graded.chosen is not None:
        assert graded.correct == (graded.chosen in item.answers)


@given(
    before=PROSE,
    letter=st.sampled_from("ABCD"),
    form=st.sampled_from(["Answer: {}", "**Answer:** ({})", r"\boxed{{{}}}"]),
)
def test_a_planted_letter_is_extracted_after_any_text(before: str, letter: str, form: str) -> None:
    if after_thinking(before) is None:
        before += "</think>"
    if after_thinking(before) is None:
        return
    graded = grade(ITEMS[0], f"{before}\n\n{form.format(letter)}")
    assert (graded.outcome, graded.chosen, graded.form) == ("ok", "ABCD".index(letter), True)


@given(before=PROSE, value=st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-1e9, max_value=1e9))
def test_a_planted_number_is_extracted_after_any_text(before: str, value: object) -> None:
    if after_thinking(before) is None:
        return
    item = Item(id="1", task="t", prompt="p", answer=str(value), match="number")
    assert grade(item, f"{before}\n#### {value}").correct is True
    assert grade(item, f"{before}\nAnswer: {value:,}").correct is True


@given(before=st.text().filter(lambda text: not set("{[`<") & set(text)))
def test_planted_json_and_calls_are_extracted_after_prose(before: str) -> None:
    by_id = {item.id: item for item in ITEMS}
    assert grade(by_id["json"], f'{before}\n```json\n{{"a": 1}}\n```').correct is True
    assert grade(by_id["tool_call"], f"{before}\n<tool_call>{CALL}</tool_call>").correct is True
    assert grade(by_id["boxed"], f"{before}\n\\boxed{{\\frac12}}").correct is True
    assert grade(by_id["contains"], f"{before}\nLima").correct is True
    assert grade(by_id["regex"], f"{before}\nLima").correct is True


@given(text=st.text(), limit=st.integers(1, 50))
def test_a_tail_is_the_end_of_its_text_and_folding_is_idempotent(text: str, limit: int) -> None:
    assert len(tail(text, limit)) <= limit
    assert text.rstrip().endswith(tail(text, limit))
    assert fold(fold(text)) == fold(text)


@given(value=st.fractions(max_denominator=999, min_value=-(10**12), max_value=10**12))
def test_a_fraction_is_read_exactly(value: object) -> None:
    (number,) = find_numbers(normalise_numbers(f"it is {value} metres"))
    assert number.value == value
