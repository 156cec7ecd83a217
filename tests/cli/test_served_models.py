"""A served model wherever a command takes a model."""

import json
from pathlib import Path

import pytest
from commands import Run
from stub_server import Stub
from support import probe

from forgetwatch import load_snapshot


@pytest.fixture
def asked(tmp_path: Path) -> str:
    probe(60).save(tmp_path / "asked.jsonl")
    return "asked.jsonl"


def test_score_writes_a_snapshot_and_a_second_measurement(
    command: Run, stub: Stub, asked: str
) -> None:
    done = command(
        "score", stub.url, "--model", "base", "--probe", asked, "-o", "a.parquet", "--repeat", "b.parquet"
    )  # fmt: skip
    assert done.status == 0, done.stderr
    assert "options by log-likelihood, proved on 4 questions" in done.stderr
    assert "at most" in done.stderr
    assert done.stdout.count("60 items scored") == 2
    assert load_snapshot("a.parquet").checksum == load_snapshot("b.parquet").checksum
    assert not list(Path().glob("*.answers"))
    assert command("compare", "a.parquet", "b.parquet", "--repeat", "b.parquet").status == 0


def test_compare_measures_the_base_twice(command: Run, stub: Stub, asked: str) -> None:
    once = command("score", f"{stub.url}#base", "--probe", asked, "-o", "a.parquet")
    assert once.status == 0
    requests = len(stub.requests)
    done = command("compare", f"{stub.url}#base", "a.parquet", "--probe", asked, "--json", "c.json")
    assert done.status == 0, done.stderr
    assert len(stub.requests) == 3 * requests
    group = json.loads(Path("c.json").read_text())["groups"][0]
    assert (group["null_n"], group["null_lost"]) == (60, 0)


def test_gate_judges_a_served_model(command: Run, stub: Stub, asked: str) -> None:
    assert command("score", f"{stub.url}#base", "--probe", asked, "-o", "a.parquet").status == 0
    stub.weights, stub.most_at_once = 1, 0
    done = command(
        *("gate", "a.parquet", f"{stub.url}#base", "--probe", asked, "--fail-if", "forgotten>2"),
        *("--concurrency", "3", "--json", "g.json"),
    )
    assert done.status == 3, done.stderr
    assert stub.most_at_once <= 3
    assert json.loads(Path("g.json").read_text())["sides"]["after"]["model"] == "base"


def test_ways_are_not_mixed_within_a_comparison(command: Run, stub: Stub, asked: str) -> None:
    assert command("score", f"{stub.url}#base", "--probe", asked, "-o", "a.parquet").status == 0
    stub.faults = {"no echo"}
    done = command("compare", "a.parquet", f"{stub.url}#base", "--probe", asked)
    assert done.status == 1
    assert (
        "scoring 'loglikelihood' and base with 'letters'; serve both with one program" in done.last
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("score", "folder", "--model", "x"), "--model and --repeat are for a served model"),
        (("score", "folder", "--repeat", "b.parquet"), "--model and --repeat are for a served"),
        (("score", "https://127.0.0.1:9#m"), "agree to a fee with --yes"),
        (("score", "http://127.0.0.1:9#m"), "no answer to /models in 3 tries"),
    ],
)
def test_what_is_missing_is_said(
    command: Run, stub: Stub, asked: str, arguments: tuple[str, ...], said: str
) -> None:
    done = command(*arguments, "--probe", asked, "-o", "a.parquet")
    assert done.status in (1, 2)
    assert said in " ".join(done.stderr.split())


def test_a_served_model_needs_a_probe(command: Run, stub: Stub, asked: str) -> None:
    done = command("compare", f"{stub.url}#base", f"{stub.url}#base")
    assert (
        done.last
        == f"forgetwatch: {stub.url}#base: a served model, which needs --probe (such as standard)"
    )


def test_a_server_here_and_a_model_here_were_sent_other_prompts(
    command: Run, stub: Stub, asked: str
) -> None:
    assert command("score", f"{stub.url}#base", "--probe", asked, "-o", "a.parquet").status == 0
    other = load_snapshot("a.parquet")
    from dataclasses import replace

    from forgetwatch import save_snapshot

    hashes = ["f" * 16] * len(other)
    columns = {name: other.table[name] for name in other.table.column_names} | {
        "prompt_hash": hashes
    }
    meta = {name: value for name, value in other.meta.items() if name != "server"}
    save_snapshot(replace(type(other).from_columns(columns, meta)), "here.parquet")
    done = command("compare", "here.parquet", "a.parquet")
    assert "base (plain prompt, sent to a server)" in done.last
    assert command("compare", "here.parquet", "a.parquet", "--allow-prompt-mismatch").status == 0
