"""`forgetwatch follow` on the command line: its lines, its exit status, and its errors in one sentence."""

import socket
import sys
from functools import partial
from pathlib import Path

import pytest
import saved_runs as runs
import stub_server
from commands import Run
from stub_server import Stub
from support import probe

from forgetwatch.follow.follower import Follower
from forgetwatch.follow.queue import CheckpointQueue
from forgetwatch.report import html


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return runs.base(tmp_path_factory.mktemp("base"))


@pytest.fixture
def run(command: Run, tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command over the checkpoints in ``tmp_path/out``."""
    # Pictures take longer than scoring a tiny model.
    monkeypatch.setattr(html, "svg", lambda draw, *, name, label: html.Markup("<svg></svg>"))
    questions = tmp_path / "probe.jsonl"
    probe(40, norm="bytes").save(questions)
    given = (
        "follow",
        str(tmp_path / "out"),
        "--base",
        str(base),
        "--probe",
        str(questions),
        "--poll",
        "0.05",
    )
    return partial(command, *given)


def test_it_prints_a_line_for_each_checkpoint_and_the_table_at_the_end(
    run: Run, tmp_path: Path
) -> None:
    runs.save(tmp_path / "out", 15)
    runs.save(tmp_path / "out", 30)
    done = run()
    assert done.status == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("step 15 of 30: forgotten ")
    assert lines[1].startswith("step 30 of 30: forgotten ")
    assert "  out, step 30: " in done.stdout
    assert lines[-1].startswith("report: ")
    assert max(map(len, lines[2:-1])) <= 100
    assert done.stderr.startswith("forgetwatch: loading ")
    assert done.last == "forgetwatch: the training is over, and its last checkpoint is scored"


def test_it_fails_where_no_checkpoint_could_be_scored_and_names_those_without_a_look(
    run: Run, tmp_path: Path
) -> None:
    (runs.save(tmp_path / "out", 15) / "config.json").write_text("{")
    runs.write_state(tmp_path / "out/checkpoint-15", 15)
    done = run("--once")
    assert done.status == 1
    assert done.stderr.splitlines()[-2].endswith(
        "no other checkpoint is there; without a look: checkpoint-15"
    )
    assert done.last.endswith(
        "no checkpoint could be scored; 1 failed, were gone or are not complete"
    )


def test_checkpoints_that_are_not_complete_or_in_parts_are_no_success(
    run: Run, tmp_path: Path
) -> None:
    (runs.save(tmp_path / "out", 10) / "model.safetensors").unlink()
    parts = tmp_path / "out/checkpoint-20/pytorch_model_fsdp_0"
    parts.mkdir(parents=True)
    (parts / "__0_0.distcp").write_bytes(b"weights")
    runs.write_state(parts.parent, 20)
    done, without = run("--once"), "without a look: checkpoint-20 and checkpoint-10"
    assert done.status == 1
    assert done.stderr.splitlines()[-2] == f"forgetwatch: no other checkpoint is there; {without}"
    runs.save(tmp_path / "out", 30)
    done = run()
    assert (done.status, done.last) == (0, f"forgetwatch: the training is over; {without}")


def test_all_are_said_to_be_scored_only_if_they_are_and_of_many_others_a_few_are_named(
    run: Run, tmp_path: Path
) -> None:
    runs.save(tmp_path / "out", 10)
    done = run("--once")
    assert (done.status, done.last) == (0, "forgetwatch: all checkpoints that are there are scored")
    for name in (f"checkpoint-{step}" for step in range(20, 80, 10)):
        (tmp_path / "out" / name).mkdir()
    done = run("--once")
    assert done.status == 4  # what the training came to is not measured
    assert "not measured since step 10: 6 looks failed (not scored)" in " ".join(
        done.stdout.split()
    )
    assert done.last == (
        "forgetwatch: no other checkpoint is there; without a look: checkpoint-20, checkpoint-30, checkpoint-40, "
        "checkpoint-50 and 2 more"
    )


def test_a_look_that_is_not_stored_at_the_end_is_named_and_has_a_status(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.save(tmp_path / "out", 15)
    assert run("--once").status == 0
    runs.save(tmp_path / "out", 30)
    runs.fill_disk(monkeypatch, "step-000030", "report.html")
    done = run()
    assert done.status == 1
    file = tmp_path / "out/_forgetwatch_follow/step-000030.parquet"
    assert (
        f"forgetwatch: step 30: scored, and not stored: disk full at {file}; it is stored"
        in done.stderr
    )
    end = "the training is over, and its last checkpoint is scored; scored, and not stored: step 30"
    assert done.last == f"forgetwatch: {end}"
    # The page of the earlier follower is there, without this look.
    assert file.with_name("report.html").is_file()
    assert "report: " not in done.stdout


def test_a_signal_before_anything_is_scored_is_no_failure(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Follower, "follow", lambda _: "stopped")
    monkeypatch.setattr(CheckpointQueue, "waiting", ["checkpoint-15"])
    done = run()
    assert done.status == 0
    end = "started again, it begins with the base, which is not scored yet; without a look: checkpoint-15"
    assert done.last.endswith(end)


def test_the_guard_has_the_status_of_a_failed_gate(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Follower, "follow", lambda _: "guard")
    assert run("--guard", "stop").status == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--report-to", "wandb,tensorbord"), "did you mean 'tensorboard'?"),
        (("--once",), "no such folder"),
        (("--base", "./nothing"), "./nothing"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    run: Run, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = run(*options)
    assert done.status == 1
    assert done.last.startswith("forgetwatch: ")
    assert message in done.last
    assert not list(tmp_path.glob("out/_forgetwatch_follow"))


def test_checkpoints_are_served_one_after_another(run: Run, tmp_path: Path, stub: Stub) -> None:
    for step in (15, 20, 30):
        runs.save(tmp_path / "out", step)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = f"{sys.executable} {stub_server.__file__} {port} {{checkpoint}}"
    done = run("--serve", server, "--endpoint", f"http://127.0.0.1:{port}", "--once")
    assert (
        "checkpoint-20 could not be scored: its server ended with status 1; its last line: no room"
        in done.stderr
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("step 15 of 30: forgotten 0")
    assert lines[1].startswith("step 30 of 30: forgotten ")
    assert not lines[1].startswith("step 30 of 30: forgotten 0")
    assert (
        done.stderr.count("options by log-likelihood, proved on 4 questions") == 4
    )  # the base twice
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port))


def test_a_server_that_is_there_already_is_not_taken_for_the_checkpoint(
    run: Run, tmp_path: Path, stub: Stub
) -> None:
    runs.save(tmp_path / "out", 15)
    done = run("--serve", "true {checkpoint}", "--endpoint", stub.url, "--once")
    assert done.status == 1
    assert "a server answers there already; stop it" in done.stderr


def test_checkpoints_that_something_else_serves_are_asked_by_name(
    command: Run, tmp_path: Path, stub: Stub
) -> None:
    stub.models = ["base", "checkpoint-15"]
    runs.save(tmp_path / "out", 15)
    probe(40).save(tmp_path / "probe.jsonl")
    done = command(
        *("follow", str(tmp_path / "out"), "--base", f"{stub.url}#base", "--probe", "probe.jsonl"),
        *("--endpoint", f"{stub.url}#{{checkpoint}}", "--once"),
    )
    assert done.status == 0, done.stderr
    assert done.stdout.startswith("step 15 of 30: forgotten 0")
    assert {body["model"] for _, body in stub.requests} == {"base", "checkpoint-15"}
