"""A guard that decides by a policy, and a training that goes back to its last good checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import facts, model, teach, tokenizer, trained
from transformers import TrainerCallback

from forgetwatch import ForgetWatchCallback, Probe, Trajectory
from forgetwatch.errors import GateError, WatchError
from forgetwatch.run import Guard
from forgetwatch.run_folder import task_figure

TOK = tokenizer()
ITEMS = 60
POLICY = """policy: release
critical: [{of: all, accuracy: 2%}]
supporting: {unclear: all, limits: [{of: "category:*", accuracy: 5%}]}
on_fail: rollback
"""


def probe() -> Probe:
    return Probe(facts(ITEMS, ending=" A :"), name="taught")


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    """A model that knows the right answers."""
    texts = [f"{item.prompt}{item.choices[int(item.answers[0])]}" for item in probe()]
    return dict(teach(model(TOK, dropout=0.0), TOK, texts, 150).state_dict())


def run(folder: Path, weights: dict[str, torch.Tensor], guard: Any, **options: Any) -> Any:
    network = model(TOK, dropout=0.0)
    network.load_state_dict(weights)
    watched = ForgetWatchCallback(probe=probe(), every=1, max_overhead=None, guard=guard)
    first = options.pop("first", [])
    settings = {"steps": 8, "save_strategy": "steps", "save_steps": 1, "learning_rate": 1e-2, **options}
    return trained(folder, callbacks=[*first, watched], network=network, **settings)


def test_a_training_ends_and_goes_back_to_the_last_checkpoint_that_did_not_fail(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    made = run(tmp_path / "a", weights, str(tmp_path / "policy.yaml"))
    said = capsys.readouterr().err
    assert "policy release: all accuracy -" in said
    assert "the guard stops the run at step" in said
    stopped = made.state.global_step
    assert 1 < stopped < 8
    (line,) = [line for line in said.splitlines() if "the last checkpoint whose look did not fail" in line]
    good = Path(line.split("the weights are those of ")[1].split(", the last")[0])
    # Of several good ones the last: the one right before the first that failed.
    assert good.name == f"checkpoint-{stopped - 1}"
    from transformers import AutoModelForCausalLM

    saved = AutoModelForCausalLM.from_pretrained(good)
    pairs = zip(made.model.state_dict().values(), saved.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    trajectory = Trajectory.from_run(tmp_path / "a")
    assert trajectory.steps[-1] == stopped
    assert {finding.what for finding in trajectory.findings} == {"policy"}
    assert trajectory.findings[0].step == stopped


def test_with_adapters_it_goes_back_to_theirs(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    peft = pytest.importorskip("peft")
    lora = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "up_proj"], task_type="CAUSAL_LM")
    (tmp_path / "policy.yaml").write_text(POLICY)
    made = run(tmp_path / "a", weights, str(tmp_path / "policy.yaml"), peft_config=lora, learning_rate=3e-2, steps=20)
    said = capsys.readouterr().err
    (line,) = [line for line in said.splitlines() if "the last checkpoint whose look did not fail" in line]
    good = Path(line.split("the weights are those of ")[1].split(", the last")[0])
    saved = load_file(good / "adapter_model.safetensors")
    now = peft.get_peft_model_state_dict(made.model)
    assert all(torch.equal(now[name], tensor) for name, tensor in saved.items())


def test_without_a_good_checkpoint_the_weights_stay(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    run(tmp_path / "a", weights, str(tmp_path / "policy.yaml"), save_strategy="no", learning_rate=2e-2)
    assert "no checkpoint that can be loaded and whose look did not fail: the weights stay" in capsys.readouterr().err


def test_checkpoints_of_an_earlier_training_are_never_loaded(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    run(tmp_path / "a", weights, None, learning_rate=1e-6)
    made = run(tmp_path / "a", weights, str(tmp_path / "policy.yaml"), save_strategy="no")
    said = capsys.readouterr().err
    assert made.state.global_step < 8
    assert "this run has no checkpoint that can be loaded" in said
    assert "keep" not in said
    stale = [load_file(folder / "model.safetensors") for folder in (tmp_path / "a").glob("checkpoint-*")]
    now = made.model.state_dict()
    assert not any(torch.equal(one["model.norm.weight"], now["model.norm.weight"]) for one in stale)
    assert task_figure(tmp_path / "a") is None


class Damage(TrainerCallback):
    """Damages the checkpoints of a run at its end, before the guard loads one."""

    def __init__(self, act: Callable[[Path], object]) -> None:
        self.act = act

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.act(Path(args.output_dir) / f"checkpoint-{state.global_step - 1}")


def exchange(folder: Path) -> None:
    """Put weights of equal size in place of those that were saved, with their time."""
    file = folder / "model.safetensors"
    times = file.stat()
    save_file({name: torch.zeros_like(one) for name, one in load_file(file).items()}, file, {"format": "pt"})
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def delete(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def hide(folder: Path) -> None:
    """Change one number at the end of the file, where no sample is taken."""
    file = folder / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-2] + bytes(255 - byte for byte in content[-2:]))


@pytest.mark.parametrize("act", [exchange, delete, hide])
def test_where_the_newest_good_checkpoint_is_not_what_was_saved_the_one_before_it_is_loaded(
    tmp_path: Path,
    weights: dict[str, torch.Tensor],
    capsys: pytest.CaptureFixture[str],
    act: Callable[[Path], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("forgetwatch.run_folder.description._PIECES", 0 if act is hide else 64)
    (tmp_path / "policy.yaml").write_text(POLICY)
    made = run(tmp_path / "a", weights, str(tmp_path / "policy.yaml"), first=[Damage(act)], learning_rate=6e-3)
    said = capsys.readouterr().err
    stopped = made.state.global_step
    older = tmp_path / "a" / f"checkpoint-{stopped - 2}"
    assert stopped > 2
    assert f"the weights are those of {older}, the last checkpoint whose look did not fail" in said
    saved = load_file(older / "model.safetensors")
    assert all(torch.equal(saved[name], one) for name, one in made.model.state_dict().items() if name in saved)


def test_a_policy_that_holds_leaves_the_training_alone(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace(" 2%", " 95%").replace(" 5%", " 95%"))
    made = run(tmp_path / "a", weights, str(tmp_path / "policy.yaml"), learning_rate=1e-6)
    assert made.state.global_step == 8
    assert "the guard stops" not in capsys.readouterr().err


def test_an_action_a_guard_and_a_policy_are_told_apart(tmp_path: Path) -> None:
    assert Guard.of(None, probe()) is None
    assert Guard.of("stop", probe()) == Guard("stop")
    own = Guard("save", no_worse_than="10%")
    assert Guard.of(own, probe()) is own
    ready = Guard.of("fine-tune", probe())
    assert ready is not None
    assert ready.policy is not None
    assert (ready.action, ready.policy.name) == ("warn", "fine-tune")
    with pytest.raises(WatchError, match=r"guard='stopp': needed warn.*did you mean 'stop'"):
        ForgetWatchCallback(probe=probe(), guard="stopp")
    path = tmp_path / "p.yaml"
    path.write_text("critical: [{of: 'category:c', accuracy: 2%}]")
    with pytest.raises(GateError, match="the probe 'taught' has no category 'c'"):
        ForgetWatchCallback(probe=probe(), guard=path)
