"""Questions of other tools' logs as text, and the pass that keeps some of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forgetwatch import load_snapshot
from forgetwatch.readers import QuestionStore, QuestionText
from forgetwatch.readers.log import question_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (["Why?", ["because"], ["a", "b"]], QuestionText(prompt="Why?", choices=("a", "b"), answers=("because",))),
        (
            [{"passage": "Long ago.", "question": "When?"}, "1"],
            QuestionText(prompt="Long ago.\n\nWhen?", answers=("1",)),
        ),
        (
            [[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}], "x"],
            QuestionText(prompt="user: Hi\n\nassistant: Ho", answers=("x",)),
        ),
        (
            [{"ctx": "A man", "endings": ["sits", "runs"]}, 1],
            QuestionText(prompt="A man", choices=("sits", "runs"), answers=("1",)),
        ),
        ([{"odd": 1}, "y"], QuestionText(prompt='{\n "odd": 1\n}', answers=("y",))),
    ],
)
def test_common_documents_give_prompt_choices_and_answers(question: Any, expected: QuestionText) -> None:
    assert question_text(question) == expected


@settings(derandomize=True, max_examples=200)
@given(JSON)
def test_any_document_has_a_prompt(question: Any) -> None:
    assert isinstance(question_text(question).prompt, str)


def test_only_the_questions_that_are_wanted_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "samples_t_2026-01-01T00-00-00.jsonl"
    rows = [
        {
            "doc_id": n,
            "doc": {"question": f"Q{n}?"},
            "target": "0",
            "resps": [["x"]],
            "filter": "none",
            "exact_match": n % 2,
        }
        for n in range(5)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hashes = load_snapshot(path).texts("content_hash")
    store = QuestionStore([hashes[3]])
    load_snapshot(path, kept=store)
    assert {content_hash: text.prompt for content_hash, text in store.texts.items()} == {hashes[3]: "Q3?"}
