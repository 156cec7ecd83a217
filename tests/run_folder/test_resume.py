"""A run restored from its files: its plan, and what stays known of files that are gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from run_folders import write_run
from support import probe, snapshot

from forgetwatch import Snapshot
from forgetwatch.run_folder import GuardFinding, Resumed, RunFolder, StoredRun
from forgetwatch.run_folder import description as contents

ITEMS = 12


def look(step: int, lost: int = 0) -> Snapshot:
    return snapshot([False] * lost + [True] * (ITEMS - lost), meta={"model": "m", "step": step}, k=[4] * ITEMS)


def write(folder: Path, steps: tuple[int, ...] = (100, 200, 300, 400)) -> RunFolder:
    looks = {step: look(step, step // 100) for step in steps}
    findings = [GuardFinding("policy", "all accuracy", 200, "a line")]
    return write_run(folder, probe(ITEMS), look(0), looks, null=look(0, 1), planned=12, findings=findings)


def resume(folder: Path, *, step: int | None = 400, **known: Any) -> tuple[RunFolder, Resumed]:
    made = RunFolder(folder)
    given: dict[str, Any] = {"run": None, "carried": (), "baseline": None, **known}
    return made, made.resume(step=step, probe=probe(ITEMS), check=lambda _: None, log=lambda _: None, **given)


def described(made: RunFolder, resumed: Resumed) -> None:
    """Describe the run as a resume does."""
    looks = [{"step": step} for step in resumed.contents.looks]
    made.describe({"null": resumed.null is not None, "looks": looks})


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


def test_a_folder_that_is_gone_is_missed(tmp_path: Path) -> None:
    run = write(tmp_path)
    carried = tmp_path / "checkpoint-400" / "forgetwatch"
    carried.parent.mkdir()
    run.carry(400)
    shutil.rmtree(run.path)
    made, resumed = resume(tmp_path, run=run.run, carried=[carried])
    assert list(resumed.contents.looks) == [400]
    described(made, resumed)
    (note,) = StoredRun.read(tmp_path).notes
    assert "of its looks only that of step 400 is left" in note


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
