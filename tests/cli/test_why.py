"""`forgetwatch report --train` says whether what was lost was barely known, or near the training rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from run_folders import write_run
from support import decided, probe
from typer.testing import CliRunner

from forgetwatch import Snapshot
from forgetwatch.cli import app

ITEMS = 200


def look(step: int, lost: np.ndarray) -> Snapshot:
    """A look at questions of which each is surer than the one before."""
    scores = np.full((ITEMS, 4), -3.0)
    scores[:, 0] = -3.0 + np.linspace(0.1, 4.0, ITEMS)
    if step:
        scores[lost, 1] = 5.0
    share = np.exp(scores[:, 0]) / np.exp(scores).sum(axis=1)
    return decided(scores, meta={"model": "m", "step": step}, gold_share=share.tolist())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    lost = np.flatnonzero(rng.random(ITEMS) < np.linspace(0.6, 0.0, ITEMS))
    write_run(tmp_path / "run", probe(ITEMS), look(0, lost), {5: look(5, lost)})
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": str(item.prompt)}) + "\n" for item in probe(9)))
    return tmp_path / "run"


def test_with_rows_both_are_asked_and_json_has_them(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    path = tmp_path / "why.json"
    arguments = ["report", str(run), "--train", str(tmp_path / "rows.jsonl"), "--json", str(path)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert "its words in the rows, per 1,000" in done.stdout
    assert "lost of each tenth, %" in done.stdout
    document = json.loads(path.read_text())["why"]
    assert [one["column"] for one in document["columns"]] == ["sure", "near"]
    assert document["columns"][0]["explains"] is True
    assert sum(part["items"] for part in document["columns"][0]["parts"]) == document["items"] == ITEMS
    assert document["columns"][0]["explained"] > document["columns"][0]["explained_by_chance"] > 0


def test_the_page_shows_both_columns(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    arguments = ["report", str(run), "--train", str(tmp_path / "rows.jsonl")]
    done = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "page.html")], catch_exceptions=False)
    assert done.exit_code == 0
    page = (tmp_path / "page.html").read_text()
    for heading in ("Which knowledge it lost", "by words", "its words in the training rows"):
        assert heading in page
    done = CliRunner().invoke(app, ["report", str(run), "-o", str(tmp_path / "plain.html")], catch_exceptions=False)
    plain = (tmp_path / "plain.html").read_text()
    assert "Within categories, it lost the less sure of its right answers." in plain
    assert "by words" not in plain


def test_what_is_missing_is_told(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("bm25s")
    for name, looks in (("empty", {}), ("run", None)):
        if looks is not None:
            write_run(tmp_path / name, probe(ITEMS), look(0, np.array([], int)), looks)
        (tmp_path / "blank.jsonl").write_text('{"text": ""}\n')
        done = CliRunner().invoke(app, ["report", str(tmp_path / name), "--train", str(tmp_path / "blank.jsonl")])
        said = {"empty": "--train needs a look after the start", "run": "needed training rows with words, found none"}
        assert said[name] in str(done.exception)
