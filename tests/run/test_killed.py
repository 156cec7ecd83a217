"""A run that is killed at any moment and started again ends like an undisturbed one."""

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
from support import PATIENCE

from forgetwatch import Trajectory, load_snapshot
from forgetwatch.measures.base_drift import drift_json
from forgetwatch.run.completions import read_completions
from forgetwatch.run_folder.description import COMPLETIONS, Description
from forgetwatch.run_folder.folder import RunFolder

pytestmark = pytest.mark.usefixtures("without_pictures")

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
        """Begin or resume a run in a folder; its exit status and output."""
        output = folder.with_suffix(".txt")
        wanted = {
            "folder": str(folder),
            "output": str(output),
            "moment": moment,
            **PLAIN,
            **options,
        }
        folder.mkdir(exist_ok=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(wanted) + "\n")
        self.process.stdin.flush()
        # Libraries print too.
        exits = next(line for line in self.process.stdout if line.startswith("exit "))
        return int(exits.split()[1]), output.read_text()

    def killed(self, folder: Path, *, moment: str, **options: Any) -> None:
        """Let a run die at that moment; every file that it leaves can be read."""
        status, output = self.run(folder, moment=moment, **options)
        assert status == -signal.SIGKILL, output
        whole(folder)

    def ended(self, folder: Path, **options: Any) -> str:
        """Let a run come to its end; its output."""
        status, output = self.run(folder, **options)
        assert status == 0, output
        whole(folder)
        return output

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
    made.process.communicate(timeout=PATIENCE)
    assert made.process.returncode == 0


def whole(folder: Path) -> None:
    """Assert that every file can be read as what its name says."""
    for path in folder.rglob("*.parquet"):
        if path.name == COMPLETIONS:
            assert len(read_completions(path))
            continue
        snapshot = load_snapshot(path)
        if path.stem.startswith("step-"):
            assert snapshot.meta["step"] == int(path.stem.removeprefix("step-"))
    for described in folder.rglob("run.json"):
        assert Description.read(described.parent).is_whole


def drifts(folder: Path) -> dict[int, Any]:
    """Drift of each look of a run, by step, as the run folder keeps it."""
    return {step: drift_json(drift) for step, drift in Trajectory.from_run(folder).drift.items()}


def looks(folder: Path) -> tuple[int, ...]:
    """Steps of the looks in a run's folder, the baseline's among them."""
    return Trajectory.from_run(folder).steps if RunFolder(folder).is_started else ()


def end(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "end.json").read_text())
    return found


def assert_same_end(folder: Path, other: Path) -> None:
    """Assert equal weights, losses, logged curves, and looks."""
    assert end(folder) == end(other)
    trajectory, rows = Trajectory.from_run(folder), RunFolder(folder).looks()
    logged = {step: counts for step, *counts in end(folder)["curve"]}
    for step, comparison in zip(trajectory.steps, trajectory.comparisons, strict=True):
        assert [comparison.all.forgotten, comparison.all.gained] == logged[step]
    for step, path in RunFolder(other).looks().items():
        if step in rows:
            assert load_snapshot(rows[step]).checksum == load_snapshot(path).checksum
    described = json.loads((RunFolder(folder).path / "run.json").read_text())
    assert [look["step"] for look in described["looks"]] == list(trajectory.steps[1:])


def test_the_undisturbed_run_shows_changes(runs: Runs) -> None:
    """All looks differ: one that is lost, or taken with other weights, would show."""
    undisturbed = runs.undisturbed()
    assert tuple(step for step, *_ in end(undisturbed)["curve"]) == looks(undisturbed) == EVERY_5
    found = {
        load_snapshot(path).checksum
        for path in (undisturbed / "_forgetwatch").glob("[bs]*.parquet")
    }
    assert len(found) == len(EVERY_5)
    assert len({tuple(counts) for _, *counts in end(undisturbed)["curve"]}) > 5


@pytest.mark.full(
    "after a save",
    "between the baseline",
    "in the last look",
    "when a look has",
    "before the baseline is written",
    "between a look and its save",
    "when a look is written and has no name yet",
    "while the history is put into the checkpoint",
    "between two looks",
    reason="further moments of a kill",
)
@pytest.mark.parametrize(
    ("moment", "left"),
    [
        ("before the baseline is written", ()),
        ("between the baseline and its second measurement", (0,)),
        ("in the middle of a look", EVERY_5[:5]),
        ("between a look and its save", EVERY_5[:5]),
        ("when a look is written and has no name yet", EVERY_5[:5]),
        ("when a look has its name and run.json does not know it", EVERY_5[:6]),
        ("after a save, before anything of ours", EVERY_5[:5]),
        ("while the history is put into the checkpoint", EVERY_5[:5]),
        ("between two looks", EVERY_5[:8]),
        ("in the last look", EVERY_5[:12]),
    ],
)
def test_a_killed_run_ends_as_the_undisturbed_one(
    runs: Runs, tmp_path: Path, moment: str, left: tuple[int, ...]
) -> None:
    run = tmp_path / "run"
    runs.killed(run, moment=moment)
    assert looks(run) == left
    runs.ended(run)
    assert looks(run) == EVERY_5
    assert Trajectory.from_run(run).notes == ()
    assert_same_end(run, runs.undisturbed())
    assert sorted(drifts(run)) == list(EVERY_5)
    assert drifts(run) == drifts(runs.undisturbed())


def test_drift_leaves_the_training_and_every_outcome_bitwise_as_they_are_without_it(
    runs: Runs,
) -> None:
    with_drift, without = runs.undisturbed(), runs.undisturbed(drift=False)
    assert drifts(without) == {}
    kls = [drift["probe"]["kl_summed"] for drift in drifts(with_drift).values()]
    assert kls[0] == 0 < kls[1] < kls[-1]
    assert_same_end(with_drift, without)


def test_half_a_checkpoint_is_refused_by_the_trainer_and_the_one_before_it_resumes(
    runs: Runs, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    runs.killed(run, moment="in a save, before the trainer's state")
    assert (run / "checkpoint-20" / "model.safetensors").is_file()
    status, output = runs.run(run)
    assert status == 1
    assert "trainer_state.json" in output.splitlines()[-1]
    assert looks(run) == EVERY_5[:5]
    shutil.rmtree(run / "checkpoint-20")
    runs.ended(run)
    assert_same_end(run, runs.undisturbed())


@pytest.mark.full(reason="further moments of a kill")
def test_a_look_lost_after_its_save_is_taken_at_the_resume(runs: Runs, tmp_path: Path) -> None:
    run, options = tmp_path / "run", {"every": "save", "save_strategy": "asked"}
    runs.killed(run, moment="after a save, before anything of ours", **options)
    assert looks(run) == (0, 16)
    assert (run / "checkpoint-32" / "trainer_state.json").is_file()
    runs.ended(run, **options)
    assert looks(run) == (0, 16, 32, 48, 60)
    assert_same_end(run, runs.undisturbed(**options))


@pytest.mark.full(reason="further moments of a kill")
def test_a_run_resumed_after_its_end_takes_no_look_beyond_it(runs: Runs, tmp_path: Path) -> None:
    """The trainer takes a step more there, 61 of 60, at a learning rate of 0."""
    run = tmp_path / "run"
    runs.killed(run, moment="after the last save")
    assert (run / "checkpoint-60" / "trainer_state.json").is_file()
    assert looks(run) == EVERY_5
    runs.ended(run)
    assert looks(run) == EVERY_5
    assert Trajectory.from_run(run).notes == ()
    assert_same_end(run, runs.undisturbed())


def test_a_run_resumes_from_its_checkpoints_alone(runs: Runs, tmp_path: Path) -> None:
    """Only the latest look is carried: earlier files are gone, and what was logged is not."""
    run = tmp_path / "run"
    runs.killed(run, moment="between two looks")
    shutil.rmtree(run / "_forgetwatch")
    runs.killed(run, moment="while looks are taken back from the checkpoint")
    assert looks(run) == (0,)
    output = runs.ended(run)
    assert "the run's own baseline is gone" not in output
    assert looks(run) == (0, *EVERY_5[6:])
    assert_same_end(run, runs.undisturbed())


def test_without_folder_and_copies_the_baseline_is_that_which_the_user_names(
    runs: Runs, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    runs.killed(run, moment="between two looks")
    for folder in [run / "_forgetwatch", *run.glob("checkpoint-*/forgetwatch")]:
        shutil.rmtree(folder)
    with pytest.raises(AssertionError, match="name the model that the run began with"):
        runs.ended(run)
