"""What a refused table is told: a command only where name and values of each column say what it is."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from forgetwatch import compare, load_snapshot
from forgetwatch.errors import SnapshotError
from forgetwatch.readers import ColumnMap, read_mapped

N = 12
HALF = [at % 2 for at in range(N)]
IDS = [f"q{at}" for at in range(N)]
ASKED = {"question": [f"What is {at} plus 1?" for at in range(N)]}


def write(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def told(path: Path) -> str:
    with pytest.raises(SnapshotError) as caught:
        load_snapshot(path)
    return str(caught.value)


@pytest.mark.parametrize(
    "columns",
    [
        {"step": [0] * N},
        {"turn": [1] * N},
        {"rank": HALF},
        {"index_in_batch": HALF},
        {"agreement": HALF},
        {"label": HALF},
        {"is_long": HALF},
        {"epoch": HALF},
        {"seed": HALF},
        {"annotator_1": HALF},
        {"truncated": [False] * N},
        {"flagged": HALF},
        {"worker": HALF},
        {"score": [-1.0, 1.0] * (N // 2), "step": [0] * N},
        {"score": list(range(N)), "turn": [1] * N},
        {"judge_vote": HALF, "pass_number": [1] * N},
        {"output": ["It is 7."] * N, "label": HALF},
        {"output": ["It is 7."] * N, "gold": ["7"] * N, "score": [-1, 1] * (N // 2)},
    ],
)
def test_no_outcome_is_proposed_where_none_is_certain(tmp_path: Path, columns: dict[str, list[Any]]) -> None:
    said = told(write(tmp_path / "log.jsonl", {"id": IDS, **ASKED, **columns}))
    assert "--map correct=COLUMN" in said
    assert "if meant" not in said
    assert all(name in said for name in columns)


def test_without_names_no_outcome_is_proposed(tmp_path: Path) -> None:
    cells = [IDS, ASKED["question"], HALF, [1] * N, ["7"] * N]
    said = told(write(tmp_path / "log.jsonl", {f"x{at}": column for at, column in enumerate(cells)}))
    assert "if meant" not in said


@pytest.mark.parametrize(
    ("columns", "pairs"),
    [
        ({"id": IDS, "passed": HALF, "turn": [1] * N}, "--map item_id=id --map correct=passed"),
        ({"index": list(range(N)), **ASKED, "acc": HALF}, "--map question=question --map correct=acc"),
        ({"example_id": IDS, "reward": HALF}, "--map item_id=example_id --map correct=reward"),
        ({**ASKED, "predict": ["7"] * N, "label": IDS}, "--map output=predict --map gold=label --match contains"),
    ],
)
def test_certain_columns_are_proposed(tmp_path: Path, columns: dict[str, list[Any]], pairs: str) -> None:
    assert f"{pairs} -o out.parquet` takes them, if meant" in told(write(tmp_path / "log.jsonl", columns))


def test_failures_alone_and_constant_outcomes_are_named(tmp_path: Path) -> None:
    said = told(write(tmp_path / "log.jsonl", {"id": IDS, "valid": [False] * N}))
    assert "'valid' is false in every row: a list of failures only" in said
    assert "'passed' is true in every row; " in told(write(tmp_path / "log.jsonl", {"id": IDS, "passed": [1] * N}))


def test_rows_with_outputs_are_no_probe(tmp_path: Path) -> None:
    questions = {"prompt": IDS, "answer": ["7"] * N}
    assert "a probe (questions)" in told(write(tmp_path / "log.jsonl", questions))
    assert "a probe" not in told(write(tmp_path / "log.jsonl", {**questions, "completion": ["7"] * N}))


def sampled(path: Path, outcomes: Sequence[int], *, n: int = 4) -> ColumnMap:
    write(path, {"q": [f"q{at // n}" for at in range(len(outcomes))], "ok": outcomes})
    return ColumnMap(fields={"question": "q", "correct": "ok"}, by_order=True)


def test_answers_to_one_question_are_samples_of_it(tmp_path: Path) -> None:
    outcomes = [int(at % 3 > 0) for at in range(40)]
    sides = []
    for name, given in (("before", outcomes), ("after", outcomes[::-1])):
        path = tmp_path / f"{name}.jsonl"
        sides.append(read_mapped(path, sampled(path, given)))
    found = compare(before=sides[0], after=sides[1])
    assert (found.all.n, found.samples) == (10, 4)


def test_unlike_numbers_of_answers_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with pytest.raises(SnapshotError, match="questions have from 3 to 4 of them"):
        read_mapped(path, sampled(path, [0, 1] * 9 + [1]))


def test_a_few_repeated_questions_stay_items(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", {"q": [*IDS, "q0"], "ok": [*HALF, 1]})
    read = read_mapped(path, ColumnMap(fields={"question": "q", "correct": "ok"}, by_order=True))
    assert len(set(read.texts("item_id"))) == N + 1
