"""The guard: what trips it, what it only reports, and that each finding is reported and stored once.

A guard that decides by a policy, and a training that goes back to its last good checkpoint.
"""

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from run_folders import write_run
from safetensors.torch import load_file, save_file
from support import facts, model, probe, snapshot, teach, tokenizer, trained
from transformers import TrainerCallback

from forgetwatch import ForgetWatchCallback, Probe, Snapshot, Trajectory
from forgetwatch.comparing.document import trajectory_json
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.errors import GateError, WatchError
from forgetwatch.metrics.transitions import Floats
from forgetwatch.run import guard as guard_module
from forgetwatch.run.guard import Guard, finding_lines
from forgetwatch.run.run import Run
from forgetwatch.run.run_output import stopped_line
from forgetwatch.run_folder.contents import StoredRun, task_figure
from forgetwatch.run_folder.description import GuardFinding

pytestmark = pytest.mark.usefixtures("without_pictures")


def look(right: list[bool], step: int, **columns: object) -> Snapshot:
    return snapshot(right, meta={"step": step}, **columns)


def lost(items: int, flipped: int, *, looks: int = 2) -> Trajectory:
    """A run that loses the first items of two categories, of which the first is a tenth of all."""
    category = ["a"] * (items // 10) + ["b"] * (items - items // 10)
    later = [False] * flipped + [True] * (items - flipped)
    start = look([True] * items, 0, category=category)
    return trajectory_of(
        [start, *(look(later, at, category=category) for at in range(1, looks + 1))], planned=looks
    )


def whats(found: list[GuardFinding]) -> list[str]:
    return [one.what for one in found if one.name == "all:all"]


def test_a_limit_trips_at_any_look_and_shares_its_error_over_them() -> None:
    assert whats(Guard(no_worse_than="10%").findings(lost(2000, 400))) == ["alarm"]
    found = Guard(no_worse_than="10%").findings(lost(2000, 400, looks=1))
    assert [(one.what, one.name) for one in found if one.what == "policy"] == [
        ("policy", "all accuracy")
    ]
    (line,) = (one.line for one in found if one.what == "policy")
    assert re.fullmatch(
        r"all accuracy -20\.0 points \(.*\) \(no worse than -10 points\): beyond .* at step 1", line
    )
    assert not [
        one for one in Guard(no_worse_than="25%").findings(lost(2000, 400)) if one.what == "policy"
    ]
    assert not [
        one for one in Guard(no_worse_than=None).findings(lost(2000, 400)) if one.what == "policy"
    ]


def of_margins(*margins: Floats) -> Trajectory:
    """A run whose looks have these margins, in six categories of equal size."""
    rows = len(margins[0])
    looks = [
        look(
            (one > 0).tolist(),
            step,
            k=[4] * rows,
            gold=[0] * rows,
            chosen=np.where(one > 0, 0, 1),
            choice_logprobs=[[value, 0.0, -9.0, -9.0] for value in one.tolist()],
            category=[f"C{row % 6}" for row in range(rows)],
        )
        for step, one in enumerate(margins)
    ]
    return trajectory_of(looks, planned=len(margins) - 1)


def told(run: Trajectory) -> list[list[str]]:
    """Lines that a run with a guard logs, by look."""
    guard, watched, lines = Guard(), Run(probe(), "nowhere"), list[list[str]]()
    for last in range(2, len(run) + 1):
        so_far = replace(run, steps=run.steps[:last], comparisons=run.comparisons[:last])
        new = watched.note(guard.findings(so_far))
        lines.append(finding_lines(new))
    return lines


def test_an_unchanged_run_raises_nothing() -> None:
    margins = np.random.default_rng(0).normal(1, 2, 360)
    assert told(of_margins(*[margins] * 7)) == [[]] * 6


def test_a_destroyed_run_logs_at_most_one_line_on_alarms_and_one_on_the_rest_at_a_look() -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(1, 2, 360)
    looks = [start + (rng.normal(-1, 2, 360) - start) * min(1.0, step / 2) for step in range(7)]
    (alarm, limit), second, *later = told(of_margins(*looks))
    assert alarm == "ALARM: all -24 points (step 1), and 5 categories"
    assert re.fullmatch(
        r"guard: all accuracy -23\.6 points \(.*\) \(no worse than -2 points\): beyond the limit at step 1",
        limit,
    )
    assert second == [
        "ALARM: 78.2 % of what it clearly knew is lost (step 2); C2 -28 points (step 2)"
    ]
    assert later == [[]] * 4


def test_a_line_on_several_findings_names_the_first_and_counts_the_others() -> None:
    items = [
        GuardFinding("must_pass", name, 2, f"item {name}, which must pass, was lost")
        for name in "abcdef"
    ]
    limits = [
        GuardFinding("policy", name, 2, f"{name} fell")
        for name in ("all accuracy", "category:b accuracy")
    ]
    alarms = [
        GuardFinding("alarm", name, 2, f"ALARM: {name}") for name in ("all:all", "category:a")
    ]
    assert finding_lines([*alarms, *limits, *items], stops=2) == [
        "ALARM: all:all, and 1 category",
        "the guard stops the run at step 2: all accuracy fell, and 1 more limit; items a, b, c, d and 2 more, which "
        "must pass, were right and are wrong at step 2",
    ]
    assert finding_lines([GuardFinding("must_pass", "g", 3, "lost")]) == ["guard: lost"]
    assert finding_lines([], stops=3) == ["the guard stops the run at step 3"]


def test_each_finding_is_reported_once_also_after_a_resume() -> None:
    found = Guard().findings(lost(60, 20))
    run = Run(probe(), "nowhere")
    assert run.note(found) == found
    assert run.note(found) == []
    assert run.state.findings == tuple(found)
    assert [GuardFinding.of(json.loads(json.dumps(vars(one)))) for one in found] == found


def test_the_line_at_a_resume_names_what_stopped_the_run() -> None:
    items = [GuardFinding("must_pass", name, 5, f"item {name} was lost") for name in "ab"]
    assert stopped_line(5, findings=items, stops_again=True) == (
        "the guard stopped this run at step 5: item a was lost, and 1 more; the training stops again after its first "
        'step; Guard("stop", override=True) continues it'
    )
    assert stopped_line(5, findings=items[:1], stops_again=False) == (
        "the guard stopped this run at step 5: item a was lost; the training continues all the same"
    )


def test_findings_are_read_from_the_run_folder_and_are_in_the_document(tmp_path: Path) -> None:
    made = lost(60, 20)
    findings = tuple(Guard().findings(made))
    write_run(tmp_path, probe(), made.baseline, {2: made.last}, findings=findings)
    assert StoredRun.read(tmp_path).findings == findings
    trajectory = Trajectory.from_run(tmp_path)
    assert trajectory.findings == findings
    assert trajectory_json(trajectory)["guard"] == [vars(one) for one in findings]


TOK = tokenizer()
ITEMS = 60
POLICY = """policy: release
critical: [{of: all, accuracy: 2%}]
supporting: {unclear: all, limits: [{of: "category:*", accuracy: 5%}]}
on_fail: rollback
"""


def probe_of_policy_guard() -> Probe:
    return Probe(facts(ITEMS, ending=" A :"), name="taught")


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    """A model that knows the right answers."""
    texts = [
        f"{item.prompt}{item.choices[int(item.answers[0])]}" for item in probe_of_policy_guard()
    ]
    return dict(teach(model(TOK, dropout=0.0), TOK, texts, 150).state_dict())


def run(folder: Path, weights: dict[str, torch.Tensor], guard: Any, **options: Any) -> Any:
    network = model(TOK, dropout=0.0)
    network.load_state_dict(weights)
    watched = ForgetWatchCallback(
        probe=probe_of_policy_guard(), every=1, max_overhead=None, guard=guard
    )
    first = options.pop("first", [])
    settings = {
        "steps": 8,
        "save_strategy": "steps",
        "save_steps": 1,
        "learning_rate": 1e-2,
        **options,
    }
    return trained(folder, callbacks=[*first, watched], network=network, **settings)


def test_a_training_ends_and_goes_back_to_the_last_checkpoint_that_did_not_fail(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace("{of: all, accuracy: 2%}", "forgotten>3"))
    made = run(tmp_path / "a", weights, str(tmp_path / "policy.yaml"), learning_rate=3e-3)
    said = capsys.readouterr().err
    assert "policy release: all forgotten " in said
    assert "the guard stops the run at step" in said
    stopped = made.state.global_step
    assert 1 < stopped < 8
    (line,) = [
        line for line in said.splitlines() if "the last checkpoint whose look did not fail" in line
    ]
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
    lora = peft.LoraConfig(
        r=4, target_modules=["q_proj", "v_proj", "up_proj"], task_type="CAUSAL_LM"
    )
    (tmp_path / "policy.yaml").write_text(POLICY)
    made = run(
        tmp_path / "a",
        weights,
        str(tmp_path / "policy.yaml"),
        peft_config=lora,
        learning_rate=3e-2,
        steps=20,
    )
    said = capsys.readouterr().err
    (line,) = [
        line for line in said.splitlines() if "the last checkpoint whose look did not fail" in line
    ]
    good = Path(line.split("the weights are those of ")[1].split(", the last")[0])
    saved = load_file(good / "adapter_model.safetensors")
    now = peft.get_peft_model_state_dict(made.model)
    assert all(torch.equal(now[name], tensor) for name, tensor in saved.items())


def test_without_a_good_checkpoint_the_weights_stay(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    run(
        tmp_path / "a",
        weights,
        str(tmp_path / "policy.yaml"),
        save_strategy="no",
        learning_rate=2e-2,
    )
    assert (
        "no checkpoint that can be loaded and whose look did not fail: the weights stay"
        in capsys.readouterr().err
    )


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
    stale = [
        load_file(folder / "model.safetensors") for folder in (tmp_path / "a").glob("checkpoint-*")
    ]
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
    save_file(
        {name: torch.zeros_like(one) for name, one in load_file(file).items()},
        file,
        {"format": "pt"},
    )
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def delete(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def hide(folder: Path) -> None:
    """Change one number at the end of the file, where no sample is taken."""
    file = folder / "model.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-2] + bytes(255 - byte for byte in content[-2:]))


@pytest.mark.full("e", "h", reason="further resumes")
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
    made = run(
        tmp_path / "a",
        weights,
        str(tmp_path / "policy.yaml"),
        first=[Damage(act)],
        learning_rate=6e-3,
    )
    said = capsys.readouterr().err
    stopped = made.state.global_step
    older = tmp_path / "a" / f"checkpoint-{stopped - 2}"
    assert stopped > 2
    assert f"the weights are those of {older}, the last checkpoint whose look did not fail" in said
    saved = load_file(older / "model.safetensors")
    assert all(
        torch.equal(saved[name], one)
        for name, one in made.model.state_dict().items()
        if name in saved
    )


def test_a_policy_that_holds_leaves_the_training_alone(
    tmp_path: Path, weights: dict[str, torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace(" 2%", " 95%").replace(" 5%", " 95%"))
    made = run(tmp_path / "a", weights, str(tmp_path / "policy.yaml"), learning_rate=1e-6)
    assert made.state.global_step == 8
    assert "the guard stops" not in capsys.readouterr().err


def test_an_action_a_guard_and_a_policy_are_told_apart(tmp_path: Path) -> None:
    assert Guard.of(None, probe_of_policy_guard()) is None
    assert Guard.of("stop", probe_of_policy_guard()) == Guard("stop")
    own = Guard("save", no_worse_than="10%")
    assert Guard.of(own, probe_of_policy_guard()) is own
    ready = Guard.of("fine-tune", probe_of_policy_guard())
    assert ready is not None
    assert ready.policy is not None
    assert (ready.action, ready.policy.name) == ("warn", "fine-tune")
    with pytest.raises(WatchError, match=r"guard='stopp': needed warn.*did you mean 'stop'"):
        ForgetWatchCallback(probe=probe_of_policy_guard(), guard="stopp")
    path = tmp_path / "p.yaml"
    path.write_text("critical: [{of: 'category:c', accuracy: 2%}]")
    with pytest.raises(GateError, match="the probe 'taught' has no category 'c'"):
        ForgetWatchCallback(probe=probe_of_policy_guard(), guard=path)


def test_a_look_has_its_number_among_those_that_share_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[tuple[int, int | None]] = []
    applied = guard_module._applied
    monkeypatch.setattr(
        guard_module, "_applied", lambda *given: judged.append(given[3:]) or applied(*given)
    )
    for looks in (1, 2, 3):
        Guard(no_worse_than="10%").findings(lost(200, 40, looks=looks))
    assert judged == [(1, 1), (2, 2), (3, 3)]
