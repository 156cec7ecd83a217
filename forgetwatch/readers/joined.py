"""Several files of one model to one snapshot: parts of it, or answers of several seeds to the same items."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from forgetwatch.errors import SnapshotError
from forgetwatch.snapshot import Snapshot


def joined(snapshots: Sequence[Snapshot], *, as_samples: bool = False) -> Snapshot:
    """The rows of all snapshots, in their order.

    Args:
        snapshots: At least one.
        as_samples: Whether each is one more sample of the same items, as files of several seeds are; otherwise an item
            may stand in one of them only.

    Raises:
        SnapshotError: If there is none, or an item stands twice.
    """
    if not snapshots:
        raise SnapshotError("needed at least one file of outcomes, got none")
    if len(snapshots) == 1:
        return snapshots[0]
    tables = [snapshot.table for snapshot in snapshots]
    if as_samples:
        if several := next((one for one in snapshots if one.ints("sample").any()), None):
            raise SnapshotError(
                f"{several.label}: its items have several samples already; --as-samples takes single ones"
            )
        at = tables[0].column_names.index("sample")
        tables = [
            table.set_column(at, "sample", pa.array(np.full(len(table), seed, np.int32)))
            for seed, table in enumerate(tables)
        ]
    table = pa.concat_tables(tables)
    notes = list(dict.fromkeys(note for one in snapshots for note in one.notes))
    if len(models := sorted({str(one.meta["model"]) for one in snapshots if one.meta.get("model")})) > 1:
        notes.append(f"its files are of several models: {', '.join(models)}")
    meta = {**snapshots[0].meta, "sources": [str(one.meta.get("source", one.label)) for one in snapshots]}
    return Snapshot.from_columns({name: table[name] for name in table.column_names}, meta, tuple(notes))
