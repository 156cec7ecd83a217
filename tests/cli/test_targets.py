"""Outputs overwrite nothing that forgetwatch did not write in the same format, and no input."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import Run
from support import snapshot
from typer.testing import CliRunner

from forgetwatch import save_snapshot
from forgetwatch.cli import app


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three snapshots, a log in JSON lines, a table, notes, and a picture of somebody else."""
    monkeypatch.chdir(tmp_path)
    for name, right in (("base", 40), ("new1", 38), ("new2", 36)):
        category = ["a", "b"] * 30
        save_snapshot(snapshot([at < right for at in range(60)], category=category), f"{name}.parquet")
    Path("log.jsonl").write_text('{"item_id": "a", "correct": true}\n{"item_id": "b", "correct": false}\n')
    Path("results.json").write_text('{"results": {"arc": {"acc": 0.5}}}')
    Path("table.csv").write_text("item_id,correct\na,1\nb,0\n")
    Path("notes.md").write_text("# forgetwatch\n\nmine\n")
    Path("page.html").write_text("<!doctype html><title>forgetwatch</title>")
    Path("rows.csv").write_text("question,a,b,answer\n1+1?,2,3,a\n2+2?,4,5,a\n3+3?,6,7,a\n")
    return tmp_path


@pytest.fixture
def refused(command: Run) -> Callable[..., str]:
    """Last line of a command that must be refused with status 1."""

    def checked(*arguments: str) -> str:
        done = command(*arguments)
        assert done.status == 1, done.stdout
        return done.last

    return checked


COMPARE = ("compare", "base.parquet")
SIDES = (*COMPARE, "new2.parquet")


@pytest.mark.parametrize(
    ("arguments", "target", "says"),
    [
        # Somebody takes --json for a switch: the next path is its value.
        ((*COMPARE, "--json", "new1.parquet", "new2.parquet"), "new1.parquet", "a JSON document ends in .json"),
        (("flips", "base.parquet", "new2.parquet", "--jsonl", "base.parquet"), "base.parquet", "ends in .jsonl"),
        ((*SIDES, "-o", "new1.parquet"), "new1.parquet", "a report ends in .html, .md, .csv or .json"),
        ((*SIDES, "--json", "results.json"), "results.json", "not a JSON document of forgetwatch"),
        ((*SIDES, "-o", "results.json"), "results.json", "not a report of forgetwatch"),
        ((*SIDES, "-o", "table.csv"), "table.csv", "not a report of forgetwatch"),
        ((*SIDES, "-o", "notes.md"), "notes.md", "not a report of forgetwatch"),
        ((*SIDES, "-o", "page.html"), "page.html", "not a report of forgetwatch"),
        (("flips", "base.parquet", "new2.parquet", "--jsonl", "log.jsonl"), "log.jsonl", "not a list of items"),
        (("convert", "base.parquet", "-o", "base.parquet"), "base.parquet", "the command reads this file"),
        (("convert", "log.jsonl", "-o", "log.jsonl"), "log.jsonl", "a snapshot ends in .parquet"),
        (("probe", "build", "rows.csv", "-o", "log.jsonl"), "log.jsonl", "not a probe of forgetwatch"),
    ],
)
def test_a_file_that_is_not_ours_is_kept(
    folder: Path, refused: Callable[..., str], arguments: tuple[str, ...], target: str, says: str
) -> None:
    before = (folder / target).read_bytes()
    assert says in refused(*arguments)
    assert (folder / target).read_bytes() == before


def test_a_table_that_is_another_kind_of_parquet_is_kept(folder: Path, refused: Callable[..., str]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1]}), "mine.parquet")
    assert "not a snapshot of forgetwatch" in refused("convert", "log.jsonl", "-o", "mine.parquet")
    assert pq.read_table("mine.parquet").num_rows == 1


def test_an_input_under_another_name_is_kept(folder: Path, refused: Callable[..., str]) -> None:
    (folder / "link.parquet").symlink_to(folder / "base.parquet")
    before = (folder / "base.parquet").read_bytes()
    assert "the command reads this file" in refused("convert", "base.parquet", "-o", "link.parquet")
    assert (folder / "base.parquet").read_bytes() == before


def test_what_forgetwatch_wrote_is_written_again(folder: Path) -> None:
    commands = [
        (*SIDES, "--json", "out.json"),
        *((*SIDES, "-o", f"report{suffix}") for suffix in (".html", ".md", ".csv", ".json")),
        ("flips", "base.parquet", "new2.parquet", "--jsonl", "flips.jsonl"),
        ("convert", "log.jsonl", "-o", "log.parquet"),
        ("probe", "build", "rows.csv", "-o", "probe.jsonl"),
        (*SIDES, "--plots", "pictures"),
    ]
    for arguments in commands:
        for _ in range(2):
            done = CliRunner().invoke(app, [*arguments])
            assert done.exit_code in (0, 4), done.output
    # An empty file, as mktemp makes it, is anybody's.
    (folder / "empty.json").touch()
    assert CliRunner().invoke(app, [*SIDES, "--json", "empty.json"]).exit_code == 0
    assert json.loads((folder / "empty.json").read_text())["schema"] == "forgetwatch/comparison@1"


def test_a_picture_of_somebody_else_is_kept(folder: Path, refused: Callable[..., str]) -> None:
    assert CliRunner().invoke(app, [*SIDES, "--plots", "pictures"]).exit_code == 0
    drawn = sorted((folder / "pictures").iterdir())
    assert drawn
    drawn[0].write_bytes(b"\x89PNG\r\n\x1a\n of somebody else")
    assert "there is a picture that forgetwatch did not draw" in refused(*SIDES, "--plots", "pictures")
    assert drawn[0].read_bytes().endswith(b"of somebody else")


def test_a_study_does_not_write_into_a_folder_of_others(folder: Path, refused: Callable[..., str]) -> None:
    pairs = [{"name": "one", "before": "base.parquet", "after": "new1.parquet"}]
    stage = {"name": "tuning", "pairs": pairs}
    (folder / "study.yaml").write_text(json.dumps({"name": "mine", "stages": [stage]}))
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.tex").write_text("precious")
    assert "contains files that no study wrote" in refused("study", "study.yaml")
    assert [path.name for path in (folder / "mine").iterdir()] == ["thesis.tex"]
    shutil.rmtree(folder / "mine")
    for _ in range(2):
        assert CliRunner().invoke(app, ["study", "study.yaml"]).exit_code == 0
