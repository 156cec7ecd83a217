"""`forgetwatch probe list|show|build|check`, in 80 columns."""

import re
from pathlib import Path
from typing import Any

import pytest
from support import model, probe, tokenizer, write_jsonl
from typer.testing import CliRunner

from forgetwatch import Item, Probe, load_probe, score
from forgetwatch.cli import app
from forgetwatch.errors import ForgetwatchError
from forgetwatch.probes.categories import Categories
from forgetwatch.probes.question_table import probe_from

ROWS: list[dict[str, Any]] = [
    {
        "question": "Which river is the longest?",
        "A": "Nile",
        "B": "Elbe",
        "answer": "A",
        "topic": "Earth",
    },
    {
        "question": "Which metal is liquid when warm?",
        "A": "cobalt",
        "B": "mercury",
        "answer": "B",
        "topic": "Matter",
    },
]


def probe_command(*arguments: str | Path, status: int = 0) -> str:
    done = CliRunner().invoke(app, ["probe", *map(str, arguments)])
    if isinstance(done.exception, ForgetwatchError):
        raise done.exception
    assert done.exit_code == status, done.output
    assert max(map(len, done.stdout.splitlines()), default=0) <= 100
    return done.stdout


def test_list_names_every_probe() -> None:
    listed = probe_command("list")
    for name in ("demo", "standard", "lm_eval:arc_easy", ".csv"):
        assert f"  {name} " in listed or f" {name}\n" in listed or f"  {name}" in listed


def test_the_columns_of_the_list_begin_at_the_same_places() -> None:
    """Whatever the length of a name: the description begins in one column, and the number of items ends in one."""
    lines = probe_command("list").partition("\ntasks of ")[0].splitlines()
    rows = [
        re.fullmatch(r"  (\S+) +(.*?) {2,}(\S.*?)  (\S.*)", line)
        for line in lines
        if line.startswith("  ")
    ]
    assert len(rows) == 14
    assert len({row.start(2) for row in rows if row}) == 1
    assert len({row.end(3) for row in rows if row}) == 1
    assert all(row and not row[2].endswith("…") for row in rows)


def test_plan_of_a_table_is_shown_by_check_and_show(tmp_path: Path) -> None:
    table, probe = tmp_path / "q.csv", tmp_path / "q.jsonl"
    table.write_text("question,A,B,answer\nCapital of Chile?,Lima,Santiago,B\n")
    plan = "question: question, asked as 'Question: ... Answer:'; options: A, B; key: letters in answer"
    assert f"read as: {plan}" in " ".join(
        probe_command("build", str(table), "-o", str(probe)).split()
    )
    for command in (("check", table), ("check", probe), ("show", probe)):
        assert plan in " ".join(probe_command(command[0], str(command[1])).split())


def test_show_says_what_a_probe_holds_and_shows_items() -> None:
    text = probe_command("show", "demo", "--examples", "1")
    probe = load_probe("demo")
    for part in (
        "360 items, 6 tasks",
        "Weather 60",
        "scoring loglikelihood",
        probe.fingerprint,
        str(probe[0].prompt),
    ):
        assert part in text
    assert text.count("\n* ") == 1


def test_categories_are_written_as_a_file_to_edit(tmp_path: Path) -> None:
    path = tmp_path / "c.csv"
    path.write_text(CliRunner().invoke(app, ["probe", "show", "--categories"]).stdout)
    assert Categories.read(path).names == Categories.paper().names
    path.write_text(probe_command("show", "demo", "--categories"))
    assert Categories.read(path).of("winds") == "Weather"


def test_build_makes_a_probe_of_rows(tmp_path: Path) -> None:
    out = tmp_path / "p.jsonl"
    text = probe_command("build", write_jsonl(tmp_path / "mine.jsonl", ROWS), "-o", out)
    assert "2 items, 1 task; k 2 2" in text
    assert load_probe(out).fingerprint == load_probe(tmp_path / "mine.jsonl").fingerprint
    own = [{"frage": row["question"], "x": "Nile", "y": "Elbe", "richtig": 0} for row in ROWS]
    path = write_jsonl(tmp_path / "eigen.jsonl", own)
    columns = ("--column", "prompt=frage", "--column", "choices=x,y", "--column", "answer=richtig")
    probe_command(
        "build",
        path,
        "-o",
        out,
        *columns,
        "--task",
        "rivers",
        "--scoring",
        "letters",
        "--limit",
        "1",
    )
    built = load_probe(out)
    assert (len(built), built.scoring, built[0].task, built[0].choices) == (
        1,
        "letters",
        "rivers",
        ("Nile", "Elbe"),
    )


def test_check_finds_faults_and_strict_makes_them_count(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "mine.jsonl", ROWS)
    assert "no fault found" in probe_command("check", path, "--strict")
    bad = write_jsonl(
        tmp_path / "bad.jsonl", [*ROWS, ROWS[0], ROWS[1] | {"question": "Is mercury liquid?"}]
    )
    text = probe_command("check", bad)
    assert "! repeated" in text
    assert "! leaked" in text
    assert "2 kinds of fault" in text
    probe_command("check", bad, "--strict", status=1)


def test_check_says_that_a_tokenizer_knows_no_chat(tmp_path: Path) -> None:
    plain, chat = tokenizer(), tokenizer()
    plain.chat_template, chat.chat_template = None, "{{ messages[0]['content'] }}"
    plain.save_pretrained(tmp_path / "plain")
    chat.save_pretrained(tmp_path / "chat")
    assert "! no template" in probe_command("check", "behaviour", "--tokenizer", tmp_path / "plain")
    assert "no template" not in probe_command(
        "check", "behaviour", "--tokenizer", tmp_path / "chat"
    )


def test_check_keeps_the_indentation_of_lines_that_go_on(tmp_path: Path) -> None:
    long = [
        {**ROWS[0], "task": "a task with a name of some length", "id": str(n)} for n in range(4)
    ]
    lines = probe_command("check", write_jsonl(tmp_path / "long.jsonl", long)).splitlines()
    assert "1 kind of fault" in lines
    (start,) = [at for at, line in enumerate(lines) if line.startswith("    a task with a name")]
    assert lines[start + 1].startswith("    ")


def test_check_reads_training_files(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "mine.jsonl", ROWS)
    train = write_jsonl(
        tmp_path / "train.jsonl", [{"text": "x"}, {"text": "which river is the longest? Nile!"}]
    )
    text = probe_command("check", path, "--train", train)
    assert "! training data" in text
    assert "2 training rows: 1 of 2 questions are in them" in " ".join(text.split())
    assert "mine 0: row 1" in text
    probe_command("check", path, "--train", train, "--strict", status=1)


def test_check_measures_lengths_with_a_tokenizer(tmp_path: Path) -> None:
    tok = tokenizer()
    tok.save_pretrained(tmp_path / "model")
    rows = [{"question": "w1 w2 w3 w4", "A": "foo", "B": "bar", "answer": "A"}]
    path = write_jsonl(tmp_path / "mine.jsonl", rows)
    text = probe_command("check", path, "--tokenizer", tmp_path / "model", "--context", "4")
    assert "! same tokens           1 of 1" in text
    assert "! too long              1 of 1" in text
    assert "too long" not in probe_command("check", path, "--tokenizer", tmp_path / "model")
    model(tok, positions=16).config.save_pretrained(tmp_path / "model")
    assert "than the 16 tokens" in probe_command("check", path, "--tokenizer", tmp_path / "model")
    with pytest.raises(ForgetwatchError, match="no tokenizer can be loaded"):
        probe_command("check", path, "--tokenizer", tmp_path / "none")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("build", "demo", "-o", "p.csv"), "a probe ends in .jsonl"),
        (("build", "demo", "-o", "no/p.jsonl"), "needed a folder that exists"),
        (("build", "a.csv", "-o", "p.jsonl", "--task", "t", "--shots", "5"), "are for tasks"),
        (("show", "no-such"), "no such file, and no such shipped probe"),
    ],
)
def test_what_cannot_be_done_is_one_line(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(ForgetwatchError, match=why):
        probe_command(*arguments)


@pytest.mark.parametrize(
    "arguments", [("show",), ("build", "demo", "-o", "p.jsonl", "--column", "x")]
)
def test_wrong_usage_is_exit_2(arguments: tuple[str, ...]) -> None:
    probe_command(*arguments, status=2)


def lines_of_answers(tmp_path: Path, questions: Probe) -> list[str]:
    tok = tokenizer()
    for made in (model(tok), tok):
        made.save_pretrained(tmp_path / "model")
    questions.save(tmp_path / "p.jsonl")
    shown = probe_command("check", tmp_path / "p.jsonl", "--model", tmp_path / "model")
    words = re.sub(r"\s+", " ", shown)
    return words[words.index("/model answers") + 7 :].split(" asked ")


def test_check_shows_four_answers_of_a_model(tmp_path: Path) -> None:
    questions = probe(6)
    first, *answers = lines_of_answers(tmp_path, questions)
    snapshot = score(model(tokenizer()), tokenizer(), questions)
    right = snapshot.floats("correct")
    assert first == f"answers {right.sum():.0f} of 6 right"
    assert len(answers) == 4
    for item, option, is_right, text in zip(
        questions, snapshot.ints("chosen"), right, answers, strict=False
    ):
        assert text.startswith(item.prompt.replace("\n", " ")[:30])
        assert f"answered {item.choices[option].strip()} " in text
        assert ("right; wanted" if is_right else "wrong") in text
        assert f"wanted {item.right_texts[0]}" in text


def test_check_shows_the_first_sample_of_each_question(tmp_path: Path) -> None:
    items = [
        Item(id=str(at), task="t", prompt=f"Q : w{at}", answer="zz", match="contains")
        for at in range(3)
    ]
    decoding = {"tokens": 4, "samples": 2, "temperature": 1.0}
    questions = Probe(items, name="mine", scoring="generate", decoding=decoding)
    first, *answers = lines_of_answers(tmp_path, questions)
    assert first == "answers 0 of 3 right"
    assert [text.split(" answered ")[0] for text in answers] == ["Q : w0", "Q : w1", "Q : w2"]
    assert all("wrong" in text and "wanted zz" in text for text in answers)


def test_check_asks_open_questions_as_a_run_does(tmp_path: Path) -> None:
    rows = [{"question": f"w{at} w{at + 2}", "answer": f"w{at + 1}"} for at in range(3)]
    lines_of_answers(tmp_path, probe_from(rows, decoding={"tokens": 2}))
    words = ["probe", "check", str(tmp_path / "p.jsonl"), "--model", str(tmp_path / "model")]
    assert "open questions are asked in" in CliRunner().invoke(app, words).stderr


@pytest.mark.parametrize("command", ["show", "build", "check"])
def test_a_limit_below_one_item_is_wrong_usage(command: str, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("question,a,b,answer\nIs it?,x,y,a\n")
    arguments = ["probe", command, str(tmp_path / "mine.csv"), "--limit", "0"]
    arguments += ["-o", str(tmp_path / "p.jsonl"), "--task", "t"] if command == "build" else []
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert not (tmp_path / "p.jsonl").exists()
