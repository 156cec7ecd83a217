from __future__ import annotations

from pathlib import Path

import pytest
from support import model, probe, tokenizer
from typer.testing import CliRunner

from forgetwatch import load_snapshot, score
from forgetwatch.cli import app
from forgetwatch.errors import ProbeError, ScoringError


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    tok = tokenizer()
    model(tok).save_pretrained(tmp_path / "model")
    tok.save_pretrained(tmp_path / "model")
    probe().save(tmp_path / "p.jsonl")
    return tmp_path


def test_a_checkpoint_becomes_a_snapshot_file(saved: Path) -> None:
    arguments = ["score", str(saved / "model"), "--probe", str(saved / "p.jsonl"), "-o", str(saved / "s.parquet")]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert "30 items scored" in done.stdout
    written, tok = load_snapshot(saved / "s.parquet"), tokenizer()
    assert written.checksum == score(model(tok), tok, probe()).checksum
    assert written.meta["model"] == str(saved / "model")


def test_what_cannot_be_scored_is_refused_by_name(saved: Path) -> None:
    target = ["-o", str(saved / "s.parquet")]
    with pytest.raises(ProbeError, match="no such file"):
        CliRunner().invoke(app, ["score", str(saved / "model"), "--probe", "none", *target], catch_exceptions=False)
    with pytest.raises(ScoringError, match="cannot be loaded"):
        CliRunner().invoke(
            app, ["score", str(saved), "--probe", str(saved / "p.jsonl"), *target], catch_exceptions=False
        )
    assert not (saved / "s.parquet").exists()
