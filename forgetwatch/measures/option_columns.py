"""Columns of a snapshot as arrays, one value per row.

    Labels           a text column as codes: grouping a million rows is a sort, not a million comparisons of text
    option_scores    the scores that decided, from the stored log-likelihoods, by the norm of each row's task
    gold_share       share of the right options
    guess_chance     probability that a guess is right

The rule by which scores decide is `metrics.choices`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError
from forgetwatch.metrics.choices import UNITS, OptionScores, decide, normalise, option_mask
from forgetwatch.metrics.transitions import Floats, Ints
from forgetwatch.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Labels:
    """A text column as codes.

    Attributes:
        code: Index of each row's name in `names`, int64 [rows].
        names: The names, in the order of their first rows.
    """

    code: Ints
    names: tuple[str, ...]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Self:
        """Encode a text column without nulls."""
        encoded = pc.dictionary_encode(column).combine_chunks()
        encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
        return cls(
            np.asarray(encoded.indices.to_numpy(), np.int64), tuple(encoded.dictionary.to_pylist())
        )

    def take(self, rows: NDArray[Any]) -> Labels:
        """Select the labels of some rows."""
        return Labels(self.code[rows], self.names)

    def split(self) -> Iterator[tuple[str, Ints]]:
        """Yield each name that is not empty, with rows, by name."""
        # Stable, so that the rows of each name keep their order.
        order = np.argsort(self.code, kind="stable")
        ends = np.cumsum(np.bincount(self.code, minlength=len(self.names)))
        for name, rows in zip(
            self.names, np.split(order, ends[:-1]) if len(ends) else [], strict=True
        ):
            if name and rows.size:
                yield name, rows


def golds_listed(snapshot: Snapshot) -> Ints:
    """Number of right options of each row, int64 [rows].

    0 for a row without a list of right options.
    """
    return _options(snapshot, "golds")[0]


def guess_chance(snapshot: Snapshot) -> Floats:
    """Probability of a right guess, float64 [rows].

    0 for open answers; nan if no row has options, because a log may not name them.
    """
    k = snapshot.ints("k")
    if (k < 1).all():
        return np.full(len(k), np.nan)
    return np.where(k >= 1, np.maximum(golds_listed(snapshot), 1) / np.maximum(k, 1), 0.0)


def option_scores(snapshot: Snapshot) -> OptionScores | None:
    """Scores that decided, of rows with all scores.

    Returns:
        The scores, or None if no row has all.

    Raises:
        SnapshotError: If the metadata name an unknown norm.
    """
    if snapshot.missing("choice_logprobs") or snapshot.missing("gold"):
        return None
    k, logprobs = _options(snapshot, "choice_logprobs")
    scores = _scores_that_decide(snapshot, k, logprobs)
    row = np.repeat(np.arange(len(k)), k)
    missing = np.zeros(len(k), bool)
    missing[row[np.isnan(scores)]] = True
    if missing.all():
        return None
    # `golds` is null in rows with one right option, so both columns are needed.
    golds = option_mask(k, np.arange(len(k)), snapshot.ints("gold"))
    if not snapshot.missing("golds"):
        named, several = _options(snapshot, "golds")
        golds |= option_mask(k, np.repeat(np.arange(len(k)), named), several.astype(np.int64))
    kept = ~missing[row]
    factors = _length_factors(snapshot, k)
    return OptionScores(
        np.where(missing, 0, k),
        scores[kept],
        golds[kept],
        logprobs[kept],
        None if np.isnan(factors[kept]).all() else factors[kept],
    )


def gold_share(snapshot: Snapshot, options: OptionScores | None) -> Floats:
    """Share of the right options, float64 [rows].

    As recorded, else from the scores; 0 where the output is not finite, nan where there is nothing.
    """
    recorded = np.where(
        snapshot.is_not_finite & (snapshot.ints("k") > 0), 0.0, snapshot.floats("gold_share")
    )
    if options is None or not np.isnan(recorded).any():
        return recorded
    return np.where(
        np.isnan(recorded), decide(options.scores, options.k, options.golds).share, recorded
    )


def _length_factors(snapshot: Snapshot, k: Ints) -> Floats:
    # nan where the norm divides by no length, float64 [options].
    task, norms = Labels.of(snapshot.table["task"]), snapshot.norms
    by_length = np.array([norms.get(name) in UNITS for name in task.names], bool)[task.code]
    factors = np.full(int(k.sum()), np.nan)
    if by_length.any():  # the score of a log-likelihood of 1 is the factor
        factors = np.where(
            np.repeat(by_length, k), _scores_that_decide(snapshot, k, np.ones(len(factors))), np.nan
        )
    return factors


def _scores_that_decide(snapshot: Snapshot, k: Ints, logprobs: Floats) -> Floats:
    # nan where what the norm needs is missing.
    task, norms = Labels.of(snapshot.table["task"]), snapshot.norms
    norm_of_row = np.array([norms.get(name, "sum") for name in task.names], object)[task.code]
    lengths = {
        unit: _same_options(snapshot, f"choice_{unit}", k) for unit in ("chars", "bytes", "tokens")
    }
    priors = _same_options(snapshot, "choice_priors", k)
    scores = np.empty(len(logprobs), np.float64)
    # Tasks of one log may differ in their norm, so the flat array is filled norm by norm.
    for norm in dict.fromkeys(norm_of_row.tolist()):
        rows = norm_of_row == norm
        cells = np.repeat(rows, k)
        try:
            scores[cells] = normalise(
                logprobs[cells],
                k[rows],
                norm=norm,
                lengths={unit: values[cells] for unit, values in lengths.items()},
                priors=priors[cells],
            )
        except ValueError as error:
            raise SnapshotError(f"{snapshot.label}: {error}") from error
    return scores


def _options(snapshot: Snapshot, column: str) -> tuple[Ints, Floats]:
    # The number of values of each row, 0 for null, and all values.
    lists = snapshot.table[column].combine_chunks()
    number = np.asarray(
        pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64
    )
    return number, np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.float64)


def _same_options(snapshot: Snapshot, column: str, k: Ints) -> Floats:
    # nan in rows where the column has another number.
    number, values = _options(snapshot, column)
    found = np.full(int(k.sum()), np.nan)
    same = number == k
    found[np.repeat(same, k)] = values[np.repeat(same, number)]
    return found
