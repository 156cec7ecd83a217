"""A checkpoint that was chosen on a run's questions, measured on others: held, not clear, or not held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import write_run
from support import decided, probe
from typer.testing import CliRunner

from forgetwatch import Probe, Snapshot, Trajectory
from forgetwatch.cli import app
from forgetwatch.errors import SnapshotError
from forgetwatch.report.confirm import candidates_of, confirm, confirmation_json

ITEMS = 300
OTHERS = Probe([*probe(340)][300:], name="others")


def outcomes(lost: int, *, step: int = 0, model: str = "m", right: int = 250) -> Snapshot:
    scores = np.full((ITEMS, 4), -4.0)
    scores[:right, 0], scores[right:, 1] = 0.0, 0.0
    scores[:lost, 0], scores[:lost, 1] = -4.0, 0.0
    return decided(scores, meta={"model": model, "step": step})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    base, folder = tmp_path / "base", tmp_path / "run"
    for model in (base, folder / "checkpoint-5", folder / "checkpoint-10"):
        model.mkdir(parents=True)
        (model / "config.json").write_text("{}")
    looks = {5: outcomes(3, step=5, model=str(base)), 10: outcomes(120, step=10, model=str(base))}
    write_run(folder, probe(ITEMS), outcomes(0, model=str(base)), looks)
    return folder


@pytest.mark.parametrize(
    ("kept", "end", "outcome"),
    [(4, 110, "held"), (4, 8, "not clear"), (20, 20, "did not hold"), (60, 20, "did not hold")],
)
def test_the_loss_since_decides(run: Path, kept: int, end: int, outcome: str) -> None:
    models = candidates_of(Trajectory.from_run(run), run, OTHERS)
    assert models.names == (str(run.parent / "base"), f"{run}/checkpoint-5", f"{run}/checkpoint-10")
    found = confirm(models, outcomes(0), outcomes(kept), outcomes(end))
    assert found.outcome == outcome
    first, second, third = found.lines()
    assert first.startswith("chosen on 300 questions: ")
    assert "3 forgotten at step 5" in first
    assert "120 at the end" in first
    assert f"{kept} forgotten there" in second
    assert f"{end} forgotten at the end" in second
    if not end:
        assert third.endswith(", others shows no loss at the end either, and so says nothing about it")
    assert f"the choice {'is not clear' if outcome == 'not clear' else outcome}" in third
    document = confirmation_json(found)
    assert (document["outcome"], document["step"]) == (outcome, 5)
    assert document["confirmed"]["at_end"]["forgotten"] == end


def test_a_probe_with_questions_of_the_run_confirms_nothing(run: Path) -> None:
    trajectory = Trajectory.from_run(run)
    shown = trajectory.own.baseline.texts("content_hash").tolist()
    same = Probe([*probe(ITEMS)][:5], name="same")
    hashes = {item.content_hash for item in same}
    assert not hashes & set(shown)  # the snapshots of these tests have hashes of their own
    with pytest.raises(SnapshotError, match="needed questions that chose nothing, and 5 of its 5 are those of the run"):
        candidates_of(with_hashes(trajectory, [item.content_hash for item in probe(ITEMS)]), run, same)


def with_hashes(trajectory: Trajectory, hashes: Sequence[str]) -> Trajectory:
    from dataclasses import replace

    import pyarrow as pa

    table = trajectory.baseline.table
    table = table.set_column(table.column_names.index("content_hash"), "content_hash", pa.array(list(hashes)))
    return replace(trajectory, baseline=replace(trajectory.baseline, table=table))


def test_what_is_missing_is_told(run: Path, tmp_path: Path) -> None:
    trajectory = Trajectory.from_run(run)
    (run / "checkpoint-10").rename(tmp_path / "gone")
    with pytest.raises(SnapshotError, match=r"checkpoint-10: needed this checkpoint, to compare on others; it is gone"):
        candidates_of(trajectory, run, OTHERS)
    (tmp_path / "gone").rename(run / "checkpoint-10")
    (run / "checkpoint-5").rename(tmp_path / "gone")
    with pytest.raises(SnapshotError, match="nothing to confirm: needed a saved checkpoint"):
        candidates_of(trajectory, run, OTHERS)
    (tmp_path / "gone").rename(run / "checkpoint-5")
    (tmp_path / "base").rename(tmp_path / "other")
    with pytest.raises(
        SnapshotError, match="needed the model before the training, to compare with; BASE is recorded as"
    ):
        candidates_of(trajectory, run, OTHERS)


def test_the_command_scores_the_three_and_says_whether_it_held(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def scored(names: Sequence[str], given: Probe) -> list[Snapshot]:
        asked.append((names, given.name))
        return [outcomes(0), outcomes(4), outcomes(110)]

    monkeypatch.setattr("forgetwatch.cli.advise_command.resolve_all", scored)
    path = tmp_path / "a.json"
    arguments = ["advise", str(run), "--confirm", "--confirmation", "confirmation", "--json", str(path)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert [name for _, name in asked] == ["confirmation"]
    assert " ".join(done.stdout.split()).endswith("on confirmation: the choice held")
    assert json.loads(path.read_text())["confirmed"]["outcome"] == "held"
