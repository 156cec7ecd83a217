"""What a run with adapters begins with: each kind made now, or trained, and the baseline by a plain forward pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
from support import model, probe, tokenizer
from torch import nn

from forgetwatch import Watch
from forgetwatch.scoring.adapters import adapter_start
from forgetwatch.scoring.weights_identity import model_fingerprint

pytestmark = pytest.mark.usefixtures("without_pictures")

TOK = tokenizer()
LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}
ON_ALL: dict[str, Any] = {"target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


def adapted(config: Any) -> Callable[[Any], Any]:
    return lambda base: peft.get_peft_model(base, config)


def lora(**options: Any) -> Callable[[Any], Any]:
    return adapted(peft.LoraConfig(**{**LORA, **options}))


def moved(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a maker of adapters whose weights have all moved."""

    def made(base: Any) -> nn.Module:
        network: nn.Module = make(base)
        for weight in network.parameters():
            if weight.requires_grad:
                nn.init.normal_(weight, std=0.3)
        return network

    return made


def loaded(folder: Path, base: Any) -> nn.Module:
    """Save an adapter that starts at random, and load it to train it further."""
    peft.get_peft_model(
        copy.deepcopy(base), peft.LoraConfig(init_lora_weights=False, **LORA)
    ).save_pretrained(folder)
    return peft.PeftModel.from_pretrained(base, folder, is_trainable=True)


PROMPTS = {"task_type": "CAUSAL_LM", "num_virtual_tokens": 4}
EMBEDDED = {"target_modules": ["q_proj", "embed_tokens"]}
SPLIT = "the model with its adapter: {} takes it out of the base's weights"
OFF = "with its adapter ({}) switched off; if it was trained before, lineage=..."
CHANGES = "the model with its adapter ({}), which changes its outputs before step 1"

KINDS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "plain": (lora(), ""),
    "gaussian": (lora(init_lora_weights="gaussian"), ""),
    "orthogonal": (lora(init_lora_weights="orthogonal"), ""),
    "embedded": (lora(**EMBEDDED), ""),
    "copied": (lora(modules_to_save=["lm_head"]), ""),
    "dora": (lora(use_dora=True), ""),
    "adalora": (
        adapted(peft.AdaLoraConfig(total_step=10, **{**ON_ALL, "init_r": 4, "target_r": 2})),
        "",
    ),
    "ia3": (adapted(peft.IA3Config(feedforward_modules=[], **ON_ALL)), ""),
    "loha": (adapted(peft.LoHaConfig(r=4, **ON_ALL)), ""),
    "vera": (adapted(peft.VeraConfig(r=4, **ON_ALL)), ""),
    "oft": (adapted(peft.OFTConfig(oft_block_size=4, **ON_ALL)), ""),
    "tokens": (
        adapted(peft.TrainableTokensConfig(token_indices=[3, 9], task_type="CAUSAL_LM")),
        "",
    ),
    "prompt": (adapted(peft.PromptTuningConfig(**PROMPTS)), OFF.format("PROMPT_TUNING")),
    "prefix": (adapted(peft.PrefixTuningConfig(**PROMPTS)), OFF.format("PREFIX_TUNING")),
    "random": (lora(init_lora_weights=False), OFF.format("LORA")),
    "c3a": (adapted(peft.C3AConfig(block_size=4, **ON_ALL)), OFF.format("C3A")),
    "fourier": (
        adapted(peft.FourierFTConfig(n_frequency=50, scaling=150.0, **ON_ALL)),
        OFF.format("FOURIERFT"),
    ),
    "pissa": (lora(init_lora_weights="pissa"), SPLIT.format("pissa")),
    "olora": (lora(init_lora_weights="olora"), SPLIT.format("olora")),
    "trained": (moved(lora()), CHANGES.format("LORA")),
    "trained embedding": (moved(lora(**EMBEDDED)), CHANGES.format("LORA")),
    "trained dora": (moved(lora(use_dora=True)), CHANGES.format("LORA")),
    "trained ia3": (
        moved(adapted(peft.IA3Config(feedforward_modules=[], **ON_ALL))),
        CHANGES.format("IA3"),
    ),
}
"""How each kind is made, and what a run says of its start."""


def by_forward(network: Any) -> list[list[float]]:
    """Return the log-likelihood of each option by one plain forward pass a text."""
    network.eval()
    found = []
    for item in probe():
        question = TOK(str(item.prompt))["input_ids"]
        sums = []
        for choice in item.choices:
            ids = TOK(str(item.prompt) + choice)["input_ids"]
            with torch.no_grad():
                logits = (
                    network(input_ids=torch.tensor([ids]))
                    .logits[0, -len(ids) :]
                    .float()
                    .log_softmax(-1)
                )
            sums.append(
                sum(float(logits[at - 1, ids[at]]) for at in range(len(question), len(ids)))
            )
        found.append(sums)
    return found


@pytest.mark.filterwarnings(
    "ignore:`past_key_values` is deprecated:FutureWarning"
)  # by PEFT, of transformers
@pytest.mark.parametrize("kind", KINDS)
def test_the_baseline_is_the_model_that_is_named(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make, said = KINDS[kind]
    base = model(TOK)
    own = by_forward(base)
    torch.manual_seed(0)
    network = make(copy.deepcopy(base))
    trainable = [weight.requires_grad for weight in network.parameters()]
    watch = Watch(probe(), tmp_path)
    watch.look(network, TOK, step=0)
    line = capsys.readouterr().err
    assert said in line if said else "its adapter" not in line
    assert [weight.requires_grad for weight in network.parameters()] == trainable
    start = watch.run.baseline
    assert start is not None
    now = by_forward(network)
    is_off = adapter_start(network).is_off
    assert ("switched off" in line) == is_off
    for found, with_it, without in zip(
        start.table["choice_logprobs"].to_pylist(), now, own, strict=True
    ):
        assert found == pytest.approx(without if is_off else with_it, abs=1e-4)
    is_base = now == [pytest.approx(one, abs=1e-4) for one in own]
    assert is_base == (said == "" or "takes it out" in said)
    # The cache and the lineage know a base under an adapter that changes nothing.
    assert (model_fingerprint(network) == model_fingerprint(base)) == (said == "")


def test_an_embedding_of_one_token_is_a_change() -> None:
    network = moved(adapted(peft.TrainableTokensConfig(token_indices=[7], task_type="CAUSAL_LM")))(
        model(TOK)
    )
    assert "which changes its outputs" in adapter_start(network).line
    assert model_fingerprint(network) != model_fingerprint(model(TOK))


def test_an_adapter_that_an_earlier_training_left_stays_on(tmp_path: Path) -> None:
    network = loaded(tmp_path, model(TOK))
    assert adapter_start(network).is_off
    for kind in ("LORA", ""):
        start = adapter_start(network, continued=kind)
        assert not start.is_off
        assert "which the earlier training left" in start.line
    assert adapter_start(network, continued="FOURIERFT").is_off


def test_a_model_without_adapters_has_no_line() -> None:
    assert adapter_start(model(TOK)).line == ""
