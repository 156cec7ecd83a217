from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from forgetwatch import Snapshot, compare, load_snapshot
from forgetwatch.errors import SnapshotError
from forgetwatch.ranges import MAX_OPTIONS, check_ranges
from forgetwatch.snapshot import SCHEMA

GOOD: dict[str, Any] = {
    "item_id": ["a", "b"],
    "correct": [True, False],
    "k": [2, 2],
    "gold": [0, 1],
    "golds": [None, [0, 1]],
    "chosen": [0, 0],
    "sample": [0, 0],
    "gold_share": [0.0, 1.0],
    "option_mass": [1 + 1e-7, -1e-7],
    "margin": [0.0, None],
    "choice_logprobs": [[-1.0, -math.inf], [0.3, -2.0]],
    "choice_priors": [[-1.0, -2.0], None],
    "choice_chars": [[0, 3], None],
    "choice_bytes": [[0, 3], None],
    "choice_tokens": [[1, 1], None],
}


def test_values_at_the_ends_of_their_ranges_are_accepted() -> None:
    assert len(Snapshot.from_columns(GOOD, {})) == 2


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("k", 0, "needed k from 1 to 10,000, got 0"),
        ("k", 2**31 - 1, "needed k from 1 to 10,000, got 2147483647; leave it empty for open answers"),
        ("gold", 2, "needed one of its 2 options as gold, got 2; options are numbered from 0"),
        ("golds", [0, 0], r"needed one of its 2 options as golds, each once, got \[0, 0\]"),
        ("golds", [0, 2], r"as golds, each once, got \[0, 2\]"),
        ("golds", [], r"as golds, each once, got \[\]"),
        ("golds", [None], r"as golds, each once, got \[None\]"),
        ("chosen", 2, "needed one of its 2 options as chosen, got 2"),
        ("chosen", -1, "needed one of its 2 options as chosen, got -1"),
        ("sample", -1, "needed sample from 0 to 1,000,000, got -1; samples are numbered from 0"),
        ("sample", 2**31 - 1, "needed sample from 0 to 1,000,000, got 2147483647"),
        ("gold_share", 30.0, "needed gold_share from 0 to 1, got 30; divide percentages by 100"),
        ("gold_share", 1e308, r"needed gold_share from 0 to 1, got 1e\+308$"),
        ("gold_share", -5.0, "needed gold_share from 0 to 1, got -5$"),
        ("option_mass", 99.0, "needed option_mass from 0 to 1, got 99; divide percentages by 100"),
        ("margin", -0.5, "needed margin at least 0, got -0.5; it is the best score minus the second"),
        (
            "choice_logprobs",
            [1.5, -1.0],
            r"of at most 0 \(rounding up to 1 is allowed\), got 1.5; a log-likelihood is the logarithm",
        ),
        ("choice_logprobs", [math.inf, -1.0], "choice_logprobs has plus infinity"),
        ("choice_priors", [-1.0, 70.0], r"needed choice_priors of at most 0 \(rounding up to 1 is allowed\), got 70"),
        ("choice_logprobs", [-1.0], "needed one value of choice_logprobs for each of the 2 options, got 1"),
        ("choice_chars", [-1, 1], "needed choice_chars at least 0, got -1"),
        ("choice_bytes", [1, -7], "needed choice_bytes at least 0, got -7"),
        ("choice_tokens", [1], "needed one value of choice_tokens for each of the 2 options, got 1"),
    ],
)
def test_a_value_outside_its_range_is_refused_with_row_value_and_remedy(column: str, value: Any, says: str) -> None:
    columns = {**GOOD, column: [GOOD[column][0], value]}
    table = pa.table({name: pa.array(values, SCHEMA.field(name).type) for name, values in columns.items()})
    with pytest.raises(SnapshotError, match=rf"^row 2 \(item 'b'\): .*{says}"):
        check_ranges(table)


@pytest.mark.parametrize("last", [0.1, 0.0])
def test_probabilities_instead_of_their_logarithms_are_refused(last: float) -> None:
    table = pa.table({"item_id": ["a", "b"], "choice_logprobs": [[last, 1 - last], [0.9, 0.1]]})
    first = "0.1, and" if last else "1, and"
    with pytest.raises(SnapshotError, match=rf"got {first} none in the table is below 0; take the logarithm"):
        check_ranges(table)


def test_log_likelihoods_that_are_all_zero_are_accepted() -> None:
    check_ranges(pa.table({"item_id": ["a", "b"], "choice_logprobs": [[0.0, 0.0], [0.0, 0.0]]}))


def test_an_open_answer_may_name_any_gold_and_no_negative_one() -> None:
    assert len(Snapshot.from_columns({"item_id": ["a"], "correct": [True], "gold": [7]}, {})) == 1
    with pytest.raises(SnapshotError, match=r"row 1 \(item 'a'\): needed an option as gold, got -1"):
        Snapshot.from_columns({"item_id": ["a"], "correct": [True], "gold": [-1]}, {})


@pytest.mark.parametrize("k", [MAX_OPTIONS, MAX_OPTIONS + 1])
def test_the_largest_k_is_compared_and_a_larger_one_refused(k: int, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("item_id,correct,k,gold,chosen\n" + f"a,1,{k},0,0\nb,0,{k},0,1\nc,1,4,0,0\n")
    if k > MAX_OPTIONS:
        with pytest.raises(SnapshotError, match=r"t\.csv: row 1 \(item 'a'\): needed k from 1 to 10,000, got 10001"):
            load_snapshot(path)
    else:
        assert compare(before=path, after=load_snapshot(path)).all.n == 3
