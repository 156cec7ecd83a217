"""What the baseline of a run with adapters is: the base, whatever the adapter itself changes before the first step."""

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

from forgetwatch import Watch, score
from forgetwatch.run import adapter_start

LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


def trained(base: Any) -> nn.Module:
    made = peft.get_peft_model(base, peft.LoraConfig(**LORA))
    for name, weight in made.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weight)
    return made


MAKE: dict[str, Callable[[Any], Any]] = {
    "prompt": lambda base: peft.get_peft_model(base, peft.PromptTuningConfig("CAUSAL_LM", num_virtual_tokens=4)),
    "prefix": lambda base: peft.get_peft_model(base, peft.PrefixTuningConfig("CAUSAL_LM", num_virtual_tokens=4)),
    "random": lambda base: peft.get_peft_model(base, peft.LoraConfig(init_lora_weights=False, **LORA)),
    "pissa": lambda base: peft.get_peft_model(base, peft.LoraConfig(init_lora_weights="pissa", **LORA)),
    "olora": lambda base: peft.get_peft_model(base, peft.LoraConfig(init_lora_weights="olora", **LORA)),
    "plain": lambda base: peft.get_peft_model(base, peft.LoraConfig(**LORA)),
    "trained": trained,
}
SAID = {
    "prompt": "with its adapter (PROMPT_TUNING) switched off",
    "prefix": "with its adapter (PREFIX_TUNING) switched off",
    "random": "with its adapter (LORA) switched off",
    "pissa": "the model with its adapter: pissa takes it out of the base's weights",
    "olora": "the model with its adapter: olora takes it out of the base's weights",
    "plain": "",
    "trained": "the model with its adapter, which was trained before",
}


@pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning")  # by PEFT, of transformers
@pytest.mark.parametrize("kind", MAKE)
def test_the_baseline_is_the_base(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tok = tokenizer()
    base = model(tok)
    own = score(base, tok, probe()).table["choice_logprobs"].to_pylist()
    torch.manual_seed(0)
    adapted = MAKE[kind](copy.deepcopy(base))
    watch = Watch(probe(), tmp_path)
    watch.look(adapted, tok, step=0)
    assert watch.run.baseline is not None
    found = watch.run.baseline.table["choice_logprobs"].to_pylist()
    is_base = all(one == pytest.approx(other, abs=1e-4) for one, other in zip(found, own, strict=True))
    assert is_base == (kind != "trained")
    said = capsys.readouterr().err
    assert SAID[kind] in said
    assert ("before step 1" in said) == adapter_start(adapted).is_off
    # A later look measures the model with its adapter.
    again = score(adapted, tok, probe()).table["choice_logprobs"].to_pylist()
    unlike = sum(one != pytest.approx(other, abs=1e-4) for one, other in zip(again, own, strict=True))
    assert (unlike > 0) == (kind in ("prompt", "prefix", "random", "trained"))


def test_a_model_without_adapters_has_no_line() -> None:
    assert adapter_start(model(tokenizer())).line == ""
