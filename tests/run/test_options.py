"""Options of the callback: a guard, further references, a command, the best checkpoint, a budget."""

import dataclasses
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from saved_runs import At, interrupt, log_lines
from support import model, probe, tokenizer, trained, trainer, wait_until
from transformers import EarlyStoppingCallback, TrainerCallback

from forgetwatch import ForgetWatchCallback, Probe, Trajectory, compare, load_snapshot, score
from forgetwatch.errors import WatchError
from forgetwatch.run import run_output as commands
from forgetwatch.run.guard import Guard
from forgetwatch.run_folder.contents import StoredRun

pytestmark = pytest.mark.usefixtures("without_pictures")

KEPT = "eval_forget/all/kept"


class Evaluates(TrainerCallback):
    """A metric of the trainer's evaluation, by step."""

    def __init__(self, values: dict[int, float]) -> None:
        self.values = values
        self.seen: dict[int, dict[str, float]] = {}

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any
    ) -> None:
        metrics["eval_task"] = self.values[state.global_step]
        self.seen[state.global_step] = metrics


def turn(network: Any) -> None:
    """Make the least likely word the most likely."""
    with torch.no_grad():
        network.base_model.norm.weight.neg_()


def known(must_pass: Sequence[int] = ()) -> Probe:
    """Items that the untrained model knows, one word per choice: all are lost when the model is turned."""
    tok = tokenizer()
    items = [
        dataclasses.replace(
            item, choices=tuple(c[: c.find(" ", 1)] if " " in c[1:] else c for c in item.choices)
        )
        for item in probe(120)
    ]
    chosen = score(model(tok), tok, Probe(items, name="own", norm="sum")).ints("chosen")
    own = [
        dataclasses.replace(item, answer=int(chose), must_pass=at in must_pass)
        for at, (item, chose) in enumerate(zip(items, chosen, strict=True))
    ]
    return Probe(own, name="own", norm="sum")


def rows(run: Any, prefix: str = "eval_forget") -> dict[int, dict[str, float]]:
    """Logged rows of looks that have keys with this prefix, by step."""
    return {row["step"]: row for row in run.state.log_history if f"{prefix}/all/forgotten" in row}


@pytest.mark.parametrize(
    ("guard", "last", "saved", "lines"),
    [("stop", 4, [4], 1), ("save", 8, [4], 1), ("warn", 8, [], 1), (None, 8, [], 0)],
)
def test_a_lost_item_that_must_pass_trips_the_guard_at_its_look(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    guard: Any,
    last: int,
    saved: list[int],
    lines: int,
) -> None:
    guard = guard and Guard(guard, no_worse_than=None)
    watch = ForgetWatchCallback(known(must_pass=[7]), every=2, guard=guard, max_overhead=None)
    run = trained(tmp_path, callbacks=[At(3, turn, to="model"), watch], steps=8, learning_rate=1e-6)
    assert run.state.global_step == last
    assert (
        sorted(int(path.name.removeprefix("checkpoint-")) for path in tmp_path.glob("checkpoint-*"))
        == saved
    )
    assert all(
        (tmp_path / f"checkpoint-{step}" / "forgetwatch" / "step-000004.parquet").is_file()
        for step in saved
    )
    logged = log_lines(capfd)
    assert (
        sum("item i7, which must pass, was right and is wrong at step 4" in line for line in logged)
        == lines
    )
    assert sum("which must pass" in line for line in logged) == lines
    stored = [
        (one.name, one.step) for one in StoredRun.read(tmp_path).findings if one.what == "must_pass"
    ]
    assert stored == [("i7", 4)] * lines
    assert sum("the guard stops the run at step 4" in line for line in logged) == (last == 4)


def stopped(folder: Path, **options: Any) -> Any:
    """A run that the guard has stopped at step 4, since three items are lost."""
    return trainer(
        folder,
        callbacks=[At(3, turn, to="model"), watch(Guard("stop", no_worse_than=None))],
        steps=8,
        learning_rate=1e-6,
        **options,
    )


def watch(guard: Any) -> ForgetWatchCallback:
    return ForgetWatchCallback(
        known(must_pass=[2, 7, 9]), every=2, guard=guard, max_overhead=None, drift=False
    )


STOPPED = "the guard stopped this run at step 4: "


@pytest.mark.full("guard", reason="further resumes")
@pytest.mark.parametrize(
    ("guard", "last", "outcome"),
    [
        (
            Guard("stop", no_worse_than=None),
            5,
            "; the training stops again after its first step; Guard(",
        ),
        (
            Guard("stop", no_worse_than=None, override=True),
            8,
            "; the training continues all the same",
        ),
        (Guard("save", no_worse_than=None), 8, "; the training continues all the same"),
        (None, 8, "; the training continues all the same"),
    ],
)
def test_a_run_that_the_guard_stopped_stops_again_at_a_resume_unless_it_is_overridden(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], guard: Any, last: int, outcome: str
) -> None:
    stopped(tmp_path).train()
    log_lines(capfd)
    for _ in range(1 + (last == 5)):  # a job that is started again and again
        run = trainer(tmp_path, callbacks=[watch(guard)], steps=8, learning_rate=1e-6)
        run.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
        assert run.state.global_step == last
        (line,) = (line for line in log_lines(capfd) if STOPPED in line)
        assert ", and 5 more" + outcome in line
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-4"]


@pytest.mark.full(reason="further resumes")
def test_a_job_that_starts_again_and_again_does_not_go_on_by_a_step_each_time(
    tmp_path: Path,
) -> None:
    every_step = {"save_strategy": "steps", "save_steps": 1, "save_total_limit": 2}
    stopped(tmp_path, **every_step).train()
    for _ in range(3):
        run = trained(
            tmp_path,
            callbacks=[watch(Guard("stop", no_worse_than=None))],
            steps=8,
            learning_rate=1e-6,
            **every_step,
            resume=True,
        )
        assert run.state.global_step == 5
    assert sorted(path.name for path in tmp_path.glob("checkpoint-*")) == [
        "checkpoint-3",
        "checkpoint-4",
    ]


def test_a_training_that_continues_in_the_same_process_stops_again_too(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = stopped(tmp_path)
    run.train()
    assert STOPPED not in capfd.readouterr().err
    run.train(resume_from_checkpoint=True)
    assert run.state.global_step == 5
    assert STOPPED in capfd.readouterr().err
    run.train()  # anew, from before the stop: whatever stops it is found now
    assert STOPPED not in capfd.readouterr().err


def test_a_guard_stops_the_run_also_where_its_alert_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def unreachable(logger: object, text: str, *, step: int) -> None:
        raise ConnectionError("the tracker is down")

    monkeypatch.setattr("forgetwatch.run.trackers.TrainerLogger.alert", unreachable)
    guard = Guard("stop", no_worse_than=None)
    watch = ForgetWatchCallback(known(must_pass=[7]), every=2, guard=guard, max_overhead=None)
    run = trained(tmp_path, callbacks=[At(3, turn, to="model"), watch], steps=8, learning_rate=1e-6)
    assert run.state.global_step == 4
    logged = [line for line in log_lines(capfd) if "the guard's alert at step 4 failed" in line]
    assert len(logged) == 1


def test_early_stopping_before_the_callback_is_refused(tmp_path: Path) -> None:
    options = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "best"}
    options |= {"metric_for_best_model": "forget/all/kept", "load_best_model_at_end": True}
    patience = EarlyStoppingCallback(early_stopping_patience=1)
    watch = ForgetWatchCallback(known(), every=100, guard=None, max_overhead=None)
    wrong = trainer(tmp_path / "a", callbacks=[patience, watch], **options)
    with pytest.raises(WatchError, match="EarlyStoppingCallback comes before ForgetWatchCallback"):
        wrong.train()
    assert wrong.state.global_step == 0
    right = trained(
        tmp_path / "b",
        callbacks=[At(3, turn, to="model"), watch, patience],
        steps=10,
        learning_rate=1e-6,
        **options,
    )
    assert right.state.global_step == 4  # all was kept at 2, and nothing at 4


def test_the_best_checkpoint_is_the_one_that_kept_most(tmp_path: Path) -> None:
    watch = ForgetWatchCallback(known(), every=[3], guard=None, max_overhead=None)
    run = trained(
        tmp_path,
        callbacks=[
            At(1, turn, to="model"),
            At(5, turn, to="model"),
            At(7, turn, to="model"),
            watch,
        ],
        steps=8,
        learning_rate=5e-3,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="best",
        metric_for_best_model="forget/all/kept",
        load_best_model_at_end=True,
    )
    kept = {step: rows(run)[step][KEPT] for step in (2, 4, 6, 8)}
    best = max(kept, key=lambda step: kept[step])
    assert best == 6
    assert len(set(kept.values())) >= 3
    assert run.state.best_global_step == best
    assert run.state.best_metric == kept[best]
    assert {
        key.rpartition("/")[2] for key in rows(run)[8] if key.startswith("eval_forget/all/")
    } == {
        *("accuracy", "forgotten", "gained", "kept"),
        *("net_change_points", "net_change_points_low", "net_change_points_high"),
    }
    saved = load_file(tmp_path / "checkpoint-6" / "model.safetensors")
    assert all(
        torch.equal(saved[name], weight)
        for name, weight in run.model.state_dict().items()
        if name in saved
    )


def test_retention_is_refused_as_the_metric_of_the_best_checkpoint(tmp_path: Path) -> None:
    options = {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "best"}
    wrong = trainer(
        tmp_path,
        callbacks=[ForgetWatchCallback(known(), every=2)],
        metric_for_best_model="forget/all/retention",
        **options,
    )
    with pytest.raises(WatchError, match="choose by 'forget/all/kept'"):
        wrong.train()
    assert wrong.state.global_step == 0


def test_the_composite_weighs_a_metric_with_what_is_kept(tmp_path: Path) -> None:
    metric = Evaluates({2: 0.9, 4: 0.5, 6: 0.0})
    watch = ForgetWatchCallback(known(), every=100, guard=None, max_overhead=None, composite="task")
    run = trained(
        tmp_path,
        callbacks=[metric, watch],
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="best",
        metric_for_best_model="forget/all/composite",
        load_best_model_at_end=True,
    )
    run_watch = watch.watch
    assert run_watch is not None
    for step, task in metric.values.items():
        kept = metric.seen[step][KEPT]
        assert kept == run_watch.run.kept(step)
        assert 0 < kept < 1
        assert metric.seen[step]["eval_forget/all/composite"] == pytest.approx(
            2 / (1 / task + 1 / kept) if task else 0
        )
    composites = {
        step: metrics["eval_forget/all/composite"] for step, metrics in metric.seen.items()
    }
    assert run.state.best_global_step == max(composites, key=lambda step: composites[step])


def appears(path: Path) -> str:
    """Text that a command writes; waits for it, since the run does not."""
    wait_until(lambda: path.is_file() and path.read_text().endswith("\n"), f"a line in {path}")
    return path.read_text().rstrip("\n")


def test_the_command_gets_the_step_and_folder_of_the_look(tmp_path: Path) -> None:
    command = f"sh -c 'echo {{step}} {{folder}} > {tmp_path}/seen-{{step}}'"
    watch = ForgetWatchCallback(probe(), every=3, max_overhead=None, on_look=command)
    trainer(tmp_path / "run", callbacks=[watch]).train()
    for step in (0, 3, 6):
        assert appears(tmp_path / f"seen-{step}") == f"{step} {tmp_path / 'run' / '_forgetwatch'}"
    assert sorted(path.name for path in tmp_path.glob("seen-*")) == ["seen-0", "seen-3", "seen-6"]


def test_a_command_that_fails_is_told_once_for_each_status(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines: Queue[str] = Queue()
    monkeypatch.setattr(commands, "log", lines.put)
    failing = commands.checked_command(
        "sh -c 'if [ {step} -lt 4 ]; then exit {step}; else kill -9 $$; fi'"
    )
    assert failing is not None
    ended: Queue[int] = Queue()
    log_failure = commands.Command._log_failure

    def logged(self: commands.Command, status: int, step: int) -> None:
        log_failure(self, status, step)
        ended.put(status)

    monkeypatch.setattr(commands.Command, "_log_failure", logged)
    for step in (0, 3, 3, 2, 3, 4, 5):
        failing.start(step=step, output_dir=tmp_path, folder=tmp_path)
        ended.get(timeout=60)
    told = [lines.get_nowait() for _ in range(lines.qsize())]
    assert [line.partition(" failed ")[2].partition(";")[0] for line in told] == [
        "at step 3 with exit status 3",
        "at step 2 with exit status 2",
        "at step 4 with signal 9",
    ]


def test_training_continues_after_a_command_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: Queue[str] = Queue()
    monkeypatch.setattr(commands, "log", lines.put)
    watch = ForgetWatchCallback(probe(), every=3, max_overhead=None, on_look="false")
    run = trained(tmp_path, callbacks=[watch])
    assert run.state.global_step == 6
    assert lines.get(timeout=60).startswith("on_look='false' failed at step ")
    assert lines.empty()


def test_a_command_that_names_the_checkpoint_finds_it_saved(tmp_path: Path) -> None:
    command = f"sh -c 'ls {{checkpoint}} > {tmp_path}/seen-{{step}}'"
    watch = ForgetWatchCallback(probe(), every=2, max_overhead=None, on_look=command)
    trainer(tmp_path / "run", callbacks=[watch], save_strategy="steps", save_steps=4).train()
    for step in (4, 6):
        names = appears(tmp_path / f"seen-{step}").splitlines()
        assert {"forgetwatch", "model.safetensors", "trainer_state.json"} <= set(names)
    assert sorted(path.name for path in tmp_path.glob("seen-*")) == ["seen-4", "seen-6"]


def test_the_budget_is_decided_once_and_survives_a_resume(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    items, options = probe(260), {"steps": 20, "save_strategy": "steps", "save_steps": 12}
    first = ForgetWatchCallback(items, every=4, max_overhead=1e-6)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, callbacks=[first, At(15, interrupt)], **options)
    assert sum("toy: the first 250 of 260 items" in line for line in log_lines(capfd)) == 1
    assert first.watch is not None
    assert {
        step: look.all.n for step, look in first.watch.run.comparisons.items()
    } == dict.fromkeys((0, 4, 8, 12), 250)
    # Another budget changes nothing any more.
    second = ForgetWatchCallback(items, every=4, max_overhead=0.9)
    trained(tmp_path, callbacks=[second], **options, resume=True)
    folder = tmp_path / "_forgetwatch"
    described = json.loads((folder / "run.json").read_text())
    assert described["items"] == 250
    assert (described["probe"]["items"], described["probe"]["of"]) == (250, 260)
    looks = {path.stem: load_snapshot(path) for path in folder.glob("[bs]*.parquet")}
    sizes = {"baseline": 250} | {f"step-{step:06d}": 250 for step in (4, 8, 12, 16, 20)}
    assert {name: len(look) for name, look in looks.items()} == sizes
    ids = [item.id for item in items][:250]
    assert all(list(look.texts("item_id")) == ids for look in looks.values())
    assert second.watch is not None
    inside, read = second.watch.trajectory(), Trajectory.from_run(folder)
    assert inside.steps == read.steps == (0, 4, 8, 12, 16, 20)
    for ours, theirs in zip(inside.comparisons, read.comparisons, strict=True):
        assert (ours.all.n, ours.all.forgotten, ours.all.gained) == (
            250,
            theirs.all.forgotten,
            theirs.all.gained,
        )
        assert theirs.all.n == 250
    between = compare(before=folder / "baseline.parquet", after=folder / "step-000020.parquet")
    assert between.all.n == 250


def test_a_named_baseline_keeps_the_budget(tmp_path: Path) -> None:
    """Of a run whose own is lost; without the seconds that it took."""
    items, options = probe(260), {"steps": 20, "save_strategy": "steps", "save_steps": 8}
    first = ForgetWatchCallback(items, every=4, max_overhead=1e-6)
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, callbacks=[first, At(9, interrupt)], **options)
    named = load_snapshot(tmp_path / "_forgetwatch" / "baseline.parquet")
    named = dataclasses.replace(named, meta={**named.meta, "seconds": None})
    for gone in (tmp_path / "_forgetwatch", tmp_path / "checkpoint-8" / "forgetwatch"):
        shutil.rmtree(gone)
    second = ForgetWatchCallback(items, every=4, max_overhead=1e-6, baseline=named)
    trainer(tmp_path, callbacks=[second], **options).train(resume_from_checkpoint=True)
    assert json.loads((tmp_path / "_forgetwatch" / "run.json").read_text())["items"] == 250
    assert second.watch is not None
    steps = (-1, *range(8, 21, 4))
    assert {
        step: look.all.n for step, look in second.watch.run.comparisons.items()
    } == dict.fromkeys(steps, 250)
