"""A run whose probe has passages: its curve, its files, and a resume."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from passage_texts import passages
from rich.console import Console
from support import probe, trained, trainer
from typer.testing import CliRunner

from forgetwatch import ForgetWatchCallback, Probe, Trajectory
from forgetwatch.cli import app
from forgetwatch.report.terminal import run_table


def curve(run: Any) -> dict[int, float]:
    return {
        row["step"]: row["eval_forget/all/bits_per_byte"]
        for row in run.state.log_history
        if "eval_forget/all/bits_per_byte" in row
    }


@pytest.mark.parametrize("questions", [0, 30])
def test_a_run_logs_bits_per_byte_at_every_look(tmp_path: Path, questions: int, capsys: Any) -> None:
    items = [*(probe(questions) if questions else ()), *passages()]
    run = trained(tmp_path, callbacks=[ForgetWatchCallback(Probe(items, name="texts"), every=2, max_overhead=None)])
    shown = capsys.readouterr()
    found = curve(run)
    assert list(found) == [0, 2, 4, 6]
    assert len(set(found.values())) == 4
    stored = Trajectory.from_run(tmp_path)
    assert [one.all["bits_per_byte_after"] for one in stored.comparisons] == pytest.approx(list(found.values()))
    assert "passages      12; bits per byte" in shown.out
    assert "items are unscored" not in shown.err
    assert "the noise is not known" not in shown.out
    assert ("12 passages" in shown.err) is not bool(questions)
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(run_table(stored))
    assert ("NO VERDICT" in shown.out) is not bool(questions)
    assert (tmp_path / "_forgetwatch" / "report.html").read_text().count('id="passages"') == 1


def test_a_resumed_run_keeps_its_passages(tmp_path: Path) -> None:
    texts = Probe([*probe(12), *passages()], name="texts")

    def watched(steps: int) -> Any:
        options = {"save_strategy": "steps", "save_steps": 3, "steps": steps}
        return trainer(tmp_path, callbacks=[ForgetWatchCallback(texts, every=3, max_overhead=None)], **options)

    watched(3).train()
    resumed = watched(6)
    resumed.train(resume_from_checkpoint=True)
    run = Trajectory.from_run(tmp_path)
    assert run.steps == (0, 3, 6)
    assert [one.all.passages for one in run.comparisons] == [12, 12, 12]


def test_the_commands_read_a_run_of_passages(tmp_path: Path) -> None:
    trained(tmp_path, callbacks=[ForgetWatchCallback(Probe(passages(), name="texts"), every=3, max_overhead=None)])
    folder = tmp_path / "_forgetwatch"
    looks = [str(folder / name) for name in ("baseline.parquet", "step-000003.parquet", "step-000006.parquet")]
    runner = CliRunner()
    for arguments, says in (
        (["report", str(folder)], "passages 12; bits per byte"),
        (["report", str(folder), "--detail"], "passages 12; bits per byte"),
        (["flips", str(folder)], "none forgotten; the 12 passages have no right answer, and none to flip"),
        (["compare", *looks[:2]], "NO VERDICT"),
        (["compare", *looks], "at step 6"),
        (["compare", *looks[:2], "--fail-if", "bits_per_byte_change>5"], "gate PASS"),
    ):
        result = runner.invoke(app, arguments)
        assert result.exit_code == 0, (arguments, result.output)
        assert says in " ".join(result.output.split()) or says in result.output, (arguments, result.output)
    failed = runner.invoke(app, ["compare", *looks[:2], "--fail-if", "bits_per_byte_change>-5"])
    assert failed.exit_code != 0
