"""The items of a probe that every look of a run evaluates, and how snapshots are cut to them.

    probe             i1  i2  i3  g4  i5 ... i2000        g: the model generates its answer
    baseline          x   x   x   x   x  ... x
    look at step 200  x   x   x   -   x                   budget: the first 5 items, no generated answers
    compared          i1  i2  i3      i5                  at every step, also those before the decision

A run with a budget evaluates a prefix of its probe, and may leave out the items whose answers are
generated. Every point of a curve has to be over one set of items, so looks that contain more are
cut. The metadata of a look store its prefix (``probe.items`` of ``probe.of`` items); the outcome of
an item says whether it was left out. Prefixes are comparable only within one probe: if fingerprints
differ nothing is cut, and the comparison refuses unlike items.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from forgetwatch.errors import SnapshotError, did_you_mean
from forgetwatch.measures.pairing import pair
from forgetwatch.probe import Probe
from forgetwatch.snapshot import LEFT_OUT, Snapshot


@dataclass(frozen=True, kw_only=True)
class Subset:
    """Items of a probe that the looks of a run evaluate; all of them by default.

    Attributes:
        items: Number of probe items that the looks evaluate; None for all.
        total: Items of the whole probe; None if `items` is None.
        left_out: Task and id of the items whose answers are not generated.
        missing_categories: Categories of the probe of which no item is evaluated, by name.
    """

    items: int | None = None
    total: int | None = None
    left_out: frozenset[tuple[str, str]] = frozenset()
    missing_categories: tuple[str, ...] = ()

    @classmethod
    def from_probe(cls, probe: Probe, *, items: int | None, generates: bool) -> Self:
        """Subset of a probe that a run decided on.

        `items` is the length of the prefix, None for the whole probe.

        Without `generates`, answers of `must_pass` items alone are generated.
        """
        generated = [] if generates else filter(probe.is_generated, probe)
        left_out = frozenset((item.task, item.id) for item in generated if not item.must_pass)
        evaluated = {
            item.category for item in probe.items[:items] if (item.task, item.id) not in left_out
        }
        return cls(
            items=items,
            total=None if items is None else len(probe),
            left_out=left_out,
            missing_categories=tuple(sorted({item.category for item in probe} - evaluated - {""})),
        )

    @classmethod
    def from_metadata(cls, meta: Mapping[str, Any]) -> Self:
        """Prefix that the metadata of a snapshot name.

        Returns:
            The prefix, or the whole probe if they name none.

        Raises:
            SnapshotError: If they name a part of a probe without the number of its items.
        """
        probe = meta.get("probe") or {}
        named = probe.get("missing_categories")
        missing = tuple(map(str, named)) if isinstance(named, list) else ()
        if "of" not in probe:
            return cls(missing_categories=missing)
        items, total = probe.get("items"), probe["of"]
        if type(items) is not int or type(total) is not int:
            raise SnapshotError(
                "the metadata of a look must name its items and those of its probe as whole "
                f"numbers, got items {items!r} of {total!r}"
            )
        return cls(items=items, total=total, missing_categories=missing)

    @classmethod
    def from_look(cls, look: Snapshot) -> Self:
        """Subset that a look evaluated, by metadata and outcomes."""
        rows = np.flatnonzero(look.texts("outcome") == LEFT_OUT)
        tasks, ids = look.texts("task")[rows], look.texts("item_id")[rows]
        return replace(
            cls.from_metadata(look.meta), left_out=frozenset(zip(tasks, ids, strict=True))
        )

    @classmethod
    def common(cls, looks: Sequence[Snapshot]) -> Self:
        """Subset that all looks evaluated.

        The prefix is None if the looks are of probes with unlike fingerprints. Raises as
        `from_metadata`.
        """
        subsets = [cls.from_look(look) for look in looks]
        left_out = frozenset[tuple[str, str]]().union(*(subset.left_out for subset in subsets))
        prefixes = [subset for subset in subsets if subset.items is not None]
        if not prefixes or not _of_one_probe(
            looks
        ):  # a prefix of one probe is no prefix of another
            return cls(left_out=left_out)
        # Looks of the whole probe have no prefix, and limit none.
        return replace(min(prefixes, key=lambda subset: subset.items or 0), left_out=left_out)

    def apply(self, snapshot: Snapshot) -> Snapshot:
        """Select the rows of a snapshot that belong to the subset.

        A snapshot of nothing but items left out keeps them: they are unscored, and counted as such.
        """
        cut = snapshot if self.items is None else snapshot.head(self.items)
        if not self.left_out:
            return cut
        kept = np.array([key not in self.left_out for key in cut.item_keys])
        return (
            cut
            if kept.all() or not kept.any()
            else replace(cut, table=cut.table.filter(pa.array(kept)))
        )

    def apply_to_reference(self, reference: Snapshot, *, baseline: Snapshot) -> Snapshot:
        """Select the rows that pair with the subset of a baseline."""
        if self.items is None and not self.left_out:
            return reference
        pairing = pair(self.apply(baseline), reference)
        # `pairing.after` follows the baseline; the reference keeps its own order of rows.
        return replace(reference, table=reference.table.take(np.sort(pairing.after)))

    def describe(self, look: Snapshot, *, fingerprint: str | None) -> Snapshot:
        """Describe a look of the subset in the metadata.

        Names the prefix, the probe and the missing categories.
        """
        of: dict[str, Any] = (
            {"missing_categories": list(self.missing_categories)} if self.missing_categories else {}
        )
        if self.items is not None and self.total is not None and self.items < self.total:
            of |= {"fingerprint": fingerprint, "items": self.items, "of": self.total}
        if not of:
            return look
        return replace(look, meta={**look.meta, "probe": {**look.meta["probe"], **of}})


def _of_one_probe(looks: Sequence[Snapshot]) -> bool:
    # A look without a fingerprint is taken for one of the same probe, as on a resume.
    return len({(look.meta.get("probe") or {}).get("fingerprint") for look in looks} - {None}) < 2


def cut_to_common(before: Snapshot, after: Snapshot) -> tuple[Snapshot, Snapshot, tuple[str, ...]]:
    """Cut both sides to the prefix that both contain.

    Items whose answers were not generated stay: a comparison counts them as unscored.

    Returns:
        Both sides, and a note if rows are left out.
    """
    prefix = replace(Subset.common((before, after)), left_out=frozenset())
    if prefix.items is None or len(before) == len(after):  # looks of one prefix need no note
        return before, after, ()
    # By the items of the shorter side: a run may have put its items into an order of its own.
    cut = before, after
    if len(before) < len(after):
        cut = before, prefix.apply_to_reference(after, baseline=before)
    else:
        cut = prefix.apply_to_reference(before, baseline=after), after
    if len(cut[0]) == len(before) and len(cut[1]) == len(after):
        return before, after, ()
    note = f"over the first {prefix.items:,} of {prefix.total:,} items, those that the looks of this run evaluate"
    return *cut, (note,)


def select(
    snapshot: Snapshot,
    *,
    tasks: Sequence[str] = (),
    categories: Sequence[str] = (),
    items: Sequence[str] = (),
) -> Snapshot:
    """Select the rows of the named tasks, categories and item ids.

    An empty list selects all, a name without rows is an error.
    """
    kept = np.ones(len(snapshot), bool)
    for name, wanted in (("task", tasks), ("category", categories), ("item_id", items)):
        if not wanted:
            continue
        values = snapshot.texts(name)
        present = set(values)
        if unknown := [value for value in wanted if value not in present]:
            listed = ", ".join(sorted(filter(None, present))[:20]) or "none"
            near = did_you_mean(unknown[0], filter(None, present))
            raise SnapshotError(
                f"{snapshot.label}: no {name} {unknown[0]!r}{near or ';'} there are {listed}"
            )
        kept &= np.isin(values, list(wanted))
    if not kept.any():
        raise SnapshotError(
            f"{snapshot.label}: no item meets all that was named (task, category, id)"
        )
    return (
        snapshot if kept.all() else replace(snapshot, table=snapshot.table.filter(pa.array(kept)))
    )
