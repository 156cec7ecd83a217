"""The page of a run, written during the run.

A run that began with another probe, or an earlier version of the grading rules, and is resumed.

What the new task gained, beside what was forgotten: the trainer's own figure, or questions of its own.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import model, probe, snapshot, tokenizer, trained, trainer

from forgetwatch import (
    ForgetWatchCallback,
    Item,
    Probe,
    Trajectory,
    Watch,
    compare,
    load_probe,
    score,
)
from forgetwatch.comparing.document import trajectory_json
from forgetwatch.errors import WatchError
from forgetwatch.grading.grader import RULES
from forgetwatch.report.eight_lines import first_table
from forgetwatch.run import run_output
from forgetwatch.run.run import Run
from forgetwatch.run.run_output import ReportPage, doubt, start_line
from forgetwatch.run.schedule import Budget, LookPlan, Schedule, Trial, start_seconds
from forgetwatch.run_folder.description import REPORT
from forgetwatch.run_folder.task_figure import TaskFigure, logged_figure
from forgetwatch.scoring import scorer

pytestmark = pytest.mark.usefixtures("without_pictures")

TOK = tokenizer()
KEY = "eval_forget/new_task_mine_accuracy"


class Clock:
    """A clock that advances by hand, and by the time that drawing takes."""

    def __init__(self) -> None:
        self.now, self.drawing, self.drawn = 1000.0, 0.5, 0

    def perf_counter(self) -> float:
        return self.now

    def run_page(self, *_: Any, **__: Any) -> str:
        self.drawn += 1
        self.now += self.drawing
        return f"page {self.drawn}"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(run_output, "time", made)
    monkeypatch.setattr(run_output, "run_page", made.run_page)
    return made


def looked(folder: Path) -> Watch:
    watch = Watch(probe(), folder)
    watch.look(model(TOK), TOK, step=0)
    return watch


def test_the_page_is_written_again_at_each_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    headings = list[str]()
    monkeypatch.setattr(run_output, "_PAGE_SHARE", 1e9)  # these looks follow within a second
    written = run_output.write_text

    def noted(path: Path, text: str) -> None:
        written(path, text)
        if path.name == REPORT:
            headings.append(
                re.findall(r", step (\d+)(?: of 4)?: ", path.read_text(encoding="utf-8"))[-1]
            )

    monkeypatch.setattr(run_output, "write_text", noted)
    trainer(
        tmp_path, steps=4, callbacks=[ForgetWatchCallback(probe(), every=2, max_overhead=None)]
    ).train()
    assert headings == ["2", "4"]
    assert (tmp_path / "_forgetwatch" / REPORT).is_file()


def test_a_page_that_cannot_be_written_is_logged_once_and_the_run_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_output, "_PAGE_SHARE", 1e9)

    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_output, "write_text", full)
    run = trained(
        tmp_path, steps=6, callbacks=[ForgetWatchCallback(probe(), every=1, max_overhead=None)]
    )
    assert run.state.global_step == 6
    logged = capsys.readouterr().err
    assert logged.count("writing the report at step") == 1
    assert "No space left on device" in logged
    assert len(list((tmp_path / "_forgetwatch").glob("step-*.parquet"))) == 6
    assert not (tmp_path / "_forgetwatch" / REPORT).exists()


def test_a_page_that_would_exceed_its_share_of_the_time_is_left_out(
    tmp_path: Path, clock: Clock
) -> None:
    watch, page = looked(tmp_path), ReportPage()
    for step in range(1, 5):
        watch.look(model(TOK), TOK, step=step)
        page.write(watch.run)
        clock.now += 10  # a page took half a second
    assert clock.drawn == 1
    clock.now += 65
    watch.look(model(TOK), TOK, step=9)
    page.write(watch.run)
    assert clock.drawn == 2


def test_the_baseline_of_any_probe_announces_itself_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    probe().save(tmp_path / "mine.jsonl")
    Watch(tmp_path / "mine.jsonl", tmp_path).look(model(TOK), TOK, step=0)
    Watch(probe(), tmp_path / "once", twice=False).look(model(TOK), TOK, step=0)
    told = [
        line
        for line in capsys.readouterr().err.splitlines()
        if "items" in line and " of " not in line[:40]
    ]
    assert told[0].startswith(
        "forgetwatch: baseline: toy, 30 items, then all of them again for the noise"
    )
    assert told[-1] == "forgetwatch: baseline: toy, 30 items"


def budget_of(**options: Any) -> Budget:
    return Budget(
        Schedule.make([1, 2, 3], max_steps=4), overhead=options.get("overhead", 0.02), items=None
    )


def test_the_line_before_the_first_step_has_items_seconds_looks_and_share(tmp_path: Path) -> None:
    run, budget = looked(tmp_path).run, budget_of()
    line = start_line(run, budget, start=95.1, each=10.0)
    assert line == ("toy: 30 items; about 95 s before the first step; 4 looks of 10 s")
    budget.training = 1960.0
    assert start_line(run, budget, start=1.0, each=10.0).endswith(
        "; 4 looks of 10 s, about 2 % of the run's time"
    )


def test_a_training_that_cannot_be_predicted_says_so_where_looks_take_long(tmp_path: Path) -> None:
    run, told = (
        looked(tmp_path).run,
        "; this training cannot be predicted, and its first steps decide which are kept",
    )
    assert start_line(run, budget_of(), start=1.0, each=20.0).endswith(told)
    assert told not in start_line(run, budget_of(overhead=None), start=1.0, each=20.0)


def test_questions_that_are_too_easy_are_named_before_the_first_step(tmp_path: Path) -> None:
    watch = looked(tmp_path)
    assert doubt(watch.run) == (
        "before training it was not shown to be better than guessing (43 % right of 30, 36 % by chance)"
    )
    start = snapshot([True] * 93 + [False] * 7)
    watch.run.comparisons[0] = compare(before=start, after=start)
    assert doubt(watch.run) == (
        'it answered 93 % right: too easy to show a small loss; "ladder" and "lm_eval:mmlu_pro" have harder ones'
    )


def test_a_run_that_resumes_announces_its_looks_alone(tmp_path: Path) -> None:
    looked(tmp_path)
    resumed = Watch(probe(), tmp_path, resume=True).run
    line = start_line(resumed, budget_of(), start=resumed.looks.seconds.get(0), each=1.0)
    assert line == "toy: 30 items; 4 looks of 1.0 s"


def test_the_end_of_a_run_always_has_a_page(tmp_path: Path, clock: Clock) -> None:
    watch, page = looked(tmp_path), ReportPage()
    page.write(watch.run)
    watch.look(model(TOK), TOK, step=5)
    page.write(watch.run, at_once=True)
    assert clock.drawn == 2
    assert (watch.run.folder.path / REPORT).read_text() == "page 2"
    page.write(watch.run, at_once=True)  # it shows the latest look already
    assert clock.drawn == 2


def test_the_last_look_of_a_fast_run_is_in_its_page(tmp_path: Path) -> None:
    trainer(
        tmp_path, steps=5, callbacks=[ForgetWatchCallback(probe(), every=1, max_overhead=None)]
    ).train()
    text = (tmp_path / "_forgetwatch" / REPORT).read_text(encoding="utf-8")
    assert ", step 5: " in text
    assert [int(step) for step in re.findall(r'data-group="look:(\d+)"', text)] == [1, 2, 3, 4, 5]


SAVES = {"save_strategy": "steps", "save_steps": 2}


def old_version() -> Probe:
    """Forty items of `standard` with other prompts."""
    items = [
        replace(item, prompt=f"Tell me. {item.prompt}") for item in load_probe("standard").head(40)
    ]
    return replace(load_probe("standard"), items=tuple(items))


def new_version(name: str) -> Probe:
    return load_probe(name).head(40)


def train(folder: Path, callback: ForgetWatchCallback, *, steps: int) -> None:
    trainer(folder, steps=steps, callbacks=[callback], **SAVES).train(
        resume_from_checkpoint=steps > 2
    )


def test_a_run_with_a_probe_of_the_users_own_is_not_resumed_with_another(tmp_path: Path) -> None:
    train(tmp_path, ForgetWatchCallback(old_version(), every=2), steps=2)
    with pytest.raises(WatchError, match=r"resume with the probe in .*probe\.jsonl"):
        train(tmp_path, ForgetWatchCallback(new_version("standard"), every=2), steps=4)


def test_a_run_whose_answers_were_graded_by_other_rules_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = Item(id="w", task="t", prompt="w1 w2", answer="no", match="loops")
    probe = Probe([*load_probe("standard").head(10), written], decoding={"tokens": 4})
    monkeypatch.setattr(scorer, "RULES", 2)
    train(tmp_path, ForgetWatchCallback(probe, every=2, max_overhead=None), steps=2)
    monkeypatch.undo()
    with pytest.raises(
        WatchError,
        match=f"by version 2 of the grading rules, and this forgetwatch has version {RULES}",
    ):
        train(tmp_path, ForgetWatchCallback(probe, every=2, max_overhead=None), steps=4)


def questions() -> Probe:
    return Probe([*probe(80)][60:], name="mine")


def test_questions_of_the_task_are_counted_apart_and_never_as_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ForgetWatchCallback(probe(60), every=2, target_probe=questions())
    run = trained(tmp_path, callbacks=[asked], steps=4, save_strategy="steps", save_steps=4)
    found = Trajectory.from_run(tmp_path)
    assert found.task is not None
    assert (found.task.name, [step for step, _ in found.task.values]) == (
        "mine_accuracy",
        [0, 2, 4],
    )
    right = float((score(run.model, TOK, questions()).floats("correct") == 1).mean())
    assert found.task.at(4) == pytest.approx(right)
    assert {one.all.n for one in found.comparisons} == {60}
    rows = {row["step"]: row[KEY] for row in run.state.log_history if KEY in row}
    assert rows == {step: found.task.at(step) for step in (0, 2, 4)}
    assert dict(first_table(found.final, trajectory=found).rows)["new task"].startswith(
        "mine accuracy "
    )
    assert trajectory_json(found)["task"]["name"] == "mine_accuracy"
    # A run that resumes keeps what it asked before.
    trained(
        tmp_path,
        callbacks=[ForgetWatchCallback(probe(60), every=2, target_probe=questions())],
        steps=6,
        resume=True,
    )
    again = Trajectory.from_run(tmp_path).task
    assert again is not None
    assert again.values[:3] == found.task.values
    assert [step for step, _ in again.values] == [0, 2, 4, 6]


def test_the_trainers_figure_is_there_from_its_first_value_to_its_last(tmp_path: Path) -> None:
    run = trained(
        tmp_path, callbacks=[ForgetWatchCallback(probe(60), every=2)], steps=5, logging_steps=1
    )
    losses = [(row["step"], row["loss"]) for row in run.state.log_history if "loss" in row]
    found = Trajectory.from_run(tmp_path).task
    assert found is not None
    assert found.name == "loss"
    assert found.values == tuple(losses)


@pytest.mark.parametrize(
    ("rows", "chosen", "name", "falls"),
    [
        ([{"loss": 2.0, "eval_loss": 1.0, "step": 1}], None, "eval_loss", True),
        (
            [{"loss": 2.0, "eval_loss": 1.0, "eval_accuracy": 0.5, "step": 1}],
            None,
            "eval_accuracy",
            False,
        ),
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
    watch, network = Watch(probe(60), tmp_path, target_probe=questions()), model(TOK)
    watch.look(network, TOK, step=0)
    watch.look(network, TOK, step=5)
    assert isinstance(watch.run.state.task, TaskFigure)
    assert [step for step, _ in watch.run.state.task.values] == [0, 5]


@pytest.mark.parametrize(
    ("question", "items", "named"), [(0.01, None, False), (0.2, None, True), (1.0, 100, False)]
)
def test_the_line_of_a_start_over_a_minute_names_a_trial(
    tmp_path: Path, question: float, items: int | None, named: bool
) -> None:
    run = Run(probe(600), tmp_path)
    trial = Trial(question=question, token=question / 50)
    budget = Budget(Schedule.make(None, max_steps=1000), overhead=0.02, items=items)
    run.decide(budget.decide(run.probe, trial, 1000.0, after=0))
    start = start_seconds(trial, run.probe, run.state.plan or LookPlan())
    line = start_line(run, budget, start=start, each=1.0)
    assert ("(toy:100 is a trial, whose verdict is mostly NOT CLEAR)" in line) == named, line
