"""TRL's own scripts with the callback in their trainers, run with the files in configs/."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import model, probe, tokenizer, write_jsonl

from forgetwatch import ForgetWatchCallback, Trajectory
from forgetwatch.errors import ForgetwatchError, WatchError

CONFIGS = Path(__file__).parent.parent / "configs"
DATA: dict[str, list[dict[str, Any]]] = {
    "sft": [{"text": f"w{n} w{n + 1} w{n + 2} w{n + 3}"} for n in range(16)],
    "dpo": [
        {"prompt": f"w{n}", "chosen": f" w{n + 1} w3", "rejected": f" w{n + 2}"} for n in range(16)
    ],
    "grpo": [{"prompt": f"w{n} w{n + 1}"} for n in range(16)],
}
MORE: dict[str, list[str]] = {
    "sft": [],
    "dpo": [],
    "grpo": [
        "--max_completion_length",
        "6",
        "--num_generations",
        "2",
        "--reward_funcs",
        "rewards_for_tests.length",
    ],
}

pytestmark = [
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true"),
    pytest.mark.filterwarnings("ignore:.*is deprecated and will be removed in v6:FutureWarning"),
]


@pytest.mark.full("dpo", "grpo", reason="a training with further settings")
@pytest.mark.parametrize("kind", sorted(DATA))
def test_a_script_runs_with_its_config_and_leaves_its_looks(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trl

    from forgetwatch.trl import TRAINERS, main

    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewards_for_tests.py").write_text(
        "def length(completions, **kwargs):\n    return [float(len(text)) for text in completions]\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    tok = tokenizer()
    model(tok).save_pretrained(tmp_path / "model")
    tok.save_pretrained(tmp_path / "model")
    (tmp_path / "data").mkdir()
    write_jsonl(tmp_path / "data" / "train.jsonl", DATA[kind])
    probe().save(tmp_path / "probe.jsonl")
    trainer = getattr(trl, TRAINERS[kind])
    arguments = [
        "--model_name_or_path",
        "model",
        "--dataset_name",
        "data",
        "--output_dir",
        "run",
        "--max_steps",
        "2",
    ]
    arguments += [
        "--per_device_train_batch_size",
        "2",
        "--forget",
        "{probe: probe.jsonl}",
        "--bf16",
        "False",
    ]
    main([kind, "--config", str(CONFIGS / f"{kind}.yaml"), *arguments, *MORE[kind]])
    assert Trajectory.from_run(tmp_path / "run").steps[-1] == 2
    rows = json.loads((tmp_path / "run" / "checkpoint-2" / "trainer_state.json").read_text())[
        "log_history"
    ]
    assert any("eval_forget/all/forgotten" in row for row in rows)
    assert getattr(trl, TRAINERS[kind]) is trainer


@pytest.mark.parametrize(
    ("arguments", "says"),
    [([], "needed one of sft, dpo"), (["ppo"], "got ppo")],
    ids=["nothing", "another"],
)
def test_an_unknown_script_is_refused(arguments: list[str], says: str) -> None:
    from forgetwatch.trl import main

    with pytest.raises(ForgetwatchError, match=says):
        main(arguments)


def test_a_value_out_of_range_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    from forgetwatch.trl import main

    given = ["sft", "--use_cpu", "True", "--bf16", "False", "--output_dir", str(tmp_path)]
    with pytest.raises(
        WatchError, match="guard='halt': needed warn, save, stop, rollback, fine-tune"
    ):
        main([*given, "--forget", "{probe: demo, guard: halt}"])


def parsed(arguments: list[str], **of_file: Any) -> ForgetWatchCallback:
    """Callback of a command line and a file, as TRL's parser reads them."""
    import trl

    from forgetwatch.trl import ForgetArguments, settings

    parser = trl.TrlParser((ForgetArguments,))
    assert parser.set_defaults_with_config(**of_file) == []
    (own,) = parser.parse_args_into_dataclasses(arguments)
    return ForgetWatchCallback(**settings(own.forget, key="forget"))


def test_the_help_names_every_argument_of_the_callback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["--help"])
    words = {word.strip(",") for word in capsys.readouterr().out.split("--forget")[-1].split()}
    assert words >= set(inspect.signature(ForgetWatchCallback).parameters)


def test_without_the_key_the_callback_has_its_defaults() -> None:
    given, default = parsed([]), ForgetWatchCallback()
    assert given.probe.fingerprint == default.probe.fingerprint
    assert vars(given.settings) == vars(default.settings)


@pytest.mark.parametrize("given", ["file", "JSON", "YAML"])
def test_the_key_sets_the_arguments(tmp_path: Path, given: str) -> None:
    probe().save(tmp_path / "probe.jsonl")
    values: dict[str, Any] = {
        "probe": str(tmp_path / "probe.jsonl"),
        "every": [10, 50],
        "max_overhead": 0.1,
        "guard": None,
        "on_look": "echo {step}",
        "composite": "accuracy",
        "log": "full",
        "share_text": True,
        "strict": True,
        "drift": False,
    }
    if given == "file":
        made = parsed([], forget=values)
    else:
        text = json.dumps(values) if given == "JSON" else yaml.safe_dump(values)
        made = parsed(["--forget", text], forget={"every": "save"})
    assert made.probe.fingerprint == probe().fingerprint
    assert (made.settings.every, made.settings.max_overhead) == ([10, 50], 0.1)
    assert (made.settings.guard, made.settings.composite, made.settings.full) == (
        None,
        "accuracy",
        True,
    )
    assert (made.settings.on_look and made.settings.on_look.template) == "echo {step}"
    assert (made.settings.share_text, made.settings.strict, made.settings.drift) == (
        True,
        True,
        False,
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("{every: sometimes}", "every='sometimes' is not a schedule"),
        ("{max_overhead: much}", "max_overhead='much': needed a share"),
        ("{prob: demo}", "forget: unknown name 'prob', did you mean 'probe'"),
        ("demo", r"forget: needed a block of names and values, such as {guard: stop}, got 'demo'"),
        ("{probe: demo", "forget: needed YAML or JSON, got '{probe: demo'"),
    ],
)
def test_what_has_no_meaning_is_refused(given: str, says: str) -> None:
    with pytest.raises(ForgetwatchError, match=says):
        parsed(["--forget", given])
