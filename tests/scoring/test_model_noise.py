"""Noise of a model that moves with the batch is told from logits that see other tokens than they should."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from architectures import SIZES, Deaf
from packaging.version import Version
from support import probe, tokenizer
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, LlamaConfig, LlamaForCausalLM

from forgetwatch import score
from forgetwatch.errors import ScoringError
from forgetwatch.scoring import Scorer

TOK = tokenizer()
VOCABULARY = len(TOK)
DTYPES = [torch.float32, torch.bfloat16]


@contextmanager
def sums_by_number_of_tokens() -> Iterator[None]:
    """Matrix products like those of GPU kernels: sums are cut in two for an even number of tokens, and rounded once."""
    linear = nn.functional.linear

    def cut(hidden: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        x, w, half = hidden.float(), weight.float(), weight.shape[1] // 2
        if hidden.numel() // hidden.shape[-1] % 2:
            product = linear(x, w)
        else:
            product = linear(x[..., :half], w[:, :half]) + linear(x[..., half:], w[:, half:])
        return (product if bias is None else product + bias).to(hidden.dtype)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.functional, "linear", cut)
        yield


def mixture_of_experts(seed: int) -> Any:
    """Sixteen layers of sixteen experts in bf16, with weights so large that roundings grow from layer to layer."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": 2000, "hidden_size": 256, "intermediate_size": 512, "moe_intermediate_size": 128}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "num_hidden_layers": 16}
    experts = {"num_experts": 16, "num_experts_per_tok": 4, "max_position_embeddings": 256, "pad_token_id": 0}
    config = AutoConfig.for_model("qwen3_moe", **sizes, **heads, **experts)
    # Models of transformers 4.x have one implementation of experts, and no name for it.
    experts_in_turn = {"experts_implementation": "eager"} if Version(transformers.__version__).major >= 5 else {}
    network = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa", **experts_in_turn)
    for weight in network.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=0.15)
    return network.to(torch.bfloat16).eval()


@pytest.mark.parametrize("seed", [0, 3])  # refused, or called leaking, by a bound on all logits
def test_a_mixture_of_experts_in_half_precision_is_scored(seed: int) -> None:
    network = mixture_of_experts(seed)
    with sums_by_number_of_tokens():
        scorer = Scorer(probe(6), TOK, network)
        assert scorer.score(network).texts("outcome").tolist() == ["ok"] * 6
    assert "one branch" not in scorer.engine.fallback_reason


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("std", [None, 0.3])
@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert", "xlm-roberta", "modernbert", "roformer", "layoutlm"])
def test_an_encoder_is_refused_with_any_weights(kind: str, std: float | None, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "dim": 32, "embedding_size": 32, "intermediate_size": 64, "hidden_dim": 64}
    layers = {"num_hidden_layers": 2, "n_layers": 2, "num_attention_heads": 2, "n_heads": 2}
    special = {"bos_token_id": 3, "eos_token_id": 1, "cls_token_id": 3, "sep_token_id": 1, "pad_token_id": 0}
    config = AutoConfig.for_model(kind, vocab_size=VOCABULARY, **sizes, **layers, **special)
    network = AutoModelForMaskedLM.from_config(config).eval()
    for weight in network.parameters():
        if std and weight.ndim > 1:
            nn.init.normal_(weight, std=std)
    network = network.to(dtype)
    with pytest.raises(ScoringError, match="when more text follows"):
        score(network, TOK, probe(6))


def llama(kind: type[LlamaForCausalLM], *, std: float, dtype: torch.dtype, layers: int = 2) -> Any:
    torch.manual_seed(0)
    sizes = {**SIZES, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": layers}
    network = kind(LlamaConfig(**sizes))
    for weight in network.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=std)
    return network.to(dtype).eval()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("std", [0.02, 0.3])
def test_a_mask_that_is_ignored_is_found_with_any_weights(std: float, dtype: torch.dtype) -> None:
    network = llama(Deaf, std=std, dtype=dtype)
    scorer = Scorer(probe(), TOK, network)
    scorer.score(network)
    assert (scorer.engine.layout, "differ from single ones" in scorer.engine.fallback_reason) == ("rows", True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layer", [0, 7])
def test_a_mask_that_one_layer_of_eight_ignores_is_found(layer: int, dtype: torch.dtype) -> None:
    def scored(network: Any) -> Any:
        scorer = Scorer(probe(), TOK, network)
        scorer.score(network)
        return scorer.engine

    assert scored(llama(LlamaForCausalLM, std=0.02, dtype=dtype, layers=8)).layout == "trie"
    network = llama(LlamaForCausalLM, std=0.02, dtype=dtype, layers=8)

    def ignore(module: nn.Module, args: Any, options: dict[str, Any]) -> Any:
        mask = options.get("attention_mask")
        # A tree's mask hides earlier tokens of the row; a causal one does not.
        tree = mask is not None and not bool(mask[:, :, -1].all())
        return args, {**options, "attention_mask": None} if tree else options

    network.model.layers[layer].self_attn.register_forward_pre_hook(ignore, with_kwargs=True)
    assert scored(network).layout == "rows"


def test_the_noise_of_a_model_that_moves_with_the_batch_is_no_reason_for_single_rows() -> None:
    """Each call adds other noise to the hidden states."""
    network = llama(LlamaForCausalLM, std=0.02, dtype=torch.bfloat16)
    rng = random.Random(0)

    def shake(module: nn.Module, args: Any, output: Any) -> Any:
        generator = torch.Generator().manual_seed(rng.randrange(2**31))
        return output + 0.002 * torch.randn(output.shape, generator=generator).to(output.dtype)

    network.model.norm.register_forward_hook(shake)
    scorer = Scorer(probe(), TOK, network)
    assert scorer.score(network).texts("outcome").tolist() == ["ok"] * 30
