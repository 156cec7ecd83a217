"""A run that is killed at any moment, and begun again, ends as if nothing had been."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forgetwatch import Trajectory, load_snapshot
from forgetwatch.run_folder import RunFolder

EVERY_5 = tuple(range(0, 61, 5))


class Runs:
    """Runs of `mortal.py`, which is started once."""

    def __init__(self, folder: Path) -> None:
        here = Path(__file__).parent
        paths = [str(here.parent), str(here.parents[1]), os.environ.get("PYTHONPATH", "")]
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(here / "mortal.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
        self._undisturbed: dict[str, Path] = {}

    def run(self, folder: Path, *, moment: str | None = None, **options: Any) -> tuple[int, str]:
        """Begin a run in a folder or go on with it: the exit status, and what was told."""
        told = folder.with_suffix(".txt")
        wanted = {"folder": str(folder), "told": str(told), "moment": moment, **PLAIN, **options}
        folder.mkdir(exist_ok=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        # Libraries print too.
        exits = next(line for line in self.process.stdout if line.startswith("exit "))
        return int(exits.split()[1]), told.read_text()

    def killed(self, folder: Path, *, moment: str, **options: Any) -> None:
        """A run that dies at that moment, and leaves nothing that cannot be read."""
        status, told = self.run(folder, moment=moment, **options)
        assert status == -signal.SIGKILL, told
        whole(folder)

    def ended(self, folder: Path, **options: Any) -> str:
        """A run that comes to its end; what was told."""
        status, told = self.run(folder, **options)
        assert status == 0, told
        whole(folder)
        return told

    def undisturbed(self, **options: Any) -> Path:
        """The folder of the same run without a kill."""
        key = json.dumps(options)
        if key not in self._undisturbed:
            folder = self.folder / f"undisturbed-{len(self._undisturbed)}"
            self.ended(folder, **options)
            self._undisturbed[key] = folder
        return self._undisturbed[key]


PLAIN = {"every": 5, "save_strategy": "steps", "lora": False}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    made = Runs(tmp_path_factory.mktemp("runs"))
    yield made
    made.process.communicate(timeout=60)
    assert made.process.returncode == 0


def whole(folder: Path) -> None:
    """Every file that is there can be read, as what its name says."""
    for path in folder.rglob("*.parquet"):
        snapshot = load_snapshot(path)
        if path.stem.startswith("step-"):
            assert snapshot.meta["step"] == int(path.stem.removeprefix("step-"))
    for described in folder.rglob("run.json"):
        assert json.loads(described.read_text())["format"] == "forgetwatch/run@1"


def looks(folder: Path) -> tuple[int, ...]:
    """Steps of the looks in a run's folder, the baseline's among them."""
    return Trajectory.from_run(folder).steps if RunFolder(folder).is_started else ()


def end(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "end.json").read_text())
    return found


def assert_same_end(folder: Path, other: Path) -> None:
    """The same weights, losses, logged curve, and looks."""
    assert end(folder) == end(other)
    trajectory, rows = Trajectory.from_run(folder), RunFolder(folder).looks()
    logged = {step: counts for step, *counts in end(folder)["curve"]}
    for step, comparison in zip(trajectory.steps, trajectory.comparisons, strict=True):
        assert [comparison.all.forgotten, comparison.all.gained] == logged[step]
    for step, path in RunFolder(other).looks().items():
        if step in rows:
            assert load_snapshot(rows[step]).checksum == load_snapshot(path).checksum
    described = json.loads((RunFolder(folder).path / "run.json").read_text())
    assert [look["step"] for look in described["looks"]] == list(trajectory.steps)


def test_the_undisturbed_run_can_tell_a_change(runs: Runs) -> None:
    """No look is like another: one that is lost, or taken of other weights, would show."""
    undisturbed = runs.undisturbed()
    assert tuple(step for step, *_ in end(undisturbed)["curve"]) == looks(undisturbed) == EVERY_5
    found = {load_snapshot(path).checksum for path in (undisturbed / "_forgetwatch").glob("[bs]*.parquet")}
    assert len(found) == len(EVERY_5)
    assert len({tuple(counts) for _, *counts in end(undisturbed)["curve"]}) > 5


@pytest.mark.parametrize(
    ("moment", "left", "begins_at"),
    [
        ("before the baseline is written", (), 0),
        ("between the baseline and its second measurement", (0,), 0),
        ("in the middle of a look", EVERY_5[:5], 20),
        ("when a look is written and has no name yet", EVERY_5[:5], 20),
        ("when a look has its name and run.json does not know it", EVERY_5[:6], 20),
        ("after a save, before anything of ours", EVERY_5[:5], 20),
        ("while the history is put into the checkpoint", EVERY_5[:5], 20),
        ("between two looks", EVERY_5[:8], 30),
        ("in the last look", EVERY_5[:12], 50),
    ],
)
def test_a_killed_run_ends_as_the_undisturbed_one(
    runs: Runs, tmp_path: Path, moment: str, left: tuple[int, ...], begins_at: int
) -> None:
    run = tmp_path / "run"
    runs.killed(run, moment=moment)
    assert looks(run) == left
    told = runs.ended(run)
    assert (f"step {begins_at} measured again: -0 +0 of 40" in told) == bool(begins_at)
    assert looks(run) == EVERY_5
    again = {begins_at: RunFolder(run).path / f"again-{begins_at:06d}.parquet"} if begins_at else {}
    assert RunFolder(run).looks("again") == again
    described = json.loads((RunFolder(run).path / "run.json").read_text())
    assert described["resumed"] == [{"step": step, "lost": 0, "gained": 0} for step in again]
    assert_same_end(run, runs.undisturbed())


def test_half_a_checkpoint_is_refused_by_the_trainer_and_the_one_before_it_goes_on(runs: Runs, tmp_path: Path) -> None:
    run = tmp_path / "run"
    runs.killed(run, moment="in a save, before the trainer's state")
    assert (run / "checkpoint-20" / "model.safetensors").is_file()
    status, told = runs.run(run)
    assert status == 1
    assert "trainer_state.json" in told.splitlines()[-1]
    assert looks(run) == EVERY_5[:5]
    shutil.rmtree(run / "checkpoint-20")
    assert "step 10 measured again: -0 +0 of 40" in runs.ended(run)
    assert_same_end(run, runs.undisturbed())


def test_a_look_that_was_to_follow_its_save_is_taken_when_the_run_goes_on(runs: Runs, tmp_path: Path) -> None:
    run, options = tmp_path / "run", {"every": "save", "save_strategy": "epoch"}
    runs.killed(run, moment="after a save, before anything of ours", **options)
    assert looks(run) == (0, 16)
    assert (run / "checkpoint-32" / "trainer_state.json").is_file()
    runs.ended(run, **options)
    assert looks(run) == (0, 16, 32, 48, 60)
    assert_same_end(run, runs.undisturbed(**options))


def test_a_run_may_be_killed_again_while_it_goes_on(runs: Runs, tmp_path: Path) -> None:
    run = tmp_path / "run"
    runs.killed(run, moment="between two looks")
    runs.killed(run, moment="when a look that was measured again is written")
    assert looks(run) == EVERY_5[:7]
    assert "step 30 measured again" in runs.ended(run)
    assert_same_end(run, runs.undisturbed())


def test_a_run_goes_on_from_its_checkpoints_alone(runs: Runs, tmp_path: Path) -> None:
    """Only the latest look is carried: earlier files are gone, and what was logged is not."""
    run = tmp_path / "run"
    runs.killed(run, moment="between two looks")
    shutil.rmtree(run / "_forgetwatch")
    runs.killed(run, moment="while looks are taken back from the checkpoint")
    assert looks(run) == (0,)
    told = runs.ended(run)
    assert "the run's own baseline is gone" not in told
    assert "step 30 measured again: -0 +0 of 40" in told
    assert looks(run) == (0, *EVERY_5[6:])
    assert_same_end(run, runs.undisturbed())


def test_without_folder_and_copies_right_and_wrong_are_remembered(runs: Runs, tmp_path: Path) -> None:
    run = tmp_path / "run"
    runs.killed(run, moment="between two looks")
    for folder in [run / "_forgetwatch", *run.glob("checkpoint-*/forgetwatch")]:
        shutil.rmtree(folder)
    runs.killed(run, moment="between two looks")
    told = runs.ended(run)
    assert (
        told.count("the run's own baseline is gone; it is replaced by right and wrong answers from the checkpoint") == 1
    )
    assert "chosen options and probabilities are lost" in told
    assert looks(run) == (0, *EVERY_5[6:])
    assert_same_end(run, runs.undisturbed())
    rescued, first = (load_snapshot(RunFolder(one).path / "baseline.parquet") for one in (run, runs.undisturbed()))
    assert rescued.meta["rescued"] == "right and wrong only"
    assert list(rescued.floats("correct")) == list(first.floats("correct"))
    assert rescued.missing("chosen")
    assert not first.missing("chosen")


def test_without_folder_and_copies_the_adapter_is_taken_off_and_the_baseline_scored_again(
    runs: Runs, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    runs.killed(run, moment="between two looks", lora=True)
    for folder in [run / "_forgetwatch", *run.glob("checkpoint-*/forgetwatch")]:
        shutil.rmtree(folder)
    told = runs.ended(run, lora=True)
    assert "the run's own baseline is gone; it is replaced by the model without its adapter, scored now" in told
    assert_same_end(run, runs.undisturbed(lora=True))
    again, first = (RunFolder(one).path / "baseline.parquet" for one in (run, runs.undisturbed(lora=True)))
    assert load_snapshot(again).checksum == load_snapshot(first).checksum
