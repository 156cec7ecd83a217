"""Lineage: the watched trainings that a model has been through before a run, and the base of the first of them.

    base ── run 1: SFT ── run 2: DPO ── this run, stage 3
    first base                          start of this stage

A run of a later stage has two references: its own baseline, which is the start of the stage, and
the baseline of the first run, in ``first.parquet``. Without the second one the losses of earlier
stages would be in no count.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.run_folder.contents import is_as_carried, look_files, read_baseline
from forgetwatch.run_folder.description import (
    BASELINE,
    CARRIED,
    CONFIGS,
    FIRST,
    RUN_FOLDER,
    Description,
    Ending,
    own_checkpoint,
)
from forgetwatch.snapshot import Snapshot, read_snapshot

_WORDS: Final = {
    "architecture": "architectures",
    "layers": "numbers of layers",
    "width": "widths",
    "tokenizer": "tokenizers",
    "vocabulary": "numbers of tokens",
}

NAMED: Final = "the name given"
"""Value of `how` for a lineage that the user named."""


@dataclass(frozen=True, kw_only=True)
class Ancestor:
    """An earlier training: the id of its run, and the name of its output_dir."""

    run: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Lineage:
    """The trainings before a run.

    Attributes:
        runs: The earlier runs, the first one first; at least one.
        first: Baseline of the first run; None if it is lost, or not counted against.
        how: How it was found, in words.
        model: Facts on the model of the latest of them, as `run.json` keeps them; empty if unknown.
    """

    runs: tuple[Ancestor, ...]
    first: Snapshot | None
    how: str
    model: Mapping[str, Any]
    checksum: str | None = None  # of the baseline of the first run, where its file is lost
    adapter: str | None = (
        ""  # its kind, of the latest of them; None if it trained none, empty if unknown
    )
    end: Snapshot | None = None  # the last look of the latest of them, where its folder was read

    @property
    def stage(self) -> int:
        """Number of the stage that the run is, from 2."""
        return len(self.runs) + 1

    @property
    def values(self) -> dict[str, Any]:
        """The JSON values of ``run.json``."""
        checksum = self.checksum if self.first is None else self.first.full_checksum
        return {"runs": [vars(run) for run in self.runs], "first": checksum, "how": self.how}


def stored_lineage(described: Description) -> tuple[Ancestor, ...]:
    """Earlier runs that a run folder names; none for a first training."""
    listed = described.lineage
    return (
        tuple(Ancestor(run=str(run["run"]), name=str(run["name"])) for run in listed["runs"])
        if listed
        else ()
    )


def read_first(folder: Path, described: Description) -> tuple[Snapshot | None, tuple[str, ...]]:
    """Read the baseline of the lineage's first run.

    Returns:
        The baseline, or None; and notes on one that cannot be used.
    """
    listed = described.lineage
    if listed is None or listed["first"] is None:
        return None, ()
    without = "; losses are counted from the start of this stage alone"
    try:
        first_base = read_snapshot(folder / FIRST)
    except SnapshotError:
        return None, (
            f"{FIRST}, the baseline of the first training, is missing or damaged{without}",
        )
    if first_base.full_checksum != listed["first"]:
        return None, (f"{FIRST} is not the file that run.json lists{without}",)
    return first_base, ()


def check_one_model(
    earlier: Mapping[str, Any], now: Mapping[str, Any], *, with_template: bool = False
) -> str:
    """Reason why one model cannot have become the other.

    Returns:
        The reason, or an empty text if none is known.
    """
    for setting in _WORDS:
        if _differs(earlier, now, setting):
            values = "" if setting == "tokenizer" else f" ({earlier[setting]}, then {now[setting]})"
            return f"their models have unlike {_WORDS[setting]}{values}"
    if with_template and _differs(earlier, now, "template"):
        return "their models have unlike chat templates, in which the questions are other texts"
    return ""


def _differs(earlier: Mapping[str, Any], now: Mapping[str, Any], setting: str) -> bool:
    return (
        earlier.get(setting) is not None
        and now.get(setting) is not None
        and earlier[setting] != now[setting]
    )


def folder_of(given: Path) -> Path | None:
    """Find the run folder of a model, an output_dir or a run.

    A model that is no checkpoint belongs to the run of the folder that it is in.

    Returns:
        The folder, or None.
    """
    # The copy in a checkpoint knows best: two trainings may have ended with the same weights.
    inside = [*([given / CARRIED] if is_as_carried(given) else []), given, given / RUN_FOLDER]
    step = given.name.removeprefix("checkpoint-")
    is_checkpoint = step != given.name and step.isdecimal()
    is_model = any((given / name).is_file() for name in CONFIGS)
    is_own = own_checkpoint(given.parent, int(step)) is not None if is_checkpoint else is_model
    beside = [given.parent / RUN_FOLDER] if is_own else []
    return next((path for path in (*inside, *beside) if (path / BASELINE).is_file()), None)


def _last_look(folder: Path, ending: Ending | None) -> Snapshot | None:
    # A checkpoint's copy counts only for the checkpoint's own step.
    looks = look_files(folder)
    delivered = None if ending is None else ending.delivered
    last_step = delivered if delivered in looks else max(looks, default=None)
    if last_step is None or (
        folder.name == CARRIED and folder.resolve().parent.name != f"checkpoint-{last_step}"
    ):
        return None
    try:
        return read_snapshot(looks[last_step])
    except SnapshotError:
        return None


def lineage_after(folder: Path, *, how: str, fingerprint: str | None = None) -> Lineage | None:
    """Lineage of a run that begins with a model of another run.

    Returns:
        The lineage, or None for a first training. If the earlier run itself began with a model of
        this fingerprint, it is no ancestor: the lineage is its own.

    Raises:
        SnapshotError: If the folder holds no baseline of its run, or a damaged one.
    """
    described = Description.read(folder)
    baseline = read_baseline(folder, described)
    output_dir = folder.resolve().parent
    # A copy in a checkpoint, or the run folder in the output_dir.
    name = output_dir.parent.name if folder.name == CARRIED else output_dir.name
    run = described.run or str(baseline.meta.get("run"))
    first_base, notes = read_first(folder, described)
    if notes:
        raise SnapshotError(f"{folder}: {notes[0]}")
    runs = (*stored_lineage(described), Ancestor(run=run, name=name))
    if fingerprint is not None and described.started_with == fingerprint:
        runs = runs[:-1]
    if not runs:
        return None
    return Lineage(
        runs=runs,
        first=baseline if first_base is None else first_base,
        how=how,
        model=described.model,
        adapter=described.training.get("adapter", ""),
        end=_last_look(folder, described.ending),
    )
