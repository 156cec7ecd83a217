"""Commands in several processes of torchrun or accelerate: the work is shared, and one process prints and writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import model, probe, tokenizer

from forgetwatch import load_snapshot
from forgetwatch.scoring.scorer import Scorer

_COUNTING = """
import json, os, sys
from forgetwatch.scoring import forward
kept = forward.ForwardPass.score
def score(self, model, batches, *given, **named):
    with open(os.environ["COUNTED"] + os.environ.get("RANK", "0"), "a") as file:
        print(json.dumps([list(row.ids) for batch in batches for row in batch.rows]), file=file)
    return kept(self, model, batches, *given, **named)
forward.ForwardPass.score = score
from forgetwatch.scoring import model
model.CPU_TOKENS = 64
from forgetwatch.cli import main
main()
"""
"""Runs the command line and writes down the rows that each process reads; batches of the toy items are small."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tok = tmp_path_factory.mktemp("launched"), tokenizer()
    for name, seed in (("model", 0), ("other", 1)):
        model(tok, seed=seed).save_pretrained(folder / name)
        tok.save_pretrained(folder / name)
    probe(40).save(folder / "p.jsonl")
    (folder / "counting.py").write_text(_COUNTING)
    return folder


def _torchrun(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    environment = {**os.environ, "COUNTED": str(folder / "counted-"), **variables}
    environment["FORGETWATCH_CACHE"] = str(folder / "cache")
    return subprocess.run(
        [*launcher, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500
    )


def _own(lines: str) -> list[str]:
    return [line for line in lines.splitlines() if line.startswith("forgetwatch: ")]


def test_two_processes_write_one_file_of_the_same_rows_and_each_reads_about_half(saved: Path) -> None:
    done = _torchrun(saved, "counting.py", "score", "model", "--probe", "p.jsonl", "-o", "s.parquet")
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 1
    assert "40 items scored" in done.stdout
    assert _own(done.stderr)[0] == "forgetwatch: scoring model on toy, 40 items"
    assert len([line for line in _own(done.stderr) if "scoring model" in line]) == 1
    tok = tokenizer()
    alone = Scorer(probe(40), tok, model(tok), token_budget=64).score(model(tok))
    assert load_snapshot(saved / "s.parquet").checksum == alone.checksum
    # The longest call reads the items; the others test the model on a few, in each process.
    calls = [list(map(json.loads, (saved / f"counted-{rank}").read_text().splitlines())) for rank in range(2)]
    first, second = ({tuple(row) for row in max(rows, key=len)} for rows in calls)
    assert not first & second
    assert 0.35 < len(first) / len(first | second) < 0.65
