"""Regular expressions from files: what they match is what `re` matches, and no search takes more than its time."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch import Item
from forgetwatch.errors import ProbeError
from forgetwatch.grading import patterns
from forgetwatch.grading.grader import check_item, grade
from forgetwatch.grading.output_text import tail

SLOW = ("(a|aa)+$", "a" * 60 + "b")
HOSTILE = [
    SLOW,
    ("(a+)+$", "a" * 40 + "b"),
    ("a?" * 30 + "a" * 30 + "$", "a" * 29 + "c"),
    ("(a|aa)" * 30 + "b", "a" * 60),
    ("(?=(a+)+b)", "a" * 4000),
    ("a?b?" * 20 + "(?:ab){20}$", "ab" * 20 + "c"),
    ("(?:a|aa)(?:aa|a)" * 20 + "$", "a" * 50 + "c"),
    ("[\x00-\uffff]" * 1900 + "b", "a" * 4000),
    ("(.*)(.*)(.*)(.*)x", "a" * 4000),
]
"""(Pattern, text on which a matcher may take for ever)."""
REPEATED = [
    "(?:a{30000}){9000}",
    "(?:a{30000,}){9000,}",
    "(?x)((ab) {3000}) {3000}",
    "((a{1,1000}){1,1000}){1,1000}b",
    "(?:" * 30 + "a" + "{1,1000})" * 30 + "b",
    "(?:(?:(?:(?:x?){1000}){1000}){1000}){1000}b",
    "(?:a{0,65535}){0,65535}b",
]
"""Patterns that take gigabytes when they are compiled or searched."""


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.1)
    patterns._timed_out.clear()


def by_pattern(pattern: str) -> Item:
    return Item(id="1", task="t", prompt="p", answer=pattern, match="regex")


@pytest.mark.parametrize(("pattern", "text"), HOSTILE, ids=[pattern[:20] for pattern, _ in HOSTILE])
def test_no_search_takes_much_more_than_its_time(pattern: str, text: str) -> None:
    began = time.process_time()
    graded = grade(by_pattern(pattern), text)
    assert time.process_time() - began < 20 * patterns.SECONDS
    assert graded.outcome in ("ok", "unscored: its pattern took longer than 0.1 s")


@pytest.mark.parametrize("pattern", REPEATED, ids=[pattern[:20] for pattern in REPEATED])
def test_repeats_within_repeats_are_refused_before_they_are_compiled(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns.regex, "compile", lambda *_: pytest.fail("compiled"))
    with pytest.raises(ProbeError, match="needed at most 100,000; write smaller counts"):
        check_item(by_pattern(pattern))


def test_an_item_whose_pattern_reaches_the_limit_is_unscored() -> None:
    pattern, text = SLOW
    for item in (
        by_pattern(pattern),
        Item(id="2", task="t", prompt="p", answer="a", match=f"regex:{pattern}"),
    ):
        check_item(item)
        graded = grade(item, text)
        assert (graded.correct, graded.outcome) == (
            None,
            "unscored: its pattern took longer than 0.1 s",
        )
        assert grade(item, text, truncated=True).correct is None


def test_a_pattern_that_is_slow_on_many_outputs_is_given_up_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(patterns, "_TIMEOUTS", 2)
    slow, other = by_pattern(SLOW[0]), by_pattern("a+")
    outcomes = [grade(slow, text).outcome for text in (SLOW[1], "aa", SLOW[1], "aa")]
    limit = "unscored: its pattern took longer than 0.1 s"
    assert outcomes == [limit, "ok", limit, f"{limit} on 2 outputs before"]
    assert grade(other, "aa").correct


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "missing \\)"),
        ("(" * 3000 + ")" * 3000, "recursion"),
        ("(?u)(?a)x", "mutually incompatible"),
        ("(?:(?R)|a)*", "it calls itself"),
    ],
)
def test_a_text_that_is_no_pattern_is_refused(pattern: str, says: str) -> None:
    with pytest.raises(ProbeError, match=says):
        patterns.check_pattern(pattern)


def test_a_pattern_that_is_too_long_is_refused_and_the_message_is_short() -> None:
    with pytest.raises(ProbeError, match="at most 10,000 characters, got 10,001") as caught:
        patterns.check_pattern("a" * 10_001)
    assert len(str(caught.value)) < 400


ATOMS = [
    *(r"\w", r"\d", r"\s", r"\W", r"\b", "a", "b", "i", "ß", "é", "1", " ", "\n", ".", "^", "$"),
    *(
        r"\A",
        r"\Z",
        "[a-c]",
        "[^a]",
        r"[\w-]",
        "(a)",
        "(b|a)",
        "(?:ab)",
        "(?=a)",
        "(?<!b)",
        "(?>a+)",
        "[i-k]",
    ),
]
REPEATS = ["", "", "", "*", "+", "?", "*?", "{2}", "{1,2}"]
PATTERNS = st.lists(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(REPEATS)).map("".join), max_size=5
).map("".join)


@given(pattern=PATTERNS, text=st.text(st.sampled_from("aAbBißé1 _\n.-"), max_size=12))
def test_what_matches_is_what_re_matches(pattern: str, text: str) -> None:
    try:
        made = re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    except re.error:
        return
    *_, last = (None, *made.finditer(tail(text)))
    wanted = None if last is None else last[1] if made.groups and last[1] is not None else last[0]
    found = patterns._last(text, pattern)
    assert (found.text if found else None) == wanted
