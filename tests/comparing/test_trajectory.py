from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import write_run
from support import probe, snapshot

from forgetwatch import Snapshot, Trajectory
from forgetwatch.comparing import first_forgotten
from forgetwatch.errors import MismatchError, SnapshotError


def look(step: int | None, correct: list[bool | None], **columns: Any) -> Snapshot:
    return snapshot(correct, meta={"step": step}, **columns)


def test_looks_come_in_order_and_are_compared_with_the_first() -> None:
    made = Trajectory.of([look(20, [False, False]), look(0, [True, True]), look(5, [True, False])])
    assert made.steps == (0, 5, 20)
    assert [comparison.all.forgotten for comparison in made.comparisons] == [0, 1, 2]


def test_the_history_follows_each_item_in_any_order_of_rows() -> None:
    hashes = {"item_id": ["1", "2", "3"], "content_hash": ["A", "B", "C"]}
    turned = {"item_id": ["3", "2", "1"], "content_hash": ["C", "B", "A"]}
    looks = look(0, [True, True, False], **hashes), look(1, [False, True, False], **turned)
    made = Trajectory.of([*looks, look(2, [True, True, True], **hashes)])
    assert made.right.tolist() == [[1, 1, 0], [0, 1, 0], [1, 1, 1]]
    assert (made.course.ever_forgotten[-1], made.course.regained[-1]) == (1, 1)
    assert first_forgotten(made) == {("t", "1", 0): 1}


def test_a_look_of_fewer_items_cuts_all_comparisons_to_these() -> None:
    whole = {"probe": {"fingerprint": "f", "items": 3}}
    first = {"probe": {"fingerprint": "f", "items": 2, "of": 3}}
    looks = [
        snapshot([True, True, True], meta={"step": 0, **whole}),
        snapshot([True, False, False], meta={"step": 1, **whole}),
        snapshot([False, False], meta={"step": 2, **first}),
    ]
    made = Trajectory.of(looks)
    assert [(each.all.n, each.all.forgotten) for each in made.comparisons] == [(2, 0), (2, 1), (2, 2)]
    assert made.right.tolist() == [[1, 1], [1, 0], [0, 0]]
    assert len(made.guess) == 2


def test_items_unscored_at_some_look_have_no_history_and_open_ones_no_guesses() -> None:
    made = Trajectory.of([look(0, [True, True, None], k=[4, 2, 2]), look(1, [False, None, True], k=[4, 2, 2])])
    assert len(made.course.events) == 1
    assert made.guessed.ever_forgotten[-1] == pytest.approx(0.25 * 0.75)
    open_item = Trajectory.of([look(0, [True]), look(1, [False])])
    assert np.isnan(open_item.guessed.ever_forgotten[-1])


def test_a_run_folder_is_read_with_all_its_looks(tmp_path: Path) -> None:
    looks = {1000: look(1000, [True, False]), 200: look(200, [False, False])}
    write_run(tmp_path, probe(2), look(0, [True, True]), looks)
    made = Trajectory.from_run(tmp_path)
    assert (made.steps, made.notes) == ((0, 200, 1000), ())
    with pytest.raises(SnapshotError, match=r"baseline\.parquet, found none"):
        Trajectory.from_run(tmp_path / "none")


def test_snapshots_that_are_no_run_are_refused() -> None:
    with pytest.raises(SnapshotError, match="got no look"):
        Trajectory.of([])
    with pytest.raises(SnapshotError, match="name no step"):
        Trajectory.of([look(None, [True])])
    with pytest.raises(SnapshotError, match="two looks were taken at step 1"):
        Trajectory.of([look(0, [True]), look(1, [True]), look(1, [False])])
    with pytest.raises(MismatchError):
        Trajectory.of([look(0, [True]), look(1, [True], content_hash=["other"])])


def test_a_rescued_baseline_leaves_net_alarms_their_half_of_the_false_alarms() -> None:
    """The looks before the rescue have spent the other half on fading."""
    rows = [True] * 60
    plain = Trajectory.of([look(0, rows), look(1, rows)], planned=2)
    rescued = snapshot(rows, meta={"step": 0, "rescued": "right and wrong only"})
    halved = Trajectory.of([rescued, look(1, rows)], planned=2)
    assert {test.kind for test in halved.verdicts()} == {"net"}
    assert halved.verdicts()[0].alarm_level == plain.verdicts()[0].alarm_level / 2


def test_all_planned_looks_have_the_level_of_the_plan_and_later_ones_do_not() -> None:
    """Two looks planned, two groups: .05/4 at both; the third by the rule without a plan, .05/(2 * 3 * 4)."""
    rows = [True] * 60
    made = Trajectory.of([look(step, rows) for step in range(4)], planned=2)
    levels = {test.step: test.alarm_level for test in made.verdicts()}
    assert levels == pytest.approx({1: 0.05 / 4, 2: 0.05 / 4, 3: 0.05 / 24})


def test_a_loss_that_only_the_plan_allows_is_an_alarm_at_the_last_planned_look() -> None:
    """Seven of seven flips lost, p = .0078: below .05/4, and above .05/(2 * 2 * 3) = .0042."""
    rows = [True] * 60
    made = Trajectory.of([look(0, rows), look(1, rows), look(2, [False] * 7 + [True] * 53)], planned=2)
    found = [(alarm.kind, alarm.step, alarm.group.name) for alarm in made.alarms()]
    assert found == [("net", 2, "all"), ("net", 2, "c")]
    assert made.alarms()[0].p_value == pytest.approx(0.5**7)


def test_an_alarm_says_in_one_line_if_it_was_raised_and_by_which_numbers() -> None:
    rows = [True] * 60
    quiet, loud = Trajectory.of([look(0, rows), look(1, rows), look(2, [False] * 20 + [True] * 40)]).verdicts()[::2]
    assert not quiet.raised
    assert str(quiet) == "no alarm (net) at step 1, all: 0 forgotten and 0 gained of 60, p 1, alarm at 0.013"
    assert loud.raised
    assert str(loud) == "ALARM (net) at step 2, all: 20 forgotten and 0 gained of 60, p 9.5e-07, alarm at 0.0042"


def test_an_alarm_of_fading_shows_the_change_of_the_log_score() -> None:
    scores = [[0.0, -3.0, -3.0]] * 30 + [[-1.0, -1.5, -0.5]] * 30
    faded = [[a - 1.0 - i / 60, b, c] for i, (a, b, c) in enumerate(scores)]
    columns = {"k": [3] * 60, "gold": [0] * 60}
    right = [True] * 30 + [False] * 30
    made = Trajectory.of(
        [look(step, right, choice_logprobs=rows, **columns) for step, rows in ((0, scores), (1, faded))], planned=1
    )
    fading = [test for test in made.verdicts() if test.kind == "fading"]
    change = fading[0].group.log_score_change_calibrated
    assert change is not None
    assert str(fading[0]).startswith(f"ALARM (fading) at step 1, all: calibrated log score {change:+.3f} nats, p ")
    assert change < -0.02


def test_a_look_without_scores_is_tested_for_a_net_loss_alone() -> None:
    columns = {"k": [3] * 60, "gold": [0] * 60}
    first, second = (look(step, [True] * 60, choice_logprobs=[[0.0, -3.0, -3.0]] * 60, **columns) for step in (0, 1))
    made = Trajectory.of([first, second, look(2, [True] * 60, **columns)])
    kinds = {step: [test.kind for test in made.verdicts() if test.step == step] for step in (1, 2)}
    assert kinds == {1: ["net", "net", "fading", "fading"], 2: ["net", "net"]}
    assert made.has_scores


def test_a_run_prints_without_its_answers() -> None:
    made = Trajectory.of([look(step, [True] * 500) for step in (0, 1)])
    assert len(repr(made)) < 200
    assert "array" not in repr(made)
