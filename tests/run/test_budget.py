"""The budget of a run: decided once, before the first look; every curve is over one set of items."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from saved_runs import At, described, interrupt, stop
from support import model, probe, tokenizer, trained, trainer
from transformers import TrainerCallback

from forgetwatch import ForgetWatchCallback, Item, Probe, Trajectory, compare, load_snapshot, score
from forgetwatch.run import look as look_module
from forgetwatch.run import look_rows, training
from forgetwatch.run import schedule as budget
from forgetwatch.run import start as start_module
from forgetwatch.run.look import LookScorer
from forgetwatch.run.schedule import (
    Budget,
    LookPlan,
    Schedule,
    Trial,
    decide_start,
    evaluated_worth,
    generated_items,
    last_timed_step,
    start_seconds,
)
from forgetwatch.run.trainer import step_tokens
from forgetwatch.run.watch import Watch
from forgetwatch.run_folder.folder import RunFolder

pytestmark = pytest.mark.usefixtures("without_pictures")

ITEMS, KEPT = "eval_forget/all/items", "eval_forget/all/kept"
TINY = 1e-6
"""Share of the time that no look keeps to."""


@pytest.fixture(autouse=True)
def rows_with_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the number of items to every row: the point of a curve shows over how many it is."""
    row = look_rows.tracker_row
    monkeypatch.setattr(
        look_rows,
        "tracker_row",
        lambda look, **options: {**row(look, **options), ITEMS: look.all.n},
    )


def curve(run: Any) -> list[tuple[int, float]]:
    """Step and number of items of each logged look, in the order of logging."""
    return [(row["step"], row[ITEMS]) for row in run.state.log_history if ITEMS in row]


TRIAL = Trial(question=0.01, token=0.001)


def started(
    *, trial: Trial = TRIAL, steps: int = 10_000, looks: int = 10, **other: Any
) -> LookPlan:
    """LookPlan before the baseline: .01 s a question, 1 s a step unless told otherwise."""
    schedule = Schedule.make(None, max_steps=steps)
    schedule = replace(schedule, steps=frozenset(range(0, looks * 10, 10)) | {steps})
    given = {"probe": probe(2000), "step_tokens": 333.4, "schedule": schedule}
    return decide_start(trial, other.pop("overhead", 0.02), **{**given, **other})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, LookPlan()),  # 20.6 s at the start, 200 of 10,000 s
        ({"overhead": 0.019}, LookPlan(items=1000)),
        ({"steps": 500}, LookPlan(items=250, looks=4)),  # 2.5 s a look, 10 of 500 s
        ({"steps": 100, "looks": 9}, LookPlan(items=250, looks=3)),
        ({"step_tokens": None}, LookPlan()),
        ({"items": 300, "steps": 500}, LookPlan(items=300, looks=3)),
        ({"items": 300}, LookPlan(items=300)),
        ({"items": 2000, "steps": 500}, LookPlan(looks=3)),
    ],
)
def test_items_and_looks_are_decided_before_the_baseline(
    given: dict[str, Any], expected: LookPlan
) -> None:
    assert started(**given) == expected


@pytest.mark.parametrize(("seconds", "kept"), [(60.0, None), (24.0, None), (22.0, 8)])
def test_all_looks_of_a_short_run_together_may_take_a_minute(
    monkeypatch: pytest.MonkeyPatch, seconds: float, kept: int | None
) -> None:
    monkeypatch.setattr(budget, "LOOKS_SECONDS", seconds)
    assert started(steps=100, looks=9, items=250) == LookPlan(items=250, looks=kept)  # 2.5 s a look


@pytest.mark.usual_floor
def test_a_run_has_at_least_500_items_and_a_second_measurement_of_50() -> None:
    assert started(overhead=TINY) == LookPlan(items=500, looks=3)
    baseline, again, half = 3.0 + 5.0, 3.0 + budget.HALVES * 0.5, LookPlan(items=500)
    trial = replace(TRIAL, begin=3.0)
    assert start_seconds(trial, probe(2000), half) == pytest.approx(baseline + again)
    assert start_seconds(trial, probe(2000), half, again=2) == pytest.approx(baseline + 2 * again)
    assert start_seconds(replace(trial, known=((500, True),)), probe(2000), half) == pytest.approx(
        again
    )


@pytest.mark.parametrize(("steps", "items"), [(1_000, 1000), (1_000_000, None)])
def test_the_start_takes_a_minute_or_two_hundredths_of_the_training(
    steps: int, items: int | None
) -> None:
    slow = Trial(question=0.035, token=0.001)
    assert started(trial=slow, overhead=0.9, steps=steps, looks=1).items == items
    assert started(trial=slow, overhead=0.9, step_tokens=None, looks=1).items == 1000  # 35 and 2 s


@pytest.mark.parametrize(
    ("each", "made"), [(0.15, LookPlan(items=250)), (0.3, LookPlan(items=250, step=10, looks=6))]
)
def test_looks_are_dropped_if_they_take_longer_than_they_may(each: float, made: LookPlan) -> None:
    """Ten looks are left of a training of 100 s, of which two may go to looks; so far one of .1 s was taken."""
    schedule = Schedule.make([*range(10, 101, 9)], max_steps=100)
    schedule = replace(schedule, required=frozenset({0, 100}), is_default=True)
    plan = Budget(schedule, overhead=0.02, items=None)
    plan.follow(LookPlan(items=250))
    plan.set_out(0)
    plan.clock._steps = [1.0]
    assert plan.is_to_check(10)
    assert plan.check(LookPlan(items=250), step=10, each=each, spent=0.1) == made
    assert not plan.is_to_check(10)


def test_looks_of_a_predicted_training_are_not_decided_twice() -> None:
    schedule = replace(Schedule.make([*range(10, 101, 9)], max_steps=100), is_default=True)
    plan = Budget(schedule, overhead=0.02, items=None)
    plan.follow(plan.decide(probe(2000), TRIAL, 333.4, after=0))
    plan.set_out(0)
    plan.clock._steps = [1.0]
    assert not plan.is_to_check(10)


def test_looks_that_the_user_named_are_not_dropped() -> None:
    plan = Budget(Schedule.make(10, max_steps=100), overhead=TINY, items=None)
    plan.decide(probe(2000), TRIAL, 333.4, after=0)
    assert plan.schedule.looks_after(0) == 10


def test_a_passage_has_the_price_of_its_text_wherever_it_stands() -> None:
    questions = [
        Item(id=f"q{n}", task="t", prompt="w" * 8, choices=("a", "b"), answer=0) for n in range(600)
    ]
    texts = [Item(id=f"p{n}", task="t", prompt="", choices=("w" * 100,)) for n in range(60)]
    for items in ([*questions, *texts], [*texts[:20], *questions, *texts[20:]]):
        # A passage is worth ten questions.
        assert evaluated_worth(Probe(items), LookPlan()) == pytest.approx(600 + 60 * 10)
    assert evaluated_worth(Probe([*texts, *questions]), LookPlan(items=70)) == pytest.approx(610)


def test_generated_answers_are_left_out_before_any_other_item() -> None:
    items = Probe(
        [Item(id=f"{n}", task="t", prompt="w", answer="w") for n in range(800)]
        + [
            Item(id=f"c{n}", task="t", prompt="w", choices=("a", "b"), answer=0)
            for n in range(1000)
        ]
    )
    assert generated_items(items) == 800
    trial = Trial(question=0.002, token=0.001, answer=0.01)  # 2 and 8 s a look

    def decided(overhead: float) -> LookPlan:
        return started(trial=trial, probe=items, steps=1000, looks=4, overhead=overhead)

    assert decided(0.9) == LookPlan()
    assert decided(0.02) == LookPlan(generates=False)
    assert decided(TINY) == LookPlan(
        generates=False, looks=3
    )  # 500 and 1,000 items have too few others
    slow = replace(trial, answer=0.3)  # of which a start with all answers would take minutes
    assert started(trial=slow, probe=items, steps=1000, looks=4) == LookPlan(generates=False)


@pytest.mark.parametrize(
    ("begins", "max_steps", "last"),
    [
        (0, 1000, 10),
        (0, 11, 10),
        (0, 10, 9),
        (0, 5, 4),
        (0, 1, 0),
        (5, 1000, 10),
        (500, 1000, 510),
        (995, 1000, 999),
    ],
)
def test_ten_steps_are_timed_and_never_the_last(begins: int, max_steps: int, last: int) -> None:
    assert last_timed_step(begins, max_steps=max_steps) == last


def test_a_run_of_100_steps_with_defaults_keeps_250_items_and_three_looks(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watch = ForgetWatchCallback(probe(400), max_overhead=TINY)
    run = trained(
        tmp_path,
        callbacks=[watch],
        steps=100,
        save_strategy="steps",
        save_steps=10,
        save_total_limit=1,
    )
    assert curve(run) == [(0, 250), (10, 250), (50, 250), (100, 250)]
    trajectory = Trajectory.from_run(tmp_path)
    assert trajectory.steps == (0, 10, 50, 100)
    assert {look.all.n for look in trajectory.comparisons} == {250}
    assert trajectory.planned == 3
    assert described(tmp_path)["items"] == 250
    logged = capfd.readouterr().err
    assert "toy: the first 250 of 400 items, none of them in the " in logged
    assert logged.index("the first 250 of 400 items") < logged.index("step 10 of 100: ")
    assert (
        "% of the run's time; that is more than a minute and than max_overhead=1e-06: fewer would decide"
        in logged
    )
    assert (
        "no time for a look at checkpoint-20, checkpoint-30, checkpoint-40, checkpoint-60 and 3 more; "
        in logged
    )
    baseline = load_snapshot(tmp_path / "_forgetwatch" / "baseline.parquet")
    assert len(baseline) == 250  # nothing that is measured is thrown away


def test_the_rows_of_the_trainer_stay_as_they_would_have_been(tmp_path: Path) -> None:
    def losses(run: Any) -> list[dict[str, Any]]:
        return [row for row in run.state.log_history if "loss" in row]

    without = trained(tmp_path / "a", steps=12, logging_steps=10)
    watched = trained(
        tmp_path / "b", steps=12, logging_steps=10, callbacks=[ForgetWatchCallback(probe(300))]
    )
    assert losses(watched) == losses(without)
    assert [row["step"] for row in losses(watched)] == [10]  # the step of the decision too


def test_without_a_budget_the_start_is_logged_before_the_first_step(tmp_path: Path) -> None:
    run = trained(
        tmp_path,
        callbacks=[ForgetWatchCallback(probe(), max_overhead=None)],
        steps=4,
        logging_steps=1,
    )
    assert run.state.log_history[0][ITEMS] == 30
    assert [step for step, _ in curve(run)] == [0, 1, 2, 3, 4]


@pytest.mark.full("every2", reason="further resumes")
@pytest.mark.parametrize(
    ("every", "steps"), [(2, [0, 2, 4, 6, 8, 10, 12]), ([3], [0, 3, 12]), ([10], [0, 10, 12])]
)
def test_a_look_that_every_names_decides_and_is_over_the_same_items(
    tmp_path: Path, every: Any, steps: list[int]
) -> None:
    watch = ForgetWatchCallback(probe(300), every=every, max_overhead=TINY)
    run = trained(tmp_path, callbacks=[watch], steps=12)
    assert curve(run) == [(step, 250) for step in steps]
    assert described(tmp_path)["planned_looks"] == len(steps) - 1


@pytest.mark.full("epoch", reason="further resumes")
@pytest.mark.parametrize("every", ["epoch", "save"])
def test_looks_at_epochs_and_saves_are_over_the_same_items(tmp_path: Path, every: Any) -> None:
    options = {
        "max_steps": -1,
        "num_train_epochs": 2,
        "per_device_train_batch_size": 8,
        "save_strategy": "epoch",
    }
    run = trained(
        tmp_path,
        callbacks=[ForgetWatchCallback(probe(300), every=every, max_overhead=TINY)],
        **options,
    )
    assert curve(run) == [(0, 250), (4, 250), (8, 250)]


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_run_of_a_few_steps_logs_its_start_and_its_end(tmp_path: Path, steps: int) -> None:
    run = trained(
        tmp_path, callbacks=[ForgetWatchCallback(probe(300), max_overhead=TINY)], steps=steps
    )
    assert [items for _, items in curve(run)] == [250] * (min(steps, 3) + 1)
    assert [curve(run)[0][0], curve(run)[-1][0]] == [0, steps]
    assert described(tmp_path)["planned_looks"] == min(steps, 3)


def test_the_best_checkpoint_is_chosen_by_looks_over_the_same_items(tmp_path: Path) -> None:
    options = {
        "save_strategy": "steps", "save_steps": 4, "eval_strategy": "steps", "eval_steps": 4, "eval_on_start": True,
        "metric_for_best_model": "forget/all/kept", "load_best_model_at_end": True,
    }  # fmt: skip
    seen: list[tuple[int, float]] = []

    class Reads(TrainerCallback):
        def on_evaluate(
            self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
        ) -> None:
            seen.append((state.global_step, metrics[KEPT]))

    watch = ForgetWatchCallback(probe(300), max_overhead=TINY)
    run = trained(tmp_path, callbacks=[watch, Reads()], steps=30, **options)
    every_evaluation = [4, 8, 12, 16, 20, 24, 28, 30]
    assert [step for step, _ in seen[1:]] == every_evaluation
    assert curve(run) == [(step, 250) for step in (0, *every_evaluation)]
    assert described(tmp_path)["planned_looks"] == 8
    kept = {row["step"]: row[KEPT] for row in run.state.log_history if KEPT in row}
    assert dict(seen[1:]) == {step: kept[step] for step in every_evaluation}
    assert run.state.best_metric == max(kept[step] for step in every_evaluation)


def test_a_run_killed_in_its_first_steps_keeps_its_decision_after_the_resume(
    tmp_path: Path,
) -> None:
    options = {"steps": 30, "save_strategy": "steps", "save_steps": 6}

    def watched() -> ForgetWatchCallback:
        return ForgetWatchCallback(probe(300), every=[20], max_overhead=TINY)

    broken = trainer(tmp_path, callbacks=[watched(), At(8, interrupt)], **options)
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    assert curve(broken) == [(0, 250)]
    assert described(tmp_path)["items"] == 250
    run = trained(tmp_path, callbacks=[watched()], **options, resume=True)
    assert curve(run) == [(0, 250), (20, 250), (30, 250)]


def test_a_resumed_run_keeps_the_items_and_the_looks_of_its_decision(tmp_path: Path) -> None:
    options = {"steps": 60, "save_strategy": "steps", "save_steps": 20, "save_total_limit": 1}
    first = [ForgetWatchCallback(probe(300), max_overhead=TINY), At(25, interrupt)]
    broken = trainer(tmp_path, callbacks=first, **options)
    with pytest.raises(KeyboardInterrupt):
        broken.train()
    assert [step for step, _ in curve(broken)] == [0, 20]
    again = ForgetWatchCallback(
        probe(300), max_overhead=0.9
    )  # another budget changes nothing any more
    run = trained(tmp_path, callbacks=[again], **options, resume=True)
    assert curve(run) == [(0, 250), (20, 250), (40, 250), (60, 250)]
    assert described(tmp_path)["planned_looks"] == 3


@pytest.mark.full(reason="further resumes")
def test_a_resume_from_before_the_decision_keeps_what_the_run_decided(tmp_path: Path) -> None:
    """The trackers have rows over the items of the run's decision, which the checkpoint does not know yet."""
    options = {"steps": 30, "save_strategy": "steps", "save_steps": 6}
    first = [ForgetWatchCallback(probe(300), max_overhead=TINY), At(17, interrupt)]
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path, callbacks=first, **options).train()
    run = trainer(
        tmp_path, callbacks=[ForgetWatchCallback(probe(300), max_overhead=0.9)], **options
    )
    run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    assert curve(run) == [(0, 250), (6, 250), (18, 250), (30, 250)]


def test_a_second_training_keeps_the_decision_and_logs_its_start(tmp_path: Path) -> None:
    run = trained(
        tmp_path, callbacks=[ForgetWatchCallback(probe(300), max_overhead=TINY)], steps=12
    )
    first = curve(run)
    assert len(first) == 4
    assert {items for _, items in first} == {250}
    run.train()
    assert curve(run) == first


def test_a_run_that_stops_before_the_decision_logs_its_start(tmp_path: Path) -> None:
    watch = ForgetWatchCallback(probe(300), max_overhead=TINY)
    run = trained(tmp_path, callbacks=[watch, At(4, stop)], steps=100)
    assert curve(run) == [(0, 250)]
    assert Trajectory.from_run(tmp_path).steps == (0, 4)
    assert {look.all.n for look in Trajectory.from_run(tmp_path).comparisons} == {250}


def test_a_decision_that_fails_leaves_all_items_and_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: Any, **__: Any) -> LookPlan:
        raise ValueError("no budget")

    monkeypatch.setattr(budget.Budget, "check", failing)
    monkeypatch.setattr(
        start_module, "step_tokens", lambda *_: None
    )  # a predicted training is not checked
    run = trained(
        tmp_path, callbacks=[ForgetWatchCallback(probe(300), max_overhead=TINY)], steps=20
    )
    assert [items for _, items in curve(run)] == [300] * 6
    assert (
        "the decision on the budget at step 10 failed, training continues: no budget"
        in capfd.readouterr().err
    )


def test_a_named_baseline_is_cut_with_the_look_at_the_start(tmp_path: Path) -> None:
    trainer(tmp_path / "a", callbacks=[ForgetWatchCallback(probe(300))], steps=1).train()
    named = load_snapshot(RunFolder(tmp_path / "a").path / "baseline.parquet")
    watch = ForgetWatchCallback(probe(300), baseline=named, max_overhead=TINY)
    run = trained(tmp_path / "b", callbacks=[watch], steps=20)
    assert curve(run)[0] == (0, 250)
    assert {look.all.n for look in watch.watch.run.comparisons.values()} == {250}
    assert watch.watch.run.state.planned == 4  # the look at the start counts


def test_the_look_after_an_early_stop_uses_the_evaluation_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    look = LookScorer.take

    @contextmanager
    def weights(optimizer: Any) -> Iterator[None]:
        assert optimizer is not None
        order.append("eval")
        yield
        order.append("train")

    def noted(self: LookScorer, network: Any, tok: Any, *, step: int, **options: Any) -> Any:
        order.append(f"look {step}")
        return look(self, network, tok, step=step, **options)

    monkeypatch.setattr(training, "evaluation_weights", weights)
    monkeypatch.setattr(LookScorer, "take", noted)
    watch = ForgetWatchCallback(probe(), every=100, max_overhead=None)
    trainer(tmp_path, callbacks=[watch, At(4, stop)]).train()
    assert order == ["look 0", "eval", "look 4", "train"]


@pytest.mark.parametrize(("flips", "twice"), [(0, 50), (1, 500), (None, 500)])
def test_the_second_measurement_takes_50_items_and_500_if_one_of_them_flips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flips: int | None, twice: int
) -> None:
    monkeypatch.setattr(look_module, "differing", lambda first, again: flips)
    items: Probe = probe(520)
    watch = ForgetWatchCallback(items, max_overhead=None)
    trainer(tmp_path, callbacks=[watch], steps=1).train()
    null = load_snapshot(tmp_path / "_forgetwatch" / "null.parquet")
    assert list(null.texts("item_id")) == [item.id for item in items][:twice]
    assert watch.watch.run.comparisons[1].all.n == 520
    assert watch.watch.run.comparisons[1].all["null_n"] == twice
    assert Trajectory.from_run(tmp_path).comparisons[1].all["null_n"] == twice


def by_category() -> Probe:
    """Questions in the order of their categories."""
    return Probe(sorted(probe(900).items, key=lambda item: item.category), name="sorted")


def test_a_probe_in_the_order_of_its_categories_is_cut_to_a_fair_part(tmp_path: Path) -> None:
    items = by_category()
    baseline = score(model(tokenizer()), tokenizer(), items)
    watch = ForgetWatchCallback(items, max_overhead=TINY, baseline=baseline)
    run = trained(tmp_path, callbacks=[watch], steps=12, save_strategy="steps", save_steps=6)
    assert curve(run)[-1] == (12, 250)
    assert all(
        look.by("category")[name].n >= 120
        for look in watch.watch.run.comparisons.values()
        for name in "ab"
    )
    assert (
        watch.watch.run.comparisons[0].all.forgotten
        == watch.watch.run.comparisons[0].all.gained
        == 0
    )
    again = Watch(items, tmp_path, resume=True)
    assert again.look(model(tokenizer()), tokenizer(), step=20).all.n == 250


def test_a_schedule_that_the_user_names_has_no_line_on_checkpoints_without_a_look(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trained(
        tmp_path,
        callbacks=[ForgetWatchCallback(probe(), every=4)],
        steps=8,
        save_strategy="steps",
        save_steps=2,
    )
    assert "no time for a look" not in capfd.readouterr().err


def test_a_run_in_an_order_of_its_own_is_compared_with_rows_in_the_order_of_the_file(
    tmp_path: Path,
) -> None:
    items = by_category()
    whole = score(model(tokenizer()), tokenizer(), items)
    trained(tmp_path, callbacks=[ForgetWatchCallback(items, max_overhead=TINY)], steps=4)
    look = tmp_path / "_forgetwatch" / "step-000004.parquet"
    assert compare(before=whole, after=load_snapshot(look)).all.n == 250
    assert compare(before=load_snapshot(look), after=whole).all.n == 250


def test_a_training_begun_without_a_watch_drops_looks_after_its_first_steps(tmp_path: Path) -> None:
    options = {"steps": 30, "save_strategy": "steps", "save_steps": 5}
    named = score(model(tokenizer()), tokenizer(), probe(300))
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, callbacks=[At(7, interrupt)], **options)
    watch = ForgetWatchCallback(probe(300), max_overhead=TINY, baseline=named)
    trained(tmp_path, callbacks=[watch], **options, resume=True)
    assert {one.all.n for one in watch.watch.run.comparisons.values()} == {300}
    assert sorted(watch.watch.run.comparisons) == [-1, 5, 10, 30]


@pytest.mark.parametrize(
    "examples", [["a text"], [("a", "b")], [{"prompt_ids": np.ones(3), "chosen_ids": [1]}], []]
)
def test_examples_of_any_kind_tell_tokens_or_nothing(examples: Any) -> None:
    args: Any = SimpleNamespace(per_device_train_batch_size=2, gradient_accumulation_steps=3)
    assert step_tokens(args, examples) == (
        24 if examples and isinstance(examples[0], dict) else None
    )


def test_the_tokens_of_a_step_are_those_of_all_places_of_the_data() -> None:
    """Data that are sorted by length begin with the shortest."""
    rows = [{"input_ids": [0] * (1 + row // 10)} for row in range(1000)]
    args: Any = SimpleNamespace(per_device_train_batch_size=2, gradient_accumulation_steps=3)
    assert step_tokens(args, rows) == pytest.approx(6 * 50.5, rel=0.02)
    assert step_tokens(args, rows[:3]) == 6
    assert step_tokens(args, []) is None


def test_a_late_baseline_ends_with_the_slices_that_are_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(budget, "_SLICE_SECONDS", 1e-9)  # slices of a probe that takes no minutes
    monkeypatch.setattr(start_module, "start_seconds", lambda *_, **__: 1e-3)
    callback = ForgetWatchCallback(by_category())
    trained(tmp_path, callbacks=[callback], steps=4, save_strategy="steps", save_steps=2)
    run = callback.watch.run
    assert run.items == 125
    assert min(run.comparisons[4].by("category")[name].n for name in "ab") > 60
    assert {one.all.n for one in run.comparisons.values()} == {125}
    assert "items, told" in capfd.readouterr().err
    again = ForgetWatchCallback(by_category())
    trained(tmp_path, callbacks=[again], steps=6, resume=tmp_path / "checkpoint-2")
    assert {one.all.n for one in again.watch.run.comparisons.values()} == {125}


def test_a_late_baseline_without_a_bound_is_measured_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget, "_SLICE_SECONDS", 1e-9)
    monkeypatch.setattr(start_module, "start_seconds", lambda *_, **__: 1e-3)
    callback = ForgetWatchCallback(by_category(), max_overhead=None)
    trained(tmp_path, callbacks=[callback], steps=2)
    assert callback.watch.run.items is None
    assert {one.all.n for one in callback.watch.run.comparisons.values()} == {len(by_category())}


def test_a_baseline_in_slices_is_that_of_the_whole_and_so_are_its_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, asked = tokenizer(), probe(250)
    network, watch = model(words), Watch(asked, tmp_path)
    watch._looks.announce(45.0)  # two slices
    watch.look(network, words, step=0)
    watch.look(network, words, step=5)
    folder = tmp_path / "_forgetwatch"
    baseline, look = (
        load_snapshot(folder / "baseline.parquet"),
        load_snapshot(folder / "step-000005.parquet"),
    )
    whole = score(network, words, asked)
    assert baseline.meta["batch"]["slice"] == 125
    assert baseline.meta["probe"]["fingerprint"] == whole.meta["probe"]["fingerprint"]
    assert baseline.table.equals(look.table)
    for one, other in zip(
        *(side.table["choice_logprobs"].to_pylist() for side in (baseline, whole)), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)
