"""`compare`: two snapshots to a `Comparison`, in four steps.

    before ─┐                        ┌─ all
            ├─ pair ─ check ─ group ─┼─ category ...   each group: cells, known and lost, intervals, tests, chance
    after ──┘                        └─ task ...

Questions, settings and the token ids of the prompts are checked before anything is counted. Sides
that were decided by unlike norms are refused (`comparing.checks`). Unscored items are in no cell;
their number is given. Passages are in no cell either: each group has their bits per byte.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args, overload

import numpy as np
import pyarrow as pa

from forgetwatch.comparing.by_wording import WordingChanges, wording_changes
from forgetwatch.comparing.checks import (
    OnMismatch,
    align_repeat,
    check_options,
    check_pairing,
    check_prompts,
    check_settings,
    is_of_run,
    prompt_differences,
    repeated_prompts,
    setting_differences,
)
from forgetwatch.comparing.groups import Group, Level, count_groups
from forgetwatch.comparing.subset import cut_to_common
from forgetwatch.errors import MismatchError, some_of
from forgetwatch.measures.aligned import AlignedPairs, AlignedPassages
from forgetwatch.measures.base import GroupMeasure, Measure, Rows
from forgetwatch.measures.base_drift import LookDrift, read_drift
from forgetwatch.measures.flip_counts import VANISHED_SHARE_NOTED
from forgetwatch.measures.other_wordings import Again, read_again
from forgetwatch.measures.pairing import Pairing, item_codes, pair
from forgetwatch.metrics.known import count_known
from forgetwatch.probes.categories import Categories
from forgetwatch.readers.outcomes import check_metric, load_snapshot
from forgetwatch.snapshot import Snapshot

if TYPE_CHECKING:
    from forgetwatch.comparing.decision import Decision
from forgetwatch.comparing.frames import frame, long_rows
from forgetwatch.comparing.paper_means import CategoryMeans, category_means, paper_compat

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
        clusters: Number of independent observations among items that come in clusters; None if they
            do not.
        notes: Sentences about the comparison that a reader should know.
        drift: Drift of the model after from its base, by set of prompts; None if it was not
            measured. Of the look of a run the base is the model at the start of that run, and
            `before` must be the run's baseline.
        again: What became of the lost when they were asked in other words; None if they were not.
        wordings: Net changes by wording, and whether they are equal; None unless questions have
            several.
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
        """JSON document as a dict.

        `tolerance` sets other limits than the defaults.
        """
        from forgetwatch.comparing.document import comparison_json  # which reads comparisons

        return comparison_json(self, **options)

    def to_frame(self) -> Any:
        """Every quantity of every group in long form.

        A pandas.DataFrame, or a pyarrow.Table where pandas is not installed. An interval is two
        rows, _low and _high.
        """
        return frame(long_rows(self.groups))

    @property
    def decision(self) -> Decision:
        """Verdict with legs, reasons and what is next."""
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
        """Result for all items, or ``comparison[DRIFT]``.

        Returns:
            The result, or None where it is undefined.
        """
        return self.all[measure] if isinstance(measure, GroupMeasure) else self.drift

    @property
    def all(self) -> Group:
        """The group of all items."""
        return self.groups[0]

    def by(self, level: Level) -> dict[str, Group]:
        """Groups of a level, by name.

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
    repeat: Snapshot | str | Path | None = None,
    categories: Categories | None = None,
    chance: ChanceRule = "own",
    metric: str | None = None,
) -> Comparison:
    """Compare two snapshots, item by item.

    Args:
        before: A snapshot, or a file that `load_snapshot` reads.
        after: The same, later.
        on_mismatch: ``intersect`` compares the items that both sides have; by default unlike items
            are an error.
        allow_prompt_mismatch: Compare although the models read different prompts.
        samples: ``first`` keeps the lowest sample of each item.
        repeat: The weights of `before` measured again; what flips between the two is noise
            (``null_lost``).
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
            f"{before.label}: {line}, and nothing can be compared with it; give the model "
            "before that"
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
    repeated_rows = None
    if repeat is not None:
        repeated_rows, differs = align_repeat(before, _load(repeat, samples, metric))
        notes += differs
    paired, unscored = AlignedPairs.align(before, after, pairing, repeated=repeated_rows)
    notes += _mass_notes(paired)
    passages = AlignedPassages.align(before, after, pairing)
    broken = int((before.is_passage[pairing.before] & after.is_not_finite[pairing.after]).sum())
    rows = Rows(pairs=paired, unscored=unscored, passages=passages, passages_not_finite=broken)
    groups = tuple(count_groups(rows))
    # The first note is the one that every table shows.
    head_notes = [note for note in (vanished_note(groups[0]),) if note]
    notes = [*head_notes, *_vanished_groups(groups), *_not_finite(before, groups[0]), *notes]
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
    pairs = dict.fromkeys(zip(snapshot.texts("category"), snapshot.texts("task"), strict=True))
    return {
        name: tuple(task for of, task in pairs if of == name)
        for name in {category for category, _ in pairs}
    }


def first_samples(snapshot: Snapshot) -> Snapshot:
    """Select the lowest sample of each item."""
    by_item = np.lexsort([snapshot.ints("sample"), item_codes(snapshot)])  # by item, then by sample
    first_rows = by_item[np.unique(item_codes(snapshot)[by_item], return_index=True)[1]]
    # Sorted, so that the rows keep their order.
    table, zeros = (
        snapshot.table.take(np.sort(first_rows)),
        pa.array(np.zeros(len(first_rows), np.int32)),
    )
    return replace(
        snapshot, table=table.set_column(table.column_names.index("sample"), "sample", zeros)
    )


def _drift(before: Snapshot, after: Snapshot) -> Mapping[str, LookDrift] | None:
    # The drift of a look is from the start of its run.
    return read_drift(after.meta, label=after.label) if is_of_run(before, after) else None


def vanished_note(group: Group) -> str | None:
    """Note that items were scored on one side alone.

    Returns:
        The note, or None unless these are more than one in a hundred.
    """
    gone = group.outcomes
    total = group.n + gone.vanished
    if group.vanished_share <= VANISHED_SHARE_NOTED:
        return None
    low, high = (f"{100 * end:+.1f}" for end in gone.net_change_interval_worst)
    return (
        f"{gone.vanished:,} of {total:,.0f} items were scored on one side alone, "
        f"{gone.newly_unscored:,} of them "
        f"before; in the worst case the net change is {low} to {high} points"
    )


def _not_finite(before: Snapshot, group: Group) -> list[str]:
    # Left out before; wrong after.
    left_out, wrong = int(before.is_not_finite.sum()), group.outcomes.not_finite
    notes = (
        [f"left out, since their outputs before are not finite: {left_out:,}"] if left_out else []
    )
    return [
        *notes,
        *([f"wrong, since their outputs after are not finite: {wrong:,}"] if wrong else []),
    ]


def _vanished_groups(groups: Sequence[Group]) -> list[str]:
    gone = [
        group.name
        for group in groups
        if group.level == "category" and group.outcomes.vanished and not group.n
    ]
    return [f"no item was scored on both sides in {some_of(gone, _NAMED)}"] if gone else []


def _same_file(before: Snapshot, after: Snapshot) -> list[str]:
    # Outcomes that are only equal are no copy: their step, time or model differs.
    one_meta = {**before.meta, "source": None} == {**after.meta, "source": None}
    if before is after or not one_meta or before.checksum != after.checksum:
        return []
    if before.meta.get("source") == after.meta.get("source"):
        return ["both sides are one file, so that nothing can differ"]
    return ["both sides have the same outcomes: no answer differs"]


def _pairing_notes(before: Snapshot, after: Snapshot, pairing: Pairing) -> list[str]:
    notes = [note for note in dict.fromkeys(map(repeated_prompts, (before, after))) if note]
    if pairing.by_id:
        notes.append(
            f"paired by task and item_id alone: {pairing.by_id:,} items; without content hashes "
            "nothing guarantees that the questions are the same"
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
            f"items whose category differs: {renamed:,}; that of {before.label}, the side "
            "before, is used"
        )
    return [*notes, *setting_differences(before, after)]


def _known_notes(paired: AlignedPairs) -> list[str]:
    items = paired.confidence()
    measured = np.isfinite(items.share_before) & np.isfinite(items.share_after)
    if not measured.any():
        return []
    if (known_items := count_known(items, samples=paired.samples)) is None:
        return [
            "known and lost is not counted: no question has two wrong options, and a confident "
            "answer among two options shows nothing"
        ]
    notes = []
    if known_items.why_no_net is not None:
        notes.append(f"nothing shows how much of known and lost is luck: {known_items.why_no_net}")
    if without := int(np.sum(measured & (items.k - items.golds >= 2) & ~items.measured)):
        notes.append(
            f"known and lost leaves out {without:,} answers whose options have no scores on "
            "both sides"
        )
    return notes


def _margin_notes(paired: AlignedPairs) -> list[str]:
    if (paired.options_before is None) != (paired.options_after is None):
        return [
            "the net change is that of the flips alone, without margins: the options have "
            "scores on one side only"
        ]
    of, among = (len(np.unique(items)) for items in (paired.item[paired.undecided], paired.item))
    if of <= _UNDECIDED_NOTED * among:
        return []
    return [
        f"the option scores of {of:,} of {among:,} items did not decide their outcome, and are "
        "left out of the estimate of the net change, of known and lost, and of the log score"
    ]


def _mass_notes(paired: AlignedPairs) -> list[str]:
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
        f"{at_constant_mass:,} instead of {forgotten:,} forgotten, if the options had kept "
        "their total probability: a "
        "score divided by the length of the options moves with it (forgotten_at_constant_mass)"
    ]


def _load(given: Snapshot | str | Path, samples: Samples, metric: str | None) -> Snapshot:
    snapshot = (
        check_metric(given, metric, name=given.label)
        if isinstance(given, Snapshot)
        else load_snapshot(given, metric=metric)
    )
    return first_samples(snapshot) if samples == "first" else snapshot
