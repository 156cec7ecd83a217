"""Commands on a probe of passages: score, plan, probe show and check, and compare of several models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from passage_texts import passages, read
from support import model, tokenizer
from typer.testing import CliRunner

from forgetwatch import Probe, load_snapshot, save_snapshot
from forgetwatch.cli import app
from forgetwatch.measures import snapshot_bits

BEFORE = np.random.default_rng(0).uniform(0.8, 1.6, 20)
QUESTIONS = [True, True, False, True, False, True]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.output


def saved(folder: Path, *, questions: bool) -> list[str]:
    asked = QUESTIONS if questions else []
    paths = []
    for step in range(3):
        paths.append(str(folder / f"{step}.parquet"))
        save_snapshot(read(bits=BEFORE + 0.02 * step, questions=asked, step=step), paths[-1])
    return paths


def test_score_prints_the_bits_per_byte(tmp_path: Path) -> None:
    tok = tokenizer()
    model(tok).save_pretrained(tmp_path / "model")
    tok.save_pretrained(tmp_path / "model")
    Probe(passages(4), name="texts").save(tmp_path / "texts.jsonl")
    output = tmp_path / "s.parquet"
    printed = run("score", str(tmp_path / "model"), "--probe", str(tmp_path / "texts.jsonl"), "-o", str(output))
    found = snapshot_bits(load_snapshot(output))
    assert f"4 passages scored, {found:.3f} bits per byte" in printed


def test_several_models_of_passages_alone_have_a_table_each(tmp_path: Path) -> None:
    printed = run("compare", *saved(tmp_path, questions=False))
    assert printed.count("NO VERDICT    passages alone were compared") == 2
    assert "n/a" not in printed
    document = json.loads(run("compare", *saved(tmp_path, questions=False), "--json", "-"))
    changes = [one["groups"][0]["bits_per_byte_change"] for one in document["comparisons"]]
    assert changes == pytest.approx([0.02, 0.04])


def test_several_models_of_both_have_a_line_of_passages_below_their_ranking(tmp_path: Path) -> None:
    printed = run("compare", *saved(tmp_path, questions=True))
    assert "no 1: passages 20; bits per byte" in printed
    assert "no 2: passages 20; bits per byte" in printed
    assert "left out" not in printed


@pytest.mark.parametrize("suffix", ["html", "md", "csv", "json"])
def test_reports_of_passages_are_written(tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"r.{suffix}"
    run("compare", *saved(tmp_path, questions=False), "-o", str(target))
    assert "passages" in target.read_text(encoding="utf-8")


def test_a_plan_counts_questions_alone(tmp_path: Path) -> None:
    printed = run("probe", "plan", "--probe", "quick+passages", "--looks", "5")
    assert "Dialogue" not in printed
    assert "alarm at each of 5 looks: all at p 0.005, 9 categories at p 0.00056" in printed
    run("probe", "plan", "--probe", "passages")


def test_a_passage_is_shown_as_its_text() -> None:
    printed = run("probe", "show", "passages", "--limit", "1")
    assert "passage 1\n" in printed
    assert "Als das Schwimmbad im Herbst geschlossen wurde" in " ".join(printed.split())
    assert "no fault found" in run("probe", "check", "passages")
