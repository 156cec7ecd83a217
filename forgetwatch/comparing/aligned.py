"""Aligned arrays of two snapshots: one row per pair of answers. Everything that is counted is counted from them.

Labels are codes, so that grouping a million rows costs a sort and not a million comparisons of text. A column that a
snapshot lacks is None or nan. `option_scores` takes from the stored log-likelihoods the scores that decided, for what
needs more than the answer: the option that came second, confident wrong answers, the log score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.comparing.pairing import Pairing
from forgetwatch.errors import SnapshotError
from forgetwatch.metrics.answers import Answers
from forgetwatch.metrics.choices import (
    UNITS,
    OptionScores,
    decide,
    normalise,
    option_mask,
    right_at_constant_mass,
    second_is_gold,
)
from forgetwatch.metrics.known import Confidence
from forgetwatch.snapshot import NONE, Snapshot, codes

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


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
        return cls(np.asarray(encoded.indices.to_numpy(), np.int64), tuple(encoded.dictionary.to_pylist()))

    def take(self, rows: NDArray[Any]) -> Labels:
        """Labels of some rows."""
        return Labels(self.code[rows], self.names)

    def split(self) -> Iterator[tuple[str, Ints]]:
        """Yield each name that is not empty with its rows, int64, in the order of the names."""
        # Stable, so that the rows of each name keep their order.
        order = np.argsort(self.code, kind="stable")
        ends = np.cumsum(np.bincount(self.code, minlength=len(self.names)))
        for name, rows in zip(self.names, np.split(order, ends[:-1]) if len(ends) else [], strict=True):
            if name and rows.size:
                yield name, rows


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedPairs:
    """Pairs of answers that were scored on both sides, `samples` rows per item. Arrays are [rows].

    Attributes:
        before: Right before.
        after: Right after.
        again: Right when the model before was measured again: 1, 0, or nan; None if it was not.
        share_before: Share of the right options before, 0 to 1; nan where it was not measured.
        share_after: The same, after.
        chosen_before: Option chosen before; -1 = no answer found. None if a side logs no options.
        chosen_after: The same, after.
        second_before: See `metrics.guessing.Answers`.
        second_after: The same, after.
        options_before: Scores of the options before, of the rows that have them; None if none has.
        options_after: The same, after.
        mass_after: 1 where the answer after would be right, had the options kept their total probability, 0 where not,
            nan where no score that is divided by a length decided, or scores are missing; see
            `metrics.choices.right_at_constant_mass`. None if that is every row.
        k: Number of options; -1 for open answers.
        golds: Number of right options.
        item: Code of the item.
        cluster: Code of the independent observation: the item's cluster, or the item if it has several samples; None
            if every row is one.
        form_before: 1 where the answer was in its form, 0 where not, nan where not measured; see `metrics.form`.
        form_after: The same, after.
        forced_after: 1 where the right option scores highest after, 0 where not, nan where not known.
        sample: Number of the sample.
        kind: ``scored`` for log-likelihood answers, ``written`` for generated ones.
        task: Names of the tasks.
        category: Names of the categories.
        samples: Rows per item.
        unscored: Items that were left out because a sample of them was not scored.
    """

    before: Bools
    after: Bools
    again: Floats | None
    share_before: Floats
    share_after: Floats
    chosen_before: Ints | None
    chosen_after: Ints | None
    second_before: Floats | None
    second_after: Floats | None
    options_before: OptionScores | None
    options_after: OptionScores | None
    mass_after: Floats | None
    k: Ints
    golds: Ints
    item: Ints
    cluster: Ints | None
    form_before: Floats
    form_after: Floats
    forced_after: Floats
    sample: Ints
    kind: Labels
    task: Labels
    category: Labels
    samples: int
    unscored: int

    def __len__(self) -> int:
        return len(self.before)

    def take(self, rows: NDArray[Any]) -> Self:
        """Pairs of some rows."""
        columns = {name: x[rows] for name, x in vars(self).items() if isinstance(x, np.ndarray)}
        others: dict[str, Any] = {
            name: x.take(rows) for name, x in vars(self).items() if isinstance(x, (Labels, OptionScores))
        }
        return replace(self, **columns, **others)

    def answers(self) -> Answers | None:
        """Pairs with options, for the corrections for guessing; None if there are none."""
        rows = self.k >= 2
        if self.chosen_before is None or self.chosen_after is None or not rows.any():
            return None
        columns: dict[str, Any] = {"task": self.task.code}
        columns |= {name: getattr(self, name) for name in Answers.__dataclass_fields__ if name != "task"}
        return Answers(**columns).take(rows)

    def confidence(self) -> Confidence:
        """Confidence of the answers before and after, for the known items and what luck makes of them."""
        other_wrong = np.zeros(len(self), bool)
        if self.chosen_before is not None and self.chosen_after is not None:
            both = (self.chosen_before != NONE) & (self.chosen_after != NONE)
            other_wrong = both & ~self.before & ~self.after & (self.chosen_before != self.chosen_after)
        wrong_share = None
        if self.options_before is not None and self.options_after is not None:
            # A mirror needs the scores of both sides, as a known item that is lost does.
            wrong_share = np.where(self.options_after.k > 0, self.options_before.largest_wrong_share, np.nan)
        return Confidence(
            before=self.before,
            after=self.after,
            share_before=self.share_before,
            share_after=self.share_after,
            wrong_share=None if wrong_share is None or np.isnan(wrong_share).all() else wrong_share,
            other_wrong=other_wrong,
            k=self.k,
            golds=self.golds,
            cluster=self.cluster,
        )

    @property
    def right_at_constant_mass(self) -> Bools | None:
        """Right after, had the options kept their total probability; None unless a length decided some of the pairs."""
        if self.mass_after is None or np.isnan(self.mass_after).all():
            return None
        return np.where(np.isnan(self.mass_after), self.after, self.mass_after == 1.0)

    @classmethod
    def align(
        cls,
        before: Snapshot,
        after: Snapshot,
        pairing: Pairing,
        *,
        again: Floats | None = None,
        whole_items: bool = True,
    ) -> Self:
        """Align the pairs that were scored on both sides; labels are those of `before` where it has them.

        Args:
            before: The snapshot before.
            after: The snapshot after.
            pairing: Rows of the two that pair.
            again: Right answers of a second measurement of `before`, in the order of its rows; float64 [rows].
            whole_items: Leave out an item with one unscored sample as a whole, so that every item has the same weight;
                False leaves out the sample alone.
        """
        left, right, item = pairing.before, pairing.after, pairing.item
        correct_before, correct_after = before.floats("correct")[left], after.floats("correct")[right]
        scored = np.isfinite(correct_before) & np.isfinite(correct_after)
        # One unscored sample marks its item, and through the item all its rows.
        whole = np.ones(int(item.max()) + 1 if item.size else 0, bool)
        whole[item[~scored]] = False
        keep = whole[item] if whole_items else scored
        items = len(np.unique(item[keep]))
        samples = int(keep.sum()) // items if items else 1
        # Options are compared pair by pair: those of one side alone are of no use.
        options = not (before.missing("chosen") or after.missing("chosen"))
        k_before, k_after = before.ints("k")[left], after.ints("k")[right]
        cluster = _clusters(before, after, left, right, item)
        scores_before, scores_after = option_scores(before), option_scores(after)
        aligned = cls(
            before=correct_before == 1.0,
            after=correct_after == 1.0,
            again=None if again is None else again[left],
            share_before=_gold_share(before, scores_before)[left],
            share_after=_gold_share(after, scores_after)[right],
            chosen_before=before.ints("chosen")[left] if options else None,
            chosen_after=after.ints("chosen")[right] if options else None,
            second_before=second_choice(before, scores_before, left) if options else None,
            second_after=second_choice(after, scores_after, right) if options else None,
            options_before=None if scores_before is None else scores_before.take(left),
            options_after=None if scores_after is None else scores_after.take(right),
            mass_after=None,
            k=np.where(k_before == NONE, k_after, k_before),  # a log may name k on one side only
            golds=np.maximum(np.maximum(_golds(before)[left], _golds(after)[right]), 1),
            item=item,
            cluster=item if cluster is None and samples > 1 else cluster,  # samples of an item flip together
            form_before=_form(before)[left],
            form_after=_form(after)[right],
            # A scored answer is the option that scores highest; a generated one has that option next to it.
            forced_after=np.where(_is_generated(after), after.floats("forced_correct"), after.floats("correct"))[right],
            sample=before.ints("sample")[left],
            kind=Labels(_is_generated(after)[right].astype(np.int64), ("scored", "written")),
            task=Labels.of(before.table["task"].take(left)),
            category=Labels.of(_first_named(before.table["category"].take(left), after.table["category"].take(right))),
            samples=samples,
            unscored=int(np.sum(~whole)),
        )
        kept = aligned.take(keep)
        return replace(kept, mass_after=kept._right_at_constant_mass())

    def _right_at_constant_mass(self) -> Floats | None:
        """See `mass_after`."""
        before, after = self.options_before, self.options_after
        if before is None or after is None:
            return None
        # A generated answer is not decided by the scores next to it.
        by_length = after.by_length & (before.k > 0) & (self.kind.code == 0)
        if not by_length.any():
            return None
        return np.where(by_length, right_at_constant_mass(before, after, self.after), np.nan)


def _is_generated(snapshot: Snapshot) -> Bools:
    """True where the model generated the answer; bool [rows]."""
    return np.asarray(pc.is_valid(snapshot.table["output"]))


def _form(snapshot: Snapshot) -> Floats:
    """1 where an answer was in its form, or would have begun in it, 0 where not, nan where unknown; float64 [rows]."""
    return np.where(_is_generated(snapshot), snapshot.floats("in_form"), snapshot.floats("free_correct"))


def _golds(snapshot: Snapshot) -> Ints:
    """Number of right options of each row; 0 for a row without a list of them; int64 [rows]."""
    if snapshot.missing("golds"):
        return np.zeros(len(snapshot), np.int64)
    lengths = pc.fill_null(pc.list_value_length(snapshot.table["golds"]), 0)
    return np.asarray(lengths.to_numpy(), np.int64)


def guess_chance(snapshot: Snapshot) -> Floats:
    """Probability that a guess among the options is right, float64 [rows].

    0 for open answers; nan if no row has options, because a log may not name them.
    """
    k = snapshot.ints("k")
    if (k < 1).all():
        return np.full(len(k), np.nan)
    return np.where(k >= 1, np.maximum(_golds(snapshot), 1) / np.maximum(k, 1), 0.0)


def _first_named(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.ChunkedArray:
    """Labels before, and those after where the former are empty."""
    return pa.chunked_array([pc.if_else(pc.equal(before, ""), after, before).combine_chunks()])


def _clusters(before: Snapshot, after: Snapshot, left: Ints, right: Ints, item: Ints) -> Ints | None:
    """Code of each pair's cluster, an item without one in a cluster of its own; None if no item has one.

    A name means the same cluster in every task: several tasks may have questions about one passage.
    """
    if before.missing("cluster") and after.missing("cluster"):
        return None
    sides = before.table["cluster"].take(left), after.table["cluster"].take(right)
    named = [pc.if_else(pc.equal(side, ""), pa.scalar(None, pa.string()), side) for side in sides]
    name = pc.coalesce(*(pa.chunked_array(side) if isinstance(side, pa.Array) else side for side in named))
    alone = np.asarray(pc.is_null(name))
    if alone.all():
        return None
    code = codes(name if isinstance(name, pa.ChunkedArray) else pa.chunked_array([name]))
    return np.where(alone, int(code.max()) + 1 + item, code)  # beyond all named clusters, one code per item


def option_scores(snapshot: Snapshot) -> OptionScores | None:
    """Scores that decided, of each row that has them for all its options; None if no row has.

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


def _gold_share(snapshot: Snapshot, options: OptionScores | None) -> Floats:
    """Share of the right options, float64 [rows]: as recorded, else from the scores; nan where there is neither."""
    recorded = snapshot.floats("gold_share")
    if options is None or not np.isnan(recorded).any():
        return recorded
    return np.where(np.isnan(recorded), decide(options.scores, options.k, options.golds).share, recorded)


def second_choice(snapshot: Snapshot, options: OptionScores | None, rows: Ints) -> Floats | None:
    """1 where a right option comes second to the wrong one that was chosen, 0 where another does, at `rows`.

    See `metrics.choices.second_is_gold`, also for where it is nan. None if no row has the scores that decide.
    """
    if options is None or snapshot.missing("chosen"):
        return None
    return second_is_gold(options.scores, options.k, options.golds, snapshot.ints("chosen"))[rows]


def _length_factors(snapshot: Snapshot, k: Ints) -> Floats:
    """Score over log-likelihood of each option, nan where its norm does not divide by a length, float64 [options]."""
    task, norms = Labels.of(snapshot.table["task"]), snapshot.norms
    by_length = np.array([norms.get(name) in UNITS for name in task.names], bool)[task.code]
    factors = np.full(int(k.sum()), np.nan)
    if by_length.any():  # the score of a log-likelihood of 1 is the factor
        factors = np.where(np.repeat(by_length, k), _scores_that_decide(snapshot, k, np.ones(len(factors))), np.nan)
    return factors


def _scores_that_decide(snapshot: Snapshot, k: Ints, logprobs: Floats) -> Floats:
    """The score that decides for each option that has a log-likelihood; nan where what its norm needs is missing."""
    task, norms = Labels.of(snapshot.table["task"]), snapshot.norms
    norm_of_row = np.array([norms.get(name, "sum") for name in task.names], object)[task.code]
    lengths = {unit: _same_options(snapshot, f"choice_{unit}", k) for unit in ("chars", "bytes", "tokens")}
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
    """The number of values of each row of a list column, 0 for null [rows], and all values in their order."""
    lists = snapshot.table[column].combine_chunks()
    number = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    return number, np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.float64)


def _same_options(snapshot: Snapshot, column: str, k: Ints) -> Floats:
    """The values of a list column for the options counted by `k`; nan in rows where the column has another number."""
    number, values = _options(snapshot, column)
    found = np.full(int(k.sum()), np.nan)
    same = number == k
    found[np.repeat(same, k)] = values[np.repeat(same, number)]
    return found
