"""A study of many pairs from two Parquet files: seconds and peak memory by number of pairs, and loops over rows.

    python benchmarks/large.py                  3, 10 and 30 pairs, each in a process of its own, and loops in pandas
    python benchmarks/large.py --pairs 3 --folder DATA     one size, in this process

A pair is 50,000 items with four options in 100 tasks and 10 categories, answered for three seeds: 150,000 rows a side,
with `choice_logprobs`. All pairs of a size are in one file a side (of 30 pairs: 4,500,000 rows), sorted by the column
`pair`; the rows of a pair are read by row groups. First the comparisons alone, then `forgetwatch study` on the same
files, with its tables and page. A comparison is everything that `compare` counts: cells, known and
lost, intervals, tests and corrections of 111 groups.

The loops count the four cells of each group from frames in memory, and nothing else; "cells" is the same by
forgetwatch, from rows in memory: paired and counted. The reading of the file is given too. `lookup` finds the partner
of each row among the rows of the other side, as `after[(after.task == ...) & ...]`, so that its time a row grows with
their number; the others have a dict of the other side's rows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ITEMS, SEEDS, TASKS, CATEGORIES, OPTIONS = 50_000, 3, 100, 10, 4
SIZES = (3, 10, 30)
SIDES = ("before", "after")
LOOPED = {"lookup": 5_000, "iterrows": 15_000, "itertuples": 15_000}
"""Rows of each loop in pandas."""


def side(rng: np.random.Generator, pair: int, shift: float) -> pa.Table:
    """Rows of one side of a pair; the questions and the strength of their answers are the pair's own."""
    questions = np.random.default_rng(pair)
    strength = np.repeat(questions.normal(0.8, 1.5, ITEMS)[None], SEEDS, 0) + rng.normal(
        shift, 1, (SEEDS, ITEMS)
    )
    scores = rng.normal(-6, 1, (SEEDS * ITEMS, OPTIONS))
    gold = np.tile(questions.integers(0, OPTIONS, ITEMS), SEEDS)
    scores[np.arange(SEEDS * ITEMS), gold] += strength.ravel()
    scores -= (
        np.log(np.exp(scores).sum(1, keepdims=True)) + 0.1
    )  # options have nine tenths of the probability
    chosen, item = scores.argmax(1), np.tile(np.arange(ITEMS), SEEDS)
    task = item * TASKS // ITEMS
    return pa.table(
        {
            "pair": np.full(SEEDS * ITEMS, f"pair {pair:02d}"),
            "item_id": np.char.add("q", item.astype(str)),
            "content_hash": np.char.mod("%016x", item * 2654435761 + pair),
            "task": np.char.mod("task %02d", task),
            "category": np.char.mod("category %d", task % CATEGORIES),
            "sample": pa.array(np.repeat(np.arange(SEEDS), ITEMS), pa.int32()),
            "k": pa.array(np.full(SEEDS * ITEMS, OPTIONS), pa.int32()),
            "gold": pa.array(gold, pa.int32()),
            "chosen": pa.array(chosen, pa.int32()),
            "correct": chosen == gold,
            "choice_logprobs": pa.ListArray.from_arrays(
                np.arange(0, scores.size + 1, OPTIONS, dtype=np.int32), scores.ravel()
            ),
        }
    )


def write(folder: Path, pairs: int) -> None:
    """Write both sides of a number of pairs, pair by pair."""
    for name, seed, shift in (("before", 1, 0.0), ("after", 2, -0.1)):
        rng, writer = np.random.default_rng(seed), None
        for pair in range(pairs):
            table = side(rng, pair, shift)
            writer = writer or pq.ParquetWriter(
                folder / f"{name}.parquet", table.schema, compression="zstd"
            )
            writer.write_table(table, row_group_size=ITEMS)
        assert writer is not None
        writer.close()


def measure(folder: Path, pairs: int) -> dict[str, Any]:
    """Seconds and peak memory of all pairs, one after the other, and the cells of the first."""
    from forgetwatch import compare
    from forgetwatch.readers.mapping import ColumnMap, read_mapped

    started, reading, cells = time.process_time(), 0.0, {}
    for pair in range(pairs):
        began = time.process_time()
        rows = ColumnMap(where={"pair": f"pair {pair:02d}"})
        before, after = (read_mapped(folder / f"{name}.parquet", rows) for name in SIDES)
        reading += time.process_time() - began
        comparison = compare(before=before, after=after)
        cells = cells or {
            f"{g.level} {g.name}": [g.retained, g.forgotten, g.gained, g.missed]
            for g in comparison.groups
        }
    return {
        "pairs": pairs,
        "rows": pairs * ITEMS * SEEDS,
        "seconds": time.process_time() - started,
        "reading": reading,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "cells": cells,
    }


def studied(folder: Path, pairs: int) -> tuple[float, float]:
    """CPU seconds and peak memory in MiB of `forgetwatch study` on all pairs."""
    sides = "".join(
        f"      - name: pair {pair:02d}\n"
        + "".join(
            f"        {side}: {{path: {side}.parquet, where: {{pair: pair {pair:02d}}}}}\n"
            for side in SIDES
        )
        for pair in range(pairs)
    )
    (folder / "study.yaml").write_text(f"stages:\n  - name: tuning\n    pairs:\n{sides}")
    command = [sys.executable, "-m", "forgetwatch", "study", str(folder / "study.yaml")]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == 0
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def counted(folder: Path) -> tuple[float, float, dict[str, list[float]]]:
    """Seconds of reading the first pair, of pairing its rows and counting the cells of its groups, and the cells."""
    from forgetwatch.measures.option_columns import Labels
    from forgetwatch.measures.pairing import pair
    from forgetwatch.readers.mapping import ColumnMap, read_mapped

    started = time.process_time()
    names = ("item_id", "content_hash", "task", "category", "sample", "correct")
    rows = ColumnMap(fields={name: name for name in names}, where={"pair": "pair 00"})
    before, after = (read_mapped(folder / f"{name}.parquet", rows) for name in SIDES)
    read = time.process_time()
    paired = pair(before, after)
    was, now = before.floats("correct")[paired.before], after.floats("correct")[paired.after]
    cell = (2 * (was == 0) + (now == 0)).astype(np.int64)  # retained, forgotten, gained, missed
    found = {"all all": np.bincount(cell, minlength=4)}
    for level in ("category", "task"):
        labels = Labels.of(before.table[level].take(paired.before))
        counts = np.bincount(4 * labels.code + cell, minlength=4 * len(labels.names)).reshape(-1, 4)
        found |= {
            f"{level} {name}": count for name, count in zip(labels.names, counts, strict=True)
        }
    done = time.process_time()
    return read - started, done - read, {name: list(count / SEEDS) for name, count in found.items()}


def looped(folder: Path, how: str) -> tuple[float, Counter[tuple[str, int]]]:
    """Seconds of a loop over a part of the rows of the first pair, and the cells that it counted."""
    import pandas as pd

    frames = [
        pd.read_parquet(folder / f"{name}.parquet", filters=[("pair", "=", "pair 00")])
        for name in SIDES
    ]
    before, after = (frame.head(LOOPED[how]) for frame in frames)
    cells: Counter[tuple[str, int]] = Counter()
    started = time.process_time()

    def count(row: Any, right: bool) -> None:
        cell = 2 * (not row.correct) + (not right)
        for group in ("all all", f"category {row.category}", f"task {row.task}"):
            cells[group, cell] += 1

    if how == "lookup":
        for _, row in before.iterrows():
            same = (
                (after.task == row.task)
                & (after.item_id == row.item_id)
                & (after["sample"] == row["sample"])
            )
            count(row, bool(after[same].iloc[0].correct))
    elif how == "iterrows":
        right = {(row.task, row.item_id, row["sample"]): row.correct for _, row in after.iterrows()}
        for _, row in before.iterrows():
            count(row, right[row.task, row.item_id, row["sample"]])
    else:
        right = {(row.task, row.item_id, row.sample): row.correct for row in after.itertuples()}
        for row in before.itertuples():
            count(row, right[row.task, row.item_id, row.sample])
    return time.process_time() - started, cells


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.pairs is not None:
        print(json.dumps(measure(given.folder, given.pairs)))
        return
    print("| pairs | rows a side | CPU s | of it reading | peak MiB | study: CPU s | peak MiB |")
    print("|---|---|---|---|---|---|---|")
    for pairs in SIZES:
        with tempfile.TemporaryDirectory() as name:
            write(Path(name), pairs)
            # In a process of its own: peak memory is that of one size, without the writing.
            command = [sys.executable, __file__, "--pairs", str(pairs), "--folder", name]
            found = json.loads(
                subprocess.run(command, check=True, capture_output=True, text=True).stdout
            )
            cells = [f"{found[key]:,.0f}" for key in ("pairs", "rows", "seconds", "reading", "mib")]
            cells += [f"{value:,.0f}" for value in studied(Path(name), pairs)]
            print("| " + " | ".join(cells) + " |", flush=True)
            if pairs == SIZES[0]:
                _against_loops(Path(name), found["cells"])


def _against_loops(folder: Path, cells: dict[str, list[float]]) -> None:
    """Print the seconds a row of the loops and of forgetwatch, whose cells are the same."""
    reading, counting, own = min((counted(folder) for _ in range(5)), key=lambda found: found[1])
    assert own == cells
    each, whole = counting / (ITEMS * SEEDS), (reading + counting) / (ITEMS * SEEDS)
    print(
        f"cells: {1e6 * each:.2f} microseconds a row, {1e6 * whole:.2f} with the reading of the file",
        flush=True,
    )
    for how in LOOPED:
        seconds, looped_cells = looped(folder, how)
        assert sum(looped_cells["all all", cell] for cell in range(4)) == LOOPED[how]
        loop = seconds / LOOPED[how]
        print(
            f"{how}: {1e6 * loop:.1f} microseconds a row, {loop / each:.0f} times, {loop / whole:.0f} with the reading"
        )


if __name__ == "__main__":
    main()
