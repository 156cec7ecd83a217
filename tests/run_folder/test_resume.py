"""A run restored from its files: its plan, its branches, and what stays known of files that are gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from run_folders import write_run
from support import probe, snapshot

from forgetwatch import Snapshot
from forgetwatch.run_folder import Description, GuardFinding, Resumed, RunFolder, StoredRun, contents

ITEMS = 12


def look(step: int, lost: int = 0) -> Snapshot:
    return snapshot([False] * lost + [True] * (ITEMS - lost), meta={"model": "m", "step": step}, k=[4] * ITEMS)


def write(folder: Path, steps: tuple[int, ...] = (100, 200, 300, 400)) -> RunFolder:
    looks = {step: look(step, step // 100) for step in steps}
    findings = [GuardFinding("net_loss", "all:all", 200, "a line")]
    return write_run(folder, probe(ITEMS), look(0), looks, null=look(0, 1), planned=12, findings=findings)


def resume(folder: Path, *, step: int | None = 400, **known: Any) -> tuple[RunFolder, Resumed]:
    made = RunFolder(folder)
    given: dict[str, Any] = {"run": None, "checksum": None, "taken": None, "carried": (), "baseline": None, **known}
    return made, made.resume(step=step, probe_of=lambda _: probe(ITEMS), log=lambda _: None, **given)


def described(made: RunFolder, resumed: Resumed) -> None:
    """Describe the run as a resume does."""
    listed = [{"step": 0, "checksum": resumed.baseline.full_checksum}]
    listed += [{"step": step, "checksum": one.full_checksum} for step, one in resumed.contents.looks.items()]
    null = None if resumed.null is None else {"checksum": resumed.null.full_checksum}
    made.describe({"baseline": listed[0], "null": null, "looks": listed})


def taken(folder: RunFolder) -> dict[int, str]:
    return {step: one.full_checksum for step, one in contents.read_contents(
        folder.path, Description.read(folder.path), run=folder.run
    ).looks.items()}  # fmt: skip


def test_looks_of_another_branch_of_the_run_do_not_count(tmp_path: Path) -> None:
    run = write(tmp_path)
    by_checkpoint = taken(run)
    shutil.copytree(run.path, carried := tmp_path / "checkpoint-400" / "forgetwatch")
    for step in (100, 200, 300):
        (carried / f"step-{step:06d}.parquet").unlink()
    # Resumed at 200: looks 300 and 400 go, and 300 is taken anew with another outcome.
    again, resumed = resume(tmp_path, step=200, run=run.run, taken={s: c for s, c in by_checkpoint.items() if s <= 200})
    assert list(resumed.contents.looks) == [100, 200]
    described(again, resumed)
    again.add(again.stamped(look(300, 9), "step"), step=300)
    # Then from the checkpoint at 400, which the first branch has left.
    last, resumed = resume(tmp_path, step=400, run=run.run, taken=by_checkpoint, carried=[carried])
    assert list(resumed.contents.looks) == [100, 200, 400]
    assert any("step-000300.parquet: is not the file that the checkpoint lists" in note for note in resumed.notes)
    described(last, resumed)
    assert any("step-000300.parquet" in note for note in StoredRun.read(tmp_path).notes)


def test_the_look_of_the_checkpoint_s_own_step_counts_without_being_named(tmp_path: Path) -> None:
    run = write(tmp_path)
    named = {step: checksum for step, checksum in taken(run).items() if step < 400}
    _, resumed = resume(tmp_path, run=run.run, taken=named)
    assert (list(resumed.contents.looks), resumed.notes) == ([100, 200, 300, 400], ())
    _, resumed = resume(tmp_path, run=run.run, taken={step: named[step] for step in (100, 300)})
    assert list(resumed.contents.looks) == [100, 300, 400]
    assert "step-000200.parquet: the checkpoint does not name it: another branch" in resumed.notes[0]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("step-000200.parquet", "the look at step 200 is missing"),
        ("null.parquet", "null.parquet, the second measurement of the baseline, is missing"),
        ("run.json", "run.json is missing"),
    ],
)
def test_what_a_resume_did_not_find_stays_known_to_readers(tmp_path: Path, name: str, says: str) -> None:
    (write(tmp_path).path / name).unlink()
    for _ in range(2):  # once, however often it resumes
        made, resumed = resume(tmp_path)
        described(made, resumed)
        (note,) = StoredRun.read(tmp_path).notes
        assert note.startswith(f"since the resume from step 400: {says}")
    earlier, resumed = resume(tmp_path, step=100)  # takes step 200 again
    described(earlier, resumed)
    assert StoredRun.read(tmp_path).notes == ()


def test_a_folder_that_is_gone_is_missed_by_the_checkpoint(tmp_path: Path) -> None:
    run = write(tmp_path)
    named = taken(run)
    carried = tmp_path / "checkpoint-400" / "forgetwatch"
    carried.parent.mkdir()
    run.carry(400)
    shutil.rmtree(run.path)
    made, resumed = resume(tmp_path, run=run.run, taken=named, carried=[carried])
    assert list(resumed.contents.looks) == [400]
    described(made, resumed)
    (note,) = StoredRun.read(tmp_path).notes
    assert "3 looks are missing: step-000100.parquet, step-000200.parquet, step-000300.parquet" in note


def test_a_look_that_a_disk_does_not_give_for_now_is_left_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, read = write(tmp_path), contents.read_snapshot

    def stale(path: Path) -> Snapshot:
        if path.name == "step-000200.parquet":
            from forgetwatch.files import file_errors

            with file_errors(path, "a snapshot"):
                raise OSError(116, "Stale file handle")
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(contents, "read_snapshot", stale)
        _, resumed = resume(tmp_path)
    assert list(resumed.contents.looks) == [100, 300, 400]
    assert "Stale file handle" in resumed.notes[0]
    assert (run.path / "step-000200.parquet").is_file()


def test_a_resume_keeps_the_plan_and_the_findings(tmp_path: Path) -> None:
    write(tmp_path)
    _, resumed = resume(tmp_path)
    assert resumed.described.planned == 12
    assert len(resumed.described.findings) == 1
