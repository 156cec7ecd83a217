"""The order of a probe of several tasks, by which every prefix is a fair sample of them."""

from __future__ import annotations

from collections.abc import Sequence

from forgetwatch.item import Item


def interleave(items: Sequence[Item]) -> list[Item]:
    """Return the items by content hash within a task, and the tasks interleaved by their size."""
    by_task: dict[str, list[Item]] = {}
    for item in items:
        by_task.setdefault(item.task, []).append(item)
    # The item of rank r of n gets the position (r + 1/2) / n in (0, 1): every task is spread evenly over the probe.
    positions = [
        ((rank + 0.5) / len(own), task, item)
        for task, own in by_task.items()
        for rank, item in enumerate(sorted(own, key=lambda item: (item.content_hash, item.id)))
    ]
    return [item for _, _, item in sorted(positions, key=lambda entry: entry[:2])]
