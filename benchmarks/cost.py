"""Cost of all quantities on a large run: seconds and peak memory, from aligned arrays in memory, without bootstrap.

    python benchmarks/cost.py [items [looks]]       one size; by default 1,000,000 items, 20 looks, 100 tasks
    python benchmarks/cost.py --growth              four sizes of items and of looks, each in a process of its own

A look is everything that a comparison holds: all, 10 categories and 100 tasks, each with cells, known and lost,
intervals, tests and every correction; then the course of all items over the looks, and the alarms.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np

from forgetwatch.comparing.comparison import Comparison, Items
from forgetwatch.comparing.groups import count_groups
from forgetwatch.comparing.paper_means import category_means, paper_compat
from forgetwatch.comparing.trajectory import Trajectory
from forgetwatch.measures.aligned import AlignedPairs
from forgetwatch.measures.base import Rows
from forgetwatch.measures.option_columns import Labels
from forgetwatch.snapshot import Snapshot

TASKS, CATEGORIES = 100, 10


def paired(rng: np.random.Generator, base: dict[str, np.ndarray]) -> AlignedPairs:
    """The baseline against one look: one option in five has changed."""
    n = len(base["k"])
    chosen = np.where(rng.random(n) < 0.2, rng.integers(0, base["k"]), base["chosen"])
    share, task = rng.random(n), np.arange(n) * TASKS // n

    def second(choice: np.ndarray) -> np.ndarray:
        return np.where(choice == 0, np.nan, (rng.random(n) < 0.35).astype(float))

    return AlignedPairs(
        before=base["chosen"] == 0,
        after=chosen == 0,
        again=(base["chosen"] == 0).astype(float),
        share_before=base["share"],
        share_after=share,
        chosen_before=base["chosen"],
        chosen_after=chosen,
        second_before=second(base["chosen"]),
        second_after=second(chosen),
        k=base["k"],
        golds=np.ones(n, np.int64),
        item=np.arange(n),
        cluster=None,
        sample=np.zeros(n, np.int64),
        task=Labels(task, tuple(f"task {i}" for i in range(TASKS))),
        category=Labels(task % CATEGORIES, tuple(f"category {i}" for i in range(CATEGORIES))),
        samples=1,
        unscored=0,
    )


def measure(items: int, looks: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    k = rng.choice([2, 4, 5, 10], items)
    base = {
        "k": k,
        "chosen": np.where(rng.random(items) < 0.5, 0, rng.integers(0, k)),
        "share": rng.random(items),
    }
    right, comparisons, seconds = [(base["chosen"] == 0).astype(float)], [], 0.0
    for _ in range(1 + looks):
        pairs = paired(rng, base)
        started = time.perf_counter()
        counted = Items(
            compared=items,
            unscored=0,
            only_before=0,
            only_after=0,
            content_differs=0,
            prompt_differs=0,
        )
        comparison = Comparison(
            before={},
            after={},
            labels=("base", "look"),
            items=counted,
            groups=tuple(
                count_groups(Rows(pairs=pairs, unscored=pairs.take(np.zeros(0, np.int64))))
            ),
            macro=category_means(pairs),
            paper_compat=paper_compat(pairs),
        )
        seconds += time.perf_counter() - started
        comparisons.append(comparison)
        right.append(pairs.after.astype(float))
    names = [str(number) for number in range(items)]
    rows = Snapshot.from_columns(
        {"item_id": names, "k": k, "gold": np.zeros(items, int), "correct": right[0] == 1}, {}
    )
    started = time.perf_counter()
    trajectory = Trajectory(
        tuple(range(1 + looks)), tuple(comparisons), np.stack(right[:-1]), rows, rows, looks
    )
    course, alarms = trajectory.item_history, trajectory.alarms()
    seconds += time.perf_counter() - started
    assert len(course.ever_forgotten) == looks
    assert len(alarms) == looks * (1 + CATEGORIES)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "items": items,
        "looks": looks,
        "seconds": round(seconds, 2),
        "peak_gib": round(peak, 2),
    }


def growth() -> None:
    """Each size in a fresh process, so that its peak is its own; the cost per item and look beside it."""
    sizes = [(n, 20) for n in (125_000, 250_000, 500_000, 1_000_000)]
    sizes += [(250_000, looks) for looks in (5, 10, 20, 40)]
    print(
        "|     items | looks | seconds | us per item and look | peak GiB |\n|---|---|---|---|---|"
    )
    for items, looks in sizes:
        command = [sys.executable, __file__, str(items), str(looks)]
        found = json.loads(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
        )
        each = 1e6 * found["seconds"] / items / (looks + 1)
        print(
            f"| {items:,} | {looks} | {found['seconds']} | {each:.2f} | {found['peak_gib']} |",
            flush=True,
        )


if __name__ == "__main__":
    if "--growth" in sys.argv:
        growth()
    else:
        given = [int(text) for text in sys.argv[1:]]
        print(json.dumps(measure(*(given + [1_000_000, 20][len(given) :]))))
