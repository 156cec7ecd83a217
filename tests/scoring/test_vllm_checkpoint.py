"""A checkpoint whose answers a stand-in for vLLM generates: which weights are loaded, when, and how often."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from support import model, tokenizer, vllm_stand_in
from typer.testing import CliRunner

from forgetwatch import Item, Probe, load_snapshot, score
from forgetwatch.cli import app
from forgetwatch.errors import ScoringError
from forgetwatch.scoring import checkpoints
from forgetwatch.scoring.checkpoints import score_with_vllm

TOK = tokenizer()
OPEN = Item(id="open", task="t", prompt="w1 w2", answer="w5", match="contains")
CHOICE = Item(id="choice", task="t", prompt="w3", choices=[" w4", " w6"], answer=0)


@pytest.fixture
def saved(tmp_path: Path) -> str:
    model(TOK).save_pretrained(tmp_path / "model")
    TOK.save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options of the engines that were started, and where the scored model's weights were then."""
    started: list[Any] = []
    loaded: list[Any] = []

    class LLM:
        def __init__(self, **options: Any) -> None:
            started.append((options, {weight.device.type for one in loaded for weight in one.parameters()}))

        def generate(self, prompts: Any, *, sampling_params: Any, use_tqdm: bool) -> Any:
            answer = SimpleNamespace(token_ids=TOK("w5")["input_ids"], finish_reason="stop")
            return [SimpleNamespace(outputs=[answer]) for _ in prompts]

    def load(given: str, *, trust_remote_code: bool) -> Any:
        loaded.append(model(TOK))
        return loaded[0], TOK

    monkeypatch.setitem(sys.modules, "vllm", vllm_stand_in(LLM))
    monkeypatch.setattr(checkpoints, "load_model", load)
    return started


def test_open_answers_need_no_second_copy_of_the_model(saved: str, engines: list[Any]) -> None:
    snapshot = score_with_vllm(saved, Probe([OPEN], decoding={"tokens": 4}), tensor_parallel=2)
    options = {"model": saved, "seed": 0, "tensor_parallel_size": 2, "trust_remote_code": False}
    assert engines == [(options, set())]  # nothing was loaded beside it
    (row,) = snapshot.table.to_pylist()
    assert (row["output"], row["correct"], snapshot.meta["engine"]) == ("w5", True, "vllm")
    assert row["prompt_hash"] == score(model(TOK), TOK, Probe([OPEN], decoding={"tokens": 4})).texts("prompt_hash")[0]


def test_choices_are_scored_and_the_weights_freed_before_vllm_starts(saved: str, engines: list[Any]) -> None:
    probe = Probe([CHOICE, OPEN], decoding={"tokens": 4})
    snapshot = score_with_vllm(saved, probe)
    assert [where for _, where in engines] == [{"meta"}]
    expected = score(model(TOK), TOK, probe).table.to_pylist()[0]
    assert snapshot.table.to_pylist()[0]["choice_logprobs"] == expected["choice_logprobs"]
    assert snapshot.meta["device"] == "cpu"


def test_vllm_is_not_started_in_vain(saved: str, engines: list[Any], tmp_path: Path) -> None:
    with pytest.raises(ScoringError, match="has none to generate; score it without vLLM"):
        score_with_vllm(saved, Probe([CHOICE]))
    (tmp_path / "adapter").mkdir()
    (tmp_path / "adapter" / "adapter_config.json").write_text("{}")
    with pytest.raises(ScoringError, match="merge it into its base first"):
        score_with_vllm(str(tmp_path / "adapter"), Probe([OPEN]))
    with pytest.raises(ScoringError, match="nowhere: cannot be loaded as a causal language model"):
        score_with_vllm("nowhere", Probe([OPEN]))
    assert engines == []


def test_the_command_passes_its_options_to_vllm(
    saved: str, engines: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Probe([OPEN], decoding={"tokens": 4}).save(tmp_path / "p.jsonl")
    given = ["score", saved, "--probe", str(tmp_path / "p.jsonl"), "-o", str(tmp_path / "s.parquet")]
    refused = CliRunner().invoke(app, [*given, "--tensor-parallel", "2"])
    assert isinstance(refused.exception, ScoringError)
    assert "are for --engine vllm" in str(refused.exception)
    done = CliRunner().invoke(app, [*given, "--engine", "vllm", "--tensor-parallel", "2"], catch_exceptions=False)
    assert done.exit_code == 0
    assert engines[0][0]["tensor_parallel_size"] == 2
    assert load_snapshot(tmp_path / "s.parquet").floats("correct").tolist() == [1.0]
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setattr(checkpoints, "load_model", ModuleType)  # vLLM is looked for before anything is loaded
    missing = CliRunner().invoke(app, [*given, "--engine", "vllm"])
    assert "pip install vllm" in str(missing.exception)
