"""Log-likelihoods against brute force: one row, one choice, one forward, in double precision.

Attention of shared rows: chosen by what the model computes, named in the snapshot, and tested before it is used.
"""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from architectures import SIZES, TREES, items, largest_error, network
from devices import logprobs
from support import model, probe, tokenizer
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
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as capped_attention
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as sink_attention

from forgetwatch import score
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.encoding import encode
from forgetwatch.scoring.forward import ForwardPass
from forgetwatch.scoring.head import head_in_fp32
from forgetwatch.scoring.layout import plan
from forgetwatch.scoring.model import ModelInfo, attention_of, isolated, mask_attentions
from forgetwatch.scoring.scorer import Scorer

TOK = tokenizer()
MODELS = {
    "qwen3": lambda: model(TOK),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SIZES)),
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(TOK),
            n_embd=32,
            n_layer=2,
            n_head=2,
            n_positions=64,
            bos_token_id=3,
            eos_token_id=1,
        )
    ),
    "mistral, window 4": lambda: MistralForCausalLM(MistralConfig(**SIZES, sliding_window=4)),
    "gemma3, window 4": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(**SIZES, head_dim=16, sliding_window=4)
    ),
}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_log_likelihoods_are_those_of_one_row_per_choice(name: str) -> None:
    torch.manual_seed(0)
    network = MODELS[name]().eval()
    assert largest_error(network, Scorer(probe(20), TOK, network)) < 1e-4


class _Patched(LlamaForCausalLM):  # type: ignore[misc]
    """A model whose output something has replaced."""

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        use_cache: Any = None,
        **kwargs: Any,
    ) -> Any:
        shape = (*input_ids.shape, self.config.vocab_size)
        made = {
            "hidden states": torch.zeros(*input_ids.shape, 32),
            "short": torch.zeros(shape)[:, :0],
            "none": None,
        }
        return SimpleNamespace(logits=made[self.kind])


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("hidden states", r"logits of shape .* 32\), needed 137 numbers"),
        ("short", "logits of shape"),
        ("none", "returned no logits"),
    ],
)
def test_outputs_that_are_not_logits_over_the_vocabulary_are_refused(kind: str, says: str) -> None:
    network = _Patched(LlamaConfig(**SIZES))
    network.kind = kind
    with pytest.raises(ScoringError, match=says):
        score(network, TOK, probe())


def test_a_model_without_a_language_head_is_refused() -> None:
    with pytest.raises(
        ScoringError,
        match=r"logits of shape .*needed a causal language model with its language head",
    ):
        score(LlamaForSequenceClassification(LlamaConfig(**SIZES)), TOK, probe())
    with pytest.raises(ScoringError, match="needed a causal language model"):
        score(nn.Linear(2, 2), TOK, probe())


def test_log_likelihoods_of_half_precision_are_summed_in_full_precision() -> None:
    network = model(TOK).to(torch.bfloat16)
    rows = score(network, TOK, probe()).table["choice_logprobs"].to_pylist()
    values = np.array([value for row in rows for value in row])
    assert np.mean(values == torch.tensor(values).to(torch.bfloat16).double().numpy()) < 0.1


def test_the_head_computes_in_full_precision_and_is_restored() -> None:
    network = model(TOK).to(torch.bfloat16).eval()
    hidden = torch.randn(3, 32).to(torch.bfloat16)
    with head_in_fp32(network), torch.no_grad():
        logits = network.lm_head(hidden)
    expected = hidden.float() @ network.lm_head.weight.float().T
    assert logits.dtype == torch.float32
    assert torch.allclose(logits, expected, atol=1e-6)
    assert "forward" not in vars(network.lm_head)
    assert network.lm_head(hidden).dtype == torch.bfloat16


def test_the_head_multiplies_batches_where_only_matrices_are_summed_in_full_precision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def product(left: torch.Tensor, right: torch.Tensor, *, out_dtype: torch.dtype) -> torch.Tensor:
        assert (left.ndim, right.ndim) == (
            2,
            2,
        )  # as torch.mm of a CUDA device, which alone takes out_dtype
        return left.to(out_dtype) @ right.to(out_dtype)

    network = model(TOK).to(torch.bfloat16).eval()
    layouts: tuple[Literal["rows"] | None, ...] = ("rows", None)
    plain = [
        logprobs(Scorer(probe(), TOK, network, layout=layout).score(network)) for layout in layouts
    ]
    monkeypatch.setattr("forgetwatch.scoring.head._is_summed_in_fp32", lambda hidden, weight: True)
    monkeypatch.setattr(torch, "mm", product)
    summed = [
        logprobs(Scorer(probe(), TOK, network, layout=layout).score(network)) for layout in layouts
    ]
    assert np.concatenate(summed) == pytest.approx(np.concatenate(plain), abs=1e-4)
    network.lm_head.bias = nn.Parameter(
        torch.ones(len(network.lm_head.weight), dtype=torch.bfloat16)
    )
    hidden = torch.randn(2, 3, 32).to(torch.bfloat16)
    with head_in_fp32(network), torch.no_grad():
        logits = network.lm_head(hidden)
    assert torch.allclose(logits, hidden.float() @ network.lm_head.weight.float().T + 1, atol=1e-5)


@pytest.mark.parametrize(
    "options", [{"target_modules": ["lm_head"]}, {"modules_to_save": ["lm_head"]}]
)
def test_a_head_with_an_adapter_or_a_trained_copy_computes_in_full_precision_too(
    options: dict[str, Any],
) -> None:
    peft = pytest.importorskip("peft")
    adapted = peft.get_peft_model(
        model(TOK),
        peft.LoraConfig(r=2, **{"target_modules": ["q_proj"], **options}, init_lora_weights=False),
    )
    adapted = adapted.to(torch.bfloat16).eval()
    head, hidden = (
        adapted.get_base_model().get_output_embeddings(),
        torch.randn(3, 32).to(torch.bfloat16),
    )
    with head_in_fp32(adapted), torch.no_grad():
        logits = head(hidden)
    with torch.no_grad():
        expected = adapted.float().get_base_model().get_output_embeddings()(hidden.float())
    assert torch.allclose(logits, expected, atol=1e-5)
    assert logits.dtype == torch.float32
    assert not any("forward" in vars(part) for part in adapted.modules())


def test_choices_in_half_precision_are_those_of_full_precision_on_the_same_weights() -> None:
    half = model(TOK, dropout=0.0).to(torch.bfloat16)
    full = model(TOK, dropout=0.0)
    full.load_state_dict({name: weight.float() for name, weight in half.state_dict().items()})
    items = probe(60, norm="sum")
    one, other = score(half, TOK, items), score(full, TOK, items)
    changed = one.ints("chosen") != other.ints("chosen")
    assert not (changed & (other.floats("margin") > 0.05)).any()
    assert len(set(one.floats("margin").tolist())) == len(items)  # no steps, no ties


class _Small(LlamaForCausalLM):  # type: ignore[misc]
    """A model for which the memory suffices for a few tokens, or for none."""

    tokens = 88

    def forward(self, input_ids: Any = None, position_ids: Any = None, **kwargs: Any) -> Any:
        if input_ids.numel() > self.tokens:
            raise torch.OutOfMemoryError("out of memory")
        return super().forward(input_ids=input_ids, position_ids=position_ids, **kwargs)


def test_a_batch_that_does_not_fit_into_memory_is_halved_and_tried_again() -> None:
    torch.manual_seed(0)
    network = _Small(LlamaConfig(**SIZES)).eval()
    items = probe(20)
    snapshot = score(network, TOK, items)
    assert snapshot.meta["batch"]["halved"] > 0
    network.tokens = 10_000
    wide = score(network, TOK, items)
    assert wide.meta["batch"]["halved"] == 0
    one, other = (np.concatenate(s.table["choice_logprobs"].to_pylist()) for s in (snapshot, wide))
    assert one == pytest.approx(other, abs=1e-5)
    network.tokens = 0
    with pytest.raises(ScoringError, match="out of memory"):
        score(network, TOK, items)


def test_no_batch_is_halved_where_processes_must_make_the_same_calls() -> None:
    network = _Small(LlamaConfig(**SIZES)).eval()
    items = probe(20)
    encoded = encode(items, TOK, max_length=64)
    batches = plan([item.content_hash for item in items], encoded, token_budget=8192)
    with pytest.raises(torch.OutOfMemoryError):
        ForwardPass(ModelInfo.of(network), together=True).score(
            network, batches, encoded, layout="rows"
        )


def causal_only(own: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel like flash attention: right for causal rows, and ignorant of other masks.

    Args:
        own: Attention of the model itself, which takes an additive mask.
    """

    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        assert mask is None or mask.ndim == 2, "flash kernels take causal rows"
        width, lowest = query.shape[2], torch.finfo(query.dtype).min
        position = torch.arange(width)
        seen = position[:, None] >= position[None, :]
        if window := options.get("sliding_window"):
            seen = seen & (position[:, None] - position[None, :] < window)
        seen = (
            seen[None, None] if mask is None else seen[None, None] & mask[:, None, None, :].bool()
        )
        return own(module, query, key, value, torch.where(seen, 0.0, lowest), **options)

    return attend


@pytest.fixture
def register() -> Iterator[Callable[[str, Callable[..., Any]], None]]:
    before = dict(ALL_ATTENTION_FUNCTIONS._global_mapping)
    yield ALL_ATTENTION_FUNCTIONS.register
    ALL_ATTENTION_FUNCTIONS._global_mapping.clear()
    ALL_ATTENTION_FUNCTIONS._global_mapping.update(before)


def with_kernel(kind: str, name: str) -> Any:
    options = {**TREES[kind], **({"attn_logit_softcapping": 2.0} if kind == "gemma2" else {})}
    made = network(kind, options)
    for layer in made.model.layers:
        if hasattr(layer.self_attn, "sinks"):
            torch.nn.init.normal_(layer.self_attn.sinks, std=2.0)
    made.config._attn_implementation = name
    return made


@pytest.mark.parametrize(
    ("kind", "own"), [("gemma2", capped_attention), ("gpt_oss", sink_attention)]
)
def test_soft_caps_and_sinks_share_rows_where_a_flash_kernel_trains(
    kind: str,
    own: Callable[..., Any],
    register: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    register("flash_stand_in", causal_only(own))
    # No mask of its own is known for the stand-in, as for a flash kernel.
    model = with_kernel(kind, "flash_stand_in")
    for budget, layout in ((1024, "trie"), (128, "prefix")):
        scorer = Scorer(items(), TOK, model, token_budget=budget)
        snapshot = scorer.score(model)
        assert (scorer.engine.layout, scorer.engine.fallback_reason) == (layout, "")
        assert snapshot.meta["attention"] == "eager"
        assert attention_of(model) == "flash_stand_in"
        # Exactly what the model's own code gives, one row for each choice.
        model.config._attn_implementation = "eager"
        assert (
            largest_error(model, Scorer(items(), TOK, model, layout=layout, token_budget=budget))
            < 1e-4
        )  # type: ignore[arg-type]
        expected = Scorer(items(), TOK, model, layout="rows").score(model)
        model.config._attn_implementation = "flash_stand_in"
        for row, same in zip(
            *(one.table["choice_logprobs"].to_pylist() for one in (snapshot, expected)), strict=True
        ):
            assert row == pytest.approx(same, abs=1e-4)


def test_the_snapshot_names_the_attention() -> None:
    model = network("llama", {}, "sdpa")
    assert Scorer(items(), TOK, model).score(model).meta["attention"] == "sdpa"
    assert Scorer(items(), TOK, model, layout="rows").score(model).meta["attention"] == "sdpa"
    model = network("llama", {})
    assert Scorer(items(), TOK, model).score(model).meta["attention"] == "eager"


@pytest.mark.parametrize("layout", [None, "trie"])
def test_eager_attention_reads_smaller_batches(
    layout: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stores a score for each pair of tokens; with the batches of other kernels it would not fit into memory."""
    monkeypatch.setattr("forgetwatch.scoring.engine._EAGER_TOKENS", 100)
    for attention in ("eager", "sdpa"):
        model = network("llama", {}, attention)
        scorer = Scorer(items(), TOK, model, token_budget=16384, layout=layout)
        assert scorer.score(model).meta["batch"]["tokens"] == 16384
        several = [batch.tokens for batch in scorer.engine._batches if len(batch.rows) > 1]
        assert (max(several, default=0) <= 100) is (attention == "eager")


class NoBooleans(LlamaForCausalLM):  # type: ignore[misc]
    """Refuses boolean masks, which sdpa is given."""

    def forward(
        self,
        input_ids: Any = None,
        attention_mask: Any = None,
        position_ids: Any = None,
        **rest: Any,
    ) -> Any:
        if attention_mask is not None and attention_mask.dtype == torch.bool:
            raise ValueError("needed an additive mask")
        return super().forward(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **rest
        )


def test_eager_is_tried_where_sdpa_raises() -> None:
    model = network("llama", {}, "sdpa")
    model.__class__ = NoBooleans
    scorer = Scorer(items(), TOK, model)
    assert largest_error(model, scorer) < 1e-4
    assert (scorer.engine.layout, scorer.engine.attention) == ("trie", "eager")
    assert "trie with sdpa: ValueError: needed an additive mask" in scorer.engine.fallback_reason
    assert attention_of(model) == "sdpa"


def test_eager_is_tried_where_sdpa_is_wrong(register: Callable[..., None]) -> None:
    def deaf(module: Any, query: Any, key: Any, value: Any, mask: Any, **options: Any) -> Any:
        tree = mask is not None and not bool(mask[:, :, -1].all(-1).any())
        return sdpa_attention_forward(module, query, key, value, None if tree else mask, **options)

    register("sdpa", deaf)
    model = network("llama", {}, "sdpa")
    scorer = Scorer(items(), TOK, model)
    assert largest_error(model, scorer) < 1e-4
    assert (scorer.engine.layout, scorer.engine.attention) == ("trie", "eager")
    assert scorer.engine.fallback_reason.startswith("trie with sdpa: ")


def test_a_later_engine_keeps_the_attention() -> None:
    model = network("llama", {}, "sdpa")
    scorer = Scorer(items(), TOK, model, layout="trie", attention="eager", noise=0.0)
    assert scorer.score(model).meta["attention"] == "eager"
    expected = network("llama", {})
    assert (
        scorer.score(model).checksum
        == Scorer(items(), TOK, expected, layout="trie").score(expected).checksum
    )


def test_flex_attention_is_not_compiled_for_a_look(register: Callable[..., None]) -> None:
    def compiled(*_: Any, **__: Any) -> Any:
        raise AssertionError("a look compiles nothing")

    register("flex_attention", compiled)
    for kind, attention in (("llama", "sdpa"), ("gpt_oss", "eager")):
        model = with_kernel(kind, "flex_attention")
        assert mask_attentions(model)[0] == attention
        scorer = Scorer(items(), TOK, model)
        assert scorer.score(model).meta["attention"] == attention
        assert scorer.engine.layout == "trie"
        with isolated(model):
            assert attention_of(model) == attention
        assert attention_of(model) == "flex_attention"
