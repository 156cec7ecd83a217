"""Advice: nothing for what is kept or not shown, and for a loss what fits the run, the least work first."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import write_run
from support import decided, probe, snapshot
from typer.testing import CliRunner

from forgetwatch import Snapshot, Trajectory
from forgetwatch.cli import app
from forgetwatch.comparing.verdict import Tolerance
from forgetwatch.errors import SnapshotError
from forgetwatch.report.advice import Advice, advise
from forgetwatch.report.best_look import look_to_keep

ITEMS = 300
SFT = {
    "trainer": "SFTTrainer",
    "learning_rate": 4e-4,
    "rows": 1000,
    "adapter": None,
    "retention": None,
}


def look(
    step: int, lost: int, *, right: int = 250, gained: int = 0, model: str = "org/base"
) -> Snapshot:
    """A look at which some of the right answers are lost, each clearly."""
    scores = np.full((ITEMS, 4), -4.0)
    scores[:right, 0] = 0.0
    scores[right:, 1] = 0.0
    scores[:lost, 0], scores[:lost, 1] = -4.0, 0.0
    scores[right : right + gained, 0], scores[right : right + gained, 1] = 0.0, -4.0
    return decided(scores, meta={"model": model, "step": step})


def written(
    folder: Path, lost: Mapping[int, int], *, base: str = "org/base", **described: Any
) -> Path:
    looks = {step: look(step, count, model=base) for step, count in lost.items()}
    write_run(folder, probe(ITEMS), look(0, 0, model=base), looks, **{"training": SFT, **described})
    return folder


def a_model(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    return folder


def advice(run: Path) -> list[Advice]:
    """The proposals, without the verdict before them."""
    return [one for one in advise(Trajectory.from_run(run), run) if one.kind != "verdict"]


def kinds(found: list[Advice]) -> list[str]:
    return [one.kind for one in found]


def with_losses(run: Path, values: Mapping[int, float], *, name: str = "eval_loss") -> None:
    """The trainer's log, in its state beside the last checkpoint."""
    log = [{"step": step, name: value} for step, value in values.items()]
    folder = run / f"checkpoint-{max(values)}"
    folder.mkdir(exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": log}))


# Nothing to do


def test_a_run_that_kept_what_it_knew_gets_none(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {5: 0, 10: 1})
    (one,) = advice(run)
    assert one.text.startswith("nothing to do: KEPT, ")
    assert (one.kind, one.command) == ("none", "")
    with_losses(run, {5: 2.0, 10: 0.5})
    assert advice(run)[0].text.endswith(". New task: eval loss 2 -> 0.5")


def test_a_training_that_changed_no_answer_is_asked_about(tmp_path: Path) -> None:
    (one,) = advice(written(tmp_path / "run", {5: 0, 10: 0}))
    assert (
        one.text
        == "KEPT: none of 300 answers changed. Did the training change the model? Compare its loss"
    )


def test_a_loss_that_is_not_shown_gets_more_questions(tmp_path: Path) -> None:
    folder, right = tmp_path / "run", [True] * 37 + [False] * 3
    before, after = (
        snapshot(one, meta={"model": "m", "step": step}, k=[4] * 40)
        for step, one in ((0, right), (5, right[::-1]))
    )
    write_run(folder, probe(40), before, {5: after})
    (one,) = advice(folder)
    assert one.text.startswith(
        "nothing to mend: no loss is shown, and too little was measured to rule one out: "
    )
    assert "measure more" in one.text
    assert one.command == ""  # a probe of its own


def test_a_part_of_a_shipped_probe_is_measured_whole(tmp_path: Path) -> None:
    folder, right = tmp_path / "run", [True] * 37 + [False] * 3
    meta = {"model": "org/base", "probe": {"name": "standard", "items": 40, "of": 2000}}
    before, after = (
        snapshot(one, meta={**meta, "step": step}, k=[4] * 40)
        for step, one in ((0, right), (5, right[::-1]))
    )
    write_run(folder, probe(40), before, {5: after})
    a_model(folder / "checkpoint-5")
    (one,) = advice(folder)
    assert one.command == f"forgetwatch compare org/base {folder}/checkpoint-5 --probe standard"


def test_a_model_that_knew_nothing_has_nothing_to_lose(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    write_run(folder, probe(ITEMS), look(0, 0, right=75), {5: look(5, 2, right=75)})
    (one,) = advice(folder)
    assert one.text.startswith(
        "nothing to do: NOT CLEAR, before training it was not shown to be better than guessing"
    )


# An earlier checkpoint


def test_the_knee_is_kept_where_the_new_task_has_a_figure(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {5: 0, 10: 4, 15: 60, 20: 100})
    with_losses(run, {5: 2.0, 10: 0.6, 15: 0.55, 20: 0.5})
    (run / "checkpoint-5").mkdir()
    (run / "checkpoint-10").mkdir()
    first = advice(run)[0]
    assert first.kind == "keep"
    assert (
        first.text == f"keep {run}/checkpoint-10: 0.4 to 4.3 % lost, eval loss 0.6 (0.5 at the end)"
    )


def test_without_a_figure_the_best_look_is_kept_and_the_task_is_to_be_checked(
    tmp_path: Path,
) -> None:
    run = written(tmp_path / "run", {5: 0, 10: 4, 15: 100})
    (run / "checkpoint-5").mkdir()
    first = advice(run)[0]
    assert first.text.startswith(f"keep {run}/checkpoint-5: at most ")
    assert first.text.endswith("; what it learned is not known")


def test_a_look_without_a_checkpoint_is_a_step_to_save_at(tmp_path: Path) -> None:
    *_, last = advice(written(tmp_path / "run", {5: 0, 10: 100}))
    assert last.kind == "save"  # after what kept more where it was measured
    assert last.text.startswith("train again and save near step 5, or stop there: at most ")


def test_no_look_is_kept_that_is_not_better_beyond_chance(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {5: 118, 10: 100})
    (run / "checkpoint-5").mkdir()
    assert kinds(advice(run)) == ["replay", "change"]


# Merging, and another training


def test_a_loss_gets_the_least_work_first_with_commands_that_can_be_followed(
    tmp_path: Path,
) -> None:
    base, run = a_model(tmp_path / "base"), tmp_path / "run"
    written(run, {5: 0, 10: 100}, base=str(base))
    for step in (5, 10):
        a_model(run / f"checkpoint-{step}")
    verdict, *found = advise(Trajectory.from_run(run), run / "_forgetwatch")
    assert verdict.text.startswith("FORGOT: about 43 % of what it knew is gone (")
    assert kinds(found) == ["keep", "merge", "replay", "change"]
    assert found[0].command == ""  # no probe that ships is on the same subjects
    assert found[1].command.startswith(
        f"forgetwatch merge {base} {run}/checkpoint-10 --probe {run}/_forgetwatch/probe"
    )
    assert found[1].command.endswith(" --alpha .1,.3,.5,.7,.9")
    assert found[2].command == f"forgetwatch replay {base} -n 53 --for {run} -o replay.jsonl"
    assert "a quarter of the rate (0.0001)" in found[3].text
    assert "RetentionLoss" in found[3].text


def test_a_base_is_found_from_the_folder_of_the_run(tmp_path: Path) -> None:
    base = a_model(tmp_path / "work" / "models" / "base")
    run = written(tmp_path / "work" / "out" / "run", {5: 100}, base="models/base")
    a_model(run / "checkpoint-5")
    assert f"merge {base} " in advice(run)[0].command


@pytest.mark.parametrize(
    "described", [{"model": {"loaded": "folder"}}, {}], ids=["recorded as a folder", "beside it"]
)
def test_a_base_that_is_gone_is_no_model_of_the_hub(
    tmp_path: Path, described: dict[str, Any]
) -> None:
    (tmp_path / "models").mkdir()
    found = advice(written(tmp_path / "run", {5: 100}, base="models/base", **described))
    assert kinds(found) == ["replay", "change"]
    assert "BASE is recorded as models/base, which is not found from here" in found[0].text
    assert found[0].command == ""


def test_a_model_without_a_name_is_called_base(tmp_path: Path) -> None:
    first = advice(written(tmp_path / "run", {5: 100}, base="model"))[0]
    assert "BASE is the model before the training, which has no name here" in first.text
    assert first.command == ""


def test_what_the_run_had_is_not_proposed_again(tmp_path: Path) -> None:
    found = advice(written(tmp_path / "run", {5: 100}, training={**SFT, "retention": 0.5}))
    assert "a larger weight of RetentionLoss than 0.5" in found[-1].text


def test_after_a_collapse_the_rate_is_what_to_change(tmp_path: Path) -> None:
    found = advice(written(tmp_path / "run", {5: 240}))
    assert kinds(found) == ["change"]
    assert found[-1].text.endswith("train again with a tenth of the rate (4e-05) or less, a guess")


def test_models_of_unlike_architectures_are_not_merged(tmp_path: Path) -> None:
    base = a_model(tmp_path / "base")
    run = written(tmp_path / "run", {5: 100}, base=str(base))
    tuned = a_model(run / "checkpoint-5")
    assert kinds(advice(run)) == ["merge", "replay", "change"]
    (base / "config.json").write_text('{"model_type": "llama"}')
    (tuned / "config.json").write_text('{"model_type": "gpt2"}')
    assert kinds(advice(run)) == ["replay", "change"]


def test_an_adapter_is_scaled(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {5: 100}, base=str(a_model(tmp_path / "base")))
    (run / "checkpoint-5").mkdir()
    (run / "checkpoint-5" / "adapter_config.json").write_text("{}")
    assert advice(run)[0].text.startswith("scale the adapter down")


def test_a_trainer_that_writes_its_own_texts_gets_no_replay(tmp_path: Path) -> None:
    (one,) = advice(written(tmp_path / "run", {5: 100}, training={**SFT, "trainer": "GRPOTrainer"}))
    assert (
        one.text
        == "train again with a quarter of the rate (0.0001), or a larger weight of the KL to the base (beta)"
    )
    assert not one.measured


def test_replayed_texts_are_made_pairs_for_dpo(tmp_path: Path) -> None:
    first = advice(written(tmp_path / "run", {5: 100}, training={**SFT, "trainer": "DPOTrainer"}))[
        0
    ]
    assert first.text.endswith(" texts of the base mixed in, as pairs for DPO")


def test_a_loss_within_doubt_gets_no_other_training(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {5: 12})
    found = advice(run)
    assert kinds(found) == ["measure"]
    assert found[0].text.startswith(
        "measure more before you train again: whether the loss is beyond its limit is open"
    )
    assert found[0].command == ""


# Stages, and two models


def test_a_stage_that_lost_is_mended_from_its_own_start(tmp_path: Path) -> None:
    start = a_model(tmp_path / "one" / "checkpoint-9")
    run = written(tmp_path / "two", {5: 100}, base=str(start), first=look(0, 0, model="org/base"))
    a_model(run / "checkpoint-5")
    found = advice(run)
    assert kinds(found) == ["merge", "replay", "change"]
    assert "with the start of this stage" in found[0].text
    assert found[1].command.startswith(f"forgetwatch replay {start} ")


def test_a_figure_that_no_checkpoint_kept_is_that_of_the_run_folder(tmp_path: Path) -> None:
    task = {"name": "loss", "values": [[5, 1.5], [10, 0.5]]}
    *_, first = advice(written(tmp_path / "run", {5: 0, 10: 100}, task=task))
    assert "% lost, loss 1.5 (0.5 at the end)" in first.text


def test_a_look_that_is_forgot_is_not_kept(tmp_path: Path) -> None:
    run = written(tmp_path / "run", {5: 40, 10: 100})
    (run / "checkpoint-5").mkdir()
    assert kinds(advice(run)) == ["replay", "change"]


@pytest.mark.parametrize(
    ("lost", "losses", "saved", "tolerance", "keep", "unsaved"),
    [
        (
            {5: 40, 10: 2, 15: 1},
            {5: 1.0, 10: 0.9, 15: 0.8},
            (5, 10, 15),
            {},
            15,
            None,
        ),  # the last is KEPT
        ({5: 3, 10: 8, 15: 90}, {5: 2.0, 10: 0.9, 15: 0.8}, (5, 10, 15), {}, 10, None),  # the knee
        (
            {5: 3, 10: 8, 15: 90},
            {5: 2.0, 10: 0.9, 15: 0.8},
            (5, 15),
            {},
            5,
            10,
        ),  # the knee was not saved
        (
            {5: 3, 10: 30, 15: 90},
            {5: 2.0, 10: 0.9, 15: 0.8},
            (5, 10, 15),
            {},
            5,
            None,
        ),  # the knee is FORGOT
        (
            {5: 3, 10: 30, 15: 90},
            {5: 2.0, 10: 0.9, 15: 0.8},
            (5, 10, 15),
            {"known": 0.3, "accuracy": 0.3},
            10,
            None,
        ),
        (
            {5: 3, 10: 1, 15: 90},
            {},
            (5, 10, 15),
            {},
            10,
            None,
        ),  # without a figure the last that is KEPT
        ({5: 14, 10: 15, 15: 90}, {}, (5, 10, 15), {}, 5, None),  # or the one that kept most
        ({5: 90, 10: 95, 15: 99}, {5: 2.0, 10: 0.9}, (5, 10, 15), {}, None, None),
    ],
)
def test_the_checkpoint_to_keep_is_chosen_by_one_rule(
    tmp_path: Path,
    lost: Mapping[int, int],
    losses: Mapping[int, float],
    saved: tuple[int, ...],
    tolerance: dict[str, float],
    keep: int | None,
    unsaved: int | None,
) -> None:
    task = (
        {"task": {"name": "loss", "values": [[step, value] for step, value in losses.items()]}}
        if losses
        else {}
    )
    run = written(tmp_path / "run", lost, **task)
    for step in saved:
        a_model(run / f"checkpoint-{step}")
    found = look_to_keep(Trajectory.from_run(run), run, Tolerance(**tolerance))
    assert [None if one is None else one.step for one in found] == [keep, unsaved]
    assert found[0] is None or found[0].checkpoint == run / f"checkpoint-{keep}"


def test_the_losses_of_an_earlier_stage_are_sent_there(tmp_path: Path) -> None:
    run, first = tmp_path / "two", a_model(tmp_path / "first")
    lost = {step: look(step, 100, model="org/middle") for step in (0, 5)}
    base = look(0, 0, model=str(first))
    write_run(run, probe(ITEMS), lost[0], {5: lost[5]}, first=base, training=SFT)
    a_model(run / "checkpoint-5")
    found = advice(run)
    assert kinds(found) == ["earlier", "merge", "replay"]
    assert "This stage itself is KEPT: the loss came earlier, so begin there (one)" in found[0].text
    assert found[1].command.startswith(f"forgetwatch merge {first} {run}/checkpoint-5 ")


# The command


def test_a_run_without_a_look_is_refused_and_the_command_prints_and_writes(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    write_run(empty, probe(ITEMS), look(0, 0), {})
    with pytest.raises(SnapshotError, match="needed a look after the start, found none"):
        advise(Trajectory.from_run(empty), empty)
    run = written(tmp_path / "run", {5: 100})
    done = CliRunner().invoke(
        app, ["report", str(run), "--json", str(tmp_path / "a.json")], catch_exceptions=False
    )
    assert f"next       forgetwatch flips {run}\n" in done.stdout
    assert (
        "measure again after each:\n1. train again with 53 texts of the base mixed in"
        in done.stdout
    )
    assert "2. train again with a quarter of the rate" in done.stdout
    document = json.loads((tmp_path / "a.json").read_text())
    assert [one["kind"] for one in document["advice"]] == ["verdict", "replay", "change"]
