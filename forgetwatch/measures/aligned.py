"""Aligned arrays of two snapshots: one row per pair of answers. Everything that is counted is counted from them.

Passages, which have no answer, are in `AlignedPassages` alone; one that was scored on one side only
is unscored like any other item. The pairs of items with an answer that was not scored are apart
from the others, for `measures.flip_counts`.

A column that a snapshot lacks is None or nan.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.measures.option_columns import Labels, gold_share, golds_listed, option_scores
from forgetwatch.measures.pairing import Pairing, item_codes
from forgetwatch.metrics.choices import OptionScores, right_at_constant_mass
from forgetwatch.metrics.guessing import Answers
from forgetwatch.metrics.known import Confidence, lost_form
from forgetwatch.metrics.log_score import Passages, rate
from forgetwatch.metrics.margin_change import margins
from forgetwatch.metrics.mass import MassSplit, split
from forgetwatch.metrics.mean_score import ItemScores, item_scores
from forgetwatch.snapshot import LEFT_OUT, NONE, Snapshot, codes
from forgetwatch.wording import SHIPPED

Bools = NDArray[np.bool_]


Ints = NDArray[np.int64]


Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedPairs:
    """Pairs of answers that were scored on both sides, `samples` rows per item. Arrays are [rows].

    Attributes:
        before: Right before, as `after` is after; and so on for each pair of names.
        scored_before: Right or wrong before. True in every row, except among the pairs that `align`
            sets apart.
        again: Right when the model before was measured again: 1, 0, or nan; None if it was not.
        chosen_again: Option that it chose then; -1 = no answer found, or not measured.
        share_before: Share of the right options before, 0 to 1; nan where it was not measured.
        chosen_before: Option chosen before; -1 = no answer found. None if a side logs no options.
        options_before: Scores of the options before, of the rows that have them; None if none has.
        mass_after: 1 where the answer after would be right, had the options kept their total
            probability, 0 where not, nan where no score that is divided by a length decided, or
            scores are missing; see `metrics.choices.right_at_constant_mass`. None if that is every
            row.
        mass_split: Mass and conditional of the options on both sides; None if no row has them. See
            `metrics.mass`.
        k: Number of options; -1 for open answers.
        golds: Number of right options.
        item: Code of the item.
        cluster: Code of the independent observation: the item's cluster, or the item if it has
            several samples; None if every row is one.
        form_before: 1 where the answer was in its form, 0 where not, nan where not measured; see
            `metrics.known`.
        forced_after: 1 where the right option scores highest after, 0 where not, nan where not
            known.
        margin_before: Margin of the right over the wrong options before, nats; nan where the scores
            of a side did not decide its outcome. See `metrics.margin_change`.
        undecided: Options have scores on both sides, and those of a side did not decide its
            outcome: the answer was generated, or is another one than the option of the highest
            score. These scores are left out of everything that rests on option scores, but for
            `lost_form`.
        scores: Scores of the items between wrong and right; None where answers are one of the two,
            and items have one sample.
        not_finite: The outputs after are not finite, and the answer is wrong.
        sample: Number of the sample.
        kind: ``scored`` for log-likelihood answers, ``written`` for generated ones.
        wording: Name of the wording in which each question was asked; empty for one that is asked
            in no other.
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
    scores: ItemScores | None
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
        """Select the pairs of some rows."""
        if rows.dtype == np.bool_ and rows.all():
            return self
        columns = {name: x[rows] for name, x in vars(self).items() if isinstance(x, np.ndarray)}
        others: dict[str, Any] = {
            name: x.take(rows)
            for name, x in vars(self).items()
            if isinstance(x, (Labels, OptionScores, MassSplit, ItemScores))
        }
        return replace(self, **columns, **others)

    def answers(self) -> Answers | None:
        """Pairs with options, for the corrections for guessing.

        Returns:
            The pairs, or None if there are none.
        """
        rows = self.k >= 2
        if self.chosen_before is None or self.chosen_after is None or not rows.any():
            return None
        columns: dict[str, Any] = {"task": self.task.code}
        columns |= {
            name: getattr(self, name) for name in Answers.__dataclass_fields__ if name != "task"
        }
        return Answers(**columns).take(rows)

    def open_or_correctable(self) -> tuple[Answers, Bools]:
        """Pairs that the corrections for guessing can use.

        Open answers, choices with at least two wrong options, and which rows these are. Open
        answers are choices among three without a right option, so that no guess hits.
        """
        # Without any number of options a log may leave them out: only a generated answer is open
        # then.
        is_open = (self.k < 1) & ((self.kind.code == 1) | (self.k >= 1).any() | self.is_graded)
        choice = np.zeros(len(self), bool)
        chosen = self.chosen_before, self.chosen_after
        if chosen[0] is not None and chosen[1] is not None:
            choice = self.k - self.golds >= 2
        columns: dict[str, Any] = {
            name: getattr(self, name) for name in ("before", "after", "cluster", "samples")
        }
        for side, of in zip(("chosen_before", "chosen_after"), chosen, strict=True):
            columns[side] = np.where(is_open | (of is None), 0, NONE if of is None else of)
        k, golds = np.where(is_open, 3, self.k), np.where(is_open, 0, self.golds)
        rows: Bools = is_open | choice
        return Answers(**columns, k=k, golds=golds, task=self.task.code).take(rows), rows

    def confidence(self) -> Confidence:
        """Confidence of the answers before and after."""
        other_wrong, wrong_share, wrong_share_after = np.zeros(len(self), bool), None, None
        before, after = self.chosen_before, self.chosen_after
        was, now = self.options_before, self.options_after
        # Without the options that were chosen nothing shows that an answer moved: there is no
        # mirror.
        if before is not None and after is not None and was is not None and now is not None:
            both_chosen = (before != NONE) & (after != NONE)
            other_wrong = both_chosen & ~self.before & ~self.after & (before != after)
            # A mirror needs the scores of both sides, as a known item that is lost does.
            scored = (was.k > 0) & ((now.k > 0) | self.not_finite)
            wrong_share, wrong_share_after = (
                np.where(scored, options.largest_wrong_share, np.nan) for options in (was, now)
            )
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
    def is_graded(self) -> Bools:
        """Is the answer more than right or wrong on a side, bool [rows]?"""
        return np.zeros(len(self), bool) if self.scores is None else self.scores.graded

    @property
    def has_margin(self) -> Bools:
        """Does the answer have a margin on both sides, bool [rows]?"""
        return ~(np.isnan(self.margin_before) | np.isnan(self.margin_after))

    @property
    def lost_form(self) -> Bools:
        """Did an answer lose the form alone, bool [rows]?

        Nothing shows that the knowledge of such an answer is gone.
        """
        return lost_form(
            self.before,
            self.after,
            form_before=self.form_before,
            form_after=self.form_after,
            forced_after=self.forced_after,
            constant_mass=self.mass_after,
        )

    def loss(self) -> NDArray[np.object_]:
        """Kind of loss of each forgotten answer, object [rows].

        ``form`` or ``knowledge`` where the form was measured, or the answer was a choice among
        options; else None.

        It shows where the form was measured, or the answer was a choice among options.
        """
        measured = np.isfinite(self.form_before) & np.isfinite(self.form_after)
        is_visible = self.before & ~self.after & (measured | ((self.kind.code == 0) & (self.k > 0)))
        kinds = np.where(self.lost_form, "form", "knowledge").astype(object)
        kinds[~is_visible] = None
        return kinds

    @property
    def right_at_constant_mass(self) -> Bools | None:
        """Right after, had the options kept their total probability?

        Returns:
            Bool [rows], or None unless a length decided some pairs.
        """
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
        repeated: tuple[Floats, Ints] | None = None,
        whole_items: bool = True,
    ) -> tuple[Self, Self]:
        """Align all pairs.

        Labels are those of `before` if present.

        Args:
            before: The snapshot before.
            after: The snapshot after.
            pairing: Rows of the two that pair.
            repeated: Right answers of a second measurement of `before`, and its options, in the
                order of its rows.
            whole_items: Leave out an item with one unscored sample as a whole, so that every item
                has the same weight; False leaves out the sample alone.

        Returns:
            The pairs that were scored on both sides, and those that were left out. Passages, and
            answers that a look did not generate, are among neither.
        """
        left, right, item = pairing.before, pairing.after, pairing.item
        correct_before, correct_after = before.right_as_base[left], after.floats("correct")[right]
        scored = np.isfinite(correct_before) & np.isfinite(correct_after)
        # One unscored sample marks its item, and through the item all its rows.
        # A passage that was scored on both sides is neither an answer nor unscored.
        passage = before.is_passage[left] & after.is_passage[right]
        is_whole = np.ones(int(item.max()) + 1 if item.size else 0, bool)
        is_whole[item[~scored & ~passage]] = False
        keep = (is_whole[item] if whole_items else scored) & ~passage
        items = len(np.unique(item[keep]))
        # Where nothing was scored on both sides, those of all answers.
        answers = len(np.unique(item[~passage]))
        samples = (
            int(keep.sum()) // items
            if items
            else int((~passage).sum()) // answers
            if answers
            else 1
        )
        # Options are compared pair by pair: those of one side alone are of no use.
        broken = after.is_not_finite
        options = not (before.missing("chosen") or (after.missing("chosen") and not broken.any()))
        k_before, k_after = before.ints("k")[left], after.ints("k")[right]
        cluster = shared_clusters(before, after, pairing)
        scores_before, scores_after = option_scores(before), option_scores(after)
        if scores_after is None and broken.any():
            none = np.zeros(0)
            scores_after = OptionScores(
                np.zeros(len(after), np.int64), none, none.astype(bool), none, None
            )
        aligned = cls(
            before=correct_before == 1.0,
            after=correct_after == 1.0,
            scored_before=np.isfinite(correct_before),
            scored_after=np.isfinite(correct_after),
            again=None if repeated is None else repeated[0][left],
            chosen_again=np.full(len(left), NONE) if repeated is None else repeated[1][left],
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
            cluster=item
            if cluster is None and samples > 1
            else cluster,  # samples of an item flip together
            form_before=_form(before)[left],
            form_after=_form(after)[right],
            # A scored answer is the option that scores highest; a generated one has that option
            # next to it.
            margin_before=np.full(len(left), np.nan),
            margin_after=np.full(len(left), np.nan),
            undecided=np.zeros(len(left), bool),
            scores=_scores(before, after, left, right, samples),
            not_finite=broken[right],
            forced_after=np.where(
                _is_generated(after), after.floats("forced_correct"), after.floats("correct")
            )[right],
            sample=before.ints("sample")[left],
            kind=Labels(
                # An answer that was not scored after may have no text.
                np.where(
                    np.isfinite(correct_after),
                    _is_generated(after)[right],
                    _is_generated(before)[left],
                ).astype(np.int64),
                ("scored", "written"),
            ),
            wording=Labels.of(before.table["wording"].take(left).fill_null("")),
            question=item if before.missing("wording") else _questions(before)[left],
            task=Labels.of(before.table["task"].take(left)),
            category=Labels.of(
                first_named(
                    before.table["category"].take(left), after.table["category"].take(right)
                )
            ),
            samples=samples,
            unscored=int(np.sum(~is_whole)),
        )
        aligned = aligned._with_margins(_is_generated(before)[left], _is_generated(after)[right])
        kept = aligned.take(keep)
        no_answer = before.is_passage[left] | after.is_passage[right]
        no_answer |= _is_left_out(before)[left] | before.is_not_finite[left]
        return kept._with_mass(), aligned.take(~keep & ~no_answer & ~_is_left_out(after)[right])

    def _with_margins(self, generated_before: Bools, generated_after: Bools) -> Self:
        # Scores that did not decide an outcome are left out.
        sides = (
            (self.options_before, self.before, self.scored_before, generated_before),
            (self.options_after, self.after, self.scored_after, generated_after),
        )
        rows, scored, undecided = (
            list[Floats](),
            np.ones(len(self), bool),
            generated_before | generated_after | self.is_graded,
        )
        for options, right, is_scored, _ in sides:
            of_side = np.full(len(self), np.nan) if options is None else margins(options)
            undecided |= is_scored & ((of_side > 0) != right) & (of_side != 0) & ~np.isnan(of_side)
            scored &= False if options is None else options.k > 0
            rows.append(of_side)
        changed: dict[str, Any] = {
            name: None if (options := getattr(self, name)) is None else options.without(undecided)
            for name in ("options_before", "options_after")
        }
        changed |= {
            name: np.where(undecided, np.nan, getattr(self, name))
            for name in ("share_before", "share_after")
        }
        before, after = (np.where(undecided | ~scored, np.nan, of_side) for of_side in rows)
        return replace(
            self, **changed, margin_before=before, margin_after=after, undecided=undecided & scored
        )

    def _with_mass(self) -> Self:
        # `mass_after` and `mass_split` need the scores of both sides.
        before, after = self.options_before, self.options_after
        if before is None or after is None:
            return self
        by_length = after.by_length & (before.k > 0)
        right = (
            np.where(by_length, right_at_constant_mass(before, after, self.after), np.nan)
            if by_length.any()
            else None
        )
        return replace(self, mass_after=right, mass_split=split(before, after))


def _is_generated(snapshot: Snapshot) -> Bools:
    return np.asarray(pc.is_valid(snapshot.table["output"]))


def _is_left_out(snapshot: Snapshot) -> Bools:
    # A look leaves answers out to keep its budget.
    return np.asarray(pc.fill_null(pc.equal(snapshot.table["outcome"], LEFT_OUT), False))


def _scores(
    before: Snapshot, after: Snapshot, left: Ints, right: Ints, samples: int
) -> ItemScores | None:
    # An answer without a score counts by its outcome.
    is_graded = [~np.isnan(side.floats("score")) for side in (before, after)]
    if samples == 1 and not any(graded.any() for graded in is_graded):
        return None
    outcomes = before.right_as_base, after.floats("correct")
    (mean_before, spread_before), (mean_after, spread_after) = (
        item_scores(
            np.where(graded & np.isfinite(right), side.floats("score"), right), item_codes(side)
        )
        for side, graded, right in zip((before, after), is_graded, outcomes, strict=True)
    )
    return ItemScores(
        before=mean_before[left],
        after=mean_after[right],
        sampling=spread_before[left] + spread_after[right],
        graded=is_graded[0][left] | is_graded[1][right],
    )


def _form(snapshot: Snapshot) -> Floats:
    # 1 where an answer was in its form, or would have begun in it; nan where unknown.
    return np.where(
        _is_generated(snapshot), snapshot.floats("in_form"), snapshot.floats("free_correct")
    )


def first_named(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.ChunkedArray:
    """Labels before, and labels after where the former are empty."""
    return pa.chunked_array([pc.if_else(pc.equal(before, ""), after, before).combine_chunks()])


def _questions(snapshot: Snapshot) -> Ints:
    # The same code in each wording.
    return codes(snapshot.table["task"], snapshot.table["content_hash"])


def _asked_often(snapshot: Snapshot) -> Bools:
    # Most questions of a file have several ids: answers to one question, numbered one by one.
    question = codes(snapshot.table["task"], snapshot.table["content_hash"])
    firsts = np.unique(item_codes(snapshot), return_index=True)[1]
    times = np.bincount(question[firsts], minlength=len(question))[question]
    several = (times > 1) & np.asarray(snapshot.table["content_hash"].is_valid())
    return several if 2 * several.sum() > len(several) else np.zeros(len(several), bool)


def _in_several_wordings(snapshot: Snapshot) -> Bools:
    if snapshot.missing("wording"):
        return np.zeros(len(snapshot), bool)
    question, wording = _questions(snapshot), codes(snapshot.table["wording"].fill_null(SHIPPED))
    pairs = np.unique(np.stack([question, wording]), axis=1)[0]
    several = np.bincount(pairs, minlength=int(question.max()) + 1)[question] > 1
    is_several: Bools = several & np.asarray(snapshot.table["content_hash"].is_valid())
    return is_several


def shared_clusters(before: Snapshot, after: Snapshot, pairing: Pairing) -> Ints | None:
    """Code the cluster of each pair.

    Returns:
        Codes, or None if no item has a cluster; an item without one is a cluster of its own. A name
        means the same cluster in every task.
    """
    left, right, item = pairing.before, pairing.after, pairing.item
    several = _in_several_wordings(before) | _asked_often(before)
    if before.missing("cluster") and after.missing("cluster") and not several.any():
        return None
    sides = before.table["cluster"].take(left), after.table["cluster"].take(right)
    clusters = [
        pc.if_else(pc.equal(side, ""), pa.scalar(None, pa.string()), side) for side in sides
    ]
    # One question in several wordings, or under several ids, is one observation.
    hashed = pc.if_else(
        pa.array(several[left]),
        pc.binary_join_element_wise(
            "question",
            *(
                before.table[name].take(left).combine_chunks().cast(pa.string())
                for name in ("task", "content_hash")
            ),
            "\0",
        ),
        pa.scalar(None, pa.string()),
    )
    clusters.append(pa.chunked_array([hashed]))
    name = pc.coalesce(
        *(pa.chunked_array(side) if isinstance(side, pa.Array) else side for side in clusters)
    )
    alone = np.asarray(pc.is_null(name))
    if alone.all():
        return None
    code = codes(name if isinstance(name, pa.ChunkedArray) else pa.chunked_array([name]))
    return np.where(
        alone, int(code.max()) + 1 + item, code
    )  # beyond all named clusters, one code per item


@dataclass(frozen=True, kw_only=True, eq=False)
class AlignedPassages:
    """Passages that were scored on both sides: their log-likelihoods and lengths, and their labels."""

    passages: Passages
    task: Labels
    category: Labels

    @classmethod
    def align(cls, before: Snapshot, after: Snapshot, pairing: Pairing) -> Self:
        """Align the passages of two snapshots, if any."""
        left, right = pairing.before, pairing.after
        is_passage = before.is_passage[left] & after.is_passage[right]
        cluster = shared_clusters(before, after, pairing)
        left, right = left[is_passage], right[is_passage]
        passages = Passages(
            before=_values(before, "choice_logprobs", left),
            after=_values(after, "choice_logprobs", right),
            bytes_before=_values(before, "choice_bytes", left),
            bytes_after=_values(after, "choice_bytes", right),
            cluster=None if cluster is None else cluster[is_passage],
        )
        category = first_named(
            before.table["category"].take(left), after.table["category"].take(right)
        )
        return cls(
            passages=passages,
            task=Labels.of(before.table["task"].take(left)),
            category=Labels.of(category),
        )

    def __len__(self) -> int:
        return len(self.passages)

    def take(self, rows: NDArray[Any]) -> Self:
        """Select some of the passages."""
        return type(self)(
            passages=self.passages.take(rows),
            task=self.task.take(rows),
            category=self.category.take(rows),
        )


def snapshot_bits(snapshot: Snapshot) -> float:
    """Bits per byte of all passages of a snapshot; nan without any."""
    rows = np.flatnonzero(snapshot.is_passage)
    return rate(_values(snapshot, "choice_logprobs", rows), _values(snapshot, "choice_bytes", rows))


def _values(snapshot: Snapshot, name: str, rows: NDArray[np.int64]) -> Floats:
    # The only value of a list column in each row.
    column = snapshot.table[name].take(rows).combine_chunks()
    return np.asarray(
        pc.cast(column.flatten(), "float64").to_numpy(zero_copy_only=False), np.float64
    )
