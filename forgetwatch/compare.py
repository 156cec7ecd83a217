"""Two snapshots to a Comparison: pair, check, group, count.

    before ─┐                        ┌─ all
            ├─ pair ─ check ─ group ─┼─ category ...   each group: cells, known and lost, intervals, tests, chance
    after ──┘                        └─ task ...

What must agree is checked before anything is counted: the questions, the settings they were asked with, and the token
ids that the models read. Unscored items are in no cell; they are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from forgetwatch.errors import MismatchError
from forgetwatch.groups import Group, Level, Paired, count_groups
from forgetwatch.macro import Macro, macro_rates
from forgetwatch.pairing import Pairing, item_codes, pair
from forgetwatch.readers import load_snapshot
from forgetwatch.snapshot import Snapshot

OnMismatch = Literal["error", "intersect"]
Samples = Literal["all", "first"]

PROMPT_TOLERANCE: Final = 0.01
"""Share of the items whose prompts may differ before a comparison is refused."""


@dataclass(frozen=True, kw_only=True)
class Items:
    """How many items took part, and why others did not.

    Attributes:
        compared: Items in the cells.
        unscored: Paired items without a usable outcome before or after; in no cell.
        only_before: Items without a partner after.
        only_after: Items without a partner before.
        content_differs: Ids that are on both sides with unlike questions.
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
    """What became of each answer between two snapshots of the same questions.

    Attributes:
        before: Metadata of the snapshot before.
        after: Metadata of the snapshot after.
        labels: Short names of the two, for people.
        items: How many items took part.
        groups: ``all`` first, then categories and tasks in the order of the probe.
        macro: The paper's aggregation.
        notes: What a reader should be told.
    """

    before: Mapping[str, Any] = field(repr=False)
    after: Mapping[str, Any] = field(repr=False)
    labels: tuple[str, str]
    items: Items
    groups: tuple[Group, ...] = field(repr=False)
    macro: Macro = field(repr=False)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        whole, (low, high) = self.all, self.all.net_change_interval
        return (
            f"{' -> '.join(self.labels)}: {whole.forgotten:g} forgotten and {whole.gained:g} gained of {whole.n:g} "
            f"items, net {100 * whole.net_change:+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"
        )

    @property
    def all(self) -> Group:
        """The group of all items."""
        return self.groups[0]

    def by(self, level: Level) -> dict[str, Group]:
        """The groups of a level, by name."""
        return {group.name: group for group in self.groups if group.level == level}


def compare(
    *,
    before: Snapshot | str | Path,
    after: Snapshot | str | Path,
    on_mismatch: OnMismatch = "error",
    allow_prompt_mismatch: bool = False,
    samples: Samples = "all",
) -> Comparison:
    """Compare two snapshots, item by item.

    Args:
        before: A snapshot, or a file that `load_snapshot` reads.
        after: The same, later.
        on_mismatch: ``intersect`` compares the items that both sides have; by default unlike items are an error.
        allow_prompt_mismatch: Compare although the models read different prompts.
        samples: ``first`` keeps sample 0 of each item.

    Raises:
        MismatchError: If the two do not hold the same questions, asked in the same way.
        SnapshotError: If a file cannot be read.
    """
    before, after = _load(before, samples), _load(after, samples)
    _check_settings(before, after, allow_prompt_mismatch=allow_prompt_mismatch)
    pairing = pair(before, after)
    _check_pairing(before, after, pairing, on_mismatch)
    prompt_differs = _prompt_differences(before, after, pairing, "prompt_hash")
    if prompt_differs > PROMPT_TOLERANCE * len(pairing.before) and not allow_prompt_mismatch:
        raise MismatchError(
            f"the prompts of {prompt_differs:,} of {len(pairing.before):,} items differ between {before.label} "
            f"({_rendering(before)}) and {after.label} ({_rendering(after)}): what looks like forgetting may be the "
            "format; score both in the same way, or pass --allow-prompt-mismatch"
        )
    notes = [f"{side.label}: {note}" for side in (before, after) for note in side.notes]
    if pairing.by_id:
        notes.append(
            f"{pairing.by_id:,} items paired by task and item_id alone: without content hashes nothing guarantees the "
            "same question"
        )
    if source_differs := _prompt_differences(before, after, pairing, "source_prompt_hash"):
        notes.append(f"the prompts of {source_differs:,} items differ by their own tool's hash")
    paired = Paired.align(before, after, pairing)
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
        groups=tuple(count_groups(paired)),
        macro=macro_rates(paired),
        notes=tuple(notes),
    )


def _load(given: Snapshot | str | Path, samples: Samples) -> Snapshot:
    snapshot = given if isinstance(given, Snapshot) else load_snapshot(given)
    if samples == "first":
        by_item = np.lexsort([snapshot.ints("sample"), item_codes(snapshot)])
        first = by_item[np.unique(item_codes(snapshot)[by_item], return_index=True)[1]]
        table = snapshot.table.take(np.sort(first))
        return replace(
            snapshot, table=table.set_column(table.column_names.index("sample"), "sample", _zeros(len(first)))
        )
    return snapshot


def _zeros(rows: int) -> pa.Array:
    return pa.array(np.zeros(rows, np.int32))


def _rendering(snapshot: Snapshot) -> str:
    return f"{snapshot.meta.get('probe', {}).get('rendering', 'unknown')} prompt"


def _check_settings(before: Snapshot, after: Snapshot, *, allow_prompt_mismatch: bool) -> None:
    one, other = before.meta.get("probe", {}), after.meta.get("probe", {})
    for name in ("scoring", "norm", "rendering"):
        if name in one and name in other and one[name] != other[name]:
            if name == "rendering" and allow_prompt_mismatch:
                continue
            remedy = "score both with the same probe" + (
                ", or pass --allow-prompt-mismatch" if name == "rendering" else ""
            )
            raise MismatchError(
                f"{before.label} was scored with {name} {one[name]!r} and {after.label} with {other[name]!r}; {remedy}"
            )


def _check_pairing(before: Snapshot, after: Snapshot, pairing: Pairing, on_mismatch: OnMismatch) -> None:
    names = f"{before.label} ({len(before):,} rows) and {after.label} ({len(after):,} rows)"
    if not pairing.before.size:
        raise MismatchError(f"{names} have no item in common; they are outcomes on different probes")
    counts = sorted({int(n) for side in (before, after) for n in np.unique(np.bincount(item_codes(side)))})
    if len(counts) > 1 or len(pairing.before) < counts[0] * len(np.unique(pairing.item)):
        raise MismatchError(
            f"{names} hold unlike samples: {' and '.join(map(str, counts))} per item; compare equal numbers, or the "
            "first of each with --samples first"
        )
    if pairing.complete or on_mismatch == "intersect":
        return
    differs = f" ({pairing.content_differs:,} ids have unlike questions)" if pairing.content_differs else ""
    raise MismatchError(
        f"{names} are not outcomes on the same items: {len(pairing.only_before):,} items before and "
        f"{len(pairing.only_after):,} after have no partner{differs}; compare the {len(np.unique(pairing.item)):,} "
        "that both have with --on-mismatch intersect"
    )


def _prompt_differences(before: Snapshot, after: Snapshot, pairing: Pairing, column: str) -> int:
    if before.missing(column) or after.missing(column):
        return 0
    one, other = before.texts(column)[pairing.before], after.texts(column)[pairing.after]
    return sum(a is not None and b is not None and a != b for a, b in zip(one, other, strict=True))
