from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from support import model, tokenizer

from forgetwatch.scoring.isolation import isolated


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002


def seed() -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)


def test_random_states_come_back() -> None:
    seed()
    expected = draws()
    seed()
    with isolated(model(tokenizer(), seed=1)):
        draws()
    seed()
    network = model(tokenizer())
    seed()
    with isolated(network):
        draws()
    assert draws() == expected


def test_each_module_gets_its_own_mode_back() -> None:
    network = model(tokenizer()).train()
    network.model.layers[0].eval()
    modes = [module.training for module in network.modules()]
    with isolated(network):
        assert not any(module.training for module in network.modules())
        assert not torch.is_grad_enabled()
    assert [module.training for module in network.modules()] == modes
    assert torch.is_grad_enabled()


def test_everything_comes_back_when_an_exception_passes() -> None:
    network = model(tokenizer()).train()
    seed()
    expected = draws()
    seed()

    def fail() -> None:
        draws()
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"), isolated(network):
        fail()
    assert draws() == expected
    assert network.training
    assert torch.is_grad_enabled()
