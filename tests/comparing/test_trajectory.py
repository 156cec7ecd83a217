from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import snapshot

from forgetwatch import Snapshot, Trajectory, save_snapshot
from forgetwatch.errors import MismatchError, SnapshotError


def look(step: int | None, correct: list[bool | None], **columns: Any) -> Snapshot:
    return snapshot(correct, meta={"step": step}, **columns)


def test_looks_come_in_order_and_are_compared_with_the_first() -> None:
    made = Trajectory.of([look(20, [False, False]), look(0, [True, True]), look(5, [True, False])])
    assert made.steps == (0, 5, 20)
    assert [comparison.all.forgotten for comparison in made.comparisons] == [0, 1, 2]
    assert made.course.forgotten.tolist() == [1, 2]


def test_the_history_follows_each_item_in_any_order_of_rows() -> None:
    hashes = {"item_id": ["1", "2", "3"], "content_hash": ["A", "B", "C"]}
    turned = {"item_id": ["3", "2", "1"], "content_hash": ["C", "B", "A"]}
    made = Trajectory.of(
        [
            look(0, [True, True, False], **hashes),
            look(1, [False, True, False], **turned),
            look(2, [True, True, True], **hashes),
        ]
    )
    assert made.right.tolist() == [[1, 1, 0], [0, 1, 0], [1, 1, 1]]
    assert (made.course.ever_forgotten[-1], made.course.regained[-1]) == (1, 1)
    assert made.course.first_forgotten.tolist() == [1, -1, -1]


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


def test_items_unscored_at_some_look_have_no_history() -> None:
    made = Trajectory.of([look(0, [True, True, None], k=[4, 2, 2]), look(1, [False, None, True], k=[4, 2, 2])])
    assert len(made.course.events) == 1
    assert made.guessed.ever_forgotten[-1] == pytest.approx(0.25 * 0.75)


def test_open_items_have_no_guess_reference() -> None:
    made = Trajectory.of([look(0, [True]), look(1, [False])])
    assert np.isnan(made.guessed.ever_forgotten[-1])


def test_a_run_folder_is_read_with_all_its_looks(tmp_path: Path) -> None:
    for step, correct in ((0, [True, True]), (1000, [True, False]), (200, [False, False])):
        name = "baseline.parquet" if step == 0 else f"step-{step:06d}.parquet"
        save_snapshot(look(step, list(correct)), tmp_path / name)
    assert Trajectory.from_run(tmp_path).steps == (0, 200, 1000)
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
