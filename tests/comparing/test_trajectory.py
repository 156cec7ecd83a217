"""Several runs as stages of one line."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import write_run
from support import decided, probe, snapshot

from forgetwatch import Snapshot, Trajectory
from forgetwatch.comparing.document import trajectory_json
from forgetwatch.comparing.flips import first_forgotten
from forgetwatch.comparing.stages import read_stages
from forgetwatch.comparing.trajectory import guessed_history, trajectory_of
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.measures.base_drift import LookDrift
from forgetwatch.report.plots import trajectory_figure
from forgetwatch.run.guard import Guard


def look(step: int | None, correct: list[bool | None], **columns: Any) -> Snapshot:
    return snapshot(correct, meta={"step": step}, **columns)


def test_looks_come_in_order_and_are_compared_with_the_first() -> None:
    made = trajectory_of([look(20, [False, False]), look(0, [True, True]), look(5, [True, False])])
    assert made.steps == (0, 5, 20)
    assert [comparison.all.forgotten for comparison in made.comparisons] == [0, 1, 2]


def test_the_history_follows_each_item_in_any_order_of_rows() -> None:
    hashes = {"item_id": ["1", "2", "3"], "content_hash": ["A", "B", "C"]}
    turned = {"item_id": ["3", "2", "1"], "content_hash": ["C", "B", "A"]}
    looks = look(0, [True, True, False], **hashes), look(1, [False, True, False], **turned)
    made = trajectory_of([*looks, look(2, [True, True, True], **hashes)])
    assert made.right.tolist() == [[1, 1, 0], [0, 1, 0], [1, 1, 1]]
    assert (made.item_history.ever_forgotten[-1], made.item_history.regained[-1]) == (1, 1)
    assert first_forgotten(made) == {("t", "1", 0): 1}


def test_a_look_of_fewer_items_cuts_all_comparisons_to_these() -> None:
    whole = {"probe": {"fingerprint": "f", "items": 3}}
    first = {"probe": {"fingerprint": "f", "items": 2, "of": 3}}
    looks = [
        snapshot([True, True, True], meta={"step": 0, **whole}),
        snapshot([True, False, False], meta={"step": 1, **whole}),
        snapshot([False, False], meta={"step": 2, **first}),
    ]
    made = trajectory_of(looks)
    assert [(each.all.n, each.all.forgotten) for each in made.comparisons] == [
        (2, 0),
        (2, 1),
        (2, 2),
    ]
    assert made.right.tolist() == [[1, 1], [1, 0], [0, 0]]
    assert len(made.guess) == 2


def test_items_unscored_at_some_look_have_no_history_and_open_ones_no_guesses() -> None:
    made = trajectory_of(
        [look(0, [True, True, None], k=[4, 2, 2]), look(1, [False, None, True], k=[4, 2, 2])]
    )
    assert len(made.item_history.events) == 1
    assert guessed_history(made).ever_forgotten[-1] == pytest.approx(0.25 * 0.75)
    open_item = trajectory_of([look(0, [True]), look(1, [False])])
    assert np.isnan(guessed_history(open_item).ever_forgotten[-1])


def test_a_run_folder_is_read_with_all_its_looks(tmp_path: Path) -> None:
    looks = {1000: look(1000, [True, False]), 200: look(200, [False, False])}
    write_run(tmp_path, probe(2), look(0, [True, True]), looks)
    made = Trajectory.from_run(tmp_path)
    assert (made.steps, made.notes) == ((0, 200, 1000), ())
    with pytest.raises(SnapshotError, match=r"baseline\.parquet, found none"):
        Trajectory.from_run(tmp_path / "none")


def test_snapshots_that_are_no_run_are_refused() -> None:
    with pytest.raises(SnapshotError, match="the run has no looks"):
        trajectory_of([])
    with pytest.raises(SnapshotError, match="name no step"):
        trajectory_of([look(None, [True])])
    with pytest.raises(SnapshotError, match="two looks were taken at step 1"):
        trajectory_of([look(0, [True]), look(1, [True]), look(1, [False])])
    with pytest.raises(MismatchError):
        trajectory_of([look(0, [True]), look(1, [True], content_hash=["other"])])


def two(step: int, lost: int = 0, of: int = 60, **columns: Any) -> Snapshot:
    """Look at two categories of 60 items, of the first of which some are lost."""
    right: list[bool | None] = [False] * lost + [True] * (of - lost) + [True] * of
    return look(step, right, category=["a"] * of + ["b"] * of, **columns)


def test_all_items_have_half_of_alpha_and_the_categories_share_the_other_half() -> None:
    made = trajectory_of([two(0), two(1)], planned=2)
    levels = {test.group.name: test.alarm_level for test in made.verdicts()}
    assert levels == pytest.approx({"all": 0.05 / 4, "a": 0.05 / 8, "b": 0.05 / 8})


def test_a_single_category_is_the_whole_which_has_all_of_alpha() -> None:
    made = trajectory_of([look(step, [True] * 60) for step in range(2)], planned=1)
    assert [(test.group.name, test.alarm_level) for test in made.verdicts()] == [("all", 0.05)]


def test_all_planned_looks_have_the_level_of_the_plan_and_later_ones_do_not() -> None:
    """Two looks planned: .05/2 at both; the third by the rule without a plan, .05/(3 * 4)."""
    rows = [True] * 60
    made = trajectory_of([look(step, rows) for step in range(4)], planned=2)
    levels = {test.step: test.alarm_level for test in made.verdicts()}
    assert levels == pytest.approx({1: 0.05 / 2, 2: 0.05 / 2, 3: 0.05 / 12})


def test_a_loss_that_only_the_plan_allows_is_an_alarm_at_the_last_planned_look() -> None:
    """Six of six flips lost, p = .0156: below .05/2, and above .05/(2 * 3) = .0083."""
    rows = [True] * 60
    made = trajectory_of(
        [look(0, rows), look(1, rows), look(2, [False] * 6 + [True] * 54)], planned=2
    )
    found = [(alarm.by, alarm.step, alarm.group.name) for alarm in made.alarms()]
    assert found == [("flips", 2, "all")]
    assert made.alarms()[0].p_value == pytest.approx(0.5**6)


def test_an_alarm_says_in_one_line_if_it_was_raised_and_by_which_numbers() -> None:
    rows = [True] * 60
    quiet, loud = trajectory_of(
        [look(0, rows), look(1, rows), look(2, [False] * 20 + [True] * 40)]
    ).verdicts()
    assert not quiet.raised
    assert (
        str(quiet)
        == "no alarm at step 1, all: 0 forgotten and 0 gained of 60, p 1 by flips, alarm at 0.025"
    )
    assert loud.raised
    assert (
        str(loud)
        == "ALARM at step 2, all: 20 forgotten and 0 gained of 60, p 9.5e-07 by flips, alarm at 0.0083"
    )


def test_margins_alarm_before_flips_do_and_name_the_smallest_loss() -> None:
    """Margins fall by a third of a nat, with noise: as many answers are lost as that makes, and some are gained."""
    rng = np.random.default_rng(4)
    start = rng.normal(0, 2, (200, 3)) + np.array([1.5, 0.0, 0.0])
    fallen = start - np.array([0.3, 0.0, 0.0]) + rng.normal(0, 0.6, start.shape)
    made = trajectory_of(
        [decided(start, meta={"step": 0}), decided(fallen, meta={"step": 1})], planned=20
    )
    test, *others = made.verdicts()
    assert [one.kind for one in others] == ["known"]
    assert (test.by, test.raised) == ("margins", True)
    assert test.group.loss_p_value > test.alarm_level
    assert 0.005 < test.smallest_loss < -test.group["net_change_estimate"]


def hidden_loss(rng: np.random.Generator, share: float, *, step: int) -> Snapshot:
    """Look at 500 items of which 150 are known and as many wrong: a share of the known is lost, as many are learned."""
    scores = np.zeros((500, 4))
    scores[:150, 0], scores[150:300, 1], scores[300:, 0] = 6.0, 1.0, 1.0
    lost = int(share * 150)
    scores[:lost, 1], scores[150 : 150 + lost, 0] = 9.0, 4.0
    return decided(scores + rng.normal(0, 0.3, scores.shape), meta={"step": step})


@pytest.mark.parametrize(
    ("shares", "planned", "step"),
    [
        ((0, 0.2, 0.2), 3, 3),
        ((0.2, 0, 0.2), 3, None),
        ((0.2,), 1, 1),
        ((0, 0, 0), 3, None),
        ((0.2, 0.2), None, 2),
    ],
)
def test_a_loss_of_knowledge_that_gains_hide_raises_an_alarm(
    shares: tuple[float, ...], planned: int | None, step: int | None
) -> None:
    """At two looks in a row; of one look that is planned, at that one."""
    rng = np.random.default_rng(2)
    looks = [hidden_loss(rng, share, step=at) for at, share in enumerate((0, *shares))]
    made = trajectory_of(looks, planned=planned)
    raised = [one for one in made.alarms() if one.kind == "known"]
    assert [(one.step, one.group.level) for one in raised] == (
        [] if step is None else [(step, "all")]
    )
    assert not any(one.kind == "net" for one in made.alarms())
    findings = Guard().findings(made)
    assert [one.what for one in findings] == ([] if step is None else ["known"])
    assert all("of what it clearly knew is lost (step" in one.line for one in findings)
    if step is not None:
        last = trajectory_json(made)["looks"][-1]["alarms"][-1]
        assert (last["kind"], last["raised"], last["p_value"]) == ("known", True, None)


def test_a_look_without_scores_and_a_small_group_are_tested_by_flips() -> None:
    scores = {"choice_logprobs": [[0.0, -3.0, -3.0]] * 120, "k": [3] * 120, "gold": [0] * 120}
    category = ["a"] * 80 + ["b"] * 40
    first, second = (
        look(step, [True] * 120, **{**scores, "category": category}) for step in (0, 1)
    )
    made = trajectory_of([first, second, look(2, [True] * 120, category=category)])
    by = {step: [test.by for test in made.verdicts() if test.step == step] for step in (1, 2)}
    assert by == {1: ["margins", "margins", "flips"], 2: ["flips", "flips", "flips"]}


def test_a_run_prints_as_its_table() -> None:
    made = trajectory_of([look(step, [True] * 500) for step in (0, 1)])
    assert "KEPT" in repr(made)
    assert len(repr(made)) < 600
    assert "array" not in repr(made)


Looks = dict[int, list[bool]]


def write(folder: Path, looks: Looks, *, planned: int | None = None) -> Path:
    rows = {
        step: snapshot(right, meta={"model": folder.name, "step": step})
        for step, right in looks.items()
    }
    write_run(folder, probe(len(looks[0])), rows.pop(0), rows, planned=planned)
    return folder


BEST, MIDDLE, WORST = [True] * 8, [False] * 2 + [True] * 6, [False] * 5 + [True] * 3


def test_steps_count_on_and_compare_with_the_first_baseline(tmp_path: Path) -> None:
    sft = write(tmp_path / "sft", {0: BEST, 200: BEST, 400: MIDDLE}, planned=2)
    dpo = write(tmp_path / "dpo", {0: MIDDLE, 100: WORST}, planned=1)
    line = read_stages([sft, dpo])
    assert line.steps == (0, 200, 400, 500)
    assert [one.all.forgotten for one in line.comparisons] == [0, 0, 2, 5]
    assert line.planned == 3
    assert line.stages == (400,)
    panels = [panel for part in trajectory_figure(line).subfigs for panel in part.axes]
    assert [label.get_text() for panel in panels for label in panel.texts] == [" stage 2"] * 4
    assert line.comparisons[-1].notes == ()


def test_a_break_between_two_stages_is_noted_with_its_size(tmp_path: Path) -> None:
    sft = write(tmp_path / "sft", {0: BEST, 200: MIDDLE})
    dpo = write(tmp_path / "dpo", {0: BEST, 100: WORST})
    note = read_stages([sft, dpo]).comparisons[-1].notes[-1]
    first, second = sft / "_forgetwatch", dpo / "_forgetwatch"
    assert (
        note
        == f"{second} began with a model that answers 2 of 8 questions otherwise than the end of {first}"
    )


def test_a_later_stage_with_drift_is_noted_because_its_base_is_another(tmp_path: Path) -> None:
    sft, dpo = tmp_path / "sft", tmp_path / "dpo"
    drift = {"drift": {"probe": {"kl_sampled": 0.1}}}
    write(sft, {0: BEST, 200: MIDDLE})
    later = {100: snapshot(WORST, meta={"model": "dpo", "step": 100, **drift})}
    write_run(dpo, probe(8), snapshot(MIDDLE, meta={"model": "dpo", "step": 0}), later)
    line = read_stages([sft, dpo])
    assert line.comparisons[-1].drift is None
    assert line.comparisons[-1].notes == (
        "the drift of later stages is from the start of each, and is not shown here; `forgetwatch report` of "
        f"{dpo / '_forgetwatch'} alone shows it",
    )
    assert read_stages([sft]).comparisons[-1].notes == ()
    measured = tmp_path / "measured"  # the drift of the first stage is from the start of all
    whole = {
        one.name: 1 if one.name in ("completions", "tokens") else 0.1 for one in fields(LookDrift)
    }
    look = snapshot(
        MIDDLE, meta={"model": "sft", "step": 200, "drift": {"probe": {**whole, "floor": None}}}
    )
    write_run(measured, probe(8), snapshot(BEST, meta={"model": "sft", "step": 0}), {200: look})
    assert read_stages([measured, dpo]).comparisons[-1].notes == line.comparisons[-1].notes


def test_one_stage_is_the_trajectory_of_its_run(tmp_path: Path) -> None:
    sft = write(tmp_path / "sft", {0: BEST, 200: MIDDLE}, planned=4)
    one, same = read_stages([sft]), Trajectory.from_run(sft)
    assert (one.steps, one.planned, one.comparisons[-1].all) == (
        same.steps,
        same.planned,
        same.comparisons[-1].all,
    )


def test_a_plan_that_one_stage_lacks_is_none_and_a_stage_without_looks_adds_none(
    tmp_path: Path,
) -> None:
    sft = write(tmp_path / "sft", {0: BEST, 200: MIDDLE}, planned=4)
    none = write(tmp_path / "none", {0: MIDDLE})
    line = read_stages([sft, none, write(tmp_path / "grpo", {0: MIDDLE, 50: WORST})])
    assert (line.planned, line.steps) == (None, (0, 200, 250))


def test_no_run_and_other_questions_are_errors(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="at least one run folder"):
        read_stages([])
    sft = write(tmp_path / "sft", {0: BEST, 200: MIDDLE})
    other = write(tmp_path / "other", {0: [True] * 3, 5: [False] * 3})
    with pytest.raises(MismatchError):
        read_stages([sft, other])
