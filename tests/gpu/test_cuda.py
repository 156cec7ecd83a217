"""Claims that depend on the device, at the width of a real model. On the CPU the same tests run with small models.

    python3 -m pytest tests/gpu                                      a CUDA device with 24 GB, under ten minutes
    FORGETWATCH_TEST_DEVICE=cpu python3 -m pytest tests/gpu          the same code on the CPU

Needed are torch, transformers, pytest and forgetwatch's base requirements. Tests of trainers, flash attention, Liger
and adapters are skipped where their package is missing.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from devices import (
    DEVICE,
    ON_CUDA,
    VOCABULARY,
    Texts,
    experts,
    logprobs,
    needs_cuda,
    peak,
    soft_capped,
    text_tokenizer,
    wide,
)
from support import log_likelihood, model, probe, tokenizer

from forgetwatch import ForgetWatchCallback, Probe, Trajectory, Watch, score
from forgetwatch.probes.named import load_probe
from forgetwatch.retention.loss import Retention, RetentionLoss
from forgetwatch.run.drift import read_under, sample_completions
from forgetwatch.scoring.scorer import Scorer

TOK = tokenizer()
ITEMS = 120 if ON_CUDA else 24
SHARED = ("prefix", "trie")
HALF = 0.1
"""Nats by which a log-likelihood of at most three tokens may move between two layouts in bf16."""


def assert_shares_rows(layout: str, reason: str) -> None:
    """Shared rows are chosen, or refused for a difference below `HALF` that was measured on this device's kernels."""
    if layout in SHARED:
        return
    found = re.findall(r"differ from single ones by ([\d.]+) nats", reason)
    assert found, reason
    assert max(map(float, found)) < HALF, reason
    pytest.skip(f"single rows on this device: {reason}")


def assert_like_single_rows(network: Any, items: Probe) -> Scorer:
    """Shared rows agree with single rows, and change no choice that is not called unstable."""
    scorer = Scorer(items, TOK, network)
    shared = scorer.score(network)
    assert_shares_rows(scorer.engine.layout, scorer.engine.fallback_reason)
    single = Scorer(items, TOK, network, layout="rows").score(network)
    assert logprobs(shared) == pytest.approx(logprobs(single), abs=HALF)
    changed = shared.ints("chosen") != single.ints("chosen")
    assert not (
        changed & ~np.array(shared.table["unstable"].to_pylist()) & (single.floats("margin") > HALF)
    ).any()
    return scorer


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_shared_rows_agree_with_single_ones_in_half_precision(attention: str) -> None:
    network = wide()
    network.set_attn_implementation(attention)
    assert_like_single_rows(network, probe(ITEMS))


@pytest.mark.parametrize("seed", range(3 if ON_CUDA else 1))
def test_a_mixture_of_experts_in_half_precision_is_scored_within_its_own_noise(seed: int) -> None:
    network, items = experts(seed=seed), probe(ITEMS)
    single, alone = (
        logprobs(Scorer(items, TOK, network, layout="rows", token_budget=budget).score(network))
        for budget in (4096, 1)
    )
    # Batches of other sizes send other numbers of tokens to an expert, whose sums are then rounded differently.
    noise = float(np.abs(single - alone).max())
    assert logprobs(score(network, TOK, items)) == pytest.approx(single, abs=max(HALF, 3 * noise))


def test_a_soft_capped_model_shares_rows() -> None:
    assert_like_single_rows(soft_capped(), probe(ITEMS))


def test_log_likelihoods_are_those_of_the_models_own_logits() -> None:
    network, items = wide(dtype=torch.float32), probe(12)
    found = score(network, TOK, items).table["choice_logprobs"].to_pylist()
    for item, values in zip(items, found, strict=True):
        context = tuple(TOK(str(item.prompt))["input_ids"])
        expected = [
            _alone(network, context, tuple(TOK(choice)["input_ids"])) for choice in item.choices
        ]
        assert values == pytest.approx(expected, abs=1e-3 if ON_CUDA else 1e-4)


def _alone(network: Any, context: tuple[int, ...], choice: tuple[int, ...]) -> float:
    with torch.device(DEVICE):  # of the tensors that are made inside
        return log_likelihood(network, context, choice)


@needs_cuda
def test_flash_attention_is_replaced_for_shared_rows_and_agrees() -> None:
    pytest.importorskip("flash_attn")
    for network in (wide(), soft_capped()):
        items = probe(ITEMS)
        plain = logprobs(score(network, TOK, items))
        network.set_attn_implementation("flash_attention_2")
        scorer = Scorer(items, TOK, network)
        assert logprobs(scorer.score(network)) == pytest.approx(plain, abs=HALF)
        assert network.config._attn_implementation == "flash_attention_2"
        assert scorer.engine.layout in SHARED, scorer.engine.fallback_reason


def test_mixed_precision_agrees_with_full_precision() -> None:
    network, items = wide(dtype=torch.float32), probe(ITEMS)
    full = logprobs(score(network, TOK, items))
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        scorer = Scorer(items, TOK, network)
        mixed = logprobs(scorer.score(network))
    assert scorer.engine.layout in SHARED, scorer.engine.fallback_reason
    assert mixed == pytest.approx(full, abs=2 * HALF)
    assert np.mean(np.abs(mixed - full)) < HALF / 4
    assert not np.array_equal(mixed, full)  # it was mixed


def test_only_unstable_items_differ_in_another_order() -> None:
    network, items = wide(), list(probe(ITEMS))
    first = score(network, TOK, Probe(items))
    second = score(network, TOK, Probe(items[::-1]))
    changed = first.ints("chosen") != second.ints("chosen")[::-1]
    assert not (changed & ~np.array(first.table["unstable"].to_pylist())).any()


def test_the_same_weights_give_the_same_bits_at_the_next_look() -> None:
    network = wide()
    scorer = Scorer(probe(ITEMS), TOK, network)
    scorer.score(network)
    assert scorer.score(network).checksum == scorer.score(network).checksum


def test_the_states_of_random_numbers_come_back() -> None:
    network = model(TOK).to(DEVICE).train()
    torch.manual_seed(5)
    expected = torch.rand(4, device=DEVICE), torch.rand(4)
    torch.manual_seed(5)
    score(network, TOK, probe())
    assert torch.equal(torch.rand(4, device=DEVICE), expected[0])
    assert torch.equal(torch.rand(4), expected[1])


def test_a_disabled_adapter_gives_the_base() -> None:
    peft = pytest.importorskip("peft")
    network = wide()
    plain = logprobs(score(network, TOK, probe()))
    adapted = peft.get_peft_model(
        network, peft.LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False)
    )
    with adapted.disable_adapter():
        assert logprobs(score(adapted, TOK, probe())) == pytest.approx(plain, abs=1e-3)


def test_drift_in_half_precision_is_0_at_the_start_and_above_it_with_adapters() -> None:
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(wide(), peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    prompts = {"probe": [tuple(range(20 + n, 30 + 2 * n)) for n in range(8)]}
    found = sample_completions(adapted, TOK, prompts, tokens=8)
    equal = found.drift(read_under(adapted, found))["probe"]
    assert (equal.kl_sampled, equal.kl_summed) == (0.0, 0.0)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.05)
    moved = found.drift(read_under(adapted, found))["probe"]
    assert moved.kl_summed is not None
    assert moved.kl_summed > 0


def test_a_compiled_model_scores_as_the_plain_one() -> None:
    network, items = wide(dtype=torch.float32), probe(ITEMS)
    plain = logprobs(score(network, TOK, items))
    compiled = torch.compile(network, backend="inductor" if ON_CUDA else "eager")
    assert np.array_equal(logprobs(score(compiled, TOK, items)), plain)


def test_a_look_compiles_nothing_and_leaves_compiled_code_in_use() -> None:
    from torch._dynamo.utils import counters

    network = model(TOK).to(DEVICE).train()
    network.compile(
        backend="inductor" if ON_CUDA else "eager"
    )  # in place, as regional compilation does
    ids = torch.randint(5, len(TOK), (2, 16), device=DEVICE)
    network(input_ids=ids)
    graphs = counters["stats"]["unique_graphs"]
    assert graphs
    score(network, TOK, probe())
    network(input_ids=ids)
    assert counters["stats"]["unique_graphs"] == graphs


_LIGER = """
import json, sys
from devices import logprobs, wide
from support import probe, tokenizer
from forgetwatch.scoring.scorer import Scorer
from liger_kernel.transformers import apply_liger_kernel_to_llama
network, items = wide(), probe(int(sys.argv[1]))
plain = logprobs(Scorer(items, tokenizer(), network).score(network))
apply_liger_kernel_to_llama(model=network)
scorer = Scorer(items, tokenizer(), network)
found = logprobs(scorer.score(network))
print(json.dumps([scorer.engine.layout, scorer.engine.fallback_reason, float(abs(found - plain).max())]))
"""


@needs_cuda
def test_liger_kernels_score_as_the_plain_model() -> None:
    pytest.importorskip("liger_kernel")
    tests = Path(__file__).parents[1]
    # Liger replaces classes of transformers: in a process of its own.
    done = subprocess.run(
        [sys.executable, "-c", _LIGER, str(ITEMS)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent), *sys.path]),
        },
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    layout, reason, difference = json.loads(done.stdout.splitlines()[-1])
    assert difference <= HALF
    assert_shares_rows(layout, reason)


# Memory.


@needs_cuda
def test_a_look_needs_less_memory_than_a_training_step() -> None:
    network, rows, length = wide().train(), 8, 512
    optimizer = torch.optim.AdamW(network.parameters())

    def step() -> None:
        ids = torch.randint(5, len(TOK), (rows, length), device=DEVICE)
        network(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    training = peak(step)
    scorer = Scorer(load_probe("standard"), TOK, network, token_budget=rows * length)
    assert peak(lambda: scorer.score(network)) <= training


@needs_cuda
def test_a_look_keeps_a_part_of_the_logits_of_a_large_vocabulary() -> None:
    network, items = wide(), load_probe("standard")
    scorer = Scorer(items, text_tokenizer(items), network)
    scorer.score(network)
    before = torch.cuda.memory_allocated()
    logits = 4 * scorer.engine.token_budget * VOCABULARY
    assert peak(lambda: scorer.score(network)) - before < logits / 3


# Runs.


def arguments(folder: Path, **options: Any) -> Any:
    from transformers import TrainingArguments

    settings = {"max_steps": 4, "per_device_train_batch_size": 2, "learning_rate": 1e-3, "seed": 3}
    quiet = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "logging_steps": 2}
    return TrainingArguments(
        output_dir=str(folder), use_cpu=not ON_CUDA, bf16=True, **{**settings, **quiet, **options}
    )


def trained(
    folder: Path, callbacks: list[Any], *, tok: Any = TOK, network: Any = None, **options: Any
) -> Any:
    """Weights after training in transformers' own Trainer, in mixed precision."""
    pytest.importorskip("accelerate")  # the Trainer needs it
    from transformers import Trainer

    network = network or model(tok, positions=512)
    made = Trainer(
        model=network,
        args=arguments(folder, **options),
        train_dataset=Texts(TOK),
        processing_class=tok,
        callbacks=callbacks,
    )
    made.train()
    return torch.cat([weight.detach().float().cpu().flatten() for weight in network.parameters()])


def test_a_callback_in_a_trainer_takes_its_looks_and_leaves_the_training_alone(
    tmp_path: Path,
) -> None:
    plain = [trained(tmp_path / f"plain {number}", []) for number in range(2)]
    watched = trained(
        tmp_path / "watched", [ForgetWatchCallback(probe(40), every=2, max_overhead=None)]
    )
    # Kernels that are not deterministic differ from themselves, and by no more with the callback.
    assert float((watched - plain[0]).abs().max()) <= 2 * float((plain[1] - plain[0]).abs().max())
    trajectory = Trajectory.from_run(tmp_path / "watched")
    assert trajectory.steps == (0, 2, 4)
    assert trajectory.comparisons[-1].all.n == 40


@pytest.mark.full(reason="a probe of 2,000 questions")
def test_the_default_probe_is_measured_in_a_trainer(tmp_path: Path) -> None:
    tok = text_tokenizer(load_probe("standard"))
    trained(
        tmp_path,
        [ForgetWatchCallback(every=4, max_overhead=None)],
        tok=tok,
        network=model(tok, positions=512),
    )
    trajectory = Trajectory.from_run(tmp_path)
    assert trajectory.steps == (0, 4)
    # On a CUDA device the answers of `behaviour` are generated, too.
    assert trajectory.comparisons[-1].all.n == (2_160 if ON_CUDA else 2_000)


@needs_cuda  # on the CPU, inductor would compile for a minute
def test_a_callback_in_a_compiled_training_takes_its_looks(tmp_path: Path) -> None:
    trained(
        tmp_path, [ForgetWatchCallback(probe(40), every=2, max_overhead=None)], torch_compile=True
    )
    assert Trajectory.from_run(tmp_path).steps == (0, 2, 4)


@needs_cuda  # on the CPU: tests/retention
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_retention_loss_trains_in_half_precision(tmp_path: Path, dtype: torch.dtype) -> None:
    pytest.importorskip("trl")
    from datasets import Dataset
    from support import trainer
    from trl import SFTTrainer

    made = type("Kept", (RetentionLoss, SFTTrainer), {})
    plain = trainer(
        tmp_path, steps=4, use_cpu=False, bf16=True, logging_steps=1, network=model(TOK).to(dtype)
    )
    run = made(
        model=plain.model,
        args=plain.args,
        train_dataset=Dataset.from_list([{"text": f"w{n} w{n + 1} w{n + 2}"} for n in range(16)]),
        processing_class=TOK,
        retention=Retention(probe=probe(12), weight=1.0, batch=6),
    )
    run.train()
    terms = [row["retention_loss"] for row in run.state.log_history if "retention_loss" in row]
    assert len(terms) == 4
    assert all(np.isfinite(terms))


@needs_cuda  # on the CPU: tests/test_trl.py
def test_a_callback_in_a_trainer_of_trl_takes_its_looks(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    from support import trainer

    watch = ForgetWatchCallback(probe(40), every=2, max_overhead=None)
    trainer(tmp_path, callbacks=[watch], steps=4, use_cpu=not ON_CUDA, bf16=True).train()
    assert Trajectory.from_run(tmp_path).steps == (0, 2, 4)


@needs_cuda  # on the CPU: tests/test_trl.py
@pytest.mark.parametrize("method", ["DPO", "GRPO"])
def test_a_callback_in_preference_and_reinforcement_trainers_takes_its_looks(
    tmp_path: Path, method: str
) -> None:
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    settings: dict[str, Any] = {
        "max_steps": 4,
        "per_device_train_batch_size": 2,
        "bf16": True,
        "report_to": "none",
    }
    settings |= {"save_strategy": "no", "disable_tqdm": True}
    rows: list[dict[str, str]] = [
        {"prompt": f"w{n}", "chosen": f" w{n + 1}", "rejected": f" w{n + 2}"} for n in range(16)
    ]
    more: dict[str, Any] = {}
    if method == "GRPO":
        settings |= {"num_generations": 2, "max_completion_length": 4}
        rows = [{"prompt": row["prompt"]} for row in rows]
        more = {
            "reward_funcs": lambda completions, **_: [float("w5" in one) for one in completions]
        }
    network = model(TOK)
    network.save_pretrained(tmp_path / "start")
    network.config._name_or_path = str(tmp_path / "start")  # DPO loads its reference by name
    watch = ForgetWatchCallback(probe(40), every=2, max_overhead=None)
    getattr(trl, f"{method}Trainer")(
        model=network,
        args=getattr(trl, f"{method}Config")(str(tmp_path), **settings),
        train_dataset=Dataset.from_list(rows),
        processing_class=TOK,
        callbacks=[watch],
        **more,
    ).train()
    trajectory = Trajectory.from_run(tmp_path)
    assert trajectory.steps == (0, 2, 4)
    assert trajectory.comparisons[-1].all.n == 40


def test_looks_in_a_loop_of_ones_own_leave_it_alone(tmp_path: Path) -> None:
    """The claims of the callback without accelerate, which transformers' Trainer needs."""

    def train(watch: Watch | None) -> torch.Tensor:
        network, texts = model(TOK).to(DEVICE).train(), Texts(TOK)
        torch.manual_seed(1)
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
        for step in range(4):
            if watch:
                watch.look(network, TOK, step=step)
            ids = texts[step]["input_ids"][None].to(DEVICE)
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                loss = network(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return torch.cat([weight.detach().flatten() for weight in network.parameters()]).cpu()

    plain = [train(None) for _ in range(2)]
    watched = train(Watch(probe(40), output_dir=tmp_path))
    assert float((watched - plain[0]).abs().max()) <= 2 * float((plain[1] - plain[0]).abs().max())
    assert Trajectory.from_run(tmp_path).steps == (0, 1, 2, 3)
