"""Time and size of reports: a run of so many items and looks, 3 answers in 10 flipped at the end.

    OMP_NUM_THREADS=1 python benchmarks/report.py [--items 100000] [--looks 20] [--categories 9] [--tasks 60]
                                                   [--written 0]

Process time on the CPU, one thread. Questions have about 200 characters; with `--written` each item also has an output
of so many characters on both sides.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from forgetwatch import Item, Probe, Snapshot
from forgetwatch.comparing.flips import first_forgotten, flips
from forgetwatch.comparing.trajectory import trajectory_of
from forgetwatch.report.csv_table import comparisons_csv
from forgetwatch.report.html import page
from forgetwatch.report.markdown import comparison_markdown

FLIPPED = 0.3


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    started = time.process_time()
    found = act()
    return found, time.process_time() - started


def make_probe(given: argparse.Namespace) -> Probe:
    return Probe(
        [
            Item(
                id=f"q{i}",
                task=f"task {i % given.tasks}",
                category=f"category {i % given.categories}",
                prompt=f"Question {i}: " + "and which of these words fits best here " * 5,
                choices=(f" one {i}", f" two {i}", f" three {i}", f" four {i}"),
                answer=i % 4,
            )
            for i in range(given.items)
        ]
    )


def make_look(
    probe: Probe, rng: np.random.Generator, *, step: int, share: float, written: int
) -> Snapshot:
    """A look at which a share of the answers differs from the start, where two thirds are right."""
    items, gold = len(probe), np.arange(len(probe)) % 4
    right = (np.arange(items) % 3 > 0) ^ (rng.permutation(items) < share * items)
    words = "step by step we find that this and that follows from it "
    outputs = [
        f"{words * (written // len(words))} {i % 7 if one else i % 5}"
        for i, one in enumerate(right)
    ]
    return Snapshot.from_columns(
        {
            "item_id": [item.id for item in probe],
            "content_hash": [item.content_hash for item in probe],
            "task": [item.task for item in probe],
            "category": [item.category for item in probe],
            "k": np.full(items, 4),
            "gold": gold,
            "chosen": np.where(right, gold, (gold + 1 + rng.integers(0, 3, items)) % 4),
            "correct": right,
            "gold_share": np.where(right, 0.4 + 0.6 * rng.random(items), 0.4 * rng.random(items)),
            "margin": rng.random(items),
            "output": outputs if written else None,
        },
        {"model": "toy", "step": step},
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--looks", type=int, default=20)
    parser.add_argument("--categories", type=int, default=9)
    parser.add_argument("--tasks", type=int, default=60)
    parser.add_argument("--written", type=int, default=0)
    given = parser.parse_args()
    rng, probe = np.random.default_rng(0), make_probe(given)
    looks = [
        make_look(
            probe, rng, step=100 * at, share=FLIPPED * at / given.looks, written=given.written
        )
        for at in range(given.looks + 1)
    ]
    run, seconds = timed(lambda: trajectory_of(looks))
    rows = [("compare all looks", seconds, 0)]
    first, seconds = timed(lambda: first_forgotten(run))
    changed, more = timed(lambda: flips(run.baseline, run.last, probe=probe, first=first))
    rows.append((f"list {len(changed):,} changed answers", seconds + more, 0))
    last = run.comparisons[-1]
    makes: dict[str, Callable[[], str]] = {
        "page": lambda: page(last, changed=changed, trajectory=run),
        "Markdown": lambda: comparison_markdown(last, changed=changed, trajectory=run),
        "CSV": lambda: comparisons_csv([last]),
    }
    for name, make in makes.items():
        text, seconds = timed(make)
        rows.append((name, seconds, len(text.encode())))
    print(
        f"{given.items:,} items, {given.looks} looks, {given.tasks} tasks, outputs of {given.written:,} characters;"
    )
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}\n"
    )
    print("| part | s | KB |\n|---|---|---|")
    for name, seconds, size in rows:
        print(f"| {name} | {seconds:.1f} | {size / 1000:,.0f} |")


if __name__ == "__main__":
    main()
