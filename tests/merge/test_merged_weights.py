"""Weights between two checkpoints: the arithmetic, what is stored, and what is refused before anything is written.

An adapter between its base and itself.
"""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from support import model, tokenizer
from transformers import AutoModelForCausalLM

from forgetwatch.errors import ScoringError
from forgetwatch.merge.weights import Method, ModelPair, WeightDistance

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"

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


def pair_of(root: Path, method: Method = "linear", **options: Any) -> ModelPair:
    return ModelPair(a=str(root / "a"), b=str(root / "b"), method=method, alphas=(0.5,), **options)


def write(root: Path, alpha: float, method: Method = "linear") -> Path:
    """Save a point, and return its folder."""
    shutil.rmtree(root / "kept", ignore_errors=True)
    pair_of(root, method, keep=root / "kept").store(alpha)
    return root / "kept" / f"{method}-{alpha:g}"


def weights(folder: Path) -> Weights:
    found: Weights = {}
    for file in folder.glob("*.safetensors"):
        found |= load_file(file)
    return found


def change(folder: Path, function: Callable[[Weights], Weights]) -> None:
    """Change the stored weights of a model, and the dtype in its configuration with them."""
    found = function(load_file(folder / SINGLE))
    save_file(found, folder / SINGLE, {"format": "pt"})
    dtype = str(next(iter(found.values())).dtype).removeprefix("torch.")
    _configured(folder.name, dtype=dtype)(folder.parent)


def _configured(*names: str, **changes: Any) -> Callable[[Path], None]:
    """Function that changes the configurations of models."""

    def configure(root: Path) -> None:
        for name in names:
            path = root / name / "config.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return configure


@pytest.mark.parametrize("method", ["linear", "slerp"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_ends_are_bitwise_the_two_models(
    ends: Path, method: Method, dtype: torch.dtype
) -> None:
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
    a, b, merged = (
        weights(folder) for folder in (ends / "a", ends / "b", write(ends, 0.3, "slerp"))
    )
    turned = 0
    for key, value in merged.items():
        expected = arc(a[key].double(), b[key].double(), 0.3)
        torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=1e-7)
        turned += not torch.allclose(
            expected, 0.7 * a[key].double() + 0.3 * b[key].double(), rtol=1e-5, atol=1e-7
        )
    assert 0 < turned < len(merged)


def test_slerp_with_a_tensor_of_zeros_is_linear(ends: Path) -> None:
    name = "model.norm.weight"
    change(ends / "a", lambda found: {**found, name: torch.zeros_like(found[name])})
    merged = weights(write(ends, 0.25, "slerp"))[name]
    torch.testing.assert_close(merged, 0.25 * weights(ends / "b")[name])


@pytest.mark.parametrize(
    ("cosine", "factor"),
    [(0.9996, 2.0), (0.9994, 2.0), (-0.9994, 1.0), (-1.0, 3.0), (0.0, 5.0), (1.0, 5.0)],
)
def test_slerp_near_and_at_a_straight_line_is_that_of_numpy(
    ends: Path, cosine: float, factor: float
) -> None:
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
        expected = (
            np.sin(0.7 * angle) * first + np.sin(0.3 * angle) * turned.astype(float)
        ) / np.sin(angle)
    found = weights(write(ends, 0.3, "slerp"))["model.norm.weight"]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=2e-6)


def test_a_merged_model_loads_as_a_model_does(ends: Path) -> None:
    folder = write(ends, 0.5)
    network, loading = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    torch.testing.assert_close(
        network.state_dict()["model.norm.weight"], weights(folder)["model.norm.weight"]
    )
    assert (folder / "tokenizer.json").read_bytes() == (ends / "b" / "tokenizer.json").read_bytes()


def test_shards_on_either_side_are_read(ends: Path) -> None:
    single = weights(write(ends, 0.5))
    for name in "ab":
        network = AutoModelForCausalLM.from_pretrained(ends / name)
        (ends / name / SINGLE).unlink()
        network.save_pretrained(ends / name, max_shard_size="20KB" if name == "a" else "40KB")
        folder = write(ends, 0.5)
        for key, value in weights(folder).items():
            assert torch.equal(value, single[key])


def _sharded(folder: Path, name: str, found: Weights) -> None:
    """Save weights as one shard, which an index names."""
    save_file(found, folder / name, {"format": "pt"})
    (folder / INDEX).write_text(
        json.dumps({"metadata": {}, "weight_map": dict.fromkeys(found, name)})
    )


def test_a_model_of_one_shard_that_an_index_names_loads_once_merged(ends: Path) -> None:
    single = weights(write(ends, 0.5))
    _sharded(ends / "b", "model-00001-of-00001.safetensors", weights(ends / "b"))
    (ends / "b" / SINGLE).unlink()
    folder = write(ends, 0.5)
    network = AutoModelForCausalLM.from_pretrained(folder)
    for key, value in network.state_dict().items():
        assert torch.equal(value, single[key])


def test_tensors_of_a_shard_that_its_index_leaves_out_are_merged_as_transformers_loads_them(
    ends: Path,
) -> None:
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
        assert (
            value != expected.to(dtype)
        ).float().mean() < 0.01  # but for ties that fp32 decides otherwise


def test_unlike_dtypes_give_the_wider_one_also_when_loaded(ends: Path) -> None:
    change(ends / "b", lambda found: {key: value.bfloat16() for key, value in found.items()})
    folder = write(ends, 0.5)
    a, b = weights(ends / "a"), weights(ends / "b")
    for key, value in weights(folder).items():
        torch.testing.assert_close(value, (a[key] + b[key].float()) / 2)
    assert AutoModelForCausalLM.from_pretrained(folder, dtype="auto").dtype == torch.float32


def test_a_point_that_overflows_is_named(ends: Path) -> None:
    name = "model.layers.0.input_layernorm.weight"
    for one, at in (
        ("a", 3),
        ("b", 6),
    ):  # at 60 degrees, so that the factors of the arc add up to 1.15
        large = torch.zeros(32)
        large[:3] = large[at : at + 3] = 60_000.0
        change(ends / one, lambda found, large=large: {**found, name: large})
        change(ends / one, lambda found: {key: value.half() for key, value in found.items()})
    pair = pair_of(ends, "slerp")
    pair.check()
    reason = (
        rf"alpha 0.5: the merged tensor {name} overflows in float16 and would hold infinity \(3 of "
    )
    with pytest.raises(ScoringError, match=reason), pair.at(0.5):
        pass


def test_a_tied_head_that_one_side_stores_is_left_out(ends: Path) -> None:
    _configured("a", "b", tie_word_embeddings=True)(ends)
    change(
        ends / "a",
        lambda found: {key: value for key, value in found.items() if key != "lm_head.weight"},
    )
    change(
        ends / "b",
        lambda found: {**found, "lm_head.weight": found["model.embed_tokens.weight"].clone()},
    )
    assert "lm_head.weight" not in weights(write(ends, 0.5))


def test_a_head_of_its_own_on_one_side_of_two_tied_models_is_refused(ends: Path) -> None:
    _configured("a", "b", tie_word_embeddings=True)(ends)
    change(
        ends / "a",
        lambda found: {key: value for key, value in found.items() if key != "lm_head.weight"},
    )
    with pytest.raises(
        ScoringError,
        match="the head is tied to the embedding in one of them only; needed two models",
    ):
        pair_of(ends).check()


def _reshaped(root: Path) -> None:
    change(root / "b", lambda found: {**found, "model.norm.weight": torch.ones(31)})


def _fewer(root: Path) -> None:
    change(
        root / "b",
        lambda found: {key: value for key, value in found.items() if "layers.1.mlp" not in key},
    )


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


def _without_a_shard(root: Path) -> None:
    _sharded(root / "b", "model-00001-of-00001.safetensors", load_file(root / "b" / SINGLE))
    (root / "b" / SINGLE).unlink()
    (root / "b" / "model-00001-of-00001.safetensors").unlink()


def _cut_off(root: Path) -> None:
    whole = (root / "b" / SINGLE).read_bytes()
    (root / "b" / SINGLE).write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_reshaped, "b: cannot be loaded as a causal language model"),
        (
            _fewer,
            r"b: 3 weights of the language model are not in its files, model\.layers\.1\.mlp\.\w+\.weight",
        ),
        (
            _configured("b", rms_norm_eps=0.5),
            "do not compute alike: rms_norm_eps is 1e-06 in the first and 0.5 in the second",
        ),
        (
            _configured("b", model_type="qwen2"),
            "do not compute alike: model_type is 'qwen3' in the first and 'qwen2'",
        ),
        (
            _configured("b", quantization_config={"quant_method": "gptq"}),
            "its weights are quantized; merge the models that",
        ),
        (_retokenized, r"unlike vocabularies: 137 and 137 tokens, '[vw]7' is not the same in both"),
        (_cut_otherwise, "the same vocabulary, and differ in their pre_tokenizer"),
        (_without_tokenizer, "b: it has no tokenizer; copy the files of its base's tokenizer"),
        (_pickled, "b: cannot be loaded as a causal language model"),
        (
            _sharded_by_fsdp,
            "weights that FSDP saved in parts .*; merge them: accelerate merge-weights",
        ),
        (_without_a_shard, r"b: cannot be loaded .*model-00001-of-00001\.safetensors"),
        (_cut_off, "b: cannot be loaded .*deserializing header"),
    ],
)
def test_models_that_cannot_be_merged_are_named_in_one_sentence(
    ends: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    spoil(ends)
    with pytest.raises(ScoringError, match=reason) as raised:
        pair_of(ends).check()
    assert len(str(raised.value).splitlines()) == 1


def test_settings_that_change_no_weight_do_not_matter(ends: Path) -> None:
    _configured(
        "b", use_cache=False, eos_token_id=5, max_position_embeddings=64, attention_dropout=0.3
    )(ends)
    _configured("b", unsloth_version="2025.1", unsloth_fixed=True, model_name="base")(ends)
    pair_of(ends).check()


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
    assert list(found.layers) == [
        "model.embed_tokens",
        "model.layers.2",
        "model.layers.10",
        "model.norm",
    ]
    assert list(found.layers.values())[:3] == [0.5, 0.5, 1.0]
    assert math.isnan(found.layers["model.norm"])


WEIGHTS = "adapter_model.safetensors"


def save(root: Path, **options: Any) -> None:
    """Save a base and an adapter of it, with random matrices, as `a` and `b`."""
    tok = tokenizer()
    if not (root / "a").exists():
        model(tok).save_pretrained(root / "a")
        tok.save_pretrained(root / "a")
    settings = {
        "r": 4,
        "lora_alpha": 8,
        "target_modules": ["q_proj", "v_proj", "down_proj"],
        **options,
    }
    tuned = get_peft_model(AutoModelForCausalLM.from_pretrained(root / "a"), LoraConfig(**settings))
    torch.manual_seed(3)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_" in name:
                weight.copy_(0.1 * torch.randn_like(weight))
    tuned.save_pretrained(root / "b")


def pair_of_scaled_adapters(root: Path, a: str = "a", **options: Any) -> ModelPair:
    return ModelPair(a=str(root / a), b=str(root / "b"), method="linear", alphas=(0.5,), **options)


def loaded(root: Path, folder: Path) -> dict[str, torch.Tensor]:
    """Weights of the base with an adapter merged into it."""
    base = AutoModelForCausalLM.from_pretrained(root / "a")
    weights: dict[str, torch.Tensor] = (
        PeftModel.from_pretrained(base, folder).merge_and_unload().state_dict()
    )
    return weights


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_rslora": True},
        {
            "rank_pattern": {"v_proj": 2},
            "alpha_pattern": {"v_proj": 3, "layers.1.mlp.down_proj": 5},
        },
    ],
)
def test_a_scaled_adapter_is_the_mean_of_the_base_and_the_merged_one(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    save(tmp_path, **options)
    (tmp_path / "b" / "_forgetwatch").mkdir()  # of the run
    pair = pair_of_scaled_adapters(tmp_path, keep=tmp_path / "kept")
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "a").state_dict()
    whole = loaded(tmp_path, tmp_path / "b")
    for alpha in (0.0, 0.3, 1.0):
        pair.store(alpha)
        assert not (tmp_path / "kept" / f"linear-{alpha:g}" / "_forgetwatch").exists()
        for name, value in loaded(tmp_path, tmp_path / "kept" / f"linear-{alpha:g}").items():
            if alpha in (0, 1):
                assert torch.equal(
                    value, whole[name] if alpha else base.get(name, torch.zeros_like(value))
                )
            else:
                start = base.get(name, torch.zeros_like(value))
                torch.testing.assert_close(
                    value, start + alpha * (whole[name] - start), rtol=1e-5, atol=1e-6
                )
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "a")
    tokens = torch.arange(12)[None]
    with torch.no_grad(), pair.at(0.3) as (scaled, _):
        merged = PeftModel.from_pretrained(merged, tmp_path / "kept" / "linear-0.3").eval()
        torch.testing.assert_close(
            scaled(tokens).logits, merged(tokens).logits, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_rslora": True, "alpha_pattern": {"v_proj": 3}},
        {
            "rank_pattern": {"q_proj|v_proj": 2},
            "alpha_pattern": {r"^model\.layers\.1.*v_proj": 5, "v_proj|q_proj": 3},
        },
    ],
)
def test_the_distance_is_that_of_the_merged_adapter(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    save(tmp_path, **options)
    base = AutoModelForCausalLM.from_pretrained(tmp_path / "a").state_dict()
    whole = loaded(tmp_path, tmp_path / "b")
    moved = sum(float((whole[name] - base[name]).double().square().sum()) for name in base)
    own = sum(float(base[name].double().square().sum()) for name in base)
    assert pair_of_scaled_adapters(tmp_path).distance().overall == pytest.approx(
        math.sqrt(moved / own), rel=1e-3
    )


def _configured_of_scaled_adapters(**changes: Any) -> Callable[[Path], None]:
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
        (
            _configured_of_scaled_adapters(use_dora=True),
            "trained with DoRA.*merge it into its base first",
        ),
        (
            _configured_of_scaled_adapters(peft_type="IA3"),
            "an adapter of the kind IA3.*merge it into its base first",
        ),
        (
            _configured_of_scaled_adapters(init_lora_weights="pissa"),
            "began as pissa, which changes the weights of the base",
        ),
        (
            _configured_of_scaled_adapters(layer_replication=[[0, 1], [0, 2]]),
            "layer_replication changes the base.*merge it into its base",
        ),
        (
            _configured_of_scaled_adapters(use_qalora=True),
            "use_qalora adds in another way than by a product.*merge it into its base",
        ),
        (
            _with_a_module,
            r"also stores base_model\.model\.lm_head\.weight as a whole.*merge it into its base first",
        ),
        (
            _configured_of_scaled_adapters(base_model_name_or_path="/no/such/base"),
            "an adapter of /no/such/base, which cannot be read",
        ),
        (
            lambda folder: (folder / WEIGHTS).unlink(),
            "needed adapter_model.safetensors, found none",
        ),
    ],
)
def test_an_adapter_that_follows_no_factor_is_refused(
    tmp_path: Path, spoil: Callable[[Path], None], reason: str
) -> None:
    save(tmp_path)
    spoil(tmp_path / "b")
    with pytest.raises(ScoringError, match=reason):
        pair_of_scaled_adapters(tmp_path).check()


def test_an_adapter_of_another_base_is_refused(tmp_path: Path) -> None:
    save(tmp_path)
    tok = tokenizer()
    model(tok, seed=9).save_pretrained(tmp_path / "other")
    tok.save_pretrained(tmp_path / "other")
    with pytest.raises(
        ScoringError, match=r"an adapter of .*/a, and not of .*/other; give its base as A"
    ):
        pair_of_scaled_adapters(tmp_path, "other").check()


@pytest.mark.parametrize(
    ("side", "file"), [("A", "a/model.safetensors"), ("B", "b/adapter_model.safetensors")]
)
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
