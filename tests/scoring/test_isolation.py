"""State that a forward pass changes besides the weights comes back after a look, so that a training does not notice."""

import random
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from support import model, probe, tokenizer
from torch import Tensor, nn
from torch.ao.quantization import FakeQuantize, MovingAverageMinMaxObserver
from transformers import LlamaConfig, LlamaForCausalLM

from forgetwatch import compare, score
from forgetwatch.errors import ScoringError
from forgetwatch.scoring.model import isolated, maskable
from forgetwatch.scoring.scorer import Scorer

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
    expected = [
        score(model(tok), tok, probe(12, **settings)).checksum for settings in ({}, WRITTEN)
    ]
    network = model(tok)
    network.config.return_dict = False
    assert [
        score(network, tok, probe(12, **settings)).checksum for settings in ({}, WRITTEN)
    ] == expected
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
        "hooks": [
            len(module._forward_hooks) + len(module._forward_pre_hooks)
            for module in network.modules()
        ],
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
    network.config._attn_implementation = (
        "flash_attention_2"  # not installed here: it must not be called
    )

    def look() -> None:
        assert network.config._attn_implementation == "sdpa"
        network(torch.tensor([[1, 2, 3]]))
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"), maskable(network, "sdpa"):
        look()
    assert network.config._attn_implementation == "flash_attention_2"


TOK = tokenizer()
SIZES: dict[str, Any] = {
    **{"vocab_size": len(TOK), "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2},
    **{
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "pad_token_id": 0,
        "bos_token_id": 3,
        "eos_token_id": 1,
    },
}


class _Quantised(nn.Module):
    """A linear layer behind an observer, which evaluation mode does not stop."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.observer = FakeQuantize(MovingAverageMinMaxObserver, quant_min=0, quant_max=255)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.inner(self.observer(hidden))


class _Counting(nn.Module):
    """Scales its input by what it has seen: in a number, a list, a dict, a tensor that is no buffer, and a new one."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls, self.widths, self.seen = inner, 0, deque[int](maxlen=4), {"most": 0}
        self.mean = torch.zeros(())

    def forward(self, hidden: Tensor) -> Tensor:
        self.calls += 1
        self.widths.append(hidden.shape[1])
        self.seen["most"] = max(self.seen["most"], hidden.shape[1])
        self.mean = self.mean * 0.9 + hidden.detach().abs().mean() * 0.1
        if not hasattr(self, "first"):
            self.first = hidden.detach().abs().max()
        factor = 1 + self.calls / 100 + sum(self.widths) / 1000 + self.seen["most"] / 100
        return self.inner(hidden) * factor * (1 + self.mean) / (1 + self.first)


def dynamic() -> nn.Module:
    """A model whose rotary frequencies follow the longest text so far."""
    torch.manual_seed(0)
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    config = LlamaConfig(**SIZES, max_position_embeddings=16, rope_parameters=rope)
    return LlamaForCausalLM(config)


def wrapped(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    made = LlamaForCausalLM(LlamaConfig(**SIZES, max_position_embeddings=128))
    for layer in made.model.layers:
        layer.mlp.up_proj = kind(layer.mlp.up_proj)
    return made


MODELS = {
    "dynamic rotary embeddings": dynamic,
    "observers of quantisation": lambda: wrapped(_Quantised),
    "attributes": lambda: wrapped(_Counting),
}


def batches() -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(1)
    for length in (40, 12, 60, 20, 30):
        yield torch.randint(5, len(TOK), (2, length), generator=generator)


def trained(network: nn.Module, *, looks: bool) -> list[Any]:
    """Losses and weights of a few steps, with a look before each or without."""
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    scorer = Scorer(probe(8), TOK, network) if looks else None
    losses = []
    for ids in batches():
        if scorer is not None:
            scorer.score(network)
        network.train()
        loss = network(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return [*losses, *(weight.detach() for weight in network.parameters()), *network.buffers()]


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_training_with_looks_is_bitwise_the_one_without(name: str) -> None:
    alone, watched = (trained(MODELS[name](), looks=looks) for looks in (False, True))
    assert len(alone) == len(watched)
    for own, other in zip(alone, watched, strict=True):
        assert torch.equal(own, other) if isinstance(own, Tensor) else own == other


@pytest.mark.parametrize("name", sorted(MODELS))
def test_without_it_the_training_would_differ(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The three models are such that the test above can fail."""
    from contextlib import nullcontext

    monkeypatch.setattr("forgetwatch.scoring.model.kept_state", lambda network: nullcontext())
    alone, watched = (trained(MODELS[name](), looks=looks) for looks in (False, True))
    assert any(
        not torch.equal(own, other) if isinstance(own, Tensor) else own != other
        for own, other in zip(alone, watched, strict=True)
    )


def test_objects_stay_the_same_ones_and_what_a_look_adds_is_removed() -> None:
    network = model(TOK)
    network.lengths = [1, 2]
    network.table = torch.zeros(3)
    network.register_buffer("limit", torch.tensor([1.0]))
    lengths, table, limit = network.lengths, network.table, network.limit
    with isolated(network):
        network.lengths.append(3)
        network.table = torch.ones(3)
        network.limit.resize_(2).fill_(7)
        network.added = 5
        network.register_buffer("another", torch.ones(1), persistent=False)
    assert (network.lengths is lengths, network.table is table, network.limit is limit) == (
        True,
        True,
        True,
    )
    assert (lengths, table.tolist(), limit.tolist()) == ([1, 2], [0.0] * 3, [1.0])
    assert not hasattr(network, "added")
    assert "another" not in dict(network.named_buffers())


def test_a_change_of_a_large_buffer_is_logged(capfd: pytest.CaptureFixture[str]) -> None:
    network = model(TOK)
    network.register_buffer("history", torch.zeros(2**15), persistent=False)
    with isolated(network):
        pass
    assert "too large to be kept" not in capfd.readouterr().err
    with isolated(network):
        network.history[0] = 1
    assert (
        "a look changes Qwen3ForCausalLM.history, which is too large to be kept"
        in capfd.readouterr().err
    )
