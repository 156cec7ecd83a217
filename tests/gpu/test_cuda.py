"""Claims that only a GPU can show; skipped without one. Not yet run on one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from support import model, probe, tokenizer

from forgetwatch import Probe, Snapshot, score
from forgetwatch.scoring.scorer import Scorer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

TOK = tokenizer()


def logprobs(snapshot: Snapshot) -> np.ndarray:
    return np.concatenate(snapshot.table["choice_logprobs"].to_pylist())


def on_gpu(dtype: torch.dtype = torch.bfloat16) -> Any:
    return model(TOK).to("cuda", dtype)


def test_shared_rows_agree_with_single_ones_in_half_precision() -> None:
    network, items = on_gpu(), probe(120)
    trees, rows = (Scorer(items, TOK, network, layout=layout) for layout in ("trie", "rows"))  # type: ignore[arg-type]
    one, other = trees.score(network), rows.score(network)
    assert logprobs(one) == pytest.approx(logprobs(other), abs=0.2)
    changed = one.ints("chosen") != other.ints("chosen")
    assert not (changed & ~np.array(one.table["unstable"].to_pylist()) & (other.floats("margin") > 0.2)).any()
    found = Scorer(items, TOK, network)
    found.score(network)
    assert found.engine.layout == "trie", found.engine.fallback_reason


def test_the_state_of_cuda_random_numbers_comes_back() -> None:
    network = on_gpu().train()
    torch.cuda.manual_seed_all(5)
    expected = torch.rand(4, device="cuda")
    torch.cuda.manual_seed_all(5)
    score(network, TOK, probe())
    assert torch.equal(torch.rand(4, device="cuda"), expected)


def test_a_disabled_adapter_gives_the_base() -> None:
    from peft import LoraConfig, get_peft_model

    network = on_gpu()
    plain = logprobs(score(network, TOK, probe()))
    adapted = get_peft_model(network, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False))
    with adapted.disable_adapter():
        assert logprobs(score(adapted, TOK, probe())) == pytest.approx(plain, abs=1e-3)


def test_only_unstable_items_differ_in_another_order() -> None:
    network, items = on_gpu(), list(probe(120))
    first = score(network, TOK, Probe(items))
    second = score(network, TOK, Probe(items[::-1]))
    changed = first.ints("chosen") != second.ints("chosen")[::-1]
    assert not (changed & ~np.array(first.table["unstable"].to_pylist())).any()


def test_flash_attention_is_replaced_for_shared_rows_and_agrees() -> None:
    pytest.importorskip("flash_attn")
    network, items = on_gpu(), probe(60)
    plain = logprobs(score(network, TOK, items))
    network.set_attn_implementation("flash_attention_2")
    scorer = Scorer(items, TOK, network)
    assert logprobs(scorer.score(network)) == pytest.approx(plain, abs=0.2)
    assert network.config._attn_implementation == "flash_attention_2"
    assert scorer.engine.layout == "trie", scorer.engine.fallback_reason


def test_a_look_needs_less_memory_than_a_training_step() -> None:
    network = on_gpu(torch.float32).train()
    rows, length = 8, 100
    optimizer = torch.optim.AdamW(network.parameters())

    def step() -> None:
        ids = torch.randint(5, len(TOK), (rows, length), device="cuda")
        network(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def peak(act: Any) -> int:
        torch.cuda.reset_peak_memory_stats()
        act()
        return torch.cuda.max_memory_allocated()

    step()
    scorer = Scorer(probe(400), TOK, network, token_budget=rows * length)
    assert peak(lambda: scorer.score(network)) <= peak(step)
