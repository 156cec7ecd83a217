from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forgetwatch.errors import GateError
from forgetwatch.files import Plain
from forgetwatch.files import parse_plain_yaml as parse


def parse_plain_yaml(text: str, source: str) -> Plain:
    return parse(text, source, "a gate in YAML", GateError)


def test_every_scalar_stays_the_text_in_the_file() -> None:
    text = "a: 017\nb: no\nc: 2%\nd: [null, 1:30, 2026-01-01, 'q', 1e3]\ne: !!int 3\n"
    assert parse_plain_yaml(text, "g") == {
        **{"a": "017", "b": "no", "c": "2%"},
        **{"d": ["null", "1:30", "2026-01-01", "q", "1e3"], "e": "3"},
    }
    assert parse_plain_yaml("", "g") == ""


def test_a_tag_makes_no_object() -> None:
    assert parse_plain_yaml("!!python/object/apply:os.system ['true']", "g") == ["true"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1\na: 2", "g, line 2: 'a' is there twice"),
        ("a: {b: 1, b: 2}", "'b' is there twice"),
        ("a: &x [1]\nb: *x", "g, line 2: anchors are not read"),
        ("a: &x [*x]", "anchors are not read"),
        ("[1]: 2", "needed a text as the key"),
        ("a: [1", "g: needed a gate in YAML, and it is not YAML"),
        ("a: 1\n--- \nb: 2", "it is not YAML: expected a single document"),
        ("a: \x07", "needed a gate in YAML"),
        (r'a: "\U99999999"', "needed a gate in YAML"),
        ("[" * 5000, "g, line 1: nested more than 20 deep"),
    ],
)
def test_refused_yaml_is_an_error_with_its_line(text: str, says: str) -> None:
    with pytest.raises(GateError, match=says):
        parse_plain_yaml(text, "g")


@given(st.one_of(st.text(), st.text(alphabet="a:-[]{}&*!|>%'\"#,? \n\t\\U0")))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        read = parse_plain_yaml(text, "g")
    except GateError:
        return
    assert isinstance(read, (str, list, dict))
