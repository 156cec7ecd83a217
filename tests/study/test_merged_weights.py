"""Weights between two checkpoints: the arithmetic, what is stored, and what is refused before anything is written."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support import model, tokenizer
from transformers import AutoModelForCausalLM

from forgetwatch.errors import ScoringError
from forgetwatch.study.merging import (
    INDEX,
    SINGLE,
    Method,
    Pair,
    WeightDistance,
    checkpoints,
    chunks,
    geometry_of,
    plan_merge,
    stored_tensors,
    write_merged,
)

Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the models `a` and `b`: equal norms, weights near enough for lines and far enough for arcs."""
    root = tmp_path_factory.mktemp("ends")
    tok = tokenizer()
    for name, seed in (("a", 0), ("b", 1)):
        network = model(tok, seed=0)
        if seed:
            torch.manual_seed(seed)
            with torch.no_grad():
                for weight in network.parameters():
                    weight.add_(0.02 * torch.randn_like(weight))
        network.save_pretrained(root / name)
        tok.save_pretrained(root / name)
    return root


@pytest.fixture
def ends(two: Path, tmp_path: Path) -> Path:
    """A copy of the models, to change."""
    return Path(shutil.copytree(two, tmp_path / "ends"))


def write(root: Path, alpha: float, method: Method = "linear") -> Path:
    plan = plan_merge(str(root / "a"), str(root / "b"))
    folder = root / f"{method}-{alpha:g}"
    shutil.rmtree(folder, ignore_errors=True)
    write_merged(plan, folder, alpha=alpha, method=method, geometry=geometry_of(plan))
    return folder


def weights(folder: Path) -> Weights:
    found: Weights = {}
    for file in folder.glob("*.safetensors"):
        found |= load_file(file)
    return found


def change(folder: Path, function: Callable[[Weights], Weights]) -> None:
    save_file(function(load_file(folder / SINGLE)), folder / SINGLE, {"format": "pt"})


def _configured(*names: str, **changes: Any) -> Callable[[Path], None]:
    """Function that changes the configurations of models."""

    def configure(root: Path) -> None:
        for name in names:
            path = root / name / "config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return configure


@pytest.mark.parametrize("method", ["linear", "slerp"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_ends_are_bitwise_the_two_models(ends: Path, method: Method, dtype: torch.dtype) -> None:
    for name, sign in (("a", -1), ("b", 1)):
        # A sum with 0 times the other end turns -0.0 into 0.0.
        zeros = sign * torch.tensor([0.0, -0.0] * 16)
        change(ends / name, lambda found: {**found, "model.norm.weight": zeros})  # noqa: B023  # called at once
        change(ends / name, lambda found: {key: value.to(dtype) for key, value in found.items()})
    for alpha, name in ((0.0, "a"), (1.0, "b")):
        merged, end = weights(write(ends, alpha, method)), weights(ends / name)
        assert merged.keys() == end.keys()
        for key, value in merged.items():
            assert value.dtype == dtype
            assert torch.equal(value.view(torch.uint8), end[key].view(torch.uint8))


def test_linear_is_the_weighted_mean_and_equal_weights_stay(ends: Path) -> None:
    frozen = "model.embed_tokens.weight"
    kept = weights(ends / "a")[frozen]
    change(ends / "b", lambda found: {**found, frozen: kept.clone()})
    a, b, merged = (weights(folder) for folder in (ends / "a", ends / "b", write(ends, 0.35)))
    assert torch.equal(merged[frozen], a[frozen])
    for key, value in merged.items():
        expected = 0.65 * a[key].double() + 0.35 * b[key].double()
        torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=1e-8)


def arc(a: torch.Tensor, b: torch.Tensor, alpha: float) -> torch.Tensor:
    """Slerp by its definition, in fp64."""
    cosine = float((a * b).sum() / (a.norm() * b.norm()))
    if abs(cosine) > 0.9995:
        return (1 - alpha) * a + alpha * b
    angle = torch.acos(torch.tensor(cosine, dtype=torch.float64))
    return (torch.sin((1 - alpha) * angle) * a + torch.sin(alpha * angle) * b) / torch.sin(angle)


def test_slerp_is_the_arc_where_the_angle_says_something(ends: Path) -> None:
    a, b, merged = (weights(folder) for folder in (ends / "a", ends / "b", write(ends, 0.3, "slerp")))
    turned = 0
    for key, value in merged.items():
        expected = arc(a[key].double(), b[key].double(), 0.3)
        torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=1e-7)
        turned += not torch.allclose(expected, 0.7 * a[key].double() + 0.3 * b[key].double(), rtol=1e-5, atol=1e-7)
    assert 0 < turned < len(merged)


def test_slerp_with_a_tensor_of_zeros_is_linear(ends: Path) -> None:
    name = "model.norm.weight"
    change(ends / "a", lambda found: {**found, name: torch.zeros_like(found[name])})
    merged = weights(write(ends, 0.25, "slerp"))[name]
    torch.testing.assert_close(merged, 0.25 * weights(ends / "b")[name])


@pytest.mark.parametrize(
    ("cosine", "factor"), [(0.9996, 2.0), (0.9994, 2.0), (-0.9994, 1.0), (-1.0, 3.0), (0.0, 5.0), (1.0, 5.0)]
)
def test_slerp_near_and_at_a_straight_line_is_that_of_numpy(ends: Path, cosine: float, factor: float) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 32))
    y -= (x @ y) / (x @ x) * x
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    turned = (factor * (cosine * x + np.sqrt(1 - cosine**2) * y)).astype(np.float32)
    first = x.astype(np.float32)
    for one, values in (("a", first), ("b", turned)):
        change(ends / one, lambda found: {**found, "model.norm.weight": torch.tensor(values)})  # noqa: B023
    expected = 0.7 * first.astype(float) + 0.3 * turned.astype(float)
    if abs(cosine) < 0.9995:
        angle = np.arccos(cosine)
        expected = (np.sin(0.7 * angle) * first + np.sin(0.3 * angle) * turned.astype(float)) / np.sin(angle)
    found = weights(write(ends, 0.3, "slerp"))["model.norm.weight"]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=2e-6)


def test_parts_of_a_tensor_are_small_whatever_its_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "CHUNK", 10)
    shapes = [(4, 3, 7), (2, 2, 2, 3), (1, 25), (25,), (3, 2), (), (0, 4), (3, 0)]
    found = {str(shape): torch.arange(math.prod(shape)).reshape(shape).float() for shape in shapes}
    save_file(found, tmp_path / SINGLE)
    for name, one in stored_tensors("it", tmp_path).items():
        parts = [part for part, _ in chunks(Pair(a=one, b=one))]
        assert all(part.numel() <= 10 for part in parts)
        assert torch.equal(torch.cat([part.flatten() for part in parts] or [torch.zeros(0)]), found[name].flatten())


def test_chunks_change_no_number(ends: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = weights(write(ends, 0.4))
    monkeypatch.setattr(checkpoints, "CHUNK", 64)
    for key, value in weights(write(ends, 0.4)).items():
        assert torch.equal(value, whole[key])


def test_a_merged_model_loads_as_a_model_does(ends: Path) -> None:
    folder = write(ends, 0.5)
    network, loading = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    torch.testing.assert_close(network.state_dict()["model.norm.weight"], weights(folder)["model.norm.weight"])
    assert (folder / "tokenizer.json").read_bytes() == (ends / "b" / "tokenizer.json").read_bytes()


def test_shards_on_either_side_are_read_and_kept(ends: Path) -> None:
    single = weights(write(ends, 0.5))
    for name in "ab":
        network = AutoModelForCausalLM.from_pretrained(ends / name)
        (ends / name / SINGLE).unlink()
        network.save_pretrained(ends / name, max_shard_size="20KB" if name == "a" else "40KB")
        folder = write(ends, 0.5)
        for key, value in weights(folder).items():
            assert torch.equal(value, single[key])
    named = json.loads((folder / INDEX).read_text())["weight_map"]
    assert named == json.loads((ends / "b" / INDEX).read_text())["weight_map"]
    AutoModelForCausalLM.from_pretrained(folder)


def _sharded(folder: Path, name: str, found: Weights) -> None:
    """Save weights as one shard, which an index names."""
    save_file(found, folder / name, {"format": "pt"})
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": dict.fromkeys(found, name)}))


def test_a_model_of_one_shard_that_an_index_names_loads_once_merged(ends: Path) -> None:
    single = weights(write(ends, 0.5))
    _sharded(ends / "b", "model-00001-of-00001.safetensors", weights(ends / "b"))
    (ends / "b" / SINGLE).unlink()
    folder = write(ends, 0.5)
    network = AutoModelForCausalLM.from_pretrained(folder)
    for key, value in network.state_dict().items():
        assert torch.equal(value, single[key])


def test_tensors_of_a_shard_that_its_index_leaves_out_are_merged_as_transformers_loads_them(ends: Path) -> None:
    single = weights(write(ends, 0.5))
    for name in "ab":
        found = weights(ends / name)
        (ends / name / SINGLE).unlink()
        _sharded(ends / name, "model-00001-of-00001.safetensors", found)
        index = json.loads((ends / name / INDEX).read_text())
        del index["weight_map"]["lm_head.weight"]
        (ends / name / INDEX).write_text(json.dumps(index))
        loaded = AutoModelForCausalLM.from_pretrained(ends / name).state_dict()
        assert torch.equal(loaded["lm_head.weight"], found["lm_head.weight"])
    assert torch.equal(weights(write(ends, 0.5))["lm_head.weight"], single["lm_head.weight"])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("method", ["linear", "slerp"])
def test_half_precision_is_rounded_once(ends: Path, method: Method, dtype: torch.dtype) -> None:
    for name in "ab":
        change(ends / name, lambda found: {key: value.to(dtype) for key, value in found.items()})
    a, b = weights(ends / "a"), weights(ends / "b")
    for key, value in weights(write(ends, 0.3, method)).items():
        x, y = a[key].double(), b[key].double()
        expected = 0.7 * x + 0.3 * y if method == "linear" else arc(x, y, 0.3)
        assert (value != expected.to(dtype)).float().mean() < 0.01  # but for ties that fp32 decides otherwise


def test_shards_of_an_earlier_save_beside_a_single_file_are_left_aside_as_transformers_does(ends: Path) -> None:
    stale = {key: torch.zeros_like(value) for key, value in weights(ends / "b").items()}
    _sharded(ends / "b", "model-00001-of-00002.safetensors", stale)
    loaded = AutoModelForCausalLM.from_pretrained(ends / "b").state_dict()
    merged = weights(write(ends, 1.0))
    for key, value in loaded.items():
        assert torch.equal(merged[key], value)


@pytest.mark.parametrize("key", ["dtype", "torch_dtype"])  # by the version of transformers that saved the model
def test_unlike_dtypes_give_the_wider_one_also_when_loaded(ends: Path, key: str) -> None:
    change(ends / "a", lambda found: {key: value.bfloat16() for key, value in found.items()})
    config = json.loads((ends / "b" / "config.json").read_text())
    del config["dtype"]
    (ends / "b" / "config.json").write_text(json.dumps({**config, key: "bfloat16"}))
    folder = write(ends, 0.5)
    a, b = weights(ends / "a"), weights(ends / "b")
    for key, value in weights(folder).items():
        torch.testing.assert_close(value, (a[key].float() + b[key]) / 2)
    assert AutoModelForCausalLM.from_pretrained(folder, dtype="auto").dtype == torch.float32
    merged = json.loads((folder / "config.json").read_text())
    assert (merged["dtype"], "torch_dtype" in merged) == ("float32", False)


def test_tensors_begin_at_a_multiple_of_8_bytes(ends: Path) -> None:
    for name in ("a", "ab", "abc"):  # headers of unlike lengths
        for one in "ab":
            change(ends / one, lambda found: {**found, name: torch.zeros(2)})  # noqa: B023  # called at once
        head = (write(ends, 0.5) / SINGLE).read_bytes()[:8]
        assert int.from_bytes(head, "little") % 8 == 0


def test_a_tied_head_that_one_side_stores_is_left_out(ends: Path) -> None:
    _configured("a", "b", tie_word_embeddings=True)(ends)
    change(ends / "a", lambda found: {key: value for key, value in found.items() if key != "lm_head.weight"})
    change(ends / "b", lambda found: {**found, "lm_head.weight": found["model.embed_tokens.weight"].clone()})
    assert plan_merge(str(ends / "a"), str(ends / "b")).left_out == ("lm_head.weight",)
    assert "lm_head.weight" not in weights(write(ends, 0.5))


def test_a_head_of_its_own_on_one_side_of_two_tied_models_is_refused(ends: Path) -> None:
    _configured("a", "b", tie_word_embeddings=True)(ends)
    change(ends / "a", lambda found: {key: value for key, value in found.items() if key != "lm_head.weight"})
    with pytest.raises(
        ScoringError, match=r"b: lm_head\.weight differs from the embedding, to which .*a ties its head"
    ):
        plan_merge(str(ends / "a"), str(ends / "b"))


def test_a_buffer_that_one_side_stores_is_left_out(ends: Path) -> None:
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    change(ends / "a", lambda found: {**found, name: torch.ones(8)})
    assert plan_merge(str(ends / "a"), str(ends / "b")).left_out == (name,)
    assert name not in weights(write(ends, 0.5))


def test_integers_are_kept_where_both_have_the_same(ends: Path) -> None:
    name = "model.steps"
    for one in "ab":
        change(ends / one, lambda found: {**found, name: torch.arange(3)})
    assert torch.equal(weights(write(ends, 0.5))[name], torch.arange(3))
    change(ends / "b", lambda found: {**found, name: torch.arange(3) + 1})
    with pytest.raises(ScoringError, match=r"model\.steps is stored as I64 and I64, which cannot be averaged"):
        plan_merge(str(ends / "a"), str(ends / "b"))


def _reshaped(root: Path) -> None:
    change(root / "b", lambda found: {**found, "model.norm.weight": torch.ones(31)})


def _fewer(root: Path) -> None:
    change(root / "b", lambda found: {key: value for key, value in found.items() if "layers.1.mlp" not in key})


def _retokenized(root: Path) -> None:
    path = root / "b" / "tokenizer.json"
    path.write_text(path.read_text().replace('"w7"', '"v7"'))


def _cut_otherwise(root: Path) -> None:
    document = json.loads((root / "b" / "tokenizer.json").read_text())
    document["pre_tokenizer"] = {"type": "Whitespace"}
    (root / "b" / "tokenizer.json").write_text(json.dumps(document))


def _without_tokenizer(root: Path) -> None:
    for path in (root / "b").glob("token*"):
        path.unlink()


def _pickled(root: Path) -> None:
    (root / "b" / SINGLE).rename(root / "b" / "pytorch_model.bin")


def _sharded_by_fsdp(root: Path) -> None:
    (root / "b" / SINGLE).unlink()
    (root / "b" / "__0_0.distcp").touch()


def _indexed_wrongly(root: Path) -> None:
    found = load_file(root / "b" / SINGLE)
    (root / "b" / SINGLE).unlink()
    _sharded(root / "b", "model-00001-of-00001.safetensors", found)
    index = json.loads((root / "b" / INDEX).read_text())
    index["weight_map"]["model.gone.weight"] = "model-00001-of-00001.safetensors"
    (root / "b" / INDEX).write_text(json.dumps(index))


def _without_a_shard(root: Path) -> None:
    _indexed_wrongly(root)
    (root / "b" / "model-00001-of-00001.safetensors").unlink()


def _cut_off(root: Path) -> None:
    whole = (root / "b" / SINGLE).read_bytes()
    (root / "b" / SINGLE).write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_reshaped, r"model\.norm\.weight is \[32\] in the first and \[31\] in the second"),
        (_fewer, r"3 tensors are in one of them only, model\.layers\.1\.mlp\.\w+\.weight in .*a; needed two models"),
        (
            _configured("b", rms_norm_eps=0.5),
            "do not compute alike: rms_norm_eps is 1e-06 in the first and 0.5 in the second",
        ),
        (_configured("b", model_type="qwen2"), "do not compute alike: model_type is 'qwen3' in the first and 'qwen2'"),
        (
            _configured("b", quantization_config={"quant_method": "gptq"}),
            "its weights are quantized; merge the models that",
        ),
        (_retokenized, r"unlike vocabularies: 137 and 137 tokens, '[vw]7' is not the same in both"),
        (_cut_otherwise, "the same vocabulary, and differ in their pre_tokenizer"),
        (_without_tokenizer, "b: it has no tokenizer; copy the files of its base's tokenizer"),
        (_pickled, r"needed safetensors, .* it has \.bin files; save it again with .*save_pretrained"),
        (_sharded_by_fsdp, "holds the parts of an FSDP training; merge them with `accelerate merge-weights"),
        (
            _indexed_wrongly,
            r"00001\.safetensors: model\.gone\.weight is not in this file, where model\.safetensors\.index",
        ),
        (_without_a_shard, r"model-00001-of-00001\.safetensors: cannot be read as safetensors"),
        (_cut_off, r"model\.safetensors: cannot be read as safetensors"),
    ],
)
def test_models_that_cannot_be_merged_are_named_in_one_sentence(
    ends: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    spoil(ends)
    with pytest.raises(ScoringError, match=reason) as raised:
        plan_merge(str(ends / "a"), str(ends / "b"))
    assert len(str(raised.value).splitlines()) == 1


def test_settings_that_change_no_weight_do_not_matter(ends: Path) -> None:
    _configured("b", use_cache=False, eos_token_id=5, max_position_embeddings=64, attention_dropout=0.3)(ends)
    _configured("b", unsloth_version="2025.1", unsloth_fixed=True, model_name="base")(ends)
    assert plan_merge(str(ends / "a"), str(ends / "b")).pairs


def test_the_distance_of_a_layer_is_that_of_its_tensors_together() -> None:
    squares = {
        "model.embed_tokens.weight": (4.0, 1.0),
        "model.layers.10.mlp.weight": (9.0, 9.0),
        "model.layers.2.mlp.weight": (3.0, 0.0),
        "model.layers.2.norm.weight": (1.0, 1.0),
        "model.norm.weight": (0.0, 1.0),
    }
    found = WeightDistance.of(squares, turned=1)
    assert found.overall == pytest.approx(math.sqrt(12 / 17))
    assert list(found.layers) == ["model.embed_tokens", "model.layers.2", "model.layers.10", "model.norm"]
    assert list(found.layers.values())[:3] == [0.5, 0.5, 1.0]
    assert math.isnan(found.layers["model.norm"])
