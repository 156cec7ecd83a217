from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from support import model, probe, tokenizer

from forgetwatch import compare, score
from forgetwatch.errors import ScoringError
from forgetwatch.scoring import isolated, maskable

WRITTEN: dict[str, Any] = {"scoring": "generate", "decoding": {"tokens": 4}}


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002


def seed() -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)


def test_each_module_gets_its_own_mode_back() -> None:
    network = model(tokenizer()).train()
    network.model.layers[0].eval()
    modes = [module.training for module in network.modules()]
    with isolated(network):
        assert not any(module.training for module in network.modules())
        assert not torch.is_grad_enabled()
    assert [module.training for module in network.modules()] == modes
    assert torch.is_grad_enabled()


def test_a_model_that_returns_tuples_has_the_scores_of_one_that_names_its_outputs() -> None:
    tok = tokenizer()
    expected = [score(model(tok), tok, probe(12, **settings)).checksum for settings in ({}, WRITTEN)]
    network = model(tok)
    network.config.return_dict = False
    assert [score(network, tok, probe(12, **settings)).checksum for settings in ({}, WRITTEN)] == expected
    assert network.config.return_dict is False


def test_a_snapshot_names_the_autocast_that_it_was_scored_under() -> None:
    tok = tokenizer()
    before = score(model(tok), tok, probe())
    with torch.autocast("cpu", torch.bfloat16):
        after = score(model(tok), tok, probe())
    assert (before.meta["autocast"], after.meta["autocast"]) == (None, "bfloat16")
    assert any("autocast differs" in note for note in compare(before=before, after=after).notes)


@pytest.mark.parametrize("fails", [False, True])
def test_random_states_and_modes_come_back_also_when_an_exception_passes(fails: bool) -> None:
    network = model(tokenizer()).train()
    seed()
    expected = draws()
    seed()

    def act() -> None:
        draws()
        if fails:
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom") if fails else nullcontext(), isolated(network):
        act()
    assert draws() == expected
    assert network.training
    assert torch.is_grad_enabled()


def state(network: Any, tok: Any) -> dict[str, Any]:
    """Whatever scoring could leave changed."""
    return {
        "modes": [module.training for module in network.modules()],
        "grad": torch.is_grad_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "dtype": torch.get_default_dtype(),
        "attention": network.config._attn_implementation,
        "config": network.config.to_dict(),
        "generation": network.generation_config.to_dict(),
        "padding": (tok.padding_side, tok.truncation_side),
        "hooks": [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in network.modules()],
        "patched": [name for name, module in network.named_modules() if "forward" in vars(module)],
        "gradients": [parameter.grad for parameter in network.parameters()],
        "requires": [parameter.requires_grad for parameter in network.parameters()],
        "weights": [parameter.detach().clone() for parameter in network.parameters()],
        "draws": (random.getstate(), torch.get_rng_state().tolist()),
    }


@pytest.mark.parametrize("fails", [False, True])
def test_a_score_leaves_nothing_changed(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tok = tokenizer()
    network = model(tok).train()
    network.model.layers[1].eval()
    tok.padding_side = "left"
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = state(network, tok)
        if fails:
            network.lm_head.register_forward_hook(lambda *_: torch.full((1,), float("nan")))
            before = state(network, tok)
            with pytest.raises(ScoringError):
                score(network, tok, probe())
        else:
            score(network, tok, probe())
        after = state(network, tok)
    weights, again = before.pop("weights"), after.pop("weights")
    assert before == after
    assert all(torch.equal(one, other) for one, other in zip(weights, again, strict=True))


def test_an_attention_without_masks_is_replaced_during_the_look() -> None:
    network = model(tokenizer())
    network.config._attn_implementation = "flash_attention_2"  # not installed here: it must not be called

    def look() -> None:
        assert network.config._attn_implementation == "sdpa"
        network(torch.tensor([[1, 2, 3]]))
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"), maskable(network, "sdpa"):
        look()
    assert network.config._attn_implementation == "flash_attention_2"
