"""The columns `correct`, `score` and `outcome` of a snapshot, from the columns of a table. See `grading.outcome_rule`.

    correct 0, 1, pass, fail           right or wrong
    correct .2, .85, P                 a score; right by the rule
    correct 0, 1 and score .2, .85     right or wrong, with a score; one of another scale is left out
    score .2, .85                      as if it were named `correct`

A row whose fields say that its run broke is unscored.
"""

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from forgetwatch.errors import SnapshotError, did_you_mean, some_of
from forgetwatch.grading.outcome_rule import UPPER_HALF, OutcomeRule, cut_reason, number_of
from forgetwatch.metrics.transitions import Floats

_SUMMED: Final = ("score", "scores", "reward", "rewards")
"""Columns whose lists are rewards by token, of which the sum counts."""

_SHOWN: Final = 12
"""Names of columns in a message, at most."""


class OutcomeColumns(NamedTuple):
    """Outcomes of the rows of a table.

    Attributes:
        columns: ``correct``, and ``score`` and ``outcome`` where they are more than that.
        meta: What a snapshot stores of the rule.
        notes: Sentences on what was read how.
    """

    columns: dict[str, Any]
    meta: dict[str, Any]
    notes: tuple[str, ...]


def outcome_columns(path: Path, given: Mapping[str, Any], rule: OutcomeRule) -> OutcomeColumns:
    """Read the outcomes of a table.

    Args:
        path: The file, for messages.
        given: Values by column, as lists or Arrow arrays, among them ``correct`` or ``score``.
        rule: How they are read.

    Raises:
        SnapshotError: If a value is no outcome, or outside the scale; or no row has a field that the
            rule names.
    """
    if absent := dict(rule.unscored_if).keys() - given.keys():
        near = did_you_mean(min(absent), list(given))
        raise SnapshotError(
            f"{path}: --unscored-if {min(absent)}: no row has that field; there are "
            f"{some_of(given, _SHOWN)}{near}"
        )
    right, scores, notes = _right_and_scores(path, given, rule)
    columns = {"correct": _with_nulls(right == 1.0, right)}
    if scores is not None:
        columns["score"] = _with_nulls(scores, scores)
    rows = _rows(given, rule)
    reasons = [rule.unscored_reason(row) for row in rows]
    if any(reasons):
        stated = given.get("outcome") or [None] * len(rows)
        outcomes = zip(reasons, stated, strict=True)
        columns["outcome"] = pa.array(f"unscored: {why}" if why else own for why, own in outcomes)
    cut = [cut_reason(row) for row, why in zip(rows, reasons, strict=True) if not why]
    for ending, found in (
        ("unscored", reasons),
        ("counted as graded; --unscored-if leaves them out", cut),
    ):
        notes += [
            f"{why}: {number:,} rows, {ending}" for why, number in Counter(found).items() if why
        ]
    return OutcomeColumns(columns, {} if scores is None else rule.meta, tuple(notes))


def column_values(name: str, values: Any) -> set[float]:
    """Numbers that a column holds as outcomes; empty if it holds anything else."""
    try:
        numbers = _numbers(name, values)
    except SnapshotError:
        return set()
    return set(numbers[np.isfinite(numbers)].tolist())


def truth(value: Any) -> bool | None:
    """True for 1 and false for 0, or what stands for them; None for nothing.

    Raises:
        KeyError, ValueError, TypeError: For any other value.
    """
    number = number_of(value)
    return None if math.isnan(number) else {0.0: False, 1.0: True}[number]


def is_binary(scores: Floats) -> bool:
    """Are all scores 0 or 1?"""
    return bool(np.isin(scores[~np.isnan(scores)], (0.0, 1.0)).all())


def _right_and_scores(
    path: Path, given: Mapping[str, Any], rule: OutcomeRule
) -> tuple[Floats, Floats | None, list[str]]:
    # Scores are None where outcomes are right or wrong alone.
    def read(name: str, by: OutcomeRule) -> Floats:
        try:
            return by.scores(_numbers(name, given[name]), name)
        except SnapshotError as error:
            raise SnapshotError(f"{path}: {error}") from error

    if "correct" not in given or "score" not in given:
        scores = read("correct" if "correct" in given else "score", rule)
        return rule.is_right(scores), None if is_binary(scores) else scores, []
    right = read("correct", UPPER_HALF)
    try:
        scores = read("score", rule)
    except SnapshotError as error:
        if rule.scale != UPPER_HALF.scale or not is_binary(right):
            raise
        return right, None, [f"left out: {str(error).removeprefix(f'{path}: ')}"]
    is_decided = rule.threshold is None and is_binary(right)
    return right if is_decided else rule.is_right(scores), None if is_binary(scores) else scores, []


def _numbers(name: str, values: Any) -> Floats:
    # nan where there is no value.
    listed = values.to_pylist() if isinstance(values, pa.Array) else values
    numbers = np.full(len(listed), np.nan)
    for row, value in enumerate(listed):
        try:
            numbers[row] = number_of(value, sums=name.lower() in _SUMMED)
        except (TypeError, ValueError, OverflowError) as error:
            excerpt = str(value) if len(str(value)) <= 40 else f"{str(value)[:40]}..."
            raise SnapshotError(
                f"row {row + 1}: {name} must be a score from 0 to 1, true, false, a word such as "
                f"pass or fail, or empty, got {excerpt!r}"
            ) from error
    return numbers


def _with_nulls(values: Any, numbers: Floats) -> pa.Array:
    return pa.array(values, mask=np.isnan(numbers))


def _rows(given: Mapping[str, Any], rule: OutcomeRule) -> list[dict[str, Any]]:
    # The fields that may say that a run broke or was cut; no row without such a field.
    columns = [[(name, value) for value in given[name]] for name in rule.fields if name in given]
    return [dict(row) for row in zip(*columns, strict=True)]
