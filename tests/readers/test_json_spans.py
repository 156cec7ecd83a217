"""Skipping through JSON finds the same values as reading it whole."""

from __future__ import annotations

import contextlib
import json
import tracemalloc
from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetwatch.readers import json_pieces, spans

SMALL = json_pieces._SMALL


def picked(data: bytes, wanted: Collection[str]) -> dict[str, Any]:
    """The picked members, which a small and a large object must give alike."""
    # Spaces make an object large, so that it is stepped through.
    large = data[:1] + b" " * SMALL + data[1:]
    stepped = json_pieces.pick(large, 0, len(large), wanted)
    assert json_pieces.pick(data, 0, len(data), wanted) == stepped
    return stepped


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.dictionaries(st.text(), VALUES), st.booleans(), st.sampled_from([None, 1]))
def test_picked_members_are_those_of_json(document: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    data = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")
    if not ascii_only and any("\ud800" <= mark <= "\udfff" for mark in data.decode("utf-8", "surrogatepass")):
        return
    assert picked(data, document) == document
    assert picked(data, set(list(document)[:1])) == {name: document[name] for name in list(document)[:1]}


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(VALUES))
def test_the_spans_of_a_list_are_its_elements(document: list[Any]) -> None:
    data = json.dumps(document).encode()
    assert [json.loads(data[start:end]) for _, start, end in spans(data, 0)] == document


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.data())
def test_a_cut_or_damaged_text_is_a_value_error_or_read(data: st.DataObject) -> None:
    text = bytearray(b'{"id": 7, "input": "a \\"b\\" [", "scores": {"match": {"value": [1, 2.5, null]}}, "x": {}}')
    for _ in range(data.draw(st.integers(0, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        assert picked(bytes(text[: data.draw(st.integers(0, len(text)))]), ("id", "input", "scores", "x")) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needed an object or a list, got b'' at byte 0"),
        ('{"a": 1', r"needed ',', got b'' at byte 7"),
        ('{"a" 1}', r"needed ':', got b'1}' at byte 5"),
        ('{"a": "b', "needed a value"),
        ('{"a": [[{"b": "]"}]', "that begins at byte 6 has no end"),
        ('{"a": tru}', "Expecting value"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"a": [' + "0," * 600_000 + "0]}", "holds more than 500,000 values"),
    ],
)
def test_an_error_names_its_cause(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        json_pieces.pick(text.encode(), 0, SMALL + 1, ("a",))


def test_skipped_members_use_no_memory() -> None:
    events = '[{"tokens": [1, 2, 3], "text": "\\u00e4"}, [], {}]'
    data = ('{"events": [' + ",".join([events] * 20_000) + '], "id": 3}').encode()
    tracemalloc.start()
    assert json_pieces.pick(data, 0, len(data), ("id",)) == {"id": 3}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**18
