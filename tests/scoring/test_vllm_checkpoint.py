"""A checkpoint whose answers a stand-in for vLLM generates: which weights are loaded, when, and how often."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from support import model, tokenizer, vllm_stand_in
from typer.testing import CliRunner

from forgetwatch import Item, Probe, compare, load_snapshot, score
from forgetwatch.cli import app
from forgetwatch.errors import MismatchError, ScoringError
from forgetwatch.loading import Loading
from forgetwatch.scoring import checkpoints, score_with_vllm

TOK = tokenizer()
OPEN = Item(id="open", task="t", prompt="w1 w2", answer="w5", match="contains")
CHOICE = Item(id="choice", task="t", prompt="w3", choices=[" w4", " w6"], answer=0)


@pytest.fixture
def saved(saved: Path) -> str:
    return str(saved)


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

    def load(given: str, *, loading: Loading) -> Any:
        loaded.append(model(TOK))
        return loaded[0], TOK

    monkeypatch.setitem(sys.modules, "vllm", vllm_stand_in(LLM))
    monkeypatch.setattr(checkpoints, "load_model", load)
    return started


def test_open_answers_need_no_second_copy_of_the_model(saved: str, engines: list[Any]) -> None:
    snapshot = score_with_vllm(saved, Probe([OPEN], decoding={"tokens": 4}), tensor_parallel=2)
    options = {"model": saved, "seed": 0, "max_model_len": 6, "tensor_parallel_size": 2, "trust_remote_code": False}
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
    words = Item(id="words", task="t", prompt="w3", choices=[" w4", " w6 w7"], answer=0)
    with pytest.raises(ScoringError, match=r"none is either \(choice 1 has 2 tokens, and vLLM scores single ones\)"):
        score_with_vllm(saved, Probe([words]))
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


class Scoring:
    """vLLM's engine at one step, after `SamplingParams.logprob_token_ids` of version 0.33.

    It returns the raw log-probabilities of these tokens, at most 128, and of the token that it generated; it refuses
    tokens outside the vocabulary, and prompts that leave no room for an answer.
    """

    started: ClassVar[list[dict[str, Any]]] = []
    prompts: ClassVar[list[int]] = []

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.network = model(TOK).eval()
        self.started.append(options)

    def generate(self, prompts: Any, *, sampling_params: Any, use_tqdm: bool) -> Any:
        found = []
        for prompt, settings in zip(prompts, sampling_params, strict=True):
            ids, wanted = prompt["prompt_token_ids"], settings["logprob_token_ids"]
            assert len(ids) < self.options["max_model_len"]
            assert 0 < len(wanted) <= 128
            assert max(wanted) < len(TOK)
            assert (settings["max_tokens"], settings["temperature"]) == (1, 0.0)
            assert not {"logprobs", "stop"} & set(settings)  # `logprobs` would have to be the number of tokens
            self.prompts.append(len(ids))
            with torch.no_grad():
                logprobs = self.network(input_ids=torch.tensor([ids])).logits[0, -1].log_softmax(-1)
            top = int(logprobs.argmax())
            at_answer = {token: SimpleNamespace(logprob=float(logprobs[token])) for token in {*wanted, top}}
            output = SimpleNamespace(token_ids=[top], logprobs=[at_answer], finish_reason="length")
            found.append(SimpleNamespace(outputs=[output]))
        return found


@pytest.fixture
def scoring(monkeypatch: pytest.MonkeyPatch) -> type[Scoring]:
    def loads_weights(*_: Any, **__: Any) -> Any:
        raise AssertionError("the weights are loaded")

    monkeypatch.setattr(checkpoints, "load_model", loads_weights)
    monkeypatch.setitem(sys.modules, "vllm", vllm_stand_in(Scoring))
    Scoring.started.clear()
    Scoring.prompts.clear()
    return Scoring


def letters(**settings: Any) -> Probe:
    items = [
        Item(id=str(n), task="t", prompt=f"Q : {'w1 ' * n}", choices=("w7", "w8 w9", "w10"), answer=n % 3)
        for n in range(6)
    ]
    return Probe(items, scoring="letters", **settings)


@pytest.mark.parametrize("settings", [{}, {"norm": "unconditional"}, {"norm": "chars"}])
def test_letters_by_vllm_have_the_outcomes_of_the_model_itself(
    saved: str, scoring: type[Scoring], settings: dict[str, Any]
) -> None:
    probe = letters(**settings)
    snapshot, expected = score_with_vllm(saved, probe), score(model(TOK), TOK, probe)
    for name in ("choice_logprobs", "option_mass", "margin", "gold_share"):
        for one, other in zip(snapshot.table[name].to_pylist(), expected.table[name].to_pylist(), strict=True):
            assert one == pytest.approx(other, abs=1e-5)
    for name in ("chosen", "correct", "free_correct", "prompt_hash", "outcome", "choice_tokens"):
        assert snapshot.table[name].to_pylist() == expected.table[name].to_pylist()
    assert [options["max_model_len"] for options in scoring.started] == [max(scoring.prompts) + 1]
    assert (snapshot.meta["engine"], snapshot.meta["scorer"]) == ("vllm", "vllm letters/1")


def test_items_whose_choices_are_no_single_tokens_are_unscored_by_vllm(saved: str, scoring: type[Scoring]) -> None:
    words = Item(id="words", task="t", prompt="w3", choices=[" w4", " w6 w7"], answer=0)
    snapshot = score_with_vllm(saved, Probe([CHOICE, words]))
    assert snapshot.texts("outcome").tolist() == ["ok", "unscored: choice 1 has 2 tokens, and vLLM scores single ones"]
    assert len(scoring.prompts) == 1


def test_a_prompt_as_long_as_the_model_reads_leaves_vllm_no_room_for_its_answer(
    saved: str, scoring: type[Scoring]
) -> None:
    most = int(model(TOK).config.max_position_embeddings)
    items = [
        Item(id=str(tokens), task="t", prompt=" ".join(["w3"] * tokens), choices=[" w4", " w6"], answer=0)
        for tokens in (most - 1, most, most + 1)
    ]
    assert score(model(TOK), TOK, Probe(items)).texts("outcome").tolist()[:2] == ["ok", "ok"]
    snapshot = score_with_vllm(saved, Probe(items))
    assert snapshot.texts("outcome").tolist() == [
        "ok",
        f"unscored: {most} tokens and 1 for the answer, and the model reads {most}",
        f"unscored: {most + 1} tokens, and the model reads {most}",
    ]
    assert [options["max_model_len"] for options in scoring.started] == [most]  # vLLM refuses more


def test_letters_by_vllm_are_compared_with_each_other_only(saved: str, scoring: type[Scoring]) -> None:
    by_vllm, by_model = score_with_vllm(saved, letters()), score(model(TOK), TOK, letters())
    assert compare(before=by_vllm, after=by_vllm).all.forgotten == 0
    for pair in ({"before": by_vllm, "after": by_model}, {"before": by_model, "after": by_vllm}):
        with pytest.raises(MismatchError, match=r"were scored by vLLM and those of .* by transformers") as found:
            compare(**pair)
        assert "score both with --engine vllm, or both without" in str(found.value)


def test_generated_answers_by_vllm_are_compared_with_those_of_transformers(saved: str, engines: list[Any]) -> None:
    probe = Probe([CHOICE, OPEN], decoding={"tokens": 4})
    compare(before=score(model(TOK), TOK, probe), after=score_with_vllm(saved, probe))


def test_the_command_scores_letters_by_vllm(saved: str, scoring: type[Scoring], tmp_path: Path) -> None:
    letters().save(tmp_path / "p.jsonl")
    given = ["score", saved, "--probe", str(tmp_path / "p.jsonl"), "-o", str(tmp_path / "s.parquet")]
    done = CliRunner().invoke(app, [*given, "--engine", "vllm"], catch_exceptions=False)
    assert "6 items scored" in done.stdout
    assert load_snapshot(tmp_path / "s.parquet").meta["scorer"] == "vllm letters/1"
