"""A table of questions becomes a probe, and an error lists what is wrong with it.

Parts of a question that a table has are asked, named, or refused: none is dropped without a word.

Tables of questions that are generated with a known truth, in any form: read right or refused, never read wrong.
"""

import bz2
import gzip
import json
import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import write_jsonl

from forgetwatch import Probe, load_probe
from forgetwatch.errors import ProbeError
from forgetwatch.grading.grader import grade
from forgetwatch.probes.question_table import probe_from
from forgetwatch.probes.table_plan import make_plan

ROW: dict[str, Any] = {
    "question": "Capital of Chile?",
    "options": ["Lima", "Santiago"],
    "answer": "Santiago",
}


def only(row: dict[str, Any], **settings: Any) -> Any:
    (item,) = probe_from([row], **settings)
    return item


@pytest.mark.parametrize(
    "answer", ["Santiago", " Santiago ", "B", "b", "(B)", 1, "1", 1.0, ["Santiago"], "[1]"]
)
def test_an_answer_is_a_text_a_letter_or_an_index(answer: Any) -> None:
    is_index = str(answer).strip("[]")[0] == "1"
    item = only(ROW | {"answer": answer}, key="from-0" if is_index else None)
    asked = "Question: Capital of Chile?\nAnswer:"
    assert (item.prompt, item.choices, item.answers) == (asked, (" Lima", " Santiago"), (1,))


@pytest.mark.parametrize(
    "row",
    [
        {"options": '["Lima", "Santiago"]', "answer": "B"},
        {"options": "['Lima', 'Santiago']", "answer": "B"},
        {"options": {"text": ["Lima", "Santiago"], "label": ["1", "2"]}, "answer": "2"},
        {"choices": {"x": "Lima", "y": "Santiago"}, "answer": "y"},
        {"A": "Lima", "B": "Santiago", "C": "", "answer": "B"},
        {"choice_1": "Lima", "choice_2": "Santiago", "answerKey": "B"},
        {"sol1": "Lima", "sol2": "Santiago", "label": 2},
        {"mc_answer1": "Lima", "mc_answer2": "Santiago", "correct": "b"},
    ],
)
def test_options_are_one_column_or_several(row: dict[str, Any]) -> None:
    item = only({"Question": "Capital of Chile?"} | row)
    assert (item.choices, item.answers) == ((" Lima", " Santiago"), (1,))


def test_a_number_among_texts_is_an_index_and_among_numbers_the_text_of_an_option() -> None:
    texts = [
        {"question": f"{answer}: 2 - 1?", "options": ["2", "1", "0"], "answer": answer}
        for answer in (0, 2)
    ]
    assert [item.answers for item in probe_from(texts)] == [(0,), (2,)]
    numbers = [
        {"question": f"{answer}: 6?", "options": [12, 15, 9], "answer": answer}
        for answer in (12, 9)
    ]
    assert [item.answers for item in probe_from(numbers)] == [(0,), (2,)]


def keyed(
    *answers: Any, options: Any = ("Lima", "Santiago", "Quito"), **settings: Any
) -> list[tuple[int, ...]]:
    rows = [
        {"question": f"Which is {at}?", "options": list(options), "answer": one}
        for at, one in enumerate(answers)
    ]
    return [item.answers for item in probe_from(rows, **settings)]


def test_an_index_is_read_in_one_way_in_the_whole_column() -> None:
    assert keyed(1, 0, 2) == [(1,), (0,), (2,)]
    assert keyed(1, 3, 2) == [(0,), (2,), (1,)]
    assert keyed("1", "3", "2") == [(0,), (2,), (1,)]
    assert keyed([0, 1, 0], [1, 0, 1]) == [(1,), (0, 2)]
    assert keyed("A,C", "B") == [(0, 2), (1,)]
    assert keyed(1, 2, 1, key="from-0") == [(1,), (2,), (1,)]
    assert keyed(1, 2, 1, key="from-1") == [(0,), (1,), (0,)]


@pytest.mark.parametrize(
    ("answers", "options", "one", "other"),
    [
        ((1, 2, 1), ("Lima", "Santiago", "Quito"), "from-0", "from-1"),
        (("2", "1"), ("1", "2", "3"), "text", "from-0"),
        (("A", "B"), ("B", "A"), "text", "letter"),
    ],
)
def test_where_two_readings_fit_every_row_nothing_is_guessed(
    answers: Any, options: Any, one: str, other: str
) -> None:
    with pytest.raises(
        ProbeError, match=rf"both fit every row, and .* --key {one} or --key {other}"
    ):
        keyed(*answers, options=options)


def test_what_belongs_before_a_question_is_put_before_it() -> None:
    row = ROW | {
        "passage": "Chile is long.",
        "context": float("nan"),
        "question": "Capital of Chile?",
    }
    assert only(row).prompt == "Chile is long.\n\nQuestion: Capital of Chile?\nAnswer:"
    rows = [
        {"instruction": "Give the plural.", "input": word, "output": f"{word}s"}
        for word in ("cat", "", "dog")
    ]
    assert [item.prompt for item in probe_from(rows)] == [
        "Give the plural.\n\ncat",
        "Give the plural.",
        "Give the plural.\n\ndog",
    ]
    pinned = only(
        {"text": "a", "story": "b", "answer": "c"}, columns={"context": ["story"], "prompt": "text"}
    )
    assert pinned.prompt == "b\n\na"


def test_blank_and_missing_options_keep_the_letters_of_the_others() -> None:
    for blank in ("", None, float("nan")):
        row = {"question": "Moons of Venus?", "A": blank, "B": "One", "C": "Two", "answer": "B"}
        assert (only(row).choices, only(row).answers) == ((" One", " Two"), (0,))
        with pytest.raises(ProbeError, match="holds 'A', which is not one of the 3 options"):
            only(row | {"answer": "A"})


def test_options_are_objects_wrong_ones_or_yes_and_no() -> None:
    objects = [{"label": "x", "text": "Lima"}, {"label": "y", "text": "Santiago"}]
    assert only(ROW | {"options": objects, "answer": "y"}).answers == (1,)
    row = {
        "question": "Capital?",
        "distractor1": "Lima",
        "distractor2": "Quito",
        "correct_answer": "Santiago",
    }
    item = only(row)
    assert sorted(item.choices) == [" Lima", " Quito", " Santiago"]
    assert item.choices[item.answers[0]] == " Santiago"
    rows = [
        {"passage": f"It left: {left}.", "question": "did it leave", "answer": left}
        for left in (True, False)
    ]
    assert [(item.choices, item.answers) for item in probe_from(rows)] == [
        ((" yes", " no"), (0,)),
        ((" yes", " no"), (1,)),
    ]


def test_a_column_of_options_that_no_row_has_makes_no_options() -> None:
    item = only({"question": "6 * 7?", "options": None, "label": None, "answer": "42"})
    assert (item.choices, item.answer, item.match) == ((), "42", "number")


def test_an_open_answer_of_one_letter_is_graded_as_a_letter() -> None:
    item = only({"question": "Which? A: Lima, B: Quito", "answer": "A"})
    assert item.match == "letter"
    assert grade(item, "The answer is B, a city").correct is False


def test_of_two_answer_columns_the_filled_one_is_read() -> None:
    item = only(
        {"question": "Capital?", "options": ["Lima", "Santiago"], "answer": None, "label": "B"}
    )
    assert item.answers == (1,)


def test_the_end_of_a_solution_is_the_answer_and_a_rationale_is_refused() -> None:
    marked = only(
        {"question": "3 + 2?", "answer": "He has 3 and buys 2.\n3+2=<<3+2=5>>5\n#### 1,080"}
    )
    assert (marked.answer, marked.match) == ("1,080", "number")
    boxed = only({"problem": "3 + 2?", "solution": r"Adding gives $\boxed{\frac{1}{2}}$."})
    assert boxed.answer == r"\frac{1}{2}"
    units = list(
        load_probe([{"question": f"{n} + 2?", "answer": f"{n + 2} (pens)"} for n in (1, 2)])
    )
    units += list(
        load_probe(
            [{"question": f"{n}?", "answer": text} for n, text in enumerate(("7 (pens)", "3:45"))]
        )
    )
    assert [(item.answer, item.match) for item in units] == [
        *(("3", "number"), ("4", "number"), ("7", "number"), ("3:45", "contains"))
    ]
    with pytest.raises(
        ProbeError, match="texts of 40 words at the median, which no output repeats"
    ):
        only({"question": "Why?", "answer": "so " * 40})


def test_formulas_are_compared_by_their_value() -> None:
    answers = [
        r"$\sqrt{8}$",
        "$10-4 n$",
        "7",
        "x - 3z = 0",
        "all real numbers",
        r"17\text{ meters}",
        "(3, 4]",
    ]
    items = probe_from([{"problem": f"{n}?", "answer": answer} for n, answer in enumerate(answers)])
    assert [item.match for item in items] == [
        "math",
        "math",
        "number",
        "math",
        "contains",
        "number",
        "math",
    ]
    assert items.plan == "question: problem; answer: answer, formulas by their value"
    outputs = [
        r"The answer is $2\sqrt{2}$",
        r"\boxed{-4n+10}",
        "7",
        "x = 3z",
        "All real numbers.",
        "17 m",
        "$(3,4]$",
    ]
    assert [grade(item, output).correct for item, output in zip(items, outputs, strict=True)] == [
        True
    ] * 7
    assert grade(items[1], "The answer is 10+4n").correct is False


@pytest.mark.parametrize("answer", ["(b)", "(B)", "B.", "B)"])
def test_a_marked_letter_is_graded_as_a_letter(answer: str) -> None:
    item = only({"problem": "Which: (a) red, (b) blue?", "answer": answer})
    assert (item.answer, item.match) == ("B", "letter")
    assert grade(item, "The answer is (B).").correct is True


def test_rows_are_found_in_a_document(tmp_path: Path) -> None:
    """An object with one list of rows, and what it says before each of them."""
    rows = [
        {"input": "Oldest?", "target_scores": {"Ann": 0, "Bob": 1, "Cy": 0}, "target": "It is Bob."}
    ]
    path = tmp_path / "task.json"
    path.write_text(
        json.dumps({"name": "ages", "task_prefix": "Ann is 2, Bob is 9.", "examples": rows})
    )
    (item,) = load_probe(path)
    assert (item.prompt, item.choices, item.answers) == (
        *("Ann is 2, Bob is 9.\n\nQuestion: Oldest?\nAnswer:", (" Ann", " Bob", " Cy")),
        (1,),
    )
    path.write_text(json.dumps({"train": rows, "test": rows}))
    with pytest.raises(
        ProbeError,
        match=r"got several: train, test; `forgetwatch probe build` takes one.*--rows train",
    ):
        load_probe(path)
    (item,) = load_probe(path, rows="test")
    assert item.answers == (1,)


def test_a_question_that_is_an_object_is_its_columns() -> None:
    choices = [{"label": "A", "text": "Lima"}, {"label": "B", "text": "Santiago"}]
    item = only(
        {
            "id": "q1",
            "question": {"stem": "Capital of Chile?", "choices": choices},
            "answerKey": "B",
        }
    )
    assert (item.id, item.choices, item.answers) == ("q1", (" Lima", " Santiago"), (1,))


def test_prices_and_words_are_no_formulas() -> None:
    items = probe_from(
        [
            {"problem": f"{n}?", "answer": text}
            for n, text in enumerate(("$5", "from $5 to $10", "B"))
        ]
    )
    assert [item.match for item in items] == ["number", "contains", "letter"]


def test_formulas_without_the_package_that_compares_them_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ProbeError,
        match=r"column 'answer' holds formulas such as .*: pip install 'forgetwatch.math.'",
    ):
        only({"problem": "?", "answer": r"\sqrt{2}"})


@pytest.mark.parametrize("answer", ["[0, 1]", "{1, 2, 3}", "{2,1}", "(3, 4]"])
def test_an_interval_or_a_set_is_one_answer_as_it_is_written(answer: str) -> None:
    assert only({"problem": "?", "answer": answer}).answers == (answer,)


def test_answers_that_nothing_can_match_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"problem": "1?", "answer": "4"}, {"problem": "2?", "answer": "$4$ beats, $G$ or so"}]
    probe_from(rows)
    assert (
        "1 of 2 answers are graded as wrong even if an output is the answer, such as"
        in capsys.readouterr().err
    )
    probe_from(rows[:1])
    assert "even if" not in capsys.readouterr().err


def test_what_was_understood_is_logged_and_stored_and_can_be_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {"frage": f"What is {n}?", "text": "Read this.", "one": "red", "two": "blue", "key": "B"}
        for n in range(1, 5)
    ]
    given = {"question": "frage", "before": "text", "options": ["one", "two"], "key": "key"}
    probe = probe_from(rows, columns=given)
    logged = capsys.readouterr().err.splitlines()
    assert (
        probe.plan
        == "question: frage after text, asked as 'Question: ... Answer:'; options: one, two; key: letters in key"
    )
    assert logged[0] == f"forgetwatch: rows: {probe.plan}"
    assert (
        logged[1] == "forgetwatch:   0: 'Read this. Question: What is 1?' -> 'blue' (of 2 options)"
    )
    assert len(logged) == 4
    probe.save(tmp_path / "p.jsonl")
    again = load_probe(tmp_path / "p.jsonl")
    assert (again.plan, again.fingerprint) == (probe.plan, probe.fingerprint)
    assert probe_from(rows, columns={**given, "question": "frage"}).fingerprint == probe.fingerprint


def test_a_column_named_like_context_is_used_or_refused() -> None:
    row = ROW | {"reading_passage": "It was noon in Lima."}
    with pytest.raises(
        ProbeError,
        match=r"the column 'reading_passage' is named like .* --column context=reading_passage",
    ):
        only(row)
    assert only(row, columns={"context": "reading_passage"}).prompt.startswith(
        "It was noon in Lima."
    )


def test_what_is_not_used_is_named() -> None:
    rows = [ROW | {"remarks": "a book of maps", "n": 3, "explanation": "It is."}]
    plan, _ = make_plan(rows, {}, "rows")
    assert str(plan) == "question: question; options: options; answer: answer; not used: remarks, n"


def test_without_options_the_answer_is_open() -> None:
    number = only({"problem": "6 * 7?", "solution": "42"})
    words = only({"problem": "Where?", "solution": "in Rome in 44 BC"})
    own = only({"prompt": "Say a", "answer": "a", "match": "exact"})
    assert (number.match, words.match, own.match) == ("number", "contains", "exact")
    assert only({"prompt": "Who?", "answer": ["Ann", "Anne"]}).answers == ("Ann", "Anne")


def test_an_option_gets_a_space_only_where_it_would_stick_to_the_question() -> None:
    assert only(ROW | {"question": "Q: "}).choices == ("Lima", "Santiago")
    assert only(ROW | {"options": [" Lima", "\tSantiago"]}).choices == (" Lima", "\tSantiago")
    assert only(ROW, scoring="letters").choices == ("Lima", "Santiago")


def test_other_parts_of_an_item_are_read_and_given_columns_win() -> None:
    extra = {
        "frage": "Wer?",
        "subject": "who",
        "topic": "People",
        "passage_id": "p1",
        "must_pass": "true",
        "uid": 7,
    }
    item = only(
        extra | {"richtig": "Ann", "x": "Ann", "y": "Bob", "explanation": "so"},
        columns={"prompt": "frage", "answer": "richtig", "choices": ["x", "y"]},
    )
    assert (item.id, item.task, item.category, item.cluster, item.must_pass) == (
        "7",
        "who",
        "People",
        "p1",
        True,
    )
    assert item.meta == {"reasoning": "so"}
    bare = only(ROW, name="mine", category="Other")
    assert (bare.id, bare.task, bare.category) == ("0", "mine", "Other")


def test_messages_are_rendered_as_chat() -> None:
    rows = [{"messages": [{"role": "user", "content": "Hi?"}], "answer": "Hi"}]
    assert probe_from(rows).rendering == "chat"
    assert probe_from([{"prompt": "Hi?", "system": "Be kind", "answer": "Hi"}]).rendering == "chat"


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".json", ".parquet"])
def test_every_kind_of_file_is_one_line_to_load(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"mine{suffix}"
    if suffix in (".csv", ".tsv"):
        comma = "," if suffix == ".csv" else "\t"
        lines = [
            comma.join(["question", "A", "B", "answer"]),
            comma.join(["Capital of Chile?", "Lima", "Santiago", "B"]),
        ]
        path.write_text("\ufeff" + "\r\n".join(lines) + "\r\n", encoding="utf-8")
    elif suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([ROW]), path)
    elif suffix == ".json":
        path.write_text(json.dumps([ROW]))
    else:
        write_jsonl(path, [ROW])
    probe = load_probe(path)
    assert (probe.name, probe[0].choices, probe[0].answers) == (
        "mine",
        (" Lima", " Santiago"),
        (1,),
    )
    assert probe.fingerprint == load_probe([ROW | {"task": "mine"}]).fingerprint


@pytest.mark.parametrize(
    ("answer", "answers"),
    [
        ("[1, 2]", ("[1, 2]",)),
        ('{"a": 1}', ('{"a": 1}',)),
        ({"a": 1}, ('{"a": 1}',)),
        ([1, 2], ("[1, 2]",)),
        (['{"a": 1}', "3"], ('{"a": 1}', "3")),
        (True, ("true",)),
    ],
)
def test_an_answer_in_json_is_one_value(answer: Any, answers: tuple[str, ...]) -> None:
    item = only({"question": "Write it as JSON.", "answer": answer, "match": "json"})
    assert item.answers == answers
    assert all(grade(item, text).correct for text in answers)


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        *((text, "number") for text in ("5", "$5", "5 %", " 18 ", [3, "4"])),
        *((text, "contains") for text in ("18 km", "Apollo 11", "World War 2", "Lima")),
    ],
)
def test_a_number_within_words_is_not_graded_as_a_number(answer: Any, match: str) -> None:
    assert only({"question": "Which?", "answer": answer}).match == match


def test_a_dataset_is_rows(tmp_path: Path) -> None:
    from datasets import Dataset

    assert load_probe(Dataset.from_list([ROW])).fingerprint == load_probe([ROW]).fingerprint
    with pytest.raises(
        ProbeError, match="needed one dict a question, got str; of a DatasetDict give one split"
    ):
        load_probe({"train": [ROW]})  # type: ignore[arg-type]


def test_a_probe_file_stays_a_probe_file(tmp_path: Path) -> None:
    Probe([*probe_from([ROW])], name="kept", norm="sum").save(tmp_path / "p.jsonl")
    assert load_probe(tmp_path / "p.jsonl").norm == "sum"
    row = {"id": "1", "task": "t", "prompt": "a", "answer": "b", "match": "exact"}
    assert load_probe(write_jsonl(tmp_path / "q.jsonl", [row]))[0].match == "exact"


def test_an_error_lists_all_mistakes_of_the_first_wrong_rows() -> None:
    rows = [
        ROW,
        {"question": "", "options": "x", "answer": None},
        ROW | {"answer": "Rome"},
        ROW | {"answer": 2},
    ]
    with pytest.raises(ProbeError) as error:
        probe_from([*rows, *[ROW | {"answer": "E"}] * 9])
    said = str(error.value)
    assert said.startswith("rows: 12 of 13 rows cannot be used: row 1: ")
    for part in (
        "'question' holds no question",
        "'options' holds no list of options ('x')",
        "'answer' holds no answer",
    ):
        assert part in said.split("row 2:")[0]
    assert "row 2: column 'answer' holds 'Rome', which is not one of the 2 options" in said
    assert said.endswith("; and 7 more")


def test_a_repeated_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,answer,answer\na,b,c\n")
    with pytest.raises(ProbeError, match="the column 'answer' occurs twice in the header"):
        load_probe(path)


def test_an_error_lists_all_mistakes_of_a_probe_file(tmp_path: Path) -> None:
    good = {"id": "1", "task": "t", "prompt": "a", "answer": 0, "choices": ["x", "y"]}
    path = write_jsonl(
        tmp_path / "p.jsonl",
        [good, good | {"answer": 2}, good | {"prompt": ""}, good | {"colour": 1}],
    )
    with pytest.raises(
        ProbeError,
        match=r"2 lines are wrong: line 2: .*outside its 2 choices.*; line 4: unknown field",
    ):
        load_probe(path)


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "needed rows, and there are none"),
        (
            [{"satz": "a", "answer": "b"}],
            r"hold the question; there are satz, answer; name it: columns=\{'question': \.\.\.\}",
        ),
        (
            [{"qestion": "a", "answer": "b"}],
            "hold the question.*`forgetwatch probe build` --column question=qestion",
        ),
        (
            [{"question": "a"}],
            "no column that is known to hold the answer.*`forgetwatch probe build` --column answer=...",
        ),
        ([ROW | {"id": "x"}, ROW | {"id": "x"}], "id 'x' occurs 2 times in task 'mine'"),
        ([{"question": "a", "A": "", "B": " ", "answer": "A"}], "columns A, B hold no option"),
        ([ROW | {"options": ["Lima", None]}], "column 'options' holds no list of options"),
        (
            [ROW | {"options": {"text": ["Lima", "Santiago"], "label": None}, "answer": "1."}],
            "holds '1.', which is not one",
        ),
        ([ROW | {"answer": -1.0}], "column 'answer' holds -1.0, which is not one of the 2 options"),
        ([None], "needed one dict a question, got NoneType"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(rows: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(ProbeError, match=why):
        probe_from(rows)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"prompt": "nope"}, "no column 'nope'; there are question"),
        ({"colour": "x"}, "'colour' is not a part of an item; there are prompt"),
        ({"promt": "question"}, "'promt' is not a part of an item, did you mean 'prompt'"),
        ({"prompt": "qestion"}, "no column 'qestion', did you mean 'question'"),
    ],
)
def test_columns_that_are_not_there_are_named(columns: dict[str, str], why: str) -> None:
    with pytest.raises(ProbeError, match=why):
        probe_from([ROW], columns=columns)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "question,answer\na,b,c\n", "line 2: more cells than the 2 columns"),
        ("a.csv", 'question,answer\n"a,b\n', "not CSV"),
        ("a.jsonl", '{"question": "a", "answer": "b"}\n[1]\n', "of named values, got list"),
        ("a.jsonl", '{"question": "a", "answer": "b"}\n{"ques', "line 2: not a JSON object"),
        ("a.json", '{"a": 1}', "needed a list of objects"),
        ("a.csv", b"question,answer\nWo liegt K\xf6ln?,am Rhein\n", "another encoding than UTF-8"),
        ("a.json", "[", "needed JSON"),
        ("a.parquet", "nope", "needed a table in CSV, JSON or Parquet, and it cannot be read"),
        ("a.txt", "x", r"got a file of another kind \(.txt\)"),
    ],
)
def test_files_that_cannot_be_read_are_named_with_the_line(
    name: str, text: str | bytes, why: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ProbeError, match=why) as error:
        load_probe(tmp_path / name)
    assert str(error.value).startswith(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("A.CSV", b"question,A,B,answer\nCapital of Chile?,Lima,Santiago,B\n"),
        ("a.csv", b"sep=;\r\nquestion;A;B;answer\r\nCapital of Chile?;Lima;Santiago;B\r\n"),
        ("a.csv", "question;A;B;answer\nCapital of Chile?;Lima;Santiago;B\n".encode("utf-16")),
        (
            "a.csv.gz",
            gzip.compress(b"question,A,B,answer\nCapital of Chile?,Lima,Santiago,B\n", mtime=0),
        ),
        ("a.json", (json.dumps(ROW) + "\n" + json.dumps(ROW | {"id": "2"}) + "\n").encode()),
    ],
)
def test_dialects_of_a_table_are_read(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    item = load_probe(tmp_path / name)[0]
    assert (item.choices, item.answers) == ((" Lima", " Santiago"), (1,))


def test_options_for_benchmarks_are_refused_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="are for tasks of lm-evaluation-harness"):
        load_probe("demo", shots=3)
    assert len(load_probe("demo", limit=5)) == 5


def test_only_a_bare_question_is_framed() -> None:
    for row, prompt in (
        ({"question": "The capital of Chile is"}, "The capital of Chile is"),
        ({"prompt": "Capital of Chile?"}, "Capital of Chile?"),
        ({"question": " Capital of Chile? "}, "Question: Capital of Chile?\nAnswer:"),
    ):
        item = only({"options": ["Lima", "Santiago"], "answer": "B"} | row)
        assert item.prompt == prompt
    assert only({"question": "How many?", "answer": "3"}).prompt == "How many?"


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
        (
            {"clip": {"array": [0.1], "path": "a.wav", "bytes": b"x"}},
            "'clip' holds pictures or sound",
        ),
        (
            {"photo": {"path": "a.png", "bytes": None}, "question": lambda at: f"<image> {at}?"},
            "picture or sound",
        ),
        (
            {"question": lambda at: f"<image 1> Which is {at}?"},
            r"place for a picture or sound \(<image 1>\)",
        ),
        (
            {"question": lambda at: f"<|audio|> Which is {at}?"},
            r"place for a picture or sound \(<\|audio\|>\)",
        ),
        (
            {"question": "Which is it?", "turns": [["I go to Chile."]]},
            r"asked again with another answer.*turns",
        ),
        (
            {"question": "Which is it?", "year": lambda at: at},
            r"asked again with another answer.*year",
        ),
        (
            {"question": lambda at: [TURN, {"role": "assistant", "content": "Lima"}]},
            "ends with a turn of the assist",
        ),
        ({"answer": {"start": 3}}, "holds an object or a list, not a text"),
        ({"answer": {"labels": [0, 1]}}, "holds an object or a list, not a text"),
        ({"answer": [["Lima"], ["Quito"]]}, "holds an object or a list, not a text"),
        (
            {"answer": None, "label": lambda at: ["safe", "unsafe"][at % 2]},
            "labels .safe, unsafe. that no question",
        ),
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
    probe = probe_from(
        [{"question": f"Which is {n}?", **options, "answer": letters[n]} for n in (1, 3, 0)]
    )
    assert [item.choices[int(item.answers[0])].strip() for item in probe] == [
        "Lima",
        "Paris",
        "Santiago",
    ]


def test_one_file_has_one_form_of_question() -> None:
    asked = ["Which is it?", "Which was it?", "Name the capital of Peru."]
    made = probe_from(
        [{"question": text, "A": "Lima", "B": "Quito", "answer": "A"} for text in asked]
    )
    assert [str(item.prompt) for item in made] == [f"Question: {text}\nAnswer:" for text in asked]
    assert "asked as 'Question: ... Answer:'" in str(made.plan)
    bare = probe_from(
        [
            {"question": text, "A": "Lima", "B": "Quito", "answer": "A"}
            for text in ["It is", *asked[1:]]
        ]
    )
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


WORDS = (
    "ferry",
    "noon",
    "river",
    "stone",
    "lamp",
    "green",
    "seven",
    "market",
    "bread",
    "tower",
    "wind",
    "glass",
)
LETTERS = "ABCDE"
QUESTIONS = ("question", "query", "problem", "Question", "stem")
BEFORE = (None, None, "passage", "context", "article", "story", "support")
COLUMNS = ("{upper}", "option{one}", "option_{zero}", "ans{zero}", "choice_{lower}", "op{lower}")
LISTS = ("options", "choices", "objects", "parallel", "labelled")
KEYS = ("letter", "lower", "zero", "one", "text", "marks")
NAMES = ("answer", "label", "gold", "correct", "target", "answer_key", "answerKey")


@dataclass
class Truth:
    question: str
    before: str
    right: str
    k: int


def generated(seed: int) -> tuple[list[dict[str, Any]], list[Truth]]:
    """Rows of one form, their columns in one order, and what they mean."""
    rng = random.Random(seed)
    k, form, key = (
        rng.randint(2, 5),
        rng.choice((*COLUMNS, *LISTS, "distractors")),
        rng.choice(KEYS),
    )
    question, before, answer = rng.choice(QUESTIONS), rng.choice(BEFORE), rng.choice(NAMES)
    extras = [name for name in ("explanation", "source", "id") if rng.random() < 0.4]
    as_text = form not in LISTS and rng.random() < 0.5
    rows, truths = [], []
    for number in range(rng.randint(3, 14)):
        options = [f"{' '.join(rng.choices(WORDS, k=2))} {number}{index}" for index in range(k)]
        right = rng.randrange(k)
        truth = Truth(
            f"What about {' '.join(rng.choices(WORDS, k=4))} {number}?", "", options[right], k
        )
        row: dict[str, Any] = {question: truth.question}
        if before is not None:
            row[before] = truth.before = (
                f"Once {' '.join(rng.choices(WORDS, k=9))}. Then it rained."
            )
        row |= {name: f"{' '.join(rng.choices(WORDS, k=6))} {number}" for name in extras}
        row |= columns_of(form, options, right)
        texts = row["options"] if form == "labelled" else options
        if form != "distractors":
            row[answer] = {
                "letter": LETTERS[right],
                "lower": LETTERS[right].lower(),
                "zero": right,
                "one": right + 1,
                "text": texts[right],
                "marks": [int(index == right) for index in range(k)] if form in LISTS else right,
            }[key]
        order = sorted(row)
        random.Random(seed).shuffle(order)
        rows.append({name: str(row[name]) if as_text else row[name] for name in order})
        truths.append(truth)
    return rows, truths


def columns_of(form: str, options: list[str], right: int) -> dict[str, Any]:
    """Columns that hold the options."""
    if form in COLUMNS:
        names = [
            form.format(upper=LETTERS[at], lower=LETTERS[at].lower(), zero=at, one=at + 1)
            for at in range(len(options))
        ]
        return dict(zip(names, options, strict=True))
    if form == "distractors":
        wrong = [text for at, text in enumerate(options) if at != right]
        return {"correct_answer": options[right]} | {
            f"distractor{at + 1}": text for at, text in enumerate(wrong)
        }
    labels = list(LETTERS[: len(options)])
    lists = {
        "options": {"options": options},
        "choices": {"choices": options},
        "objects": {
            "choices": [
                {"label": name, "text": text} for name, text in zip(labels, options, strict=True)
            ]
        },
        "parallel": {"choices": {"text": options, "label": labels}},
        "labelled": {
            "options": [f"({name}){text}" for name, text in zip(labels, options, strict=True)]
        },
    }
    return dict(lists[form])


@pytest.mark.filterwarnings("ignore")
def test_no_generated_table_is_read_wrong() -> None:
    found = Counter[str]()
    for seed in range(2000):
        rows, truths = generated(seed)
        try:
            items = list(load_probe(rows))
        except ProbeError as error:
            found["two readings fit" if "both fit every row" in str(error) else str(error)] += 1
            continue
        for item, truth in zip(items, truths, strict=True):
            assert isinstance(item.answer, int), (seed, item)
            assert item.choices[item.answer].endswith(truth.right), (seed, item)
            assert len(item.choices) == truth.k, (seed, item)
            assert truth.question in item.prompt, (seed, item)
            assert truth.before in item.prompt, (seed, item)
        found["right"] += 1
    assert set(found) == {"right", "two readings fit"}
    assert found["right"] > 1800


def meaning(
    rows: list[dict[str, Any]], **settings: Any
) -> Counter[tuple[str, tuple[str, ...], tuple[int, ...]]] | str:
    """Count of each question with its options and right ones; or why the table is refused, without its values."""
    try:
        probe = load_probe(rows, **settings)
    except ProbeError as error:
        return "both fit every row" if "both fit every row" in str(error) else str(error)
    return Counter(
        (item.prompt, tuple(item.choices), tuple(map(int, item.answers))) for item in probe
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 400, 2))
def test_order_of_rows_and_columns_and_usual_names_change_no_item(seed: int) -> None:
    rows, _ = generated(seed)
    expected, rng = meaning(rows), random.Random(seed)
    names = list(rows[0])
    shuffled = [
        {name: row[name] for name in rng.sample(names, len(names))}
        for row in rng.sample(rows, len(rows))
    ]
    assert meaning(shuffled) == expected
    families = [
        QUESTIONS,
        *([NAMES] if "correct_answer" not in names else []),
        [name for name in BEFORE if name],
    ]
    other = {name: rng.choice(family) for family in families for name in names if name in family}
    assert (
        meaning([{other.get(name, name): cell for name, cell in row.items()} for row in rows])
        == expected
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(200))
def test_base_of_the_key_and_order_of_the_options_change_no_right_answer(seed: int) -> None:
    rng = random.Random(seed)
    k, form = rng.randint(2, 5), rng.choice((*COLUMNS, "options", "objects", "parallel"))
    options = [[f"{rng.choice(WORDS)} {n}{at}" for at in range(k)] for n in range(8)]
    # The last index occurs, and so does the first: then one base alone fits.
    rights = [0, k - 1, *(rng.randrange(k) for _ in range(6))]
    orders = [rng.sample(range(k), k) for _ in options]

    def table(base: int | None, orders: list[list[int]]) -> list[dict[str, Any]]:
        rows = []
        for n, (texts, right, order) in enumerate(zip(options, rights, orders, strict=True)):
            at = order.index(right)
            key = LETTERS[at] if base is None else at + base
            rows.append(
                {
                    "question": f"What {n}?",
                    **columns_of(form, [texts[i] for i in order], at),
                    "answer": key,
                }
            )
        return rows

    straight = [list(range(k))] * 8
    expected = meaning(table(None, straight))
    assert meaning(table(0, straight)) == meaning(table(1, straight)) == expected
    permuted = load_probe(table(None, orders))
    assert [str(item.choices[int(item.answers[0])]).strip() for item in permuted] == [
        texts[right] for texts, right in zip(options, rights, strict=True)
    ]
