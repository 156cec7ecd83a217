"""Run folders in which a file is missing, damaged, renamed, replaced, or from another run: each is named.

A run restored from its files: its plan, and what stays known of files that are gone.

At most one process trains in an output_dir, however the processes end and whatever their ids are.
"""

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from run_folders import write_run
from support import PATIENCE, probe, snapshot
from typer.testing import CliRunner

from forgetwatch import Snapshot, Trajectory, save_snapshot
from forgetwatch.cli import app
from forgetwatch.errors import SnapshotError, WatchError
from forgetwatch.run_folder import contents
from forgetwatch.run_folder.contents import StoredRun
from forgetwatch.run_folder.description import GuardFinding
from forgetwatch.run_folder.folder import Resumed, RunFolder

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
    assert sorted(path.name for path in made.path.glob("step-*")) == [
        "step-000020 (1).parquet",
        "step-final.parquet",
    ]


def test_the_baseline_is_found_in_the_folder_or_in_the_checkpoint(tmp_path: Path) -> None:
    made = folder(tmp_path, (4, 8))
    (tmp_path / "checkpoint-6").mkdir()
    made.carry(6, files="digest")
    carried = sorted(path.name for path in made.carried(6).iterdir())
    assert carried == ["baseline.parquet", "step-000004.parquet"]
    (made.path / "baseline.parquet").unlink()
    assert made.baseline(carried=[made.carried(6)])[0].checksum == BASE.checksum


@pytest.mark.parametrize("damage", ["other", "cut", "gone"])
def test_a_baseline_of_another_run_or_none_is_refused_with_the_paths(
    tmp_path: Path, damage: str
) -> None:
    made = folder(tmp_path)
    if damage == "cut":
        (made.path / "baseline.parquet").write_bytes(b"PAR1")
    if damage == "gone":
        (made.path / "baseline.parquet").unlink()
    made.run = "another" if damage == "other" else None
    with pytest.raises(
        WatchError,
        match=r"baseline is gone: needed it in .*_forgetwatch/baseline.* or .*checkpoint-9",
    ):
        made.baseline(carried=[made.carried(9)])


@pytest.fixture
def limited() -> Iterator[None]:
    """An end after minutes: who opens a pipe to write waits for a reader."""
    signal.signal(
        signal.SIGALRM, lambda *_: pytest.fail(f"waited {PATIENCE} s for a pipe to be opened")
    )
    signal.alarm(PATIENCE)
    yield
    signal.alarm(0)


@pytest.mark.usefixtures("limited")
@pytest.mark.parametrize(
    "name", ["probe.jsonl", "baseline.parquet", "null.parquet", "run.json", "step-000005.parquet"]
)
@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_what_is_no_file_is_put_away_before_a_run_writes(
    kind: str, name: str, tmp_path: Path
) -> None:
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


ITEMS = 12
ALL = (0, 5, 10, 15)
"""Steps of the looks of `write`, the baseline among them."""


def look(step: int, lost: int = 0) -> Snapshot:
    return snapshot(
        [False] * lost + [True] * (ITEMS - lost), meta={"model": "m", "step": step}, k=[4] * ITEMS
    )


def write(folder: Path, *, shift: int = 0) -> Path:
    looks = {5: look(5, 1 + shift), 10: look(10, 2 + shift), 15: look(15, 3 + shift)}
    run = write_run(
        folder, probe(ITEMS), look(0), looks, null=look(0, 1), planned=3
    )  # fmt: skip
    return run.path


def at(step: int) -> str:
    return f"step-{step:06d}.parquet"


def swap(folder: Path) -> None:
    (folder / at(5)).rename(folder / "z")
    (folder / at(15)).rename(folder / at(5))
    (folder / "z").rename(folder / at(15))


def edited(path: Path, **change: object) -> None:
    """Change metadata without the checksum."""
    table = pq.read_table(path)
    meta = {**json.loads(table.schema.metadata[b"forgetwatch"]), **change}
    pq.write_table(table.replace_schema_metadata({b"forgetwatch": json.dumps(meta).encode()}), path)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def described(folder: Path, **change: object) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


def other(folder: Path, name: str, *, shift: int = 0) -> None:
    """Put a file of another run of the same probe in the place of one of this run."""
    shutil.copy(write(folder.parent / "other", shift=shift) / name, folder / name)


CASES: dict[str, tuple[Callable[[Path], object], tuple[int, ...], list[str]]] = {
    "nothing": (lambda run: None, ALL, []),
    "last look deleted": (
        lambda run: (run / at(15)).unlink(),
        (0, 5, 10),
        [r"look at step 15 is missing \(step-000015"],
    ),
    "two looks deleted": (
        lambda run: [(run / at(step)).unlink() for step in (5, 15)],
        (0, 10),
        [r"2 looks are missing: step-000005.parquet, step-000015.parquet"],
    ),
    "looks swapped": (
        swap,
        (0, 10),
        [
            r"step-000005.parquet: does not match its name, it holds step 15; it is left out",
            r"000015.* holds step 5;",
        ],
    ),
    "a look renamed": (
        lambda run: (run / at(15)).rename(run / "step-final.parquet"),
        (0, 5, 10),
        [
            "step-final.parquet has not the name of a file that a run writes",
            "look at step 15 is missing",
        ],
    ),
    "a look of another spelling": (
        lambda run: (run / at(15)).rename(run / "step-15.parquet"),
        (0, 5, 10),
        [
            "step-15.parquet has not the name of a file that a run writes",
            "look at step 15 is missing",
        ],
    ),
    "a copy beside": (
        lambda run: shutil.copy(run / at(5), run / "step-000005 (1).parquet"),
        ALL,
        [
            r"step-000005 \(1\).parquet has not the name of a file that a run writes \(a copy\?\); it is left out"
        ],
    ),
    "metadata changed": (
        lambda run: edited(run / at(10), step=11),
        (0, 5, 15),
        ["step-000010.parquet: its rows and metadata do not match its checksum"],
    ),
    "cut": (lambda run: cut(run / at(10)), (0, 5, 15), ["step-000010.parquet: .*cannot be read"]),
    "another run's look": (
        lambda run: other(run, at(10)),
        (0, 5, 15),
        ["step-000010.parquet: belongs to another run"],
    ),
    "a second measurement as a look": (
        lambda run: shutil.copy(run / "null.parquet", run / at(10)),
        (0, 5, 15),
        ["step-000010.parquet: does not match its name, it holds a snapshot of another kind"],
    ),
    "null deleted": (
        lambda run: (run / "null.parquet").unlink(),
        ALL,
        ["null.parquet, the second measurement of the baseline, is missing"],
    ),
    "null of another run": (
        lambda run: other(run, "null.parquet"),
        ALL,
        [
            "null.parquet: belongs to another run.*; it is left out; the noise of the measurement is not known"
        ],
    ),
    "the baseline as null": (
        lambda run: shutil.copy(run / "baseline.parquet", run / "null.parquet"),
        ALL,
        ["null.parquet: does not match its name"],
    ),
    "run.json deleted": (
        lambda run: (run / "run.json").unlink(),
        ALL,
        [
            "run.json is missing: nothing shows if a look of the run is gone; alarms follow the rule that needs no plan"
        ],
    ),
    "plan changed": (
        lambda run: described(run, planned_looks=1),
        ALL,
        [r"run.json is damaged \(its checksum does not match\)"],
    ),
    "run.json cut": (lambda run: cut(run / "run.json"), ALL, ["run.json cannot be read"]),
    "run.json is a list": (
        lambda run: (run / "run.json").write_text("[]"),
        ALL,
        [r"run.json is damaged \(a JSON object is needed, it has a list\)"],
    ),
    "run.json without its list": (
        lambda run: folder_of(run).describe({"planned_looks": 3}),
        ALL,
        [r"run.json is damaged \(KeyError\('looks'\)\)"],
    ),
    "run.json gone, another run's look": (
        lambda run: ((run / "run.json").unlink(), other(run, at(10))),
        (0, 5, 15),
        ["run.json is missing", "step-000010.parquet: belongs to another run"],
    ),
    "run.json gone, null as a look": (
        lambda run: (
            (run / "run.json").unlink(),
            shutil.copy(run / "null.parquet", run / "step-000000.parquet"),
        ),
        ALL,
        ["run.json is missing", "step-000000.parquet: does not match its name"],
    ),
    "a look after the last description": (
        lambda run: folder_of(run).add(folder_of(run).stamped(look(20, 4), "step"), step=20),
        (0, 5, 10, 15, 20),
        [],
    ),
    "an unlisted look without a run": (
        lambda run: save_snapshot(look(20, 4), run / at(20)),
        ALL,
        [r"step-000020.parquet: belongs to another run \(id None, .*; it is left out"],
    ),
    "a folder in a look's place": (
        lambda run: ((run / at(15)).unlink(), (run / at(15)).mkdir()),
        (0, 5, 10),
        ["step-000015.parquet: .*it is left out"],
    ),
}


def folder_of(run: Path) -> RunFolder:
    folder = RunFolder(run.parent)
    folder.run = json.loads((run / "run.json").read_text())["run"]
    return folder


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_with_a_folder_is_named_and_nothing_of_it_counts(
    name: str, tmp_path: Path
) -> None:
    damage, steps, notes = CASES[name]
    run = write(tmp_path / "out")
    damage(run)
    made = Trajectory.from_run(run)
    assert made.steps == steps
    for note, pattern in zip(made.notes, notes, strict=True):
        assert re.search(pattern, note), note
    assert made.planned == (None if any(note.startswith("run.json") for note in made.notes) else 3)
    # Looks that are left have their own numbers.
    kept = {0: 0, 5: 1, 10: 2, 15: 3, 20: 4}
    assert [found.all.forgotten for found in made.comparisons] == [
        kept[step] for step in made.steps
    ]
    shown = CliRunner().invoke(app, ["report", str(run)])
    assert shown.exit_code == 0, shown.output
    lines = [line for line in shown.output.splitlines() if line.startswith("note: ")]
    assert lines == [f"note: {note}" for note in made.notes]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda run: cut(run / "baseline.parquet"), r"baseline\.parquet: .*cannot be read"),
        (
            lambda run: edited(run / "baseline.parquet", model="x"),
            r"baseline\.parquet: .*do not match its checksum",
        ),
        (lambda run: other(run, "baseline.parquet"), r"baseline\.parquet: belongs to another run"),
        (lambda run: other(run, "run.json"), r"baseline\.parquet: belongs to another run"),
        (
            lambda run: shutil.copy(run / "null.parquet", run / "baseline.parquet"),
            r"baseline\.parquet: does not match its name",
        ),
        (
            lambda run: save_snapshot(snapshot([True] * ITEMS), run / "baseline.parquet"),
            r"baseline\.parquet: its metadata name no step, got None",
        ),
        (
            lambda run: save_snapshot(look(0, 5), run / "baseline.parquet"),
            r"baseline\.parquet: belongs to another run",
        ),
        (
            lambda run: described(run, format="forgetwatch/run@9"),
            r"run\.json: its format is 'forgetwatch/run@9'",
        ),
    ],
)
def test_a_folder_without_its_own_baseline_or_of_a_newer_version_is_refused(
    damage: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    run = write(tmp_path / "out")
    damage(run)
    with pytest.raises(SnapshotError, match=says):
        StoredRun.read(run)
    shown = CliRunner().invoke(app, ["report", str(run)])
    assert shown.exit_code == 1
    assert "Traceback" not in shown.output


def test_a_checkpoint_carries_a_run_folder_of_its_own_with_the_id_of_the_run(
    tmp_path: Path,
) -> None:
    run = write(tmp_path)
    (tmp_path / "checkpoint-12").mkdir()
    folder_of(run).carry(12, files="digest")
    carried = tmp_path / "checkpoint-12" / "forgetwatch"
    made = StoredRun.read(carried)
    assert [one.meta["step"] for one in made.looks] == [10]
    assert (made.notes, made.planned, made.baseline.meta["run"]) == (
        (),
        3,
        StoredRun.read(run).baseline.meta["run"],
    )


def test_the_page_the_document_and_markdown_have_the_notes(tmp_path: Path) -> None:
    run = write(tmp_path / "out")
    (run / at(10)).unlink()
    for name in ("r.html", "r.md", "r.json"):
        done = CliRunner().invoke(app, ["report", str(run), "-o", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
        assert "the look at step 10 is missing" in (tmp_path / name).read_text().replace("\\", "")
    done = CliRunner().invoke(app, ["flips", str(run)])
    assert "the look at step 10 is missing" in done.stderr


def probe_run(folder: Path) -> Path:
    """A run whose baseline names its probe."""
    items = probe(ITEMS)
    named = {"probe": {"name": "toy", "fingerprint": items.fingerprint}}

    def from_probe(step: int, lost: int = 0) -> Snapshot:
        columns = {
            name: [getattr(item, name) for item in items] for name in ("content_hash", "task")
        }
        return snapshot(
            [False] * lost + [True] * (ITEMS - lost),
            meta={"model": "m", "step": step, **named},
            item_id=[item.id for item in items],
            **columns,
        )

    return write_run(folder, items, from_probe(0), {5: from_probe(5, 2)}, planned=1).path


def changed_line(run: Path, old: str, new: str) -> None:
    """Change the third line of the run's probe."""
    found = (run / "probe.jsonl").read_text().splitlines()
    found[2] = found[2].replace(old, new)
    (run / "probe.jsonl").write_text("\n".join(found))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda run: (run / "probe.jsonl").unlink(), "no such file"),
        (lambda run: cut(run / "probe.jsonl"), "line 13: not a JSON object"),
        (lambda run: changed_line(run, "Q :", "q :"), "its items are not those of the run"),
        (lambda run: changed_line(run, '"i1"', '"j1"'), "its items are not those of the run"),
        (
            lambda run: changed_line(run, "}", ', "tags": ["x"]}'),
            "its items are not those of the run",
        ),
        (
            lambda run: probe(ITEMS + 1).head(1).save(run / "probe.jsonl"),
            "its items are not those of the run",
        ),
    ],
)
def test_questions_that_are_not_those_of_the_run_are_named_and_not_shown(
    damage: Callable[[Path], object], says: str, tmp_path: Path
) -> None:
    run = probe_run(tmp_path)
    assert Trajectory.from_run(run).notes == ()
    assert "Q :" in CliRunner().invoke(app, ["flips", str(run)]).stdout
    damage(run)
    (note,) = Trajectory.from_run(run).notes
    assert re.fullmatch(rf"probe\.jsonl: .*{says}.*; questions are shown by their ids", note), note
    shown = CliRunner().invoke(app, ["flips", str(run)])
    assert "i1" in shown.stdout
    assert not re.search("[Qq] :", shown.stdout)
    assert note in shown.stderr


def write_of_resume(folder: Path, steps: tuple[int, ...] = (100, 200, 300, 400)) -> RunFolder:
    looks = {step: look(step, step // 100) for step in steps}
    findings = [GuardFinding("policy", "all accuracy", 200, "a line")]
    return write_run(
        folder, probe(ITEMS), look(0), looks, null=look(0, 1), planned=12, findings=findings
    )


def resume(folder: Path, *, step: int | None = 400, **known: Any) -> tuple[RunFolder, Resumed]:
    made = RunFolder(folder)
    given: dict[str, Any] = {"run": None, "carried": (), "baseline": None, **known}
    return made, made.resume(
        step=step, probe=probe(ITEMS), check=lambda _: None, log=lambda _: None, **given
    )


def described_of_resume(made: RunFolder, resumed: Resumed) -> None:
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
def test_what_a_resume_did_not_find_stays_known_to_readers(
    tmp_path: Path, name: str, says: str
) -> None:
    (write_of_resume(tmp_path).path / name).unlink()
    for _ in range(2):  # once, however often it resumes
        made, resumed = resume(tmp_path)
        described_of_resume(made, resumed)
        (note,) = StoredRun.read(tmp_path).notes
        assert note.startswith(f"since the resume from step 400: {says}")
    earlier, resumed = resume(tmp_path, step=100)  # takes step 200 again
    described_of_resume(earlier, resumed)
    assert StoredRun.read(tmp_path).notes == ()


def test_a_folder_that_is_gone_is_missed(tmp_path: Path) -> None:
    run = write_of_resume(tmp_path)
    carried = tmp_path / "checkpoint-400" / "forgetwatch"
    carried.parent.mkdir()
    run.carry(400, files="digest")
    shutil.rmtree(run.path)
    made, resumed = resume(tmp_path, run=run.run, carried=[carried])
    assert list(resumed.contents.looks) == [400]
    described_of_resume(made, resumed)
    (note,) = StoredRun.read(tmp_path).notes
    assert "of its looks only that of step 400 is left" in note


def test_a_look_that_a_disk_does_not_give_for_now_is_left_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, read = write_of_resume(tmp_path), contents.read_snapshot

    def stale(path: Path) -> Snapshot:
        if path.name == "step-000200.parquet":
            from forgetwatch.files.reading import file_errors

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
    write_of_resume(tmp_path)
    _, resumed = resume(tmp_path)
    assert resumed.described.planned == 12
    assert len(resumed.described.findings) == 1


HOLDS = """
import sys, time
from forgetwatch.run_folder.folder import RunFolder
owner = RunFolder(sys.argv[1])
owner.claim(patience=0)
print("claimed", flush=True)
time.sleep(600)
"""


@pytest.fixture
def owner(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has the folder, killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, text=True
    ) as made:
        assert made.stdout is not None
        assert made.stdout.readline() == "claimed\n"
        try:
            yield made
        finally:
            made.kill()


def test_a_folder_that_another_process_has_is_refused_with_its_name_until_that_ends(
    tmp_path: Path, owner: RunFolder
) -> None:
    waits = list[str]()
    with holder(tmp_path) as other:
        with pytest.raises(
            WatchError, match="needed a folder that no other training uses, and another process"
        ):
            owner.claim(patience=0.3, on_wait=waits.append)
        assert len(waits) == 1
        assert "is in use by another process; waiting" in waits[0]
        other.kill()
    owner.claim(patience=PATIENCE)


def test_a_second_training_waits_for_one_that_is_being_stopped(
    tmp_path: Path, owner: RunFolder
) -> None:
    waits = list[str]()

    def stop(sentence: str) -> None:
        waits.append(sentence)
        other.kill()

    with holder(tmp_path) as other:
        owner.claim(patience=PATIENCE, on_wait=stop)
        assert len(waits) == 1
    owner.release()


def test_a_process_may_claim_again_and_a_released_folder_is_free(
    tmp_path: Path, owner: RunFolder
) -> None:
    owner.claim(patience=0)
    owner.claim(patience=0)
    owner.release()
    owner.release()
    with holder(tmp_path):
        pass


FORKS = """
import os, sys
from forgetwatch.run_folder.folder import RunFolder
owner = RunFolder(sys.argv[1])
owner.claim(patience=0)
if os.fork() == 0:
    owner.release()
    os._exit(0)
os.wait()
print("forked", flush=True)
sys.stdin.read()
"""


def test_a_forked_worker_does_not_end_the_claim(tmp_path: Path, owner: RunFolder) -> None:
    given = [sys.executable, "-c", FORKS, str(tmp_path)]
    with subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "forked\n"
        with pytest.raises(WatchError, match="another process"):
            owner.claim(patience=0)
        other.communicate()


def test_where_there_are_no_locks_nothing_is_refused(
    tmp_path: Path, owner: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def unsupported(*_: object) -> None:
        raise OSError(37, "No locks available")

    with holder(tmp_path):
        monkeypatch.setattr(fcntl, "flock", unsupported)
        owner.claim(patience=0)
    (tmp_path / "file").touch()
    RunFolder(tmp_path / "file").claim(patience=0)  # no folder: it fails where it is written to


def test_two_owners_in_one_process_and_the_end_of_the_last_frees_the_folder(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path), RunFolder(tmp_path)
    for one in (first, second):
        one.claim(patience=0)
    first.release()
    assert is_taken(tmp_path)
    del second, one  # a training that an exception has ended
    gc.collect()
    assert not is_taken(tmp_path)


def is_taken(folder: Path) -> bool:
    """Whether another process cannot claim a folder."""
    claim = "import sys; from forgetwatch.run_folder.folder import RunFolder; RunFolder(sys.argv[1]).claim(patience=0)"
    return (
        subprocess.run(
            [sys.executable, "-c", claim, str(folder)], capture_output=True, check=False
        ).returncode
        != 0
    )
