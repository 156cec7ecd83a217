"""Two real trainings in one output_dir at once: one refusal where there are locks, two runs where there are none.

    python tools/faults/two.py                  every case
    python tools/faults/two.py --case locks     one: locks, equal, none, containers

Each training is a command of its own, the second a second after the first has its baseline.

    locks        unlike seeds and schedules: the second waits up to 30 s, and is refused in one line with exit status 1
    equal        the same with equal seeds and schedules, whose looks are equal
    none         equal seeds and schedules on a disk without locks: both end, each with a folder of its own
    containers   as locks, each training as process 1 of a namespace of its own (needs ``unshare --pid --fork``)

In all cases every folder has the looks of one run, at the steps of its schedule, and no note.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from forgetwatch.run_folder import StoredRun

STEPS: Final = 60
CASES: Final = ("locks", "equal", "none", "containers")

TRAINING: Final = """
import sys, time
from pathlib import Path
from support import probe, trainer
from transformers import TrainerCallback
from forgetwatch import ForgetWatchCallback
from forgetwatch.errors import ForgetwatchError
from forgetwatch.files import writing as file_locks

folder, seed, every, pause, locks = Path(sys.argv[1]), *map(int, sys.argv[2:4]), float(sys.argv[4]), sys.argv[5]
if locks == "none":
    file_locks.fcntl = None

class Slow(TrainerCallback):
    def on_step_end(self, *_, **__):
        time.sleep(pause)

watch = ForgetWatchCallback(probe(40), every=every, max_overhead=None)
try:
    trainer(folder, steps=STEPS, seed=seed, callbacks=[watch, Slow()]).train()
except ForgetwatchError as error:
    sys.exit(f"refused: {error}")
""".replace("STEPS", str(STEPS))


def command(folder: Path, *, seed: int, every: int, pause: float, case: str) -> list[str]:
    """Command of one training."""
    locks = "none" if case == "none" else "locks"
    made = [sys.executable, "-c", TRAINING, str(folder), str(seed), str(every), str(pause), locks]
    return ["unshare", "--pid", "--fork", *made] if case == "containers" else made


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    """Wait until a file is there."""
    until = time.monotonic() + 180
    while not path.exists():
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"no {path}: {process.communicate()[1][-1000:]}")
        time.sleep(0.05)


def run(case: str, place: Path, *, pause: float = 1.0) -> list[str]:
    """Run one case, print what came out, and return sentences on what is wrong.

    Args:
        case: One of `CASES`.
        place: Folder of the trainings.
        pause: Seconds of a step of the first training: it outlasts the wait of the second.
    """
    folder = place / case
    seeds, every = ((3, 4), (5, 4)) if case in ("locks", "containers") else ((3, 3), (5, 5))
    paths = [str(Path(__file__).resolve().parents[2] / "tests"), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    pauses = (pause, pause / 2) if case == "none" else (pause, 0.0)
    both = []
    for seed, each, slow in zip(seeds, every, pauses, strict=True):
        if both:
            wait_for(folder / "_forgetwatch" / "run.json", both[0])
            time.sleep(1)
        wanted = command(folder, seed=seed, every=each, pause=slow, case=case)
        both.append(subprocess.Popen(wanted, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env))
        started = time.monotonic()
    errors = ["", ""]
    errors[1] = both[1].communicate()[1]
    print(f"{case}: the second took {time.monotonic() - started:.0f} s, exit status {both[1].returncode}", flush=True)
    errors[0] = both[0].communicate()[1]
    for name, error in zip(("first", "second"), errors, strict=True):
        for line in error.splitlines():
            if line.startswith("refused") or "in use by" in line or "another training" in line or "earlier run" in line:
                print(f"  {name}: {line}")
    return _wrong(case, folder, every, [each.returncode for each in both], errors)


def _wrong(case: str, folder: Path, every: tuple[int, int], statuses: list[int], errors: list[str]) -> list[str]:
    """Sentences on what is wrong after both trainings."""
    is_refused = case != "none"
    wrong = [] if statuses == ([0, 1] if is_refused else [0, 0]) else [f"exit statuses {statuses}: {errors}"]
    refusals = [line for line in errors[1].splitlines() if line.startswith("refused:")]
    if is_refused and not (len(refusals) == 1 and "no other training uses" in refusals[0]):
        wrong.append(f"the second was not refused in one line: {errors[1][-500:]}")
    found = sorted(path for path in folder.glob("_forgetwatch*") if path.is_dir())
    ids = set()
    for path in found:
        stored = StoredRun.read(path)
        runs = {look.meta["run"] for look in (stored.baseline, *stored.looks)}
        steps = [look.meta["step"] for look in stored.looks]
        print(f"  {path.name}: run {' '.join(runs)}, looks at {steps}, notes {list(stored.notes)}")
        ids |= runs
        if len(runs) != 1 or stored.notes or steps != list(range(every[0], STEPS + 1, every[0])):
            wrong.append(f"{path.name} is not one whole run: {runs}, {steps}, {stored.notes}")
    if len(found) != len(ids) or len(ids) != (1 if is_refused else 2):
        wrong.append(f"{len(found)} folders of {len(ids)} runs")
    if leftover := [path.name for path in folder.rglob("*") if path.suffix == ".partial" or path.suffix == ".lock"]:
        wrong.append(f"left over: {leftover}")
    return wrong


def main() -> int:
    """Run the cases; exit status 1 if something is wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--case", choices=CASES, action="append")
    given = options.parse_args()
    status = 0
    with tempfile.TemporaryDirectory(prefix="two-") as place:
        for case in given.case or CASES:
            if case == "containers" and subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode:
                print("containers: skipped, there is no unshare here")
                continue
            wrong = run(case, Path(place))
            print(f"  {'; '.join(wrong) or 'right'}", flush=True)
            status = max(status, int(bool(wrong)))
    return status


if __name__ == "__main__":
    sys.exit(main())
