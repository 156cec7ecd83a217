"""Small inputs that ended in a bug, in silence, or after the work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import snapshot, write_jsonl
from typer.testing import CliRunner

from forgetwatch import ForgetWatchCallback, compare, load_snapshot
from forgetwatch.cli import app
from forgetwatch.errors import MismatchError, WatchError
from forgetwatch.report.terminal import facts
from forgetwatch.snapshot import save_snapshot


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two logs whose ids and questions are no ASCII."""
    made = []
    for name, right in (("before", 1), ("after", 0)):
        rows = [{"item_id": f"é{at}", "question": "¿Qué?", "correct": right * (at % 2)} for at in range(12)]
        made.append(str(write_jsonl(tmp_path / f"{name}.jsonl", rows)))
    return made


def test_what_the_terminal_cannot_encode_is_escaped(files: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "forgetwatch", "flips", *files],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert r"\xe91" in done.stdout


def test_a_path_that_is_too_long_and_an_empty_argument_are_one_short_sentence(files: list[str]) -> None:
    for argument, status, said in (("x" * 5000, 1, "File name too long"), ("", 2, "an argument is empty")):
        words = [sys.executable, "-m", "forgetwatch", "compare", files[0], argument]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == status
        assert said in done.stderr
        assert len(done.stderr) < 300


@pytest.mark.parametrize(("one", "other"), [("é", "e\u0301"), ("a b", "a  b "), ("007", "7")])
def test_ids_that_are_spelled_unlike_get_a_hint(one: str, other: str, tmp_path: Path) -> None:
    before, after = (
        load_snapshot(write_jsonl(tmp_path / f"{at}.jsonl", [{"item_id": name, "correct": 1} for name in (own, "x")]))
        for at, own in enumerate((one, other))
    )
    with pytest.raises(MismatchError, match="1 ids are spelled unlike"):
        compare(before=before, after=after)


def test_a_cell_with_an_inch_sign_is_read_and_a_cut_quote_is_not(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('item_id,correct,output\na,1,a 5" pipe\nb,0,no\n')
    assert load_snapshot(path).texts("output")[0] == 'a 5" pipe'
    path.write_text('item_id,correct,output\na,1,"a 5 pipe\nb,0,no\n')
    with pytest.raises(Exception, match="a quote is opened and never closed"):
        load_snapshot(path)


def test_metadata_with_a_null_probe_are_compared() -> None:
    before, after = (snapshot([True] * 3, meta={"probe": None, "step": step}) for step in (0, 1))
    assert facts(compare(before=before, after=after))["items"] == "3 items"


def test_two_outputs_of_one_name_and_a_folder_for_a_comment_are_refused_before_the_work(
    tmp_path: Path, files: list[str]
) -> None:
    out = str(tmp_path / "y.json")
    done = CliRunner().invoke(app, ["compare", *files, "--json", out, "-o", out])
    assert "two outputs have this name" in " ".join(done.output.replace("│", " ").split())
    assert not Path(out).exists()
    for name in "ab":
        save_snapshot(snapshot([True] * 20), tmp_path / f"{name}.parquet")
    sides = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    done = CliRunner().invoke(app, ["gate", *sides, "--comment", str(tmp_path)])
    assert "a comment ends in .md" in str(done.exception)
    done = CliRunner().invoke(app, ["gate", *sides, "--comment", files[0]])
    assert "a comment ends in .md" in str(done.exception)


def test_a_value_that_is_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("critical: [{metric: acc, gain: 2%}]")
    save_snapshot(snapshot([True] * 20), tmp_path / "a.parquet")
    words = ["gate", str(tmp_path / "a.parquet"), str(tmp_path / "a.parquet"), "--policy", str(tmp_path / "p.yaml")]
    done = CliRunner().invoke(app, [*words, "--value", "acc=.6,.7", "--value", "acc=.6,.5"])
    assert done.exit_code == 2
    assert "a metric is given twice" in " ".join(done.output.replace("│", " ").split())


def test_json_of_another_command_is_not_replaced(tmp_path: Path, files: list[str]) -> None:
    path = tmp_path / "gate.json"
    path.write_text(json.dumps({"schema": "forgetwatch/gate@1"}))
    done = CliRunner().invoke(app, ["compare", *files, "--json", str(path)])
    assert "not a JSON document of forgetwatch (comparison)" in str(done.exception)


def test_clearing_the_cache_is_described() -> None:
    assert "Delete all entries of the cache." in CliRunner().invoke(app, ["cache", "--help"]).stdout


def test_an_overhead_that_is_text_is_one_sentence() -> None:
    with pytest.raises(WatchError, match=r"max_overhead='0\.02': needed a share of the time"):
        ForgetWatchCallback("demo", max_overhead="0.02")  # type: ignore[arg-type]
