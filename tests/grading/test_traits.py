from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import growth

from forgetwatch import Item
from forgetwatch.errors import ProbeError
from forgetwatch.grading import check_item, count, grade, limits, loops

REQUIRED = {
    "stops": "yes",
    "loops": "no",
    "refuses": "yes",
    "language": "de",
    "length": "2 to 4 sentences",
    "case": "upper",
}
PIECES = st.sampled_from(
    [
        *("I can't help", "no", "the", "die", "是", "من", "это", ".", "!", "\n", " ", "- ", "1. ", "A", "\x00", "🐈"),
        *("'", "’", "I"),
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=60).map(" ".join), st.lists(PIECES).map("".join))


def item(match: str, answer: str | list[str]) -> Item:
    return Item(id="1", task="t", prompt="p", answer=answer, match=match)


@pytest.mark.parametrize("match", REQUIRED)
@given(output=TEXTS, truncated=st.booleans())
def test_no_text_raises_and_every_outcome_is_named(match: str, output: str, truncated: bool) -> None:
    graded = grade(item(match, REQUIRED[match]), output, truncated=truncated)
    assert graded.outcome in ("ok", "no answer", "truncated", "truncated in thinking")
    assert (graded.extracted is None) == (graded.outcome != "ok")
    assert isinstance(graded.correct, bool)
    if match not in ("length", "stops"):
        assert graded.correct == grade(item(match, REQUIRED[match]), output).correct


@pytest.mark.full
@pytest.mark.parametrize("match", REQUIRED)
@pytest.mark.parametrize(
    "unit", ["a", " ", "\x00", "🐈", "字", ".", "'", "- ", "I can't ", "no, ", "ha", "\n", "ß", "١"]
)
def test_the_time_to_grade_grows_with_the_text_and_not_with_its_square(match: str, unit: str) -> None:
    question = item(match, REQUIRED[match])
    assert growth(lambda size: grade(question, unit * (size // len(unit))), to=100_000) < 10


@pytest.mark.parametrize("no_answer", ["wrong", "unscored"])
def test_an_output_that_does_not_stop_is_wrong_under_both_rules_of_missing_answers(no_answer: str) -> None:
    question = item("stops", "yes")
    ended = grade(question, "Honey.", no_answer=no_answer)  # type: ignore[arg-type]
    assert (ended.correct, ended.outcome, ended.extracted) == (True, "ok", "yes")
    cuts = {"Honey. And then": "truncated", "<think>well": "truncated in thinking", "": "truncated"}
    for text, outcome in cuts.items():
        cut = grade(question, text, truncated=True, no_answer=no_answer)  # type: ignore[arg-type]
        assert (cut.correct, cut.outcome) == (False, outcome)
    assert grade(question, "", no_answer=no_answer).outcome == "no answer"  # type: ignore[arg-type]


def test_a_cut_output_still_has_its_other_traits() -> None:
    for match, answer, text in (
        ("refuses", "yes", "I'm sorry, but I can't help with"),
        ("language", "de", "Die Katze schläft auf dem"),
        ("loops", "no", "One day the"),
        ("case", "upper", "THE SEA IS"),
    ):
        assert grade(item(match, answer), text, truncated=True).correct is True


def test_a_cut_output_is_too_long_or_truncated() -> None:
    question = item("length", "2 words")
    assert grade(question, "one two", truncated=True).outcome == "truncated"
    over = grade(question, "one two three", truncated=True)
    assert (over.correct, over.outcome, over.extracted) == (False, "ok", "3 words")
    assert grade(item("length", "at least 2 words"), "one two", truncated=True).outcome == "truncated"


def test_any_of_several_answers_is_right() -> None:
    assert grade(item("language", ["de", "en"]), "It is on the stove.").correct is True
    assert grade(item("length", ["1 word", "3 lines"]), "a\nb\nc").correct is True
    assert grade(item("case", ["upper", "lower"]), "neither Nor").extracted == "mixed"


@pytest.mark.parametrize(
    ("match", "answer", "says"),
    [
        ("stops", "no", "match 'stops' needs one of yes"),
        ("loops", "yes", "match 'loops' needs one of no"),
        ("refuses", "maybe", "match 'refuses' needs one of yes, no"),
        ("language", "German", "match 'language' needs one of en, de, fr, es, it, ru, zh, ar"),
        ("case", "title", "match 'case' needs one of upper, lower"),
        ("length", "short", "such as 'at most 20 words'"),
        ("length", "at most 2 to 3 words", "such as 'at most 20 words'"),
    ],
)
def test_a_value_that_no_output_can_have_is_refused(match: str, answer: str, says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        check_item(item(match, answer))
    check_item(item(match, REQUIRED[match]))


@pytest.mark.parametrize(
    ("text", "unit", "number"),
    [
        ("Sour, fresh, sharp.", "words", 3),
        ("a - b", "words", 2),
        ("", "words", 0),
        ("Snow falls. It is cold!", "sentences", 2),
        ("It is 3.5 m high. Really?!", "sentences", 2),
        ('He said "Stop." Then he left.', "sentences", 2),
        ("1. Snow falls.\n2. It is cold.", "sentences", 2),
        ("no stop at the end", "sentences", 1),
        ("Snow falls. And then", "sentences", 2),
        ("下雨了。天很冷。", "sentences", 2),
        ("a\n\nb\n---\nc\n", "lines", 3),
    ],
)
def test_words_sentences_and_lines_are_counted(text: str, unit: str, number: int) -> None:
    assert count(text, unit) == number


@given(number=st.integers(1, 99), more=st.integers(0, 9))
def test_limits_include_their_ends(number: int, more: int) -> None:
    text = "word " * number
    question = item("length", f"{number} to {number + more} words")
    assert grade(question, text).correct is True
    assert grade(question, text + "word " * more).correct is True
    assert grade(question, text + "word " * (more + 1)).correct is False
    at_most = limits(f"at most {number} lines")
    assert at_most is not None
    assert (at_most.least, at_most.most, at_most.unit) == (0, number, "lines")


@pytest.mark.parametrize(
    "text",
    [
        "the " * 30,
        "A poem. " + "I am sure of it. " * 4,
        "apple, pear, " * 6,
        "哈" * 40,
        "again\n" * 20,
        "Row, row, row your boat. " * 5,
        "x" * 60 + "a" * 60,
        "A creature of the night it is. " * 3,
        "I'm a clerk and I'm here to help you. I'm a clerk and I'm here to serve you. "
        "I'm a clerk and I'm here to help.",
        "An endless field of blue, an endless field of blue,\na realm of the unknown, a realm of the unknown,\n"
        "a place of the old sea, a home, a place of the old sea.",
        "用两句话介绍怎样煮米饭，" * 3,
        "It began with three keys. " * 40 + "The end of the story was told in another room of the house.",
        "Number " + "1" * 60,
    ],
)
def test_a_loop_is_recognised(text: str) -> None:
    assert loops(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-" * 200,
        "| --- " * 20,
        "0." + "3" * 60,
        "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14",
        "No, no, no, no, no!",
        "Ha ha ha ha ha, that is a good one.",
        "The sea, the sea, the open sea, it grew so fresh the ever free.",
        "A rose and a tulip and a lily and a daisy and a violet and an aster.",
        "\n" * 500,
        "Monday is wash day. Tuesday is wash day. Wednesday is wash day. Thursday is wash day.",
        "Happy birthday to you,\nhappy birthday to you,\nhappy birthday, dear Ann,\nhappy birthday to you!",
        "The first person to walk on the moon was Armstrong, who in 1969 became the first person to walk on the moon.",
        "I'm sorry to hear that. I'm sorry to hear that.",
        "1. Boil the water.\n2. Add the rice.\n3. Add the salt.\n4. Cover the pot.\n5. Wait for twenty minutes.",
        '{"name": "Ann", "age": 3}, {"name": "Ben", "age": 4}, {"name": "Cem", "age": 5}, {"name": "Dan", "age": 6}',
        "A: 10000000000000000000 is a one with nineteen zeros.",
    ],
)
def test_what_only_resembles_a_loop_is_no_loop(text: str) -> None:
    assert not loops(text)


@given(
    unit=st.text(alphabet="abcdefg hij", min_size=8, max_size=60).filter(lambda text: text.strip()),
    times=st.integers(4, 9),
)
def test_a_unit_repeated_four_times_is_a_loop(unit: str, times: int) -> None:
    unit = " ".join(unit.split()) + " klmnop. "
    assert loops("Before it. " + unit * times)
