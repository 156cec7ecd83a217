"""Advice: nothing for what is kept or not shown, and the least work first for a loss."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from run_folders import write_run
from support import decided, probe, snapshot
from typer.testing import CliRunner

from forgetwatch import Snapshot, Trajectory
from forgetwatch.cli import app
from forgetwatch.errors import SnapshotError
from forgetwatch.report.advice import Advice, advise

ITEMS = 300


def look(step: int, lost: int, *, right: int = 250, gained: int = 0, model: str = "org/base") -> Snapshot:
    """A look at which some of the right answers are lost, each clearly."""
    scores = np.full((ITEMS, 4), -4.0)
    scores[:right, 0] = 0.0
    scores[right:, 1] = 0.0
    scores[:lost, 0], scores[:lost, 1] = -4.0, 0.0
    scores[right : right + gained, 0], scores[right : right + gained, 1] = 0.0, -4.0
    return decided(scores, meta={"model": model, "step": step})


def written(folder: Path, lost: dict[int, int], **options: int) -> Path:
    write_run(folder, probe(ITEMS), look(0, 0), {step: look(step, count, **options) for step, count in lost.items()})
    return folder


def texts(found: list[Advice]) -> list[str]:
    return [one.text for one in found]


def test_a_run_that_kept_what_it_knew_gets_none(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {5: 0, 10: 0})
    (one,) = advise(Trajectory.from_run(run), run)
    assert one.text.startswith("nothing to do: KEPT, ")
    assert one.command == ""


def test_a_loss_that_is_not_shown_gets_more_questions(tmp_path: Path) -> None:
    folder, right = tmp_path / "run", [True] * 37 + [False] * 3
    before, after = (
        snapshot(one, meta={"model": "m", "step": step}, k=[4] * 40) for step, one in ((0, right), (5, right[::-1]))
    )
    write_run(folder, probe(40), before, {5: after})
    (one,) = advise(Trajectory.from_run(folder), folder)
    assert one.text.startswith("nothing to mend: no loss is shown")
    assert one.command == "forgetwatch plan --flips 15%"


def test_a_model_that_knew_nothing_has_nothing_to_lose(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(folder, probe(ITEMS), look(0, 0, right=75), {5: look(5, 30, right=75)})
    (one,) = advise(Trajectory.from_run(folder), folder)
    assert one.text.startswith("nothing to do: before training it answered no better than guessing")


def test_a_loss_gets_the_least_work_first_with_commands_that_can_be_followed(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {5: 4, 10: 120})
    (run / "checkpoint-5").mkdir()
    found = advise(Trajectory.from_run(run), run)
    assert [text.split()[0] for text in texts(found)] == ["train", "or"]  # no look is better than the start
    assert found[0].command == f"forgetwatch replay org/base --for {run} -o replay.jsonl"
    assert "1.6 %" in found[0].text
    assert "9.7 %" in found[1].text
    base = tmp_path / "base"
    for folder in (base, run / "checkpoint-10"):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
    again = tmp_path / "again"
    looks = {5: look(5, 0, gained=40), 10: look(10, 120)}
    write_run(again, probe(ITEMS), look(0, 0, model=str(base)), looks)
    for step in (5, 10):
        (again / f"checkpoint-{step}").mkdir()
        (again / f"checkpoint-{step}" / "config.json").write_text("{}")
    found = advise(Trajectory.from_run(again), again / "_forgetwatch")
    assert [text.split()[0] for text in texts(found)] == ["keep", "average", "train", "or"]
    assert f"{again}/checkpoint-5" in found[0].text
    assert found[1].command.startswith(f"forgetwatch merge {base} {again}/checkpoint-10")
    assert found[2].command.startswith(f"forgetwatch replay {base} --for {again}")


def test_a_model_without_a_name_is_called_base(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(folder, probe(ITEMS), look(0, 0, model="model"), {5: look(5, 120, model="model")})
    found = advise(Trajectory.from_run(folder), folder)
    assert "(BASE is the model before the training)" in found[0].text
    assert found[0].command.startswith("forgetwatch replay BASE --for")


def test_a_run_without_a_look_is_refused_and_the_command_prints_and_writes(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    write_run(empty, probe(ITEMS), look(0, 0), {})
    with pytest.raises(SnapshotError, match="needed a look after the start, found none"):
        advise(Trajectory.from_run(empty), empty)
    run = written(tmp_path / "run", {5: 120})
    done = CliRunner().invoke(app, ["advise", str(run), "--json", str(tmp_path / "a.json")], catch_exceptions=False)
    assert done.stdout.startswith("1. train again with texts of the base mixed in (for SFT); ")
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["schema"] == "forgetwatch/advice@1"
    assert len(document["advice"]) == 2
