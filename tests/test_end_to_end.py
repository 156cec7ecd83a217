"""A tiny model through TRL's SFTTrainer: what was logged, against files that independent code recounts."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support import probe, trainer

from forgetwatch import ForgetWatchCallback


def recount(before: Path, after: Path) -> dict[str, int]:
    """The counts of two snapshot files, row by row."""
    rows = {(row["task"], row["item_id"]): row for row in pq.read_table(before).to_pylist()}
    counts = dict.fromkeys(("forgotten", "gained", "known_lost", "a/forgotten", "b/forgotten"), 0)
    for row in pq.read_table(after).to_pylist():
        was = rows[row["task"], row["item_id"]]
        if was["correct"] and not row["correct"]:
            counts["forgotten"] += 1
            counts[f"{row['category']}/forgotten"] += 1
            counts["known_lost"] += was["k"] >= 3 and was["gold_share"] >= 0.8
        counts["gained"] += row["correct"] and not was["correct"]
    return counts


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    path = tmp_path_factory.mktemp("run")
    made = trainer(
        path,
        callbacks=[ForgetWatchCallback(probe(97), every=4, log="full")],
        steps=12,
        save_strategy="steps",
        save_steps=6,
    )
    made.model.save_pretrained(path / "base")
    made.processing_class.save_pretrained(path / "base")
    made.train()
    return made, path


def test_logged_counts_are_those_of_the_files(run: tuple[Any, Path]) -> None:
    made, path = run
    folder = path / "_forgetwatch"
    logged = {
        row["step"]: row for row in made.state.log_history if "eval_forget/all/forgotten" in row
    }
    assert sorted(logged) == [0, 4, 8, 12]
    for step in (4, 8, 12):
        counted = recount(folder / "baseline.parquet", folder / f"step-{step:06d}.parquet")
        row = logged[step]
        assert counted == {
            "forgotten": row["eval_forget/all/forgotten"],
            "gained": row["eval_forget/all/gained"],
            "known_lost": row["eval_forget/all/known_lost"],
            "a/forgotten": row["eval_forget/a/forgotten"],
            "b/forgotten": row["eval_forget/b/forgotten"],
        }
    assert logged[12]["eval_forget/all/forgotten"] > 0


def test_comparing_saved_checkpoints_gives_the_logged_counts(
    run: tuple[Any, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, path = run
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    command = [
        *(
            sys.executable,
            "-m",
            "forgetwatch",
            "compare",
            str(path / "base"),
            str(path / "checkpoint-12"),
        ),
        *(
            "--probe",
            str(path / "_forgetwatch" / "probe.jsonl"),
            "--json",
            str(tmp_path / "o.json"),
        ),
    ]
    subprocess.run(command, check=True, capture_output=True)
    whole = json.loads((tmp_path / "o.json").read_text())["groups"][0]
    logged = next(
        row
        for row in made.state.log_history
        if row["step"] == 12 and "eval_forget/all/forgotten" in row
    )
    for name in ("forgotten", "gained", "known_lost"):
        assert whole[name] == logged[f"eval_forget/all/{name}"]
