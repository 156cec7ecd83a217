import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from support import model, probe, tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from forgetwatch import Item, Probe, load_snapshot, score
from forgetwatch.errors import ScoringError, SnapshotError
from forgetwatch.scoring.cached_score import score_checkpoint
from forgetwatch.scoring.model_loading import check_path, load_model, load_outline
from forgetwatch.scoring.tokenizer_loading import has_tokenizer
from forgetwatch.scoring.weights_identity import weights_identity


def test_a_checkpoint_gives_the_rows_of_the_model_in_memory(saved: Path) -> None:
    tok = tokenizer()
    assert (
        score_checkpoint(str(saved), probe()).checksum == score(model(tok), tok, probe()).checksum
    )


def test_a_checkpoint_is_scored_once(saved: Path, loads: list[str]) -> None:
    first, second = (score_checkpoint(str(saved), probe()) for _ in range(2))
    assert loads == [str(saved)]
    assert second.checksum == first.checksum
    moved = saved.rename(saved.with_name("moved"))
    assert score_checkpoint(str(moved), probe()).meta["model"] == str(moved)
    assert len(loads) == 1


@pytest.mark.parametrize("change", [{"norm": "bytes"}, {"name": "other"}])
def test_another_probe_is_scored_again(
    saved: Path, loads: list[str], change: dict[str, str]
) -> None:
    score_checkpoint(str(saved), probe())
    score_checkpoint(str(saved), probe(**change))
    assert len(loads) == 2


def test_other_labels_of_the_same_questions_are_not_mixed_up(saved: Path, loads: list[str]) -> None:
    score_checkpoint(str(saved), probe())
    relabelled = Probe([replace(item, category="new") for item in probe()], name="toy")
    assert set(score_checkpoint(str(saved), relabelled).texts("category")) == {"new"}


def test_other_weights_are_scored_again(saved: Path, loads: list[str]) -> None:
    one = score_checkpoint(str(saved), probe())
    model(tokenizer(), seed=1).save_pretrained(saved)
    assert score_checkpoint(str(saved), probe()).checksum != one.checksum
    assert len(loads) == 2


def test_another_end_token_ends_other_texts_and_is_scored_again(
    saved: Path, loads: list[str]
) -> None:
    items = [Item(id="1", task="t", prompt="w1 w2", answer="w3", match="contains")]
    written = Probe(items, decoding={"tokens": 6})
    (whole,) = score_checkpoint(str(saved), written).texts("output")
    config = GenerationConfig.from_pretrained(saved)
    config.eos_token_id = tokenizer().convert_tokens_to_ids(whole.split()[1])
    config.save_pretrained(saved)
    (cut,) = score_checkpoint(str(saved), written).texts("output")
    assert len(cut.split()) == 2
    assert len(loads) == 2


def test_an_adapter_is_scored_on_its_base(saved: Path, tmp_path: Path) -> None:
    network, tok = load_model(str(saved))
    adapted = get_peft_model(
        network, LoraConfig(r=4, target_modules=["q_proj"], init_lora_weights=False)
    )
    adapted.save_pretrained(tmp_path / "adapter")
    expected = score(adapted, tok, probe()).table["choice_logprobs"].to_pylist()
    got = score_checkpoint(str(tmp_path / "adapter"), probe()).table["choice_logprobs"].to_pylist()
    for one, other in zip(got, expected, strict=True):
        assert one == pytest.approx(other, abs=1e-5)


def test_a_model_with_missing_weights_is_refused(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    config["num_hidden_layers"] += 1
    config["layer_types"] = ["full_attention"] * config["num_hidden_layers"]
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ScoringError, match="weights of the language model are not in its files"):
        score_checkpoint(str(saved), probe())
    network = model(tokenizer())
    network.model.save_pretrained(saved)  # the body without its head
    with pytest.raises(ScoringError, match="lm_head"):
        score_checkpoint(str(saved), probe())


def test_the_cache_folder_follows_the_environment(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FORGETWATCH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(saved.parent / "xdg"))
    score_checkpoint(str(saved), probe())
    assert len(list((saved.parent / "xdg" / "forgetwatch").glob("*.parquet"))) == 1


def test_a_cache_that_cannot_be_written_only_warns(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (saved.parent / "file").write_text("")
    monkeypatch.setenv("FORGETWATCH_CACHE", str(saved.parent / "file"))
    with pytest.warns(UserWarning, match="could not be cached"):
        assert len(score_checkpoint(str(saved), probe())) == 30


@pytest.mark.filterwarnings("default")  # PEFT's own warning must be refused without pytest's help
def test_an_adapter_with_missing_weights_is_refused(saved: Path, tmp_path: Path) -> None:
    network, _ = load_model(str(saved))
    get_peft_model(network, LoraConfig(r=4, target_modules=["q_proj"])).save_pretrained(
        tmp_path / "adapter"
    )
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    weights = load_file(file)
    save_file({name: value for name, value in weights.items() if ".layers.0." in name}, file)
    with pytest.raises(ScoringError, match="missing adapter keys"):
        score_checkpoint(str(tmp_path / "adapter"), probe())


def test_a_model_that_cannot_be_loaded_is_one_clear_error(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ScoringError, match="as a model id it cannot be loaded"):
        score_checkpoint("nobody/nothing", probe())
    (saved / "model.safetensors").write_bytes(b"broken")
    with pytest.raises(ScoringError, match="cannot be loaded as a causal language model"):
        score_checkpoint(str(saved), probe())
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    with pytest.raises(ScoringError, match="names no base model"):
        score_checkpoint(str(adapter), probe())


@pytest.mark.parametrize("kind", ["qwen2", "gemma2", "llama"])
@pytest.mark.parametrize("rest", ["", "tokenizer_config.json"])
def test_a_folder_without_a_tokenizer_is_refused_also_where_transformers_makes_an_empty_one(
    tmp_path: Path, kind: str, rest: str
) -> None:
    AutoConfig.for_model(kind).save_pretrained(tmp_path)
    if rest:
        (tmp_path / rest).write_text("{}")
    with pytest.raises(ScoringError, match="tokenizer"):
        load_outline(str(tmp_path))
    assert has_tokenizer(str(tmp_path)) == bool(rest)


@pytest.fixture
def bare(saved: Path, tmp_path: Path) -> Path:
    """Folder of the model without its tokenizer."""
    return Path(shutil.copytree(saved, tmp_path / "bare", ignore=shutil.ignore_patterns("token*")))


def test_a_model_without_a_tokenizer_can_be_given_one(saved: Path, bare: Path) -> None:
    with pytest.raises(ScoringError, match=r"bare: it has no tokenizer; copy the files"):
        load_model(str(bare))
    _, tok = load_model(str(bare), tokenizer_of=str(saved))
    assert tok.get_vocab() == tokenizer().get_vocab()


def test_an_adapter_brings_the_tokenizer_of_a_base_that_has_none(
    bare: Path, tmp_path: Path
) -> None:
    config = LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear")
    get_peft_model(AutoModelForCausalLM.from_pretrained(bare), config).save_pretrained(
        tmp_path / "adapter"
    )
    with pytest.raises(ScoringError, match="adapter: it has no tokenizer"):
        load_model(str(tmp_path / "adapter"))
    tokenizer().save_pretrained(tmp_path / "adapter")
    assert load_model(str(tmp_path / "adapter"))[1].get_vocab() == tokenizer().get_vocab()


def test_a_path_at_which_there_is_nothing_is_never_looked_up_as_a_model_id(saved: Path) -> None:
    near = f"{saved}l"
    for act in (load_model, load_outline, weights_identity):
        with pytest.raises(
            ScoringError, match=f"^{near}: no such folder, did you mean '{saved.name}'"
        ):
            act(near)


def test_an_index_that_names_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    index = {"metadata": {}, "weight_map": {"model.embed_tokens.weight": "../../etc/passwd"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(
        ScoringError,
        match=r"names '\.\./\.\./etc/passwd'; needed names of files in the same folder",
    ):
        check_path(str(tmp_path))


def _resaved(
    folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]
) -> None:
    save_file(
        change(load_file(folder / "model.safetensors")),
        folder / "model.safetensors",
        {"format": "pt"},
    )


def test_weights_that_the_model_does_not_use_are_named(saved: Path) -> None:
    factor = {"model.layers.0.self_attn.q_proj.lora_A.weight": torch.ones(2, 2)}
    _resaved(saved, lambda weights: weights | factor)
    with pytest.raises(ScoringError, match=r"1 weights .* not used .*lora_A.*merge the adapter"):
        load_model(str(saved))


def test_weights_of_more_layers_than_the_configuration_has_are_named(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    config["num_hidden_layers"] -= 1
    config["layer_types"] = ["full_attention"] * config["num_hidden_layers"]
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ScoringError, match=r"not used by its model, .* fewer layers"):
        load_model(str(saved))


def test_constants_of_older_versions_and_a_value_head_are_not_needed(saved: Path) -> None:
    more = {
        "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(2),
        "v_head.summary.weight": torch.ones(1, 2),
    }
    _resaved(saved, lambda weights: weights | more)
    load_model(str(saved))


def test_an_adapter_of_a_larger_base_is_refused(saved: Path, tmp_path: Path) -> None:
    adapted = get_peft_model(load_model(str(saved))[0], LoraConfig(r=4, target_modules=["q_proj"]))
    adapted.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "adapter_model.safetensors")
    name, one = next(iter(weights.items()))
    save_file(
        weights | {name.replace("layers.0", "layers.9"): one.clone()},
        tmp_path / "adapter_model.safetensors",
    )
    with pytest.raises(
        ScoringError, match=r"1 weights .*layers\.9.*the base that it was trained on"
    ):
        load_model(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "model.safetensors",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:aa\n",
            "git lfs pull",
        ),
        ("model.safetensors.index.json", b'{"weight_map": {}}', "two sets of weights"),
        ("pytorch_model_fsdp_0/__0_0.distcp", b"x", "accelerate merge-weights"),
        ("model_world_size_2_rank_0.pt", b"x", "verl.model_merger"),
        ("global_step5/mp_rank_00_model_states.pt", b"x", "zero_to_fp32.py"),
        ("iter_0000005/mp_rank_00/model_optim_rng.pt", b"x", "Megatron"),
        ("latest_checkpointed_iteration.txt", b"5", "Megatron"),
        ("model-Q4_K_M.gguf", b"GGUF", "gguf_file='model-Q4_K_M.gguf'"),
    ],
)
def test_files_that_are_no_whole_weights_say_what_they_are(
    saved: Path, name: str, content: bytes, said: str
) -> None:
    if "safetensors" not in name:
        (saved / "model.safetensors").unlink()
    (saved / name).parent.mkdir(parents=True, exist_ok=True)
    (saved / name).write_bytes(content)
    with pytest.raises(ScoringError, match=said):
        load_model(str(saved))


def test_a_file_whose_end_is_zeros_is_refused(saved: Path) -> None:
    file = saved / "model.safetensors"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] + bytes(len(whole) - len(whole) // 2))
    with pytest.raises(ScoringError, match="bytes of zeros"):
        load_model(str(saved))


def test_a_folder_of_gguf_alone_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with pytest.raises(SnapshotError, match="weights in GGUF"):
        load_snapshot(tmp_path)
