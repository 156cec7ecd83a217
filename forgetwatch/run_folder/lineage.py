"""Lineage: the watched trainings that a model has been through before a run, and the base of the first of them.

    base ── run 1: SFT ── run 2: DPO ── this run, stage 3
    first base                          start of this stage

A run of a later stage has two references: its own baseline, which is the start of the stage, and the baseline of the
first run, in ``first.parquet``. Without the second one the losses of earlier stages would be in no count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forgetwatch.errors import SnapshotError
from forgetwatch.run_folder.description import (
    BASELINE,
    CARRIED,
    CONFIGS,
    FIRST,
    RUN_FOLDER,
    Description,
    Ending,
    is_as_carried,
    look_files,
    own_checkpoint,
    read_baseline,
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
        return {"runs": [vars(one) for one in self.runs], "first": checksum, "how": self.how}


def stored_lineage(described: Description) -> tuple[Ancestor, ...]:
    """Return the earlier runs that a run folder names; empty for a first training."""
    listed = described.lineage
    return (
        tuple(Ancestor(run=str(one["run"]), name=str(one["name"])) for one in listed["runs"])
        if listed
        else ()
    )


def read_first(folder: Path, described: Description) -> tuple[Snapshot | None, tuple[str, ...]]:
    """Return (Baseline of the first run of the lineage, None if there is none; notes on one that cannot be used)."""
    listed = described.lineage
    if listed is None or listed["first"] is None:
        return None, ()
    without = "; losses are counted from the start of this stage alone"
    try:
        found = read_snapshot(folder / FIRST)
    except SnapshotError:
        return None, (
            f"{FIRST}, the baseline of the first training, is missing or damaged{without}",
        )
    if found.full_checksum != listed["first"]:
        return None, (f"{FIRST} is not the file that run.json lists{without}",)
    return found, ()


def check_one_model(
    earlier: Mapping[str, Any], now: Mapping[str, Any], *, with_template: bool = False
) -> str:
    """Return the reason why the model of one run cannot have become that of another; empty if there is none known."""
    for what in _WORDS:
        if _differs(earlier, now, what):
            values = "" if what == "tokenizer" else f" ({earlier[what]}, then {now[what]})"
            return f"their models have unlike {_WORDS[what]}{values}"
    if with_template and _differs(earlier, now, "template"):
        return "their models have unlike chat templates, in which the questions are other texts"
    return ""


def _differs(earlier: Mapping[str, Any], now: Mapping[str, Any], what: str) -> bool:
    return (
        earlier.get(what) is not None and now.get(what) is not None and earlier[what] != now[what]
    )


def folder_of(given: Path) -> Path | None:
    """Return the run folder that belongs to a model's folder, an output_dir or a run folder; None without one.

    A model that is no checkpoint belongs to the run of the folder that it is in.
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
    """Return the look of the end in a folder; of a checkpoint's copy only if it is of the checkpoint's own step."""
    looks = look_files(folder)
    delivered = None if ending is None else ending.delivered
    last = delivered if delivered in looks else max(looks, default=None)
    if last is None or (
        folder.name == CARRIED and folder.resolve().parent.name != f"checkpoint-{last}"
    ):
        return None
    try:
        return read_snapshot(looks[last])
    except SnapshotError:
        return None


def lineage_after(folder: Path, *, how: str, fingerprint: str | None = None) -> Lineage | None:
    """Return the lineage of a run that begins with a model of the run in a folder.

    If that run itself began with a model of this fingerprint, it is no ancestor: the lineage is its own, None if it was
    a first training.

    Raises:
        SnapshotError: If the folder holds no baseline of its run, or a damaged one.
    """
    described = Description.read(folder)
    baseline = read_baseline(folder, described)
    output_dir = folder.resolve().parent
    # A copy in a checkpoint, or the run folder in the output_dir.
    name = output_dir.parent.name if folder.name == CARRIED else output_dir.name
    run = described.run or str(baseline.meta.get("run"))
    first, notes = read_first(folder, described)
    if notes:
        raise SnapshotError(f"{folder}: {notes[0]}")
    runs = (*stored_lineage(described), Ancestor(run=run, name=name))
    if fingerprint is not None and described.started_with == fingerprint:
        runs = runs[:-1]
    if not runs:
        return None
    return Lineage(
        runs=runs,
        first=baseline if first is None else first,
        how=how,
        model=described.model,
        adapter=described.training.get("adapter", ""),
        end=_last_look(folder, described.ending),
    )
