"""Scores in a file that no model can have given: counted as missing, or refused.

    choice_logprobs   nan for an option, minus infinity for all       the item's scores are missing, counted in a note
                      plus infinity, another number of values than k  refused
    gold_share        nan                                             missing
    option_mass       outside 0 to 1: a percentage, most often        refused
    margin            nan; infinite, as the second option is out      missing, counted in a note if infinite

Minus infinity for some of the options is a score: the token was ruled out. Every reader of another tool's files calls
`clean_scores` before it makes a snapshot, so that nothing after it meets such a value.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError
from forgetwatch.snapshot import SCHEMA

_BY_OPTION: Final = ("choice_logprobs", "choice_priors", "choice_chars", "choice_bytes", "choice_tokens")
_LOGPROBS: Final = ("choice_logprobs", "choice_priors")
_SHARES: Final = ("gold_share", "option_mass")
_ROUNDING: Final = 1e-6
"""Distance from 0 or 1 up to which a share outside is taken for a rounded one: sums in single precision exceed 1."""


def clean_scores(columns: dict[str, Any]) -> tuple[str, ...]:
    """Set unusable scores to null in place, and return notes with their numbers.

    Args:
        columns: Columns of a snapshot by name, as sequences or Arrow arrays; all of one length.

    Raises:
        SnapshotError: If a value is impossible; names the first row with one, its item, and the remedy.
    """
    given = {name for name in (*_BY_OPTION, *_SHARES, "margin") if _has_values(columns.get(name))}
    for name in given:
        columns[name] = _as_array(columns[name], SCHEMA.field(name).type)
    _check_numbers_of_options(columns, given)
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


def _check_numbers_of_options(columns: dict[str, Any], given: set[str]) -> None:
    """Raise if a list has another number of values than its item has options; items without k are not checked."""
    if columns.get("k") is None or not given & set(_BY_OPTION):
        return
    k = _floats(_as_array(columns["k"], pa.int32()))  # nan where null, so that every comparison is false
    for name in _BY_OPTION:
        if name not in given:
            continue
        length = _floats(pc.list_value_length(columns[name]))
        unlike = np.isfinite(k) & np.isfinite(length) & (length != k)
        if (rows := np.flatnonzero(unlike)).size:
            row = int(rows[0])
            raise SnapshotError(
                f"{_place(columns, row)}: needed one value of {name} for each of the {k[row]:g} options, "
                f"got {length[row]:g}; correct k or the list, or leave the list empty"
            )


def _clean_logprobs(columns: dict[str, Any], name: str) -> str:
    """Set lists with nan, or with nothing but minus infinity, to null, and return a note on their number."""
    lists = columns[name]
    number = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    values = np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.float64)  # a null among them is nan
    row = np.repeat(np.arange(len(number)), number)
    if (above := np.flatnonzero(values == np.inf)).size:
        raise SnapshotError(
            f"{_place(columns, int(row[above[0]]))}: {name} has plus infinity, and a log-likelihood is finite or minus "
            "infinity (a token that was ruled out); leave the item's list empty if it was not measured"
        )
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
    """Set nan to null, and raise if a share is outside 0 to 1."""
    share = _floats(columns[name])
    outside = np.flatnonzero((share < -_ROUNDING) | (share > 1 + _ROUNDING))
    if outside.size:
        row = int(outside[0])
        percent = "; divide percentages by 100" if 1 < share[row] <= 100 else ""
        raise SnapshotError(f"{_place(columns, row)}: needed {name} from 0 to 1, got {share[row]:g}{percent}")
    columns[name] = pa.array(np.clip(share, 0.0, 1.0), mask=np.isnan(share))


def _clean_margins(columns: dict[str, Any]) -> str:
    """Set nan and infinite margins to null, and return a note on the number of infinite ones."""
    margin = _floats(columns["margin"])
    columns["margin"] = pa.array(margin, mask=~np.isfinite(margin))
    infinite = int(np.isinf(margin).sum())
    return f"margin of {infinite:,} of {len(margin):,} rows is infinite, and counts as missing" if infinite else ""


def _place(columns: dict[str, Any], row: int) -> str:
    """Name of a row in messages: its number from 1, and its item."""
    item = columns["item_id"][row]
    return f"row {row + 1} (item {(item.as_py() if isinstance(item, pa.Scalar) else item)!r})"


def _as_array(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, type=kind)


def _floats(values: pa.Array) -> NDArray[np.float64]:
    return np.asarray(pc.cast(values, pa.float64()).to_numpy(zero_copy_only=False), np.float64)
