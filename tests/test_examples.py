"""Every example runs, on a small random model and data made here."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from support import snapshot, write_jsonl
from typer.testing import CliRunner

from forgetwatch import Trajectory, compare, load_probe
from forgetwatch.cli import app
from forgetwatch.gates import read_gate

EXAMPLES = Path(__file__).parent.parent / "examples"
TEXTS = [f"Item {n} costs {3 * n} coins, and a second one costs {4 * n}." for n in range(24)]

RUNS: dict[str, dict[str, int]] = {
    "sft": {"STEPS": 4},
    "lora": {"STEPS": 4},
    "grpo": {"STEPS": 2, "TOKENS": 6},
    "own_loop": {"STEPS": 4},
    "guard": {"STEPS": 4, "EVERY": 2},
}
"""Constants of each training script that the tests replace, next to model, data and output."""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of two layers, and a byte-level tokenizer, saved as a checkpoint."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    texts = [*TEXTS, *(item.prompt + "".join(item.choices) for item in load_probe(EXAMPLES / "probe.jsonl"))]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=600, special_tokens=["<pad>", "<eos>"], initial_alphabet=alphabet)
    backend.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>")
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=1,
    )
    folder = tmp_path_factory.mktemp("model")
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def example(name: str) -> ModuleType:
    """An example as a module."""
    spec = spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run(name: str, constants: Mapping[str, object], monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Run `main` of an example after replacing some of the constants at its top."""
    module = example(name)
    for constant, value in constants.items():
        assert isinstance(value, type(getattr(module, constant)))
        monkeypatch.setattr(module, constant, value)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    module.main()
    return module


def test_every_example_is_run_by_a_test() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*RUNS, "mixture", "own_judge", "shipped", "two_modes"}


@pytest.mark.filterwarnings("ignore:MatMul8bitLt:UserWarning")  # bitsandbytes' own, where it is installed
def test_the_forms_of_a_trained_adapter_are_compared_with_it(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    # Blocks of 4-bit weights have 64 numbers: a narrower model has none.
    wide = AutoConfig.from_pretrained(network, hidden_size=128, intermediate_size=256, head_dim=64)
    AutoModelForCausalLM.from_config(wide).save_pretrained(tmp_path / "base")
    tuned = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    tuned = get_peft_model(tuned, LoraConfig(target_modules=["q_proj"]))
    torch.nn.init.normal_(tuned.base_model.model.model.layers[0].self_attn.q_proj.lora_B["default"].weight)
    tuned.save_pretrained(tmp_path / "adapter")
    # PEFT itself saves no tokenizer with an adapter: it is that of the base.
    AutoTokenizer.from_pretrained(network).save_pretrained(tmp_path / "base")
    run("shipped", {"MODEL": str(tmp_path / "adapter"), "OUTPUT": str(tmp_path / "forms")}, monkeypatch)
    printed = capsys.readouterr().out.splitlines()
    merged = next(line for line in printed if line.startswith("merged"))
    assert re.search(r"merged +0 forgotten and 0 gained of \d+, net \+0\.0 points .*; drift 0\.0000 nats", merged)
    quantized = [line for line in printed if line.startswith(("8-bit", "4-bit"))]
    assert len(quantized) == (2 if find_spec("bitsandbytes") else 1)
    assert (tmp_path / "forms" / "merged" / "config.json").is_file()


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
@pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning")  # TRL's own calls
@pytest.mark.parametrize("name", RUNS)
def test_an_example_trains_and_leaves_its_looks(
    name: str, network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    field = "prompt" if name == "grpo" else "text"
    data = write_jsonl(tmp_path / "train.jsonl", [{field: text} for text in TEXTS])
    constants = {"MODEL": str(network), "DATA": str(data), "OUTPUT": str(tmp_path / "run"), **RUNS[name]}
    if name == "guard":
        constants["HELD_OUT"] = str(data)
    run(name, constants, monkeypatch)
    trajectory = Trajectory.from_run(tmp_path / "run")
    assert trajectory.steps[0] == 0
    assert len(trajectory) > 1
    assert trajectory.comparisons[-1].all.n == len(load_probe(EXAMPLES / "probe.jsonl"))
    assert "forgotten" in (printed := capsys.readouterr().out) or "now lost" in printed or "all answers" in printed
    if name == "guard":
        assert f"best checkpoint: {tmp_path}" in printed


def test_items_with_their_own_judge_are_compared(
    network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    constants = {"BEFORE": str(network), "AFTER": str(network), "OUTPUT": str(tmp_path), "TOKENS": 4}
    judge = run("own_judge", constants, monkeypatch).judge
    assert "0 forgotten and 0 gained of 3 items" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "before.jsonl").read_text().splitlines()]
    assert [row["item_id"] for row in rows] == ["refund", "greeting", "json"]
    assert judge({"task": "format"}, '{"city": "Santiago"}') is True
    assert judge({"task": "format"}, "Santiago") is False
    assert judge({"task": "tone"}, " ") is None


def test_the_two_modes_are_drawn_and_their_written_numbers_printed(tmp_path: Path, capsys: Any) -> None:
    two_modes = example("two_modes")
    two_modes.main([str(tmp_path / "two_modes.png")])
    assert (tmp_path / "two_modes.png").read_bytes().startswith(b"\x89PNG")
    parts = re.split(r"^(?=\S)", capsys.readouterr().out, flags=re.MULTILINE)
    numbers = [re.findall(r"d = (\d) +([\d.]+) +([\d.]+) *([\d.]*)", part) for part in parts]
    new, replayed, reverse, joint = (
        {d: [float(x) for x in rest if x] for d, *rest in rows} for rows in numbers if rows
    )
    assert new["1"] == pytest.approx([0.742, 0.091, 0.030], abs=6e-4)
    assert new["4"] == pytest.approx([0.155, 0.0126, 0.0027], abs=6e-4)
    assert replayed["4"] == pytest.approx([0.186, 0.051, 0.050], abs=6e-4)
    assert reverse["2"] == pytest.approx([0.921, 0.715, 0.700], abs=6e-4)
    assert joint["2"] == pytest.approx([0.894, 2.04], abs=6e-3)
    assert joint["6"] == pytest.approx([0.005, 0.165], abs=6e-4)
    cited, derived = ([part for part in parts if word in part] for word in ("2603.12163", "derived here"))
    assert (len(cited), [part.startswith("mass and means move") for part in derived]) == (3, [True])
    titles = [panel.get_title() for panel in two_modes.figure().axes]
    assert sum("2603.12163" in title for title in titles) == 3  # the picture too says what is cited
    assert sum("derived here" in title for title in titles) == 1


def test_the_gate_file_applies_to_its_probe() -> None:
    items = load_probe(EXAMPLES / "probe.jsonl")
    gate = read_gate(EXAMPLES / "gate.yaml", items)
    columns = {
        "item_id": [i.id for i in items],
        "task": [i.task for i in items],
        "category": [i.category for i in items],
    }
    base = snapshot([True] * len(items), k=[2] * len(items), **columns)
    assert gate.judge(compare(before=base, after=base), base).verdict == "INCONCLUSIVE"  # 24 items are few for 5 points
    worse = snapshot([i.category != "Arithmetic" for i in items], k=[2] * len(items), **columns)
    judgement = gate.judge(compare(before=base, after=worse), worse)
    failed = {finding.what for finding in judgement.findings if finding.verdict == "FAIL"}
    assert failed == {"all.net_change_estimate", "forgetting", "category:Arithmetic.forgotten", "must_pass"}


def test_the_workflow_runs_existing_commands_and_keeps_the_report() -> None:
    workflow = yaml.load((EXAMPLES / "ci-gate.yml").read_text(), Loader=yaml.BaseLoader)
    assert set(workflow["on"]) == {"pull_request", "workflow_dispatch"}
    steps = workflow["jobs"]["gate"]["steps"]
    (command,) = [step["run"] for step in steps if step.get("name") == "gate"]
    _, name, _, _, *options = command.split()
    assert (name, options[::2]) == ("compare", ["--gate", "-o"])
    helped = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout
    assert all(option in helped for option in options[::2])
    (upload,) = [step for step in steps if step.get("uses", "").startswith("actions/upload-artifact@")]
    assert (upload["with"]["path"], upload["if"]) == (options[-1], "always()")
