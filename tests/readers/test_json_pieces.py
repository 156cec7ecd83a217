"""JSON in pieces is equal to JSON read at once, for every position of the cuts."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetwatch.errors import SnapshotError
from forgetwatch.readers import Document, first_object, json_lines, json_pieces

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
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


@given(value=VALUES, chunk=st.integers(1, 9), indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
@settings(max_examples=150, derandomize=True)
def test_a_document_is_the_same_in_pieces_and_at_once(
    value: Any, chunk: int, indent: int | None, ascii_only: bool
) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "_CHUNK", chunk)
        path = Path(folder) / "a.json"
        path.write_text(json.dumps(value, indent=indent, ensure_ascii=ascii_only), encoding="utf-8", errors="replace")
        expected = json.loads(path.read_text(encoding="utf-8"))
        for read in (in_pieces, Document.value):
            with Document(path) as document:
                assert read(document) == expected
                document.end()


@given(value=st.dictionaries(st.text("ab", max_size=3), VALUES, min_size=1), chunk=st.integers(1, 9), data=st.data())
@settings(max_examples=100, derandomize=True)
def test_a_cut_document_is_refused_in_pieces_and_at_once(value: Any, chunk: int, data: st.DataObject) -> None:
    content = json.dumps(value).encode()
    content = content[: data.draw(st.integers(0, len(content) - 1))]
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_pieces, "_CHUNK", chunk)
        path = Path(folder) / "a.json"
        path.write_bytes(content)
        for read in (in_pieces, Document.value):
            with Document(path) as document, pytest.raises(SnapshotError, match="is the file cut"):
                read(document)


@pytest.mark.parametrize(
    "text", ['{"a": 1 "b": 2}', '{"a" 1}', "{1: 2}", "[1 2]", "[1, 2}", '{"a": tru}', "[1, 2", '{"a"}', "", '["\x01"]']
)
def test_invalid_json_is_refused_in_pieces(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with Document(path) as document, pytest.raises(SnapshotError, match=r"a.json: needed .*\(near byte \d+\)"):
        in_pieces(document)


def test_text_after_the_document_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[1] \n [2]")
    with Document(path) as document:
        assert in_pieces(document) == [1]
        with pytest.raises(SnapshotError, match=r"needed the end of the document, got '\[2\]' \(near byte 6\)"):
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
        ('{"a": 1, "b": [2]}\n{"c": 3}', (False, {"a": "1", "b": "["})),
        ('[{"a": "x"}, {"b": 1}]', (True, {"a": '"'})),
        ('{"a": {}, "samples": {"never', (False, {"a": "{", "samples": "{"})),
        ('{"a": 1, "b', (False, {"a": "1"})),
        ("[]", (True, {})),
        ("3", (False, {})),
    ],
)
def test_the_first_object_of_a_file_is_found_in_every_layout(
    tmp_path: Path, text: str, found: tuple[bool, dict[str, str]]
) -> None:
    path = tmp_path / "a"
    path.write_text(text)
    assert first_object(path) == found
