"""The items that flipped between two snapshots, one row each."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from forgetwatch.comparing.pairing import pair
from forgetwatch.item import PRIVATE
from forgetwatch.probe import Probe
from forgetwatch.snapshot import NONE, Snapshot

COLUMNS: Final = ("what", "item_id", "task", "category", "k", "gold", "chosen before", "chosen after")
TEXT: Final = ("question", "right answer", "answer after")

LIMIT: Final = 200
"""Rows of a table that a tracker shows."""


def flipped_rows(
    before: Snapshot, after: Snapshot, *, limit: int = LIMIT, probe: Probe | None = None
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Names of the columns, and a row for each flipped item: those forgotten first, in the order of the probe.

    Args:
        before: One snapshot.
        after: The other.
        limit: Most rows.
        probe: Gives questions and answers as text; without it there is none.
    """
    pairing = pair(before, after)
    was, now = before.floats("correct")[pairing.before], after.floats("correct")[pairing.after]
    texts = {(item.task, item.id): item for item in probe} if probe else {}
    ints = {name: before.ints(name) for name in ("k", "gold", "chosen")}
    words = {name: before.texts(name) for name in ("item_id", "task", "category")}
    chosen_after = after.ints("chosen")
    rows: list[tuple[Any, ...]] = []
    for what, flipped in (("forgotten", (was == 1) & (now == 0)), ("gained", (was == 0) & (now == 1))):
        for at in np.flatnonzero(flipped)[: max(0, limit - len(rows))]:
            row, later = int(pairing.before[at]), int(chosen_after[pairing.after[at]])
            numbers = (ints["k"][row], ints["gold"][row], ints["chosen"][row], later)
            cells = (what, *(words[name][row] for name in words), *(None if n == NONE else int(n) for n in numbers))
            rows.append(
                (*cells, *_text(texts.get((words["task"][row], words["item_id"][row])), later)) if probe else cells
            )
    return (*COLUMNS, *TEXT) if probe else COLUMNS, rows


def _text(item: Any, chosen: int) -> tuple[str | None, str | None, str | None]:
    """The question, the right answer and the one that was chosen."""
    if item is None or PRIVATE in item.tags:
        return None, None, None
    if not item.choices:
        return str(item.prompt), None, None
    return str(item.prompt), item.choices[item.answers[0]], item.choices[chosen] if chosen != NONE else None
