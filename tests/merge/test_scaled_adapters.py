"""An adapter between its base and itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from support import model, tokenizer
from transformers import AutoModelForCausalLM

from forgetwatch.errors import ScoringError
from forgetwatch.merge import ModelPair

WEIGHTS = "adapter_model.safetensors"


def save(root: Path, **options: Any) -> None:
    """Save a base and an adapter of it, with random matrices, as `a` and `b`."""
    tok = tokenizer()
    if not (root / "a").exists():
        model(tok).save_pretrained(root / "a")
        tok.save_pretrained(root / "a")
    settings = {"r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj", "down_proj"], **options}
    tuned = get_peft_model(AutoModelForCausalLM.from_pretrained(root / "a"), LoraConfig(**settings))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_" in name:
                weight.copy_(0.1 * torch.randn_like(weight))
    tuned.save_pretrained(root / "b")


def pair_of(root: Path, a: str = "a", **options: Any) -> ModelPair:
    return ModelPair(a=str(root / a), b=str(root / "b"), method="linear", alphas=(0.5,), **options)


def loaded(root: Path, folder: Path) -> dict[str, torch.Tensor]:
    """Weights of the base with an adapter merged into it."""
    base = AutoModelForCausalLM.from_pretrained(root / "a")
    weights: dict[str, torch.Tensor] = PeftModel.from_pretrained(base, folder).merge_and_unload().state_dict()
    return weights


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_rslora": True},
        {"rank_pattern": {"v_proj": 2}, "alpha_pattern": {"v_proj": 3, "layers.1.mlp.down_proj": 5}},
    ],
)
def test_a_scaled_adapter_is_the_mean_of_the_base_and_the_merged_one(tmp_path: Path, options: dict[str, Any]) -> None:
    save(tmp_path, **options)
    (tmp_path / "b" / "_forgetwatch").mkdir()  # of the run
    pair = pair_of(tmp_path, keep=tmp_path / "kept")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "a").state_dict()
    whole = loaded(tmp_path, tmp_path / "b")
    for alpha in (0.0, 0.3, 1.0):
        pair.store(alpha)
        assert not (tmp_path / "kept" / f"linear-{alpha:g}" / "_forgetwatch").exists()
        for name, value in loaded(tmp_path, tmp_path / "kept" / f"linear-{alpha:g}").items():
            if alpha in (0, 1):
                assert torch.equal(value, whole[name] if alpha else base.get(name, torch.zeros_like(value)))
            else:
                start = base.get(name, torch.zeros_like(value))
                torch.testing.assert_close(value, start + alpha * (whole[name] - start), rtol=1e-5, atol=1e-6)
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "a")
    tokens = torch.arange(12)[None]
    with torch.no_grad(), pair.at(0.3) as (scaled, _):
        merged = PeftModel.from_pretrained(merged, tmp_path / "kept" / "linear-0.3").eval()
        torch.testing.assert_close(scaled(tokens).logits, merged(tokens).logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_rslora": True, "alpha_pattern": {"v_proj": 3}},
        {"rank_pattern": {"q_proj|v_proj": 2}, "alpha_pattern": {r"^model\.layers\.1.*v_proj": 5, "v_proj|q_proj": 3}},
    ],
)
def test_the_distance_is_that_of_the_merged_adapter(tmp_path: Path, options: dict[str, Any]) -> None:
    save(tmp_path, **options)
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "a").state_dict()
    whole = loaded(tmp_path, tmp_path / "b")
    moved = sum(float((whole[name] - base[name]).double().square().sum()) for name in base)
    own = sum(float(base[name].double().square().sum()) for name in base)
    assert pair_of(tmp_path).distance().overall == pytest.approx(math.sqrt(moved / own), rel=1e-3)


def _configured(**changes: Any) -> Callable[[Path], None]:
    def configure(folder: Path) -> None:
        path = folder / "adapter_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return configure


def _with_a_module(folder: Path) -> None:
    name = "base_model.model.lm_head.weight"
    save_file({**load_file(folder / WEIGHTS), name: torch.zeros(2)}, folder / WEIGHTS)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_configured(use_dora=True), "trained with DoRA.*merge it into its base first"),
        (_configured(peft_type="IA3"), "an adapter of the kind IA3.*merge it into its base first"),
        (_configured(init_lora_weights="pissa"), "began as pissa, which changes the weights of the base"),
        (_configured(layer_replication=[[0, 1], [0, 2]]), "layer_replication changes the base.*merge it into its base"),
        (_configured(use_qalora=True), "use_qalora adds in another way than by a product.*merge it into its base"),
        (_with_a_module, r"also stores base_model\.model\.lm_head\.weight as a whole.*merge it into its base first"),
        (_configured(base_model_name_or_path="/no/such/base"), "an adapter of /no/such/base, which cannot be read"),
        (lambda folder: (folder / WEIGHTS).unlink(), "needed adapter_model.safetensors, found none"),
    ],
)
def test_an_adapter_that_follows_no_factor_is_refused(
    tmp_path: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    save(tmp_path)
    spoil(tmp_path / "b")
    with pytest.raises(ScoringError, match=reason):
        pair_of(tmp_path).check()


def test_an_adapter_of_another_base_is_refused(tmp_path: Path) -> None:
    save(tmp_path)
    tok = tokenizer()
    model(tok, seed=9).save_pretrained(tmp_path / "other")
    tok.save_pretrained(tmp_path / "other")
    with pytest.raises(ScoringError, match=r"an adapter of .*/a, and not of .*/other; give its base as A"):
        pair_of(tmp_path, "other").check()


@pytest.mark.parametrize(("side", "file"), [("A", "a/model.safetensors"), ("B", "b/adapter_model.safetensors")])
def test_a_weight_of_the_base_or_of_the_adapter_that_is_not_finite_is_named(
    tmp_path: Path, side: str, file: str
) -> None:
    save(tmp_path)
    weights = load_file(tmp_path / file)
    name = next(name for name in weights if "down_proj" in name)
    weights[name].view(-1)[:2] = torch.inf
    save_file(weights, tmp_path / file, {"format": "pt"})
    ends = ModelPair(a=str(tmp_path / "a"), b=str(tmp_path / "b"), method="linear", alphas=(0.5,))
    with pytest.raises(ScoringError) as error:
        ends.check()
    module = name.partition(".lora_")[0].removesuffix(".weight")
    assert str(error.value).startswith(f"{side} ({tmp_path / side.lower()}): tensor ")
    assert module in str(error.value).replace(".base_layer", "")
    assert " holds infinity (2 of " in str(error.value)
