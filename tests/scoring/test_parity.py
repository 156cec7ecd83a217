"""Shared rows on many architectures, against one forward per choice; and the fallback where they would be wrong.

Noise of a model that moves with the batch is told from logits that see other tokens than they should.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from architectures import JAMBA, SIZES, TOK, TREES, Deaf, items, largest_error, network
from packaging.version import Version
from peft import PromptTuningConfig, get_peft_model
from support import WORDS, log_likelihood, probe, tokenizer
from torch import Tensor, nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    LlamaConfig,
    LlamaForCausalLM,
    ProphetNetConfig,
    ProphetNetForCausalLM,
)

from forgetwatch import Item, Probe, score
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import encode
from forgetwatch.scoring.scorer import Scorer

ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "gpt_neo": (
        {
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 4,
        },
        "differ from single ones",
    ),
    "bloom": ({"n_layer": 2, "n_head": 4}, "no position_ids"),
    "mamba": ({"state_size": 8}, "carry a state"),
    "jamba": (JAMBA, "carry a state"),
    "minimax": ({"head_dim": 8, "num_local_experts": 4}, "layers of kind linear_attention"),
}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", sorted(TREES))
def test_shared_rows_are_exact(kind: str, attention: str) -> None:
    try:
        model = network(kind, TREES[kind], attention)
    except ValueError as error:
        assert "does not support an attention implementation" in str(error)  # noqa: PT017 (some have eager only)
        return
    # A prefix is read on its own where that saves a quarter of the budget; half of the items share one of 20 tokens.
    for budget, layout in ((1024, "trie"), (128, "prefix")):
        scorer = Scorer(items(), TOK, model, token_budget=budget)
        assert largest_error(model, scorer) < 1e-4
        assert (scorer.engine.layout, scorer.engine.fallback_reason) == (layout, "")


@pytest.mark.parametrize("kind", sorted(ROWS))
def test_models_that_cannot_share_rows_are_scored_in_single_rows(kind: str) -> None:
    options, why = ROWS[kind]
    model = network(kind, options)
    scorer = Scorer(items(), TOK, model)
    assert largest_error(model, scorer) < 1e-4
    assert scorer.engine.layout == "rows"
    assert why in scorer.engine.fallback_reason
    meta = scorer.score(model).meta
    assert (meta["way"], meta["why_rows"]) == ("rows", scorer.engine.fallback_reason)


class _Loud(LlamaForCausalLM):  # type: ignore[misc]
    def forward(
        self, input_ids: Any = None, attention_mask: Any = None, position_ids: Any = None, **kw: Any
    ) -> Any:
        if attention_mask is not None and attention_mask.ndim == 4:
            raise RuntimeError("masks have two dimensions here")
        return super().forward(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **kw
        )


@pytest.mark.parametrize(
    ("kind", "why"), [(Deaf, "differ from single ones"), (_Loud, "masks have two dimensions")]
)
def test_a_model_that_ignores_the_mask_is_detected(kind: Any, why: str) -> None:
    torch.manual_seed(0)
    model = kind(LlamaConfig(**SIZES)).eval()
    scorer = Scorer(items(), TOK, model)
    assert largest_error(model, scorer) < 1e-4
    assert scorer.engine.layout == "rows"
    assert why in scorer.engine.fallback_reason


class _All(LlamaForCausalLM):  # type: ignore[misc]
    """A model that gives back all positions, and takes no wish."""

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        position_ids: Any = None,
        use_cache: Any = None,
    ) -> Any:
        return super().forward(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids
        )


def test_a_model_whose_forward_takes_few_arguments_is_read_in_shared_rows() -> None:
    torch.manual_seed(0)
    model = _All(LlamaConfig(**SIZES)).eval()
    scorer = Scorer(items(), TOK, model)
    assert largest_error(model, scorer) < 1e-4
    assert scorer.engine.layout == "trie"


def test_later_scores_keep_the_layout_and_the_batches() -> None:
    model = network("llama", {})
    scorer = Scorer(items(), TOK, model, layout="rows", noise=0.25)
    first = scorer.score(model)
    assert (first.meta["way"], first.meta["noise"]) == ("rows", 0.25)
    again = scorer.score(model)
    assert first.table.equals(again.table)


def test_both_layouts_choose_the_same() -> None:
    model = network("qwen3", {"head_dim": 8})
    one, other = (
        Scorer(items(), TOK, model, layout=layout).score(model) for layout in ("trie", "rows")
    )  # type: ignore[arg-type]
    assert one.ints("chosen").tolist() == other.ints("chosen").tolist()
    assert one.floats("margin") == pytest.approx(other.floats("margin"), abs=1e-4)
    assert one.floats("option_mass") == pytest.approx(other.floats("option_mass"), abs=1e-5)
    assert one.table["free_correct"].equals(other.table["free_correct"])


def test_the_unconditional_norm_subtracts_the_log_likelihood_without_the_prompt() -> None:
    model = network("llama", {})
    probe = Probe(items().items, norm="unconditional")
    snapshot = score(model, TOK, probe)
    for row in snapshot.table.to_pylist():
        texts = probe[int(row["item_id"])].choices
        ids = [tuple(TOK(text, add_special_tokens=False)["input_ids"]) for text in texts or ()]
        expected = [log_likelihood(model, (TOK.bos_token_id,), choice) for choice in ids]
        assert row["choice_priors"] == pytest.approx(expected, abs=1e-4)
        gains = [
            ll - prior
            for ll, prior in zip(row["choice_logprobs"], row["choice_priors"], strict=True)
        ]
        assert row["chosen"] == gains.index(max(gains))


def letters_behind_one_prefix() -> Probe:
    """Mostly items that share nothing, a few that do, and one long one: little of it branches."""
    rng = random.Random(4)
    prefix = " ".join(rng.choices(WORDS, k=25))
    texts = [" ".join(rng.choices(WORDS, k=6)) for _ in range(60)]
    texts += [f"{prefix} {' '.join(rng.choices(WORDS, k=3))}" for _ in range(6)] + [
        " ".join(rng.choices(WORDS, k=60))
    ]
    return Probe(
        [
            Item(id=str(i), task="t", prompt=text, choices=(" A", " B", " C"), answer=0)
            for i, text in enumerate(texts)
        ]
    )


@pytest.mark.parametrize("std", [0.02, 0.3])
def test_parity_is_measured_where_rows_are_shared(std: float) -> None:
    torch.manual_seed(0)
    model = Deaf(LlamaConfig(**{**SIZES, "hidden_size": 64})).eval()
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=std)
    scorer = Scorer(letters_behind_one_prefix(), TOK, model)
    assert largest_error(model, scorer) < 1e-4
    assert scorer.engine.layout == "rows"


def test_a_window_over_row_positions_is_detected_where_rows_are_long() -> None:
    options = {**ROWS["gpt_neo"][0], "window_size": 60}
    model = network("gpt_neo", options)
    scorer = Scorer(items(), TOK, model)
    assert largest_error(model, scorer) < 1e-4


def test_a_layout_that_was_right_elsewhere_is_tested_here() -> None:
    torch.manual_seed(0)
    model = Deaf(LlamaConfig(**SIZES)).eval()
    with pytest.raises(
        ScoringError, match="were right when the baseline was made, and are not here"
    ):
        Scorer(items(), TOK, model, layout="trie", noise=0.0).score(model)


@pytest.mark.parametrize("kind", ["bert", "bart", "t5"])
def test_a_non_causal_model_is_refused(kind: str) -> None:
    small = {
        "num_hidden_layers": 1,
        "num_layers": 1,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "vocab_size": len(TOK),
    }
    config = AutoConfig.for_model(kind, **small)
    loader = AutoModelForMaskedLM if kind == "bert" else AutoModelForSeq2SeqLM
    with pytest.raises(ScoringError, match="causal language model"):
        score(loader.from_config(config).eval(), TOK, items())


def test_a_model_that_depends_on_the_number_of_later_tokens_is_refused() -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "init_std": 0.15}
    heads = {
        "num_encoder_attention_heads": 4,
        "num_decoder_attention_heads": 4,
        "num_decoder_layers": 2,
    }
    config = ProphetNetConfig(
        vocab_size=len(TOK), is_decoder=True, is_encoder_decoder=False, **sizes, **heads
    )
    with pytest.raises(ScoringError, match="causal language model"):
        score(ProphetNetForCausalLM(config).eval(), TOK, items())


def test_a_model_that_ignores_its_context_is_not_taken_for_an_encoder() -> None:
    model = network("llama", {})
    for layer in model.model.layers:
        torch.nn.init.zeros_(layer.self_attn.o_proj.weight)
    assert score(model, TOK, items()).texts("outcome").tolist() == ["ok"] * len(items())


def test_prompt_learning_is_scored_after_its_own_tokens() -> None:
    adapted = get_peft_model(
        network("llama", {}), PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=5)
    )
    adapted.eval()
    scorer = Scorer(items(), TOK, adapted)
    rows = scorer.score(adapted).table["choice_logprobs"].to_pylist()
    for one, row in zip(encode(items(), TOK, max_length=120), rows, strict=True):
        for value, ids in zip(row, one.choices, strict=True):
            with torch.no_grad():
                logits = (
                    adapted(input_ids=torch.tensor([one.context + ids]))
                    .logits[0]
                    .double()
                    .log_softmax(-1)
                )
            logits = logits[-len(one.context + ids) :]
            at = len(one.context) - 1
            assert value == pytest.approx(
                sum(float(logits[at + j, t]) for j, t in enumerate(ids)), abs=1e-4
            )
    assert "prompt learning" in scorer.engine.fallback_reason
    # Also inside a wrapper of training, which has no configuration of adapters itself.
    wrapped = torch.nn.DataParallel(adapted)
    assert Scorer(items(), TOK, wrapped).score(wrapped).table["choice_logprobs"].to_pylist() == rows


def test_a_layer_that_merges_weights_in_eval_is_left_unmerged() -> None:
    class Merging(torch.nn.Linear):
        def train(self, mode: bool = True) -> Any:
            if not mode:
                self.weight.data.add_(1.0)  # merged, and taken apart in train() only
            return super().train(mode)

    model = network("llama", {}).train()
    layer = model.model.layers[0].mlp.up_proj
    layer.__class__ = Merging
    before = layer.weight.detach().clone()
    score(model, TOK, items())
    assert torch.equal(layer.weight, before)
    assert layer.training


TOK_OF_MODEL_NOISE = tokenizer()
VOCABULARY = len(TOK_OF_MODEL_NOISE)
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
    sizes = {
        "vocab_size": 2000,
        "hidden_size": 256,
        "intermediate_size": 512,
        "moe_intermediate_size": 128,
    }
    heads = {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "num_hidden_layers": 16,
    }
    experts = {
        "num_experts": 16,
        "num_experts_per_tok": 4,
        "max_position_embeddings": 256,
        "pad_token_id": 0,
    }
    config = AutoConfig.for_model("qwen3_moe", **sizes, **heads, **experts)
    # Models of transformers 4.x have one implementation of experts, and no name for it.
    experts_in_turn = (
        {"experts_implementation": "eager"} if Version(transformers.__version__).major >= 5 else {}
    )
    network = AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa", **experts_in_turn
    )
    for weight in network.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=0.15)
    return network.to(torch.bfloat16).eval()


@pytest.mark.full(reason="further models")
@pytest.mark.parametrize("seed", [0, 3])  # refused, or called leaking, by a bound on all logits
def test_a_mixture_of_experts_in_half_precision_is_scored(seed: int) -> None:
    network = mixture_of_experts(seed)
    with sums_by_number_of_tokens():
        scorer = Scorer(probe(6), TOK_OF_MODEL_NOISE, network)
        assert scorer.score(network).texts("outcome").tolist() == ["ok"] * 6
    assert "one branch" not in scorer.engine.fallback_reason


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("std", [None, 0.3])
@pytest.mark.parametrize(
    "kind", ["bert", "roberta", "distilbert", "xlm-roberta", "modernbert", "roformer", "layoutlm"]
)
def test_an_encoder_is_refused_with_any_weights(
    kind: str, std: float | None, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "dim": 32,
        "embedding_size": 32,
        "intermediate_size": 64,
        "hidden_dim": 64,
    }
    layers = {"num_hidden_layers": 2, "n_layers": 2, "num_attention_heads": 2, "n_heads": 2}
    special = {
        "bos_token_id": 3,
        "eos_token_id": 1,
        "cls_token_id": 3,
        "sep_token_id": 1,
        "pad_token_id": 0,
    }
    config = AutoConfig.for_model(kind, vocab_size=VOCABULARY, **sizes, **layers, **special)
    network = AutoModelForMaskedLM.from_config(config).eval()
    for weight in network.parameters():
        if std and weight.ndim > 1:
            nn.init.normal_(weight, std=std)
    network = network.to(dtype)
    with pytest.raises(ScoringError, match="when more text follows"):
        score(network, TOK_OF_MODEL_NOISE, probe(6))


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
    scorer = Scorer(probe(), TOK_OF_MODEL_NOISE, network)
    scorer.score(network)
    assert (scorer.engine.layout, "differ from single ones" in scorer.engine.fallback_reason) == (
        "rows",
        True,
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layer", [0, 7])
def test_a_mask_that_one_layer_of_eight_ignores_is_found(layer: int, dtype: torch.dtype) -> None:
    def scored(network: Any) -> Any:
        scorer = Scorer(probe(), TOK_OF_MODEL_NOISE, network)
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
    scorer = Scorer(probe(), TOK_OF_MODEL_NOISE, network)
    assert scorer.score(network).texts("outcome").tolist() == ["ok"] * 30
