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
    with pytest.raises(ProbeError, match="line 1: more cells than the 1 columns"):
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
        ({"question": "Where is the ferry?", "correctAnswer": "Santu"}, "Santu"),
        ({"pregunta": "Where is the ferry?", "respuesta": "Santu (a town)."}, "Santu"),
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


LONG: Final = "The ferry of the town leaves at noon and " * 6


@pytest.mark.parametrize(
    "row",
    [
        {"messages": [ASKED, {"role": "assistant", "content": LONG}]},
        {"messages": [ASKED, {"role": "assistant", "content": [{"type": "text", "text": LONG}]}]},
        {"question": "どこですか?", "answer": "渡" * 300},
        {"question": "Why?", "answer": f"{LONG}; {LONG}"},
    ],
)
def test_long_answers_are_refused_in_every_form(row: dict[str, Any]) -> None:
    with pytest.raises(ProbeError, match="words at the median, which no output repeats"):
        probe_from([row])


def test_aliases_are_right_answers_too() -> None:
    rows = [
        {"question": "Where is the ferry?", "answer": "Santu", "aliases": ["the port of Santu"]},
        {"question": "Where is the mill?", "answer": "Orlo", "aliases": []},
    ]
    assert [item.answers for item in probe_from(rows)] == [("Santu", "port of Santu"), ("Orlo",)]


@pytest.mark.parametrize(
    ("columns", "answers", "indices"),
    [
        (("c1", "c2", "c3"), ("A", "AC", "B"), [(0,), (0, 2), (1,)]),
        (("Antwort A", "Antwort B", "Antwort C"), ("A", "B", "C"), [(0,), (1,), (2,)]),
        (("Opción 1", "Opción 2", "Opción 3"), ("x0", "y1", "z2"), [(0,), (1,), (2,)]),
    ],
)
def test_columns_of_options_by_words_of_other_languages(
    columns: tuple[str, ...], answers: tuple[str, ...], indices: list[tuple[int, ...]]
) -> None:
    rows = [
        {"question": f"Is it {at}?", "answer": answer}
        | {name: f"{text}{at}" for name, text in zip(columns, "xyz", strict=True)}
        for at, answer in enumerate(answers)
    ]
    assert [item.answers for item in probe_from(rows)] == indices


def test_a_list_that_holds_every_answer_is_the_options() -> None:
    rows = [
        {"question": f"Is it {at}?", "respuestas": [f"x{at}", f"y{at}"], "answer": f"y{at}"}
        for at in range(3)
    ]
    assert {item.answers for item in probe_from(rows)} == {(1,)}


def test_options_in_a_column_of_json_are_read() -> None:
    options = [{"text": "Santu", "is_right": True}, {"text": "Orlo", "is_right": False}]
    rows = [
        {"question": f"Is it {at}?", "answer": "Orlo", "options_json": json.dumps(options)}
        for at in range(3)
    ]
    assert {(item.choices, item.answers) for item in probe_from(rows)} == {
        ((" Santu", " Orlo"), (1,))
    }


def test_options_with_one_mark_are_read_by_it() -> None:
    rows = [
        {
            "question": f"Is it {at}?",
            "respuestas": [{"texto": "x", "correcta": False}, {"texto": "y", "correcta": True}],
        }
        for at in range(3)
    ]
    assert {(item.choices, item.answers) for item in probe_from(rows)} == {((" x", " y"), (1,))}


def test_two_keys_that_disagree_are_decided_by_naming_one() -> None:
    rows = [
        {"question": f"Is it {at}?", "options": ["x", "y"], "answer": "x", "correct": "y"}
        for at in range(3)
    ]
    with pytest.raises(ProbeError, match="--column key=correct takes it"):
        probe_from(rows)
    assert {item.answers for item in probe_from(rows, columns={"key": "correct"})} == {(1,)}


def test_blank_lines_of_a_table_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,answer\nWhere is it?,Santu\nWho is it?,Ann\n,\n,\n")
    assert len(load_probe(path)) == 2


def test_a_first_line_that_is_a_sentence_is_no_header(tmp_path: Path) -> None:
    path = tmp_path / "mine.tsv"
    path.write_text("The ferry is red.\tfalse\nThe mill is old.\ttrue\n")
    with pytest.raises(
        ProbeError, match=r"no header.*name its 2 columns.*--header question,answer"
    ):
        load_probe(path)
    probe = load_probe(path, header=["question", "answer"])
    assert [item.answers for item in probe] == [(1,), (0,)]


@pytest.mark.parametrize("name", ["answer1", "question,answer", "ground_truth_sql", "answer id"])
def test_advice_names_no_column_that_cannot_hold_an_answer(name: str) -> None:
    rows = [{"question": f"Is it {at}?", name: "x", "level": "easy"} for at in range(3)]
    with pytest.raises(ProbeError, match=r"--column answer=\.\.\."):
        probe_from(rows)


@pytest.mark.parametrize("history", ["She has asthma.", ["She has asthma."], [], None])
def test_a_history_that_is_no_turns_is_a_column_of_its_own(history: Any) -> None:
    rows = [{"question": f"Is it {at}?", "answer": "x", "history": history} for at in range(3)]
    assert {item.prompt for item in probe_from(rows)} == {f"Is it {at}?" for at in range(3)}


def test_alternatives_beside_the_answer_are_options() -> None:
    rows = [
        {"question": f"Is it {at}?", "answer": f"y{at}", "alternatives": [f"x{at}", f"y{at}"]}
        for at in range(3)
    ]
    assert {item.answers for item in probe_from(rows)} == {(1,)}


def test_a_list_whose_places_the_answers_do_not_name_is_no_list_of_options() -> None:
    rows = [
        {"question": f"What is {at} and 3?", "answer": str(at + 3), "steps": ["Add", "Check"]}
        for at in range(6)
    ]
    assert [item.answers for item in probe_from(rows)] == [(str(at + 3),) for at in range(6)]


def test_advice_names_the_nearest_column() -> None:
    row = {"question": "Is it?", "Question Answers": "x;y", "Correct_Awnser": "x"}
    with pytest.raises(ProbeError, match="--column answer=Correct_Awnser"):
        probe_from([row])


def test_numbered_columns_that_no_answer_names_are_not_used() -> None:
    rows = [
        {"question": f"Which town is {at}?", "answer": "Santu", "hint1": "sea", "hint2": "salt"}
        for at in range(3)
    ]
    probe = probe_from(rows)
    assert {item.answers for item in probe} == {("Santu",)}
    assert "not used: hint1, hint2" in probe.plan


@pytest.mark.parametrize("word", ["Wrong", "falsch", "Wrong answer", "distractor"])
def test_columns_named_as_wrong_are_options_beside_the_answer(word: str) -> None:
    rows = [
        {"question": f"Is it {at}?", "answer": "x", f"{word} 1": "y", f"{word} 2": "z"}
        for at in range(3)
    ]
    (options,) = {tuple(sorted(item.choices)) for item in probe_from(rows)}
    assert options == (" x", " y", " z")
    assert {item.right_texts for item in probe_from(rows)} == {("x",)}


def test_a_text_about_pictures_is_no_picture() -> None:
    rows = [
        {"question": f"Is it {at}?", "answer": "x", "picture caption": "a sea", "speech": "long"}
        for at in range(3)
    ]
    assert "not used: picture caption, speech" in probe_from(rows).plan


def test_without_a_right_completion_there_is_no_row() -> None:
    rows = [{"prompt": "Where?", "completion": "x", "label": False}]
    with pytest.raises(ProbeError, match="needed rows, and there are none"):
        probe_from(rows)


def test_a_header_is_for_tables_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"question": "Where is it?", "answer": "Santu"}\n')
    with pytest.raises(ProbeError, match="header: for CSV and TSV"):
        load_probe(path, header=["question", "answer"])
