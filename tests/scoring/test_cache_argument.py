"""The name under which a model takes keys and values: read from its own signature, whatever transformers calls it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from architectures import SIZES, TOK, items, largest_error
from transformers import LlamaConfig, LlamaForCausalLM

from forgetwatch.scoring import Scorer
from forgetwatch.scoring.model import cache_argument

OWN = cache_argument(LlamaForCausalLM)
"""Name in the installed version of transformers."""


class _New(LlamaForCausalLM):  # type: ignore[misc]
    def forward(self, input_ids: Any = None, position_ids: Any = None, cache: Any = None, **rest: Any) -> Any:
        assert "past_key_values" not in rest
        return super().forward(input_ids=input_ids, position_ids=position_ids, **{OWN: cache}, **rest)


class _Old(LlamaForCausalLM):  # type: ignore[misc]
    def forward(self, input_ids: Any = None, position_ids: Any = None, past_key_values: Any = None, **rest: Any) -> Any:
        assert "cache" not in rest
        return super().forward(input_ids=input_ids, position_ids=position_ids, **{OWN: past_key_values}, **rest)


class _Unnamed(_Old):
    def forward(self, *rest: Any, position_ids: Any = None, **named: Any) -> Any:
        return super().forward(*rest, position_ids=position_ids, **named)


class _Refusing(LlamaForCausalLM):  # type: ignore[misc]
    """Its cache has a third name, as after another renaming."""

    def forward(self, input_ids: Any = None, position_ids: Any = None, cache: Any = None, **rest: Any) -> Any:
        if cache is not None:
            raise TypeError("unexpected keyword argument 'cache'")
        return super().forward(input_ids=input_ids, position_ids=position_ids, **rest)


class _Swallowing(LlamaForCausalLM):  # type: ignore[misc]
    """Takes the cache without a word and does not use it."""

    def forward(self, input_ids: Any = None, position_ids: Any = None, cache: Any = None, **rest: Any) -> Any:
        return super().forward(input_ids=input_ids, position_ids=position_ids, **rest)


class _Warning(LlamaForCausalLM):  # type: ignore[misc]
    def forward(self, input_ids: Any = None, position_ids: Any = None, cache: Any = None, **rest: Any) -> Any:
        if cache is not None:
            raise FutureWarning("cache is deprecated")
        return super().forward(input_ids=input_ids, position_ids=position_ids, **rest)


def made(kind: type[LlamaForCausalLM]) -> Any:
    torch.manual_seed(0)
    return kind(LlamaConfig(**SIZES)).eval()


@pytest.mark.parametrize(("kind", "name"), [(_New, "cache"), (_Old, "past_key_values"), (_Unnamed, "past_key_values")])
def test_a_prefix_is_shared_under_either_name(kind: Any, name: str) -> None:
    model = made(kind)
    assert cache_argument(kind) == name
    scorer = Scorer(items(), TOK, model, token_budget=128)
    assert largest_error(model, scorer) < 1e-4
    assert (scorer.engine.layout, scorer.engine.fallback_reason) == ("prefix", "")


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (_Refusing, "TypeError: unexpected keyword argument 'cache'"),
        (_Swallowing, "shared rows differ from single ones"),
        (_Warning, "FutureWarning: cache is deprecated"),
    ],
)
def test_a_lost_prefix_leaves_a_reason(kind: Any, why: str) -> None:
    model = made(kind)
    scorer = Scorer(items(), TOK, model, token_budget=128)
    assert largest_error(model, scorer) < 1e-4
    assert scorer.engine.layout == "trie"
    assert f"prefix with eager: {why}" in scorer.engine.fallback_reason.replace("sdpa", "eager")
    assert scorer.score(model).meta["why_rows"] == scorer.engine.fallback_reason
