"""Scores in a file that a model did not give: counted as missing, or refused.

    choice_logprobs, _priors   nan for an option, minus infinity for all    the item's scores are missing, with a note
                               plus infinity                                refused
    gold_share, option_mass    nan                                          missing
                               outside 0 to 1 by rounding                   0 or 1
    margin                     nan; infinite, as the second option is out   missing, with a note if infinite
                               below 0 by rounding                          0
    any                        outside its range (`ranges`)                 refused

Minus infinity for some of the options is a score: the token was ruled out. Every reader of another tool's files calls
`clean_scores` before it makes a snapshot, so that nothing after it meets such a value.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.ranges import BY_OPTION, check_ranges
from forgetwatch.snapshot import SCHEMA

_LOGPROBS: Final = ("choice_logprobs", "choice_priors")
_SHARES: Final = ("gold_share", "option_mass")
_CHECKED: Final = ("k", "item_id")
"""Columns that the ranges of the scores refer to."""


def clean_scores(columns: dict[str, Any]) -> tuple[str, ...]:
    """Set unusable scores to null in place, and return notes with their numbers.

    Args:
        columns: Columns of a snapshot by name, as sequences or Arrow arrays; all of one length.

    Raises:
        SnapshotError: If a value is impossible; names the first row with one, its item, and the remedy.
    """
    given = [name for name in (*BY_OPTION, *_SHARES, "margin") if _has_values(columns.get(name))]
    for name in given:
        columns[name] = _as_array(columns[name], SCHEMA.field(name).type)
    named = {
        name: _as_array(columns[name], SCHEMA.field(name).type) for name in _CHECKED if columns.get(name) is not None
    }
    # Before anything is cleaned: a note on missing scores would hide the reason.
    check_ranges(pa.table(named | {name: columns[name] for name in given}))
    notes = [_clean_logprobs(columns, name) for name in _LOGPROBS if name in given]
    for name in _SHARES:
        if name in given:
            _clean_shares(columns, name)
    if "margin" in given:
        notes.append(_clean_margins(columns))
    return tuple(filter(None, notes))


def _has_values(column: Any) -> bool:
    """True unless a column is missing or holds nothing, as the scores of open answers do."""
    if column is None or not isinstance(column, (list, tuple)):
        return column is not None
    return any(value is not None for value in column)


def _clean_logprobs(columns: dict[str, Any], name: str) -> str:
    """Set lists with nan, or with nothing but minus infinity, to null, and return a note on their number."""
    lists = columns[name]
    number = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    values = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.float64)  # a null among them is nan
    row = np.repeat(np.arange(len(number)), number)
    impossible = np.bincount(row[np.isneginf(values)], minlength=len(number))
    missing = (np.bincount(row[np.isnan(values)], minlength=len(number)) > 0) | ((impossible == number) & (number > 0))
    if not missing.any():
        return ""
    columns[name] = pc.if_else(pa.array(missing), pa.scalar(None, lists.type), lists)
    return (
        f"{name} of {int(missing.sum()):,} of {len(number):,} rows count as missing: they have no number for an "
        "option, or minus infinity for every one"
    )


def _clean_shares(columns: dict[str, Any], name: str) -> None:
    """Set nan to null, and rounded shares outside 0 to 1 to 0 or 1."""
    share = _floats(columns[name])
    columns[name] = pa.array(np.clip(share, 0.0, 1.0), mask=np.isnan(share))


def _clean_margins(columns: dict[str, Any]) -> str:
    """Set nan and infinite margins to null, and return a note on the number of infinite ones."""
    margin = _floats(columns["margin"])
    columns["margin"] = pa.array(np.maximum(margin, 0.0), mask=~np.isfinite(margin))
    infinite = int(np.isinf(margin).sum())
    return f"margin of {infinite:,} of {len(margin):,} rows is infinite, and counts as missing" if infinite else ""


def _as_array(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, type=kind)


def _floats(values: pa.Array) -> NDArray[np.float64]:
    return np.asarray(pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False), np.float64)
