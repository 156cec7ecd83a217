"""Every example runs with few steps, from one small trained base, and shows lost questions."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from support import snapshot
from typer.testing import CliRunner

from forgetwatch import Trajectory, demo, load_probe
from forgetwatch.cli import app
from forgetwatch.comparing.stages import read_stages
from forgetwatch.policy.policy import load_policy
from forgetwatch.policy.ruling import Sides, apply_policy
from forgetwatch.probes.shipped_probes import RELATIONS
from forgetwatch.study.plan import read_plan

EXAMPLES = Path(__file__).parent.parent / "examples"
RUNS: dict[str, tuple[str, ...]] = {
    "sft": ("--steps", "6"),
    "lora": ("--steps", "6"),
    "dpo": ("--steps", "4"),
    "grpo": ("--steps", "10", "--tokens", "4"),
    "own_loop": ("--steps", "8"),
    "guard": ("--steps", "6", "--every", "3"),
}
"""Options of each training script in the tests, next to model, data and output."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data of the demo, and its base, taught for a shorter time."""

    folder = tmp_path_factory.mktemp("written")
    world = demo.facts()
    demo.write_data(
        folder / "data", [fact for fact in world if fact.relation.category in demo.TAUGHT][:48]
    )
    tokenizer = demo.make_tokenizer(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "BASE_STEPS", 120)
        model = demo.teach_base(world[::2], tokenizer)
    model.save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
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


def run(name: str, options: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Run an example with options; what it and its commands print."""
    module, lines = example(name), list[str]()

    def command(arguments: Sequence[object], **_: Any) -> None:
        done = subprocess.run(list(map(str, arguments)), capture_output=True, text=True, check=True)
        lines.append(done.stdout)

    monkeypatch.setattr(sys, "argv", [name, *options])
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    if hasattr(module, "subprocess"):
        monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=command))
    module.main(module.options())
    return "".join(lines)


def test_every_example_is_run_by_a_test() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {
        *RUNS,
        "near_on_policy",
        "own_judge",
        "shipped",
        "stages",
        "two_modes",
    }


@pytest.mark.full(reason="further examples, which train as the others do")
@pytest.mark.filterwarnings(
    "ignore:MatMul8bitLt:UserWarning"
)  # bitsandbytes' own, where it is installed
def test_the_forms_of_a_trained_adapter_are_compared_with_it(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    tuned = AutoModelForCausalLM.from_pretrained(written / "base")
    tuned = get_peft_model(tuned, LoraConfig(target_modules=["q_proj"]))
    torch.nn.init.normal_(
        tuned.base_model.model.model.layers[0].self_attn.q_proj.lora_B["default"].weight
    )
    tuned.save_pretrained(tmp_path / "adapter")
    run(
        "shipped",
        ["--model", str(tmp_path / "adapter"), "--output", str(tmp_path / "forms")],
        monkeypatch,
    )
    printed = capsys.readouterr().out.splitlines()
    merged = next(line for line in printed if line.startswith("merged"))
    assert re.search(
        r"merged +\d forgotten and \d gained of 360, net [+-]\d\.\d points .*; drift 0\.0000 nats",
        merged,
    )
    quantized = [line for line in printed if line.startswith(("8-bit", "4-bit"))]
    assert len(quantized) == (2 if find_spec("bitsandbytes") else 1)
    assert (tmp_path / "forms" / "merged" / "config.json").is_file()


@pytest.mark.full(
    "dpo",
    "grpo",
    "guard",
    "lora",
    "own_loop",
    reason="further examples, which train as the others do",
)
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
@pytest.mark.filterwarnings(
    "ignore:.*is deprecated and will be removed in v6:FutureWarning"
)  # TRL's own calls
@pytest.mark.parametrize("name", RUNS)
def test_an_example_trains_and_shows_what_is_lost(
    name: str, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    data = (
        written / "data" / ("preferences" if name in ("dpo", "grpo") else "texts") / "train.jsonl"
    )
    output = tmp_path / "run"
    given = [
        "--model",
        str(written / "base"),
        "--data",
        str(data),
        "--output",
        str(output),
        "--rate",
        "0.01",
    ]
    printed = run(name, [*given, *RUNS[name]], monkeypatch)
    trajectory = Trajectory.from_run(output)
    assert trajectory.steps[0] == 0
    assert len(trajectory) > 1
    assert trajectory.comparisons[-1].all.n >= 250
    assert trajectory.comparisons[-1].all.forgotten
    assert re.search(r"  before .+\n  after ", printed)
    if name == "guard":
        assert f"best checkpoint: {tmp_path}" in capsys.readouterr().out


@pytest.mark.full(reason="further examples, which train as the others do")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true")
@pytest.mark.filterwarnings(
    "ignore:.*is deprecated and will be removed in v6:FutureWarning"
)  # TRL's own calls
def test_stages_are_trained_one_after_another_and_shown_as_a_matrix(
    written: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FORGETWATCH_CACHE", str(tmp_path / "cache"))
    given = [
        "--model",
        str(written / "base"),
        "--output",
        str(tmp_path),
        "--steps",
        "4",
        "--rate",
        "0.01",
    ]
    printed = run("stages", given, monkeypatch)
    assert "stage 3 of this model, after 1-weather and 2-nature" in capfd.readouterr().err
    shown = re.findall(r"^(base|1-weather|2-nature|3-sky) +\d+\.\d", printed, flags=re.MULTILINE)
    assert shown == ["base", "1-weather", "2-nature", "3-sky"]
    line = read_stages([tmp_path / name for name in shown[1:]])
    assert line.matrix is not None
    assert [row.since_first.all.forgotten for row in line.matrix.rows] == [
        line.comparisons[line.steps.index(step)].all.forgotten for step in (4, 8, 12)
    ]
    assert (tmp_path / "stages" / "stages.png").is_file()
    assert (
        "Each stage, against the base and against the stage before."
        in (tmp_path / "stages.html").read_text()
    )


def test_items_with_their_own_judge_are_compared(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = str(written / "base")
    given = ["--before", base, "--after", base, "--output", str(tmp_path), "--tokens", "2"]
    assert "none of 60 changed" in run("own_judge", given, monkeypatch)
    rows = [json.loads(line) for line in (tmp_path / "before.jsonl").read_text().splitlines()]
    assert {row["category"] for row in rows} == {relation.category for relation in RELATIONS}
    assert any(row["correct"] for row in rows)
    judge = example("own_judge").judge
    assert (
        judge({"wanted": " red"}, "red ."),
        judge({"wanted": " red"}, "blue"),
        judge({"wanted": " red"}, " "),
    ) == (
        True,
        False,
        None,
    )


@pytest.mark.full(reason="further examples, which train as the others do")
@pytest.mark.filterwarnings("ignore")  # SDFT announces that it is experimental, and more
def test_three_methods_are_shown_at_their_best_look_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    pytest.importorskip("trl.experimental.sdft")
    run(
        "near_on_policy",
        ["--output", str(tmp_path), "--base-steps", "40", "--steps", "10"],
        monkeypatch,
    )
    printed = capsys.readouterr().out
    rows = re.findall(
        r"^(SFT|SDFT|GRPO) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+)$", printed, re.MULTILINE
    )
    assert [row[0] for row in rows] == ["SFT", "SDFT", "GRPO"]
    for name, step, gained, lost, *end in rows:
        look = Trajectory.from_run(tmp_path / name)
        at = look.comparisons[look.steps.index(int(step))].all
        assert (at.gained, at.forgotten) == (int(gained), int(lost))
        assert at.accuracy_after == max(one.all.accuracy_after for one in look.comparisons)
        assert [look.comparisons[-1].all.gained, look.comparisons[-1].all.forgotten] == [
            int(value) for value in end
        ]


@pytest.mark.full(reason="further examples, which train as the others do")
def test_the_two_modes_are_drawn_and_their_written_numbers_printed(
    tmp_path: Path, capsys: Any
) -> None:
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
    cited, derived = (
        [part for part in parts if word in part] for word in ("2603.12163", "derived here")
    )
    assert (len(cited), [part.startswith("mass and means move") for part in derived]) == (
        3,
        [True, False],
    )
    titles = [panel.get_title() for panel in two_modes.figure().axes]
    assert sum("2603.12163" in title for title in titles) == 1  # the picture too says what is cited
    assert sum("derived here" in title for title in titles) == 1


def test_the_gate_file_applies_to_any_probe() -> None:
    items = load_probe("demo")
    policy = load_policy(str(EXAMPLES / "gate.yaml"), items)
    columns = {
        "item_id": [i.id for i in items],
        "task": [i.task for i in items],
        "category": [i.category for i in items],
    }
    base = snapshot([True] * len(items), k=[2] * len(items), **columns)
    assert apply_policy(policy, Sides(before=base, after=base)).answer == "PASS"
    worse = snapshot([i.category != "Sky" for i in items], k=[2] * len(items), **columns)
    result = apply_policy(policy, Sides(before=base, after=worse))
    failed = {one.what for one in result.rulings if one.answer == "FAIL"}
    assert failed == {"all accuracy"}


def test_the_workflow_runs_existing_commands_and_keeps_the_report() -> None:
    workflow = yaml.load((EXAMPLES / "ci-gate.yml").read_text(), Loader=yaml.BaseLoader)
    assert set(workflow["on"]) == {"pull_request", "workflow_dispatch"}
    steps = workflow["jobs"]["gate"]["steps"]
    (command,) = [step["run"] for step in steps if step.get("name") == "gate"]
    _, name, _, _, *options = command.split()
    assert (name, options[::2]) == ("gate", ["--policy", "--comment"])
    helped = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout
    assert all(option in helped for option in options[::2])
    (upload,) = [
        step for step in steps if step.get("uses", "").startswith("actions/upload-artifact@")
    ]
    assert (upload["with"]["path"], upload["if"]) == (options[-1], "always()")


def test_the_workflow_of_a_policy_updates_the_comment_that_begins_with_its_marker() -> None:
    workflow = yaml.load((EXAMPLES / "policy-comment.yml").read_text(), Loader=yaml.BaseLoader)
    steps = {step.get("name"): step for step in workflow["jobs"]["policy"]["steps"]}
    _, name, _, _, *options = steps["policy"]["run"].split()
    assert (name, options[::2]) == ("gate", ["--policy", "--json", "--comment"])
    helped = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout
    assert all(option in helped for option in options[::2])
    assert "head -n 1 comment.md" in steps["comment"]["run"]
    assert steps["comment"]["if"].startswith("always()")


def test_the_study_of_the_demo_names_what_the_demo_writes(tmp_path: Path) -> None:
    text = (EXAMPLES.parent / "configs" / "demo_study.yaml").read_text(encoding="utf-8")
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "study.yaml").write_text(text, encoding="utf-8")
    steps = range(demo.TUNE_STEPS // 6, demo.TUNE_STEPS + 1, demo.TUNE_STEPS // 6)
    for name in ("base", *(f"run/checkpoint-{step}" for step in steps)):
        (tmp_path / "forgetwatch-demo" / name).mkdir(parents=True)
    plan = read_plan(tmp_path / "configs" / "study.yaml")
    assert [pair.name for pair in plan.pairs] == ["step 30", "step 90", "step 180"]
    assert {Path(source.location).name for source in plan.sources} == {
        *("base", "checkpoint-30", "checkpoint-90", "checkpoint-180")
    }
