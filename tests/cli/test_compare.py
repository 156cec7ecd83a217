"""`forgetwatch compare` as a user runs it: output, files, exit status."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from commands import Run
from harness_rows import choice_row, write_samples
from support import model, probe, tokenizer
from typer.testing import CliRunner

from forgetwatch import load_snapshot
from forgetwatch.cli import app

OK = "item_id,correct\na,1\nb,0\n"


@pytest.fixture
def run(command: Run) -> Run:
    """`forgetwatch compare` in `tmp_path`."""
    return partial(command, "compare")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ok.csv").write_text(OK)
    (tmp_path / "after.csv").write_text("item_id,correct,category\na,0,Math\nb,1,Math\n")
    return tmp_path


def test_the_table_is_plain_text_that_fits_a_hundred_columns(folder: Path) -> None:
    arguments = [sys.executable, "-m", "forgetwatch", "compare", "ok.csv", "after.csv"]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=True)
    assert "after against ok" in done.stdout
    assert "1 of 2 forgotten, 1 gained" in done.stdout
    assert "0.0 %: +0.0 points (" in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_json_goes_to_a_file_or_alone_to_stdout(run: Run, folder: Path) -> None:
    assert run("ok.csv", "after.csv", "--json", "o.json").status == 0
    document = json.loads((folder / "o.json").read_text())
    assert (document["schema"], document["groups"][0]["forgotten"]) == ("forgetwatch/comparison@1", 1)
    assert json.loads(run("ok.csv", "after.csv", "--json", "-").stdout) == document


def test_several_afters_are_each_compared_with_before(run: Run, folder: Path) -> None:
    done = run("ok.csv", "after.csv", "ok.csv", "--json", "-")
    document = json.loads(done.stdout)
    assert document["schema"] == "forgetwatch/comparisons@1"
    assert [one["groups"][0]["forgotten"] for one in document["comparisons"]] == [1, 0]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("dup.csv", "item_id,correct\na,1\na,0\n", "is twice"),
        ("empty.csv", "item_id,correct\n", "no rows"),
        ("type.csv", "item_id,correct\na,maybe\n", "got 'maybe'"),
        ("columns.csv", "question,answer\nx,y\n", "item_id is missing"),
        ("disjoint.csv", "item_id,correct\nz,1\n", "no item in common"),
        ("fewer.csv", "item_id,correct\na,1\n", "--on-mismatch intersect"),
        ("cut.jsonl", '{"item_id": "a", "correct": 1}\n{"item_id": "b", "corr', "is the file cut"),
        ("noise.parquet", "PAR1 no parquet", "cannot be read"),
        ("nothere.csv", None, "no such file"),
        ("link.csv", None, "no such file"),
        (".", None, "a folder that contains neither a checkpoint"),
        ("some-model", None, "needs --probe"),
        ("org/model", None, "needs --probe"),
    ],
)
def test_bad_input_is_one_line_and_exit_status_one(
    run: Run, folder: Path, name: str, content: str | None, says: str
) -> None:
    if content is not None:
        (folder / name).write_text(content)
    (folder / "link.csv").symlink_to(folder / "gone.csv")
    done = run("ok.csv", name)
    assert done.status == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert says in done.stderr


def test_intersect_compares_the_items_of_both_sides(run: Run, folder: Path) -> None:
    (folder / "fewer.csv").write_text("item_id,correct\na,0\n")
    done = run("ok.csv", "fewer.csv", "--on-mismatch", "intersect")
    assert done.status == 0
    assert "1 item, 1 left out" in done.stdout
    assert "1 of 1 forgotten, 0 gained" in done.stdout
    done = run("ok.csv", "fewer.csv", "--on-mismatch", "intersect", "--detail")
    assert "have no counterpart on the other and are left out." in " ".join(done.stdout.split())


def test_wrong_usage_is_exit_status_two(run: Run, folder: Path) -> None:
    assert run("ok.csv").status == 2
    assert run("ok.csv", "ok.csv", "--by", "colour").status == 2


@pytest.mark.parametrize("target", ["file/o.json", "nowhere/o.json"])
def test_json_that_cannot_be_written_is_one_line_and_no_folder_is_made(run: Run, folder: Path, target: str) -> None:
    (folder / "file").write_text("")
    done = run("ok.csv", "after.csv", "--json", target)
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert "needed a folder that exists" in done.stderr
    assert not (folder / "nowhere").exists()


def test_nothing_scored_on_both_sides_is_an_error(run: Run, folder: Path) -> None:
    (folder / "none.csv").write_text("item_id,correct\na,\nb,\n")
    done = run("ok.csv", "none.csv")
    assert (done.status, done.stderr.count("\n")) == (1, 1)
    assert "nothing to compare, none of the 2 items was scored on both sides" in done.stderr


def test_a_probe_is_checked_even_where_no_model_is_scored(run: Run, folder: Path) -> None:
    assert run("ok.csv", "after.csv", "--probe", "nope.jsonl").status == 1
    probe().save(folder / "p.jsonl")
    done = run("ok.csv", "p.jsonl")
    assert "a probe (questions), not outcomes" in done.stderr


def test_checkpoint_folders_are_scored_and_compared(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(folder / "cache"))
    tok = tokenizer()
    for seed in (0, 1):
        model(tok, seed=seed).save_pretrained(folder / f"m{seed}")
        tok.save_pretrained(folder / f"m{seed}")
    probe().save(folder / "p.jsonl")
    done = run("m0", "m1", "--probe", "p.jsonl", "--json", "-")
    assert done.status == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["items"]["compared"] == 30
    assert document["groups"][0]["forgotten"] + document["groups"][0]["gained"] > 0
    assert len(list((folder / "cache").glob("*.parquet"))) == 2
    missing = run("m0", "m1")
    assert (missing.status, missing.stderr.count("\n")) == (1, 1)
    assert "needs --probe" in missing.stderr


def outcomes(folder: Path, name: str, right: list[int], **columns: list[object]) -> str:
    """A CSV of the items 0, 1, ...; its name."""
    header = ["item_id", "correct", *columns]
    rows = [[i, *row] for i, row in enumerate(zip(right, *columns.values(), strict=True))]
    (folder / name).write_text("\n".join(",".join(map(str, row)) for row in [header, *rows]) + "\n")
    return name


def test_a_second_measurement_is_counted_as_noise(run: Run, tmp_path: Path) -> None:
    before, again = outcomes(tmp_path, "b.csv", [1, 1, 0, 0]), outcomes(tmp_path, "n.csv", [1, 0, 0, 0])
    after = outcomes(tmp_path, "a.csv", [0, 0, 0, 1])
    done = run(before, after, "--null", again, "--json", "-")
    whole = json.loads(done.stdout)["groups"][0]
    assert (whole["forgotten"], whole["null_lost"], whole["null_gained"]) == (2, 1, 0)
    assert re.search(r"null_lost +1 ", run(before, after, "--null", again, "--detail").stdout)
    refused = run(before, after, "--null", outcomes(tmp_path, "o.csv", [1], task=["other"]))
    assert (refused.status, "no item of b" in refused.stderr) == (1, True)


def test_paper_compat_is_optional(run: Run, tmp_path: Path) -> None:
    columns = {"task": ["piqa"] * 60, "k": [4] * 60}
    before = outcomes(tmp_path, "b.csv", [1] * 30 + [0] * 30, chosen=[0] * 30 + [1, 2] * 15, **columns)
    after = outcomes(tmp_path, "a.csv", [1] * 20 + [0] * 40, chosen=[0] * 20 + [1, 2] * 20, **columns)
    plain = json.loads(run(before, after, "--json", "-").stdout)
    assert plain["paper_compat"] is None
    document = json.loads(run(before, after, "--chance", "paper-compat", "--json", "-").stdout)
    assert document["paper_compat"]["forgetting"]["mean"] == pytest.approx(10 / 60 - 0.5 * (40 / 60) / 3)
    assert list(document["paper_compat"]["by_category"]) == ["Common Sense"]


def test_samples_of_a_csv_reach_the_table_and_the_json(run: Run, tmp_path: Path) -> None:
    """Three answers to each of two questions: counts are means over them, and no test takes them for six."""
    rows = [(item, sample) for item in "xy" for sample in range(3)]
    for name, right in (("b.csv", [1, 1, 1, 1, 0, 0]), ("a.csv", [0, 0, 1, 1, 0, 0])):
        lines = [f"{item},{sample},{r}" for (item, sample), r in zip(rows, right, strict=True)]
        (tmp_path / name).write_text("\n".join(["item_id,sample,correct", *lines]) + "\n")
    done = run("b.csv", "a.csv", "--json", "-")
    document = json.loads(done.stdout)
    whole = document["groups"][0]
    assert (document["samples"], whole["n"], whole["forgotten"]) == (3, 2, pytest.approx(2 / 3))
    assert whole["p_value"] == 0.5  # one item changed: one coin
    assert "2 items, 3 samples each" in run("b.csv", "a.csv").stdout
    first = json.loads(run("b.csv", "a.csv", "--samples", "first", "--json", "-").stdout)
    assert (first["samples"], first["groups"][0]["forgotten"]) == (1, 1)


def test_questions_of_one_passage_are_not_counted_as_independent(run: Run, tmp_path: Path) -> None:
    cluster = [f"p{i // 10}" for i in range(100)]
    right = [0] * 30 + [1] * 70
    alone = [outcomes(tmp_path, f"{name}.csv", values) for name, values in (("b", [1] * 100), ("a", right))]
    together = [
        outcomes(tmp_path, f"{name}c.csv", values, cluster=cluster) for name, values in (("b", [1] * 100), ("a", right))
    ]
    one, other = (json.loads(run(*pair, "--json", "-").stdout) for pair in (alone, together))
    assert one["groups"][0]["p_value"] < 1e-8
    assert other["groups"][0]["p_value"] == pytest.approx(2 * (0.5**3) * 0.5)  # three passages, mid-p
    assert other["clusters"] == 10
    assert other["groups"][0]["effective_n"] < 15
    widths = [d["groups"][0]["net_change_interval"][1] - d["groups"][0]["net_change_interval"][0] for d in (one, other)]
    assert widths[1] > 2 * widths[0]


def test_metric_decides_which_answers_of_a_harness_are_right(run: Run, tmp_path: Path) -> None:
    for name, right in (("before", (1.0, 0.0)), ("after", (0.0, 0.0))):
        judged = {"acc": 1.0, "acc_norm": right[0]}
        write_samples(tmp_path / name / f"org__{name}", "arc_easy", [choice_row(0, (-1.0, -2.0), 0, metrics=judged)])
    done = run("before", "after", "--metric", "acc_norm", "--json", "-")
    assert done.status == 0, done.stderr
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert (document["groups"][0]["forgotten"], document["before"]["metric"]) == (1, "acc_norm")
    assert json.loads(run("before", "after", "--json", "-").stdout)["groups"][0]["forgotten"] == 0
    done = run("before", "after", "--metric", "f1")
    assert done.status == 1
    assert "no metric 'f1' in this log; those that are right or wrong: acc, acc_norm" in " ".join(done.stderr.split())


def test_own_categories_group_the_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,task,category,correct\n1,t,old,1\n2,u,old,1\n")
    (tmp_path / "b.csv").write_text("item_id,task,category,correct\n1,t,old,0\n2,u,old,1\n")
    (tmp_path / "c.yaml").write_text("t: Fresh\n")
    files = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    done = CliRunner().invoke(app, ["compare", *files, "--categories", str(tmp_path / "c.yaml"), "--detail"])
    assert done.exit_code == 0
    assert "Fresh" in done.stdout
    assert "1 of 2 tasks are not in" in " ".join(done.stdout.split())


@pytest.mark.parametrize("named", [["--category", "Fresh"], ["--fail-if", "category:Fresh.forgotten>0"]])
def test_options_name_the_categories_of_the_map(tmp_path: Path, named: list[str]) -> None:
    (tmp_path / "a.csv").write_text("item_id,task,category,correct\n1,t,old,1\n2,u,old,1\n")
    (tmp_path / "b.csv").write_text("item_id,task,category,correct\n1,t,old,0\n2,u,old,1\n")
    (tmp_path / "c.yaml").write_text("t: Fresh\n")
    command = ["compare", *(str(tmp_path / name) for name in ("a.csv", "b.csv"))]
    done = CliRunner().invoke(app, [*command, "--categories", str(tmp_path / "c.yaml"), *named, "--json", "-"])
    whole, *_ = json.loads(done.stdout)["groups"]
    assert (done.exit_code, whole["n"]) == ((0, 1) if named[0] == "--category" else (3, 2)), done.output


def test_ids_that_repeat_within_subjects_lead_to_a_command_that_works(run: Run, command: Run, tmp_path: Path) -> None:
    lines = [f"{subject},{n},{n % 2},{subject}{n}" for subject in "xyz" for n in range(4)]
    path = tmp_path / "my outcomes.csv"
    path.write_text("\n".join(["subject,item_id,correct,remark", *lines]))
    refused = run(path.name, path.name)
    assert "its ids repeat, and are unique within each subject; `" in refused.last
    assert command(*shlex.split(refused.last.split("`")[1])[1:]).status == 0
    assert set(load_snapshot(tmp_path / "outcomes.parquet").texts("task")) == {"x", "y", "z"}
