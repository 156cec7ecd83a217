"""Aligned arrays of two snapshots: one row per pair of answers. Everything that is counted is counted from them.

Passages, which have no answer, are in `AlignedPassages` alone; one that was scored on one side only is unscored like
any other item. The pairs of items with an answer that was not scored are apart from the others, for
`measures.flips`.

A column that a snapshot lacks is None or nan.

**Pairs** of rows of two snapshots that are answers to the same question.

    before              after                pairs on
    a  hash 1           a  hash 1            id and hash
    b  hash 2           x  hash 2            hash: the id may differ
    c  hash 3, hash 3   c, d  hash 3, hash 3 equal ids first, then the n-th with the n-th
    e  no hash          e  hash 4            id, unless gold or k differ

Items pair on (task, content_hash, wording): on the text of the question and how it was asked, never on its row. Hashes
repeat within a task in real benchmarks. An item without a content hash on either side pairs on (task, item_id); nothing
guarantees then that it is the same question, and gold or k that differ show that it is not. Within a pair of items
sample j pairs with sample j.

**Columns** of a snapshot as arrays, one value per row.

    Labels           a text column as codes: grouping a million rows is a sort, not a million comparisons of text
    option_scores    the scores that decided, from the stored log-likelihoods, by the norm of each row's task
    gold_share       share of the right options
    has_letters      are the options letters?
    guess_chance     probability that a guess is right

The rule by which scores decide is `metrics.choices`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import SnapshotError
from forgetwatch.item import SHIPPED
from forgetwatch.metrics import (
    UNITS,
    Answers,
    Confidence,
    MassSplit,
    OptionScores,
    Passages,
    decide,
    lost_form,
    margins,
    normalise,
    option_mask,
    rate,
    right_at_constant_mass,
    split,
)
from forgetwatch.snapshot import LEFT_OUT, NONE, Snapshot, codes


@dataclass(frozen=True, kw_only=True, eq=False)
class Pairing:
    """Rows that pair, and items without a partner.

    Attributes:
        before: Row numbers before, int64 [pairs].
        after: Row numbers after, int64 [pairs].
        item: Number of the item of each pair, int64 [pairs].
        only_before: First row of each item without a partner after, int64 [items].
        only_after: First row of each item without a partner before, int64 [items].
        content_differs: Number of ids that are on both sides with unlike questions.
        by_id: Number of items that only their id pairs.
    """

    before: Ints
    after: Ints
    item: Ints
    only_before: Ints
    only_after: Ints
    content_differs: int
    by_id: int

    @property
    def complete(self) -> bool:
        """True if every item has a partner."""
        return not (self.only_before.size or self.only_after.size)


def item_codes(snapshot: Snapshot) -> Ints:
    """Return one whole number per row, the same for all samples of an item, counting from 0; int64 [rows]."""
    return codes(snapshot.table["task"], snapshot.table["item_id"])


def pair(before: Snapshot, after: Snapshot) -> Pairing:
    """Pair the rows of two snapshots; pairs come in the order of `before`. Takes the time of sorting the rows."""
    item_before, first_before = item_codes(before), _first_rows(before)
    if _are_aligned(before, after):  # a shortcut to what sorting finds
        rows, nothing = np.arange(len(before)), np.zeros(0, np.int64)
        number = codes(*(before.table[name].take(first_before) for name in ("task", "item_id")))
        return Pairing(
            before=rows,
            after=rows,
            item=number[item_before],
            only_before=nothing,
            only_after=nothing,
            content_differs=0,
            by_id=0,
        )
    item_after, first_after = item_codes(after), _first_rows(after)
    left, right, content_differs, by_id = _pair_items(before, after, first_before, first_after)
    # Both items of a pair get one number, items without a partner NONE: then rows pair on (number, sample).
    number_before, number_after = np.full(len(first_before), NONE), np.full(len(first_after), NONE)
    number_before[left] = number_after[right] = np.arange(len(left))
    rows_before, rows_after = number_before[item_before], number_after[item_after]
    samples_before, samples_after = before.ints("sample"), after.ints("sample")
    # number * width + sample is one key for both, unique on each side because (task, id, sample) is.
    width = 1 + int(max(samples_before.max(initial=0), samples_after.max(initial=0)))
    in_before, in_after = np.flatnonzero(rows_before != NONE), np.flatnonzero(rows_after != NONE)
    _, found_before, found_after = np.intersect1d(
        rows_before[in_before] * width + samples_before[in_before],
        rows_after[in_after] * width + samples_after[in_after],
        assume_unique=True,
        return_indices=True,
    )
    # intersect1d gives positions among the rows with a partner, in the order of the keys.
    paired_before, paired_after = in_before[found_before], in_after[found_after]
    order = np.argsort(paired_before, kind="stable")
    return Pairing(
        before=paired_before[order],
        after=paired_after[order],
        item=rows_before[paired_before[order]],
        only_before=first_before[number_before == NONE],
        only_after=first_after[number_after == NONE],
        content_differs=content_differs,
        by_id=by_id,
    )


def rows_of_baseline(snapshot: Snapshot, baseline: Snapshot) -> Snapshot:
    """Return the rows of a snapshot that pair with those of a baseline, in their order."""
    rows = pair(baseline, snapshot).after
    return replace(snapshot, table=snapshot.table.take(rows))


def _are_aligned(before: Snapshot, after: Snapshot) -> bool:
    """Return True if row i of both sides is the same sample of the same question, by id and hash, for every i."""
    names = ("sample", "task", "item_id", "content_hash", "wording")
    return not before.table["content_hash"].null_count and all(before.table[n].equals(after.table[n]) for n in names)


def _pair_items(
    before: Snapshot, after: Snapshot, first_before: Ints, first_after: Ints
) -> tuple[Ints, Ints, int, int]:
    """Pair items; an item is its index in `first_before` or `first_after`.

    Returns:
        Paired items before and after, the number of ids with unlike questions, and of items paired by id alone.
    """
    by_id = _joint_codes(before, after, first_before, first_after, "task", "item_id")
    _, same_id_before, same_id_after = np.intersect1d(*by_id, assume_unique=True, return_indices=True)
    hash_before, hash_after = _joint_codes(before, after, first_before, first_after, "task", "content_hash", "wording")
    hashed_before, hashed_after = (
        np.asarray(side.table["content_hash"].is_valid())[first]
        for side, first in ((before, first_before), (after, first_after))
    )
    both_hashed = hashed_before[same_id_before] & hashed_after[same_id_after]
    same_key = np.ones(len(same_id_before), bool)  # gold and k agree as far as both sides have them
    for name in ("gold", "k"):
        one, other = before.ints(name)[first_before[same_id_before]], after.ints(name)[first_after[same_id_after]]
        same_key &= (one == other) | (one == NONE) | (other == NONE)
    # Null hashes have a code of their own, so equal codes mean equal questions only where both sides have a hash.
    same = np.where(both_hashed, hash_before[same_id_before] == hash_after[same_id_after], same_key)
    left, right = same_id_before[same], same_id_after[same]
    # Equal ids come first: among repeated hashes the id decides which item belongs to which.
    rest_before = np.setdiff1d(np.arange(len(first_before)), left, assume_unique=True)
    rest_after = np.setdiff1d(np.arange(len(first_after)), right, assume_unique=True)
    rest_before, rest_after = rest_before[hashed_before[rest_before]], rest_after[hashed_after[rest_after]]
    # Items are numbered by their codes, and "n-th" is meant in the order of the rows.
    rest_before = rest_before[np.argsort(first_before[rest_before], kind="stable")]
    rest_after = rest_after[np.argsort(first_after[rest_after], kind="stable")]
    extra_before, extra_after = _match_occurrences(hash_before[rest_before], hash_after[rest_after])
    return (
        np.concatenate([left, rest_before[extra_before]]),
        np.concatenate([right, rest_after[extra_after]]),
        int(np.sum(~same)),
        int(np.sum(same & ~both_hashed)),
    )


def _first_rows(snapshot: Snapshot) -> Ints:
    """Return the first row of each item, by item code; int64 [items]."""
    return np.unique(item_codes(snapshot), return_index=True)[1]


def _joint_codes(
    before: Snapshot, after: Snapshot, rows_before: Ints, rows_after: Ints, *names: str
) -> tuple[Ints, Ints]:
    """Return the codes of some rows of both snapshots, equal where the named columns are.

    Int64 [rows before], [rows after].
    """
    columns = [
        pa.chunked_array(before.table[name].take(rows_before).chunks + after.table[name].take(rows_after).chunks)
        for name in names
    ]
    # A question in the wording of its probe is the same whether it is asked in others or not.
    columns = [one.fill_null(SHIPPED) if name == "wording" else one for name, one in zip(names, columns, strict=True)]
    joint = codes(*columns)
    return joint[: len(rows_before)], joint[len(rows_before) :]


def _match_occurrences(before: Ints, after: Ints) -> tuple[Ints, Ints]:
    """Return the positions of equal codes, the n-th occurrence before with the n-th after; int64 [pairs] each."""
    rank_before, rank_after = _occurrence(before), _occurrence(after)
    width = 1 + max((int(r.max()) for r in (rank_before, rank_after) if r.size), default=0)
    _, left, right = np.intersect1d(
        before * width + rank_before, after * width + rank_after, assume_unique=True, return_indices=True
    )
    return left, right


def _occurrence(values: Ints) -> Ints:
    _, code, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = np.empty(len(values), np.int64)
    # Sorted, equal values form runs; the rank of a value is its distance from the start of its run.
    rank[np.argsort(code, kind="stable")] = np.arange(len(values)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank


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
        """Return the labels of some rows."""
        return Labels(self.code[rows], self.names)

    def split(self) -> Iterator[tuple[str, Ints]]:
        """Yield each name that is not empty with its rows, int64, in the order of the names."""
        # Stable, so that the rows of each name keep their order.
        order = np.argsort(self.code, kind="stable")
        ends = np.cumsum(np.bincount(self.code, minlength=len(self.names)))
        for name, rows in zip(self.names, np.split(order, ends[:-1]) if len(ends) else [], strict=True):
            if name and rows.size:
                yield name, rows


def golds_listed(snapshot: Snapshot) -> Ints:
    """Return the number of right options of each row; 0 for a row without a list of them; int64 [rows]."""
    return _options(snapshot, "golds")[0]


def guess_chance(snapshot: Snapshot) -> Floats:
    """Return the probability that a guess among the options is right, float64 [rows].

    0 for open answers; nan if no row has options, because a log may not name them.
    """
    k = snapshot.ints("k")
    if (k < 1).all():
        return np.full(len(k), np.nan)
    return np.where(k >= 1, np.maximum(golds_listed(snapshot), 1) / np.maximum(k, 1), 0.0)


def option_scores(snapshot: Snapshot) -> OptionScores | None:
    """Return the scores that decided, of each row that has them for all its options; None if no row has.

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
    """Return the share of the right options, float64 [rows].

    As recorded, else from the scores; 0 where the output is not finite, nan where there is nothing.
    """
    recorded = np.where(snapshot.is_not_finite & (snapshot.ints("k") > 0), 0.0, snapshot.floats("gold_share"))
    if options is None or not np.isnan(recorded).any():
        return recorded
    return np.where(np.isnan(recorded), decide(options.scores, options.k, options.golds).share, recorded)


def _length_factors(snapshot: Snapshot, k: Ints) -> Floats:
    """Return score over log-likelihood of each option, nan where its norm divides by no length, float64 [options]."""
    task, norms = Labels.of(snapshot.table["task"]), snapshot.norms
    by_length = np.array([norms.get(name) in UNITS for name in task.names], bool)[task.code]
    factors = np.full(int(k.sum()), np.nan)
    if by_length.any():  # the score of a log-likelihood of 1 is the factor
        factors = np.where(np.repeat(by_length, k), _scores_that_decide(snapshot, k, np.ones(len(factors))), np.nan)
    return factors


def _scores_that_decide(snapshot: Snapshot, k: Ints, logprobs: Floats) -> Floats:
    """Return the score that decides for each option that has a log-likelihood.

    Nan where what its norm needs is missing.
    """
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
    """Return the number of values of each row of a list column, 0 for null [rows], and all values in their order."""
    lists = snapshot.table[column].combine_chunks()
    number = np.asarray(pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False), np.int64)
    return number, np.asarray(lists.flatten().to_numpy(zero_copy_only=False), np.float64)


def _same_options(snapshot: Snapshot, column: str, k: Ints) -> Floats:
    """Return the values of a list column for the options counted by `k`.

    Nan in rows where the column has another number.
    """
    number, values = _options(snapshot, column)
    found = np.full(int(k.sum()), np.nan)
    same = number == k
    found[np.repeat(same, k)] = values[np.repeat(same, number)]
    return found


Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedPairs:
    """Pairs of answers that were scored on both sides, `samples` rows per item. Arrays are [rows].

    Attributes:
        before: Right before, as `after` is after; and so on for each pair of names.
        scored_before: Right or wrong before. True in every row, except among the pairs that `align` sets apart.
        again: Right when the model before was measured again: 1, 0, or nan; None if it was not.
        chosen_again: Option that it chose then; -1 = no answer found, or not measured.
        share_before: Share of the right options before, 0 to 1; nan where it was not measured.
        chosen_before: Option chosen before; -1 = no answer found. None if a side logs no options.
        options_before: Scores of the options before, of the rows that have them; None if none has.
        mass_after: 1 where the answer after would be right, had the options kept their total probability, 0 where not,
            nan where no score that is divided by a length decided, or scores are missing; see
            `metrics.choices.right_at_constant_mass`. None if that is every row.
        mass_split: Mass and conditional of the options on both sides; None if no row has them. See `metrics.mass`.
        k: Number of options; -1 for open answers.
        golds: Number of right options.
        item: Code of the item.
        cluster: Code of the independent observation: the item's cluster, or the item if it has several samples; None
            if every row is one.
        form_before: 1 where the answer was in its form, 0 where not, nan where not measured; see `metrics.known`.
        forced_after: 1 where the right option scores highest after, 0 where not, nan where not known.
        margin_before: Margin of the right over the wrong options before, nats; nan where the scores of a side did not
            decide its outcome. See `metrics.margin_change`.
        undecided: Options have scores on both sides, and those of a side did not decide its outcome: the answer was
            generated, or is another one than the option of the highest score. These scores are left out of everything
            that rests on option scores, but for `lost_form`.
        not_finite: The outputs after are not finite, and the answer is wrong.
        sample: Number of the sample.
        kind: ``scored`` for log-likelihood answers, ``written`` for generated ones.
        wording: Name of the wording in which each question was asked; empty for one that is asked in no other.
        question: Code of the question, the same in each of its wordings, int64 [rows].
        task: Names of the tasks, as `category` those of the categories.
        unscored: Items that were left out because a sample of them was not scored.
    """

    before: Bools
    after: Bools
    scored_before: Bools
    scored_after: Bools
    again: Floats | None
    chosen_again: Ints
    share_before: Floats
    share_after: Floats
    chosen_before: Ints | None
    chosen_after: Ints | None
    options_before: OptionScores | None
    options_after: OptionScores | None
    mass_after: Floats | None
    mass_split: MassSplit | None
    k: Ints
    golds: Ints
    item: Ints
    cluster: Ints | None
    form_before: Floats
    form_after: Floats
    forced_after: Floats
    margin_before: Floats
    margin_after: Floats
    undecided: Bools
    not_finite: Bools
    sample: Ints
    kind: Labels
    wording: Labels
    question: Ints
    task: Labels
    category: Labels
    samples: int
    unscored: int

    def __len__(self) -> int:
        return len(self.before)

    def take(self, rows: NDArray[Any]) -> Self:
        """Return the pairs of some rows."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        columns = {name: x[rows] for name, x in vars(self).items() if isinstance(x, np.ndarray)}
        others: dict[str, Any] = {
            name: x.take(rows) for name, x in vars(self).items() if isinstance(x, (Labels, OptionScores, MassSplit))
        }
        return replace(self, **columns, **others)

    def answers(self) -> Answers | None:
        """Return the pairs with options, for the corrections for guessing; None if there are none."""
        rows = self.k >= 2
        if self.chosen_before is None or self.chosen_after is None or not rows.any():
            return None
        columns: dict[str, Any] = {"task": self.task.code}
        columns |= {name: getattr(self, name) for name in Answers.__dataclass_fields__ if name != "task"}
        return Answers(**columns).take(rows)

    def open_or_correctable(self) -> tuple[Answers, Bools]:
        """Return open answers, and choices with at least two wrong options and logged ones; and which rows these are.

        Open answers are choices among three without a right option, so that no guess hits.
        """
        # Without any number of options a log may leave them out: only a generated answer is open then.
        is_open = (self.k < 1) & ((self.kind.code == 1) | (self.k >= 1).any())
        choice = np.zeros(len(self), bool)
        chosen = self.chosen_before, self.chosen_after
        if chosen[0] is not None and chosen[1] is not None:
            choice = self.k - self.golds >= 2
        columns: dict[str, Any] = {name: getattr(self, name) for name in ("before", "after", "cluster", "samples")}
        for side, of in zip(("chosen_before", "chosen_after"), chosen, strict=True):
            columns[side] = np.where(is_open | (of is None), 0, NONE if of is None else of)
        k, golds = np.where(is_open, 3, self.k), np.where(is_open, 0, self.golds)
        rows: Bools = is_open | choice
        return Answers(**columns, k=k, golds=golds, task=self.task.code).take(rows), rows

    def confidence(self) -> Confidence:
        """Return the confidence of the answers before and after, for the known items and what luck makes of them."""
        other_wrong, wrong_share, wrong_share_after = np.zeros(len(self), bool), None, None
        before, after = self.chosen_before, self.chosen_after
        was, now = self.options_before, self.options_after
        # Without the options that were chosen nothing shows that an answer moved: there is no mirror.
        if before is not None and after is not None and was is not None and now is not None:
            both = (before != NONE) & (after != NONE)
            other_wrong = both & ~self.before & ~self.after & (before != after)
            # A mirror needs the scores of both sides, as a known item that is lost does.
            scored = (was.k > 0) & ((now.k > 0) | self.not_finite)
            wrong_share, wrong_share_after = (np.where(scored, one.largest_wrong_share, np.nan) for one in (was, now))
        return Confidence(
            before=self.before,
            after=self.after,
            share_before=self.share_before,
            share_after=self.share_after,
            wrong_share=None if wrong_share is None or np.isnan(wrong_share).all() else wrong_share,
            wrong_share_after=wrong_share_after,
            other_wrong=other_wrong,
            k=self.k,
            golds=self.golds,
            cluster=self.cluster,
        )

    @property
    def has_margin(self) -> Bools:
        """True where the answer has a margin on both sides; bool [rows]."""
        return ~(np.isnan(self.margin_before) | np.isnan(self.margin_after))

    @property
    def lost_form(self) -> Bools:
        """True where an answer lost its form, without evidence that the knowledge is gone; bool [rows]."""
        return lost_form(
            self.before,
            self.after,
            form_before=self.form_before,
            form_after=self.form_after,
            forced_after=self.forced_after,
            constant_mass=self.mass_after,
        )

    def loss(self) -> NDArray[np.object_]:
        """Return ``form`` or ``knowledge`` for each forgotten answer whose kind of loss shows, else None.

        Object [rows].

        It shows where the form was measured, or the answer was a choice among options.
        """
        measured = np.isfinite(self.form_before) & np.isfinite(self.form_after)
        shown = self.before & ~self.after & (measured | ((self.kind.code == 0) & (self.k > 0)))
        kinds = np.where(self.lost_form, "form", "knowledge").astype(object)
        kinds[~shown] = None
        return kinds

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
        again: tuple[Floats, Ints] | None = None,
        whole_items: bool = True,
    ) -> tuple[Self, Self]:
        """Align all pairs; labels are those of `before` where it has them.

        Args:
            before: The snapshot before.
            after: The snapshot after.
            pairing: Rows of the two that pair.
            again: Right answers of a second measurement of `before`, and its options, in the order of its rows.
            whole_items: Leave out an item with one unscored sample as a whole, so that every item has the same weight;
                False leaves out the sample alone.

        Returns:
            The pairs that were scored on both sides, and those that were left out. Passages, and answers that a look
            did not generate, are among neither.
        """
        left, right, item = pairing.before, pairing.after, pairing.item
        correct_before, correct_after = before.right_as_base[left], after.floats("correct")[right]
        scored = np.isfinite(correct_before) & np.isfinite(correct_after)
        # One unscored sample marks its item, and through the item all its rows.
        # A passage that was scored on both sides is neither an answer nor unscored.
        passage = before.is_passage[left] & after.is_passage[right]
        whole = np.ones(int(item.max()) + 1 if item.size else 0, bool)
        whole[item[~scored & ~passage]] = False
        keep = (whole[item] if whole_items else scored) & ~passage
        items = len(np.unique(item[keep]))
        # Where nothing was scored on both sides, those of all answers.
        answers = len(np.unique(item[~passage]))
        samples = int(keep.sum()) // items if items else int((~passage).sum()) // answers if answers else 1
        # Options are compared pair by pair: those of one side alone are of no use.
        broken = after.is_not_finite
        options = not (before.missing("chosen") or (after.missing("chosen") and not broken.any()))
        k_before, k_after = before.ints("k")[left], after.ints("k")[right]
        cluster = shared_clusters(before, after, pairing)
        scores_before, scores_after = option_scores(before), option_scores(after)
        if scores_after is None and broken.any():
            none = np.zeros(0)
            scores_after = OptionScores(np.zeros(len(after), np.int64), none, none.astype(bool), none, None)
        aligned = cls(
            before=correct_before == 1.0,
            after=correct_after == 1.0,
            scored_before=np.isfinite(correct_before),
            scored_after=np.isfinite(correct_after),
            again=None if again is None else again[0][left],
            chosen_again=np.full(len(left), NONE) if again is None else again[1][left],
            share_before=gold_share(before, scores_before)[left],
            share_after=gold_share(after, scores_after)[right],
            chosen_before=before.ints("chosen")[left] if options else None,
            chosen_after=after.ints("chosen")[right] if options else None,
            options_before=None if scores_before is None else scores_before.take(left),
            options_after=None if scores_after is None else scores_after.take(right),
            mass_after=None,
            mass_split=None,
            k=np.where(k_before == NONE, k_after, k_before),  # a log may name k on one side only
            golds=np.maximum(np.maximum(golds_listed(before)[left], golds_listed(after)[right]), 1),
            item=item,
            cluster=item if cluster is None and samples > 1 else cluster,  # samples of an item flip together
            form_before=_form(before)[left],
            form_after=_form(after)[right],
            # A scored answer is the option that scores highest; a generated one has that option next to it.
            margin_before=np.full(len(left), np.nan),
            margin_after=np.full(len(left), np.nan),
            undecided=np.zeros(len(left), bool),
            not_finite=broken[right],
            forced_after=np.where(_is_generated(after), after.floats("forced_correct"), after.floats("correct"))[right],
            sample=before.ints("sample")[left],
            kind=Labels(
                # An answer that was not scored after may have no text.
                np.where(np.isfinite(correct_after), _is_generated(after)[right], _is_generated(before)[left]).astype(
                    np.int64
                ),
                ("scored", "written"),
            ),
            wording=Labels.of(before.table["wording"].take(left).fill_null("")),
            question=item if before.missing("wording") else _questions(before)[left],
            task=Labels.of(before.table["task"].take(left)),
            category=Labels.of(first_named(before.table["category"].take(left), after.table["category"].take(right))),
            samples=samples,
            unscored=int(np.sum(~whole)),
        )
        aligned = aligned._with_margins(_is_generated(before)[left], _is_generated(after)[right])
        kept = aligned.take(keep)
        no_answer = before.is_passage[left] | after.is_passage[right]
        no_answer |= _is_left_out(before)[left] | before.is_not_finite[left]
        return kept._with_mass(), aligned.take(~keep & ~no_answer & ~_is_left_out(after)[right])

    def _with_margins(self, generated_before: Bools, generated_after: Bools) -> Self:
        """Return the same pairs with their margins, and without the scores that did not decide an outcome."""
        sides = (
            (self.options_before, self.before, self.scored_before, generated_before),
            (self.options_after, self.after, self.scored_after, generated_after),
        )
        found, scored, undecided = list[Floats](), np.ones(len(self), bool), generated_before | generated_after
        for options, right, is_scored, _ in sides:
            of_side = np.full(len(self), np.nan) if options is None else margins(options)
            undecided |= is_scored & ((of_side > 0) != right) & (of_side != 0) & ~np.isnan(of_side)
            scored &= False if options is None else options.k > 0
            found.append(of_side)
        changed: dict[str, Any] = {
            name: None if (options := getattr(self, name)) is None else options.without(undecided)
            for name in ("options_before", "options_after")
        }
        changed |= {name: np.where(undecided, np.nan, getattr(self, name)) for name in ("share_before", "share_after")}
        before, after = (np.where(undecided | ~scored, np.nan, of_side) for of_side in found)
        return replace(self, **changed, margin_before=before, margin_after=after, undecided=undecided & scored)

    def _with_mass(self) -> Self:
        """Return the same pairs with `mass_after` and `mass_split`, which need the scores of both sides."""
        before, after = self.options_before, self.options_after
        if before is None or after is None:
            return self
        by_length = after.by_length & (before.k > 0)
        right = (
            np.where(by_length, right_at_constant_mass(before, after, self.after), np.nan) if by_length.any() else None
        )
        return replace(self, mass_after=right, mass_split=split(before, after))


def _is_generated(snapshot: Snapshot) -> Bools:
    return np.asarray(pc.is_valid(snapshot.table["output"]))


def _is_left_out(snapshot: Snapshot) -> Bools:
    """Return True where a look did not generate the answer, to keep its budget; bool [rows]."""
    return np.asarray(pc.fill_null(pc.equal(snapshot.table["outcome"], LEFT_OUT), False))


def _form(snapshot: Snapshot) -> Floats:
    """Return 1 where an answer was in its form, or would have begun in it, 0 where not, nan where unknown.

    Float64 [rows].
    """
    return np.where(_is_generated(snapshot), snapshot.floats("in_form"), snapshot.floats("free_correct"))


def first_named(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the labels before, and those after where the former are empty."""
    return pa.chunked_array([pc.if_else(pc.equal(before, ""), after, before).combine_chunks()])


def _questions(snapshot: Snapshot) -> Ints:
    """Return the code of the question of each row, the same in each of its wordings; int64 [rows]."""
    return codes(snapshot.table["task"], snapshot.table["content_hash"])


def _in_several_wordings(snapshot: Snapshot) -> Bools:
    """Return True where the question of a row is asked in several wordings; bool [rows]."""
    if snapshot.missing("wording"):
        return np.zeros(len(snapshot), bool)
    question, wording = _questions(snapshot), codes(snapshot.table["wording"].fill_null(SHIPPED))
    pairs = np.unique(np.stack([question, wording]), axis=1)[0]
    several = np.bincount(pairs, minlength=int(question.max()) + 1)[question] > 1
    found: Bools = several & np.asarray(snapshot.table["content_hash"].is_valid())
    return found


def shared_clusters(before: Snapshot, after: Snapshot, pairing: Pairing) -> Ints | None:
    """Return the code of each pair's cluster, an item without one in a cluster of its own; None if no item has one.

    A name means the same cluster in every task: several tasks may have questions about one text.
    """
    left, right, item = pairing.before, pairing.after, pairing.item
    several = _in_several_wordings(before)
    if before.missing("cluster") and after.missing("cluster") and not several.any():
        return None
    sides = before.table["cluster"].take(left), after.table["cluster"].take(right)
    named = [pc.if_else(pc.equal(side, ""), pa.scalar(None, pa.string()), side) for side in sides]
    # One question in several wordings is one observation.
    hashed = pc.if_else(
        pa.array(several[left]),
        pc.binary_join_element_wise(
            "question",
            *(before.table[one].take(left).combine_chunks().cast(pa.string()) for one in ("task", "content_hash")),
            "\0",
        ),
        pa.scalar(None, pa.string()),
    )
    named.append(pa.chunked_array([hashed]))
    name = pc.coalesce(*(pa.chunked_array(side) if isinstance(side, pa.Array) else side for side in named))
    alone = np.asarray(pc.is_null(name))
    if alone.all():
        return None
    code = codes(name if isinstance(name, pa.ChunkedArray) else pa.chunked_array([name]))
    return np.where(alone, int(code.max()) + 1 + item, code)  # beyond all named clusters, one code per item


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedPassages:
    """Passages that were scored on both sides: their log-likelihoods and lengths, and their labels."""

    passages: Passages
    task: Labels
    category: Labels

    @classmethod
    def align(cls, before: Snapshot, after: Snapshot, pairing: Pairing) -> Self:
        """Align the passages among the pairs of two snapshots; there may be none."""
        left, right = pairing.before, pairing.after
        both = before.is_passage[left] & after.is_passage[right]
        cluster = shared_clusters(before, after, pairing)
        left, right = left[both], right[both]
        passages = Passages(
            before=_values(before, "choice_logprobs", left),
            after=_values(after, "choice_logprobs", right),
            bytes_before=_values(before, "choice_bytes", left),
            bytes_after=_values(after, "choice_bytes", right),
            cluster=None if cluster is None else cluster[both],
        )
        category = first_named(before.table["category"].take(left), after.table["category"].take(right))
        return cls(passages=passages, task=Labels.of(before.table["task"].take(left)), category=Labels.of(category))

    def __len__(self) -> int:
        return len(self.passages)

    def take(self, rows: NDArray[Any]) -> Self:
        """Return some of the passages."""
        return type(self)(
            passages=self.passages.take(rows), task=self.task.take(rows), category=self.category.take(rows)
        )


def snapshot_bits(snapshot: Snapshot) -> float:
    """Return the bits per byte of all passages of a snapshot; nan without passages."""
    rows = np.flatnonzero(snapshot.is_passage)
    return rate(_values(snapshot, "choice_logprobs", rows), _values(snapshot, "choice_bytes", rows))


def _values(snapshot: Snapshot, name: str, rows: NDArray[np.int64]) -> Floats:
    """Return the only value of a list column in each of some rows, float64 [rows]."""
    column = snapshot.table[name].take(rows).combine_chunks()
    return np.asarray(pc.cast(column.flatten(), "float64").to_numpy(zero_copy_only=False), np.float64)
