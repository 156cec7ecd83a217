"""`forgetwatch compare` with several AFTERs, a target, and pictures; `report` with pictures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import snapshot
from typer.testing import CliRunner

from forgetwatch import save_snapshot
from forgetwatch.cli import app
from forgetwatch.errors import SnapshotError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    labels = {"category": ["a", "b"] * 20}
    save_snapshot(snapshot([True] * 40, meta={"model": "base"}, **labels), "base.parquet")
    for step, lost in ((10, 2), (20, 8)):
        checkpoint = Path(f"checkpoint-{step}")
        checkpoint.mkdir()
        made = snapshot([at >= lost for at in range(40)], meta={"model": str(checkpoint)}, **labels)
        save_snapshot(made, f"s{step}.parquet")
    Path("t.csv").write_text("after,eval_accuracy\ns20.parquet,0.2\ns10.parquet,0.1\n")
    return tmp_path


def compared(*options: str) -> str:
    done = CliRunner().invoke(app, ["compare", "base.parquet", "s10.parquet", "s20.parquet", *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_ranking_is_first_and_the_detail_ends_with_the_matrix(folder: Path) -> None:
    assert "checkpoint-20 against base" not in compared()
    shown = compared("--detail")
    assert shown.index("2 models against base") < shown.index("checkpoint-20 against base")
    assert [line.split()[:3] for line in shown.splitlines()[-3:]] == [
        ["0", "base", "–"],
        ["1", "checkpoint-10", "0"],
        ["2", "checkpoint-20", "0"],
    ]


def test_the_target_is_read_from_a_table(folder: Path) -> None:
    document = json.loads(compared("--target", "t.csv", "--json", "-"))
    models = document["ranking"]["models"]
    assert [(one["number"], one["target"], one["on_front"]) for one in models] == [(1, 0.1, True), (2, 0.2, True)]
    assert document["matrix"]["lost"] == [[0, 2, 8], [0, 0, 6], [0, 0, 0]]
    assert len(document["comparisons"]) == 2


def test_a_report_of_several_begins_with_all_of_them(folder: Path) -> None:
    compared("-o", "r.html", "--target", "t.csv")
    compared("-o", "r.md")
    compared("-o", "r.json")
    page = (folder / "r.html").read_text()
    assert page.index('id="several"') < page.index('id="summary"')
    assert (folder / "r.md").read_text().startswith("# 2 models against base\n")
    assert json.loads((folder / "r.json").read_text())["matrix"]["items"] == 40


def test_the_matrix_counts_the_first_sample_where_that_is_asked(tmp_path: Path) -> None:
    rows = {"item_id": list("aabb"), "content_hash": list("AABB"), "sample": [0, 1, 0, 1]}
    for name, right in (("b", [True] * 4), ("x", [False, True, True, True]), ("y", [True, False, False, False])):
        save_snapshot(snapshot(right, **rows), tmp_path / f"{name}.parquet")
    names = [str(tmp_path / f"{name}.parquet") for name in "bxy"]
    for options, lost in (([], [0, 0.5, 1.5]), (["--samples", "first"], [0, 1, 1])):
        done = CliRunner().invoke(app, ["compare", *names, *options, "--json", "-"])
        assert json.loads(done.stdout)["matrix"]["lost"][0] == lost


def test_a_target_of_one_model_is_wrong_usage(folder: Path) -> None:
    done = CliRunner().invoke(app, ["compare", "base.parquet", "s10.parquet", "--target", "t.csv"])
    assert done.exit_code == 2
    assert "needed at least two" in " ".join(done.output.replace("│", " ").split())


def test_a_target_that_is_not_there_is_an_error(folder: Path) -> None:
    done = CliRunner().invoke(app, ["compare", "base.parquet", "s10.parquet", "s20.parquet", "--target", "no.csv"])
    assert isinstance(done.exception, SnapshotError)
    assert "no.csv: no such file" in str(done.exception)


def test_pictures_are_drawn_where_they_are_wanted(folder: Path) -> None:
    shown = compared("--plots", "new/pictures", "--target", "t.csv")
    assert "pictures: 3 in new/pictures, as PNG and SVG" in shown
    assert {path.name for path in (folder / "new" / "pictures").glob("*.png")} == {
        "retention-against-eval_accuracy.png",
        "categories-1-checkpoint-10.png",
        "categories-2-checkpoint-20.png",
    }


def test_with_json_on_stdout_pictures_are_named_on_stderr(folder: Path) -> None:
    json.loads(compared("--plots", "pictures", "--json", "-"))


def test_a_comparison_without_pictures_says_so(folder: Path) -> None:
    for name in ("one", "two"):
        (folder / f"{name}.csv").write_text("item_id,correct\na,1\nb,0\n")
    done = CliRunner().invoke(app, ["compare", "one.csv", "two.csv", "--plots", "pictures"])
    assert "pictures: none" in done.stdout


@pytest.mark.parametrize("place", ["base.parquet", "base.parquet/below"])
def test_a_file_where_the_pictures_should_go_is_refused_before_the_work(folder: Path, place: str) -> None:
    done = CliRunner().invoke(app, ["compare", "nothere.parquet", "s10.parquet", "--plots", place])
    assert isinstance(done.exception, SnapshotError)
    assert "base.parquet is a file" in str(done.exception)


def test_the_pictures_of_a_run(folder: Path) -> None:
    run = folder / "out" / "_forgetwatch"
    run.mkdir(parents=True)
    for step, name in ((0, "baseline"), (5, "step-000005")):
        right = [at >= step for at in range(40)]
        save_snapshot(snapshot(right, category=["a", "b"] * 20, meta={"step": step}), run / f"{name}.parquet")
    done = CliRunner().invoke(app, ["report", "out", "--plots", "pictures"])
    assert done.exit_code == 0, done.output
    names = sorted(path.name for path in (folder / "pictures").glob("*.svg"))
    assert names == ["categories-step-5.svg", "curves.svg", "items-look-by-look.svg"]
