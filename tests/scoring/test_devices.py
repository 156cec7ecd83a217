"""Models that are larger than one device, and what a user reads where memory ends.

Several processes that score one model together get the rows that one process gets.

Processes that hold parts of one model fall back to single rows together, for one reason, and no call is left out.
"""

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
from architectures import SIZES
from peft import LoraConfig, get_peft_model
from ranks import in_processes
from support import model, probe, tokenizer
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled, set_hf_deepspeed_config
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import AttentionInterface
from typer.testing import CliRunner

from forgetwatch import load_snapshot, score
from forgetwatch.cli import app
from forgetwatch.cli.options import check_device_map
from forgetwatch.errors import ScoringError
from forgetwatch.loading import Loading
from forgetwatch.scoring import cached_score as checkpoints
from forgetwatch.scoring import model_loading as pretrained
from forgetwatch.scoring.cached_score import score_checkpoint
from forgetwatch.scoring.model import explain_out_of_memory
from forgetwatch.scoring.model_loading import load_model
from forgetwatch.scoring.scorer import Scorer

TOK = tokenizer()


def logprobs(snapshot: Any) -> Any:
    return snapshot.table["choice_logprobs"].to_pylist()


SPREAD = Loading(device_map="auto")
EXPECTED = logprobs(score(model(TOK), TOK, probe()))


@pytest.mark.parametrize(
    "devices",
    [
        {"": "cpu"},
        {
            "model.embed_tokens": "cpu",
            "model.layers.0": "cpu",
            "model.layers.1": "disk",
            "model.norm": "disk",
        }
        | {"model.rotary_emb": "cpu", "lm_head": "disk"},
        {"model": "disk", "lm_head": "cpu"},
    ],
    ids=["one device", "some layers and the head on the disk", "the body on the disk"],
)
def test_a_model_on_several_devices_has_its_log_likelihoods(
    saved: Path, tmp_path: Path, devices: Any
) -> None:
    network = AutoModelForCausalLM.from_pretrained(saved)
    network = dispatch_model(
        network, devices, main_device="cpu", offload_dir=str(tmp_path / "disk"), force_hooks=True
    )
    assert logprobs(score(network, TOK, probe())) == EXPECTED


def test_a_model_wholly_on_the_disk_has_its_log_likelihoods(saved: Path, tmp_path: Path) -> None:
    network = AutoModelForCausalLM.from_pretrained(saved)
    network = disk_offload(network, str(tmp_path / "disk"), execution_device=torch.device("cpu"))
    assert {weight.device.type for weight in network.parameters()} == {"meta"}
    assert logprobs(score(network, TOK, probe())) == EXPECTED


def test_a_device_map_is_passed_on_and_the_model_is_not_moved(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "moe_intermediate_size": 16,
        "num_hidden_layers": 2,
    }
    heads = {
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 128,
    }
    config = Qwen3MoeConfig(
        vocab_size=len(TOK), num_experts=4, num_experts_per_tok=2, **sizes, **heads
    )
    whole = Qwen3MoeForCausalLM(config).eval()
    whole.save_pretrained(tmp_path / "experts")
    TOK.save_pretrained(tmp_path / "experts")
    names = ["model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb", "lm_head"]
    devices: Any = {
        **dict.fromkeys(names, "cpu"),
        "model.layers.1": "disk",
    }  # as `auto` chooses where memory ends
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
    file.write_text(
        json.dumps({**json.loads(file.read_text()), "base_model_name_or_path": str(saved)})
    )
    network, tok = load_model(str(tmp_path / "adapter"), loading=SPREAD)
    assert logprobs(score(network, tok, probe())) == logprobs(score(adapted, TOK, probe()))


def test_the_commands_take_a_device_map(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maps: list[Any] = []

    def load(given: str, *, loading: Loading) -> Any:
        maps.append(loading.device_map)
        return load_model(given, loading=loading)

    monkeypatch.setattr(checkpoints, "load_model", load)
    probe().save(tmp_path / "p.jsonl")
    asked = ["--probe", str(tmp_path / "p.jsonl")]
    target = ["-o", str(tmp_path / "s.parquet")]
    runner = CliRunner()
    runner.invoke(
        app, ["score", str(saved), *asked, *target, "--device-map", "auto"], catch_exceptions=False
    )
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
    full = Mock(
        side_effect=torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    )
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
    monkeypatch.setattr(
        pretrained, "size_of", lambda *_, **__: sizes.append(is_deepspeed_zero3_enabled()) or size
    )
    with pytest.raises(ScoringError, match=r"with 1\.0 GiB of weights"):
        load_model(str(saved))
    assert sizes == [False]


def test_a_row_that_does_not_fit_is_an_error_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = model(TOK)
    monkeypatch.setattr(
        network, "forward", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory"))
    )
    scorer = Scorer(probe(), TOK, network, token_budget=64)
    needed = r"in batches of 64: out of memory with 0\.0 GiB of weights; .*; outside of a training, .*--device-map auto"
    with pytest.raises(ScoringError, match=needed):
        scorer.score(network)


def test_the_error_on_memory_touches_only_the_gpus_that_hold_the_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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
            explain_out_of_memory(
                "scoring", weights=lambda: 2**30, remedy="free memory", **devices
            ),
        ):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return str(found.value)

    assert "; cuda:3 has 2.0 of 80.0 GiB free; free memory" in fails()
    assert asked == [3]
    # The same where no weight is at hand: all of them on the disk.
    assert "; cuda:3 has 2.0 of" in fails(devices=lambda: [torch.device("meta")])
    assert "; cuda:3 has 2.0 of" in fails(devices=lambda: [torch.device("cuda")])
    said = fails(
        devices=lambda: [torch.device("cuda", 5), torch.device("cuda", 1), torch.device("cpu")]
    )
    assert (
        "; cuda:1 has 2.0 of 80.0 GiB free, cuda:5 has 2.0 of 80.0 GiB free, this machine has "
        in said
    )
    assert asked == [1, 5]
    network = model(TOK)
    monkeypatch.setattr(
        network, "forward", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory"))
    )
    asked.clear()
    with pytest.raises(
        ScoringError,
        match=r"GiB of weights; this machine has .* outside of a training, `forgetwatch",
    ):
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
from forgetwatch.scoring import model_loading as loading, processes
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


BUDGET = 40

_RANK_OF_PROCESSES = """
from support import model, probe, tokenizer
from forgetwatch import Item, Probe
from forgetwatch.errors import ForgetwatchError
from forgetwatch.scoring.processes import on_main_process
from forgetwatch.scoring.scorer import Scorer
tok, found["checksums"] = tokenizer(), {}
for items in (40, 37, 2):
    scorer = Scorer(probe(items), tok, model(tok), token_budget=budget)
    network = model(tok)
    scorer.score(network)
    found["checksums"][items] = scorer.score(network).checksum
network, calls = model(tok), []
next(network.parameters()).ds_id = 0  # as if each process held a part
network.register_forward_hook(lambda *_: calls.append(1))
scorer = Scorer(probe(37), tok, network, token_budget=budget)
found["sharded"] = [scorer.score(network).checksum, len(calls)]
scorer.score(network)
found["sharded"].append(len(calls))
for name, network in (("fsdp2", sharded(model(tok))), ("fsdp1", fsdp1(model(tok)))):
    calls = []
    network.register_forward_hook(lambda *_: calls.append(1))
    scorer = Scorer(probe(37), tok, network, token_budget=budget)
    scorer.score(network)
    found[name] = [scorer.score(network).checksum, scorer.engine.layout, len(calls)]
broken = model(tok)
if rank == 1:
    broken.lm_head.forward = lambda hidden: 1 / 0
found["broken"] = error(lambda: Scorer(probe(37), tok, broken, token_budget=budget).score(broken))
def judge(output, item):
    return rank == 0
items = [Item(id=str(n), task="t", prompt=f"w{n} w2", answer="x", judge=judge) for n in range(5)]
judged = Scorer(Probe(items, decoding={"tokens": 4}), tok, model(tok)).score(model(tok))
found["judged"] = judged.table["correct"].to_pylist()
found["first"] = on_main_process(lambda: rank + 7)
def fail():
    raise ForgetwatchError("no")
found["failed"] = error(lambda: on_main_process(fail))
"""


@pytest.mark.full("3", reason="further numbers of processes")
@pytest.mark.parametrize("world", [2, 3])
def test_any_number_of_processes_gets_the_same_bits(world: int, tmp_path: Path) -> None:
    network = model(TOK)
    alone = {
        str(n): Scorer(probe(n), TOK, network, token_budget=BUDGET).score(network).checksum
        for n in (40, 37, 2)
    }
    ranks = in_processes(f"budget = {BUDGET}" + _RANK_OF_PROCESSES, tmp_path, world=world)
    assert [rank["checksums"] for rank in ranks] == [alone] * world
    # Where each holds a part of the model: the same rows, and as many calls each.
    assert len({tuple(rank["sharded"]) for rank in ranks}) == 1
    # And where each really does (FSDP in both its forms): the rows of a whole model, read in the same way.
    whole = (
        Scorer(probe(37), TOK, network, layout="trie", token_budget=BUDGET).score(network).checksum
    )
    for name in ("fsdp2", "fsdp1"):
        assert {tuple(rank[name][:2]) for rank in ranks} == {(whole, "trie")}
        assert len({rank[name][2] for rank in ranks}) == 1
    # An answer is graded once, whatever a judge would say in another process.
    assert [rank["judged"] for rank in ranks] == [[True] * 5] * world
    # What fails in one fails in all.
    assert all("division by zero" in rank["broken"] for rank in ranks)
    assert "process 1 failed" in ranks[0]["broken"]
    assert [rank["first"] for rank in ranks] == [7] * world
    assert all(rank["failed"] == "ForgetwatchError: no" for rank in ranks)


_LOUD = """
from support import model, probe, tokenizer
from forgetwatch.scoring.scorer import Scorer
tok = tokenizer()

trees = []

def notice(module, args, kwargs):
    mask = kwargs["attention_mask"]
    trees[:] = [mask is not None and mask.ndim == 4]

def refuse(module, args, kwargs):
    if trees[0]:
        raise RuntimeError("masks have two dimensions here")

def gradients(network):
    ids = torch.arange(32).reshape(2, 16)
    network.zero_grad()
    network(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    return [
        weight.grad.full_tensor() if hasattr(weight.grad, "full_tensor") else weight.grad.clone()
        for weight in network.parameters()
        if weight.grad is not None
    ]

for name in ("fsdp2", "fsdp1"):
    network = model(tok, dropout=0.0).train()
    inner = network.model
    network = (sharded if name == "fsdp2" else fsdp1)(network)
    before = gradients(network)
    Scorer(probe(13), tok, network, token_budget=40).score(network)
    found[name + " after a look"] = all(map(torch.equal, before, gradients(network)))
    # Where the weights of the root and of a layer are together, like the attention of a model that takes no such mask.
    inner.register_forward_pre_hook(notice, with_kwargs=True)
    inner.layers[1].self_attn.register_forward_pre_hook(refuse, with_kwargs=True)
    scorer = Scorer(probe(13), tok, network, token_budget=40)
    found[name] = [scorer.score(network).checksum, scorer.engine.layout, scorer.engine.fallback_reason]
    found[name] += [scorer.score(network).checksum]
    found[name] += [all(map(torch.equal, before, gradients(network)))]
"""


def test_a_model_in_parts_that_refuses_the_mask_is_read_in_single_rows(tmp_path: Path) -> None:
    whole = model(TOK, dropout=0.0)
    expected = Scorer(probe(13), TOK, whole, layout="rows", token_budget=40).score(whole).checksum
    reason = "RuntimeError: masks have two dimensions here"
    for found in in_processes(_LOUD, tmp_path):
        for name in ("fsdp2", "fsdp1"):
            assert found[f"{name} after a look"], name
            # Afterwards the model trains as before: no weights are left where the call was broken off.
            assert reason in found[name].pop(2), name
            assert found[name] == [expected, "rows", expected, True], name


_SOFT_CAP = """
from support import probe, tokenizer
from test_devices import soft_capped
from forgetwatch.scoring.scorer import Scorer
tok, network = tokenizer(), sharded(soft_capped())
scorer = Scorer(probe(13), tok, network, token_budget=40)
snapshot = scorer.score(network)
found["way"] = [snapshot.checksum, snapshot.meta["way"], snapshot.meta["attention"]]
"""


def soft_capped() -> Gemma2ForCausalLM:
    """Gemma 2 with a stand-in of a flash kernel, which takes causal rows only and caps the scores."""

    def kernel(
        module: object, query: object, key: object, value: object, mask: object, **options: object
    ) -> object:
        assert mask is None or mask.ndim == 2 or mask.shape[1] == 1  # type: ignore[attr-defined]
        options["softcap"] = None  # too large here to show
        return sdpa_attention_forward(module, query, key, value, mask, **options)  # type: ignore[arg-type]

    AttentionInterface.register("flash_stand_in", kernel)
    torch.manual_seed(0)
    config = Gemma2Config(**SIZES, head_dim=8, attn_logit_softcapping=50.0)
    network = Gemma2ForCausalLM._from_config(config, attn_implementation="eager").eval()
    network.config._attn_implementation = "flash_stand_in"
    return network


def test_a_soft_capped_model_in_parts_shares_rows(tmp_path: Path) -> None:
    whole = soft_capped()
    scorer = Scorer(probe(13), TOK, whole, layout="trie", token_budget=40)
    expected = scorer.score(whole).checksum
    (tmp_path / "test_devices.py").symlink_to(__file__)
    for found in in_processes(f"sys.path.insert(0, {str(tmp_path)!r})" + _SOFT_CAP, tmp_path):
        assert found["way"] == [expected, "trie", "eager"]


_ONE_ALONE = """
from dataclasses import replace
from support import model, probe, tokenizer
from forgetwatch.scoring import parity
from forgetwatch.scoring.scorer import Scorer
tok = tokenizer()

def scored(name, change):
    network, calls = model(tok), []
    next(network.parameters()).ds_id = 0  # as if each process held a part
    network.register_forward_hook(lambda *_: calls.append(1))
    undo = change(network)
    scorer = Scorer(probe(13), tok, network, token_budget=40)
    found[name] = [scorer.score(network).checksum, scorer.engine.layout, scorer.engine.fallback_reason, len(calls)]
    undo()

compare, tree_error = parity.ParityCheck.compare, parity.ParityCheck.tree_error

def differing(process):
    def change(network):
        def compared(self, *given):
            made = compare(self, *given)
            return replace(made, difference=9.0) if rank == process else made
        parity.ParityCheck.compare = compared
        return lambda: setattr(parity.ParityCheck, "compare", compare)
    return change

def wrong_tree(process):
    def change(network):
        def found_wrong(self, *given, **named):
            made = tree_error(self, *given, **named)
            return "a wrong tree" if rank == process else made
        parity.ParityCheck.tree_error = found_wrong
        return lambda: setattr(parity.ParityCheck, "tree_error", tree_error)
    return change

def too_large(process):
    def change(network):
        def hook(module, args, kwargs):
            mask = kwargs["attention_mask"]
            if rank == process and mask.ndim == 4 and mask.shape[-1] > 11:  # not the short tree
                raise torch.OutOfMemoryError("CUDA out of memory")
        network.register_forward_pre_hook(hook, with_kwargs=True)
        return lambda: None
    return change

for process in (0, 1):
    scored(f"differs {process}", differing(process))
    scored(f"tree {process}", wrong_tree(process))
    scored(f"memory {process}", too_large(process))
"""


def test_what_one_process_sees_alone_is_decided_for_all(tmp_path: Path) -> None:
    whole = model(TOK)
    rows, trie = (
        Scorer(probe(13), TOK, whole, layout=layout, token_budget=40).score(whole).checksum  # type: ignore[arg-type]
        for layout in ("rows", "trie")
    )
    first, second = in_processes(_ONE_ALONE, tmp_path)
    for name in set(first) - {"stderr"}:
        # A process whose call fails makes fewer: between the parts of this model there is no exchange to wait in.
        calls = 3 if name.startswith("memory") else 4
        assert first[name][:calls] == second[name][:calls], (
            name
        )  # equally many calls: none waits for the other
    # The main process decides what was measured.
    assert first["differs 0"][:2] == first["tree 0"][:2] == [rows, "rows"]
    assert first["differs 0"][2].endswith(": shared rows differ from single ones by 9 nats")
    assert first["tree 0"][2].endswith(": a wrong tree")
    for name in ("differs 1", "tree 1"):
        assert first[name][:3] == [trie, "trie", ""]
    # What failed in any process failed in all.
    for name in ("memory 0", "memory 1"):
        assert first[name][:2] == [rows, "rows"]
        assert first[name][2].endswith(": shared rows do not fit into memory")


_PREFIX = """
import dataclasses, random
from support import WORDS, model, probe, tokenizer
from forgetwatch.scoring.scorer import Scorer
tok, rng, items = tokenizer(), random.Random(0), probe(37)
few, other = (" ".join(rng.choices(WORDS[:40], k=300)) for _ in range(2))
def begun(number, item):
    return dataclasses.replace(item, prompt=f"{few if number < 11 else other} {item.prompt}") if number < 30 else item
items = dataclasses.replace(items, items=tuple(begun(number, item) for number, item in enumerate(items)))
network = model(tok, positions=2048)
alone = Scorer(items, tok, network, layout="prefix", token_budget=1024).score(network)
network = sharded(model(tok, positions=2048))
scorer = Scorer(items, tok, network, layout=alone.meta["way"], noise=0.0, token_budget=1024)
look = scorer.score(network)
rows = [[value for row in one.table["choice_logprobs"].to_pylist() for value in row] for one in (alone, look)]
found |= {"layouts": [alone.meta["way"], look.meta["way"]], "differs": max(abs(a - b) for a, b in zip(*rows))}
"""


def test_a_model_in_parts_reads_no_prefix_although_its_baseline_did(tmp_path: Path) -> None:
    for found in in_processes(_PREFIX, tmp_path):
        assert found["layouts"] == ["prefix", "trie"]
        assert found["differs"] < 1e-4
