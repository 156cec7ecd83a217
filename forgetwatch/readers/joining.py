"""Several snapshots as one: the rows of files side by side, or each file as one sample."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forgetwatch.errors import SnapshotError
from forgetwatch.snapshot import SCHEMA, Snapshot


def null_as_wrong(snapshot: Snapshot) -> Snapshot:
    """Turn every unscored answer into a wrong one, with a note."""
    unscored, columns = (
        pa.array(snapshot.is_unscored),
        {name: snapshot.table[name] for name in SCHEMA.names},
    )
    if not (count := int(snapshot.is_unscored.sum())):
        return snapshot
    columns["correct"] = pc.if_else(unscored, pa.scalar(False), columns["correct"])
    columns["outcome"] = pc.if_else(unscored, pa.scalar("no answer"), columns["outcome"])
    note = f"answers without a score that count as wrong (--null wrong): {count:,} of {len(snapshot):,}"
    return Snapshot.from_columns(
        columns, {**snapshot.meta, "null": "wrong"}, (*snapshot.notes, note)
    )


def concatenate(snapshots: Sequence[Snapshot], *, as_samples: bool = False) -> Snapshot:
    """Concatenate the rows of snapshots, in order.

    The metadata are those of the first.

    Args:
        snapshots: At least one snapshot.
        as_samples: Treat each as one more sample of the same items, such as a seed; otherwise no
            item may be in two of them.

    Raises:
        SnapshotError: If there is none, or an item is in two of them.
    """
    if not snapshots:
        raise SnapshotError("needed at least one file of outcomes, got none")
    if len(snapshots) == 1:
        return snapshots[0]
    tables = [snapshot.table for snapshot in snapshots]
    if as_samples:
        if several := next(
            (snapshot for snapshot in snapshots if snapshot.ints("sample").any()), None
        ):
            raise SnapshotError(
                f"{several.label}: its items have several samples already; --as-samples takes "
                "single ones"
            )
        position = tables[0].column_names.index("sample")
        tables = [
            table.set_column(position, "sample", pa.array(np.full(len(table), seed, np.int32)))
            for seed, table in enumerate(tables)
        ]
    table = pa.concat_tables(tables)
    notes = list(dict.fromkeys(note for snapshot in snapshots for note in snapshot.notes))
    models = sorted(
        {str(snapshot.meta["model"]) for snapshot in snapshots if snapshot.meta.get("model")}
    )
    if len(models) > 1:
        notes.append(f"its files are of several models: {', '.join(models)}")
    sources = [str(snapshot.meta.get("source", snapshot.label)) for snapshot in snapshots]
    meta = {**snapshots[0].meta, "sources": sources}
    norms = {
        task: norm for snapshot in reversed(snapshots) for task, norm in snapshot.norms.items()
    }
    if len(set(norms.values())) > 1:  # then the first file's norm is not that of all tasks
        meta["norms"] = norms
    return Snapshot.from_columns(
        {name: table[name] for name in table.column_names}, meta, tuple(notes)
    )
