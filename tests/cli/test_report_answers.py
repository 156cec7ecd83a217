"""`forgetwatch report` on the answers that a training writes: table, page, JSON, limits, and errors in one sentence."""

import json
import random
from pathlib import Path

import pytest
from commands import Run

from forgetwatch.report import html


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "svg", lambda draw, *, name, label: html.Markup("<svg></svg>"))


def write(folder: Path, falls: float, *, low: float = 0.0, questions: int = 300) -> None:
    """Validation files of verl at steps 0, 10 and 20; at each step more right answers are lost."""
    folder.mkdir(parents=True)
    for step in (0, 10, 20):
        draws = random.Random(1)
        rows = []
        for question in range(questions):
            right = question % 4 > 0 and draws.random() >= falls * step / 20
            score = 1.0 if right else low
            rows.append(
                {
                    "input": f"What is {question} and one?",
                    "output": "x",
                    "score": score,
                    "step": step,
                }
            )
        random.Random(step).shuffle(rows)
        (folder / f"{step}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_the_table_the_page_and_the_next_command(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0.3)
    done = command("report", "val")
    assert done.status == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("FORGOT     val, step 20: accuracy fell by about ")
    assert "next       forgetwatch flips val/0.jsonl val/20.jsonl" in lines
    assert "note: the files name no options: what was clearly known is not measured" in lines
    assert lines[-1] == "report: val/forgetwatch-report.html"
    page = Path("val/forgetwatch-report.html").read_text()
    assert "FORGOT" in page
    assert "and one?" in page  # the lost questions by their text
    assert command(*lines[[line[:4] for line in lines].index("next")].split()[2:]).status == 0
    # The page is none of the training's files.
    assert command("report", "val").stdout.splitlines()[:3] == lines[:3]


def test_files_and_the_folder_are_one_run(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0.3)
    names = [f"val/{step}.jsonl" for step in (20, 0, 10)]
    assert command("report", *names).stdout == command("report", "val").stdout


def test_the_json_has_a_look_for_each_step(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0.3)
    done = command("report", "val", "--json", "-")
    looks = json.loads(done.stdout)["looks"]
    lost = [look["comparison"]["groups"][0]["forgotten"] for look in looks]
    assert [look["step"] for look in looks] == [10, 20]
    assert lost[0] < lost[1]


@pytest.mark.parametrize(("falls", "status"), [(0.3, 3), (0.0, 4)])
def test_limits_decide_the_exit_status(
    command: Run, tmp_path: Path, falls: float, status: int
) -> None:
    write(tmp_path / "val", falls)
    # Without a second measurement nothing is a pass: a flip may be sampling.
    assert command("report", "val", "--no-worse-than", "2%,known=5%").status == status


def test_the_base_measured_again_shows_what_sampling_changes(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0.0, questions=1500)
    assert command("report", "val").stdout.startswith(
        "NOT CLEAR  val, step 20: flips may be sampling"
    )
    done = command("report", "val", "--repeat", "val/10.jsonl")
    assert done.stdout.startswith("KEPT "), done.stdout


def test_rewards_of_another_range_need_their_scale(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0.3, low=-1.0)
    done = command("report", "val")
    assert done.status == 1
    assert "--scale -1,1 if that is the range of score" in done.last
    assert command("report", "val", "--scale", "-1,1").stdout.startswith("FORGOT ")


def test_what_is_no_run_is_refused(command: Run, tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    assert "needed a run folder" in command("report", "val").last
    write(tmp_path / "other", 0.3)
    done = command("report", "other", "--step", "run_{N}.csv")
    assert done.status == 1
    assert "--step names a column, or a form with {N}" in done.last
    assert command("report", "other", "--base", "nowhere.jsonl").status == 1


def test_a_missing_folder_is_named(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "validation", 0.3)
    assert "validaton: no such folder, did you mean" in command("report", "validaton").last


def test_outcomes_of_a_run_are_settled(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0.3)
    assert command("follow", "val", "--once").status == 0
    done = command("report", "val/_forgetwatch_follow", "--metric", "score")
    assert done.status == 2
    assert "holds a run of forgetwatch, whose outcomes are settled" in " ".join(done.stderr.split())


def test_a_last_step_that_cannot_be_read_is_no_pass(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0.0, questions=1500)
    broken = tmp_path / "val" / "30.jsonl"
    broken.write_text((tmp_path / "val" / "20.jsonl").read_text()[:-9])
    limits = ("--repeat", "val/10.jsonl", "--no-worse-than", "2%,known=5%")
    done = command("report", "val", *limits)
    assert done.status == 4
    assert done.stdout.startswith("NOT CLEAR ")
    assert "step 30 is left out: " in done.stdout
    broken.unlink()
    assert command("report", "val", *limits).status == 0


def test_a_step_with_fewer_answers_is_left_out(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0.3)
    short = tmp_path / "val" / "10.jsonl"
    short.write_text("".join(short.read_text().splitlines(keepends=True)[:250]))
    done = command("report", "val", "--json", "r.json")
    assert done.status == 0, done.stderr
    assert [look["step"] for look in json.loads(Path("r.json").read_text())["looks"]] == [20]
    assert "step 10 is left out: fewer answers than step 0" in done.stdout


def test_the_base_is_a_file_or_a_folder(command: Run, tmp_path: Path) -> None:
    write(tmp_path / "val", 0.3)
    (tmp_path / "base").mkdir()
    (tmp_path / "val" / "0.jsonl").rename(tmp_path / "base" / "0.jsonl")
    of_file = command("report", "val", "--base", "base/0.jsonl", "--output", "page.html")
    assert of_file.stdout.startswith("FORGOT "), of_file.stderr
    assert (
        command("report", "val", "--base", "base").stdout.splitlines()[0]
        == (of_file.stdout.splitlines()[0])
    )
