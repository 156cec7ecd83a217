"""TRL's own scripts with the callback in their trainers, run with the files in configs/."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import model, probe, tokenizer, write_jsonl

from forgetwatch import Trajectory
from forgetwatch.errors import ForgetwatchError

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
    network = model(tok)
    network.save_pretrained(tmp_path / "model")
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
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from forgetwatch.trl import main

    probe().save(tmp_path / "probe.jsonl")
    given = [
        "sft",
        "--use_cpu",
        "True",
        "--bf16",
        "False",
        "--output_dir",
        str(tmp_path),
        "--forget_probe",
        str(tmp_path / "probe.jsonl"),
    ]
    with pytest.raises(SystemExit):
        main([*given, "--forget_guard", "halt"])
    assert "choose from 'warn', 'save', 'stop', 'none'" in capsys.readouterr().err
