"""`compare`: two snapshots to a `Comparison`, in four steps.

    before ─┐                        ┌─ all
            ├─ pair ─ check ─ group ─┼─ category ...   each group: cells, known and lost, intervals, tests, chance
    after ──┘                        └─ task ...

Questions, settings and the token ids of the prompts are checked before anything is counted. Sides that were decided by
unlike norms are refused (`comparing.checks`). Unscored items are in no
cell; their number is given. Passages are in no cell either: each group has their bits per byte.

**Means of categories.** The paper's aggregation of its adjusted rates: tasks to categories to one number, each an
unweighted mean.

    category_means    with each item's own k: the definition in the paper's text
    paper_compat      as its released code computes it: one k a task, its own categories

Both clip the rate of each task and seed at 0 before any mean, as the paper's max(., 0) does; the unclipped means, which
are less biased, are beside them.

Source: Harmon et al. 2025, arXiv 2510.17776, and github.com/post-forget/post-forget at 5a5ca678. Pooling over items is
not this mean: they differ by the covariance of the two accuracies over tasks.

**Frame.** Numbers in long form, for people who draw themselves: a row for each group and quantity.

level     name   quantity      value
all       all    forgotten     68
category  Math   forgotten     12
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from forgetwatch.comparing.by_wording import WordingChanges, wording_changes
from forgetwatch.comparing.checks import (
    OnMismatch,
    align_repeat,
    check_options,
    check_pairing,
    check_prompts,
    check_settings,
    cut_to_common,
    is_of_run,
    prompt_differences,
    repeated_prompts,
    setting_differences,
)
from forgetwatch.comparing.groups import Group, Level, count_groups, group_values
from forgetwatch.errors import MismatchError, some_of
from forgetwatch.measures.aligned import AlignedPairs, AlignedPassages
from forgetwatch.measures.base import GroupMeasure, Measure, Rows
from forgetwatch.measures.base_drift import LookDrift, read_drift
from forgetwatch.measures.flip_counts import VANISHED_SHARE_NOTED
from forgetwatch.measures.measured_again import Again, read_again
from forgetwatch.measures.option_columns import Labels
from forgetwatch.measures.pairing import Pairing, item_codes, pair
from forgetwatch.measures.quantities import QUANTITIES, value_at
from forgetwatch.metrics.guessing import as_released, paper
from forgetwatch.metrics.known import count_known
from forgetwatch.probes.categories import UNMAPPED, Categories, PaperTasks
from forgetwatch.readers.outcomes import check_metric, load_snapshot
from forgetwatch.snapshot import Snapshot

if TYPE_CHECKING:
    from forgetwatch.comparing.decision import Decision

Rates = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Mean and sample standard deviation over seeds; the deviation is nan for one seed."""

    mean: float
    sd: float


@dataclass(frozen=True, kw_only=True)
class CategoryMeans:
    """Forgetting and backward transfer as means over categories of means over tasks.

    Attributes:
        forgetting: Mean over categories.
        backward_transfer: Mean over categories.
        by_category: Both, by category: means over its tasks. Categories without a defined rate are left out.
        unclipped: Both as means over categories of rates that are not clipped at 0.
        ceilings: Means of what each can be at most by the paper's model (`Paper.forgetting_max`), over categories.
        ceilings_by_category: The same, by category.
    """

    forgetting: Spread
    backward_transfer: Spread
    by_category: Mapping[str, tuple[Spread, Spread]]
    unclipped: tuple[Spread, Spread]
    ceilings: tuple[Spread, Spread]
    ceilings_by_category: Mapping[str, tuple[Spread, Spread]]


def category_means(paired: AlignedPairs) -> CategoryMeans:
    """Average the paper's adjusted rates per task and seed (`metrics.guessing`) as the paper does."""
    seeds = np.unique(paired.sample)
    rates: dict[str, list[Rates]] = {}
    for category, rows in _every(paired.category):
        inside = paired.take(rows)
        for _, of_task in _every(inside.task):
            task = inside.take(of_task)
            of_seeds = [
                task.take(task.sample == seed) if len(seeds) > 1 else task for seed in seeds
            ]
            found = [paper(one.before, one.after, one.k) for one in of_seeds]
            clipped = [(one.forgetting, one.backward_transfer) for one in found]
            most = [(one.forgetting_max, one.backward_transfer_max) for one in found]
            unclipped = [
                (one.forgetting_unclipped, one.backward_transfer_unclipped) for one in found
            ]
            rates.setdefault(category, []).append(np.hstack([clipped, most, unclipped]))
    return _aggregate(rates, seeds=len(seeds))


def paper_compat(paired: AlignedPairs) -> CategoryMeans:
    """Compute the paper's numbers as its released code does, from tasks named as there.

    One k for each task, from a table for BIG-Bench Hard and 4 for every other task, whatever the k of its items; some
    tasks ignored; every (task, seed) clipped at 0 before it is averaged; tasks without a category form
    one of their own that counts as much as any other.
    """
    tasks = PaperTasks.released()
    seeds = np.unique(paired.sample)
    rates: dict[str, list[Rates]] = {}
    for name, rows in _every(paired.task):
        if tasks.ignored(name):
            continue
        task = paired.take(rows)
        of_seeds = [task.sample == seed for seed in seeds]
        sides = [(task.before[seed], task.after[seed]) for seed in of_seeds]
        released = [as_released(*both, k=tasks.k(name)) for both in sides]
        # Every unmapped task falls into one category, which weighs as much as any other: so does the released code.
        rates.setdefault(tasks.category(name) or UNMAPPED, []).append(
            np.array([(*four, *four[:2]) for four in released])
        )
    return _aggregate(rates, seeds=len(seeds))


def _every(labels: Labels) -> Sequence[tuple[str, NDArray[np.int64]]]:
    """Return each name with its rows.

    Rows without a name form a group of their own, which `Labels.split` leaves out.
    """
    nameless = [index for index, name in enumerate(labels.names) if not name]
    rows = np.flatnonzero(np.isin(labels.code, nameless)) if nameless else np.zeros(0, np.int64)
    return [*labels.split(), *([("", rows)] if rows.size else [])]


def _aggregate(rates: Mapping[str, Sequence[Rates]], *, seeds: int) -> CategoryMeans:
    """Average tasks to categories to one number, per seed; then take mean and deviation over the seeds.

    `rates` has, by category, one array [seeds, 6] a task: both rates, both ceilings, both rates without clipping; nan
    where a task has no rate for a seed.
    """
    of_category = {name: _mean(np.stack(of_tasks)) for name, of_tasks in rates.items()}
    # A category without a rate for any seed would show as nan; the mean over categories skips it.
    of_category = {name: mean for name, mean in of_category.items() if np.isfinite(mean).any()}
    overall = (
        _mean(np.stack(list(of_category.values())))
        if of_category
        else np.full((max(seeds, 1), 6), math.nan)
    )
    forgetting, backward_transfer, most_forgotten, most_gained, *unclipped = map(_spread, overall.T)
    spreads = {name: [*map(_spread, mean.T)] for name, mean in of_category.items()}
    return CategoryMeans(
        forgetting=forgetting,
        backward_transfer=backward_transfer,
        by_category={name: (lost, won) for name, (lost, won, *_) in spreads.items()},
        unclipped=(unclipped[0], unclipped[1]),
        ceilings=(most_forgotten, most_gained),
        ceilings_by_category={name: (lost, won) for name, (_, _, lost, won, *_) in spreads.items()},
    )


def _mean(rates: Rates) -> Rates:
    """Return the mean over the first axis of what is defined; nan where nothing is."""
    defined = np.isfinite(rates)
    count = defined.sum(axis=0)
    total = np.where(defined, rates, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), math.nan)


def _spread(values: Rates) -> Spread:
    values = values[np.isfinite(values)]
    return Spread(
        mean=float(values.mean()) if values.size else math.nan,
        sd=float(values.std(ddof=1)) if values.size > 1 else math.nan,
    )


def long_rows(groups: Iterable[Group], **first: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each quantity of each group that it is defined in, with the same first columns."""
    for group in groups:
        values = group_values(group)
        for quantity in QUANTITIES:
            if (value := value_at(values, quantity)) is not None:
                yield {
                    **first,
                    "level": group.level,
                    "name": group.name,
                    "quantity": quantity,
                    "value": float(value),
                }


def frame(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return rows as a pandas.DataFrame, or as a pyarrow.Table where pandas is not installed."""
    table = pa.Table.from_pylist([dict(row) for row in rows])
    if find_spec("pandas") is None:
        return table
    import_module("pandas")
    return table.to_pandas()


_UNDECIDED_NOTED: Final = 0.01
"""Share of the items beyond which scores that did not decide are named in a note."""

_NAMED: Final = 5
"""Categories that a note names."""

R = TypeVar("R")
Samples = Literal["all", "first"]
ChanceRule = Literal["own", "paper-compat"]


@dataclass(frozen=True, kw_only=True)
class Items:
    """Number of items that were compared, and of items left out by reason.

    Attributes:
        compared: Items in the cells.
        unscored: Paired items without an outcome before or after; in no cell.
        only_before: Items without a partner after.
        only_after: Items without a partner before.
        content_differs: Ids with unlike questions on the two sides.
        prompt_differs: Paired items whose prompts differ.
    """

    compared: float
    unscored: int
    only_before: int
    only_after: int
    content_differs: int
    prompt_differs: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Counts of two snapshots of the same questions: retained, forgotten, gained, missed, and what follows from them.

    Attributes:
        before: Metadata of the snapshot before.
        after: Metadata of the snapshot after.
        labels: Short names of the two, for people.
        items: Numbers of items compared, unscored and left out.
        groups: ``all`` first, then categories and tasks in the order of the probe.
        macro: The paper's aggregation.
        paper_compat: The same as its released code computes it; None unless requested.
        samples: Answers to each item.
        clusters: Number of independent observations among items that come in clusters; None if they do not.
        notes: Sentences about the comparison that a reader should know.
        drift: Drift of the model after from its base, by set of prompts; None if it was not measured. Of the look of a
            run the base is the model at the start of that run, and `before` must be the run's baseline.
        again: What became of the lost when they were asked in other words; None if they were not.
        wordings: Net changes by wording, and whether they are equal; None unless questions have several.
        tasks: Tasks of each category of another tool's log; empty for other outcomes.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    labels: tuple[str, str]
    items: Items
    groups: tuple[Group, ...]
    macro: CategoryMeans
    paper_compat: CategoryMeans | None = None
    samples: int = 1
    clusters: int | None = None
    notes: tuple[str, ...] = ()
    drift: Mapping[str, LookDrift] | None = None
    again: Again | None = None
    wordings: WordingChanges | None = None
    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """Return the JSON document as a dict; `tolerance` sets other limits than the defaults."""
        from forgetwatch.comparing.document import comparison_json  # which reads comparisons

        return comparison_json(self, **options)

    def to_frame(self) -> Any:
        """Return every quantity of every group in long form: level, name, quantity, value.

        A pandas.DataFrame, or a pyarrow.Table where pandas is not installed. An interval is two rows, _low and _high.
        """
        return frame(long_rows(self.groups))

    @property
    def decision(self) -> Decision:
        """The verdict: KEPT, FORGOT or NOT CLEAR, with its legs, its reasons and what is next."""
        from forgetwatch.comparing.decision import decide  # which reads comparisons

        return decide(self)

    def __str__(self) -> str:
        from forgetwatch.report.terminal import comparison_text  # only when it is printed

        return comparison_text(self)

    __repr__ = __str__

    @overload
    def __getitem__(self, measure: Measure[LookDrift]) -> Mapping[str, LookDrift] | None: ...
    @overload
    def __getitem__(self, measure: GroupMeasure[R]) -> R | None: ...
    def __getitem__(self, measure: Measure[Any]) -> object:
        """Return the result for all items, or ``comparison[DRIFT]``, the drift by set of prompts.

        None where it is undefined.
        """
        return self.all[measure] if isinstance(measure, GroupMeasure) else self.drift

    @property
    def all(self) -> Group:
        """The group of all items."""
        return self.groups[0]

    def by(self, level: Level) -> dict[str, Group]:
        """Return the groups of a level, by name.

        Raises:
            ValueError: If there is no such level.
        """
        if level not in get_args(Level):
            raise ValueError(f"by({level!r}): needed one of {', '.join(get_args(Level))}")
        return {group.name: group for group in self.groups if group.level == level}


def compare(
    *,
    before: Snapshot | str | Path,
    after: Snapshot | str | Path,
    on_mismatch: OnMismatch = "error",
    allow_prompt_mismatch: bool = False,
    samples: Samples = "all",
    null: Snapshot | str | Path | None = None,
    categories: Categories | None = None,
    chance: ChanceRule = "own",
    metric: str | None = None,
) -> Comparison:
    """Compare two snapshots, item by item.

    Args:
        before: A snapshot, or a file that `load_snapshot` reads.
        after: The same, later.
        on_mismatch: ``intersect`` compares the items that both sides have; by default unlike items are an error.
        allow_prompt_mismatch: Compare although the models read different prompts.
        samples: ``first`` keeps the lowest sample of each item.
        null: The weights of `before` measured again; what flips between the two is noise (``null_lost``).
        categories: Another map of tasks to categories, such as `Categories.read` reads from a file.
        chance: ``paper-compat`` also computes the paper's numbers as its released code does.
        metric: Metric by which an answer is right, for logs of a harness that graded by several.

    Raises:
        MismatchError: If the two do not contain the same questions, scored with the same settings.
        SnapshotError: If a file cannot be read.
    """
    before, after, over = cut_to_common(
        _load(before, samples, metric), _load(after, samples, metric)
    )
    check_settings(before, after, allow_prompt_mismatch=allow_prompt_mismatch)
    if line := before.not_finite_line:
        raise MismatchError(
            f"{before.label}: {line}, and nothing can be compared with it; give the model before that"
        )
    pairing = pair(before, after)
    check_pairing(before, after, pairing, on_mismatch)
    check_options(before, after, pairing)
    prompt_differs = check_prompts(
        before, after, pairing, allow_prompt_mismatch=allow_prompt_mismatch
    )
    notes = [
        *_same_file(before, after),
        *over,
        *(f"{side.label}: {note}" for side in (before, after) for note in side.notes),
    ]
    if categories is not None:  # after the checks, since labels need not agree
        (before, after), unlike = categories.relabel(before, after)
        notes += unlike
    notes += _pairing_notes(before, after, pairing)
    again = None
    if null is not None:
        again, differs = align_repeat(before, _load(null, samples, metric))
        notes += differs
    paired, unscored = AlignedPairs.align(before, after, pairing, again=again)
    notes += _mass_notes(paired)
    passages = AlignedPassages.align(before, after, pairing)
    broken = int((before.is_passage[pairing.before] & after.is_not_finite[pairing.after]).sum())
    rows = Rows(pairs=paired, unscored=unscored, passages=passages, passages_not_finite=broken)
    groups = tuple(count_groups(rows))
    # The first note is the one that every table shows.
    first = [note for note in (vanished_note(groups[0]),) if note]
    notes = [*first, *_vanished_groups(groups), *_not_finite(before, groups[0]), *notes]
    notes += [*_known_notes(paired), *_margin_notes(paired)]
    compat = None
    if chance == "paper-compat":
        # As the released code, which has no items.
        answers, _ = AlignedPairs.align(before, after, pairing, whole_items=False)
        compat = paper_compat(answers)
    clusters = None if paired.cluster is None else len(np.unique(paired.cluster))
    return Comparison(
        before=dict(before.meta),
        after=dict(after.meta),
        labels=(before.label, after.label),
        items=Items(
            compared=len(paired) / paired.samples if paired.samples > 1 else len(paired),
            unscored=paired.unscored,
            only_before=len(pairing.only_before),
            only_after=len(pairing.only_after),
            content_differs=pairing.content_differs,
            prompt_differs=prompt_differs,
        ),
        groups=groups,
        macro=category_means(paired),
        paper_compat=compat,
        samples=paired.samples,
        clusters=None if clusters == len(np.unique(paired.item)) else clusters,
        notes=tuple(notes),
        drift=_drift(before, after),
        wordings=wording_changes(groups, paired),
        again=read_again(after.meta, label=after.label) if is_of_run(before, after) else None,
        tasks=_tasks(before) if "tool" in before.meta else {},
    )


def _tasks(snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """Return the tasks of each category."""
    pairs = dict.fromkeys(zip(snapshot.texts("category"), snapshot.texts("task"), strict=True))
    return {
        name: tuple(task for of, task in pairs if of == name)
        for name in {category for category, _ in pairs}
    }


def first_samples(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot of the lowest sample of each item, as a single answer."""
    by_item = np.lexsort([snapshot.ints("sample"), item_codes(snapshot)])  # by item, then by sample
    first = by_item[np.unique(item_codes(snapshot)[by_item], return_index=True)[1]]
    # Sorted, so that the rows keep their order.
    table, zeros = snapshot.table.take(np.sort(first)), pa.array(np.zeros(len(first), np.int32))
    return replace(
        snapshot, table=table.set_column(table.column_names.index("sample"), "sample", zeros)
    )


def _drift(before: Snapshot, after: Snapshot) -> Mapping[str, LookDrift] | None:
    """Return the drift of a look, which is from the start of its run.

    None unless `before` is the baseline of that run.
    """
    return read_drift(after.meta, label=after.label) if is_of_run(before, after) else None


def vanished_note(whole: Group) -> str | None:
    """Return a note on the items that were scored on one side alone, where they are more than one in a hundred."""
    gone = whole.outcomes
    total = whole.n + gone.vanished
    if whole.vanished_share <= VANISHED_SHARE_NOTED:
        return None
    low, high = (f"{100 * end:+.1f}" for end in gone.net_change_interval_worst)
    return (
        f"{gone.vanished:,} of {total:,.0f} items were scored on one side alone, {gone.newly_unscored:,} of them "
        f"before; in the worst case the net change is {low} to {high} points"
    )


def _not_finite(before: Snapshot, whole: Group) -> list[str]:
    """Say how many outputs were not finite: before they are left out, after they are wrong."""
    left_out, wrong = int(before.is_not_finite.sum()), whole.outcomes.not_finite
    notes = (
        [f"left out, since their outputs before are not finite: {left_out:,}"] if left_out else []
    )
    return [
        *notes,
        *([f"wrong, since their outputs after are not finite: {wrong:,}"] if wrong else []),
    ]


def _vanished_groups(groups: Sequence[Group]) -> list[str]:
    """Return a note on the categories of which no item was scored on both sides."""
    gone = [
        group.name
        for group in groups
        if group.level == "category" and group.outcomes.vanished and not group.n
    ]
    return [f"no item was scored on both sides in {some_of(gone, _NAMED)}"] if gone else []


def _same_file(before: Snapshot, after: Snapshot) -> list[str]:
    """Return a note if both sides are one file, or copies of it.

    Empty if not, and where a run compares its baseline.
    """
    # Outcomes that are only equal are no copy: their step, time or model differs.
    one_meta = {**before.meta, "source": None} == {**after.meta, "source": None}
    if before is after or not one_meta or before.checksum != after.checksum:
        return []
    if before.meta.get("source") == after.meta.get("source"):
        return ["both sides are one file, so that nothing can differ"]
    return ["both sides have equal rows, so nothing can differ"]


def _pairing_notes(before: Snapshot, after: Snapshot, pairing: Pairing) -> list[str]:
    """Return the notes on questions and prompts that may differ although the items pair."""
    notes = [note for note in dict.fromkeys(map(repeated_prompts, (before, after))) if note]
    if pairing.by_id:
        notes.append(
            f"paired by task and item_id alone: {pairing.by_id:,} items; without content hashes nothing guarantees "
            "that the questions are the same"
        )
    if source_differs := prompt_differences(before, after, pairing, "source_prompt_hash"):
        notes.append(f"prompts that differ by their own tool's hash: {source_differs:,}")
    of_before, of_after = (
        before.texts("category")[pairing.before],
        after.texts("category")[pairing.after],
    )
    if renamed := len(
        np.unique(pairing.item[(of_before != of_after) & (of_before != "") & (of_after != "")])
    ):
        notes.append(
            f"items whose category differs: {renamed:,}; that of {before.label}, the side before, is used"
        )
    return [*notes, *setting_differences(before, after)]


def _known_notes(paired: AlignedPairs) -> list[str]:
    """Return notes on why known and lost, or its luck, is not measured for items that have options."""
    items = paired.confidence()
    measured = np.isfinite(items.share_before) & np.isfinite(items.share_after)
    if not measured.any():
        return []
    if (found := count_known(items, samples=paired.samples)) is None:
        return [
            "known and lost is not counted: no question has two wrong options, and a confident answer among two "
            "options shows nothing"
        ]
    notes = []
    if found.why_no_net is not None:
        notes.append(f"nothing shows how much of known and lost is luck: {found.why_no_net}")
    if without := int(np.sum(measured & (items.k - items.golds >= 2) & ~items.measured)):
        notes.append(
            f"known and lost leaves out {without:,} answers whose options have no scores on both sides"
        )
    return notes


def _margin_notes(paired: AlignedPairs) -> list[str]:
    """Return the notes on option scores on which nothing rests."""
    if (paired.options_before is None) != (paired.options_after is None):
        return [
            "the net change is that of the flips alone, without margins: the options have scores on one side only"
        ]
    of, among = (len(np.unique(items)) for items in (paired.item[paired.undecided], paired.item))
    if of <= _UNDECIDED_NOTED * among:
        return []
    return [
        f"the option scores of {of:,} of {among:,} items did not decide their outcome, and are left out of the "
        "estimate of the net change, of known and lost, and of the log score"
    ]


def _mass_notes(paired: AlignedPairs) -> list[str]:
    """Return a note if many flips follow from the total probability of the options, where a length norm decided."""
    right = paired.right_at_constant_mass
    if right is None:
        return []
    forgotten, at_constant_mass = (
        int((paired.before & ~now).sum()) for now in (paired.after, right)
    )
    differ = int((right != paired.after).sum())
    if abs(at_constant_mass - forgotten) <= max(3, 2 * math.sqrt(differ)):
        return []
    return [
        f"{at_constant_mass:,} instead of {forgotten:,} forgotten, if the options had kept their total probability: a "
        "score divided by the length of the options moves with it (forgotten_at_constant_mass)"
    ]


def _load(given: Snapshot | str | Path, samples: Samples, metric: str | None) -> Snapshot:
    snapshot = (
        check_metric(given, metric, name=given.label)
        if isinstance(given, Snapshot)
        else load_snapshot(given, metric=metric)
    )
    return first_samples(snapshot) if samples == "first" else snapshot
