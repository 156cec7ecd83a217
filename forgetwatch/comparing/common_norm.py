"""Snapshots of one probe that were decided by unlike norms, decided again by one.

    before   bytes   chosen 0, right   choice_logprobs -4.1 -3.9 -7.0   ──▶   sum   chosen 1, wrong
    after    sum     chosen 1, wrong   choice_logprobs -4.6 -3.2 -6.8         sum   chosen 1, wrong

The norm of the score that decides (`metrics.choices`) is a setting of the probe. Between two norms answers differ that
no training has changed, so a comparison needs one norm. A snapshot stores the log-likelihood of every option, from
which any norm can be computed: where the norms of a task differ, all its answers are decided again by `NORM`, the
summed log-likelihood, and the snapshot says so in its notes.

Answers in another tool's log stay as that tool decided them: `comparing.checks` refuses unlike metrics, and notes
unlike norms. Without content hashes nothing shows that the options of the two sides are the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forgetwatch.errors import MismatchError
from forgetwatch.metrics import decide
from forgetwatch.pairing import Labels, option_scores
from forgetwatch.snapshot import NONE, Snapshot

NORM: Final = "sum"
"""Norm by which answers are decided again. It alone does not depend on the probability of all options together."""


def in_common_norm(snapshots: Sequence[Snapshot]) -> tuple[Snapshot, ...]:
    """Snapshots of which each task is decided by one norm; a snapshot itself where nothing changes.

    Args:
        snapshots: The sides of a comparison, or the looks of a run.

    Raises:
        MismatchError: If norms differ and one cannot be decided again.
    """
    if any("tool" in snapshot.meta for snapshot in snapshots):
        return tuple(snapshots)
    norms = [snapshot.norms for snapshot in snapshots]
    unlike = {task for named in norms for task in named if len({other.get(task, named[task]) for other in norms}) > 1}
    if not unlike:
        return tuple(snapshots)
    for snapshot in snapshots:
        _check_hashes(snapshot, unlike)
    wanted = dict.fromkeys(unlike, NORM)
    # One result for each object: a run compares its baseline with itself.
    made = {id(snapshot): decided_by(snapshot, wanted) for snapshot in snapshots}
    return tuple(made[id(snapshot)] for snapshot in snapshots)


def decided_by(snapshot: Snapshot, norms: Mapping[str, str]) -> Snapshot:
    """A snapshot whose answers to some tasks are decided by the given norms; itself if they are already.

    Recomputed are `chosen`, `correct`, `gold_share`, `margin` and `unstable` of the answers that were decided by the
    scores of their options; generated answers and `forced_correct` stay. An answer without scores becomes unscored.

    Args:
        snapshot: Outcomes; their metadata name the norm of each task.
        norms: Norm by task; tasks that the snapshot does not have, or whose norm it does not name, are left alone.

    Raises:
        MismatchError: If no answer that the norm decides has the scores that it needs.
    """
    recorded = {} if "tool" in snapshot.meta else snapshot.norms
    changed = {task: norm for task, norm in norms.items() if recorded.get(task, norm) != norm}
    task = Labels.of(snapshot.table["task"])
    in_task = np.array([name in changed for name in task.names], bool)[task.code]
    # An open answer has no options, and a generated one was not decided by their scores.
    is_open = (snapshot.ints("k") == NONE) & np.asarray(snapshot.table["choice_logprobs"].is_valid())
    is_generated = np.asarray(snapshot.table["output"].is_valid())
    rows = in_task & np.isfinite(snapshot.floats("correct")) & ~is_open & ~is_generated
    if not changed:
        return snapshot
    meta = _with_norms(snapshot.meta, recorded | changed)
    if not rows.any():
        return replace(snapshot, meta=meta)
    was, now = (", ".join(sorted({named[name] for name in changed})) for named in (recorded, changed))
    table, unscored = _decide(replace(snapshot, meta=meta), rows)
    if unscored == rows.sum():
        raise MismatchError(
            f"{snapshot.label} was decided by the norm {was!r} and has to be decided again by {now!r}, which needs "
            f"choice_logprobs{'' if now == NORM else ' and the lengths or priors of its norm'} and gold; of its "
            f"{int(rows.sum()):,} answers none has them; score both sides with the same probe"
        )
    made = replace(snapshot, table=table, meta=meta)
    flipped = int(np.sum(snapshot.floats("correct")[rows] != made.floats("correct")[rows])) - unscored
    without = f"; {unscored:,} without usable log-likelihoods are unscored" if unscored else ""
    note = (
        f"decided again by {now} (recorded: {was}) from its stored log-likelihoods; right or wrong differs for "
        f"{flipped:,} of {int(rows.sum()):,} answers{without}"
    )
    return replace(made, notes=(*snapshot.notes, note))


def _decide(snapshot: Snapshot, rows: NDArray[np.bool_]) -> tuple[pa.Table, int]:
    """The table with some rows decided by the norms in the metadata, and the number of them that have no scores."""
    options = option_scores(snapshot)
    if options is None:
        return snapshot.table, int(rows.sum())
    found = decide(options.scores, options.k, options.golds)
    starts = np.cumsum(options.k) - options.k
    decided = rows & (found.chosen != NONE) & np.isfinite(found.share) & (options.k == snapshot.ints("k"))
    right = np.zeros(len(rows), bool)
    right[decided] = options.golds[starts[decided] + found.chosen[decided]]
    noise = snapshot.meta.get("noise") or 0.0
    values: dict[str, tuple[NDArray[Any], NDArray[np.bool_]]] = {
        "chosen": (found.chosen, decided),
        "correct": (right, decided),
        "gold_share": (found.share, decided),
        "margin": (found.margin, decided & np.isfinite(found.margin)),
        # Null where no noise was measured; a single option has a margin of nan and no other to change to.
        "unstable": (found.margin <= noise, decided & np.asarray(snapshot.table["unstable"].is_valid())),
    }
    table = snapshot.table
    for name, (column, known) in values.items():
        old, position = table[name].combine_chunks(), table.column_names.index(name)
        new = pa.array(np.where(known, column, 0), mask=~known).cast(old.type)
        table = table.set_column(position, name, pc.if_else(pa.array(rows), new, old))
    missing = rows & ~decided
    if missing.any():
        outcome = snapshot.texts("outcome").copy()
        outcome[missing] = "unscored: no log-likelihoods to decide by"
        table = table.set_column(table.column_names.index("outcome"), "outcome", pa.array(outcome, pa.string()))
    return table, int(missing.sum())


def _check_hashes(snapshot: Snapshot, tasks: set[str]) -> None:
    """Raise `MismatchError` if a row of the tasks has no content hash."""
    without = np.isin(snapshot.texts("task"), list(tasks)) & np.asarray(snapshot.table["content_hash"].is_null())
    if without.any():
        raise MismatchError(
            f"the two sides were decided by unlike norms, and {snapshot.label} has no content_hash for "
            f"{int(without.sum()):,} of its {len(snapshot):,} rows, so that nothing shows that the options are the "
            "same; score both sides with the same probe"
        )


def _with_norms(meta: Mapping[str, Any], norms: Mapping[str, str]) -> dict[str, Any]:
    """Metadata that name these norms."""
    probe = dict(meta.get("probe") or {})
    if len(set(norms.values())) > 1:
        return {**meta, "norms": dict(norms)}
    recorded = probe.pop("recorded_norm", probe.get("norm"))
    probe["norm"] = next(iter(norms.values()))
    if recorded not in (None, probe["norm"]):
        probe["recorded_norm"] = recorded
    return {name: value for name, value in meta.items() if name != "norms"} | {"probe": probe}
