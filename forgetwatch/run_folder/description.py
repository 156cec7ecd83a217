"""Names of the files of a run, and ``run.json``: the steps of its looks, with a checksum of its own.

    {"format": "forgetwatch/run@4", "run": "4be1...", "probe_checksum": "03d1...",
     "null": true, "looks": [{"step": 200, "seconds": 3.1}, ...],
     "planned_looks": 12, "guard": [...], "state": "ended", "last_step": 2400, "max_steps": 2400,
     "failed": [{"step": 2200, "cause": "out of memory"}], "delivered": 2400, ..., "checksum": "77ab..."}

Readers obey it: the number of planned looks sets the level of the alarms, and the list shows which looks there must be.
A description that is missing or damaged is never used in part.

**Contents.** The snapshots of a run folder: the rule by which a file is a look of its run, and `StoredRun`, which reads
them all.

    name               step-000200.parquet, no other spelling
    its own checksum   matches its rows and metadata
    metadata           ``step`` 200, ``look`` "step", ``run`` the id of the run

A file that breaks the rule is left out, and one note names it and the reason; another one names the looks that
``run.json`` lists and that are not there. A ``probe.jsonl`` is left out too of which ``run.json`` has another checksum,
or whose questions are not those that the baseline's rows name by content hash.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from forgetwatch.errors import ForgetwatchError, ProbeError, SnapshotError, some_of
from forgetwatch.files.reading import read_content
from forgetwatch.files.table_files import checksum_with
from forgetwatch.files.writing import write_atomically
from forgetwatch.probe import Probe, read_probe
from forgetwatch.snapshot import Snapshot, read_snapshot
from forgetwatch.visible_text import visible

RUN_FOLDER: Final = "_forgetwatch"
"""Name of the run folder in the run's output_dir."""

FOLLOW_FOLDER: Final = "_forgetwatch_follow"
"""Name of the run folder of a process that follows the run from outside it."""

CARRIED: Final = "forgetwatch"
"""Name of the folder in a checkpoint that carries copies."""

PROBE: Final = "probe.jsonl"
BASELINE: Final = "baseline.parquet"
NULL: Final = "null.parquet"
FIRST: Final = "first.parquet"
COMPLETIONS: Final = "completions.parquet"
DESCRIPTION: Final = "run.json"
REPORT: Final = "report.html"

_WEIGHTS: Final = (".safetensors", ".bin")
_SHARDS: Final = (*_WEIGHTS, ".distcp", ".pt")
CONFIGS: Final = ("config.json", "adapter_config.json")
_TOKENIZER: Final = re.compile(
    r"tokenizer.*|vocab.*|merges\.txt|special_tokens.*|added_tokens.*|.*\.(jinja|model)"
)
_PIECES: Final = 64

LAST_STEP: Final = 10**18 - 1
"""The largest step of a look: names of files and checkpoints have at most 18 digits."""

Look = Literal["baseline", "null", "step"]
"""Value of ``look`` in the metadata of a snapshot in a run folder."""

State = Literal["running", "ended", "stopped"]

FORMAT: Final = "forgetwatch/run@4"
"""Value of ``format`` in ``run.json``; its number rises whenever a stored field changes."""

_LONGEST: Final = 2**26
"""Bytes of the longest description that is read."""


def look_name(step: int) -> str:
    """Return the name of the file of a look."""
    return f"step-{step:06d}.parquet"


def checkpoint_folder(output_dir: str | Path, step: int) -> Path:
    """Return the folder in which a trainer saves the checkpoint of a step."""
    return Path(output_dir) / f"checkpoint-{step}"


def files_digest(folder: Path) -> str:
    """Return the SHA-256 over names and sizes of the files of model and tokenizer, and samples of their content.

    Samples are the first 64 KiB, which hold the header of a safetensors file, and 64 pieces of 4 KiB: a training moves
    all weights. A copy of the folder has the same digest. The files of a sharded checkpoint are in folders of it.
    """
    found = hashlib.sha256()
    named = [*folder.glob("*")]
    own = [
        one
        for one in named
        if one.suffix in _WEIGHTS or one.name in CONFIGS or _TOKENIZER.fullmatch(one.name)
    ]
    shards = [
        file
        for file in folder.glob("*/*")
        if file.suffix in _SHARDS and file.parent.name != CARRIED
    ]
    for file in sorted([*own, *shards]):
        size = file.stat().st_size
        found.update(f"{file.relative_to(folder).as_posix()} {size}\n".encode())
        with file.open("rb") as stream:
            found.update(stream.read(2**16))
            for piece in range(_PIECES):
                stream.seek(size * piece // _PIECES)
                found.update(stream.read(2**12))
    return found.hexdigest()[:32]


def own_checkpoint(output_dir: str | Path, step: int) -> Path | None:
    """Return the checkpoint of a step if this run saved it, with the files that it had then.

    None otherwise. A run without a trainer's callback has no list of what it saved; then any folder counts.
    """
    folder = checkpoint_folder(output_dir, step)
    if not folder.is_dir():
        return None
    try:
        saved = Description.read(Path(output_dir) / RUN_FOLDER).values.get("saved")
        is_own = saved is None or files_digest(folder) == saved[str(step)]
    except (SnapshotError, OSError, LookupError, TypeError):
        return None
    return folder if is_own else None


def carried_look(checkpoint: Path) -> Path | None:
    """Return the look of its own step that a checkpoint carries; None if it has none, or other files now."""
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
    """Return True if a checkpoint, and its adapter's base, have the files of when a history was copied into it."""
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
    """Return the baseline of its run that a checkpoint carries; None if it has none."""
    path = checkpoint / CARRIED / BASELINE
    return path if path.is_file() else None


@dataclass(frozen=True)
class GuardFinding:
    """One finding of the guard of a run.

    Attributes:
        what: ``alarm``, ``known``, ``policy``, ``must_pass``, ``vanished`` or ``not_finite``.
        name: The group's level and name, what is limited, or the item's id.
        step: Optimizer step of the look; -1 if unknown.
        line: The finding in one line, without text of any item.
    """

    what: str
    name: str
    step: int
    line: str

    @classmethod
    def of(cls, stored: object) -> Self | None:
        """Return the finding from the JSON values of its attributes; None if they are not those of a finding."""
        if not isinstance(stored, dict) or set(stored) != {"what", "name", "step", "line"}:
            return None
        step = stored["step"]
        return cls(
            str(stored["what"]),
            str(stored["name"]),
            step if type(step) is int else -1,
            str(stored["line"]),
        )


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How far a training came, and which weights it left.

    Attributes:
        state: ``running``, also of one that was killed; ``ended``; or ``stopped`` by its guard.
        last_step: The last optimizer step that is known.
        max_steps: Steps of the training; None if unknown.
        failed: (Step, cause) of each look that failed, by rising step.
        delivered: Step of the weights that it left; None while it is running, or if they are of no step.
    """

    state: State = "running"
    last_step: int = 0
    max_steps: int | None = None
    failed: tuple[tuple[int, str], ...] = ()
    delivered: int | None = None

    @property
    def stored(self) -> dict[str, Any]:
        """The JSON values of ``run.json``."""
        return {
            **vars(self),
            "failed": [{"step": step, "cause": cause} for step, cause in self.failed],
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self | None:
        """Read the ending of a run from its JSON values.

        Returns:
            The ending; None in folders of earlier versions.

        Raises:
            LookupError, TypeError, ValueError: If it is damaged.
        """
        if "state" not in stored:
            return None
        if stored["state"] not in get_args(State):
            raise ValueError(
                f"needed one of {', '.join(get_args(State))} as state, got {stored['state']!r}"
            )
        most, delivered = stored["max_steps"], stored["delivered"]
        return cls(
            state=stored["state"],
            last_step=_whole_number(stored["last_step"]),
            max_steps=None if most is None else _whole_number(most),
            failed=tuple(
                (_whole_number(one["step"]), str(one["cause"])) for one in stored["failed"]
            ),
            delivered=None if delivered is None else _whole_number(delivered),
        )

    def later(self, by: int) -> Self:
        """Return the ending with all steps later by a number of steps."""
        return replace(
            self,
            last_step=self.last_step + by,
            max_steps=None if self.max_steps is None else self.max_steps + by,
            failed=tuple((step + by, cause) for step, cause in self.failed),
            delivered=None if self.delivered is None else self.delivered + by,
        )


@dataclass(frozen=True)
class TaskFigure:
    """Figure that the trainer logged for the new task, such as its loss.

    Attributes:
        name: Its name in the trainer's log.
        values: (step, value) of each time, by rising step; at least one.
        broken: Step of the first value after these that is not finite; None without one.
    """

    name: str
    values: tuple[tuple[int, float], ...]
    broken: int | None = None

    @property
    def stored(self) -> dict[str, object]:
        """The JSON values of ``run.json``: the name, and at most `_KEPT` values, the first and the last among them."""
        every = max(1, math.ceil((len(self.values) - 1) / (_KEPT - 1)))
        kept = self.values[:-1:every] + self.values[-1:]
        return {"name": self.name, "values": [list(one) for one in kept], "broken": self.broken}

    @property
    def falls(self) -> bool:
        """True for a figure that is better when it is lower, such as a loss."""
        return self.name.rpartition("_")[2] in ("loss", "perplexity")

    def at(self, step: int) -> float | None:
        """Return the last value up to a step; None if the first is later, or it is not finite then."""
        if self.broken is not None and step >= self.broken:
            return None
        return next((value for when, value in reversed(self.values) if when <= step), None)

    def __str__(self) -> str:
        (start, before), (end, now) = self.values[0], self.values[-1]
        name = visible(self.name.replace("_", " "))
        text = (
            f"{name} {before:.3g} -> {now:.3g}"
            if end != start
            else f"{name} {before:.3g} at step {start:,}"
        )
        return text if self.broken is None else f"{text}, not finite at step {self.broken:,}"


_KEPT: Final = 200
"""Values of a figure that a run folder keeps."""


@dataclass(frozen=True, kw_only=True)
class Description:
    """Content of ``run.json``.

    Attributes:
        values: Its values; empty if it cannot be used.
        problem: The reason why it cannot be used; None if it can.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    problem: str | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the description in a run folder; a SnapshotError for a format that this version does not know."""
        path = folder / DESCRIPTION
        if not path.is_file():
            return cls(problem="is missing")
        try:
            if path.stat().st_size > _LONGEST:
                return cls(problem=f"is damaged (larger than {_LONGEST:,} bytes)")
            values = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            return cls(problem=f"cannot be read ({error})")
        if not isinstance(values, dict):
            return cls(
                problem=f"is damaged (a JSON object is needed, it has a {type(values).__name__})"
            )
        if values.get("format") != FORMAT and re.fullmatch(
            r"forgetwatch/run@[0-9]+", str(values.get("format"))
        ):
            raise SnapshotError(
                f"{path}: its format is {values['format']!r}, this version reads {FORMAT!r}; another version of "
                "forgetwatch wrote it, or it is damaged: rename it to read the folder without it"
            )
        if (
            values.pop("checksum", None) != checksum_with("", values)
            or values.get("format") != FORMAT
        ):
            return cls(problem="is damaged (its checksum does not match)")
        made = cls(values=values)
        try:
            _ = made.run, made.listed, made.notes, made.lineage, made.ending
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return cls(problem=f"is damaged ({error!r})")
        return made

    @property
    def is_whole(self) -> bool:
        """True if it lists the snapshots of the run, and so shows which are missing."""
        return self.values.get("format") == FORMAT

    @property
    def run(self) -> str | None:
        """Id of the run; None if unknown."""
        return str(self.values["run"]) if self.is_whole else None

    @property
    def has_null(self) -> bool:
        """True if the run measured its baseline twice."""
        return bool(self.is_whole and self.values.get("null"))

    @property
    def probe_checksum(self) -> str | None:
        """Checksum of the file of the probe; None if unknown."""
        return self._text("probe_checksum")

    @property
    def completions(self) -> str | None:
        """Checksum of the base's completions; None if the run measures no drift, or it is unknown."""
        return self._text("completions")

    @property
    def lineage(self) -> Mapping[str, Any] | None:
        """Earlier runs of the model (``runs``), and the checksum of the first one's baseline; None for a first run."""
        listed = self.values.get("lineage") if self.is_whole else None
        if listed is None:
            return None
        runs = [{"run": str(one["run"]), "name": str(one["name"])} for one in listed["runs"]]
        return (
            {"runs": runs, "first": None if listed["first"] is None else str(listed["first"])}
            if runs
            else None
        )

    @property
    def ending(self) -> Ending | None:
        """How far the training came; None in folders of earlier versions."""
        return Ending.of(self.values) if self.is_whole else None

    @property
    def model(self) -> Mapping[str, Any]:
        """Facts on the model: its architecture, tokenizer and template; empty if unknown."""
        found = self.values.get("model")
        return found if isinstance(found, dict) else {}

    @property
    def training(self) -> Mapping[str, Any]:
        """Settings of the training: its trainer, rate, adapter and `RetentionLoss`; empty if unknown."""
        found = self.values.get("training") if self.is_whole else None
        return found if isinstance(found, dict) else {}

    @property
    def started_with(self) -> str | None:
        """Fingerprint of the model at the start of the run; None if unknown."""
        return self._text("started_with")

    def _text(self, name: str) -> str | None:
        listed = self.values.get(name) if self.is_whole else None
        return None if listed is None else str(listed)

    @property
    def listed(self) -> tuple[int, ...]:
        """Steps of the looks after the baseline, rising; empty if unknown."""
        looks = self.values["looks"] if self.is_whole else ()
        return tuple(sorted(_whole_number(look["step"]) for look in looks))

    @property
    def notes(self) -> tuple[tuple[int, str], ...]:
        """(Step of the resume, sentence) of each file that a resume did not find or did not use."""
        stored = self.values.get("notes") if self.is_whole else None
        return tuple((_whole_number(note["step"]), str(note["note"])) for note in stored or ())

    @property
    def planned(self) -> int | None:
        """Looks planned after the baseline; None if unknown."""
        planned = self.values.get("planned_looks")
        return planned if type(planned) is int and planned > 0 else None

    @property
    def task(self) -> TaskFigure | None:
        """Figure of the new task until the last look; None if none is kept."""
        stored = self.values.get("task") or {}
        try:
            name, values = (
                str(stored["name"]),
                [(int(step), float(value)) for step, value in stored["values"]],
            )
        except (TypeError, KeyError, ValueError):
            return None
        broken = stored.get("broken")
        return (
            TaskFigure(name, tuple(values), broken if type(broken) is int else None)
            if values
            else None
        )

    @cached_property
    def findings(self) -> tuple[GuardFinding, ...]:
        """Findings of the guard, in the order in which they were made."""
        stored = self.values.get("guard")
        found = map(GuardFinding.of, stored if isinstance(stored, list) else ())
        return tuple(finding for finding in found if finding is not None)


def write_description(folder: Path, values: Mapping[str, Any]) -> None:
    """Write ``run.json`` into a run folder; ``format`` and ``checksum`` are added to the JSON values."""
    described = {"format": FORMAT, **values}
    text = json.dumps({**described, "checksum": checksum_with("", described)}, indent=1) + "\n"
    write_atomically(folder / DESCRIPTION, lambda path: path.write_text(text, encoding="utf-8"))


def description_notes(described: Description) -> tuple[str, ...]:
    """Return a note on a description that cannot be used; empty for a whole one."""
    if described.problem is not None:
        return (f"{DESCRIPTION} {described.problem}: nothing shows if a look of the run is gone",)
    return ()


def _whole_number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"needed a whole number, got {value!r}")
    return value


TRAINER_STATE: Final = "trainer_state.json"
"""File of a checkpoint in which the trainer logs metrics."""

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
        until: The last step whose look may be missing; None for any. A run that resumes drops later looks.
    """
    found, files = Contents(), look_files(folder)
    for path in sorted(folder.glob("step-*.parquet")):
        if _step_of(path) is None:
            found.notes.append(
                f"{path.name} has not the name of a file that a run writes (a copy?); it is left out"
            )
    for step, path in files.items():
        try:
            found.looks[step] = _own(path, look="step", run=run, step=step)
        except SnapshotError as error:
            found.notes.append(f"{_short(error, path)}; it is left out")
            if not _is_passing(error):
                found.rejected.append(path)
    if gone := [
        step for step in described.listed if step not in files and (until is None or step <= until)
    ]:
        found.notes.append(_missing(gone))
    return found


def read_baseline(folder: Path, described: Description) -> Snapshot:
    """Read the baseline in a run folder; a SnapshotError if it cannot be read, or is not that of the run."""
    return _own(folder / BASELINE, look="baseline", run=described.run)


def read_null(
    folder: Path, described: Description, *, run: str | None
) -> tuple[Snapshot | None, tuple[str, ...]]:
    """Return (Second measurement of the baseline in a run folder, None without one; notes on one that is not used)."""
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
    """Return (Probe of a run, for the text of its questions, None without one; notes on one that is not used)."""
    path, without = folder / PROBE, "; questions are shown by their ids"
    # Then its rows hold the content hashes of the questions, and a file with another question is not used.
    is_known = (baseline.meta.get("probe") or {}).get("fingerprint") is not None
    # A checkpoint carries no text.
    if not path.exists() and (not is_known or folder.name == CARRIED):
        return None, ()
    try:
        found = read_probe(path)
        is_changed = described.probe_checksum not in (None, checksum_of(path))
        if is_changed or (is_known and not _holds_questions(found, baseline)):
            raise ProbeError(f"{path}: its items are not those of the run")
    except ProbeError as error:
        return None, (f"{_short(error, path)}{without}",)
    return found, ()


def checksum_of(path: Path) -> str:
    """Return the first 32 hex digits of SHA-256 over the bytes of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:32]


def _holds_questions(probe: Probe, baseline: Snapshot) -> bool:
    hashes = {(item.task, item.id): item.content_hash for item in probe}
    rows = zip(*(baseline.texts(name) for name in ("task", "item_id", "content_hash")), strict=True)
    return all(hashes.get((task, item_id)) == content_hash for task, item_id, content_hash in rows)


def look_files(folder: Path) -> dict[int, Path]:
    """Return the files of the looks by step, in rising order; other spellings of a name are none."""
    # By number: from step 1,000,000 on the names do not sort like the steps.
    named = (
        (step, path)
        for path in folder.glob("step-*.parquet")
        if (step := _step_of(path)) is not None
    )
    return dict(sorted(named))


def _is_passing(error: SnapshotError) -> bool:
    """Return True if a file could not be read for a reason that may pass, such as a slow network disk."""
    cause = error.__cause__
    # Errors of decoders have no number.
    return isinstance(cause, MemoryError) or (
        isinstance(cause, OSError) and cause.errno is not None
    )


def _own(path: Path, *, look: Look, run: str | None, step: int | None = None) -> Snapshot:
    """Return the snapshot in a file; a SnapshotError if it is not the one that this name in this run must hold."""
    found = read_snapshot(path)
    meta = found.meta
    if meta.get("look", look) != look:
        raise SnapshotError(
            f"{path}: does not match its name, it holds a snapshot of another kind ({meta['look']!r})"
        )
    if type(meta.get("step")) is not int:
        raise SnapshotError(f"{path}: its metadata name no step, got {meta.get('step')!r}")
    if step is not None and meta["step"] != step:
        raise SnapshotError(f"{path}: does not match its name, it holds step {meta['step']}")
    if run is not None and meta.get("run") != run:
        raise SnapshotError(
            f"{path}: belongs to another run (id {meta.get('run')!r}, needed {run!r})"
        )
    return found


def _step_of(path: Path) -> int | None:
    """Return the step in the name of a look's file; None if the name is another one."""
    match = re.fullmatch(r"step-([0-9]{1,18})\.parquet", path.name)
    return int(match[1]) if match and path.name == look_name(int(match[1])) else None


def _missing(steps: Sequence[int]) -> str:
    if len(steps) == 1:
        return f"the look at step {steps[0]} is missing ({look_name(steps[0])})"
    return f"{len(steps):,} looks are missing: {some_of(map(look_name, steps), _NAMED)}"


def _short(error: ForgetwatchError, path: Path) -> str:
    """Return the message of an error on a file, with the name of the file in place of its path."""
    return f"{path.name}: {str(error).removeprefix(f'{path}: ').replace(f'{path}, ', '')}"


FIGURES: Final = ("eval_accuracy", "eval_reward", "eval_loss", "reward", "loss")
"""Figures of the new task in the trainer's log; the first that is there is shown."""


def task_figure(output_dir: Path) -> TaskFigure | None:
    """Return the figure of the new task in the trainer's state of the latest checkpoint.

    None if nothing usable is stored.
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


def logged_figure(
    entries: Sequence[Mapping[str, object]], *, chosen: str | None = None
) -> TaskFigure | None:
    """Return the figure of the new task in the rows of a trainer's log; None if none has one.

    `chosen` is the metric by which the trainer chooses its best checkpoint, None for none.
    """
    for name in (*([] if chosen is None else [chosen, f"eval_{chosen}"]), *FIGURES):
        logged = [
            (entry.get("step"), math.nan if _is_hidden(entry, name) else entry.get(name))
            for entry in entries
        ]
        values = [
            (at, value)
            for at, value in logged
            if type(at) is int and isinstance(value, int | float)
        ]
        if finite := [(at, float(value)) for at, value in values if math.isfinite(value)]:
            broken = next(
                (at for at, value in values if not math.isfinite(value) and at > finite[-1][0]),
                None,
            )
            return TaskFigure(name, tuple(finite), broken)
    return None


def _is_hidden(entry: Mapping[str, object], name: str) -> bool:
    """Is this a loss that is not finite, of which the trainer logs 0 (transformers' `logging_nan_inf_filter`)?"""
    norm = entry.get("grad_norm")
    return entry.get(name) == 0 and isinstance(norm, int | float) and not math.isfinite(norm)


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
        task: Figure of the new task, if the trainer's checkpoints are beside the folder and one logged it.
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
        """The look of the weights that the training left; the last look if those have none."""
        looks = (self.baseline, *self.looks)
        delivered = None if self.described.ending is None else self.described.ending.delivered
        return next((look for look in looks if look.meta["step"] == delivered), looks[-1])

    @classmethod
    def read(cls, given: str | Path) -> Self:
        """Read a run folder; `given` is that folder or the output_dir that holds it.

        Raises:
            SnapshotError: If its baseline is missing, damaged or of another run, or if another version wrote it.
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


def is_run_folder(given: str | Path) -> bool:
    """Return True if the path is a run folder, or the output_dir that holds one."""
    inside = any((Path(given) / name).is_dir() for name in (RUN_FOLDER, FOLLOW_FOLDER))
    return inside or (Path(given) / BASELINE).is_file()


def find_run_folder(given: str | Path) -> Path:
    """Return the path of the run folder: the given folder itself, or the run folder in it, that of the training first.

    Raises:
        SnapshotError: If it holds no baseline.
    """
    folder = Path(given)
    for name in (RUN_FOLDER, FOLLOW_FOLDER):
        if (folder / name).is_dir():
            folder /= name
            break
    if not (folder / BASELINE).is_file():
        raise SnapshotError(
            f"{folder}: needed a run folder with {BASELINE}, found none there; give the output_dir of a run, "
            f"or the {RUN_FOLDER} in it"
        )
    return folder


def run_probe(given: str | Path) -> Probe | None:
    """Return the probe of a run, for the text of its questions.

    None if it cannot be read, or is that of another run.
    """
    try:
        folder = find_run_folder(given)
        return read_questions(folder, Description.read(folder), read_snapshot(folder / BASELINE))[0]
    except SnapshotError:
        return None
