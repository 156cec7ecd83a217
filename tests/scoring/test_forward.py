"""Log-likelihoods against brute force: one row, one choice, one forward, in double precision."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from support import log_likelihood, model, probe, tokenizer
from torch import nn
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    MistralConfig,
    MistralForCausalLM,
)

from forgetwatch import score
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import encode

TOK = tokenizer()
SIZES: dict[str, Any] = {
    "vocab_size": len(TOK),
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "bos_token_id": 3,
    "eos_token_id": 1,
    "pad_token_id": 0,
}
MODELS = {
    "qwen3": lambda: model(TOK),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=len(TOK), n_embd=32, n_layer=2, n_head=2, n_positions=64, bos_token_id=3, eos_token_id=1)
    ),
    "mistral, window 4": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=4)),
    "gemma3, window 4": lambda: Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, head_dim=16, sliding_window=4)),
}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_log_likelihoods_are_those_of_one_row_per_choice(name: str) -> None:
    torch.manual_seed(0)
    network = MODELS[name]().eval()
    items = probe(20)
    rows = score(network, TOK, items).table["choice_logprobs"].to_pylist()
    for one, got in zip(encode(items, TOK, max_length=64), rows, strict=True):
        assert got == pytest.approx([log_likelihood(network, one.context, ids) for ids in one.choices], abs=1e-4)


class _Patched(LlamaForCausalLM):  # type: ignore[misc]
    """A model whose output something has replaced."""

    def forward(self, input_ids: Any = None, attention_mask: Any = None, use_cache: Any = None, **kwargs: Any) -> Any:
        shape = (*input_ids.shape, self.config.vocab_size)
        made = {
            "hidden states": torch.zeros(*input_ids.shape, 32),
            "nan": torch.full(shape, math.nan),
            "short": torch.zeros(shape)[:, :0],
            "none": None,
        }
        return SimpleNamespace(logits=made[self.kind])


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("hidden states", r"logits of shape .* 32\), needed 137 numbers"),
        ("nan", "not finite"),
        ("short", "logits of shape"),
        ("none", "returned no logits"),
    ],
)
def test_logits_that_are_no_logits_are_refused(kind: str, says: str) -> None:
    network = _Patched(LlamaConfig(**SIZES))
    network.kind = kind
    with pytest.raises(ScoringError, match=says):
        score(network, TOK, probe())


def test_a_model_without_a_language_head_is_refused() -> None:
    with pytest.raises(ScoringError, match="logits of shape"):
        score(LlamaForSequenceClassification(LlamaConfig(**SIZES)), TOK, probe())
    with pytest.raises(ScoringError, match="needed a causal language model"):
        score(nn.Linear(2, 2), TOK, probe())


def test_half_precision_sums_are_made_in_full_precision() -> None:
    network = model(TOK).to(torch.bfloat16)
    rows = score(network, TOK, probe()).table["choice_logprobs"].to_pylist()
    values = np.array([value for row in rows for value in row])
    assert np.mean(values == torch.tensor(values).to(torch.bfloat16).double().numpy()) < 0.1
