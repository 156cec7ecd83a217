"""Rows of another tool as a snapshot: ids, categories, metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from forgetwatch.errors import SnapshotError
from forgetwatch.readers import Log


def log(*ids: str, task: str = "t") -> Log:
    made = Log(Path("some.log"), "tool")
    for number, item_id in enumerate(ids):
        made.add(task=task, item_id=item_id, question=[number], metrics={"acc": 1})
    return made


def test_ids_that_repeat_get_a_number_that_no_other_has() -> None:
    read = log("a", "a#2", "a", "b", "a", "a#2").snapshot("acc", {})
    assert read.texts("item_id").tolist() == ["a", "a#2", "a#3", "b", "a#4", "a#2#2"]


def test_categories_are_the_papers_and_else_those_of_the_log() -> None:
    made = log("a", task="mmlu_anatomy")
    made.add(task="mmlu_anatomy", item_id="b", question=1, metrics={"acc": 0}, category="own")
    made.add(task="unheard_of", item_id="c", question=1, metrics={"acc": 0}, category="own")
    made.add(task="unheard_of", item_id="d", question=1, metrics={"acc": 0})
    assert made.snapshot("acc", {}).texts("category").tolist() == ["Science/Tech", "Science/Tech", "own", ""]


def test_each_task_uses_the_metric_or_its_own_first() -> None:
    made = log("a", task="one")
    made.add(task="two", item_id="b", question=1, metrics={"acc": 0.5, "zeta": True, "em": False})
    made.add(task="three", item_id="c", question=1, metrics={"acc,x": 0})
    made.add(task="four", item_id="d", question=1, metrics={"f1": 0.5})
    assert list(made.metrics) == ["acc", "acc,x", "em", "zeta"]
    read = made.snapshot(made.metric(None), {})
    assert read.table["correct"].to_pylist() == [True, False, False, None]
    assert read.meta["metrics"] == {"one": "acc", "two": "em", "three": "acc,x"}
    assert read.texts("outcome")[3] == "unscored: no metric of the task is right or wrong"
    assert "right or wrong is em where there is no acc: two" in read.notes
    assert made.metric("acc,none") == "acc"
    with pytest.raises(SnapshotError, match=r"f1 \(row 4: 0.5\) is not right or wrong .*: acc, acc,x, em, zeta"):
        made.metric("f1")


def test_answers_with_a_reason_are_unscored() -> None:
    made = log("a")
    made.add(task="t", item_id="b", question=1, metrics={"acc": 1}, unscored="the answer failed")
    read = made.snapshot("acc", {})
    assert read.table["correct"].to_pylist() == [True, None]
    assert read.texts("outcome").tolist() == ["ok", "unscored: the answer failed"]


def test_words_and_numbers_for_right_and_wrong_are_read() -> None:
    made = Log(Path("some.log"), "tool")
    for number, value in enumerate([1, 0.0, True, "False", "1.0", None]):
        made.add(task="t", item_id=str(number), question=number, metrics={"acc": value})
    assert made.snapshot("acc", {}).table["correct"].to_pylist() == [True, False, True, False, True, None]


def test_an_empty_log_an_unknown_column_and_a_question_that_is_no_json_are_refused() -> None:
    with pytest.raises(SnapshotError, match="no answers"):
        log().snapshot("acc", {})
    with pytest.raises(SnapshotError, match="unknown column 'colour'"):
        log().add(task="t", item_id="a", question=1, metrics={}, colour=3)
    with pytest.raises(SnapshotError, match="the question of item 'a' cannot be read"):
        log().add(task="t", item_id="a", question={1, 2}, metrics={})
    with pytest.raises(SnapshotError, match=r"no metric in this log is right or wrong .* it has none"):
        Log(Path("some.log"), "tool").metric(None)


def test_an_unnamed_item_that_comes_again_is_another_item() -> None:
    made = Log(Path("some.log"), "tool")
    for item_id in (None, None, "a", "a"):
        made.add(task="t", item_id=item_id, question=["q"], metrics={"acc": 1}, output="x")
    assert len(made.snapshot("acc", {})) == 3
    made.add(task="t", item_id="a", question=["q"], metrics={"acc": 1}, output="y")
    with pytest.raises(SnapshotError, match="item 'a' has two answers, in rows 3 and 5 of the log"):
        made.snapshot("acc", {})
