"""The device of tests/gpu: a CUDA device, or the CPU, where the same tests run with small models.

FORGETWATCH_TEST_DEVICE (cpu, cuda) chooses; by default a CUDA device where there is one.
"""

import os
import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import torch
from support import WORDS, tokenizer

from forgetwatch import Probe, Snapshot

DEVICE: Final = os.environ.get("FORGETWATCH_TEST_DEVICE") or (
    "cuda" if torch.cuda.is_available() else "cpu"
)
ON_CUDA: Final = DEVICE == "cuda"
needs_cuda = pytest.mark.skipif(not ON_CUDA, reason="needs a CUDA device")

VOCABULARY: Final = 151_936 if ON_CUDA else 3_000
_LARGE: Final = {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
}
_SMALL: Final = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
SHAPE: Final = {**(_LARGE if ON_CUDA else _SMALL), "num_key_value_heads": 8 if ON_CUDA else 2}
"""Settings of a Llama of 1B on a CUDA device."""


def wide(*, dtype: torch.dtype = torch.bfloat16, **options: Any) -> Any:
    """Llama of 1B with random weights; a small one on the CPU."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY, max_position_embeddings=8192, **{**SHAPE, **options}
    )
    return _made(LlamaForCausalLM, config, dtype)


def experts(*, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> Any:
    """Qwen3 with a mixture of experts and random weights."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    width, layers, count = (1024, 16, 64) if ON_CUDA else (64, 4, 8)
    config = Qwen3MoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=2 * width,
        moe_intermediate_size=width // 2,
        num_hidden_layers=layers,
        num_attention_heads=width // 16,
        num_key_value_heads=width // 32,
        head_dim=16 if not ON_CUDA else 64,
        num_experts=count,
        num_experts_per_tok=4,
        max_position_embeddings=8192,
    )
    return _made(Qwen3MoeForCausalLM, config, dtype, seed=seed)


def soft_capped(*, dtype: torch.dtype = torch.bfloat16) -> Any:
    """Gemma-2 with random weights: attention scores and logits are capped, every second layer has a window."""
    from transformers import Gemma2Config, Gemma2ForCausalLM

    width = 512 if ON_CUDA else 64
    config = Gemma2Config(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=width // 4,
        query_pre_attn_scalar=width // 4,
        sliding_window=8,
        max_position_embeddings=8192,
    )
    return _made(Gemma2ForCausalLM, config, dtype)


def _made(kind: Any, config: Any, dtype: torch.dtype, *, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    with torch.device(DEVICE):
        return kind(config).to(dtype).eval()


def text_tokenizer(probe: Probe) -> Any:
    """Tokenizer with a chat template and one token for each word of a probe."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    texts = [text for item in probe for text in (str(item.prompt), *item.choices)]
    words = [
        "<pad>",
        "<eos>",
        "<unk>",
        "<bos>",
        *sorted({word for text in texts for word in text.split()}),
    ][:VOCABULARY]
    backend = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
    )
    made.chat_template = tokenizer().chat_template
    return made


class Texts(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Random sequences of 24 tokens with labels, which a trainer needs no other package for."""

    def __init__(self, tok: Any, rows: int = 32) -> None:
        rng = random.Random(0)
        texts = [" ".join(rng.choices(WORDS[:40], k=24)) for _ in range(rows)]
        self._ids = torch.tensor([tok(text)["input_ids"] for text in texts])

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._ids[index], "labels": self._ids[index]}


def logprobs(snapshot: Snapshot) -> np.ndarray:
    """Log-likelihoods of all choices of all items, nats."""
    return np.concatenate(snapshot.table["choice_logprobs"].to_pylist())


def peak(act: Callable[[], Any]) -> int:
    """Highest memory on the CUDA device while a function runs, bytes."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    act()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated()
