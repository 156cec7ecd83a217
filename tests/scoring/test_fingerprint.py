"""The fingerprint of a model in memory: equal for equal weights, another for any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from support import model, tokenizer

from forgetwatch.scoring import loading, model_fingerprint

TOK = tokenizer()


def other_value(network: Any) -> None:
    weight = network.model.layers[1].mlp.up_proj.weight.view(-1)
    weight[77] = torch.nextafter(weight[77], weight[77] + 1)


def exchanged(network: Any) -> None:
    weight = network.model.embed_tokens.weight
    weight[[3, 4]] = weight[[4, 3]].clone()


def exchanged_layers(network: Any) -> None:
    network.model.layers[0], network.model.layers[1] = network.model.layers[1], network.model.layers[0]


def other_dtype(network: Any) -> None:
    network.to(torch.bfloat16)


def other_setting(network: Any) -> None:
    network.config.rms_norm_eps *= 2


def buffer(network: Any) -> None:
    network.register_buffer("seen", torch.ones(3))


@pytest.mark.parametrize("change", [other_value, exchanged, exchanged_layers, other_dtype, other_setting, buffer])
def test_any_change_of_the_weights_or_settings_is_another_fingerprint(change: Callable[[Any], None]) -> None:
    network = model(TOK)
    assert model_fingerprint(network) == model_fingerprint(model(TOK))
    with torch.no_grad():
        change(network)
    assert model_fingerprint(network) != model_fingerprint(model(TOK))


def test_the_name_of_a_model_does_not_count_and_neither_does_its_mode() -> None:
    network = model(TOK).eval()
    network.config._name_or_path = "elsewhere"
    assert model_fingerprint(network) == model_fingerprint(model(TOK).train())


def test_an_adapter_that_changes_nothing_is_its_base_and_a_trained_one_is_not() -> None:
    adapted = get_peft_model(model(TOK), LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"]))
    assert model_fingerprint(adapted) == model_fingerprint(model(TOK))
    with torch.no_grad():
        next(weight for name, weight in adapted.named_parameters() if "lora_B" in name)[0, 0] = 1e-3
    assert model_fingerprint(adapted) != model_fingerprint(model(TOK))
    dora = LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], use_dora=True)
    assert model_fingerprint(get_peft_model(model(TOK), dora)) != model_fingerprint(model(TOK))


def test_the_settings_of_a_trained_adapter_count() -> None:
    found = []
    for alpha in (8, 8, 16):
        settings = LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"], lora_alpha=alpha)
        torch.manual_seed(0)
        adapted = get_peft_model(model(TOK), settings)
        with torch.no_grad():
            next(weight for name, weight in adapted.named_parameters() if "lora_B" in name).fill_(1e-3)
        found.append(model_fingerprint(adapted))
    assert found[0] == found[1] != found[2]


def test_a_slice_of_a_flat_buffer_has_the_sums_of_its_copy() -> None:
    flat = torch.arange(101, dtype=torch.float32)
    assert loading._sums(flat[3:]) == loading._sums(flat[3:].clone())
