"""The snapshots of a run folder: which files are looks of the run; `StoredRun` reads them all.

    name               step-000200.parquet, no other spelling
    its own checksum   matches its rows and metadata
    metadata           ``step`` 200, ``look`` "step", ``run`` the id of the run

A file that breaks the rule is left out, and one note names it and the reason; another one names the
looks that ``run.json`` lists and that are not there. A ``probe.jsonl`` is left out too of which
``run.json`` has another checksum, or whose questions are not those that the baseline's rows name by
content hash.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from forgetwatch.errors import ForgetwatchError, ProbeError, SnapshotError, some_of
from forgetwatch.files.reading import read_content
from forgetwatch.probe import Probe, read_probe
from forgetwatch.run_folder.description import (
    BASELINE,
    CARRIED,
    CONFIGS,
    DESCRIPTION,
    FOLLOW_FOLDER,
    NULL,
    PROBE,
    RUN_FOLDER,
    Description,
    GuardFinding,
    Look,
    files_digest,
    look_name,
    own_checkpoint,
)
from forgetwatch.run_folder.task_figure import TRAINER_STATE, TaskFigure, logged_figure
from forgetwatch.snapshot import Snapshot, read_snapshot


def task_figure(output_dir: Path) -> TaskFigure | None:
    """Figure of the new task in the latest checkpoint.

    Returns:
        The figure, or None if nothing usable is stored.
    """
    folders = [path.parent for path in output_dir.glob(f"checkpoint-*/{TRAINER_STATE}")]
    numbers = [
        int(end) for folder in folders if (end := folder.name.rpartition("-")[2]).isdecimal()
    ]
    steps = {
        step: folder for step in numbers if (folder := own_checkpoint(output_dir, step)) is not None
    }
    if not steps:
        return None
    try:
        state = json.loads(read_content(steps[max(steps)] / TRAINER_STATE, "a trainer's state"))
        entries = [entry for entry in state["log_history"] if isinstance(entry, dict)]
    except (ForgetwatchError, OSError, ValueError, TypeError, KeyError, RecursionError):
        return None  # the report is about what was forgotten, and does without this line
    return logged_figure(entries)


def carried_look(checkpoint: Path) -> Path | None:
    """Find the look of the same step that a checkpoint carries.

    Returns:
        The file, or None if there is none, or the checkpoint's files changed.
    """
    step = checkpoint.name.removeprefix("checkpoint-")
    path = checkpoint / CARRIED / look_name(int(step)) if step.isdecimal() else None
    if path is None or not path.is_file() or not is_as_carried(checkpoint):
        return None
    try:
        _own(path, look="step", run=Description.read(path.parent).run, step=int(step))
    except SnapshotError:
        return None
    return path


def is_as_carried(checkpoint: Path) -> bool:
    """Are the checkpoint's files those of when copies were made?

    The files of an adapter's base, too.
    """
    adapter = checkpoint / CONFIGS[1]
    try:
        described = Description.read(checkpoint / CARRIED)
        base = (
            Path(json.loads(adapter.read_bytes())["base_model_name_or_path"])
            if adapter.is_file()
            else None
        )
        if (
            base is not None
            and base.is_dir()
            and described.model.get("files") != files_digest(base)
        ):
            return False
        return bool(described.values.get("files") == files_digest(checkpoint))
    except (SnapshotError, OSError, ValueError, LookupError, TypeError):
        return False


def carried_baseline(checkpoint: Path) -> Path | None:
    """Find the baseline that a checkpoint carries.

    Returns:
        The file, or None.
    """
    path = checkpoint / CARRIED / BASELINE
    return path if path.is_file() else None


def _own(path: Path, *, look: Look, run: str | None, step: int | None = None) -> Snapshot:
    # The snapshot that this name in this run must hold.
    snapshot = read_snapshot(path)
    meta = snapshot.meta
    if meta.get("look", look) != look:
        raise SnapshotError(
            f"{path}: does not match its name, it holds a snapshot of another kind "
            f"({meta['look']!r})"
        )
    if type(meta.get("step")) is not int:
        raise SnapshotError(f"{path}: its metadata name no step, got {meta.get('step')!r}")
    if step is not None and meta["step"] != step:
        raise SnapshotError(f"{path}: does not match its name, it holds step {meta['step']}")
    if run is not None and meta.get("run") != run:
        raise SnapshotError(
            f"{path}: belongs to another run (id {meta.get('run')!r}, needed {run!r})"
        )
    return snapshot


def description_notes(described: Description) -> tuple[str, ...]:
    """Note on a description that cannot be used, if so."""
    if described.problem is not None:
        return (f"{DESCRIPTION} {described.problem}: nothing shows if a look of the run is gone",)
    return ()


_NAMED: Final = 10
"""Number of looks that a note names."""


@dataclass
class Contents:
    """Looks of a run in its folder.

    Attributes:
        looks: Looks after the baseline, by rising step.
        notes: Sentences on files that are missing or left out.
        rejected: Files with the name of a look that are none of this run.
    """

    looks: dict[int, Snapshot] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    rejected: list[Path] = field(default_factory=list)


def read_contents(
    folder: Path, described: Description, *, run: str | None, until: int | None = None
) -> Contents:
    """Read the looks in a run folder.

    Args:
        folder: The folder.
        described: Its ``run.json``, which lists what must be there.
        run: Id of the run; None if unknown.
        until: The last step whose look may be missing; None for any. A run that resumes drops later
            looks.
    """
    contents, files = Contents(), look_files(folder)
    for path in sorted(folder.glob("step-*.parquet")):
        if _step_of(path) is None:
            contents.notes.append(
                f"{path.name} has not the name of a file that a run writes (a copy?); it is "
                "left out"
            )
    for step, path in files.items():
        try:
            contents.looks[step] = _own(path, look="step", run=run, step=step)
        except SnapshotError as error:
            contents.notes.append(f"{_short(error, path)}; it is left out")
            if not _is_passing(error):
                contents.rejected.append(path)
    if gone := [
        step for step in described.listed if step not in files and (until is None or step <= until)
    ]:
        contents.notes.append(_missing(gone))
    return contents


def read_baseline(folder: Path, described: Description) -> Snapshot:
    """Read the baseline in a run folder.

    Raises:
        SnapshotError: If it cannot be read, or is of another run.
    """
    return _own(folder / BASELINE, look="baseline", run=described.run)


def read_null(
    folder: Path, described: Description, *, run: str | None
) -> tuple[Snapshot | None, tuple[str, ...]]:
    """Read the second measurement of the baseline.

    Returns:
        The snapshot, or None; and notes on one that is not used.
    """
    path, without = folder / NULL, "; the noise of the measurement is not known"
    if not path.is_file():
        missing = f"{NULL}, the second measurement of the baseline, is missing{without}"
        return None, (missing,) if described.has_null else ()
    try:
        return _own(path, look="null", run=run), ()
    except SnapshotError as error:
        return None, (f"{_short(error, path)}; it is left out{without}",)


def read_questions(
    folder: Path, described: Description, baseline: Snapshot
) -> tuple[Probe | None, tuple[str, ...]]:
    """Read the probe of a run, for the text of its questions.

    Returns:
        The probe, or None; and notes on one that is not used.
    """
    path, without = folder / PROBE, "; questions are shown by their ids"
    # Then its rows hold the content hashes of the questions, and a file with another question is
    # not used.
    is_known = (baseline.meta.get("probe") or {}).get("fingerprint") is not None
    # A checkpoint carries no text.
    if not path.exists() and (not is_known or folder.name == CARRIED):
        return None, ()
    try:
        probe = read_probe(path)
        is_changed = described.probe_checksum not in (None, checksum_of(path))
        if is_changed or (is_known and not _holds_questions(probe, baseline)):
            raise ProbeError(f"{path}: its items are not those of the run")
    except ProbeError as error:
        return None, (f"{_short(error, path)}{without}",)
    return probe, ()


def checksum_of(path: Path) -> str:
    """Hash the bytes of a file.

    Returns:
        First 32 hex digits of SHA-256.
    """
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _holds_questions(probe: Probe, baseline: Snapshot) -> bool:
    hashes = {(item.task, item.id): item.content_hash for item in probe}
    rows = zip(*(baseline.texts(name) for name in ("task", "item_id", "content_hash")), strict=True)
    return all(hashes.get((task, item_id)) == content_hash for task, item_id, content_hash in rows)


def look_files(folder: Path) -> dict[int, Path]:
    """Find the files of the looks by step, rising.

    Other spellings of a name do not count.
    """
    # By number: from step 1,000,000 on the names do not sort like the steps.
    entries = (
        (step, path)
        for path in folder.glob("step-*.parquet")
        if (step := _step_of(path)) is not None
    )
    return dict(sorted(entries))


def _is_passing(error: SnapshotError) -> bool:
    # A slow network disk gives such errors.
    cause = error.__cause__
    # Errors of decoders have no number.
    return isinstance(cause, MemoryError) or (
        isinstance(cause, OSError) and cause.errno is not None
    )


def _step_of(path: Path) -> int | None:
    match = re.fullmatch(r"step-([0-9]{1,18})\.parquet", path.name)
    return int(match[1]) if match and path.name == look_name(int(match[1])) else None


def _missing(steps: Sequence[int]) -> str:
    if len(steps) == 1:
        return f"the look at step {steps[0]} is missing ({look_name(steps[0])})"
    return f"{len(steps):,} looks are missing: {some_of(map(look_name, steps), _NAMED)}"


def _short(error: ForgetwatchError, path: Path) -> str:
    return f"{path.name}: {str(error).removeprefix(f'{path}: ').replace(f'{path}, ', '')}"


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRun:
    """All snapshots in a run folder that are those of its run.

    Attributes:
        folder: The folder.
        baseline: The snapshot that every look is compared with.
        looks: The looks after it, by rising step.
        null: The second measurement of the baseline; None if there is none.
        planned: Looks planned after the baseline; None if unknown.
        findings: Findings of the guard, in the order in which they were made.
        notes: Sentences on files that are missing, damaged, or of another run.
        task: Figure of the new task, if the trainer's checkpoints are beside the folder and one
            logged it.
        described: Its ``run.json``.
    """

    folder: Path
    baseline: Snapshot
    looks: tuple[Snapshot, ...]
    null: Snapshot | None
    planned: int | None
    findings: tuple[GuardFinding, ...] = ()
    notes: tuple[str, ...] = ()
    task: TaskFigure | None = None
    described: Description = field(default_factory=Description)

    @property
    def end(self) -> Snapshot:
        """Look of the weights that the training left.

        The last look if these have none.
        """
        looks = (self.baseline, *self.looks)
        delivered = None if self.described.ending is None else self.described.ending.delivered
        return next((look for look in looks if look.meta["step"] == delivered), looks[-1])

    @classmethod
    def read(cls, given: str | Path) -> Self:
        """Read a run folder, or the run folder in an output_dir.

        Raises:
            SnapshotError: If its baseline is missing, damaged or of another run, or if another
                version wrote it.
        """
        path = find_run_folder(given)
        described = Description.read(path)
        baseline = read_baseline(path, described)
        run = described.run or baseline.meta.get("run")
        on_description, (null, on_null) = (
            description_notes(described),
            read_null(path, described, run=run),
        )
        if described.problem is not None:  # a reader has no other source of what it holds
            rule = (
                "alarms follow the rule that needs no plan, and findings of the guard are not shown"
            )
            on_description = (f"{on_description[0]}; {rule}",)
        contents = read_contents(path, described, run=run)
        return cls(
            folder=path,
            baseline=baseline,
            looks=tuple(contents.looks.values()),
            null=null,
            planned=described.planned,
            findings=described.findings,
            notes=(
                *on_description,
                *(f"since the resume from step {step}: {note}" for step, note in described.notes),
                *on_null,
                *contents.notes,
                *read_questions(path, described, baseline)[1],
            ),
            task=described.task or task_figure(path.parent),
            described=described,
        )


def is_run_folder(path: str | Path) -> bool:
    """Is the path a run folder, or an output_dir with a run?"""
    inside = any((Path(path) / name).is_dir() for name in (RUN_FOLDER, FOLLOW_FOLDER))
    return inside or (Path(path) / BASELINE).is_file()


def find_run_folder(path_given: str | Path) -> Path:
    """Find the run folder at a path or in it.

    Of several, the folder of the training comes first.

    Raises:
        SnapshotError: If it holds no baseline.
    """
    folder = Path(path_given)
    for name in (RUN_FOLDER, FOLLOW_FOLDER):
        if (folder / name).is_dir():
            folder /= name
            break
    if not (folder / BASELINE).is_file():
        raise SnapshotError(
            f"{folder}: needed a run folder with {BASELINE}, found none there; give the "
            f"output_dir of a run, or the {RUN_FOLDER} in it"
        )
    return folder


def run_probe(path: str | Path) -> Probe | None:
    """Read the probe of a run, for the text of its questions.

    Returns:
        The probe, or None if it cannot be read, or is of another run.
    """
    try:
        folder = find_run_folder(path)
        return read_questions(folder, Description.read(folder), read_snapshot(folder / BASELINE))[0]
    except SnapshotError:
        return None
