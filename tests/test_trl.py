"""TRL's own scripts with the callback in their trainers, run with the files in configs/."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from support import model, probe, tokenizer, write_jsonl

from forgetwatch import ForgetWatchCallback, Trajectory
from forgetwatch.errors import ForgetwatchError, WatchError

CONFIGS = Path(__file__).parent.parent / "configs"
DATA: dict[str, list[dict[str, Any]]] = {
    "sft": [{"text": f"w{n} w{n + 1} w{n + 2} w{n + 3}"} for n in range(16)],
    "dpo": [{"prompt": f"w{n}", "chosen": f" w{n + 1} w3", "rejected": f" w{n + 2}"} for n in range(16)],
    "grpo": [{"prompt": f"w{n} w{n + 1}"} for n in range(16)],
}
MORE: dict[str, list[str]] = {
    "sft": [],
    "dpo": [],
    "grpo": ["--max_completion_length", "6", "--num_generations", "2", "--reward_funcs", "rewards_for_tests.length"],
}

pytestmark = [
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true"),
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning"),
]


@pytest.mark.parametrize("kind", sorted(DATA))
def test_a_script_runs_with_its_config_and_leaves_its_looks(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trl

    from forgetwatch.trl import TRAINERS, main

    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewards_for_tests.py").write_text(
        "def length(completions, **kwargs):\n    return [float(len(text)) for text in completions]\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    tok = tokenizer()
    model(tok).save_pretrained(tmp_path / "model")
    tok.save_pretrained(tmp_path / "model")
    (tmp_path / "data").mkdir()
    write_jsonl(tmp_path / "data" / "train.jsonl", DATA[kind])
    probe().save(tmp_path / "probe.jsonl")
    trainer = getattr(trl, TRAINERS[kind])
    arguments = ["--model_name_or_path", "model", "--dataset_name", "data", "--output_dir", "run", "--max_steps", "2"]
    arguments += ["--per_device_train_batch_size", "2", "--forget_probe", "probe.jsonl", "--bf16", "False"]
    main([kind, "--config", str(CONFIGS / f"{kind}.yaml"), *arguments, *MORE[kind]])
    assert Trajectory.from_run(tmp_path / "run").steps[-1] == 2
    rows = json.loads((tmp_path / "run" / "checkpoint-2" / "trainer_state.json").read_text())["log_history"]
    assert any("eval_forget/all/forgotten" in row for row in rows)
    assert getattr(trl, TRAINERS[kind]) is trainer


@pytest.mark.parametrize(
    ("arguments", "says"), [([], "needed one of sft, dpo"), (["ppo"], "got ppo")], ids=["nothing", "another"]
)
def test_an_unknown_script_is_refused(arguments: list[str], says: str) -> None:
    from forgetwatch.trl import main

    with pytest.raises(ForgetwatchError, match=says):
        main(arguments)


def test_a_key_out_of_range_is_refused_before_anything_is_loaded(
    tmp_path: Path,
) -> None:
    from forgetwatch.trl import main

    probe().save(tmp_path / "probe.jsonl")
    given = ["sft", "--use_cpu", "True", "--bf16", "False", "--output_dir", str(tmp_path)]
    given += ["--forget_probe", str(tmp_path / "probe.jsonl")]
    with pytest.raises(WatchError, match="guard='halt': needed warn, save, stop, rollback, fine-tune"):
        main([*given, "--forget_guard", "halt"])


def parsed(arguments: list[str], **of_file: Any) -> Any:
    """Callback of a command line and a file, as TRL's parser reads them."""
    import trl

    from forgetwatch.trl import arguments_class, callback_of

    parser = trl.TrlParser((arguments_class(),))
    assert parser.set_defaults_with_config(**of_file) == []
    return callback_of(*parser.parse_args_into_dataclasses(arguments))


def test_every_argument_of_the_callback_is_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["--help"])
    shown = capsys.readouterr().out
    assert all(f"--forget_{name} " in shown for name in inspect.signature(ForgetWatchCallback).parameters)


def test_without_keys_the_callback_has_its_defaults() -> None:
    given, default = parsed([]), ForgetWatchCallback()
    assert given.probe.fingerprint == default.probe.fingerprint
    kept = [{k: v for k, v in vars(one).items() if k != "probe"} for one in (given, default)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("from_file", [True, False], ids=["file", "command line"])
def test_a_key_sets_its_argument(tmp_path: Path, *, from_file: bool) -> None:
    probe().save(tmp_path / "probe.jsonl")
    values: dict[str, Any] = {
        "probe": str(tmp_path / "probe.jsonl"),
        "every": [10, 50],
        "max_overhead": 0.1,
        "guard": "none",
        "on_look": "echo {step}",
        "composite": "accuracy",
        "log": "full",
        "share_text": True,
        "strict": True,
        "drift": False,
    }
    if from_file:
        made = parsed([], **{f"forget_{name}": value for name, value in values.items()})
    else:
        texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
        made = parsed([word for name, text in texts.items() for word in (f"--forget_{name}", text)])
    assert made.probe.fingerprint == probe().fingerprint
    assert (made.every, made.max_overhead) == ([10, 50], 0.1)
    assert (made.guard, made.composite, made.log) == (None, "accuracy", "full")
    assert made.on_look.template == "echo {step}"
    assert (made.share_text, made.strict, made.drift) == (True, True, False)


@pytest.mark.parametrize(("given", "every"), [("200", 200), ("save", "save"), ("[1, 2]", [1, 2])])
def test_a_schedule_on_the_command_line(given: str, every: Any) -> None:
    assert parsed(["--forget_every", given]).every == every


@pytest.mark.parametrize(
    ("key", "given", "says"),
    [
        ("every", "sometimes", "every='sometimes' is not a schedule"),
    ],
)
def test_a_value_without_a_meaning_is_refused(key: str, given: str, says: str) -> None:
    with pytest.raises(ForgetwatchError, match=says):
        parsed([f"--forget_{key}", given])
