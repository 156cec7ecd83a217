"""A served model wherever a command takes a model."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import Run
from stub_server import Stub
from support import probe

from forgetwatch import Snapshot, load_snapshot, save_snapshot


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


def test_an_interrupted_measurement_names_what_is_kept(
    command: Run, stub: Stub, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from forgetwatch.endpoint import served

    whole = served._Questions.answer

    def answer(questions: Any, number: int, sample: int) -> dict[str, Any]:
        if number == 50:
            raise KeyboardInterrupt
        return whole(questions, number, sample)

    arguments = (
        *("score", f"{stub.url}#base", "--probe", asked, "-o", "a.parquet"),
        *("--concurrency", "1"),
    )
    with monkeypatch.context() as patch:
        patch.setattr(served._Questions, "answer", answer)
        done = command(*arguments)
    assert re.search(r"a\.parquet\.answers: \d+ answers are kept; the same command", done.stderr)
    assert command(*arguments).status == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--serve", "vllm serve x"), "needed {checkpoint} where the folder stands"),
        (("--endpoint", "http://127.0.0.1:9"), "needed the name of each checkpoint"),
        ((), "needed how checkpoints are served"),
    ],
)
def test_follow_needs_a_way_to_serve_checkpoints(
    command: Run, asked: str, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    (tmp_path / "run").mkdir()
    done = command(
        "follow", "run", "--base", "http://127.0.0.1:9#base", "--probe", asked, "--once", *arguments
    )
    assert done.status == 1
    assert said in done.last


def test_an_address_without_its_scheme_is_named(command: Run, asked: str) -> None:
    done = command("score", "node7:8000#base", "--probe", asked, "-o", "a.parquet")
    assert "a served model is named by http://node7:8000#base" in done.last


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


@pytest.mark.parametrize("rendering", ["plain", "chat"])
def test_a_model_here_and_a_served_one_compare_where_texts_are_plain(
    command: Run, stub: Stub, asked: str, rendering: str
) -> None:
    assert command("score", f"{stub.url}#base", "--probe", asked, "-o", "a.parquet").status == 0
    served = load_snapshot("a.parquet")
    meta = {**served.meta, "probe": {**served.meta["probe"], "rendering": rendering}}
    save_snapshot(replace(served, meta=meta), "a.parquet")
    columns = {name: served.table[name] for name in served.table.column_names}
    columns["prompt_hash"] = ["f" * 16] * len(served)
    del meta["server"]
    save_snapshot(Snapshot.from_columns(columns, meta), "here.parquet")
    done = command("compare", "here.parquet", "a.parquet")
    assert (done.status == 0) == (rendering == "plain")
    if rendering == "chat":
        assert "base (chat prompt, sent to a server)" in done.last
        allowed = command("compare", "here.parquet", "a.parquet", "--allow-prompt-mismatch")
        assert allowed.status == 0
