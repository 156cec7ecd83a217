"""Where the models of a run are: the base, the start of a stage, the last checkpoint.

A run records the name by which its model was loaded. A folder may be recorded relative to where the
training ran; it is searched from here, and from each folder above the run.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forgetwatch.comparing.trajectory import Trajectory, this_stage
from forgetwatch.errors import SnapshotError
from forgetwatch.run_folder.contents import find_run_folder
from forgetwatch.run_folder.description import Description, own_checkpoint

CONFIG: Final = "config.json"


ADAPTER: Final = "adapter_config.json"
"""Files by which a folder is a model, or an adapter."""


UNKNOWN: Final = "BASE"
"""What stands in a command for a model whose place is not known."""


_ID: Final = re.compile(r"[\w.-]+/[\w.-]+|[\w-]+")
"""Id of a model of the hub; a relative folder may look the same."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """How a command names a model.

    Attributes:
        name: A folder that is there, an id of the hub, or `UNKNOWN`.
        note: What `UNKNOWN` stands for; else empty.
    """

    name: str
    note: str = ""


def place_of(meta: Mapping[str, Any], run: Path, *, loaded: str = "") -> Place:
    """Place of the model in the metadata of a snapshot.

    Args:
        meta: Metadata of the snapshot.
        run: The run folder or output_dir, above which a relative folder is searched.
        loaded: ``folder``, ``name`` or ``memory``, by which the run loaded it; empty if unknown.
    """
    recorded = str(meta.get("model") or "")
    if loaded == "memory" or recorded in ("", "model"):
        return Place(
            name=UNKNOWN, note=f"{UNKNOWN} is the model before the training, which has no name here"
        )
    try:
        folder = next((path for path in _searched(recorded, run) if is_model(path)), None)
        was_folder = (
            loaded == "folder" or Path(recorded).is_absolute() or _is_in_a_folder(recorded, run)
        )
    except (OSError, ValueError):  # a model in memory may have any name
        folder, was_folder = None, True
    if folder is not None:
        return Place(name=str(folder))
    if _ID.fullmatch(recorded) and not was_folder:
        return Place(name=recorded)
    return Place(
        name=UNKNOWN, note=f"{UNKNOWN} is recorded as {recorded}, which is not found from here"
    )


def _searched(recorded: str, run: Path) -> list[Path]:
    here = Path(recorded)
    return (
        [here] if here.is_absolute() else [here, *(above / here for above in run.resolve().parents)]
    )


def _is_in_a_folder(recorded: str, run: Path) -> bool:
    # The first part is a folder here or above the run: what is in it is gone.
    top_folder, *rest = Path(recorded).parts
    return bool(rest) and any(path.is_dir() for path in _searched(top_folder, run))


def is_model(folder: Path) -> bool:
    """Does a folder hold a model or an adapter?"""
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
    """Places of the models of a run.

    `run` is the output_dir, or the run folder within.
    """
    run_path = Path(run)
    try:
        folder = find_run_folder(run_path)
        loaded = str(Description.read(folder).model.get("loaded", ""))
    except SnapshotError:
        folder, loaded = run_path, ""
    output_dir = run_path.parent if folder == run_path else run_path
    start = place_of(this_stage(trajectory).baseline.meta, folder, loaded=loaded)
    first_place = start if trajectory.stage is None else place_of(trajectory.baseline.meta, folder)
    end = own_checkpoint(output_dir, trajectory.final_step)
    is_there = end is not None and is_model(end)
    return RunPlaces(
        output_dir=output_dir, first=first_place, start=start, end=end if is_there else None
    )
