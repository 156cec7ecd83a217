"""Reading a log of lm-evaluation-harness: forgetwatch against `json.loads` for each line and one pandas.DataFrame.

    python benchmarks/reading.py [ROWS]

Synthetic rows in the harness's shape (four options, one line of about a kilobyte each). Each reader runs in a process
of its own on the same file, in turns; wall time and the highest resident memory, less what the libraries took before.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

READERS = ("forgetwatch", "json + pandas")


def write(path: Path, rows: int) -> None:
    rng = random.Random(0)
    words = [f"word{number}" for number in range(5000)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            question = " ".join(rng.choices(words, k=rng.randint(5, 12)))
            options = [" ".join(rng.choices(words, k=rng.randint(1, 3))) for _ in range(4)]
            file.write(json.dumps(row(number, question, options, rng)) + "\n")


def row(number: int, question: str, options: list[str], rng: random.Random) -> dict[str, Any]:
    scores = [-40 * rng.random() for _ in options]
    gold = rng.randrange(4)
    right = float(max(range(4), key=scores.__getitem__) == gold)
    answers = [[str(score), "False"] for score in scores]
    named = hashlib.sha256(question.encode()).hexdigest()
    return {
        "doc_id": number,
        "doc": {
            "id": f"q{number}",
            "question": question,
            "choices": {"text": options, "label": list("ABCD")},
        },
        "target": str(gold),
        "arguments": {
            f"gen_args_{place}": {"arg_0": f"Question: {question}\nAnswer:", "arg_1": f" {option}"}
            for place, option in enumerate(options)
        },
        "resps": [[answer] for answer in answers],
        "filtered_resps": answers,
        "filter": "none",
        "metrics": ["acc", "acc_norm"],
        "doc_hash": named,
        "prompt_hash": named,
        "target_hash": named,
        "acc": right,
        "acc_norm": right,
    }


def measure(reader: str, path: str) -> None:
    import pandas as pd

    from forgetwatch import load_snapshot
    from forgetwatch.cli.output import bytes_bar

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started, used = time.perf_counter(), time.process_time()
    if reader == "forgetwatch":
        with bytes_bar("reading") as progress:
            found = len(load_snapshot(path, progress=progress))
    else:
        with open(path, encoding="utf-8") as file:
            found = len(pd.DataFrame([json.loads(line) for line in file]))
    wall, cpu = time.perf_counter() - started, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([found, wall, cpu, peak / 1024]))


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples_arc_2026-01-01T00-00-00.jsonl"
        write(path, rows)
        size = path.stat().st_size / 2**20
        turns: dict[str, list[list[float]]] = {reader: [] for reader in READERS}
        for _ in range(3 if rows <= 200_000 else 1):
            for reader in READERS:
                command = [sys.executable, __file__, reader, str(path)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                turns[reader].append(json.loads(done.stdout))
    print(
        f"{rows:,} rows, {size:,.0f} MiB; {platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
    )
    print(
        f"Python {platform.python_version()}\n\n| reader | s | s of processor | peak MiB | times the file |"
    )
    print("|---|---|---|---|---|")
    middle = {
        reader: [statistics.median(part) for part in zip(*found, strict=True)]
        for reader, found in turns.items()
    }
    for reader, (found, wall, cpu, peak) in middle.items():
        assert found == rows
        print(f"| {reader} | {wall:.1f} | {cpu:.1f} | {peak:,.0f} | {peak / size:.2f} |")
    ratio = middle[READERS[0]][1] / middle[READERS[1]][1]
    print(f"\nforgetwatch takes {ratio:.2f} of the time of json + pandas")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        measure(sys.argv[1], sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
