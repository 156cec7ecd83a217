"""Ranges of the columns of a snapshot: `check_ranges` refuses a value that no measurement gives.

    k                                  1 to 10,000            the counts of a comparison are arrays of that length
    sample                             0 to 1,000,000
    chosen, gold, golds                an option: 0 to k - 1; golds each once
    score, gold_share, option_mass     0 to 1                 a percentage, most often
    margin                             0 or more
    choice_logprobs, choice_priors     0 or less              probabilities instead of their logarithms, most often
    choice_chars, _bytes, _tokens      0 or more
    all of choice_*                    one value for each of the k options

Every snapshot is checked, read or made; log-likelihoods where they are read from files of other
tools. Sums in single precision and in bf16 exceed their bound a little; a tolerance admits those. A
null is in every range, and so is nan, which means the same.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError

MAX_OPTIONS: Final = 10_000
"""Maximum of k."""
_MAX_LOGPROB: Final = 1.0
"""Log-likelihood up to which one above 0, nats, counts as rounded: log-softmax in bf16 is off by
.25 a token.
"""
_ROUNDING: Final = 1e-6
"""Distance up to which a share or margin outside its range counts as rounded."""


@dataclass(frozen=True, kw_only=True)
class _Range:
    """Range of a column of numbers, or of lists of numbers."""

    low: float
    high: float
    needed: str  # the range in words
    remedy: str = ""  # for a value outside
    likely_to: float = np.inf  # largest value for which the remedy is the likely one


_SHARE: Final = _Range(
    low=-_ROUNDING,
    high=1 + _ROUNDING,
    needed="from 0 to 1",
    remedy="divide percentages by 100",
    likely_to=100,
)
_LENGTH: Final = _Range(low=0, high=np.inf, needed="at least 0")
_LOGPROB: Final = _Range(
    low=-np.inf,
    high=_MAX_LOGPROB,
    needed=f"of at most 0 (rounding up to {_MAX_LOGPROB:g} is allowed)",
    remedy="a log-likelihood is the logarithm of a probability",
)
_RANGES: Final = {
    "k": _Range(
        low=1,
        high=MAX_OPTIONS,
        needed=f"from 1 to {MAX_OPTIONS:,}",
        remedy="leave it empty for open answers",
    ),
    "sample": _Range(
        low=0, high=1_000_000, needed="from 0 to 1,000,000", remedy="samples are numbered from 0"
    ),
    **{"score": _SHARE, "gold_share": _SHARE, "option_mass": _SHARE},
    "margin": _Range(
        low=-_ROUNDING,
        high=np.inf,
        needed="at least 0",
        remedy="it is the best score minus the second",
    ),
    **{"choice_logprobs": _LOGPROB, "choice_priors": _LOGPROB},
    **{"choice_chars": _LENGTH, "choice_bytes": _LENGTH, "choice_tokens": _LENGTH},
}
BY_OPTION: Final = tuple(name for name in _RANGES if name.startswith("choice_"))
"""Columns with one value for each option."""


def check_ranges(table: pa.Table, *, logprobs: bool = True) -> None:
    """Check that the values of a table are in range.

    Args:
        table: Columns of a snapshot. `item_id` is needed; any other may be absent.
        logprobs: Refuse log-likelihoods above 0, as in files of other tools. In Python any scores
            can be compared, for instance shifted ones.

    Raises:
        SnapshotError: If there is such a value; it names the row, the item, the value and the
            remedy.
    """
    present = {name for name in table.column_names if table[name].null_count < len(table)}
    for name, range_ in _RANGES.items():
        if name in present and (logprobs or range_ is not _LOGPROB):
            _check_values(table, name, range_)
    # nan where it is null, so that every comparison is false.
    k = (
        np.asarray(pc.cast(table["k"], pa.float64()), np.float64)
        if "k" in present
        else np.full(len(table), np.nan)
    )
    for name in BY_OPTION:
        if name in present:
            _check_number(table, name, k)
    for name in ("chosen", "gold", "golds"):
        if name in present:
            _check_options(table, name, k)


def _check_values(table: pa.Table, name: str, range_: _Range) -> None:
    values, rows = flat_values(table[name])
    outside = np.flatnonzero((values < range_.low) | (values > range_.high))
    if outside.size:
        value = values[outside[0]]
        if value == np.inf and name in ("choice_logprobs", "choice_priors"):
            raise SnapshotError(
                f"{_place(table, rows[outside[0]])}: {name} has plus infinity, and a "
                "log-likelihood is finite or minus infinity (a token that was ruled out); leave "
                "the item's list empty if it was not measured"
            )
        likely = value <= range_.likely_to and (value > range_.high or name in ("sample", "margin"))
        remedy = f"; {range_.remedy}" if range_.remedy and likely else ""
        raise SnapshotError(
            f"{_place(table, rows[outside[0]])}: needed {name} {range_.needed}, got "
            f"{value:.15g}{remedy}"
        )
    above = np.flatnonzero(values > 0)
    if name in ("choice_logprobs", "choice_priors") and above.size and not (values < 0).any():
        raise SnapshotError(
            f"{_place(table, rows[above[0]])}: needed {name} of at most 0, got "
            f"{values[above[0]]:g}, and none in the "
            "table is below 0; take the logarithm of probabilities"
        )


def _check_number(table: pa.Table, name: str, k: NDArray[np.float64]) -> None:
    length = np.asarray(pc.cast(pc.list_value_length(table[name]), pa.float64()), np.float64)
    unlike = np.flatnonzero(~np.isnan(k) & ~np.isnan(length) & (length != k))
    if unlike.size:
        row = unlike[0]
        raise SnapshotError(
            f"{_place(table, row)}: needed one value of {name} for each of the {k[row]:g} "
            f"options, got {length[row]:g}; correct k or the list, or leave the list empty"
        )


def _check_options(table: pa.Table, name: str, k: NDArray[np.float64]) -> None:
    values, rows = flat_values(table[name])
    # An open answer has no k: only negative and repeated indices are wrong there.
    wrong = (values < 0) | (values >= k[rows]) | np.isnan(values) & (name == "golds")
    if name == "golds":
        order = np.lexsort((values, rows))
        is_repeated = (np.diff(rows[order]) == 0) & (np.diff(values[order]) == 0)
        wrong[order[1:][is_repeated]] = True
        empty = np.asarray(pc.fill_null(pc.equal(pc.list_value_length(table[name]), 0), False))
    else:
        empty = np.zeros(len(table), bool)
    wrong_rows = np.union1d(rows[wrong], np.flatnonzero(empty))
    if wrong_rows.size:
        row = int(wrong_rows[0])
        options = "an option" if np.isnan(k[row]) else f"one of its {k[row]:g} options"
        condition = ", each once" if name == "golds" else ""
        raise SnapshotError(
            f"{_place(table, row)}: needed {options} as {name}{condition}, got "
            f"{table[name][row].as_py()}; options are numbered from 0"
        )


def flat_values(column: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Flatten a column of numbers or of lists.

    Returns:
        The values, nan where null, and the row of each.
    """
    rows = np.arange(len(column))
    if pa.types.is_list(column.type):
        rows = np.repeat(rows, np.asarray(pc.fill_null(pc.list_value_length(column), 0), np.int64))
        column = pc.list_flatten(column)
    return np.asarray(pc.cast(column, pa.float64()), np.float64), rows


def _place(table: pa.Table, row: int) -> str:
    return f"row {row + 1} (item {table['item_id'][int(row)].as_py()!r:.80})"
