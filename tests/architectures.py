"""Tiny models of many architectures with large random weights, and items that share a prefix."""

import random
from typing import Any

import torch
from support import WORDS, log_likelihood, tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM

from forgetwatch import Item, Probe
from forgetwatch.scoring.encoding import encode
from forgetwatch.scoring.scorer import Scorer

TOK = tokenizer()
SIZES: dict[str, Any] = {
    "vocab_size": len(TOK),
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 3,
    "eos_token_id": 1,
}
WINDOW = {"sliding_window": 4}
OLD = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
TREES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {"head_dim": 8},
    "mistral": WINDOW,
    "gemma2": {"head_dim": 8, **WINDOW},
    "gemma3_text": {"head_dim": 8, **WINDOW},
    "cohere2": WINDOW,
    "gpt2": OLD,
    "gptj": {**OLD, "rotary_dim": 4},
    "gpt_neox": {},
    "opt": {"ffn_dim": 64, "word_embed_proj_dim": 32},
    "gpt_oss": {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, **WINDOW},
    "llama4_text": {
        "head_dim": 8,
        "intermediate_size_mlp": 64,
        "num_local_experts": 2,
        "attention_chunk_size": 4,
    },
    "granite": {},
}


JAMBA = {
    **{"mamba_d_state": 8, "num_experts": 2, "attn_layer_period": 2, "attn_layer_offset": 1},
    "use_mamba_kernels": False,
}
"""Options of Jamba, one of whose layers carries a state along the row."""


class Deaf(LlamaForCausalLM):  # type: ignore[misc]
    """Takes a mask for every pair of tokens and looks at the earlier ones all the same, like some patched kernels."""

    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, position_ids: Any = None, **kw: Any
    ) -> Any:
        if attention_mask is not None and attention_mask.ndim == 4:
            attention_mask = None
        return super().forward(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **kw
        )


def items() -> Probe:
    """Half of them behind a shared prefix, longer than any window here; two to four choices of one to four tokens."""
    rng = random.Random(1)
    prefix = " ".join(rng.choices(WORDS, k=20))
    return Probe(
        [
            Item(
                id=str(i),
                task="t",
                prompt=f"{prefix if i % 2 else ''} Q : {' '.join(rng.choices(WORDS, k=4 + i % 5))} Answer :".strip(),
                choices=[
                    " " + " ".join(rng.choices(WORDS, k=1 + rng.randrange(4)))
                    for _ in range(2 + i % 3)
                ],
                answer=0,
            )
            for i in range(12)
        ]
    )


def network(kind: str, options: dict[str, Any], attention: str = "eager") -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(kind, **{**SIZES, **options})
    made = AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval()
    for weight in made.parameters():  # large weights: what a token should not see would show
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.3)
    return made


def largest_error(model: Any, scorer: Scorer) -> float:
    probe, rows = scorer.probe, scorer.score(model).table["choice_logprobs"].to_pylist()
    return max(
        abs(value - log_likelihood(model, one.context, ids))
        for one, row in zip(encode(probe, TOK, max_length=128), rows, strict=True)
        for value, ids in zip(row, one.choices, strict=True)
    )
