"""`forgetwatch follow` on the command line: its lines, its exit status, and its errors in one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import saved_runs as runs
from support import probe

from forgetwatch import cli
from forgetwatch.report import html
from forgetwatch.watch import Follower
from forgetwatch.watch.checkpoint_queue import CheckpointQueue


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.base(tmp_path_factory.mktemp("base"))


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, base: Path, *options: str) -> int:
    """Exit status of the command over the checkpoints in ``tmp_path/out``."""
    # Pictures take longer than scoring a tiny model.
    monkeypatch.setattr(html, "svg", lambda draw, *, name, label: html.Markup("<svg></svg>"))
    questions = tmp_path / "probe.jsonl"
    probe(40, norm="bytes").save(questions)
    command = ["forgetwatch", "follow", str(tmp_path / "out"), "--base", str(base), "--probe", str(questions)]
    monkeypatch.setattr(sys, "argv", [*command, "--poll", "0.05", *options])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return int(exit_.value.code or 0)


def test_it_prints_a_line_for_each_checkpoint_and_the_table_at_the_end(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.save(tmp_path / "out", 15)
    runs.save(tmp_path / "out", 30)
    capsys.readouterr()
    assert run(monkeypatch, tmp_path, base) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].startswith("step 15 of 30: forgotten ")
    assert lines[1].startswith("step 30 of 30: forgotten ")
    assert "step 30 of 30, against the base" in out
    assert lines[-1].startswith("report: ")
    assert max(map(len, lines[2:-1])) <= 80
    assert err.splitlines()[0].startswith("forgetwatch: loading ")
    assert err.splitlines()[-1] == "forgetwatch: the training is over, and its last checkpoint is scored"


def test_it_fails_where_no_checkpoint_could_be_scored_and_names_those_without_a_look(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs.save(tmp_path / "out", 15) / "config.json").write_text("{")
    runs.write_state(tmp_path / "out/checkpoint-15", 15)
    assert run(monkeypatch, tmp_path, base, "--once") == 1
    err = capsys.readouterr().err.splitlines()
    assert err[-2].endswith("no other checkpoint is there; without a look: checkpoint-15")
    assert err[-1].endswith("no checkpoint could be scored; 1 failed, were gone or are not complete")


def test_checkpoints_that_are_not_complete_or_in_parts_are_no_success(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs.save(tmp_path / "out", 10) / "model.safetensors").unlink()
    parts = tmp_path / "out/checkpoint-20/pytorch_model_fsdp_0"
    parts.mkdir(parents=True)
    (parts / "__0_0.distcp").write_bytes(b"weights")
    runs.write_state(parts.parent, 20)
    assert run(monkeypatch, tmp_path, base, "--once") == 1
    err = capsys.readouterr().err.splitlines()
    assert err[-2] == "forgetwatch: no other checkpoint is there; without a look: checkpoint-20 and checkpoint-10"
    runs.save(tmp_path / "out", 30)
    assert run(monkeypatch, tmp_path, base) == 0
    err = capsys.readouterr().err.splitlines()
    assert err[-1] == "forgetwatch: the training is over; without a look: checkpoint-20 and checkpoint-10"


def test_all_are_said_to_be_scored_only_if_they_are_and_of_many_others_a_few_are_named(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.save(tmp_path / "out", 10)
    assert run(monkeypatch, tmp_path, base, "--once") == 0
    assert capsys.readouterr().err.splitlines()[-1] == "forgetwatch: all checkpoints that are there are scored"
    for name in ("step_10", *(f"checkpoint-{step}" for step in range(20, 70, 10))):
        (tmp_path / "out" / name).mkdir()
    assert run(monkeypatch, tmp_path, base, "--once") == 0
    assert capsys.readouterr().err.splitlines()[-1] == (
        "forgetwatch: no other checkpoint is there; without a look: checkpoint-20, checkpoint-30, checkpoint-40, "
        "checkpoint-50 and 2 more"
    )


def test_a_look_that_is_not_stored_at_the_end_is_named_and_has_a_status(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs.save(tmp_path / "out", 15)
    assert run(monkeypatch, tmp_path, base, "--once") == 0
    runs.save(tmp_path / "out", 30)
    runs.fill_disk(monkeypatch, "step-000030", "report.html")
    capsys.readouterr()
    assert run(monkeypatch, tmp_path, base) == 1
    out, err = capsys.readouterr()
    file = tmp_path / "out/_forgetwatch_follow/step-000030.parquet"
    assert f"forgetwatch: step 30: scored, and not stored: disk full at {file}; it is stored" in err
    assert err.splitlines()[-1] == (
        "forgetwatch: the training is over, and its last checkpoint is scored; scored, and not stored: step 30"
    )
    # The page of the earlier follower is there, without this look.
    assert file.with_name("report.html").is_file()
    assert "report: " not in out


def test_a_signal_before_anything_is_scored_is_no_failure(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Follower, "follow", lambda _: "stopped")
    monkeypatch.setattr(CheckpointQueue, "waiting", ["checkpoint-15"])
    assert run(monkeypatch, tmp_path, base) == 0
    assert (
        capsys.readouterr()
        .err.splitlines()[-1]
        .endswith("started again, it begins with the base, which is not scored yet; without a look: checkpoint-15")
    )


def test_the_guard_has_the_status_of_a_failed_gate(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Follower, "follow", lambda _: "guard")
    assert run(monkeypatch, tmp_path, base, "--guard", "stop") == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--guard", "halt"), "--guard halt: needed one of warn, stop, off"),
        (("--log", "ful"), "--log ful: needed one of counts, full, did you mean 'full'?"),
        (("--report-to", "wandb,tensorbord"), "did you mean 'tensorboard'?"),
        (("--once",), "needed checkpoints (checkpoint-N, global_step_N or step_N), found none"),
        (("--base", "./nothing"), "./nothing"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    tmp_path: Path,
    base: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    assert run(monkeypatch, tmp_path, base, *options) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("forgetwatch: ")
    assert message in last
    assert not list(tmp_path.glob("out/_forgetwatch_follow"))
