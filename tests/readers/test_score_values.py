"""Scores that no model can have given, in tables of three formats and in logs: refused, or missing and counted."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from harness_rows import choice_row, write_samples
from support import write_jsonl, write_table

from forgetwatch import compare, load_snapshot
from forgetwatch.errors import MismatchError, SnapshotError
from forgetwatch.snapshot import Snapshot

FORMATS = pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
GOOD: dict[str, Any] = {
    "k": 3, "gold": 0, "chosen": 0, "correct": True,
    "choice_logprobs": [-1.0, -2.0, -3.0], "gold_share": 0.7, "margin": 1.0,
}  # fmt: skip


def table(folder: Path, suffix: str, **of_second: Any) -> Snapshot:
    """Three items; the second has other values."""
    rows = [{"item_id": name, **GOOD, **(of_second if name == "b" else {})} for name in "abc"]
    return load_snapshot(write_table(folder / f"t{suffix}", rows))


@FORMATS
@pytest.mark.parametrize("logprobs", [[-1.0, math.nan, -3.0], [-math.inf] * 3])
def test_an_item_with_unusable_scores_has_none_and_is_counted(
    tmp_path: Path, suffix: str, logprobs: list[float]
) -> None:
    found = table(tmp_path, suffix, choice_logprobs=logprobs)
    assert found.table["choice_logprobs"].to_pylist() == [[-1, -2, -3], None, [-1, -2, -3]]
    assert found.notes == (
        "choice_logprobs of 1 of 3 rows count as missing: they have no number for an option, or minus infinity for "
        "every one",
    )
    # Its answer was logged, and stays.
    assert found.table["correct"].to_pylist() == [True] * 3


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_an_option_without_a_number_makes_the_items_scores_missing(tmp_path: Path, suffix: str) -> None:
    assert table(tmp_path, suffix, choice_logprobs=[-1.0, None, -3.0]).table["choice_logprobs"][1].as_py() is None


@FORMATS
def test_minus_infinity_for_one_option_is_a_score(tmp_path: Path, suffix: str) -> None:
    found = table(tmp_path, suffix, choice_logprobs=[-1.0, -math.inf, -3.0])
    assert found.table["choice_logprobs"][1].as_py() == [-1.0, -math.inf, -3.0]
    assert found.notes == ()


@FORMATS
@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"choice_logprobs": [-1.0, math.inf, -3.0]}, "choice_logprobs has plus infinity.*leave the item's list empty"),
        ({"choice_logprobs": [-1.0, -2.0]}, "one value of choice_logprobs for each of the 3 options, got 2; correct k"),
        ({"gold_share": 70.0}, "needed gold_share from 0 to 1, got 70; divide percentages by 100"),
        ({"gold_share": -0.2}, "needed gold_share from 0 to 1, got -0.2$"),
        ({"gold_share": math.inf}, "needed gold_share from 0 to 1, got inf$"),
    ],
)
def test_an_impossible_score_is_refused_by_row(tmp_path: Path, suffix: str, values: dict[str, Any], says: str) -> None:
    with pytest.raises(SnapshotError, match=rf"t{suffix}: row 2 \(item 'b'\): .*{says}"):
        table(tmp_path, suffix, **values)


@FORMATS
def test_rounded_and_missing_shares_are_read(tmp_path: Path, suffix: str) -> None:
    assert table(tmp_path, suffix, gold_share=1.0000001).table["gold_share"][1].as_py() == 1.0
    assert table(tmp_path, suffix, gold_share=math.nan).table["gold_share"].null_count == 1


@FORMATS
def test_an_infinite_margin_is_missing_and_counted(tmp_path: Path, suffix: str) -> None:
    found = table(tmp_path, suffix, margin=math.inf)
    assert found.table["margin"].to_pylist() == [1.0, None, 1.0]
    assert found.notes == ("margin of 1 of 3 rows is infinite, and counts as missing",)


def test_a_log_counts_items_without_usable_scores(tmp_path: Path) -> None:
    logged = ([-1.0, -2.0], [math.nan, -2.0], [-math.inf, -math.inf])
    rows = [choice_row(number, scores, 0) for number, scores in enumerate(logged)]
    found = load_snapshot(write_samples(tmp_path, "t", rows))
    assert found.table["choice_logprobs"].to_pylist() == [[-1.0, -2.0], None, None]
    assert any(note.startswith("choice_logprobs of 2 of 3 rows count as missing") for note in found.notes)


def test_a_log_with_plus_infinity_is_refused_by_line(tmp_path: Path) -> None:
    path = write_samples(tmp_path, "t", [choice_row(0, [-1.0, -2.0], 0), choice_row(1, [math.inf, -2.0], 0)])
    with pytest.raises(SnapshotError, match=r"line 2: needed a log-likelihood, got .inf.;"):
        load_snapshot(path)


def test_one_question_with_unlike_numbers_of_options_is_refused_by_name(tmp_path: Path) -> None:
    def side(name: str, k: int) -> Path:
        rows = [{"item_id": "a", "k": 4}, {"item_id": "b", "k": k}]
        return write_jsonl(
            tmp_path / name, [{"task": "t", "content_hash": row["item_id"], "correct": 1, **row} for row in rows]
        )

    says = (
        r"item 'b' of task 't' has 4 options in before and 5 in after, with equal content hashes \(1 such items\); "
        "needed the same options on both sides"
    )
    with pytest.raises(MismatchError, match=says):
        compare(before=side("before.jsonl", 4), after=side("after.jsonl", 5))
    assert compare(before=side("before.jsonl", 4), after=side("after.jsonl", 4)).all.n == 2


def test_without_hashes_an_item_with_another_number_of_options_is_another_question(tmp_path: Path) -> None:
    def side(name: str, k: int) -> Path:
        return write_jsonl(tmp_path / name, [{"item_id": i, "correct": 1, "k": 4 if i == "a" else k} for i in "ab"])

    with pytest.raises(MismatchError, match="1 ids have unlike questions"):
        compare(before=side("before.jsonl", 4), after=side("after.jsonl", 5))


def test_a_file_compared_with_itself_is_noted(tmp_path: Path) -> None:
    table(tmp_path, ".jsonl")
    path, copy = tmp_path / "t.jsonl", tmp_path / "u.jsonl"
    copy.write_bytes(path.read_bytes())
    assert compare(before=path, after=path).notes[0] == "both sides are one file, so that nothing can differ"
    assert compare(before=path, after=copy).notes[0].startswith("both sides have equal rows")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    write_jsonl(copy, [{**row, "margin": 2.0} for row in rows])
    assert not any("both sides" in note for note in compare(before=path, after=copy).notes)
