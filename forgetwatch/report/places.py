"""Names of models for people, and where those of a run are: the base, the start of a stage, the last checkpoint.

A run records the name by which its model was loaded. A folder may be recorded relative to where the training ran; it is
searched from here, and from each folder above the run.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forgetwatch.comparing import Comparison, Trajectory
from forgetwatch.errors import SnapshotError
from forgetwatch.pairing import fit_ends, run_name
from forgetwatch.run_folder import (
    PROBE,
    RUN_FOLDER,
    Description,
    find_run_folder,
    own_checkpoint,
)

CONFIG: Final = "config.json"
ADAPTER: Final = "adapter_config.json"
"""Files by which a folder is a model, or an adapter."""

UNKNOWN: Final = "BASE"
"""What stands in a command for a model whose place is not known."""

_CLASS: Final = re.compile(r"model|[A-Z]\w*(For[A-Z]\w+|Model)")
"""What metadata have for the name of a model that was made in memory: ``model``, or its class."""

_ID: Final = re.compile(r"[\w.-]+/[\w.-]+|[\w-]+")
"""Id of a model of the hub; a relative folder may look the same."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """How a command names a model.

    Attributes:
        name: A folder that is there, an id of the hub, or `UNKNOWN`.
        is_folder: True for a folder that is there.
        note: What `UNKNOWN` stands for; else empty.
    """

    name: str
    is_folder: bool = False
    note: str = ""


def place_of(meta: Mapping[str, Any], run: Path, *, loaded: str = "") -> Place:
    """Return the place of the model that the metadata of a snapshot name.

    Args:
        meta: Metadata of the snapshot.
        run: The run folder or output_dir, above which a relative folder is searched.
        loaded: ``folder``, ``name`` or ``memory``, by which the run loaded it; empty if unknown.
    """
    recorded = str(meta.get("model") or "")
    if loaded == "memory" or recorded in ("", "model"):
        return Place(name=UNKNOWN, note=f"{UNKNOWN} is the model before the training, which has no name here")
    try:
        folder = next((one for one in _searched(recorded, run) if is_model(one)), None)
        was_folder = loaded == "folder" or Path(recorded).is_absolute() or _is_in_a_folder(recorded, run)
    except (OSError, ValueError):  # a model in memory may have any name
        folder, was_folder = None, True
    if folder is not None:
        return Place(name=str(folder), is_folder=True)
    if _ID.fullmatch(recorded) and not was_folder:
        return Place(name=recorded)
    return Place(name=UNKNOWN, note=f"{UNKNOWN} is recorded as {recorded}, which is not found from here")


def _searched(recorded: str, run: Path) -> list[Path]:
    here = Path(recorded)
    return [here] if here.is_absolute() else [here, *(above / here for above in run.resolve().parents)]


def _is_in_a_folder(recorded: str, run: Path) -> bool:
    """Return True if the first part of a relative name is a folder here or above the run: what is in it is gone."""
    first, *rest = Path(recorded).parts
    return bool(rest) and any(one.is_dir() for one in _searched(first, run))


def is_model(folder: Path) -> bool:
    """Return True for a folder that holds a model or an adapter."""
    return (folder / CONFIG).is_file() or (folder / ADAPTER).is_file()


@dataclass(frozen=True, kw_only=True)
class RunPlaces:
    """Models of a run.

    Attributes:
        output_dir: The folder of its checkpoints.
        first: Base of the first training; of a first training the same as `start`.
        start: Model at the start of this training.
        end: Checkpoint of the last look; None if it is not there.
    """

    output_dir: Path
    first: Place
    start: Place
    end: Path | None


def places_of(trajectory: Trajectory, run: Path | str) -> RunPlaces:
    """Return where the models of a run are; `run` is its output_dir, or the run folder in it."""
    given = Path(run)
    try:
        folder = find_run_folder(given)
        loaded = str(Description.read(folder).model.get("loaded", ""))
    except SnapshotError:
        folder, loaded = given, ""
    output_dir = given.parent if folder == given else given
    start = place_of(trajectory.own.baseline.meta, folder, loaded=loaded)
    first = start if trajectory.stage is None else place_of(trajectory.baseline.meta, folder)
    end = own_checkpoint(output_dir, trajectory.steps[-1])
    is_there = end is not None and is_model(end)
    return RunPlaces(output_dir=output_dir, first=first, start=start, end=end if is_there else None)


def _kind(folder: Path) -> str | None:
    """Return the architecture that a folder names; None for an adapter, and where it names none."""
    if (folder / ADAPTER).is_file():
        return None
    try:
        found = json.loads((folder / CONFIG).read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        return None
    return None if found is None else str(found)


def merge_command(before: Path | str, after: Path | str, probe: str | None = None, *options: str) -> str:
    """Return the command that merges two models on a probe, if both are on disk; empty if not.

    By default the probe is that of the run whose checkpoint comes after.
    """
    base, tuned = Path(before), Path(after)
    try:
        are_models = (base / CONFIG).is_file() and is_model(tuned) and len({_kind(base), _kind(tuned)} - {None}) < 2
        of_run = tuned.parent / RUN_FOLDER / PROBE
        named = str(of_run) if probe is None and of_run.is_file() else probe
    except (OSError, ValueError):  # a model in memory may have any name
        return ""
    given = [*options] if named is None else ["--probe", named, *options]
    return shlex.join(["forgetwatch", "merge", str(before), str(after), *given]) if are_models else ""


def model_names(comparison: Comparison) -> tuple[str, str]:
    """Names of the two models for people: folder or id, and step; never a class of a library."""
    sides = (comparison.before, comparison.after)
    before, after = (_name(meta, label) for meta, label in zip(sides, comparison.labels, strict=True))
    return before, after


def run_title(trajectory: Trajectory, run: Path | str = "", *, of: int | None = None, against: str = "") -> str:
    """Return the title of a run: its name, its last step, and what this is compared with.

    Args:
        trajectory: The run.
        run: Its folder, which names it; without one the model does.
        of: Number of steps of the training, if known.
        against: What it is compared with; by default its start, in a later stage the base of the first.
    """
    meta = trajectory.comparisons[-1].after
    named = run_name(Path(run)) if run else ""
    if not named:
        named = _name({**meta, "step": None}, str(meta.get("model", "")).rstrip("/").rsplit("/", maxsplit=1)[-1])
    named = shortened(named)
    first, last = trajectory.steps[0], trajectory.steps[-1]
    start = against or (f"step {first:,}" if first > 0 else "the start")
    if trajectory.stage is not None:
        start = f"the first base, stage {trajectory.number}"
    last_step = f"step {last:,}" + ("" if of is None else f" of {of:,}")
    return f"{named}, {last_step} against {start}" if named and named != _UNNAMED else f"{last_step} against {start}"


def shortened(name: str) -> str:
    """Return a name without its middle if it takes more than `_LONGEST` columns, so that a title keeps its step."""
    return fit_ends(name, _LONGEST).rstrip()


_UNNAMED: Final = "the model"
_LONGEST: Final = 24


def _name(meta: Mapping[str, Any], label: str) -> str:
    if _CLASS.fullmatch(str(meta.get("model", ""))) is None:
        return label
    source = meta.get("source")
    name = run_name(Path(str(source)).parent) if source else _UNNAMED
    return name if meta.get("step") is None else f"{name} at step {meta['step']}"
