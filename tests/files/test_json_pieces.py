"""JSON in pieces is equal to JSON read at once, for every position of the cuts, in files and in memory."""

import contextlib
import json
import tracemalloc
from collections.abc import Collection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetwatch.errors import SnapshotError
from forgetwatch.files import json_pieces
from forgetwatch.files.json_pieces import Document, first_object, spans
from forgetwatch.files.rows import json_lines

VALUES = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def in_pieces(document: Document) -> Any:
    """The document, every object and array gone through step by step."""
    first = document.peek()
    if first == "{":
        return {name: in_pieces(document) for name in document.members()}
    if first == "[":
        return [in_pieces(document) for _ in document.elements()]
    return document.value()


@given(
    value=VALUES,
    chunk=st.integers(1, 9),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
)
@settings(max_examples=150, derandomize=True)
def test_a_document_is_the_same_in_pieces_and_at_once(
    value: Any, chunk: int, indent: int | None, ascii_only: bool
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "CHUNK", chunk)
        path = Path(folder) / "a.json"
        path.write_text(
            json.dumps(value, indent=indent, ensure_ascii=ascii_only),
            encoding="utf-8",
            errors="replace",
        )
        expected = json.loads(path.read_text(encoding="utf-8"))
        for read in (in_pieces, Document.value):
            with Document(path) as document:
                assert read(document) == expected
                document.end()


@given(
    value=st.dictionaries(st.text("ab", max_size=3), VALUES, min_size=1),
    chunk=st.integers(1, 9),
    data=st.data(),
)
@settings(max_examples=100, derandomize=True)
def test_a_cut_document_is_refused_in_pieces_and_at_once(
    value: Any, chunk: int, data: st.DataObject
) -> None:
    content = json.dumps(value).encode()
    content = content[: data.draw(st.integers(0, len(content) - 1))]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "CHUNK", chunk)
        path = Path(folder) / "a.json"
        path.write_bytes(content)
        for read in (in_pieces, Document.value):
            with Document(path) as document, pytest.raises(SnapshotError, match="is the file cut"):
                read(document)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1 "b": 2}',
        '{"a" 1}',
        "{1: 2}",
        "[1 2]",
        "[1, 2}",
        '{"a": tru}',
        "[1, 2",
        '{"a"}',
        "",
        '["\x01"]',
    ],
)
def test_invalid_json_is_refused_in_pieces(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with (
        Document(path) as document,
        pytest.raises(SnapshotError, match=r"a.json: needed .*\(near byte \d+\)"),
    ):
        in_pieces(document)


def test_text_after_the_document_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[1] \n [2]")
    with Document(path) as document:
        assert in_pieces(document) == [1]
        with pytest.raises(
            SnapshotError, match=r"needed the end of the document, got '\[2\]' \(near byte 6\)"
        ):
            document.end()


def test_lines_are_numbered_and_empty_ones_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}\r\n\n  \n[2]\n"\xe2\x80\xa8"')
    assert list(json_lines(path)) == [(1, {"a": 1}), (4, [2]), (5, "\u2028")]
    path.write_bytes(b"1\n2 3\n")
    with pytest.raises(SnapshotError, match=r"a.jsonl, line 2: not a JSON object \(Extra data"):
        list(json_lines(path))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"a": 1, "b": [2]}\n{"c": 3}', {"a": "1", "b": "["}),
        ('[{"a": "x"}, {"b": 1}]', {"a": '"'}),
        ('{"a": {}, "samples": {"never', {"a": "{", "samples": "{"}),
        ('{"a": 1, "b', {"a": "1"}),
        ("[]", {}),
        ("3", {}),
    ],
)
def test_the_first_object_of_a_file_is_found_in_every_layout(
    tmp_path: Path, text: str, found: dict[str, str]
) -> None:
    path = tmp_path / "a"
    path.write_text(text)
    assert first_object(path) == found


SMALL = json_pieces._SMALL


def picked(data: bytes, wanted: Collection[str]) -> dict[str, Any]:
    """The picked members, which a small and a large object must give alike."""
    # Spaces make an object large, so that it is stepped through.
    large = data[:1] + b" " * SMALL + data[1:]
    stepped = json_pieces.pick(large, 0, len(large), wanted)
    assert json_pieces.pick(data, 0, len(data), wanted) == stepped
    return stepped


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.dictionaries(st.text(), VALUES), st.booleans(), st.sampled_from([None, 1]))
def test_picked_members_are_those_of_json(
    document: dict[str, Any], ascii_only: bool, indent: int | None
) -> None:
    data = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode(
        "utf-8", "surrogatepass"
    )
    if not ascii_only and any(
        "\ud800" <= mark <= "\udfff" for mark in data.decode("utf-8", "surrogatepass")
    ):
        return
    assert picked(data, document) == document
    assert picked(data, set(list(document)[:1])) == {
        name: document[name] for name in list(document)[:1]
    }


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.lists(VALUES))
def test_the_spans_of_a_list_are_its_elements(document: list[Any]) -> None:
    data = json.dumps(document).encode()
    assert [json.loads(data[start:end]) for _, start, end in spans(data, 0)] == document


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.data())
def test_a_cut_or_damaged_text_is_a_value_error_or_read(data: st.DataObject) -> None:
    text = bytearray(
        b'{"id": 7, "input": "a \\"b\\" [", "scores": {"match": {"value": [1, 2.5, null]}}, "x": {}}'
    )
    for _ in range(data.draw(st.integers(0, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        assert (
            picked(
                bytes(text[: data.draw(st.integers(0, len(text)))]), ("id", "input", "scores", "x")
            )
            is not None
        )


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
