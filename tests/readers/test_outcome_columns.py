"""Outcomes between wrong and right, as tables and logs have them."""

import json
from pathlib import Path
from typing import Any

import pytest

from forgetwatch import compare
from forgetwatch.errors import SnapshotError
from forgetwatch.grading.outcome_rule import OutcomeRule, number_of, threshold_of
from forgetwatch.measures.graded import GRADED
from forgetwatch.readers.mapping import ColumnMap, read_mapped
from forgetwatch.readers.outcomes import load_snapshot
from forgetwatch.snapshot import Snapshot, read_snapshot, save_snapshot


def table(path: Path, **columns: list[Any]) -> Path:
    number = len(next(iter(columns.values())))
    rows = [{name: values[row] for name, values in columns.items()} for row in range(number)]
    path.write_text(
        "".join(
            json.dumps({"item_id": f"q{row}", **values}) + "\n" for row, values in enumerate(rows)
        )
    )
    return path


def read(path: Path, **rule: Any) -> tuple[list[Any], list[Any]]:
    snapshot = load_snapshot(path, rule=OutcomeRule(**rule))
    return snapshot.table["correct"].to_pylist(), snapshot.table["score"].to_pylist()


@pytest.mark.parametrize(
    ("values", "rule", "right", "scores"),
    [
        ([1, 0, True, "false", None, ""], {}, [True, False, True, False, None, None], None),
        (["pass", "FAIL", "C", "I", "resolved"], {}, [True, False, True, False, True], None),
        (["P", "N", "C", "skipped"], {}, [True, False, True, None], [0.5, 0.0, 1.0, None]),
        ([0.2, 0.5, "0.85", None], {}, [False, True, True, None], [0.2, 0.5, 0.85, None]),
        (
            [0.2, 0.5, 0.85],
            {"threshold": 0.5, "strict": True},
            [False, False, True],
            [0.2, 0.5, 0.85],
        ),
        ([0.2, 0.5], {"threshold": 0.2}, [True, True], [0.2, 0.5]),
        (
            [7, 6, 10],
            {"scale": (0, 10), "threshold": 7},
            [True, False, True],
            [0.7, 0.6, 1.0],
        ),
        ([-1, 1, 1], {"scale": (-1, 1)}, [False, True, True], None),
        ([-1, 1, 0], {"scale": (-1, 1)}, [False, True, True], [0.0, 1.0, 0.5]),
        ([1, 0, 1], {"lower_is_better": True}, [False, True, False], None),
        ([0.1, 0.9], {"lower_is_better": True}, [True, False], [0.9, pytest.approx(0.1)]),
        (
            [3, 1],
            {"scale": (1, 5), "lower_is_better": True, "threshold": 2},
            [False, True],
            [0.5, 1.0],
        ),
    ],
)
def test_values_become_outcomes_and_scores(
    tmp_path: Path,
    values: list[Any],
    rule: dict[str, Any],
    right: list[bool | None],
    scores: list[float | None] | None,
) -> None:
    for name in ("correct", "score"):
        found = read(table(tmp_path / f"{name}.jsonl", **{name: values}), **rule)
        assert found == (right, scores or [None] * len(values))


def test_a_score_beside_right_or_wrong_is_kept(tmp_path: Path) -> None:
    path = table(tmp_path / "a.jsonl", correct=[1, 0, 0], score=[0.9, 0.6, 0.1])
    assert read(path) == ([True, False, False], [0.9, 0.6, 0.1])
    assert read(path, threshold=0.5) == ([True, True, False], [0.9, 0.6, 0.1])
    other = table(tmp_path / "b.jsonl", correct=[1, 0, 0], score=[9, 6, 1])
    snapshot = load_snapshot(other)
    assert snapshot.table["correct"].to_pylist() == [True, False, False]
    assert snapshot.missing("score")
    assert snapshot.notes[0].startswith("left out: score has values from 1 to 9")
    assert read(other, scale=(0, 10)) == ([True, False, False], [0.9, 0.6, 0.1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 0, 2], "correct has values from 0 to 2; needed 0 to 1: give the lowest"),
        ([1, 0, -1], "correct has values from -1 to 1; .* --scale -1,1 reads -1 as wrong"),
        ([1, float("inf")], "correct has values from 1 to inf"),
        ([[0, 1]], "row 1: correct must be a score from 0 to 1, .* or empty, got '\\[0, 1\\]'"),
        (["maybe"], "row 1: correct must be .* got 'maybe'"),
    ],
)
def test_a_value_outside_the_scale_is_refused(
    tmp_path: Path, values: list[Any], message: str
) -> None:
    with pytest.raises(SnapshotError, match=message):
        load_snapshot(table(tmp_path / "a.jsonl", correct=values))


def test_rewards_by_token_are_summed(tmp_path: Path) -> None:
    assert read(table(tmp_path / "a.jsonl", score=[[0, 0, 1], [0, 0.25], [0]]))[1] == [1, 0.25, 0]
    path = table(tmp_path / "b.jsonl", reward=[[0, 0, 1], [0, 0.25], [0]])
    snapshot = read_mapped(path, ColumnMap(fields={"item_id": "item_id", "score": "reward"}))
    assert snapshot.table["score"].to_pylist() == [1, 0.25, 0]


def test_a_run_that_broke_has_no_outcome(tmp_path: Path) -> None:
    values = {"correct": [1, 0, 0, 0], "status": ["ok", "error", "ok", "late"]}
    path = table(tmp_path / "a.jsonl", **values, stop_reason=["stop", "stop", "length", "stop"])
    snapshot = load_snapshot(path)
    assert snapshot.table["correct"].to_pylist() == [True, None, False, False]
    assert snapshot.texts("outcome")[1] == "unscored: status=error"
    assert snapshot.notes == (
        "status=error: 1 rows, unscored",
        "stop_reason=length: 1 rows, counted as graded; --unscored-if leaves them out",
    )
    rule = OutcomeRule(unscored_if=(("stop_reason", "length"), ("status", "late")))
    assert load_snapshot(path, rule=rule).table["correct"].to_pylist() == [True, None, None, None]
    mapped = ColumnMap(fields={"item_id": "item_id", "correct": "correct"}, rule=rule)
    assert read_mapped(path, mapped).table["correct"].to_pylist() == [True, None, None, None]
    with pytest.raises(SnapshotError, match=r"no row has that field; .*did you mean 'status'"):
        load_snapshot(path, rule=OutcomeRule(unscored_if=(("statu", "late"),)))


def test_a_snapshot_keeps_scores_and_takes_another_threshold(tmp_path: Path) -> None:
    path = table(tmp_path / "a.jsonl", correct=[7, 4, 9])
    snapshot = load_snapshot(path, rule=OutcomeRule(scale=(0, 10)))
    save_snapshot(snapshot, tmp_path / "a.parquet")
    stored = read_snapshot(tmp_path / "a.parquet")
    assert stored.checksum == snapshot.checksum
    assert (stored.meta["right_if"], stored.meta["scale"]) == ("score>=5", [0.0, 10.0])
    strict = load_snapshot(tmp_path / "a.parquet", rule=OutcomeRule(threshold=8))
    assert strict.table["correct"].to_pylist() == [False, False, True]
    assert strict.meta["right_if"] == "score>=8"
    with pytest.raises(SnapshotError, match="needed --right-if alone"):
        load_snapshot(tmp_path / "a.parquet", rule=OutcomeRule(scale=(0, 5)))


def test_a_file_without_scores_is_as_before(tmp_path: Path) -> None:
    plain = Snapshot.from_columns({"item_id": ["a", "b"], "correct": [True, False]}, {})
    save_snapshot(plain, tmp_path / "plain.parquet")
    import pyarrow.parquet as pq

    assert "score" not in pq.read_schema(tmp_path / "plain.parquet").names
    assert read_snapshot(tmp_path / "plain.parquet").checksum == plain.checksum
    with pytest.raises(SnapshotError, match="needed scores of answers"):
        load_snapshot(tmp_path / "plain.parquet", rule=OutcomeRule(threshold=0.5))


@pytest.mark.parametrize(
    ("condition", "lower", "found"),
    [
        ("score>=0.7", False, {"threshold": 0.7, "strict": False}),
        (" score > .7".replace(".7", "0.7"), False, {"threshold": 0.7, "strict": True}),
        ("<=-1", True, {"threshold": -1.0, "strict": False}),
        ("f1>=0.5", False, "needed score>=NUMBER"),
        ("score<=0.5", False, "needed score>=NUMBER"),
        ("score>=0.5", True, "needed score<=NUMBER"),
    ],
)
def test_a_condition_names_a_threshold(condition: str, lower: bool, found: Any) -> None:
    if isinstance(found, dict):
        assert threshold_of(condition, lower_is_better=lower) == found
        return
    with pytest.raises(ValueError, match=found):
        threshold_of(condition, lower_is_better=lower)


def test_a_scale_rises() -> None:
    with pytest.raises(SnapshotError, match="needed the lower end first"):
        OutcomeRule(scale=(1.0, 0.0))


@pytest.mark.parametrize("value", ["maybe", [1, 2], {"a": 1}, "4_0", object()])
def test_no_number_stands_for_other_values(value: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        number_of(value)


def test_scores_of_one_side_and_outcomes_of_the_other_are_compared(tmp_path: Path) -> None:
    before = load_snapshot(table(tmp_path / "a.jsonl", correct=[1, 1, 0, 0] * 30))
    after = load_snapshot(table(tmp_path / "b.jsonl", correct=[0.8, 0.4, 0.1, 0.0] * 30))
    group = compare(before=before, after=after).all
    assert (group.forgotten, group.gained) == (30, 0)
    graded = group[GRADED]
    assert graded is not None
    assert (graded.before, graded.after) == (0.5, pytest.approx(0.325))
