"""Rows of trainings and of other tools, read as questions: keyed, without a header, with a history, labelled."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from forgetwatch import load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.probes.question_table import probe_from

ASKED: Final = {"role": "user", "content": "Where is the ferry?"}
TEXT: Final = {"type": "text", "text": "Santu"}


def test_a_document_may_be_keyed_by_ids(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(
        json.dumps({f"q{at}": {"question": f"Is it {at}?", "answer": f"x{at}"} for at in range(3)})
    )
    assert [(item.id, item.answers) for item in load_probe(path)] == [
        (f"q{at}", (f"x{at}",)) for at in range(3)
    ]


def test_a_file_without_a_header_is_read_by_the_names_given(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("Which town has a ferry?,Santu\nWhich town has a mill?,Orlo\n")
    with pytest.raises(ProbeError, match=r"the first row is no header.*--header question,answer"):
        load_probe(path)
    probe = load_probe(path, header=["question", "answer"])
    assert [item.answers for item in probe] == [("Santu",), ("Orlo",)]
    with pytest.raises(ProbeError, match="needed 2 names of columns, got 1: question"):
        load_probe(path, header=["question"])


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"prompt": "Where is the ferry?", "completion": "Santu", "label": True}, "Santu"),
        ({"prompt": [ASKED], "completion": [{"role": "assistant", "content": "Santu"}]}, "Santu"),
        (
            {
                "instruction": "And the mill?",
                "output": "Orlo",
                "history": [["Where is the ferry?", "x"]],
            },
            "Orlo",
        ),
        (
            {
                "query": "And the mill?",
                "response": "Orlo",
                "history": [["Where is the ferry?", "x"]],
            },
            "Orlo",
        ),
        ({"question": "Where is the ferry?", "__expected": "contains:Santu"}, "Santu"),
        ({"Question Text": "Where is the ferry?", "Correct Answer (one)": "Santu"}, "Santu"),
        ({"messages": [ASKED, {"role": "assistant", "content": [TEXT]}]}, "Santu"),
    ],
)
def test_rows_of_trainings_are_questions(row: dict[str, Any], answer: str) -> None:
    columns = {"answer": "__expected"} if "__expected" in row else None
    probe = probe_from([row | {"id": str(at)} for at in range(3)], columns=columns)
    assert {item.answers for item in probe} == {(answer,)}
    if "history" in row:
        assert [turn["role"] for turn in probe[0].prompt] == ["user", "assistant", "user"]
        assert probe[0].prompt[2]["content"] == "And the mill?"


def test_completions_that_are_labelled_as_wrong_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        {"prompt": f"Is it {at}?", "completion": f"x{at}", "label": at % 2 == 0} for at in range(4)
    ]
    assert [item.answers for item in probe_from(rows)] == [("x0",), ("x2",)]
    assert "2 completions are labelled as wrong, and left out" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["image", "images", "audio_path", "audio", "video.path"])
def test_a_column_of_pictures_or_sound_is_refused_by_name(name: str) -> None:
    rows = [{"question": f"What is it {at}?", "answer": "a cat", name: "a.bin"} for at in range(3)]
    with pytest.raises(ProbeError, match=f"the column '{name}' holds pictures or sound"):
        probe_from(rows)


def test_a_picture_in_a_message_is_refused() -> None:
    asked = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What?"}]}
    rows = [{"messages": [asked, {"role": "assistant", "content": f"x{at}"}]} for at in range(3)]
    with pytest.raises(ProbeError, match="has a place for a picture or sound"):
        probe_from(rows)


def test_a_remark_in_a_name_is_no_part_of_it() -> None:
    names = ["Question - max 80 characters", "Answer 1 - max 20", "Answer 2 - max 20"]
    rows = [
        {
            **dict(zip(names, (f"Is it {at}?", "x", "y"), strict=True)),
            "Correct answer(s) - one": "2",
        }
        for at in range(3)
    ]
    probe = probe_from(rows)
    assert {(item.choices, item.answers) for item in probe} == {((" x", " y"), (1,))}
