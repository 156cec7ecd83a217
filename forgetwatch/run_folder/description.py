"""Names of the files of a run, and ``run.json``: the steps of its looks, with a checksum of its own.

    {"format": "forgetwatch/run@4", "run": "4be1...", "probe_checksum": "03d1...",
     "null": true, "looks": [{"step": 200, "seconds": 3.1}, ...],
     "planned_looks": 12, "guard": [...], "state": "ended", "last_step": 2400, "max_steps": 2400,
     "failed": [{"step": 2200, "cause": "out of memory"}], "delivered": 2400, ..., "checksum":
     "77ab..."}

Readers obey it: the number of planned looks sets the level of the alarms, and the list shows which
looks there must be. A description that is missing or damaged is never used in part.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, Self, get_args

from forgetwatch.errors import SnapshotError
from forgetwatch.files.table_files import checksum_with
from forgetwatch.files.writing import write_atomically
from forgetwatch.run_folder.task_figure import TaskFigure

RUN_FOLDER: Final = "_forgetwatch"
"""Name of the run folder in the run's output_dir."""

FOLLOW_FOLDER: Final = "_forgetwatch_follow"
"""Name of the run folder of a process that follows the run from outside it."""

PROBE: Final = "probe.jsonl"

NULL: Final = "null.parquet"


def checkpoint_folder(output_dir: str | Path, step: int) -> Path:
    """Folder in which a trainer saves the checkpoint of a step."""
    return Path(output_dir) / f"checkpoint-{step}"


def own_checkpoint(output_dir: str | Path, step: int) -> Path | None:
    """Find the checkpoint that this run saved at a step.

    Returns:
        The folder, or None if it is missing or has other files now. A run without a trainer's
        callback has no list of what was saved; then any folder counts.
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


CARRIED: Final = "forgetwatch"
"""Name of the folder in a checkpoint that carries copies."""


BASELINE: Final = "baseline.parquet"


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
    """Name of the file of a look."""
    return f"step-{step:06d}.parquet"


def files_digest(folder: Path) -> str:
    """Hash names, sizes and samples of model and tokenizer files.

    SHA-256.

    Samples are the first 64 KiB, which hold the header of a safetensors file, and 64 pieces of 4
    KiB: a training moves all weights. A copy of the folder has the same digest. The files of a
    sharded checkpoint are in folders of it.
    """
    digest = hashlib.sha256()
    entries = [*folder.glob("*")]
    files = [
        path
        for path in entries
        if path.suffix in _WEIGHTS or path.name in CONFIGS or _TOKENIZER.fullmatch(path.name)
    ]
    shards = [
        file
        for file in folder.glob("*/*")
        if file.suffix in _SHARDS and file.parent.name != CARRIED
    ]
    for file in sorted([*files, *shards]):
        size = file.stat().st_size
        digest.update(f"{file.relative_to(folder).as_posix()} {size}\n".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(2**16))
            for piece in range(_PIECES):
                stream.seek(size * piece // _PIECES)
                digest.update(stream.read(2**12))
    return digest.hexdigest()[:32]


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
        """Read a finding from JSON values.

        Returns:
            The finding, or None if the values are not those of a finding.
        """
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
        delivered: Step of the weights that it left; None while it is running, or if they are of no
            step.
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
        """Read the ending of a run from JSON values.

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
        max_steps, delivered = stored["max_steps"], stored["delivered"]
        return cls(
            state=stored["state"],
            last_step=_whole_number(stored["last_step"]),
            max_steps=None if max_steps is None else _whole_number(max_steps),
            failed=tuple(
                (_whole_number(failure["step"]), str(failure["cause"]))
                for failure in stored["failed"]
            ),
            delivered=None if delivered is None else _whole_number(delivered),
        )

    def later(self, by: int) -> Self:
        """Move all steps later by a number of steps."""
        return replace(
            self,
            last_step=self.last_step + by,
            max_steps=None if self.max_steps is None else self.max_steps + by,
            failed=tuple((step + by, cause) for step, cause in self.failed),
            delivered=None if self.delivered is None else self.delivered + by,
        )


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
        """Read the description in a run folder.

        Raises:
            SnapshotError: If this version does not know the format.
        """
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
                f"{path}: its format is {values['format']!r}, this version reads {FORMAT!r}; "
                "another version of "
                "forgetwatch wrote it, or it is damaged: rename it to read the folder without it"
            )
        if (
            values.pop("checksum", None) != checksum_with("", values)
            or values.get("format") != FORMAT
        ):
            return cls(problem="is damaged (its checksum does not match)")
        description = cls(values=values)
        try:
            _ = (
                description.run,
                description.listed,
                description.notes,
                description.lineage,
                description.ending,
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            return cls(problem=f"is damaged ({error!r})")
        return description

    @property
    def is_whole(self) -> bool:
        """Does the description list the snapshots of the run?

        The list shows which are missing.
        """
        return self.values.get("format") == FORMAT

    @property
    def run(self) -> str | None:
        """Id of the run.

        Returns:
            The id, or None if unknown.
        """
        return str(self.values["run"]) if self.is_whole else None

    @property
    def has_null(self) -> bool:
        """Did the run measure the baseline twice?"""
        return bool(self.is_whole and self.values.get("null"))

    @property
    def probe_checksum(self) -> str | None:
        """Checksum of the probe's file.

        Returns:
            The checksum, or None if unknown.
        """
        return self._text("probe_checksum")

    @property
    def completions(self) -> str | None:
        """Checksum of the base's completions.

        Returns:
            The checksum, or None if no drift is measured, or it is unknown.
        """
        return self._text("completions")

    @property
    def lineage(self) -> Mapping[str, Any] | None:
        """Earlier runs of the model, and the first baseline's checksum.

        Returns:
            The runs under ``runs``; None for a first run.
        """
        listed = self.values.get("lineage") if self.is_whole else None
        if listed is None:
            return None
        runs = [{"run": str(run["run"]), "name": str(run["name"])} for run in listed["runs"]]
        return (
            {"runs": runs, "first": None if listed["first"] is None else str(listed["first"])}
            if runs
            else None
        )

    @property
    def ending(self) -> Ending | None:
        """How far the training came.

        Returns:
            The ending, or None in folders of earlier versions.
        """
        return Ending.of(self.values) if self.is_whole else None

    @property
    def model(self) -> Mapping[str, Any]:
        """Architecture, tokenizer and template; empty if unknown."""
        model = self.values.get("model")
        return model if isinstance(model, dict) else {}

    @property
    def training(self) -> Mapping[str, Any]:
        """Settings of the training; empty if unknown.

        Trainer, rate, adapter and `RetentionLoss`.
        """
        training = self.values.get("training") if self.is_whole else None
        return training if isinstance(training, dict) else {}

    @property
    def started_with(self) -> str | None:
        """Fingerprint of the model at the start of the run.

        Returns:
            The fingerprint, or None if unknown.
        """
        return self._text("started_with")

    def _text(self, name: str) -> str | None:
        listed = self.values.get(name) if self.is_whole else None
        return None if listed is None else str(listed)

    @property
    def listed(self) -> tuple[int, ...]:
        """Steps of the looks after the baseline, rising."""
        looks = self.values["looks"] if self.is_whole else ()
        return tuple(sorted(_whole_number(look["step"]) for look in looks))

    @property
    def notes(self) -> tuple[tuple[int, str], ...]:
        """Files that a resume did not find or use.

        Step of the resume, and a sentence, for each.
        """
        stored = self.values.get("notes") if self.is_whole else None
        return tuple((_whole_number(note["step"]), str(note["note"])) for note in stored or ())

    @property
    def planned(self) -> int | None:
        """Looks planned after the baseline.

        Returns:
            The number, or None if unknown.
        """
        planned = self.values.get("planned_looks")
        return planned if type(planned) is int and planned > 0 else None

    @property
    def task(self) -> TaskFigure | None:
        """Figure of the new task until the last look.

        Returns:
            The figure, or None if none is kept.
        """
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
        """Findings of the guard, in order of time."""
        stored = self.values.get("guard")
        findings = map(GuardFinding.of, stored if isinstance(stored, list) else ())
        return tuple(finding for finding in findings if finding is not None)


def write_description(folder: Path, values: Mapping[str, Any]) -> None:
    """Write ``run.json``, with format and checksum."""
    described = {"format": FORMAT, **values}
    document = json.dumps({**described, "checksum": checksum_with("", described)}, indent=1) + "\n"
    write_atomically(folder / DESCRIPTION, lambda path: path.write_text(document, encoding="utf-8"))


def _whole_number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"needed a whole number, got {value!r}")
    return value
