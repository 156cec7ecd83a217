"""Time of a training with and without a follower beside it, on the same machine.

    OMP_NUM_THREADS=1 python benchmarks/follow.py [--steps 60] [--repeats 3] [--items 40] [--model FOLDER]

The tests' own tiny model, or one on disk, saved every tenth of the steps with `save_total_limit=2`; the same training
alone and with a follower in a second process, in turn, in one run. Wall and process time of `train()`, the medians of
the repeats and their ratio. Where cores are shared, the ratio of the wall times is that of the machine too; the
follower's own work is done on whatever is left.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import saved_runs as runs
from support import probe, trainer


def train(out: Path, base: Path, steps: int) -> tuple[float, float]:
    """(Wall seconds, process seconds) of a training."""
    made = trainer(
        out,
        steps=steps,
        network=AutoModelForCausalLM.from_pretrained(base, dtype="float32"),
        tok=AutoTokenizer.from_pretrained(base),
        learning_rate=1e-5,
        save_strategy="steps",
        save_steps=max(1, steps // 10),
        save_total_limit=2,
        save_only_model=True,
    )
    wall, used = time.perf_counter(), time.process_time()
    made.train()
    return time.perf_counter() - wall, time.process_time() - used


def followed(out: Path, base: Path, probe_file: Path, steps: int) -> tuple[float, float, int]:
    """The same with a follower, and the number of checkpoints that it has scored."""
    command = [
        sys.executable,
        "-m",
        "forgetwatch",
        "follow",
        str(out),
        "--base",
        str(base),
        "--probe",
        str(probe_file),
    ]
    with subprocess.Popen(
        [*command, "--poll", "0.2", "--idle", "120"],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:  # it is ready when it follows
            if "following" in line:
                break
        wall, used = train(out, base, steps)
        told, _ = process.communicate()
    return wall, used, sum(line.startswith("step ") for line in told.splitlines() if "net" in line)


def main() -> None:
    """Print the medians and the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--items", type=int, default=40)
    parser.add_argument("--model", type=Path, help="a model on disk (default: the tests' tiny one)")
    given = parser.parse_args()
    alone, beside, scored = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        base = given.model or runs.base(Path(folder) / "base")
        questions = Path(folder) / "probe.jsonl"
        probe(given.items, norm="bytes").save(questions)
        train(Path(folder) / "warm", base, given.steps)
        for repeat in range(given.repeats):
            alone.append(train(Path(folder) / f"alone-{repeat}", base, given.steps))
            *times, count = followed(
                Path(folder) / f"beside-{repeat}", base, questions, given.steps
            )
            beside.append(tuple(times))
            scored.append(count)
    for index, name in enumerate(("wall", "process")):
        without, with_ = (statistics.median(one[index] for one in each) for each in (alone, beside))
        print(f"{name}: {without:.2f} s alone, {with_:.2f} s followed, ratio {with_ / without:.2f}")
    print(f"{os.cpu_count()} cores; checkpoints scored of 10: {', '.join(map(str, scored))}")


if __name__ == "__main__":
    main()
