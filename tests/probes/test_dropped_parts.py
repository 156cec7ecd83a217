"""Parts of a question that a table has are asked, named, or refused: none is dropped without a word."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from forgetwatch import load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.grading import grade
from forgetwatch.probes import probe_from

CITIES = ["Santiago", "Lima", "Quito", "Paris"]
TURN = {"role": "user", "content": "Which city?"}


def rows(**more: Any) -> list[dict[str, Any]]:
    """Four questions with these columns; a callable makes the cell of each row."""
    made = []
    for at, city in enumerate(CITIES):
        cells = {name: cell(at) if callable(cell) else cell for name, cell in more.items()}
        made.append({"question": f"Which city is number {at}?", "answer": city, **cells})
    return [{name: cell for name, cell in row.items() if cell is not None} for row in made]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"image": {"bytes": b"x", "path": "a.png"}}, "'image' holds pictures or sound"),
        ({"scan": b"x"}, "'scan' holds pictures or sound"),
        ({"pages": [{"bytes": b"x", "path": None}]}, "'pages' holds pictures or sound"),
        ({"clip": {"array": [0.1], "path": "a.wav", "bytes": b"x"}}, "'clip' holds pictures or sound"),
        ({"photo": {"path": "a.png", "bytes": None}, "question": lambda at: f"<image> {at}?"}, "picture or sound"),
        ({"question": lambda at: f"<image 1> Which is {at}?"}, r"place for a picture or sound \(<image 1>\)"),
        ({"question": lambda at: f"<|audio|> Which is {at}?"}, r"place for a picture or sound \(<\|audio\|>\)"),
        ({"question": "Which is it?", "turns": [["I go to Chile."]]}, r"asked again with another answer.*turns"),
        ({"question": "Which is it?", "year": lambda at: at}, r"asked again with another answer.*year"),
        ({"question": lambda at: [TURN, {"role": "assistant", "content": "Lima"}]}, "ends with a turn of the assist"),
        ({"answer": {"start": 3}}, "holds an object or a list, not a text"),
        ({"answer": {"labels": [0, 1]}}, "holds an object or a list, not a text"),
        ({"answer": [["Lima"], ["Quito"]]}, "holds an object or a list, not a text"),
        ({"answer": None, "label": lambda at: ["safe", "unsafe"][at % 2]}, "labels .safe, unsafe. that no question"),
        ({"answer": None, "class": lambda at: ["good", "bad"][at % 2]}, "known to hold the answer"),
        ({"passage_text": "It is far."}, "named like what belongs before a question"),
    ],
)
def test_what_cannot_be_asked_whole_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ProbeError, match=words):
        probe_from(rows(**more))


@pytest.mark.parametrize(
    "more",
    [
        {"turns": [["I go to Chile."]]},
        {"completion": lambda at: CITIES[at]},
        {"hint": "no"},
        {"units": 3},
        {"table": {"a": [1, 2]}},
        {"audio_path": "a.wav"},
        {"rule": "x" * 5000},
    ],
)
def test_what_is_not_used_is_named_whatever_it_holds(more: dict[str, Any]) -> None:
    (name,) = more
    assert f"not used: {name}" in str(probe_from(rows(**more)).plan)


@pytest.mark.parametrize(
    "answer",
    [
        {"text": ["Santiago"], "answer_start": [0]},
        {"value": "Santiago", "aliases": ["Santiago de Chile"]},
        [{"role": "assistant", "content": "Santiago"}],
        {"role": "assistant", "content": "Santiago"},
        "{'text': ['Santiago'], 'answer_start': [0]}",
    ],
)
def test_the_text_within_an_object_is_the_answer(answer: Any) -> None:
    (item,) = probe_from([{"question": "The capital of Chile?", "answer": answer}])
    assert grade(item, "It is Santiago.").correct is True


@pytest.mark.parametrize("letters", ["أبجد", "АБВГ", "αβγδ", "अबसद", "甲乙丙丁"])
def test_columns_that_are_letters_of_any_script_hold_options(letters: str) -> None:
    options = dict(zip(letters, CITIES, strict=True))
    probe = probe_from([{"question": f"Which is {n}?", **options, "answer": letters[n]} for n in (1, 3, 0)])
    assert [item.choices[int(item.answers[0])].strip() for item in probe] == ["Lima", "Paris", "Santiago"]


def test_one_file_has_one_form_of_question() -> None:
    asked = ["Which is it?", "Which was it?", "Name the capital of Peru."]
    made = probe_from([{"question": text, "A": "Lima", "B": "Quito", "answer": "A"} for text in asked])
    assert [str(item.prompt) for item in made] == [f"Question: {text}\nAnswer:" for text in asked]
    assert "asked as 'Question: ... Answer:'" in str(made.plan)
    bare = probe_from([{"question": text, "A": "Lima", "B": "Quito", "answer": "A"} for text in ["It is", *asked[1:]]])
    assert [str(item.prompt) for item in bare] == ["It is", *asked[1:]]


def test_messages_of_a_training_end_with_the_answer() -> None:
    (item,) = probe_from([{"messages": [TURN, {"role": "assistant", "content": "Lima"}]}])
    assert (list(item.prompt), item.answers) == ([TURN], ("Lima",))


def test_the_beginning_of_a_long_question_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    probe_from([{"question": f"An unusual beginning {'and so on ' * 20} end?", "answer": "x"}])
    assert "0: 'An unusual beginning" in capsys.readouterr().err


def test_packed_files_are_read_or_named(tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows()).encode()
    for name in ("a.jsonl.gz", "plain_name.jsonl"):
        (tmp_path / name).write_bytes(gzip.compress(lines))
        assert len(load_probe(tmp_path / name)) == len(CITIES)
    (tmp_path / "b.jsonl.bz2").write_bytes(bz2.compress(lines))
    with pytest.raises(ProbeError, match="got a file that bzip2 packed; unpack it first"):
        load_probe(tmp_path / "b.jsonl.bz2")


def test_a_folder_of_datasets_is_named(tmp_path: Path) -> None:
    (tmp_path / "dataset_info.json").write_text("{}")
    with pytest.raises(ProbeError, match=r"load_from_disk\(.*\)\.to_parquet"):
        load_probe(tmp_path)
