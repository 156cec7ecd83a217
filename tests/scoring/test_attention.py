"""Attention of shared rows: chosen by what the model computes, named in the snapshot, and tested before it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from architectures import TOK, TREES, items, largest_error, network
from transformers import LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward as capped_attention
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as sink_attention

from forgetwatch.scoring import Scorer, attention_of, isolated, mask_attentions


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
        seen = seen[None, None] if mask is None else seen[None, None] & mask[:, None, None, :].bool()
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


@pytest.mark.parametrize(("kind", "own"), [("gemma2", capped_attention), ("gpt_oss", sink_attention)])
def test_soft_caps_and_sinks_share_rows_where_a_flash_kernel_trains(
    kind: str, own: Callable[..., Any], register: Callable[..., None], monkeypatch: pytest.MonkeyPatch
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
        assert largest_error(model, Scorer(items(), TOK, model, layout=layout, token_budget=budget)) < 1e-4  # type: ignore[arg-type]
        expected = Scorer(items(), TOK, model, layout="rows").score(model)
        model.config._attn_implementation = "flash_stand_in"
        for row, same in zip(*(one.table["choice_logprobs"].to_pylist() for one in (snapshot, expected)), strict=True):
            assert row == pytest.approx(same, abs=1e-4)


def test_the_snapshot_names_the_attention() -> None:
    model = network("llama", {}, "sdpa")
    assert Scorer(items(), TOK, model).score(model).meta["attention"] == "sdpa"
    assert Scorer(items(), TOK, model, layout="rows").score(model).meta["attention"] == "sdpa"
    model = network("llama", {})
    assert Scorer(items(), TOK, model).score(model).meta["attention"] == "eager"


@pytest.mark.parametrize("layout", [None, "trie"])
def test_eager_attention_reads_smaller_batches(layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def forward(self, input_ids: Any = None, attention_mask: Any = None, position_ids: Any = None, **rest: Any) -> Any:
        if attention_mask is not None and attention_mask.dtype == torch.bool:
            raise ValueError("needed an additive mask")
        return super().forward(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, **rest)


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
    assert scorer.score(model).checksum == Scorer(items(), TOK, expected, layout="trie").score(expected).checksum


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
