"""Run folders in which a file is missing, damaged, renamed, replaced, or from another run: each is named."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from run_folders import write_run
from support import probe, snapshot
from typer.testing import CliRunner

from forgetwatch import Snapshot, Trajectory, save_snapshot
from forgetwatch.cli import app
from forgetwatch.errors import SnapshotError
from forgetwatch.run_folder import RunFolder, StoredRun

ITEMS = 12
ALL = (0, 5, 10, 15)
"""Steps of the looks of `write`, the baseline among them."""


def look(step: int, lost: int = 0) -> Snapshot:
    return snapshot([False] * lost + [True] * (ITEMS - lost), meta={"model": "m", "step": step}, k=[4] * ITEMS)


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
        [r"step-000005.parquet: does not match its name, it holds step 15; it is left out", r"000015.* holds step 5;"],
    ),
    "a look renamed": (
        lambda run: (run / at(15)).rename(run / "step-final.parquet"),
        (0, 5, 10),
        ["step-final.parquet has not the name of a file that a run writes", "look at step 15 is missing"],
    ),
    "a look of another spelling": (
        lambda run: (run / at(15)).rename(run / "step-15.parquet"),
        (0, 5, 10),
        ["step-15.parquet has not the name of a file that a run writes", "look at step 15 is missing"],
    ),
    "a copy beside": (
        lambda run: shutil.copy(run / at(5), run / "step-000005 (1).parquet"),
        ALL,
        [r"step-000005 \(1\).parquet has not the name of a file that a run writes \(a copy\?\); it is left out"],
    ),
    "metadata changed": (
        lambda run: edited(run / at(10), step=11),
        (0, 5, 15),
        ["step-000010.parquet: its rows and metadata do not match its checksum"],
    ),
    "cut": (lambda run: cut(run / at(10)), (0, 5, 15), ["step-000010.parquet: .*cannot be read"]),
    "another run's look": (lambda run: other(run, at(10)), (0, 5, 15), ["step-000010.parquet: belongs to another run"]),
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
        ["null.parquet: belongs to another run.*; it is left out; the noise of the measurement is not known"],
    ),
    "the baseline as null": (
        lambda run: shutil.copy(run / "baseline.parquet", run / "null.parquet"),
        ALL,
        ["null.parquet: does not match its name"],
    ),
    "run.json deleted": (
        lambda run: (run / "run.json").unlink(),
        ALL,
        ["run.json is missing: nothing shows if a look of the run is gone; alarms follow the rule that needs no plan"],
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
        lambda run: ((run / "run.json").unlink(), shutil.copy(run / "null.parquet", run / "step-000000.parquet")),
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
def test_what_is_wrong_with_a_folder_is_named_and_nothing_of_it_counts(name: str, tmp_path: Path) -> None:
    damage, steps, notes = CASES[name]
    run = write(tmp_path / "out")
    damage(run)
    made = Trajectory.from_run(run)
    assert made.steps == steps
    for note, pattern in zip(made.notes, notes, strict=True):
        assert re.search(pattern, note), note
    assert made.planned == (None if any(note.startswith("run.json") for note in made.notes) else 3)
    # Looks that are left have their own numbers.
    whole = Trajectory.from_run(write(tmp_path / "whole"))
    kept = {step: found.all.forgotten for step, found in zip(whole.steps, whole.comparisons, strict=True)}
    assert all(
        found.all.forgotten == kept.get(step, 4) for step, found in zip(made.steps, made.comparisons, strict=True)
    )
    shown = CliRunner().invoke(app, ["report", str(run)])
    assert shown.exit_code == 0, shown.output
    lines = [line for line in shown.output.splitlines() if line.startswith("note: ")]
    assert lines == [f"note: {note}" for note in made.notes]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda run: cut(run / "baseline.parquet"), r"baseline\.parquet: .*cannot be read"),
        (lambda run: edited(run / "baseline.parquet", model="x"), r"baseline\.parquet: .*do not match its checksum"),
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
        (lambda run: save_snapshot(look(0, 5), run / "baseline.parquet"), r"baseline\.parquet: belongs to another run"),
        (lambda run: described(run, format="forgetwatch/run@9"), r"run\.json: its format is 'forgetwatch/run@9'"),
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


def test_a_checkpoint_carries_a_run_folder_of_its_own_with_the_id_of_the_run(tmp_path: Path) -> None:
    run = write(tmp_path)
    (tmp_path / "checkpoint-12").mkdir()
    folder_of(run).carry(12)
    carried = tmp_path / "checkpoint-12" / "forgetwatch"
    made = StoredRun.read(carried)
    assert [one.meta["step"] for one in made.looks] == [10]
    assert (made.notes, made.planned, made.baseline.meta["run"]) == ((), 3, StoredRun.read(run).baseline.meta["run"])


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
        columns = {name: [getattr(item, name) for item in items] for name in ("content_hash", "task")}
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
        (lambda run: changed_line(run, "}", ', "tags": ["x"]}'), "its items are not those of the run"),
        (lambda run: probe(ITEMS + 1).head(1).save(run / "probe.jsonl"), "its items are not those of the run"),
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
