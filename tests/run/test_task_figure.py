"""What the new task gained, beside what was forgotten: the trainer's own figure, or questions of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import model, probe, tokenizer, trained

from forgetwatch import ForgetWatchCallback, Probe, Trajectory, Watch, score
from forgetwatch.report import trajectory_json
from forgetwatch.run_folder import TaskFigure, logged_figure

TOK = tokenizer()


def questions() -> Probe:
    return Probe([*probe(80)][60:], name="mine")


def test_questions_of_the_task_are_counted_apart_and_never_as_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ForgetWatchCallback(probe(60), every=2, task=questions())
    run = trained(tmp_path, callbacks=[asked], steps=4, save_strategy="steps", save_steps=4)
    found = Trajectory.from_run(tmp_path)
    assert found.task is not None
    assert (found.task.name, [step for step, _ in found.task.values]) == ("mine_accuracy", [0, 2, 4])
    right = float((score(run.model, TOK, questions()).floats("correct") == 1).mean())
    assert found.task.at(4) == pytest.approx(right)
    assert {one.all.n for one in found.comparisons} == {60}
    rows = {row["step"]: row["eval_forget/task"] for row in run.state.log_history if "eval_forget/task" in row}
    assert rows == {step: found.task.at(step) for step in (0, 2, 4)}
    assert "new task      mine accuracy" in capsys.readouterr().out
    assert trajectory_json(found)["task"]["name"] == "mine_accuracy"
    # A run that resumes keeps what it asked before.
    trained(tmp_path, callbacks=[ForgetWatchCallback(probe(60), every=2, task=questions())], steps=6, resume=True)
    again = Trajectory.from_run(tmp_path).task
    assert again is not None
    assert again.values[:3] == found.task.values
    assert [step for step, _ in again.values] == [0, 2, 4, 6]


def test_the_trainers_figure_is_there_from_its_first_value_to_its_last(tmp_path: Path) -> None:
    run = trained(tmp_path, callbacks=[ForgetWatchCallback(probe(60), every=2)], steps=5, logging_steps=1)
    losses = [(row["step"], row["loss"]) for row in run.state.log_history if "loss" in row]
    found = Trajectory.from_run(tmp_path).task
    assert found is not None
    assert found.name == "loss"
    assert found.values == tuple(losses)


@pytest.mark.parametrize(
    ("rows", "chosen", "name", "falls"),
    [
        ([{"loss": 2.0, "eval_loss": 1.0, "step": 1}], None, "eval_loss", True),
        ([{"loss": 2.0, "eval_loss": 1.0, "eval_accuracy": 0.5, "step": 1}], None, "eval_accuracy", False),
        ([{"eval_loss": 1.0, "eval_f1": 0.5, "step": 1}], "f1", "eval_f1", False),
        ([{"eval_loss": 1.0, "eval_f1": 0.5, "step": 1}], "eval_f1", "eval_f1", False),
        ([{"loss": 2.0, "reward": 0.5, "step": 1}], None, "reward", False),
    ],
)
def test_the_figure_is_that_of_the_evaluation_then_a_reward_then_the_loss(
    rows: list[dict[str, Any]], chosen: str | None, name: str, falls: bool
) -> None:
    found = logged_figure(rows, chosen=chosen)
    assert found is not None
    assert (found.name, found.falls) == (name, falls)


def test_a_loop_of_ones_own_asks_the_task_too(tmp_path: Path) -> None:
    watch, network = Watch(probe(60), tmp_path, task=questions()), model(TOK)
    watch.look(network, TOK, step=0)
    watch.look(network, TOK, step=5)
    assert isinstance(watch.run.task, TaskFigure)
    assert [step for step, _ in watch.run.task.values] == [0, 5]
