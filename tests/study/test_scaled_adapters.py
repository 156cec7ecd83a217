"""An adapter between its base and itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from support import model, tokenizer
from transformers import AutoModelForCausalLM

from forgetwatch.errors import ScoringError
from forgetwatch.study.merging import (
    WEIGHTS,
    AdapterPlan,
    ModelPair,
    adapter_squares,
    file_tensors,
    plan_adapter,
    write_scaled,
)


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
    plan = plan_adapter(str(tmp_path / "a"), str(tmp_path / "b"))
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "a").state_dict()
    whole = loaded(tmp_path, tmp_path / "b")
    for alpha in (0.0, 0.3, 1.0):
        write_scaled(plan, tmp_path / f"{alpha}", alpha=alpha)
        for name, value in loaded(tmp_path, tmp_path / f"{alpha}").items():
            if alpha in (0, 1):
                assert torch.equal(value, whole[name] if alpha else base.get(name, torch.zeros_like(value)))
            else:
                start = base.get(name, torch.zeros_like(value))
                torch.testing.assert_close(value, start + alpha * (whole[name] - start), rtol=1e-5, atol=1e-6)


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
    squares = adapter_squares(plan_adapter(str(tmp_path / "a"), str(tmp_path / "b")))
    moved = {name for name in base if not torch.equal(base[name], whole[name])}
    assert squares.keys() == moved
    for name, value in squares.items():
        assert value == pytest.approx(float((whole[name] - base[name]).double().square().sum()), rel=1e-3)


def test_the_distance_of_an_adapted_convolution_is_that_of_its_kernel(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first, second = torch.randn(2, 3, 4), torch.randn(5, 2, 1)
    start = "base_model.model.layers.0.conv1d.lora_"
    save_file({f"{start}A.weight": first, f"{start}B.weight": second}, tmp_path / WEIGHTS)
    plan = AdapterPlan(
        folder=tmp_path, config={"r": 2, "lora_alpha": 6}, tensors=file_tensors(tmp_path / WEIGHTS), base={}
    )
    kernel = 3 * torch.einsum("orx,rik->oik", second.double(), first.double())
    assert adapter_squares(plan) == {"layers.0.conv1d.weight": pytest.approx(float(kernel.square().sum()))}


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
        plan_adapter(str(tmp_path / "a"), str(tmp_path / "b"))


def test_an_adapter_of_another_base_is_refused(tmp_path: Path) -> None:
    save(tmp_path)
    tok = tokenizer()
    model(tok, seed=9).save_pretrained(tmp_path / "other")
    tok.save_pretrained(tmp_path / "other")
    with pytest.raises(ScoringError, match=r"an adapter of .*/a, and not of .*/other; give its base as A"):
        plan_adapter(str(tmp_path / "other"), str(tmp_path / "b"))


def test_a_base_without_safetensors_is_refused_before_it_is_scored(tmp_path: Path) -> None:
    save(tmp_path)
    (tmp_path / "a" / "model.safetensors").rename(tmp_path / "a" / "pytorch_model.bin")
    path = tmp_path / "b" / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "base_model_name_or_path": str(tmp_path / "a")}))
    with pytest.raises(ScoringError, match=r"/a: needed safetensors, .* it has \.bin files"):
        plan_adapter(str(tmp_path / "a"), str(tmp_path / "b"))


def test_the_distance_is_unknown_where_the_base_has_no_weights_that_can_be_measured(tmp_path: Path) -> None:
    save(tmp_path)
    ends = ModelPair(a=str(tmp_path / "a"), b=str(tmp_path / "b"), method="linear", alphas=(0.5,))
    found = ends.distance()
    assert found.overall > 0
    name = "model.layers.1.mlp.down_proj.weight"
    ends = ModelPair(a=str(tmp_path / "a"), b=str(tmp_path / "b"), method="linear", alphas=(0.5,))
    ends.plan.base[name] = replace(ends.plan.base[name], dtype="U8")  # as quantized weights are stored
    unknown = ends.distance()
    assert math.isnan(unknown.overall)
    assert math.isnan(unknown.layers["model.layers.1"])
    assert unknown.layers["model.layers.0"] == found.layers["model.layers.0"]


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
    assert str(error.value).startswith(f"{side} ({tmp_path / side.lower()}): tensor {name} holds infinity (2 of ")
