"""Models that are larger than one device, and what a user reads where memory ends."""

from __future__ import annotations

import gc
import json
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from accelerate import disk_offload, dispatch_model
from peft import LoraConfig, get_peft_model
from ranks import in_processes
from support import model, probe, tokenizer
from transformers import AutoModelForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled, set_hf_deepspeed_config
from typer.testing import CliRunner

from forgetwatch import load_snapshot, score
from forgetwatch.cli import app
from forgetwatch.cli.options import check_device_map
from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.scoring import Scorer, explain_out_of_memory, load_model, score_checkpoint
from forgetwatch.scoring import loading as checkpoints
from forgetwatch.scoring import loading as pretrained

TOK = tokenizer()


def logprobs(snapshot: Any) -> Any:
    return snapshot.table["choice_logprobs"].to_pylist()


SPREAD = Loading(device_map="auto")
EXPECTED = logprobs(score(model(TOK), TOK, probe()))


@pytest.mark.parametrize(
    "devices",
    [
        {"": "cpu"},
        {"model.embed_tokens": "cpu", "model.layers.0": "cpu", "model.layers.1": "disk", "model.norm": "disk"}
        | {"model.rotary_emb": "cpu", "lm_head": "disk"},
        {"model": "disk", "lm_head": "cpu"},
    ],
    ids=["one device", "some layers and the head on the disk", "the body on the disk"],
)
def test_a_model_on_several_devices_has_its_log_likelihoods(saved: Path, tmp_path: Path, devices: Any) -> None:
    network = AutoModelForCausalLM.from_pretrained(saved)
    network = dispatch_model(network, devices, main_device="cpu", offload_dir=str(tmp_path / "disk"), force_hooks=True)
    assert logprobs(score(network, TOK, probe())) == EXPECTED


def test_a_model_wholly_on_the_disk_has_its_log_likelihoods(saved: Path, tmp_path: Path) -> None:
    network = AutoModelForCausalLM.from_pretrained(saved)
    network = disk_offload(network, str(tmp_path / "disk"), execution_device=torch.device("cpu"))
    assert {weight.device.type for weight in network.parameters()} == {"meta"}
    assert logprobs(score(network, TOK, probe())) == EXPECTED


def test_a_device_map_is_passed_on_and_the_model_is_not_moved(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maps, moves = [], []
    load, move = AutoModelForCausalLM.from_pretrained, torch.nn.Module.to

    def recorded(*given: Any, device_map: Any = None, **options: Any) -> Any:
        maps.append(device_map)
        return load(*given, device_map=device_map, **options)

    def moved(self: Any, *given: Any, **options: Any) -> Any:
        moves.append(given)
        return move(self, *given, **options)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", recorded)
    monkeypatch.setattr(torch.nn.Module, "to", moved)
    network, tok = load_model(str(saved), loading=SPREAD)
    assert (maps, moves) == (["auto"], [])
    assert logprobs(score(network, tok, probe())) == EXPECTED
    load_model(str(saved))
    assert (maps, moves) == (["auto", None], [("cpu",)])


def test_experts_that_reach_the_disk_are_written_to_a_folder_that_goes_with_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    sizes = {"hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 16, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 128}
    config = Qwen3MoeConfig(vocab_size=len(TOK), num_experts=4, num_experts_per_tok=2, **sizes, **heads)
    whole = Qwen3MoeForCausalLM(config).eval()
    whole.save_pretrained(tmp_path / "experts")
    TOK.save_pretrained(tmp_path / "experts")
    names = ["model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb", "lm_head"]
    devices: Any = {**dict.fromkeys(names, "cpu"), "model.layers.1": "disk"}  # as `auto` chooses where memory ends
    network, tok = load_model(str(tmp_path / "experts"), loading=Loading(device_map=devices))
    assert {weight.device.type for weight in network.parameters()} == {"cpu", "meta"}
    (folder,) = (tmp_path / "temporary").iterdir()
    assert any(folder.iterdir())
    spread, expected = score(network, tok, probe()), score(whole, TOK, probe())
    for one, other in zip(logprobs(spread), logprobs(expected), strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    del network
    gc.collect()
    assert not any((tmp_path / "temporary").iterdir())
    with pytest.raises(ScoringError):
        load_model("nowhere/nothing", loading=SPREAD)
    assert not any((tmp_path / "temporary").iterdir())


def test_an_adapter_has_the_device_map_of_its_base(saved: Path, tmp_path: Path) -> None:
    config = LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    adapted = get_peft_model(load_model(str(saved))[0], config)
    adapted.save_pretrained(tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": str(saved)}))
    network, tok = load_model(str(tmp_path / "adapter"), loading=SPREAD)
    assert logprobs(score(network, tok, probe())) == logprobs(score(adapted, TOK, probe()))


def test_the_commands_take_a_device_map(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maps: list[Any] = []

    def load(given: str, *, loading: Loading) -> Any:
        maps.append(loading.device_map)
        return load_model(given, loading=loading)

    monkeypatch.setattr(checkpoints, "load_model", load)
    probe().save(tmp_path / "p.jsonl")
    asked = ["--probe", str(tmp_path / "p.jsonl")]
    target = ["-o", str(tmp_path / "s.parquet")]
    runner = CliRunner()
    runner.invoke(app, ["score", str(saved), *asked, *target, "--device-map", "auto"], catch_exceptions=False)
    assert logprobs(load_snapshot(tmp_path / "s.parquet")) == EXPECTED
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "other"))
    given = ["compare", str(tmp_path / "s.parquet"), str(saved), *asked, "--device-map", "auto"]
    runner.invoke(app, given, catch_exceptions=False)
    assert maps == ["auto", "auto"]
    for command in (["score", str(saved), *target], ["compare", str(saved), str(saved)]):
        wrong = runner.invoke(app, [*command, *asked, "--device-map", "autp"])
        assert wrong.exit_code == 2
        assert "'autp' is not one of 'auto'" in " ".join(wrong.output.replace("│", " ").split())
    with monkeypatch.context() as launched:  # tests/cli/test_launched.py starts several
        launched.setenv("WORLD_SIZE", "2")
        launched.setenv("LOCAL_RANK", "0")
        with pytest.raises(ScoringError, match="needed one process, got 2"):
            check_device_map("auto")
    assert len(maps) == 2


def test_outcomes_of_a_spread_model_are_cached_apart(saved: Path) -> None:
    score_checkpoint(str(saved), probe())
    files = set((saved.parent / "cache").glob("*.parquet"))
    score_checkpoint(str(saved), probe(), loading=SPREAD)
    assert len(set((saved.parent / "cache").glob("*.parquet"))) == len(files) + 1 == 2


def test_a_model_that_does_not_fit_is_an_error_with_its_size_and_the_remedy(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"))
    size = sum(weight.numel() * weight.element_size() for weight in model(TOK).parameters())
    monkeypatch.setattr("forgetwatch.scoring.model._GIB", size)
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", full)
    with pytest.raises(ScoringError) as found:
        load_model(str(saved))
    said = str(found.value)
    assert f"{saved}: loading it: out of memory with 1.0 GiB of weights; this machine has " in said
    assert f"forgetwatch score {saved} --device-map auto" in said
    with pytest.raises(ScoringError, match="free memory, or take a smaller or quantized model"):
        load_model(str(saved), loading=SPREAD)
    config, sizes = Zero3(), []
    set_hf_deepspeed_config(config)
    monkeypatch.setattr(pretrained, "size_of", lambda *_, **__: sizes.append(is_deepspeed_zero3_enabled()) or size)
    with pytest.raises(ScoringError, match=r"with 1\.0 GiB of weights"):
        load_model(str(saved))
    assert sizes == [False]


def test_a_row_that_does_not_fit_is_an_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    network = model(TOK)
    monkeypatch.setattr(network, "forward", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory")))
    scorer = Scorer(probe(), TOK, network, token_budget=64)
    needed = r"in batches of 64: out of memory with 0\.0 GiB of weights; .*; outside of a training, .*--device-map auto"
    with pytest.raises(ScoringError, match=needed):
        scorer.score(network)


def test_the_error_on_memory_touches_only_the_gpus_that_hold_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def free(device: Any) -> tuple[int, int]:
        asked.append(device)
        return 2 * 2**30, 80 * 2**30

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    monkeypatch.setattr(torch.cuda, "mem_get_info", free)

    def fails(**devices: Any) -> str:
        asked.clear()
        with (
            pytest.raises(ScoringError) as found,
            explain_out_of_memory("scoring", weights=lambda: 2**30, remedy="free memory", **devices),
        ):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return str(found.value)

    assert "; cuda:3 has 2.0 of 80.0 GiB free; free memory" in fails()
    assert asked == [3]
    # The same where no weight is at hand: all of them on the disk.
    assert "; cuda:3 has 2.0 of" in fails(devices=lambda: [torch.device("meta")])
    assert "; cuda:3 has 2.0 of" in fails(devices=lambda: [torch.device("cuda")])
    said = fails(devices=lambda: [torch.device("cuda", 5), torch.device("cuda", 1), torch.device("cpu")])
    assert "; cuda:1 has 2.0 of 80.0 GiB free, cuda:5 has 2.0 of 80.0 GiB free, this machine has " in said
    assert asked == [1, 5]
    network = model(TOK)
    monkeypatch.setattr(network, "forward", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory")))
    asked.clear()
    with pytest.raises(ScoringError, match=r"GiB of weights; this machine has .* outside of a training, `forgetwatch"):
        score(network, TOK, probe())
    assert asked == []


class Zero3:
    """The configuration of a training with ZeRO-3, as transformers asks for it."""

    def is_zero3(self) -> bool:
        return True


def test_a_model_is_loaded_whole_inside_a_training_with_zero3_or_fsdp(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    config, load, seen = Zero3(), AutoModelForCausalLM.from_pretrained, []

    def recorded(*given: Any, **options: Any) -> Any:
        seen.append((is_deepspeed_zero3_enabled(), os.environ["ACCELERATE_USE_FSDP"]))
        return load(*given, **options)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", recorded)
    set_hf_deepspeed_config(config)
    network, _ = load_model(str(saved))
    assert seen == [(False, "false")]
    assert is_deepspeed_zero3_enabled()  # as the training had it
    assert os.environ["ACCELERATE_USE_FSDP"] == "true"
    with pytest.raises(ScoringError):
        load_model("nowhere/nothing")
    assert is_deepspeed_zero3_enabled()
    del config
    assert not any(hasattr(weight, "ds_id") for weight in network.parameters())


_RANK = """
from support import model, probe, tokenizer
from forgetwatch import Probe
from forgetwatch.errors import ForgetwatchError
from forgetwatch.scoring import loading, processes
from forgetwatch.scoring.encoding import encode
from forgetwatch.scoring.scorer import Scorer

tok, calls = tokenizer(), []
class Counting(type(tok)):
    def __call__(self, *given, **options):
        calls.append(1)
        return super().__call__(*given, **options)
tok.__class__ = Counting
scorer = Scorer(probe(40, norm="unconditional"), tok, model(tok))
found = {"calls": len(calls), "hashes": [one.prompt_hash for one in scorer._encoded]}
found["shared"] = len({id(t) for one in scorer._encoded for t in one.context}) <= len(tok)
"""


def test_each_process_encodes(saved: Path, tmp_path: Path) -> None:
    ranks = in_processes(f"folder = {str(saved)!r}" + _RANK, tmp_path)
    assert ranks[0]["calls"] == ranks[1]["calls"] > 0
    alone = Scorer(probe(40, norm="unconditional"), TOK, model(TOK))
    assert [rank["hashes"] for rank in ranks] == [[one.prompt_hash for one in alone._encoded]] * 2
    assert all(rank["shared"] for rank in ranks)
