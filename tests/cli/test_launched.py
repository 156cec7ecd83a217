"""Commands in several processes of torchrun or accelerate: the work is shared, and one process prints and writes."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forked import Forked, finish_all
from ranks import free_port, launched
from support import model, probe, tokenizer

from forgetwatch import load_snapshot, save_snapshot, score
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


_FAILING = """
import os, signal
from forgetwatch.cli import main
from forgetwatch.errors import ScoringError
from forgetwatch.cli import score as score_command
from forgetwatch.scoring import cached_score
from forgetwatch.scoring import scorer
def refuse(*given, **named):
    raise ScoringError("no model today")
def die(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)
if os.environ["RANK"] == os.environ["FAILS"]:
    place, name = os.environ["AT"].split()
    places = {"cached_score": cached_score, "Scorer": scorer.Scorer, "score_command": score_command}
    setattr(places[place], name, globals()[os.environ["ACT"]])
main()
"""
"""Runs the command line; in one process a function fails, or ends the process."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Score in each test anew."""
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tok = tmp_path_factory.mktemp("launched"), tokenizer()
    for name, seed in (("model", 0), ("other", 1)):
        model(tok, seed=seed).save_pretrained(folder / name)
        tok.save_pretrained(folder / name)
    probe(40).save(folder / "p.jsonl")
    (folder / "counting.py").write_text(_COUNTING)
    (folder / "failing.py").write_text(_FAILING)
    return folder


def _torchrun(folder: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    environment = {**os.environ, "COUNTED": str(folder / "counted-"), **variables}
    environment["FORGETWATCH_CACHE"] = os.environ["FORGETWATCH_CACHE"]
    return subprocess.run(
        [*launcher, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


def _both(folder: Path, *command: str, **variables: str) -> list[subprocess.CompletedProcess[str]]:
    return launched(
        command, cwd=folder, FORGETWATCH_CACHE=os.environ["FORGETWATCH_CACHE"], **variables
    )


def _calls(file: Path) -> list[list[list[int]]]:
    """Token ids of the rows that a process read, by call of the model's scores."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def _own(lines: str) -> list[str]:
    return [line for line in lines.splitlines() if line.startswith("forgetwatch: ")]


def test_two_processes_write_one_file_of_the_same_rows_and_each_reads_about_half(
    saved: Path,
) -> None:
    done = _torchrun(
        saved, "counting.py", "score", "model", "--probe", "p.jsonl", "-o", "s.parquet"
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 1
    assert "40 items scored" in done.stdout
    assert _own(done.stderr)[0] == "forgetwatch: scoring model on toy, 40 items"
    assert len([line for line in _own(done.stderr) if "scoring model" in line]) == 1
    tok = tokenizer()
    alone = Scorer(probe(40), tok, model(tok), token_budget=64).score(model(tok))
    assert load_snapshot(saved / "s.parquet").checksum == alone.checksum
    # The longest call reads the items; the others test the model on a few, in each process.
    calls = [_calls(saved / f"counted-{rank}") for rank in range(2)]
    first, second = ({tuple(row) for row in max(rows, key=len)} for rows in calls)
    assert not first & second
    assert 0.35 < len(first) / len(first | second) < 0.65


@pytest.mark.full(reason="further numbers of processes")
def test_accelerate_launch_shares_the_items_too(saved: Path) -> None:
    pytest.importorskip("accelerate")
    # Its way to start several processes without MPI; they compute on the CPU where there is no GPU.
    launcher = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    command = ["counting.py", "score", "model", "--probe", "p.jsonl", "-o", "accelerated.parquet"]
    environment = {**os.environ, "COUNTED": str(saved / "accelerated-")}
    done = subprocess.run(
        [sys.executable, *launcher, *command],
        cwd=saved,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 1
    assert [len(max(_calls(saved / f"accelerated-{rank}"), key=len)) for rank in range(2)] == [
        20,
        20,
    ]


@pytest.mark.parametrize(
    ("at", "fails"),
    [
        ("cached_score load_model", "1"),
        ("Scorer score", "0"),
        ("Scorer score", "1"),
        ("score_command _print_result", "1"),  # when the other is done
    ],
)
def test_an_error_of_any_process_is_printed_once_and_ends_all(
    saved: Path, at: str, fails: str
) -> None:
    output = f"{at.split()[1]}-{fails}.parquet"
    command = ["failing.py", "score", "model", "--probe", "p.jsonl", "-o", output]
    both = _both(saved, *command, AT=at, FAILS=fails, ACT="refuse")
    assert [one.returncode for one in both] == [1, 1]
    printed = [line for one in both for line in _own(one.stderr) if "scoring model" not in line]
    assert len(printed) == 1
    assert "no model today" in printed[0]
    assert (saved / output).exists() is at.endswith("_print_result")


def test_one_process_writes(saved: Path) -> None:
    command = ["failing.py", "score", "model", "--probe", "p.jsonl", "-o", "one.parquet"]
    both = launched(command, cwd=saved, AT="score_command save_snapshot", FAILS="1", ACT="refuse")
    assert [one.returncode for one in both] == [0, 0]
    assert (saved / "one.parquet").is_file()


@pytest.mark.parametrize("fails", ["0", "1"])
def test_a_process_that_is_killed_does_not_leave_the_other_waiting(saved: Path, fails: str) -> None:
    command = ["failing.py", "score", "model", "--probe", "p.jsonl", "-o", "none.parquet"]
    both = _both(saved, *command, AT="Scorer score", FAILS=fails, ACT="die")
    other = both[1 - int(fails)]
    assert other.returncode == 1
    assert "another process of the group no longer answers" in _own(other.stderr)[-1]


def test_models_are_compared_by_both_processes_and_the_results_are_printed_once(
    saved: Path,
) -> None:
    command = [
        "counting.py",
        "compare",
        "model",
        "other",
        "--probe",
        "p.jsonl",
        "--json",
        "c.json",
        "-o",
        "c.md",
    ]
    gate = ["--fail-if", "forgotten>=0"]
    first, second = _both(saved, *command, *gate, COUNTED=str(saved / "compared-"))
    assert [first.returncode, second.returncode] == [3, 3]  # the gate's, in both
    assert "forgotten" in first.stdout
    assert "report: c.md" in first.stdout
    assert not second.stdout
    assert not _own(second.stderr)
    assert json.loads((saved / "c.json").read_text())["items"]["compared"] == 40
    assert [len(max(_calls(saved / f"compared-{rank}"), key=len)) for rank in range(2)] == [20, 20]


def test_a_command_that_shares_no_work_runs_in_the_first_process_alone(saved: Path) -> None:
    tok = tokenizer()
    save_snapshot(score(model(tok), tok, probe(40)), saved / "a.parquet")
    for command in (
        ["compare", "a.parquet", "a.parquet"],
        ["flips", "a.parquet", "a.parquet"],
        ["probe", "list"],
    ):
        first, second = _both(saved, "-m", "forgetwatch", *command)
        assert [first.returncode, second.returncode] == [0, 0]
        assert first.stdout
        assert not second.stdout + second.stderr


def test_wrong_usage_and_a_spread_model_are_refused_once(saved: Path) -> None:
    first, second = _both(saved, "-m", "forgetwatch", "score", "model")
    assert [first.returncode, second.returncode] == [2, 2]
    assert len(_own(first.stderr)) == 1
    assert not second.stderr
    command = ["score", "model", "--probe", "p.jsonl", "-o", "none.parquet", "--device-map", "auto"]
    both = _both(saved, "-m", "forgetwatch", *command)
    assert [one.returncode for one in both] == [1, 1]
    assert _own(both[0].stderr + both[1].stderr) == [
        "forgetwatch: --device-map spreads one model over all GPUs; needed one process, got 2"
    ]


def test_a_launcher_whose_variables_are_incomplete_is_named(saved: Path) -> None:
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MASTER_ADDR", "MASTER_PORT")
    }
    command = ["-m", "forgetwatch", "score", "model", "--probe", "p.jsonl", "-o", "none.parquet"]
    group = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0"}
    (done,) = finish_all(
        [Forked(command, cwd=saved, environment={**environment, **group})], timeout=400
    )
    assert done.returncode == 1
    assert _own(done.stderr) == [
        "forgetwatch: WORLD_SIZE is 2, and MASTER_ADDR, MASTER_PORT is not set; start several processes with torchrun "
        "or accelerate launch, or unset WORLD_SIZE for one"
    ]


@pytest.mark.full(reason="further numbers of processes")
@pytest.mark.parametrize("fails", ["0", "1"])
@pytest.mark.parametrize(
    "call", ["1", "3"]
)  # the base; the checkpoint, after the base was measured twice
def test_a_process_that_fails_alone_ends_a_follower_and_one_message_is_printed(
    saved: Path, fails: str, call: str
) -> None:
    script = """
import os
from forgetwatch.errors import ScoringError
from forgetwatch.scoring import processes, scorer
processes._ALONE, kept, calls = 2.0, scorer.Scorer.score, []
def score(*given, **named):
    calls.append(1)
    if os.environ["RANK"] == os.environ["FAILS"] and len(calls) == int(os.environ["CALL"]):
        raise ScoringError("no memory today")
    return kept(*given, **named)
scorer.Scorer.score = score
from forgetwatch.cli import main
main()
"""
    checkpoint = saved / f"run{fails}{call}/checkpoint-10"
    shutil.copytree(saved / "model", checkpoint)
    (saved / "alone.py").write_text(script)
    command = [
        "alone.py",
        "follow",
        str(checkpoint.parent),
        "--base",
        "model",
        "--probe",
        "p.jsonl",
        "--once",
    ]
    both = launched(command, cwd=saved, FAILS=fails, CALL=call)
    assert [one.returncode for one in both] == [1, 1]
    assert (
        len([line for one in both for line in _own(one.stderr) if "no memory today" in line]) == 1
    )
    assert not list(checkpoint.parent.glob("*/step-*"))


@pytest.mark.full(reason="further numbers of processes")
def test_torchrun_leaves_the_options_of_follow_alone_behind_two_dashes(saved: Path) -> None:
    for step in (5, 10):
        shutil.copytree(saved / "model", saved / f"dashes/checkpoint-{step}")
    (saved / "dashes/checkpoint-5/config.json").write_text("{")
    launcher = [
        str(Path(sys.executable).with_name("torchrun")),
        "--nproc-per-node",
        "2",
        "-m",
        "--",
        "forgetwatch",
    ]
    command = [
        "follow",
        "dashes",
        "--base",
        "model",
        "--probe",
        "p.jsonl",
        "--once",
        "--poll",
        "0.1",
        "--run",
        "looks",
    ]
    done = subprocess.run(
        [*launcher, *command], cwd=saved, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "report: looks/report.html"
    assert len([line for line in done.stdout.splitlines() if line.startswith("step 10: ")]) == 1
    # A checkpoint that fails in all processes is left out by all.
    assert (
        len([line for line in _own(done.stderr) if "checkpoint-5 could not be scored" in line]) == 1
    )


def test_a_process_that_waits_for_others_in_vain_says_so_and_ends(saved: Path) -> None:
    script = """
from datetime import timedelta
from forgetwatch.scoring import processes
processes._MEETING, processes._UNHEARD = timedelta(seconds=3), 0.5
from forgetwatch.cli import main
main()
"""
    (saved / "waiting.py").write_text(script)
    command = ["waiting.py", "score", "model", "--probe", "p.jsonl", "-o", "none.parquet"]
    group = {
        "WORLD_SIZE": "2",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": free_port(),
    }
    (done,) = finish_all(
        [Forked(command, cwd=saved, environment={**os.environ, **group})], timeout=400
    )
    assert done.returncode == 1
    waiting, failed = _own(done.stderr)
    assert waiting.endswith(
        f"processes of the launcher at 127.0.0.1, port {group['MASTER_PORT']}; without one, unset WORLD_SIZE"
    )
    assert "the group of 2 processes cannot begin at" in failed
    assert failed.endswith("were all of them started? Unset WORLD_SIZE for one process")


def test_a_shell_in_a_cluster_that_sets_the_variables_of_machines_is_one_process(
    saved: Path,
) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "LOCAL_RANK"}
    command, machines = (
        ["-m", "forgetwatch", "probe", "show", "p.jsonl"],
        {"WORLD_SIZE": "8", "RANK": "3"},
    )
    (done,) = finish_all(
        [Forked(command, cwd=saved, environment={**environment, **machines})], timeout=400
    )
    assert done.returncode == 0
    assert done.stdout
