from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import PATIENCE, probe, snapshot

from forgetwatch import save_snapshot
from forgetwatch.errors import WatchError
from forgetwatch.run_folder import RunFolder

BASE = snapshot([True, False], meta={"step": 0})


def folder(path: Path, steps: tuple[int, ...] = ()) -> RunFolder:
    made = RunFolder(path)
    made.start(probe(), BASE)
    for step in steps:
        made.add(snapshot([False, False], meta={"step": step}), step=step)
    return made


def test_an_earlier_run_is_set_aside_and_never_overwritten(tmp_path: Path) -> None:
    made = folder(tmp_path, (5,))
    assert RunFolder(tmp_path / "new").set_aside() is None
    assert made.set_aside() == tmp_path / "_forgetwatch-1"
    folder(tmp_path)
    assert made.set_aside() == tmp_path / "_forgetwatch-2"
    assert (tmp_path / "_forgetwatch-1" / "step-000005.parquet").is_file()


def test_looks_are_listed_by_step_and_dropped_when_they_are_taken_again(tmp_path: Path) -> None:
    made = folder(tmp_path, (200, 50, 1_000_000))
    assert list(made.looks()) == [50, 200, 1_000_000]
    made.drop_after(50)
    assert list(made.looks()) == [50]


def test_files_that_somebody_renamed_or_copied_are_never_dropped(tmp_path: Path) -> None:
    made = folder(tmp_path, (20, 5))
    for name in ("step-000020 (1)", "step-final"):
        save_snapshot(snapshot([False, False], meta={"step": 30}), made.path / f"{name}.parquet")
    assert list(made.looks()) == [5, 20]
    made.drop_after(0)
    assert sorted(path.name for path in made.path.glob("step-*")) == ["step-000020 (1).parquet", "step-final.parquet"]


def test_the_baseline_is_found_in_the_folder_or_in_the_checkpoint(tmp_path: Path) -> None:
    made = folder(tmp_path, (4, 8))
    (tmp_path / "checkpoint-6").mkdir()
    made.carry(6)
    carried = sorted(path.name for path in made.carried(6).iterdir())
    assert carried == ["baseline.parquet", "step-000004.parquet"]
    (made.path / "baseline.parquet").unlink()
    assert made.baseline(carried=[made.carried(6)])[0].checksum == BASE.checksum


def test_a_checkpoint_that_is_gone_carries_nothing(tmp_path: Path) -> None:
    folder(tmp_path).carry(6)
    assert not (tmp_path / "checkpoint-6").exists()


@pytest.mark.parametrize("damage", ["other", "cut", "gone"])
def test_a_baseline_of_another_run_or_none_is_refused_with_the_paths(tmp_path: Path, damage: str) -> None:
    made = folder(tmp_path)
    if damage == "cut":
        (made.path / "baseline.parquet").write_bytes(b"PAR1")
    if damage == "gone":
        (made.path / "baseline.parquet").unlink()
    made.run = "another" if damage == "other" else None
    with pytest.raises(WatchError, match=r"baseline is gone: needed it in .*_forgetwatch/baseline.* or .*checkpoint-9"):
        made.baseline(carried=[made.carried(9)])


@pytest.fixture
def limited() -> Iterator[None]:
    """An end after minutes: who opens a pipe to write waits for a reader."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail(f"waited {PATIENCE} s for a pipe to be opened"))
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize("name", ["probe.jsonl", "baseline.parquet", "null.parquet", "run.json", "step-000005.parquet"])
@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_what_is_no_file_is_put_away_before_a_run_writes(kind: str, name: str, tmp_path: Path) -> None:
    made = folder(tmp_path, (5, 10))
    (made.path / name).unlink(missing_ok=True)
    other = (made.path / "step-000010.parquet").read_bytes()
    if kind == "folder":
        (made.path / name).mkdir()
    elif kind == "pipe":
        os.mkfifo(made.path / name)
    else:
        (made.path / name).symlink_to("step-000010.parquet")
    made.start(probe(), BASE, BASE)
    made.add(snapshot([False, False], meta={"step": 5}), step=5)
    made.describe({"looks": []})
    assert (made.path / name).is_file()
    assert not (made.path / name).is_symlink()
    assert (made.path / "step-000010.parquet").read_bytes() == other
    assert (made.path / f"{name}.damaged").exists() == (kind != "link")
    if kind == "folder":
        (made.path / "step-000020.parquet").mkdir()
    made.drop_after(0)
    assert made.looks() == {}


def test_a_second_file_that_cannot_be_used_does_not_replace_the_first(tmp_path: Path) -> None:
    made = folder(tmp_path, (5,))
    assert made.quarantine(made.looks()[5]).name == "step-000005.parquet.damaged"
    made.add(snapshot([True, True], meta={"step": 5}), step=5)
    assert made.quarantine(made.looks()[5]).name == "step-000005.parquet.damaged-2"
